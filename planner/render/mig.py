"""A plan of MIG layouts for people: what it achieves, which GPUs are cut how, who leaves first, what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from planner.mig.plan import GpuLayout, MigPlan, PlacedInstance
from planner.plan_words import amount, reason
from planner.render.table import Column, Table


def changed_gpus(plan: MigPlan) -> list[GpuLayout]:
    """Return the GPUs that get another layout."""
    return [gpu for gpu in plan.gpus if gpu.created or len(gpu.keeps) != len(gpu.before)]


def headline(plan: MigPlan) -> str:
    """Return in one sentence what comes of the plan."""
    wanted = sum(line.count for line in plan.demand)
    met = sum(line.met for line in plan.demand)
    share = f"{met} of {amount(wanted, 'instance')}"
    gpus = amount(plan.cost.gpus_changed, "GPU")
    match plan.outcome:
        case "nothing-to-do" if not wanted:
            return "Nothing to do: no MIG instance is asked for."
        case "nothing-to-do":
            return f"Nothing to do: {share} {'is' if wanted == 1 else 'are'} there as things are."
        case "no-answer-in-time":
            return f"No answer within {plan.solver.time_limit_seconds:g} s: {share} are there as things are."
        case "infeasible":
            return f"Nothing can be cut for it: {share} {'is' if wanted == 1 else 'are'} there as things are."
    verb = "is" if plan.cost.gpus_changed == 1 else "are"
    return f"{gpus} on {amount(plan.cost.nodes_changed, 'node')} {verb} cut: {share} will be there."


def title_lines(plan: MigPlan) -> Iterator[Text | str]:
    """Yield the headline, how sure it is, and what it costs."""
    yield Text(headline(plan), style="bold")
    if plan.outcome != "nothing-to-do":
        if plan.solver.status == "optimal":
            yield "Proved: no other choice of GPUs and layouts is better."
        else:
            yield "Not proved: a better choice may exist."
    cost = plan.cost
    if plan.outcome == "plan":
        ended = f"{amount(cost.instances_destroyed, 'running instance')} destroyed"
        yield f"Cost: {amount(cost.pods_drained, 'pod')} drained, {ended}; whole GPUs idle: {_whole(plan)}."


def _whole(plan: MigPlan) -> str:
    return f"{plan.before.whole_gpus} before, {plan.after.whole_gpus} after"


def identity_line(plan: MigPlan) -> str:
    """Return which plan this is; nothing in it depends on the time, so that equal plans look equal."""
    return f"plan {plan.id}  for: {plan.goal}"


def demand_table(plan: MigPlan, *, wide: bool = False) -> Table:
    """Return what is wanted, and how much of it there will be."""
    columns = (
        Column("PROFILE"),
        Column("WANTED", right=True),
        Column("MET", right=True),
        Column("PRIORITY", right=True),
        Column("FROM"),
        *((Column("ON", shrinks=True), Column("PODS", shrinks=True)) if wide else ()),
    )
    rows = []
    for line in plan.demand:
        met = Text(str(line.met), style="" if line.met == line.count else "bold red")
        row: tuple[str | Text, ...] = (line.profile, str(line.count), met, str(line.priority), line.source)
        if wide:
            on = ", ".join(f"{profile} of {product}" for product, profile in line.accepts.items())
            row += (on or "nothing", ", ".join(line.pods) or "-")
        rows.append(row)
    return Table(columns, tuple(rows))


def gpu_table(plan: MigPlan, *, wide: bool = False, alike: bool = False) -> Table:
    """Return one row per GPU that changes; `alike` puts those of a node together that change alike."""
    columns = (
        Column("NODE", shrinks=True),
        Column("GPUS" if alike else "GPU", right=not alike),
        *((Column("PRODUCT", shrinks=True),) if wide else ()),
        Column("BEFORE", shrinks=True),
        Column("AFTER", shrinks=True),
        Column("DRAIN FIRST", shrinks=True),
        *((Column("RESET"), Column("PLACES", shrinks=True)) if wide else ()),
    )
    groups: dict[tuple[str, ...], list[GpuLayout]] = {}
    for number, gpu in enumerate(changed_gpus(plan)):
        key = (gpu.node, gpu.product, layout_text(gpu.before), layout_text(gpu.after), ",".join(gpu.drains))
        groups.setdefault(key if alike else (*key, str(number)), []).append(gpu)
    rows = []
    for gpus in groups.values():
        gpu = gpus[0]
        row: tuple[str | Text, ...] = (gpu.node, ranges([one.index for one in gpus]))
        row += (gpu.product,) if wide else ()
        drains = ", ".join(gpu.drains)
        row += (layout_text(gpu.before), layout_text(gpu.after), Text(drains or "-", style="yellow" if drains else ""))
        if wide:
            row += ("yes" if gpu.reset else "no", ", ".join(f"{i.profile}@{i.start}" for i in gpu.after))
        rows.append(row)
    return Table(columns, tuple(rows))


def layout_text(layout: Sequence[PlacedInstance]) -> str:
    """Return a layout in counts: `3g.40gb + 4 x 1g.10gb`; `whole` for a GPU without instances."""
    counts = Counter(instance.profile for instance in layout)
    ordered = sorted(counts.items(), key=lambda item: (-profile_size(item[0]), item[0]))
    return " + ".join(f"{n} x {profile}" if n > 1 else profile for profile, n in ordered) or "whole"


def profile_size(profile: str) -> int:
    """Return the compute slices that a profile's name tells, 0 when it tells none."""
    digits = profile.partition("g.")[0]
    return int(digits) if digits.isdigit() else 0


def ranges(indexes: Sequence[int]) -> str:
    """Return indexes as people write them: `0-3,7`."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][-1] == index - 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def unmet_table(plan: MigPlan) -> Table:
    """Return what will not be there, and why."""
    return Table(
        (Column("NOT MET"), Column("COUNT", right=True), Column("CODE"), Column("WHY", shrinks=True)),
        tuple((unmet.profile, str(unmet.count), unmet.code, unmet.message) for unmet in plan.unmet),
    )


def drain_table(plan: MigPlan) -> Table:
    """Return who leaves which GPU, and where it goes."""
    steps = {step.id: step for step in plan.steps}
    rows = []
    for drain in plan.drains:
        step = steps.get(drain.step)
        to = step.to_node if step is not None else reason(drain.code).sentence
        wave = str(step.wave) if step is not None else "-"
        rows.append((wave, drain.pod, f"{drain.node}/{drain.index}", to, step.pdb or "none" if step else "-"))
    columns = (
        Column("WAVE", right=True),
        Column("DRAIN", shrinks=True),
        Column("FROM GPU"),
        Column("TO", shrinks=True),
        Column("BUDGET", shrinks=True),
    )
    return Table(columns, tuple(rows))


def not_target_table(plan: MigPlan) -> Table:
    """Return every node that is left as it is whatever is wanted, and why."""
    return Table(
        (Column("NOT CHANGED", shrinks=True), Column("CODE"), Column("WHY", shrinks=True)),
        tuple((node.node, node.code, node.message or reason(node.code).sentence) for node in plan.not_targets),
    )


def not_target_line(plan: MigPlan) -> str:
    """Return how many nodes are left as they are, by code; empty when there are none."""
    if not plan.not_targets:
        return ""
    counts = Counter(node.code for node in plan.not_targets)
    told = ", ".join(f"{code} {count}" for code, count in sorted(counts.items(), key=lambda c: (-c[1], c[0])))
    return f"{amount(len(plan.not_targets), 'node')} with GPUs cannot be changed: {told}; -o wide names them"


def suggestion_lines(plan: MigPlan) -> Iterator[str]:
    """Yield for each workload that would fit on instances how that was reckoned."""
    for found in plan.suggestions:
        profiles = " or ".join(sorted(set(found.profiles.values())))
        yield f"suggestion: {found.workload} ({amount(found.pods, 'pod')} with a whole GPU) would fit on {profiles}:"
        yield f"  {found.arithmetic}"


def phase_table(plan: MigPlan) -> Table:
    """Return the objectives in their order, with what was reached and what was proved."""
    return Table(
        (Column("OBJECTIVE"), Column("REACHED", right=True), Column("BOUND", right=True), Column("STATUS")),
        tuple((p.name, f"{p.value:g}", f"{p.bound:g}", p.status) for p in plan.solver.phases),
    )


def label_table(plan: MigPlan) -> Table:
    """Return the label of each node that changes."""
    return Table((Column("NODE"), Column("nvidia.com/mig.config")), tuple(sorted(plan.node_labels.items())))

"""The model of quotas: how many replicas each queue is guaranteed, and where all of them are at the same time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from planner.models.light_ortools import cp_model
from planner.models.quota_case import SHARE_SCALE, Claim, QuotaCase, most_islands, steps_of
from planner.quota.rooms import NodeClass

BASELINE, RESERVE, IN_USE = "GPUs of baselines missing", "GPUs of the reserve missing", "GPUs in use that lose quota"
SHARES, GUARANTEED, CHANGED = "shares by weight", "GPUs guaranteed", "GPUs of quota changed"
PREFERRED = "GPUs in later flavors"

Single = Mapping[int, cp_model.IntVar]
Pair = Mapping[tuple[int, int], cp_model.IntVar]
Triple = Mapping[tuple[int, int, int], cp_model.IntVar]


@dataclass(frozen=True, slots=True)
class QuotaVars:
    """The decision variables.

    Attributes
    ----------
    islands
        [h, f]: nominal quota of holder h in flavor f, in islands of the holder.
    replicas
        [c, f]: guaranteed replicas of claim c in flavor f.
    kept
        [s, f]: pods of kind s that stay in reserve in flavor f.
    nodes
        [k, p]: nodes of class k that hold pattern p.
    lots
        [k, s, f]: pods of kind s on nodes of class k that count for flavor f; only where flavors overlap.
    missing
        [c]: replicas of the baseline of claim c that have no quota.
    short
        [s]: pods of kind s that the reserve lacks.
    lost
        [h, f]: GPUs in use within today's quota that are not within the new one.
    changed
        [h, f]: GPUs by which the quota changes.
    steps
        [h, i]: islands of holder h within step i of its share.
    """

    islands: Pair
    replicas: Pair
    kept: Pair
    nodes: Pair
    lots: Triple
    missing: Single
    short: Single
    lost: Pair
    changed: Pair
    steps: Pair

    def all(self) -> Iterator[cp_model.IntVar]:
        """Yield every variable."""
        yield from self.lots.values()
        for singles in (self.missing, self.short):
            yield from singles.values()
        for pairs in (self.islands, self.replicas, self.kept, self.nodes, self.lost, self.changed, self.steps):
            yield from pairs.values()


@dataclass(frozen=True, slots=True)
class Term:
    """One objective: the sum of weight x variable; larger is better when `maximise`."""

    name: str
    parts: tuple[tuple[cp_model.IntVar, int], ...]
    maximise: bool = False
    # What one unit of the objective is, for people; the value is divided by it.
    scale: int = 1


def variables_of(case: QuotaCase, model: cp_model.CpModel) -> QuotaVars:
    """Return the variables, each with the tightest domain that the case alone gives."""

    def new(most: int, name: str) -> cp_model.IntVar:
        return model.new_int_var(0, max(0, most), name)

    islands: dict[tuple[int, int], cp_model.IntVar] = {}
    replicas, lost, changed, steps, nodes = dict(islands), dict(islands), dict(islands), dict(islands), dict(islands)
    lots: dict[tuple[int, int, int], cp_model.IntVar] = {}
    for h, holder in enumerate(case.holders):
        room = most_islands(case, h)
        for f in holder.flavors:
            today = holder.today.get(f, 0)
            islands[h, f] = new(room[f], f"islands[{h},{f}]")
            lost[h, f] = new(min(today, holder.in_use.get(f, 0)), f"lost[{h},{f}]")
            changed[h, f] = new(max(today, room[f] * holder.island), f"changed[{h},{f}]")
        for i, step in enumerate(steps_of(case, h)):
            steps[h, i] = new(step.length, f"steps[{h},{i}]")
    for c, claim in enumerate(case.claims):
        for f in claim.flavors:
            most = case.room(f) // case.gpus(claim)
            replicas[c, f] = new(most if claim.most is None else min(most, claim.most), f"replicas[{c},{f}]")
    for k, node_class in enumerate(case.classes):
        for p in range(len(node_class.patterns)):
            nodes[k, p] = new(len(node_class.nodes), f"nodes[{k},{p}]")
        for s in range(len(case.kinds)) if len(node_class.flavors) > 1 else ():
            most = len(node_class.nodes) * max(pattern[s] for pattern in node_class.patterns)
            for f in node_class.flavors:
                lots[k, s, f] = new(most, f"lots[{k},{s},{f}]")
    return QuotaVars(
        islands=islands,
        replicas=replicas,
        kept={(s, f): new(n, f"kept[{s},{f}]") for s, n in case.reserve.items() for f in range(case.flavors)},
        nodes=nodes,
        lots=lots,
        missing={c: new(claim.baseline, f"missing[{c}]") for c, claim in enumerate(case.claims)},
        short={s: new(n, f"short[{s}]") for s, n in case.reserve.items()},
        lost=lost,
        changed=changed,
        steps=steps,
    )


def add_quota_is_whole_replicas(case: QuotaCase, v: QuotaVars, model: cp_model.CpModel) -> None:
    """For every holder h, flavor f: sum over its claims c of gpus(c) x replicas[c, f] = island(h) x islands[h, f]."""
    for (h, f), islands in v.islands.items():
        inside = sum(case.gpus(c) * v.replicas[i, f] for i, c in case.claims_of(h) if f in c.flavors)
        model.add(inside == case.holders[h].island * islands)


def add_replica_limits(case: QuotaCase, v: QuotaVars, model: cp_model.CpModel) -> None:
    """For every claim c with a limit: sum over f of replicas[c, f] <= most(c)."""
    for c, claim in enumerate(case.claims):
        if claim.most is not None and claim.flavors:
            model.add(sum(v.replicas[c, f] for f in claim.flavors) <= claim.most)


def add_quota_limits(case: QuotaCase, v: QuotaVars, model: cp_model.CpModel) -> None:
    """For every holder h with a limit: island(h) x sum over f of islands[h, f] <= limit(h)."""
    for h, holder in enumerate(case.holders):
        if holder.limit is not None and holder.flavors:
            model.add(sum(v.islands[h, f] for f in holder.flavors) <= holder.limit // holder.island)


def add_baselines(case: QuotaCase, v: QuotaVars, model: cp_model.CpModel) -> None:
    """For every claim c: sum over f of replicas[c, f] + missing[c] >= baseline(c)."""
    for c, claim in enumerate(case.claims):
        if claim.baseline:
            model.add(sum(v.replicas[c, f] for f in claim.flavors) + v.missing[c] >= claim.baseline)


def add_reserve(case: QuotaCase, v: QuotaVars, model: cp_model.CpModel) -> None:
    """For every kind s in reserve: sum over f of kept[s, f] + short[s] >= reserve(s)."""
    for s, pods in case.reserve.items():
        model.add(sum(v.kept[s, f] for f in range(case.flavors)) + v.short[s] >= pods)


def add_placement(case: QuotaCase, v: QuotaVars, model: cp_model.CpModel) -> None:
    """For every flavor f and kind s: pods guaranteed and kept in reserve <= places for s on the nodes of f.

    The places are the sum over the classes of f and their patterns p of p[s] x nodes[k, p]; where a class belongs to
    several flavors, the lots of f there.
    """
    for f in range(case.flavors):
        for s in range(len(case.kinds)):
            places = [
                v.lots[k, s, f] if len(node_class.flavors) > 1 else pattern[s] * v.nodes[k, p]
                for k, node_class in enumerate(case.classes)
                if f in node_class.flavors
                for p, pattern in enumerate(node_class.patterns)
                if pattern[s] and (len(node_class.flavors) == 1 or p == _first_with(node_class, s))
            ]
            pods = [
                claim.pods * v.replicas[c, f]
                for c, claim in enumerate(case.claims)
                if claim.kind == s and f in claim.flavors
            ]
            if s in case.reserve:
                pods.append(v.kept[s, f])
            if pods:
                model.add(sum(pods) <= sum(places))


def _first_with(node_class: NodeClass, s: int) -> int:
    return next(p for p, pattern in enumerate(node_class.patterns) if pattern[s])


def add_lots(case: QuotaCase, v: QuotaVars, model: cp_model.CpModel) -> None:
    """For every class k of several flavors, kind s: sum over f of lots[k, s, f] <= sum over p of p[s] x nodes[k, p]."""
    for k, node_class in enumerate(case.classes):
        if len(node_class.flavors) > 1:
            for s in range(len(case.kinds)):
                places = sum(pattern[s] * v.nodes[k, p] for p, pattern in enumerate(node_class.patterns))
                model.add(sum(v.lots[k, s, f] for f in node_class.flavors) <= places)


def add_one_pattern_per_node(case: QuotaCase, v: QuotaVars, model: cp_model.CpModel) -> None:
    """For every class k: sum over p of nodes[k, p] <= number of its nodes."""
    for k, node_class in enumerate(case.classes):
        model.add(sum(v.nodes[k, p] for p in range(len(node_class.patterns))) <= len(node_class.nodes))


def add_use(case: QuotaCase, v: QuotaVars, model: cp_model.CpModel) -> None:
    """For every holder h, flavor f: island(h) x islands[h, f] + lost[h, f] >= what is in use within today's quota."""
    for (h, f), lost in v.lost.items():
        holder = case.holders[h]
        held = min(holder.today.get(f, 0), holder.in_use.get(f, 0))
        if held:
            model.add(holder.island * v.islands[h, f] + lost >= held)


def add_change(case: QuotaCase, v: QuotaVars, model: cp_model.CpModel) -> None:
    """For every holder h and flavor f: changed[h, f] >= |island(h) x islands[h, f] - today(h, f)|."""
    for (h, f), changed in v.changed.items():
        holder = case.holders[h]
        new, today = holder.island * v.islands[h, f], holder.today.get(f, 0)
        model.add(changed >= new - today)
        model.add(changed >= today - new)


def add_steps(case: QuotaCase, v: QuotaVars, model: cp_model.CpModel) -> None:
    """For every holder h: sum over i of steps[h, i] <= sum over f of islands[h, f]."""
    by_holder: defaultdict[int, list[cp_model.IntVar]] = defaultdict(list)
    for (h, _), step in v.steps.items():
        by_holder[h].append(step)
    for h, steps in by_holder.items():
        model.add(sum(steps) <= sum(v.islands[h, f] for f in case.holders[h].flavors))


RULES: tuple[Callable[[QuotaCase, QuotaVars, cp_model.CpModel], None], ...] = (
    add_quota_is_whole_replicas,
    add_replica_limits,
    add_quota_limits,
    add_baselines,
    add_reserve,
    add_placement,
    add_lots,
    add_one_pattern_per_node,
    add_use,
    add_change,
    add_steps,
)


def terms_of(case: QuotaCase, v: QuotaVars) -> tuple[Term, ...]:
    """Return the objectives in their order; those that cannot be anything but 0 are left out."""
    heaviest = max((holder.weight for holder in case.holders), default=1.0)

    def importance(claim: Claim) -> int:
        return max(1, round(100 * case.holders[claim.holder].weight / heaviest))

    missing = [(v.missing[c], case.gpus(claim)) for c, claim in enumerate(case.claims) if claim.baseline]
    whose = [
        (v.missing[c], importance(claim) * case.gpus(claim)) for c, claim in enumerate(case.claims) if claim.baseline
    ]
    held = [(lost, 1) for (h, f), lost in v.lost.items() if case.holders[h].in_use.get(f, 0)]
    value = {(h, i): step.value for h in range(len(case.holders)) for i, step in enumerate(steps_of(case, h))}
    later = [
        (islands, case.holders[h].island * place)
        for (h, f), islands in v.islands.items()
        if (place := case.holders[h].flavors.index(f))
    ]
    terms = (
        Term(BASELINE, tuple(missing)),
        Term("GPUs of baselines missing, by weight", tuple(whose), scale=100),
        Term(RESERVE, tuple((v.short[s], case.kinds[s].shape.gpus) for s in case.reserve)),
        Term(IN_USE, tuple(held)),
        Term(SHARES, tuple((step, value[key]) for key, step in v.steps.items()), maximise=True, scale=SHARE_SCALE),
        Term(
            GUARANTEED,
            tuple((islands, case.holders[h].island) for (h, _), islands in v.islands.items()),
            maximise=True,
        ),
        Term(CHANGED, tuple((changed, 1) for changed in v.changed.values())),
        Term(PREFERRED, tuple(later)),
    )
    return tuple(term for term in terms if term.parts)


def build(case: QuotaCase) -> tuple[cp_model.CpModel, QuotaVars]:
    """Return the model with all its rules, and its variables; it has no objective yet."""
    model = cp_model.CpModel()
    variables = variables_of(case, model)
    for rule in RULES:
        rule(case, variables, model)
    return model, variables

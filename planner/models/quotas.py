"""How many replicas each queue is guaranteed, and where all of them are at the same time.

Nodes that are alike are one class; a solution says how many nodes of a class hold which pattern of replicas, so that
its size does not grow with the nodes. Amounts are GPUs, replicas and nodes; all are whole numbers.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from planner.models.light_ortools import cp_model
from planner.models.solve import LEAST_SECONDS, SHARE_OF_PHASE, OnProgress, Progress, SolveStatus
from planner.models.stoppable import until_stopped
from planner.options import SolveLimits
from planner.plan import Phase
from planner.quota.rooms import Kind, NodeClass, gpus_of_pattern

# A share of the heaviest queue's first island; fine enough that no two steps of a share are rounded into one.
SHARE_SCALE = 10**9
# So many islands of a queue are valued one by one, and then in steps that grow by a quarter.
SINGLE_STEPS = 8
# What an island within today's quota is worth beyond its share, so that nothing moves between equal shares.
TODAY_BONUS = SHARE_SCALE // 10**6

BASELINE, RESERVE, IN_USE = "GPUs of baselines missing", "GPUs of the reserve missing", "GPUs in use that lose quota"
SHARES, GUARANTEED, CHANGED = "shares by weight", "GPUs guaranteed", "GPUs of quota changed"
PREFERRED = "GPUs in later flavors"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds quota: a ClusterQueue, or a Cohort with a pool of its own.

    Attributes
    ----------
    island
        GPUs that its quota comes in multiples of.
    weight
        Share of what is left after baselines, against the other holders; above 0.
    flavors
        Flavors that it may use, by index, in order of preference.
    today, in_use
        GPUs of its quota now, and GPUs that it holds, by flavor.
    wanted
        GPUs beyond which more are of no use to it; None for no end.
    limit
        GPUs that its quota may have in all; None for no limit.
    """

    name: str
    island: int
    weight: float
    flavors: tuple[int, ...]
    today: Mapping[int, int]
    in_use: Mapping[int, int]
    wanted: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Replicas of one kind that a holder's quota is for.

    Attributes
    ----------
    holder, kind
        Indices into the case.
    pods
        Pods of one replica; each is placed on a node of its own or beside others.
    flavors
        Flavors that the replicas may use, by index; those of the holder or fewer.
    baseline
        Replicas that must be there.
    most
        Replicas that the quota may be for; None for no limit.
    """

    holder: int
    kind: int
    pods: int
    flavors: tuple[int, ...]
    baseline: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class QuotaCase:
    """All that the model knows.

    Attributes
    ----------
    reserve
        Pods by kind that no quota may be for.
    """

    flavors: int
    kinds: tuple[Kind, ...]
    classes: tuple[NodeClass, ...]
    holders: tuple[Holder, ...]
    claims: tuple[Claim, ...]
    reserve: Mapping[int, int]

    def gpus(self, claim: Claim) -> int:
        """Return the GPUs of one replica of a claim."""
        return claim.pods * self.kinds[claim.kind].shape.gpus

    def room(self, flavor: int) -> int:
        """Return the most GPUs that replicas can take on the nodes of a flavor."""
        return sum(
            len(c.nodes) * max(gpus_of_pattern(pattern, self.kinds) for pattern in c.patterns)
            for c in self.classes
            if flavor in c.flavors
        )

    def claims_of(self, holder: int) -> Iterator[tuple[int, Claim]]:
        """Yield the claims of a holder with their indices."""
        return ((i, claim) for i, claim in enumerate(self.claims) if claim.holder == holder)


# There always is a solution: the one that is hinted. Whatever else comes is a mistake in the model.
_STATUS: Mapping[object, SolveStatus] = {
    cp_model.OPTIMAL: SolveStatus.OPTIMAL,
    cp_model.FEASIBLE: SolveStatus.FEASIBLE,
    cp_model.UNKNOWN: SolveStatus.UNKNOWN,
}

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
class Step:
    """Islands of a holder that are worth the same each: up to `length` of them, `value` each."""

    length: int
    value: int


@dataclass(frozen=True, slots=True)
class Term:
    """One objective: the sum of weight x variable; larger is better when `maximise`."""

    name: str
    parts: tuple[tuple[cp_model.IntVar, int], ...]
    maximise: bool = False
    # What one unit of the objective is, for people; the value is divided by it.
    scale: int = 1


def most_islands(case: QuotaCase, h: int) -> dict[int, int]:
    """Return by flavor how many islands of a holder could fit at best."""
    holder = case.holders[h]
    return {
        f: min(case.room(f), holder.limit if holder.limit is not None else case.room(f)) // holder.island
        for f in holder.flavors
    }


def steps_of(case: QuotaCase, h: int) -> tuple[Step, ...]:
    """Return the share of a holder in steps of falling worth.

    The k-th island of a holder with weight w is worth w / k, so that GPUs are shared like the weights: of two holders,
    the next GPU goes to the one that has less in relation to its weight. One step ends at today's quota and islands
    before it are worth a trifle more, so that quotas which are shared like the weights already stay.
    """
    holder = case.holders[h]
    end = sum(most_islands(case, h).values())
    if holder.wanted is not None:
        end = min(end, -(-holder.wanted // holder.island))
    heaviest = max(other.weight for other in case.holders)
    today = sum(holder.today.values()) // holder.island
    stops = {end, today, *range(1, SINGLE_STEPS + 1)}
    reached = float(SINGLE_STEPS)
    while reached < end:
        reached *= 1.25
        stops.add(int(reached))
    steps, start = [], 0
    for stop in sorted(stop for stop in stops if 0 < stop <= end):
        worth = sum(1 / k for k in range(start + 1, stop + 1)) / (stop - start)
        value = max(1, round(SHARE_SCALE * holder.weight / heaviest * worth))
        steps.append(Step(stop - start, value + (TODAY_BONUS if stop <= today else 0)))
        start = stop
    return tuple(steps)


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


@dataclass(frozen=True, slots=True)
class QuotaSolution:
    """What was found.

    Attributes
    ----------
    nominal
        GPUs by (holder, flavor).
    replicas
        Guaranteed replicas by (claim, flavor).
    missing, short
        Replicas that baselines lack by claim; pods that the reserve lacks by kind.
    places
        (claim, flavor, node) -> pods: all guaranteed replicas at the same time.
    reserved
        (kind, flavor, node) -> pods that stay in reserve.
    """

    nominal: Mapping[tuple[int, int], int]
    replicas: Mapping[tuple[int, int], int]
    missing: Mapping[int, int]
    short: Mapping[int, int]
    places: Mapping[tuple[int, int, str], int]
    reserved: Mapping[tuple[int, int, str], int]
    phases: tuple[Phase, ...]
    status: SolveStatus
    interrupted: bool = False


def build(case: QuotaCase) -> tuple[cp_model.CpModel, QuotaVars]:
    """Return the model with all its rules, and its variables; it has no objective yet."""
    model = cp_model.CpModel()
    variables = variables_of(case, model)
    for rule in RULES:
        rule(case, variables, model)
    return model, variables


def nothing(case: QuotaCase, v: QuotaVars) -> dict[int, int]:
    """Return the solution in which nobody gets any quota, by index of the variable; it is always allowed."""
    values = {variable.index: 0 for variable in v.all()}
    values |= {v.missing[c].index: claim.baseline for c, claim in enumerate(case.claims)}
    values |= {v.short[s].index: pods for s, pods in case.reserve.items()}
    for (h, f), lost in v.lost.items():
        today = case.holders[h].today.get(f, 0)
        values[lost.index] = min(today, case.holders[h].in_use.get(f, 0))
        values[v.changed[h, f].index] = today
    return values


def tight(case: QuotaCase, v: QuotaVars, values: Mapping[int, int]) -> dict[int, int]:
    """Return a solution with what follows from its quotas (missing, lost, changed, ...) as small as it can be."""
    exact = dict(values)
    for c, claim in enumerate(case.claims):
        exact[v.missing[c].index] = max(0, claim.baseline - sum(values[v.replicas[c, f].index] for f in claim.flavors))
    for s, pods in case.reserve.items():
        exact[v.short[s].index] = max(0, pods - sum(values[v.kept[s, f].index] for f in range(case.flavors)))
    left = {h: sum(values[v.islands[h, f].index] for f in case.holders[h].flavors) for h in range(len(case.holders))}
    for (h, f), islands in v.islands.items():
        holder = case.holders[h]
        new, today = holder.island * values[islands.index], holder.today.get(f, 0)
        exact[v.lost[h, f].index] = max(0, min(today, holder.in_use.get(f, 0)) - new)
        exact[v.changed[h, f].index] = abs(new - today)
    # Steps are worth less and less, so the first ones are taken first.
    for h, islands_left in left.items():
        for i, step in enumerate(steps_of(case, h)):
            exact[v.steps[h, i].index] = min(step.length, islands_left)
            islands_left -= exact[v.steps[h, i].index]
    return exact


def solve(case: QuotaCase, limits: SolveLimits, on_progress: OnProgress | None = None) -> QuotaSolution:
    """Return the best quotas that the time allows; there always are some, at worst none for anybody."""
    started = time.monotonic()
    model, v = build(case)
    best, phases, interrupted = nothing(case, v), [], False
    terms = terms_of(case, v)
    for number, term in enumerate(terms):
        left = max(LEAST_SECONDS, limits.time_limit_seconds - (time.monotonic() - started))
        seconds = left if number + 1 == len(terms) else max(LEAST_SECONDS, left * SHARE_OF_PHASE)
        phase, best, interrupted = _phase(model, v, term, tight(case, v, best), limits, seconds, on_progress)
        phases.append(phase)
        if interrupted:
            break
    proved = not interrupted and all(phase.status == SolveStatus.OPTIMAL for phase in phases)
    status = SolveStatus.OPTIMAL if proved else SolveStatus.FEASIBLE
    places, reserved = _named(case, v, best)
    return QuotaSolution(
        nominal={(h, f): case.holders[h].island * best[i.index] for (h, f), i in v.islands.items()},
        replicas={key: best[count.index] for key, count in v.replicas.items()},
        missing={c: best[v.missing[c].index] for c in range(len(case.claims))},
        short={s: best[v.short[s].index] for s in case.reserve},
        places=places,
        reserved=reserved,
        phases=tuple(phases),
        status=status,
        interrupted=interrupted,
    )


def _phase(
    model: cp_model.CpModel,
    v: QuotaVars,
    term: Term,
    best: Mapping[int, int],
    limits: SolveLimits,
    seconds: float,
    on_progress: OnProgress | None,
) -> tuple[Phase, dict[int, int], bool]:
    """Optimise one term, fix what was reached, and return the phase, the solution, and whether the user broke in."""
    started = time.monotonic()
    objective = sum(variable * weight for variable, weight in term.parts)
    # The method has no types of its own.
    cast("Callable[[], None]", model.clear_hints)()
    for variable in v.all():
        model.add_hint(variable, best[variable.index])
    (model.maximize if term.maximise else model.minimize)(objective)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = limits.workers
    solver.parameters.random_seed = limits.seed
    report = _Reporter(term, started, on_progress) if on_progress is not None else None
    code, interrupted = until_stopped(solver, model, report)
    status = _STATUS.get(code)
    if status is None:
        raise RuntimeError(f"the model of phase {term.name!r} is not valid: {model.validate() or 'infeasible'}")
    spent = time.monotonic() - started
    found = dict(best)
    value = bound = float(sum(best[variable.index] * weight for variable, weight in term.parts))
    if status is not SolveStatus.UNKNOWN:
        found = {variable.index: solver.value(variable) for variable in v.all()}
        value = float(solver.objective_value)
    if not interrupted:
        bound = float(solver.best_objective_bound)
    status = SolveStatus.OPTIMAL if status is SolveStatus.OPTIMAL else SolveStatus.FEASIBLE
    if term.name == SHARES:
        # The worth of a share has more digits than the search copes with as a rule; that nobody loses any is as good.
        _hold_shares(v, found, model)
    elif term.maximise:
        model.add(objective >= round(value))
    else:
        model.add(objective <= round(value))
    shown = [round(number / term.scale, 3) + 0.0 for number in (value, bound)]
    return Phase(term.name, shown[0], shown[1], status.value, round(spent, 3)), found, interrupted


def _hold_shares(v: QuotaVars, found: Mapping[int, int], model: cp_model.CpModel) -> None:
    """For every holder h: sum over f of islands[h, f] >= what was found."""
    by_holder: defaultdict[int, list[cp_model.IntVar]] = defaultdict(list)
    for (h, _), islands in v.islands.items():
        by_holder[h].append(islands)
    for islands_of in by_holder.values():
        model.add(sum(islands_of) >= sum(found[islands.index] for islands in islands_of))


class _Reporter(cp_model.CpSolverSolutionCallback):
    """Hands every better solution on."""

    def __init__(self, term: Term, started: float, on_progress: OnProgress) -> None:
        super().__init__()
        self._term, self._started, self._on_progress = term, started, on_progress

    def on_solution_callback(self) -> None:
        """Report the solution that was just found."""
        best, bound = (number / self._term.scale for number in (self.objective_value, self.best_objective_bound))
        seconds = time.monotonic() - self._started
        self._on_progress(Progress(self._term.name, best + 0.0, bound + 0.0, seconds))


def _named(
    case: QuotaCase, v: QuotaVars, values: Mapping[int, int]
) -> tuple[dict[tuple[int, int, str], int], dict[tuple[int, int, str], int]]:
    """Return which pods are on which node: the patterns are laid out over the nodes of a class in their order."""
    free = _places(case, v, values)
    places: defaultdict[tuple[int, int, str], int] = defaultdict(int)
    reserved: defaultdict[tuple[int, int, str], int] = defaultdict(int)
    for c, claim in enumerate(case.claims):
        for f in claim.flavors:
            for node, pods in _taken(free[f, claim.kind], claim.pods * values[v.replicas[c, f].index]):
                places[c, f, node] += pods
    for (s, f), kept in v.kept.items():
        for node, pods in _taken(free[f, s], values[kept.index]):
            reserved[s, f, node] += pods
    return dict(places), dict(reserved)


def _places(
    case: QuotaCase, v: QuotaVars, values: Mapping[int, int]
) -> defaultdict[tuple[int, int], list[list[str | int]]]:
    """Return [node, pods] of every place, by flavor and kind."""
    free: defaultdict[tuple[int, int], list[list[str | int]]] = defaultdict(list)
    for k, node_class in enumerate(case.classes):
        nodes = iter(node_class.nodes)
        laid = [
            (next(nodes), pattern)
            for p, pattern in enumerate(node_class.patterns)
            for _ in range(values[v.nodes[k, p].index])
        ]
        for s in range(len(case.kinds)):
            here: list[list[str | int]] = [[node, pattern[s]] for node, pattern in laid if pattern[s]]
            if len(node_class.flavors) == 1:
                free[node_class.flavors[0], s] += here
                continue
            for f in node_class.flavors:
                lots = _taken(here, values[v.lots[k, s, f].index])
                free[f, s] += [[node, pods] for node, pods in lots]
    return free


def _taken(places: list[list[str | int]], pods: int) -> Sequence[tuple[str, int]]:
    """Take places for pods from the front, and return (node, pods)."""
    taken: list[tuple[str, int]] = []
    while pods:
        node, free = cast("tuple[str, int]", places[0])
        here = min(free, pods)
        taken.append((node, here))
        pods -= here
        if here == free:
            places.pop(0)
        else:
            places[0][1] = free - here
    return taken

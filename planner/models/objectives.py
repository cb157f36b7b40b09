"""The objectives of the model, in the order of their importance; indexes are those of `planner.models.variables`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from planner.models.classes import PodType
from planner.models.light_ortools import cp_model
from planner.models.patterns import capacity_of, capacity_of_count
from planner.models.variables import Case, MoveVars, nodes_left_at, restarting_pods

# So many moves a GPU of the lowest priority is about worth.
GPU_GUIDES = 4


@dataclass(frozen=True, slots=True)
class Term:
    """One objective: what it counts, in which unit, and whether more of it is better.

    Attributes
    ----------
    parts
        (variable, weight); the objective is their sum.
    at_most
        More than this is worth nothing.
    tier
        The tier of demand whose admission it counts.
    first
        True of what is admitted, and of what is disturbed for it, tier by tier.
    guide
        What one of it is about worth while a good start is looked for; 0 where that is no matter.
    """

    name: str
    unit: str
    maximise: bool
    parts: tuple[tuple[cp_model.IntVar, int], ...]
    at_most: int | None = None
    tier: int | None = None
    first: bool = False
    guide: int = 0


def terms_of(case: Case, v: MoveVars) -> tuple[Term, ...]:
    """Return the objectives, the most important first."""
    leaving = restarting_pods(case, v)
    terms: list[Term] = []
    for tier, priority in enumerate(case.classes.tiers):
        admitted = _admitted(case, v, tier)
        worth = GPU_GUIDES * (len(case.classes.tiers) - tier)
        name = f"GPUs admitted at priority {priority}"
        terms.append(Term(name, "GPUs", True, admitted, tier=tier, first=True, guide=worth))
        if tier + 1 < len(case.classes.tiers):
            below = len(case.classes.tiers) - tier - 1
            moved = _moved_of_rank(case.classes.types, leaving, below)
            name = f"replicas moved above priority {case.classes.tiers[tier + 1]}"
            terms.append(Term(name, "moves", False, moved, first=True, guide=1))
    if case.options.empty_nodes:
        parts, already = _empty_nodes(case, v)
        most = already + case.options.empty_nodes
        terms.append(Term("empty nodes", "nodes", True, parts, at_most=most))
    terms.append(Term("replicas moved", "moves", False, tuple(part for parts in leaving for part in parts), guide=1))
    if case.options.spare_nodes:
        terms.append(Term("empty nodes kept", "nodes", True, _empty_nodes(case, v)[0]))
    terms.append(Term("replicas without an island", "replicas", False, _linkless(case, v)))
    reload = tuple(
        (variable, count * case.classes.types[t].reload_seconds * case.classes.types[t].gpus)
        for t, parts in enumerate(leaving)
        for variable, count in parts
    )
    terms.append(Term("reload", "GPU-seconds", False, reload))
    terms.append(Term("room left", "GPUs of the mix / 1000", True, _room_left(case, v)))
    return tuple(term for term in terms if any(weight for _, weight in term.parts))


def _admitted(case: Case, v: MoveVars, tier: int) -> tuple[tuple[cp_model.IntVar, int], ...]:
    demands = case.classes.demands
    return tuple((variable, demands[d].gpus) for (d, _), variable in v.admit.items() if demands[d].rank == tier)


def _moved_of_rank(
    types: Sequence[PodType], leaving: Sequence[Sequence[tuple[cp_model.IntVar, int]]], below: int
) -> tuple[tuple[cp_model.IntVar, int], ...]:
    """Pods whose priority is above that of the `below` lowest tiers."""
    return tuple(part for kind, parts in zip(types, leaving, strict=True) if kind.rank >= below for part in parts)


def _empty_nodes(case: Case, v: MoveVars) -> tuple[tuple[tuple[cp_model.IntVar, int], ...], int]:
    """Return the terms whose sum is the empty nodes at the end, and how many are empty now."""

    def is_empty(site: int, room: int) -> bool:
        return room in case.islands[site].empty if site in case.islands else room == case.classes.sites[site].gpus

    parts = [part for (s, r), terms in nodes_left_at(case, v).items() if is_empty(s, r) for part in terms]
    already = 0
    for node_class, listed in zip(case.classes.classes, case.leavings, strict=True):
        with_links = node_class.site in case.islands and listed is not None
        room = listed[0].room if with_links and listed is not None else node_class.spare
        already += len(node_class.nodes) * is_empty(node_class.site, room)
    return tuple(parts), already


def _linkless(case: Case, v: MoveVars) -> tuple[tuple[cp_model.IntVar, int], ...]:
    parts = [(variable, 1) for (t, s), variable in v.go.items() if s in case.classes.types[t].linkless]
    parts += [(variable, 1) for (d, s), variable in v.admit.items() if s in case.classes.demands[d].linkless]
    for s, islands in case.islands.items():
        parts += [(v.cut[s, r, g], 1) for (r, g), step in islands.steps.items() if step.linkless]
        for r, fills in islands.fills.items():
            parts += [(v.fill[s, r, f], fill.linkless) for f, fill in enumerate(fills) if fill.linkless]
    return tuple(parts)


def _room_left(case: Case, v: MoveVars) -> tuple[tuple[cp_model.IntVar, int], ...]:
    weights: defaultdict[int, int] = defaultdict(int)
    by_index: dict[int, cp_model.IntVar] = {}
    for (s, r), terms in nodes_left_at(case, v).items():
        if s in case.islands:
            value = capacity_of(case.islands[s].states[r], case.mix)
        else:
            value = capacity_of_count(r, case.mix)
        for variable, weight in terms:
            weights[variable.index] += weight * value
            by_index[variable.index] = variable
    return tuple((by_index[index], weight) for index, weight in weights.items())

"""Why one node comes before another, in words: the first part of the score in which they differ."""

from __future__ import annotations

from islander.policy.explain import NodeExplanation, Parts

# Worded so that "X comes before Y: ..." reads well; in the order in which nodes are compared.
_ADVANTAGE = {
    "link": "its pick is joined by better links ({best} against {other})",
    "numa_nodes": "its pick spans fewer NUMA nodes",
    "island_likelihood": "it is likelier that kubelet picks an island",
    "room_kept": "less room for other replicas is lost",
    "packing": "it is used already, so that emptier nodes stay empty",
    "tightness": "fewer GPUs stay free there, so that larger gaps stay whole",
    "right_size": "its GPUs are smaller, so that large ones stay for large models",
}


def advantage(best: NodeExplanation, other: NodeExplanation) -> str:
    """Return why `best` comes before `other`; empty when they are equal or one of them is refused."""
    if best.parts is None or other.parts is None:
        return ""
    for part in Parts.__struct_fields__:
        if getattr(best.parts, part) != getattr(other.parts, part):
            text = _ADVANTAGE[part]
            return text.format(best=best.picks.worst_link or "?", other=other.picks.worst_link or "unknown links")
    return ""


def preference_line(ranked: list[NodeExplanation]) -> str:
    """Return one line on the best of several accepted nodes; empty when there is nothing to choose."""
    accepted = [node for node in ranked if node.accepted]
    if len(accepted) < 2:
        return ""
    best = accepted[0]
    for other in accepted[1:]:
        if why := advantage(best, other):
            return f"{best.name} comes before {other.name}: {why}."
    return f"{best.name} and {len(accepted) - 1} more are equal; the first by name is taken, so that one island breaks."

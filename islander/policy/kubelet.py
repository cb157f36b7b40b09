"""What kubelet offers to the device plugin when its Topology Manager aligns devices with NUMA nodes."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

from islander.hardware.links import Hardware, gpus_of, mask_of
from islander.policy.pick import NO_PICK, Picks, possible_picks

ALIGNING_POLICIES = frozenset({"best-effort", "restricted", "single-numa-node"})


@lru_cache(maxsize=1 << 16)
def kubelet_picks(hardware: Hardware, policy: str, free: int, size: int, required: int = 0) -> Picks:
    """Return the sets of GPUs that a container may get on a node with this Topology Manager policy.

    Empty although enough GPUs are free: kubelet would refuse the pod (`restricted`, `single-numa-node`).

    Parameters
    ----------
    policy
        `none`, `best-effort`, `restricted`, `single-numa-node`; anything else counts as `none`, kubelet's default.
    free, required
        Bit masks; `required` is what an init container of the same pod left over.

    Notes
    -----
    Hints of the CPU and memory managers are not known here. Where several NUMA sets are equally narrow they may turn
    the balance, so the picks of all of them are possible.

    References
    ----------
    kubernetes pkg/kubelet/cm/devicemanager/{topology_hints,manager}.go, pkg/kubelet/cm/topologymanager/policy*.go.
    """
    if policy not in ALIGNING_POLICIES or any(node is None for node in hardware.numa):
        return possible_picks(hardware.plugin_links, free, size, required)
    if free.bit_count() < size:
        return NO_PICK
    offers = _narrowest_offers(hardware, policy, free, size, required)
    picks = [_pick_within(hardware, free & offer, size, required) for offer in offers]
    return Picks(
        tuple(sorted({chosen for pick in picks for chosen in pick.sets})),
        exact=all(pick.exact for pick in picks),
        may_fail=any(pick.may_fail for pick in picks),
    )


def _narrowest_offers(hardware: Hardware, policy: str, free: int, size: int, required: int) -> tuple[int, ...]:
    """Return the GPUs of each narrowest set of NUMA nodes with enough free GPUs; empty when kubelet would refuse."""
    gpus_by_node: dict[int, int] = {}
    for gpu, node in enumerate(hardware.numa):
        if node is not None:
            gpus_by_node[node] = gpus_by_node.get(node, 0) | 1 << gpu
    nodes = sorted(gpus_by_node)
    narrowest_ever = 0
    for width in range(1, len(nodes) + 1):
        groups = [sum(gpus_by_node[node] for node in group) for group in combinations(nodes, width)]
        if not narrowest_ever and any(group.bit_count() >= size for group in groups):
            # Preferred means: as narrow as the empty node would allow.
            narrowest_ever = width
        offers = tuple(group for group in groups if (group & free).bit_count() >= size and not required & ~group)
        if not offers:
            continue
        preferred = width == narrowest_ever
        if (policy == "single-numa-node" and width > 1) or (policy == "restricted" and not preferred):
            return ()
        return offers
    return ()


def _pick_within(hardware: Hardware, aligned: int, size: int, required: int) -> Picks:
    if aligned.bit_count() == size:
        # kubelet takes all aligned GPUs without asking the plugin.
        return Picks((aligned,))
    return possible_picks(hardware.plugin_links, aligned, size, required)


def pick_from_reusable(reusable: int, size: int) -> Picks:
    """Return the picks of a container that an init container's leftover GPUs satisfy: any of them, unordered."""
    sets = tuple(sorted(mask_of(chosen) for chosen in combinations(gpus_of(reusable), size)))
    return Picks(sets)

"""Instances that are wanted for one reason, and whole GPUs that pods wait for; what serves them, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from islander.cluster.pod import Pod
from islander.hardware.mig import Geometry, geometry_for, parse_profile_name
from planner.mig.fleet import MIXED, Fleet, FleetNode
from planner.mig.tolerance import product_of, tolerates


@dataclass(frozen=True, slots=True)
class Demand:
    """Instances that are wanted for one reason.

    Attributes
    ----------
    profile
        As it was asked for; of a model the profiles that can hold it, joined by ` or `.
    accepts
        (product, profile) that serve: a name means another size on another product, so each has its own.
    strategy
        MIG strategy under which the instances are asked for: mixed, single, or empty for either.
    pod
        One of the pods, which all may run on the same nodes; None when no pod is known.
    pods
        Keys of the pods, sorted.
    running
        True when the pods have their instances already; they ask for others only when theirs are taken away.
    why
        How a model's memory was reckoned; empty for anything else.
    beyond
        Instances that one pod asks for, when nodes of some product cannot have so many; these do not serve. Else 0.
    """

    profile: str
    count: int
    priority: int
    source: str
    accepts: tuple[tuple[str, str], ...]
    product: str = ""
    strategy: str = ""
    pod: Pod | None = None
    pods: tuple[str, ...] = ()
    running: bool = False
    why: str = ""
    beyond: int = 0

    def profile_on(self, product: str) -> str | None:
        """Return the profile that serves on a product, None when none does."""
        return dict(self.accepts).get(product)


@dataclass(frozen=True, slots=True)
class WholeNeed:
    """Whole GPUs that pods wait for, which must not be cut away from under them.

    Attributes
    ----------
    islands
        Sizes of the islands that one pod needs, all on one node, largest first.
    loose
        GPUs that it needs beside them, joined or not.
    running
        True for pods that have their GPU and would ask for another one when it is taken away.
    """

    islands: tuple[int, ...]
    loose: int
    priority: int
    pod: Pod
    pods: tuple[str, ...]
    running: bool = False

    @property
    def gpus(self) -> int:
        """GPUs of one pod."""
        return sum(self.islands) + self.loose


def geometries_in(fleet: Fleet) -> dict[str, Geometry]:
    """Return the geometry of each product of the fleet whose profiles are known, by product."""
    products = {gpu.product for node in fleet.nodes for gpu in node.gpus}
    products |= {product_of(node.node) for node in fleet.nodes}
    return {product: found for product in sorted(products) if (found := geometry_for(product)) is not None}


def may_run(demand: Demand, node: FleetNode) -> bool:
    """Return whether pods of the demand may use instances of the node, as far as labels and taints tell."""
    # Where labels do not tell, instances are offered under their own names.
    if not node.takes_pods or (demand.strategy and demand.strategy != (node.strategy or MIXED)):
        return False
    if any(too_new(product, profile, node) for product, profile in demand.accepts):
        return False
    return demand.pod is None or tolerates(demand.pod, node.node)


def too_new(product: str, profile: str, node: FleetNode) -> bool:
    """Return whether the node has GPUs of a product, and a driver that does not know the profile yet."""
    if node.driver is None or product not in (product_of(node.node), *(gpu.product for gpu in node.gpus)):
        return False
    geometry = geometry_for(product)
    found = geometry.profile(profile) if geometry is not None else None
    return found is not None and found.min_driver > node.driver


def accepting(profile: str, geometries: Mapping[str, Geometry]) -> tuple[tuple[str, str], ...]:
    """Return the profiles of this very name; where no product has it, those that a driver may have called so."""
    exact = tuple((label, name) for label, g in geometries.items() if (name := own_name(g, profile)))
    if exact:
        return exact
    return tuple((label, found.name) for label, g in geometries.items() if (found := g.profile(profile)) is not None)


def own_name(geometry: Geometry, profile: str) -> str:
    """Return the product's own name of a profile, empty when it has none of this very name."""
    asked = parse_profile_name(profile)
    return next((p.name for p in geometry.profiles if parse_profile_name(p.name) == asked), "")

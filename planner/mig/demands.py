"""All that is wanted of a cluster: by pods, by flags, by a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from islander.cluster.snapshot import ClusterSnapshot
from islander.hardware.mig import GEOMETRIES, Geometry, geometry_for, parse_profile_name
from islander.hardware.products import parse_product_label, product_by_label
from islander.policy.settings import PolicySettings
from planner.errors import PlannerError
from planner.mig.demand import Demand, WholeNeed, accepting, geometries_in, own_name
from planner.mig.fleet import Fleet
from planner.mig.memory import gib, usable_mib
from planner.mig.options import MigOptions, WantedModel, WantedProfile
from planner.mig.pod_demand import held_demands, pending_demands, whole_needs


@dataclass(frozen=True, slots=True)
class Demands:
    """All that is wanted, and what is uncertain about it."""

    instances: tuple[Demand, ...]
    wholes: tuple[WholeNeed, ...]
    warnings: tuple[str, ...] = ()


def demands_of(snapshot: ClusterSnapshot, fleet: Fleet, settings: PolicySettings, options: MigOptions) -> Demands:
    """Return what is wanted of a cluster, by priority, highest first.

    Raises
    ------
    PlannerError
        A profile that is asked for exists on no product at all, or a product is not known.
    """
    geometries = geometries_in(fleet)
    warnings: list[str] = []
    instances = [_of_profile(wanted, geometries) for wanted in options.profiles]
    instances += [_of_model(wanted, geometries) for wanted in options.models]
    running = held_demands(fleet, geometries, settings, warnings)
    pending = [] if options.asked else pending_demands(snapshot, fleet, geometries, settings, warnings)
    instances += pending + running
    return Demands(
        tuple(sorted(instances, key=lambda d: (-d.priority, d.running, d.profile, d.source, d.pods))),
        tuple(whole_needs(snapshot, settings)),
        tuple(warnings),
    )


def _of_profile(wanted: WantedProfile, geometries: Mapping[str, Geometry]) -> Demand:
    if parse_profile_name(wanted.profile) is None:
        raise PlannerError(f"{_where(wanted)}: {wanted.profile!r:.40} is no MIG profile; {_there(geometries)}")
    allowed = _restricted(wanted.product, geometries, _where(wanted))
    accepts = accepting(wanted.profile, allowed)
    if not accepts:
        table = [g for g in GEOMETRIES if own_name(g, wanted.profile)]
        if not table or wanted.product:
            on = f"product {wanted.product} has no" if wanted.product else "no product has a"
            raise PlannerError(f"{_where(wanted)}: {on} profile {wanted.profile}; {_there(allowed or geometries)}")
    return Demand(wanted.profile, wanted.count, wanted.priority, wanted.source, accepts=accepts, product=wanted.product)


def _of_model(wanted: WantedModel, geometries: Mapping[str, Geometry]) -> Demand:
    allowed = _restricted(wanted.product, geometries, f"{wanted.source}: product")
    accepts = tuple(
        (product, profile)
        for product, geometry in allowed.items()
        if (profile := smallest_profile(geometry, wanted.memory_mib)) is not None
    )
    profiles = sorted({profile for _, profile in accepts}) or [f"{gib(wanted.memory_mib)} GiB"]
    return Demand(
        " or ".join(profiles),
        wanted.replicas,
        wanted.priority,
        wanted.source,
        accepts=accepts,
        product=wanted.product,
        why=wanted.why,
    )


def smallest_profile(geometry: Geometry, memory_mib: int) -> str | None:
    """Return the plain profile with the least memory of which vLLM can use so much, None when none has enough.

    Of two with equal memory the one that takes less of the GPU.
    """
    plain = [p for p in geometry.profiles if not p.media.value and usable_mib(p.memory_mib) >= memory_mib]
    best = min(plain, key=lambda p: (p.memory_mib, p.sm_slices), default=None)
    return best.name if best is not None else None


def _restricted(product: str, geometries: Mapping[str, Geometry], where: str) -> dict[str, Geometry]:
    """Return the products of the fleet that a demand allows."""
    if not product:
        return dict(geometries)
    asked = product_by_label(parse_product_label(product).name)
    if asked is None or geometry_for(product) is None:
        raise PlannerError(f"{where}: no recommendation for product {product!r:.80}: its MIG profiles are not known")
    return {label: geometry for label, geometry in geometries.items() if product_by_label(label) is asked}


def _where(wanted: WantedProfile) -> str:
    return wanted.source if wanted.source != "demand file" else "demand file: profile"


def _there(geometries: Mapping[str, Geometry]) -> str:
    if not geometries:
        return "the cluster has no GPU whose MIG profiles are known"
    each = (f"{product} has {', '.join(p.name for p in g.profiles)}" for product, g in geometries.items())
    return "; ".join(each)

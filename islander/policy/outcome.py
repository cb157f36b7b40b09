"""What a whole pod may get: the picks of its containers, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from islander.cluster.pod import ContainerKind
from islander.hardware.links import Hardware
from islander.policy.kubelet import kubelet_picks, pick_from_reusable
from islander.policy.need import ContainerNeed


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way in which kubelet may serve a pod.

    Attributes
    ----------
    picks
        GPUs of each container, as bit masks, in the order of the containers.
    taken
        All GPUs that the pod holds once it runs.
    exact
        False when the outcome may in truth never come out.
    fails
        True when the device plugin may return a blank device, upon which kubelet refuses the pod.
    """

    picks: tuple[int, ...]
    taken: int
    exact: bool = True
    fails: bool = False


def possible_outcomes(
    hardware: Hardware, policy: str, free: int, containers: tuple[ContainerNeed, ...]
) -> Iterator[Outcome]:
    """Yield every way in which kubelet may serve the containers out of the free GPUs; nothing when it would refuse.

    kubelet admits container by container. What an ordinary init container used is handed on to the next ones first.
    """
    yield from _serve(hardware, policy, free, 0, containers, Outcome((), 0))


def _serve(
    hardware: Hardware, policy: str, free: int, reusable: int, containers: tuple[ContainerNeed, ...], so_far: Outcome
) -> Iterator[Outcome]:
    if not containers:
        yield so_far
        return
    container, *rest = containers
    if reusable.bit_count() >= container.gpus:
        picks = pick_from_reusable(reusable, container.gpus)
    else:
        picks = kubelet_picks(hardware, policy, free | reusable, container.gpus, reusable)
    if picks.may_fail:
        yield Outcome((), 0, exact=False, fails=True)
    for pick in picks.sets:
        stays = container.kind is not ContainerKind.INIT
        outcome = Outcome(
            (*so_far.picks, pick), so_far.taken | (pick if stays else 0), exact=so_far.exact and picks.exact
        )
        left_over = reusable & ~pick if stays else reusable | pick
        yield from _serve(hardware, policy, free & ~pick, left_over, tuple(rest), outcome)

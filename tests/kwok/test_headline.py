"""The headline: with Islander more large pods find room, and more pods get GPUs that NVLink joins."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.churn import Tally
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.headline import ISLANDER, MOST_ALLOCATED, STOCK, Headline, show

# kube-scheduler draws among equal nodes, so stock policies come out a little different each time. Where a first batch
# of streams does not show the difference, a second one is played and both count. tests/unit/policy/test_churn.py
# compares without chance.
BATCHES = ((1, 2, 3), (4, 5, 6))


@pytest.fixture(scope="module")
def own_control_plane(kube_minor: str) -> Iterator[ControlPlane]:
    """A control plane for these tests alone: they leave thousands of events behind."""
    with ControlPlane(kube_minor, scheduler=None) as control_plane:
        yield control_plane


@pytest.fixture
def headline(own_control_plane: ControlPlane, tmp_path: Path) -> Headline:
    return Headline(own_control_plane, tmp_path)


def test_more_eight_gpu_pods_find_room_on_nvswitch_nodes(headline: Headline) -> None:
    stock, most_allocated, islander = Tally(), Tally(), Tally()
    for seeds in BATCHES:
        outcomes = headline.on_switched_nodes(seeds, steps=1000)
        show(f"NVSwitch nodes, seeds {seeds} (stock: {seeds[0]}), 1,000 arrivals each", outcomes)
        for tally, policy in ((stock, STOCK), (most_allocated, MOST_ALLOCATED), (islander, ISLANDER)):
            tally.add(outcomes[policy].tally)
        if islander.share(8) >= most_allocated.share(8):
            break

    assert islander.offered == most_allocated.offered
    assert islander.share(8) >= most_allocated.share(8)
    assert islander.share(8) > stock.share(8)


def test_more_tensor_parallel_pods_get_an_nvlinked_pair_on_bridged_nodes(headline: Headline) -> None:
    outcomes = headline.on_bridged_nodes(seeds=(1,), steps=400)

    show("Bridged pairs, seed 1, 400 arrivals", outcomes)
    most_allocated, islander = outcomes[MOST_ALLOCATED], outcomes[ISLANDER]
    assert islander.tally.offered == most_allocated.tally.offered
    assert islander.linked_share > most_allocated.linked_share

"""The headline of tests/kwok/test_headline.py over more seeds; a run of each table takes several minutes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.headline import Headline, show


@pytest.fixture
def headline(tmp_path: Path) -> Iterator[Headline]:
    with ControlPlane(scheduler=None) as control_plane:
        yield Headline(control_plane, tmp_path)


@pytest.mark.bench
def test_large_pods_on_nvswitch_nodes(headline: Headline) -> None:
    outcomes = headline.on_switched_nodes(range(11, 21), steps=1000)

    show("NVSwitch nodes, seeds 11 to 20 (stock: 11), 1,000 arrivals each", outcomes)


@pytest.mark.bench
def test_linked_pairs_on_bridged_nodes(headline: Headline) -> None:
    outcomes = headline.on_bridged_nodes(range(11, 16), steps=600)

    show("Bridged pairs, seeds 11 to 15, 600 arrivals each", outcomes)

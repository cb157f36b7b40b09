"""The policy against kube-scheduler's MostAllocated on streams of pods that come and go, without a cluster."""

import pytest

from tests.bench.bench_policy import demand_mix, islander, most_allocated
from tests.bench.churn import MIXES, Choose, replay, stream

NODES = 32


@pytest.mark.parametrize("mix", ["serve", "large"])
def test_more_eight_gpu_pods_find_room_than_with_most_allocated(mix: str) -> None:
    streams = [stream(seed, MIXES[mix], nodes=NODES, steps=1000) for seed in range(1, 11)]

    def admitted(choose: Choose) -> int:
        return sum(replay(arrivals, choose, nodes=NODES, warm_up=100).admitted[8] for arrivals in streams)

    assert admitted(islander(demand_mix(MIXES[mix]))) > admitted(most_allocated)

from __future__ import annotations

from collections.abc import Sequence

from extender.demand import ObservedDemand
from islander.policy.demand import coarse_mix, mix_of
from islander.policy.need import PodNeed
from islander.policy.settings import DEFAULT_MIX, DemandMix, PolicySettings, Shape
from tests.builders import a_pod, a_snapshot


def renewed(demand: ObservedDemand) -> DemandMix:
    demand.renew(lambda _needs, _mix: None)
    return demand.mix()


def test_the_mix_follows_the_pods_once_enough_have_come() -> None:
    demand = ObservedDemand(PolicySettings())
    for i in range(19):
        demand.on_change("Pod", f"default/p{i}", None, a_pod(f"p{i}", gpus=4, tp=4))
    assert renewed(demand) == DEFAULT_MIX
    demand.on_change("Pod", "default/p19", None, a_pod("p19", gpus=4, tp=4))
    weights = dict(renewed(demand).weights)
    assert weights[Shape(4, island=True)] > weights[Shape(8, island=True)]


def test_a_few_pods_more_do_not_change_the_mix_of_many() -> None:
    """Every new mix means judging every state anew."""
    demand = ObservedDemand(PolicySettings())
    for i in range(1000):
        demand.on_change("Pod", f"default/p{i}", None, a_pod(f"p{i}", gpus=1))
    mix = renewed(demand)
    for i in range(50):
        demand.on_change("Pod", f"default/q{i}", None, a_pod(f"q{i}", gpus=8))
    assert renewed(demand) is mix
    for i in range(50, 120):
        demand.on_change("Pod", f"default/q{i}", None, a_pod(f"q{i}", gpus=8))
    assert renewed(demand) is not mix


def test_finished_pods_pods_without_gpus_and_changes_of_status_count_for_nothing() -> None:
    demand = ObservedDemand(PolicySettings())
    for i in range(40):
        demand.on_change("Pod", f"default/web{i}", None, a_pod(f"web{i}", gpus=0))
        done = a_pod(f"done{i}", gpus=8, node="n1", phase="Succeeded")
        demand.on_change("Pod", done.key, None, done)
        demand.on_change("Node", "n1", None, object())
    pod = a_pod("p", gpus=4)
    for phase in ["Pending", "Running"] * 20:
        demand.on_change("Pod", pod.key, pod, a_pod("p", gpus=4, node="n1", phase=phase))
    assert renewed(demand) == DEFAULT_MIX


def test_pods_that_are_gone_are_no_demand() -> None:
    demand = ObservedDemand(PolicySettings())
    pods = [a_pod(f"p{i}", gpus=4, tp=4) for i in range(20)]
    for pod in pods:
        demand.on_change("Pod", pod.key, None, pod)
    assert renewed(demand) != DEFAULT_MIX
    for pod in pods:
        demand.on_change("Pod", pod.key, pod, None)
    assert renewed(demand) == coarse_mix(DEFAULT_MIX)


def test_arrivals_in_the_usual_shares_leave_the_mix_as_it_is() -> None:
    demand = ObservedDemand(PolicySettings())
    shapes = [1, 1, 2, 4] * 100
    for i, gpus in enumerate(shapes[:240]):
        demand.on_change("Pod", f"default/p{i}", None, a_pod(f"p{i}", gpus=gpus, tp=gpus if gpus > 1 else None))
    mix = renewed(demand)
    for i, gpus in enumerate(shapes[240:300], start=240):
        demand.on_change("Pod", f"default/p{i}", None, a_pod(f"p{i}", gpus=gpus, tp=gpus if gpus > 1 else None))
    assert not demand.renew(lambda _needs, _mix: None)
    assert demand.mix() == mix


def test_a_mix_of_the_configuration_is_not_observed() -> None:
    fixed = DemandMix(((Shape(8, island=True), 1.0),))
    demand = ObservedDemand(PolicySettings(mix=fixed))
    assert demand.mix() is fixed
    for i in range(100):
        demand.on_change("Pod", f"default/p{i}", None, a_pod(f"p{i}", gpus=1))
    assert renewed(demand) is fixed


def test_judgements_are_made_before_a_new_mix_is_in_force() -> None:
    demand = ObservedDemand(PolicySettings())
    for i in range(30):
        demand.on_change("Pod", f"default/p{i}", None, a_pod(f"p{i}", gpus=1 if i < 20 else 4))
    prepared: list[tuple[list[int], DemandMix]] = []

    def prepare(needs: Sequence[PodNeed], mix: DemandMix) -> None:
        assert demand.mix() == DEFAULT_MIX
        prepared.append(([need.gpus for need in needs], mix))

    assert demand.renew(prepare)
    assert prepared == [([1, 4], demand.mix())], "the most frequent need first"
    assert not demand.renew(prepare), "nothing has changed since"


def test_the_mix_seen_is_that_of_this_moment_and_the_mix_in_force_is_renewed_rarely() -> None:
    demand = ObservedDemand(PolicySettings())
    pod = a_pod("p", gpus=4, tp=4)
    demand.on_change("Pod", pod.key, None, pod)
    assert demand.mix() == DEFAULT_MIX
    assert demand.mix_seen() == mix_of(a_snapshot(pod), PolicySettings())
    demand.on_change("Pod", pod.key, pod, None)
    assert demand.mix_seen() == DEFAULT_MIX

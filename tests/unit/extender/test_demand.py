from __future__ import annotations

from extender.demand import ObservedDemand, mix_source
from islander.policy.settings import DEFAULT_MIX, DemandMix, PolicySettings, Shape
from tests.builders import a_pod


def test_the_mix_follows_the_pods_once_enough_have_come() -> None:
    demand = ObservedDemand(PolicySettings())
    for i in range(19):
        demand.on_change("Pod", f"default/p{i}", None, a_pod(f"p{i}", gpus=4, tp=4))
    assert demand.mix() == DEFAULT_MIX
    demand.on_change("Pod", "default/p19", None, a_pod("p19", gpus=4, tp=4))
    weights = dict(demand.mix().weights)
    assert weights[Shape(4, island=True)] > weights[Shape(8, island=True)]


def test_a_few_pods_more_do_not_change_the_mix_of_many() -> None:
    """Every new mix means judging every state anew."""
    demand = ObservedDemand(PolicySettings())
    for i in range(1000):
        demand.on_change("Pod", f"default/p{i}", None, a_pod(f"p{i}", gpus=1))
    mix = demand.mix()
    for i in range(50):
        demand.on_change("Pod", f"default/q{i}", None, a_pod(f"q{i}", gpus=8))
    assert demand.mix() is mix
    for i in range(50, 120):
        demand.on_change("Pod", f"default/q{i}", None, a_pod(f"q{i}", gpus=8))
    assert demand.mix() is not mix


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
    assert demand.mix() == DEFAULT_MIX


def test_pods_that_are_gone_are_no_demand() -> None:
    demand = ObservedDemand(PolicySettings())
    pods = [a_pod(f"p{i}", gpus=4, tp=4) for i in range(20)]
    for pod in pods:
        demand.on_change("Pod", pod.key, None, pod)
    assert demand.mix() != DEFAULT_MIX
    for pod in pods:
        demand.on_change("Pod", pod.key, pod, None)
    assert demand.mix() == DEFAULT_MIX


def test_a_mix_of_the_configuration_is_not_observed() -> None:
    fixed = DemandMix(((Shape(8, island=True), 1.0),))
    settings = PolicySettings(mix=fixed)
    demand = ObservedDemand(settings)
    for i in range(100):
        demand.on_change("Pod", f"default/p{i}", None, a_pod(f"p{i}", gpus=1))
    assert mix_source(settings, demand)() is fixed
    assert mix_source(PolicySettings(), demand)() != DEFAULT_MIX

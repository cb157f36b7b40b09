"""Rules between pods that are looked up, against the same rules asked of every pod one after the other."""

from __future__ import annotations

from random import Random

import pytest
from msgspec import structs

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.pod import Pod, PodTerm, Requirement
from islander.cluster.workload import Namespace
from islander.policy.neighbours import Neighbourhood, affinity_fails
from islander.policy.selectors import selects
from tests.builders import a_node, a_pod, a_snapshot

NAMESPACES = ("one", "two", "three")
KEYS = (names.HOSTNAME, "zone", "rack")


def naive(pod: Pod, node: Node, around: Neighbourhood) -> bool:
    """Whether affinity or anti-affinity forbids the node, by looking at every pod."""
    others = [
        (around.nodes[n], p) for n, pods in around.pods.items() if n in around.nodes for p in pods if p.key != pod.key
    ]

    def selected(term: PodTerm, namespace: str, other: Pod) -> bool:
        named = term.namespaces or (() if term.namespace_selector is not None else (namespace,))
        inside = other.namespace in named
        by_label = selects(term.namespace_selector, around.namespace_labels.get(other.namespace, {}))
        return (inside or by_label) and selects(term.selector, dict(other.labels))

    def together(term: PodTerm, there: Node) -> bool:
        return node.label(term.topology_key) is not None and there.label(term.topology_key) == node.label(
            term.topology_key
        )

    def meets(term: PodTerm) -> bool:
        return any(together(term, there) and selected(term, pod.namespace, other) for there, other in others)

    def is_first(term: PodTerm) -> bool:
        alone = not any(selected(term, pod.namespace, other) for _, other in others)
        return node.label(term.topology_key) is not None and selected(term, pod.namespace, pod) and alone

    return (
        any(not meets(term) and not is_first(term) for term in pod.spec.pod_affinity)
        or any(meets(term) for term in pod.spec.pod_anti_affinity)
        or any(
            together(term, there) and selected(term, other.namespace, pod)
            for there, other in others
            for term in other.spec.pod_anti_affinity
        )
    )


def a_term(random: Random) -> PodTerm:
    app = random.choice(["a", "b", "c"])
    selector = random.choice(
        [
            (Requirement("app", "In", (app,)),),
            (Requirement("app", "In", ("a", "b")), Requirement("tier", "Exists")),
            (Requirement("app", "NotIn", (app,)),),
            (Requirement("tier", "DoesNotExist"),),
            (Requirement("app", "In", ()),),
            (),
            None,
        ]
    )
    namespaces = random.choice([(), (), ("one",), ("two", "two", "three")])
    labels = random.choice([None, None, None, (), (Requirement("team", "In", ("x",)),)])
    return PodTerm(random.choice(KEYS), selector, namespaces, labels)


def a_random_pod(random: Random, name: str, node: str) -> Pod:
    labels = {"app": random.choice("abc")} | ({"tier": "gpu"} if random.random() < 0.5 else {})
    return a_pod(
        name,
        namespace=random.choice(NAMESPACES),
        node=node,
        labels=labels if random.random() < 0.9 else None,
        pod_affinity=tuple(a_term(random) for _ in range(random.choice([0, 0, 0, 1]))),
        pod_anti_affinity=tuple(a_term(random) for _ in range(random.choice([0, 0, 1, 2]))),
    )


def a_neighbourhood(random: Random) -> tuple[Neighbourhood, list[Pod]]:
    labels = (
        {"zone": random.choice("xy")} | ({"rack": random.choice("12")} if random.random() < 0.7 else {})
        for _ in range(5)
    )
    nodes = [a_node(f"n{number}", labels=of_node) for number, of_node in enumerate(labels)]
    pods = [a_random_pod(random, f"p{n}", f"n{random.randrange(6)}") for n in range(random.randint(0, 6))]
    spaces = [Namespace(name, (("team", "x"),)) for name in NAMESPACES[: random.randrange(4)]]
    return Neighbourhood.of(a_snapshot(*nodes, *pods, *spaces)), pods


@pytest.mark.parametrize("seed", range(150))
def test_rules_that_are_looked_up_say_what_asking_every_pod_says(seed: int) -> None:
    random = Random(seed)
    around, pods = a_neighbourhood(random)
    for pod in [*pods, a_random_pod(random, "new", "")]:
        for node in around.nodes.values():
            assert affinity_fails(pod, node, around) == naive(pod, node, around), (pod, node.name)


@pytest.mark.parametrize("seed", range(150))
def test_what_was_found_out_is_kept_right_while_pods_come_and_go(seed: int) -> None:
    random = Random(seed)
    around, pods = a_neighbourhood(random)
    there = dict(around.pods)
    new = a_random_pod(random, "new", "")
    for _ in range(4):
        if random.random() < 0.5 and pods:
            # A pod that moves is in both places for a while.
            target = f"n{random.randrange(5)}"
            there[target] = (*there.get(target, ()), structs.replace(random.choice(pods), node=target))
        elif there:
            home = random.choice(sorted(there))
            there[home] = there[home][1:]
        around = around.with_pods(dict(there))
        for pod in [*pods, new]:
            for node in around.nodes.values():
                assert affinity_fails(pod, node, around) == naive(pod, node, around), (pod, node.name)


def test_the_random_rules_forbid_some_nodes_and_allow_others() -> None:
    answers = []
    for seed in range(30):
        random = Random(seed)
        around, pods = a_neighbourhood(random)
        answers += [affinity_fails(pod, node, around) for pod in pods for node in around.nodes.values()]
    assert 0.2 < sum(answers) / len(answers) < 0.9

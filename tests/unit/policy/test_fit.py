"""Everything that kube-scheduler's own filters judge, and the rules between pods."""

from islander.cluster import names
from islander.cluster.node import Node, Taint
from islander.cluster.pod import HostPort, NodeTerm, Pod, PodTerm, Requirement, SpreadConstraint
from islander.cluster.workload import Namespace
from islander.policy.fit import unfit
from islander.policy.neighbours import Neighbourhood
from islander.policy.reasons import Code
from tests.builders import a_node, a_pod, a_snapshot

APP_LLM = (Requirement("app", "In", ("llm",)),)


def code_of(pod: Pod, node: Node, *others: Node | Pod | Namespace) -> Code | None:
    answer = unfit(pod, node, Neighbourhood.of(a_snapshot(node, pod, *others)))
    return answer.code if answer else None


def test_an_ordinary_pod_fits_an_ordinary_node() -> None:
    assert code_of(a_pod(), a_node()) is None


def test_nodes_that_take_no_pods_are_named_as_such_g08() -> None:
    assert code_of(a_pod(), a_node(ready=False)) is Code.NODE_NOT_READY
    assert code_of(a_pod(), a_node(unschedulable=True)) is Code.NODE_CORDONED
    assert code_of(a_pod(), a_node(taints=[Taint("team", "x")])) is Code.TAINT_NOT_TOLERATED


def test_selectors_on_the_gpu_have_codes_of_their_own() -> None:
    memory = NodeTerm(labels=(Requirement(names.GPU_MEMORY, "Gt", ("90000",)),))
    assert code_of(a_pod(node_selector={names.GPU_PRODUCT: "NVIDIA-L40S"}), a_node()) is Code.WRONG_PRODUCT
    assert code_of(a_pod(node_terms=(memory,)), a_node()) is Code.GPU_MEMORY_TOO_SMALL
    assert code_of(a_pod(node_selector={"disk": "nvme"}), a_node()) is Code.SELECTOR_MISMATCH


def test_what_other_pods_request_is_gone() -> None:
    node = a_node(cpu=8, memory_gib=64, max_pods=2)
    assert code_of(a_pod(cpu=5), node, a_pod("other", node="n1", cpu=4)) is Code.NOT_ENOUGH_CPU
    assert code_of(a_pod(memory_gib=40), node, a_pod("other", node="n1", memory_gib=32)) is Code.NOT_ENOUGH_MEMORY
    assert code_of(a_pod(), node, a_pod("b", node="n1"), a_pod("c", node="n1")) is Code.NOT_ENOUGH_PODS


def test_finished_pods_hold_nothing() -> None:
    done = a_pod("done", node="n1", cpu=8, phase="Succeeded")
    assert code_of(a_pod(cpu=5), a_node(cpu=8), done) is None


def test_a_pod_does_not_compete_with_itself() -> None:
    pod = a_pod(cpu=6, node="n1")
    assert code_of(pod, a_node(cpu=8)) is None


def test_host_port_of_another_pod_is_taken_g34() -> None:
    port = (HostPort(8000),)
    assert code_of(a_pod(host_ports=port), a_node(), a_pod("b", node="n1", host_ports=port)) is Code.HOST_PORT_TAKEN
    udp = (HostPort(8000, "UDP"),)
    assert code_of(a_pod(host_ports=port), a_node(), a_pod("b", node="n1", host_ports=udp)) is None


def test_host_ports_on_different_addresses_do_not_clash() -> None:
    one, other = (HostPort(80, host_ip="10.0.0.1"),), (HostPort(80, host_ip="10.0.0.2"),)
    assert code_of(a_pod(host_ports=one), a_node(), a_pod("b", node="n1", host_ports=other)) is None


def test_anti_affinity_of_the_pods_already_there_counts_too_g34() -> None:
    term = PodTerm(names.HOSTNAME, selector=APP_LLM)
    pod = a_pod(labels={"app": "llm"})
    assert code_of(pod, a_node(), a_pod("b", node="n1", pod_anti_affinity=(term,))) is Code.POD_AFFINITY_MISMATCH
    assert code_of(a_pod(), a_node(), a_pod("b", node="n1", pod_anti_affinity=(term,))) is None


def test_own_anti_affinity_reaches_over_the_whole_domain() -> None:
    term = PodTerm(names.ZONE, selector=APP_LLM)
    here, there = a_node("n1", labels={names.ZONE: "z1"}), a_node("n2", labels={names.ZONE: "z1"})
    other = a_pod("b", node="n2", labels={"app": "llm"})
    assert code_of(a_pod(pod_anti_affinity=(term,)), here, there, other) is Code.POD_AFFINITY_MISMATCH


def test_anti_affinity_looks_only_into_its_namespaces() -> None:
    other = a_pod("b", namespace="team-b", node="n1", labels={"app": "llm"})
    own = PodTerm(names.HOSTNAME, selector=APP_LLM)
    assert code_of(a_pod(pod_anti_affinity=(own,)), a_node(), other) is None
    named = PodTerm(names.HOSTNAME, selector=APP_LLM, namespaces=("team-b",))
    assert code_of(a_pod(pod_anti_affinity=(named,)), a_node(), other) is Code.POD_AFFINITY_MISMATCH
    labelled = PodTerm(names.HOSTNAME, selector=APP_LLM, namespace_selector=(Requirement("tier", "Exists"),))
    namespace = Namespace("team-b", labels=(("tier", "gold"),))
    assert code_of(a_pod(pod_anti_affinity=(labelled,)), a_node(), other) is None
    assert code_of(a_pod(pod_anti_affinity=(labelled,)), a_node(), other, namespace) is Code.POD_AFFINITY_MISMATCH


def test_affinity_wants_a_partner_unless_the_pod_is_the_first_of_its_own_kind() -> None:
    term = PodTerm(names.HOSTNAME, selector=APP_LLM)
    follower = a_pod(pod_affinity=(term,))
    assert code_of(follower, a_node()) is Code.POD_AFFINITY_MISMATCH
    assert code_of(follower, a_node(), a_pod("b", node="n1", labels={"app": "llm"})) is None
    first = a_pod(pod_affinity=(term,), labels={"app": "llm"})
    assert code_of(first, a_node()) is None
    elsewhere = a_pod("b", node="n2", labels={"app": "llm"})
    assert code_of(first, a_node(), a_node("n2"), elsewhere) is Code.POD_AFFINITY_MISMATCH


def test_spread_counts_the_pod_against_the_emptiest_domain_g34() -> None:
    spread = SpreadConstraint(names.ZONE, max_skew=1, selector=APP_LLM)
    z1, z2 = a_node("n1", labels={names.ZONE: "z1"}), a_node("n2", labels={names.ZONE: "z2"})
    pod = a_pod(labels={"app": "llm"}, spread=(spread,))
    other = a_pod("b", node="n1", labels={"app": "llm"})
    assert code_of(pod, z1, z2, other) is Code.TOPOLOGY_SPREAD
    assert code_of(pod, z2, z1, other) is None
    assert code_of(pod, z1, other) is None


def test_a_node_without_the_spread_label_is_no_domain() -> None:
    spread = SpreadConstraint(names.ZONE, max_skew=1, selector=APP_LLM)
    assert code_of(a_pod(labels={"app": "llm"}, spread=(spread,)), a_node()) is Code.TOPOLOGY_SPREAD


def test_fewer_domains_than_asked_for_count_as_an_empty_one() -> None:
    spread = SpreadConstraint(names.ZONE, max_skew=1, selector=APP_LLM, min_domains=2)
    node = a_node("n1", labels={names.ZONE: "z1"})
    pod = a_pod(labels={"app": "llm"}, spread=(spread,))
    assert code_of(pod, node, a_pod("b", node="n1", labels={"app": "llm"})) is Code.TOPOLOGY_SPREAD


def test_a_no_says_what_its_sentence_leaves_out() -> None:
    answer = unfit(a_pod(), a_node(taints=[Taint("team", "x")]), Neighbourhood.of(a_snapshot()))
    assert answer is not None
    assert answer.message == "node has a taint that the pod does not tolerate (team=x:NoSchedule)"

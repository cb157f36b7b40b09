import msgspec

from islander.cluster.node import GpuReport, ReportedGpu
from islander.cluster.pod import Owner
from islander.policy.status import cluster_status
from planner.render.glyphs import ASCII, UNICODE, glyphs_for
from planner.render.strip import letters_of, strip
from tests.builders import a_node, a_pod, a_snapshot


def nodes_of(*objects):
    return cluster_status(a_snapshot(*objects)).nodes


def drawings(*objects):
    nodes = nodes_of(*objects)
    return [strip(node, letters_of(nodes), ASCII).plain for node in nodes]


def of(workload):
    return Owner("StatefulSet", workload)


def test_the_largest_workload_gets_the_first_letter_and_free_gpus_stand_last():
    assert drawings(
        a_node("n1"),
        a_pod("embed-0", node="n1", gpus=2, owner=of("embed")),
        a_pod("llama-0", node="n1", gpus=4, owner=of("llama")),
    ) == ["[BBAAAA..]"]


def test_pods_of_one_workload_share_a_letter_across_nodes():
    pods = [a_pod(f"llama-{i}", node=f"n{i}", gpus=4, owner=of("llama")) for i in range(2)]
    assert drawings(a_node("n0"), a_node("n1"), *pods) == ["[AAAA....]", "[AAAA....]"]


def test_workloads_of_the_same_name_in_two_namespaces_are_two():
    pods = [a_pod("x-0", namespace=namespace, node="n1", owner=of("x")) for namespace in ("a", "b")]
    assert drawings(a_node("n1"), *pods) == ["[AB......]"]


def test_a_pod_without_an_owner_stands_for_itself():
    assert letters_of(nodes_of(a_node("n1"), a_pod("alone", namespace="c", node="n1"))) == {"c/alone": "A"}


def test_free_gpus_stand_at_their_index_when_it_is_known():
    holders = ["default/p", None, "default/p", None]
    report = GpuReport(gpus=tuple(ReportedGpu(index, pod=pod) for index, pod in enumerate(holders)))
    node = a_node("n1", gpus=4, report=report)
    assert drawings(node, a_pod("p", node="n1", gpus=2)) == ["[A.A.]"]


def test_withdrawn_gpus_are_neither_used_nor_free():
    assert drawings(a_node("n1", gpus=4, allocatable=3), a_pod("p", node="n1", gpus=2)) == ["[AA.x]"]


def test_gpus_asked_for_beyond_the_node_stand_outside():
    (node,) = nodes_of(a_node("n1", gpus=4), a_pod("p", node="n1", gpus=2), a_pod("q", node="n1", gpus=3))
    assert strip(node, letters_of([node]), ASCII).plain == "[BBAA]A"


def test_free_indexes_that_contradict_the_count_are_not_drawn():
    (node,) = nodes_of(a_node("n1", gpus=4), a_pod("p", node="n1", gpus=2))
    odd = msgspec.structs.replace(node, free_indexes=[0])
    assert strip(odd, letters_of([odd]), ASCII).plain == "[AA..]"


def test_workloads_beyond_the_last_letter_share_a_mark():
    pods = [a_pod(f"p{i:02}", node=f"n{i // 8}") for i in range(40)]
    drawn = drawings(*(a_node(f"n{i}") for i in range(5)), *pods)
    # 26 letters and 10 digits, so the last 4 of 40 have none.
    assert "".join(drawn).count("#") == 4


def test_glyphs_fall_back_to_ascii():
    assert glyphs_for("ascii") is ASCII
    assert glyphs_for(None) is ASCII
    assert glyphs_for("no-such-encoding") is ASCII
    assert glyphs_for("utf-8") is UNICODE

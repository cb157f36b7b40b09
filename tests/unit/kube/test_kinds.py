from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.kube.kinds import LISTED_KINDS, NODES, PODS, WATCHED_KINDS, WatchedKind, see
from islander.kube.state import KindState, Seen, apply_list
from tests.builders import node_object, pod_object
from tests.fake_api import PATHS

BUDGETS = next(kind for kind in WATCHED_KINDS if kind.kind == "PodDisruptionBudget")
FIELDS = ("metadata", "name", "namespace", "resourceVersion", "spec", "status", "nodeName", "phase", "containers")
ODD_POD: dict[str, Any] = {"containers": "none of your business"}


def raw(obj: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(obj).encode())


def version(obj: dict[str, Any], number: int) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(number)}}


def state_with(kind: WatchedKind, obj: dict[str, Any]) -> KindState:
    state = KindState()
    apply_list(state, [see(kind, raw(version(obj, 5)), state)], "10")
    return state


def now(kind: WatchedKind, obj: dict[str, Any], state: KindState | None = None) -> Seen:
    return see(kind, raw(version(obj, 11)), state or KindState())


def test_an_item_of_a_list_is_read_as_the_kind_of_the_list() -> None:
    item = {key: value for key, value in pod_object("p1").items() if key not in ("kind", "apiVersion")}
    seen = now(PODS, item)
    assert (seen.key, seen.version) == ("default/p1", 11)
    assert isinstance(seen.value, Pod)
    assert now(NODES, node_object("n1")).key == "n1"


def test_what_is_known_in_this_version_is_not_parsed_again() -> None:
    state = state_with(PODS, pod_object("p1"))
    again = see(PODS, raw(version(pod_object("p1"), 5)), state)
    assert again.value is state.objects["default/p1"]


def test_an_unparsable_pod_says_which_field_is_odd() -> None:
    seen = now(PODS, pod_object("p1", spec=ODD_POD))
    assert seen.value is None
    assert seen.last_good is None
    assert seen.problem.startswith("spec.containers")


def test_a_bound_pod_that_turns_unparsable_keeps_its_gpus() -> None:
    state = state_with(PODS, pod_object("p1", gpus=4, node="n1"))
    seen = now(PODS, pod_object("p1", node="n1", spec=ODD_POD), state)
    assert isinstance(seen.last_good, Pod)
    assert seen.last_good.holds_devices
    assert seen.last_good.spec.requests.count("nvidia.com/gpu") == 4


def test_a_pending_pod_that_turns_unparsable_and_bound_holds_its_gpus_there() -> None:
    state = state_with(PODS, pod_object("p1", gpus=4))
    seen = now(PODS, pod_object("p1", node="n1", spec=ODD_POD), state)
    assert isinstance(seen.last_good, Pod)
    assert (seen.last_good.node, seen.last_good.holds_devices) == ("n1", True)


def test_an_unparsable_pod_that_has_finished_frees_its_gpus() -> None:
    state = state_with(PODS, pod_object("p1", gpus=4, node="n1"))
    seen = now(PODS, pod_object("p1", node="n1", phase="Failed", spec=ODD_POD), state)
    assert isinstance(seen.last_good, Pod)
    assert not seen.last_good.holds_devices


def test_a_pod_whose_node_cannot_be_read_either_stays_as_it_was() -> None:
    state = state_with(PODS, pod_object("p1", gpus=4, node="n1"))
    seen = now(PODS, pod_object("p1", spec={"containers": 1, "nodeName": 2}), state)
    assert seen.last_good is state.objects["default/p1"]


def test_a_node_that_turns_unparsable_is_left_out() -> None:
    state = state_with(NODES, node_object("n1"))
    assert isinstance(state.objects["n1"], Node)
    seen = now(NODES, node_object("n1") | {"spec": {"taints": "all"}}, state)
    assert (seen.key, seen.value, seen.last_good) == ("n1", None, None)


def test_a_budget_that_turns_unparsable_keeps_protecting() -> None:
    budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"minAvailable": 1}}
    state = state_with(BUDGETS, budget)
    seen = now(BUDGETS, budget | {"spec": {"minAvailable": [1]}}, state)
    assert seen.value is None
    assert seen.last_good is state.objects["default/b"]


def test_an_object_without_readable_metadata_has_no_key() -> None:
    for odd in (1, [], {"metadata": 1}, {"metadata": {"name": 1}}, {"metadata": {}}, {}):
        seen = see(PODS, raw(odd), KindState())
        assert (seen.key, seen.value) == ("", None)
        assert seen.problem


def test_an_object_that_is_nested_too_deeply_is_skipped() -> None:
    deep = b'{"metadata":{"name":"a"},"spec":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert see(PODS, msgspec.Raw(deep), KindState()).value is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.sampled_from(WATCHED_KINDS), JSON, st.booleans())
def test_no_object_however_odd_raises(kind: WatchedKind, odd: Any, known: bool) -> None:
    state = state_with(PODS, pod_object("p1", node="n1")) if known else KindState()
    metadata = {"name": "p1", "namespace": "default", "resourceVersion": "11"}
    assert see(kind, raw(odd), state).key is not None
    named = (
        odd | {"metadata": metadata} if isinstance(odd, dict) else {"metadata": metadata, "spec": odd, "status": odd}
    )
    seen = see(kind, raw(named), state)
    assert seen.key == "default/p1"
    assert (seen.value is None) == bool(seen.problem)


def test_a_bookmark_has_a_version_and_no_key() -> None:
    assert now(PODS, {"kind": "Pod", "metadata": {}}).version == 11


def test_every_kind_is_looked_at_where_the_api_serves_it() -> None:
    assert {kind.kind: kind.path for kind in LISTED_KINDS} == PATHS
    assert [kind.kind for kind in WATCHED_KINDS if kind.required] == ["Node", "Pod"]

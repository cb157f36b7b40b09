from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from extender.config import ConfigError
from extender.source import FileCluster, read_snapshot
from islander.cluster.snapshot_json import encode_snapshot
from tests.builders import a_node, a_pod, a_snapshot, node_object, pod_object

SNAPSHOT = a_snapshot(a_node("n1"), a_pod("p", gpus=2, node="n1"))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_snapshot_is_read_compressed_or_not(tmp_path: Path, pack: type[bytes]) -> None:
    (tmp_path / "s.json").write_bytes(pack(encode_snapshot(SNAPSHOT)))
    assert read_snapshot(tmp_path / "s.json") == SNAPSHOT


def test_what_kubectl_prints_is_read(tmp_path: Path) -> None:
    broken = pod_object("broken", gpus="many")
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    items = [pod_object("p", gpus=2, node="n1"), node_object("n1"), broken, service]
    (tmp_path / "l.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    snapshot = read_snapshot(tmp_path / "l.json")
    assert [node.name for node in snapshot.nodes] == ["n1"]
    assert [pod.name for pod in snapshot.pods] == ["p"]
    assert snapshot.kinds == ("Node", "Pod")
    assert len(snapshot.warnings) == 1
    assert "default/broken" in snapshot.warnings[0]


def test_items_of_a_typed_list_need_not_say_their_kind(tmp_path: Path) -> None:
    items = [{key: value for key, value in node_object("n1").items() if key not in ("apiVersion", "kind")}]
    (tmp_path / "l.json").write_text(json.dumps({"apiVersion": "v1", "kind": "NodeList", "items": items}))
    assert [node.name for node in read_snapshot(tmp_path / "l.json").nodes] == ["n1"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"{}",
        b"[]",
        b'{"kind": "List"}',
        b'{"kind": "Pod"}',
        b"\x1f\x8bnot gzip",
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_another_file_is_named_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"snapshotFile: .*odd\.json") as caught:
        read_snapshot(tmp_path / "odd.json")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.json: cannot be read: No such file"):
        read_snapshot(tmp_path / "absent.json")


def test_a_file_is_complete_and_ages_not() -> None:
    source = FileCluster(SNAPSHOT)
    assert (list(source.missing()), source.age_seconds(), list(source.kinds())) == ([], 0.0, [])
    assert source.snapshot() is SNAPSHOT

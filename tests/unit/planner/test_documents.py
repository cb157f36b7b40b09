"""A large file is read without being in memory more than once."""

import gzip
import io
import json
import sys
import tracemalloc

import pytest

from planner import documents
from planner.documents import MalformedInput, read_documents
from tests.builders import node_object

# Reading takes the file itself, a few pieces of it, and a little for each object.
MOST_OF_FILE = 1.5


@pytest.fixture(scope="module")
def dump():
    """A list of kubectl, four spaces deep, of about 5 MB."""
    items = [node_object(f"node-{number:04}") for number in range(2_000)]
    for item in items:
        item["metadata"]["managedFields"] = [{"fieldsV1": {f"f:field-{i}": {"f:value": {}} for i in range(16)}}]
    return json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}, indent=4).encode()


def peak_of(path):
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_documents(path))
        return count, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_in_memory_once(dump, packed, tmp_path):
    file = tmp_path / "dump.json"
    file.write_bytes(gzip.compress(dump, 1) if packed else dump)
    count, peak = peak_of(str(file))
    assert count == 2_000
    assert len(dump) < peak < MOST_OF_FILE * len(dump) + (file.stat().st_size if packed else 0)


def test_stdin_is_in_memory_once(dump, monkeypatch):
    # What a BytesIO is made from and what is read from it are the same bytes.
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(dump)))
    count, peak = peak_of("-")
    assert count == 2_000
    assert peak < (MOST_OF_FILE - 1) * len(dump)


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 1 << 20])
def test_letters_of_several_bytes_may_lie_across_pieces(piece_bytes, monkeypatch, tmp_path):
    monkeypatch.setattr(documents, "_PIECE_BYTES", piece_bytes)
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"kind": "Node", "metadata": {"name": "größe-日本-🧪"}}, ensure_ascii=False), "utf-8")
    [document] = read_documents(str(file))
    assert "größe-日本-🧪" in bytes(document.raw).decode()


@pytest.mark.parametrize("piece_bytes", [1, 4, 1 << 20])
@pytest.mark.parametrize("broken", [b"\xff", b"\xc3", b"\xe6\x97", b"\xed\xa0\x80"])
def test_what_is_no_utf_8_is_a_binary_file_wherever_it_breaks(broken, piece_bytes, monkeypatch, tmp_path):
    monkeypatch.setattr(documents, "_PIECE_BYTES", piece_bytes)
    file = tmp_path / "dump.json"
    file.write_bytes(b'{"kind": "Node"}' + broken)
    with pytest.raises(MalformedInput, match="is a binary file"):
        list(read_documents(str(file)))

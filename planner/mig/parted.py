"""Configuration files of mig-parted: written from layouts, and judged by mig-parted's own rules.

Source: NVIDIA/mig-parted, api/spec/v1/spec.go (keys, version), cmd/nvidia-mig-parted/assert (entries are walked in
order, each is applied to every GPU that it matches).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from islander.hardware.mig import parse_profile_name
from planner.abbreviated import abbreviated
from planner.mig.layouts import Counts

VERSION = "v1"
ALL = "all"
NAME_PREFIX = "islander-"
_LONGEST_NAME = 63
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_FILTER = re.compile(r"0x[0-9A-Fa-f]{8}(:0x[0-9A-Fa-f]{8})?", re.ASCII)
_KEYS = frozenset({"device-filter", "devices", "mig-enabled", "mig-devices"})
_MOST_INDEX = 255
_NODES_NAMED = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """Some GPUs of a node that are cut alike.

    Attributes
    ----------
    devices
        Indexes, ascending.
    counts
        Their instances; empty with `enabled` for GPUs that are in MIG mode and have none.
    device_filter
        Numbers of the products that the entry is for; empty when the node has one product.
    """

    devices: tuple[int, ...]
    enabled: bool
    counts: Counts = ()
    device_filter: tuple[str, ...] = ()


NodeConfig = tuple[Entry, ...]


def node_config(gpus: Sequence[tuple[int, Counts, tuple[str, ...]]]) -> NodeConfig:
    """Return the entries of a node: every index in exactly one of them, those that are cut alike together.

    Parameters
    ----------
    gpus
        (index, instances, device numbers of its product) of every GPU of the node.
    """
    filters = {ids for _, _, ids in gpus}
    groups: defaultdict[tuple[tuple[str, ...], Counts], list[int]] = defaultdict(list)
    for index, counts, ids in gpus:
        groups[ids if len(filters) > 1 else (), counts].append(index)
    entries = (Entry(tuple(sorted(indexes)), bool(counts), counts, ids) for (ids, counts), indexes in groups.items())
    return tuple(sorted(entries, key=lambda entry: entry.devices))


def config_name(config: NodeConfig) -> str:
    """Return the name of a configuration: what it is when all GPUs are alike, else a hash of its content."""
    if len(config) == 1 and not config[0].device_filter:
        (entry,) = config
        plain = "_".join(f"{number}x{profile}" for profile, number in entry.counts).replace("+", ".")
        name = f"{NAME_PREFIX}all-{plain or 'disabled'}"
        if is_config_name(name):
            return name
    digest = hashlib.sha256(msgspec.json.encode(msgspec.to_builtins(_plain(config)))).hexdigest()
    return f"{NAME_PREFIX}{digest[:10]}"


def is_config_name(name: str) -> bool:
    """Return whether a node can be labelled with a name."""
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def parted_text(nodes: Mapping[str, NodeConfig], kept: Mapping[str, NodeConfig] | None = None) -> str:
    """Return the file for the nodes' configurations, one per distinct layout, with the nodes in a comment.

    Parameters
    ----------
    kept
        Configurations by name that other nodes are labelled with, and must go on to be found.
    """
    users: defaultdict[str, list[str]] = defaultdict(list)
    configs: dict[str, NodeConfig] = dict(kept or {})
    for node, config in sorted(nodes.items()):
        name = config_name(config)
        configs[name] = config
        users[name].append(node)
    lines = [f"version: {VERSION}", "mig-configs:"]
    for name, config in sorted(configs.items()):
        told = users[name][:_NODES_NAMED]
        more = f" and {len(users[name]) - len(told)} more" if len(users[name]) > len(told) else ""
        comment = f"for {', '.join(told)}{more}" if told else "nodes that do not change have this one"
        lines += [f"  # {comment}", f"  {name}:"]
        for entry in config:
            lines += _entry_lines(entry, whole=len(config) == 1)
    return "\n".join(lines) + "\n"


def read_parted(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the configurations of a file by name, and everything that mig-parted would refuse, or fight over."""
    try:
        document = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError) as problem:
        return {}, [f"is not YAML: {str(problem).partition(chr(10))[0]}"]
    if not isinstance(document, dict):
        return {}, ["is no mapping"]
    found = [f"{abbreviated(key)}: unknown key" for key in document if key not in ("version", "mig-configs")]
    if document.get("version") != VERSION:
        found.append(f"version: must be {VERSION}, is {abbreviated(document.get('version'))}")
    configs = document.get("mig-configs")
    if not isinstance(configs, dict) or not configs:
        return {}, [*found, "mig-configs: must map names to lists of entries"]
    for name, entries in configs.items():
        found += [f"mig-configs.{name}: {problem}" for problem in _config_errors(name, entries)]
    return configs, found


def indexes_of(
    entries: Sequence[Mapping[str, Any]], gpus: Mapping[int, Collection[str]]
) -> dict[int, list[tuple[bool, Counts]]]:
    """Return what a valid configuration says of each GPU of a node: (MIG mode, instances) once for each mention.

    Parameters
    ----------
    gpus
        Numbers that the product of each GPU may have, by index: a filter that leaves one of them out may pass it over.
    """
    found: dict[int, list[tuple[bool, Counts]]] = {index: [] for index in gpus}
    for entry in entries:
        counts = tuple(sorted((str(k), int(n)) for k, n in (entry.get("mig-devices") or {}).items() if n))
        only = {number.upper() for number in _filters(entry)} if "device-filter" in entry else None
        for index in gpus if entry["devices"] == ALL else entry["devices"]:
            numbers = gpus.get(index, ())
            if only is None or (numbers and {number.upper() for number in numbers} <= only):
                found.setdefault(index, []).append((bool(entry["mig-enabled"]), counts))
    return found


def _plain(config: NodeConfig) -> list[tuple[object, ...]]:
    return [(e.devices, e.enabled, e.counts, e.device_filter) for e in config]


def _entry_lines(entry: Entry, *, whole: bool) -> Iterator[str]:
    keys = []
    if entry.device_filter:
        # Without quotes they would be read as numbers.
        keys.append(f"device-filter: [{', '.join(json.dumps(text) for text in entry.device_filter)}]")
    keys.append(f"devices: {ALL}" if whole else f"devices: [{', '.join(map(str, entry.devices))}]")
    keys.append(f"mig-enabled: {'true' if entry.enabled else 'false'}")
    if entry.enabled:
        keys.append("mig-devices:" if entry.counts else "mig-devices: {}")
        keys += [f"  {profile}: {number}" for profile, number in entry.counts]
    for number, key in enumerate(keys):
        yield f"    {'- ' if not number else '  '}{key}"


def _config_errors(name: object, entries: Any) -> Iterator[str]:
    if not isinstance(name, str) or not is_config_name(name):
        yield "the name is no label value, so no node can be labelled with it"
    if not isinstance(entries, list) or not entries:
        yield "must be a list of entries"
        return
    sound = []
    for number, entry in enumerate(entries):
        problems = list(_entry_errors(entry))
        yield from (f"[{number}]{problem}" for problem in problems)
        if not problems:
            sound.append((number, entry))
    for (one, left), (two, right) in combinations(sound, 2):
        if _overlap(left, right):
            yield f"[{two}].devices: GPUs of entry [{one}] again"


def _entry_errors(entry: Any) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield ": is no mapping"
        return
    yield from (f".{key}: unknown key" for key in entry if key not in _KEYS)
    for key in ("devices", "mig-enabled"):
        if key not in entry:
            yield f".{key}: is missing"
    if "devices" in entry and not _are_devices(entry["devices"]):
        yield f".devices: must be {ALL!r} or a list of indexes, is {abbreviated(entry['devices'])}"
    if "device-filter" in entry and not all(_FILTER.fullmatch(text) for text in _filters(entry)):
        told = abbreviated(entry["device-filter"])
        yield f".device-filter: must be one or several numbers such as 0x233010DE, is {told}"
    enabled = entry.get("mig-enabled")
    if "mig-enabled" in entry and not isinstance(enabled, bool):
        yield f".mig-enabled: must be true or false, is {abbreviated(enabled)}"
    counts = entry.get("mig-devices")
    if enabled is True and "mig-devices" not in entry:
        yield ".mig-devices: is missing, though MIG is enabled"
    if counts is None:
        if enabled is True and "mig-devices" in entry:
            yield ".mig-devices: must map profiles to numbers"
        return
    yield from _count_errors(counts, enabled=enabled is not False)


def _count_errors(counts: Any, *, enabled: bool) -> Iterator[str]:
    if not isinstance(counts, dict):
        yield ".mig-devices: must map profiles to numbers"
        return
    if counts and not enabled:
        yield ".mig-devices: must be empty, since MIG is not enabled"
    for profile, number in counts.items():
        if not isinstance(profile, str) or parse_profile_name(profile) is None:
            yield f".mig-devices: {abbreviated(profile)} is no profile"
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            yield f".mig-devices.{profile}: must be a number from 0, is {abbreviated(number)}"
    if counts and all(number == 0 for number in counts.values()):
        yield ".mig-devices: not all numbers may be 0"


def _are_devices(devices: Any) -> bool:
    if isinstance(devices, str):
        return devices == ALL
    if not isinstance(devices, list) or not devices:
        return False
    whole = all(isinstance(d, int) and not isinstance(d, bool) and 0 <= d <= _MOST_INDEX for d in devices)
    return whole and len(set(devices)) == len(devices)


def _filters(entry: Mapping[str, Any]) -> list[str]:
    given = entry.get("device-filter")
    if isinstance(given, str):
        return [given]
    if isinstance(given, list) and given and all(isinstance(text, str) for text in given):
        return given
    return ["" if given is not None or "device-filter" in entry else "0x00000000"]


def _overlap(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    if "device-filter" in left and "device-filter" in right and not set(_filters(left)) & set(_filters(right)):
        return False
    if ALL in (left["devices"], right["devices"]):
        return True
    return bool(set(left["devices"]) & set(right["devices"]))

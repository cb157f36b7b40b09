"""Writes the reference pages that come from code. Run as `python -m docs.generate`.

A page keeps its hand-written text; what stands between a marker and its end mark (or the end of the page) is replaced.
tests/unit/test_docs.py fails when a page is not what this program would write.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from extender.config import ExtenderConfig
from islander.hardware.islands import disjoint_islands, largest_island
from islander.hardware.mig import GEOMETRIES, Profile
from islander.hardware.presets import PRESETS
from islander.hardware.products import PRODUCTS
from islander.policy.reasons import IMMOVABLE_REASONS, PLAN_REASONS, REASONS, Code, MoveCode, ReasonText
from planner.quota.finding_codes import FINDINGS, FindingCode
from planner.quota.policy_file import QuotaPolicy

Reasons = Mapping[Code, ReasonText] | Mapping[MoveCode, ReasonText] | Mapping[FindingCode, ReasonText]

ROOT = Path(__file__).parents[1]
# All products with seven SM slices are cut alike; only the memory in the names differs.
SEVEN_SLICE_SLOTS = 8
MARKER = "<!-- generated: `make docs` writes what follows -->\n"
END = "<!-- end -->\n"


def codes() -> str:
    """Return the reason codes with sentence, cause and cure, list by list."""
    lists: list[tuple[str, Reasons]] = [
        ("Why a pod does not fit on a node", REASONS),
        ("Why a pod does not move", IMMOVABLE_REASONS),
        ("Why a plan is not made, or does not hold", PLAN_REASONS),
        ("What is wrong with quotas", FINDINGS),
    ]
    return "\n".join(f"## {title}\n\n{_reasons(reasons)}" for title, reasons in lists)


def _reasons(reasons: Reasons) -> str:
    blocks = []
    for code, text in reasons.items():
        tail = "kube-scheduler's preemption can cure it." if text.curable_by_preemption else ""
        blocks.append(
            f"### `{code.value}`\n\n> {text.sentence}\n\n- **Cause:** {text.cause}\n- **Cure:** {text.cure}\n"
            + (f"- {tail}\n" if tail else "")
        )
    return "\n".join(blocks)


def configuration() -> str:
    """Return the table of configuration keys."""
    return _key_table(ExtenderConfig)


def _key_table(model: type[BaseModel]) -> str:
    """Return the keys of a file: key, type and range, default, meaning."""
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    rows += [f"| `{key}` | {_value(field)} | {_default(field)} | {meaning} |" for key, field, meaning in _keys(model)]
    return "\n".join(rows) + "\n"


def hardware() -> str:
    """Return the tables of presets and of products."""
    rows = [
        "## Presets",
        "",
        "How many islands of two, four and eight can be cut from an empty node at the same time.",
        "",
        "| preset | GPUs | of 2 | of 4 | of 8 | largest island |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    chips = sorted({name.rpartition("-")[0] for name, node in PRESETS.items() if not any(map(any, node.links.nvlinks))})
    for name, node in PRESETS.items():
        if name.rpartition("-")[0] in chips:
            continue
        cut = " | ".join(str(disjoint_islands(node.links, node.all_gpus, size)) for size in (2, 4, 8))
        rows.append(f"| `{name}` | {node.gpus} | {cut} | {largest_island(node.links, node.all_gpus)} |")
    rows += [
        "",
        f"Without NVLink: {', '.join(f'`{chip}-N`' for chip in chips)}, N from 1 to 16; `pcie-N` is for any product.",
        "",
        "## Products",
        "",
        "Labels are matched with or without `NVIDIA-` in front; `-SHARED` and MIG endings are understood.",
        "",
        "| product | label | memory, MiB | fabric |",
        "|---|---|---:|---|",
    ]
    rows += [
        f"| {product.name} | {', '.join(f'`{label}`' for label in product.labels)} | {product.memory_mib} "
        f"| {product.fabric.value} |"
        for product in PRODUCTS
    ]
    return "\n".join([*rows, *_mig()]) + "\n"


def _mig() -> list[str]:
    """Return two tables: where the shapes of each family may lie, and names and memory by product."""
    rows = [
        "",
        "## MIG profiles",
        "",
        "A GPU's memory is divided into slots; an instance takes some of them, beginning at one of its starts. Not all",
        "that fits is legal: the SM slices must suffice, and one instance at most holds the unique media engines.",
        "",
        "| slots | SM slices | profile | size | starts | most per GPU |",
        "|---:|---:|---|---:|---|---:|",
    ]
    families = {geometry.slots: geometry for geometry in reversed(GEOMETRIES)}
    for slots, geometry in sorted(families.items()):
        for profile in geometry.profiles:
            starts = ", ".join(map(str, profile.starts))
            shape = f"`{profile.name}`" if slots != SEVEN_SLICE_SLOTS else _shape(profile)
            rows.append(
                f"| {slots} | {profile.sm_slices} of {geometry.sm_slices} | {shape} | {profile.size} | {starts} "
                f"| {profile.max_count} |"
            )
    rows += [
        "",
        "MiB is the memory that an instance really has: the least that a driver was seen to report. With `~` no report",
        "is known, and it is a cautious share of the GPU. A product that is not here gets no recommendation.",
        "",
        "| product | profiles and MiB | driver from | mode change |",
        "|---|---|---:|---|",
    ]
    for geometry in GEOMETRIES:
        profiles = ", ".join(f"`{p.name}` {'~' * p.memory_derived}{p.memory_mib}" for p in geometry.profiles)
        change = "resets the GPU" if geometry.reset else "needs no reset"
        rows.append(f"| {', '.join(geometry.products)} | {profiles} | {geometry.min_driver} | {change} |")
    return rows


def _shape(profile: Profile) -> str:
    double = " of double memory" if profile.size > profile.sm_slices == 1 else ""
    return f"`{profile.sm_slices}g{profile.media.value}`{double}"


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo, str]]:
    meanings = _attributes(model)
    for name, field in model.model_fields.items():
        if name in ("api_version", "kind"):
            continue
        key = prefix + (field.alias or name)
        section = _section_of(field)
        if section is None:
            yield key, field, meanings[name]
        else:
            if name in meanings:
                yield key, field, meanings[name]
            listed = typing.get_origin(_plain(field.annotation)) is list or "list[" in str(field.annotation)
            yield from _keys(section, f"{key}{'[]' if listed else ''}.")


def _attributes(model: type[BaseModel]) -> dict[str, str]:
    """Return the sentences of a docstring's Attributes section by field name, in one line each."""
    _, _, listed = (model.__doc__ or "").partition("Attributes\n    ----------\n")
    found = re.findall(r"^    (\w+)\n((?:        .*\n?)+)", listed, re.MULTILINE)
    return {name: " ".join(text.split()).replace("None:", "Absent:") for name, text in found}


def _plain(annotation: object) -> object:
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation


def _members(annotation: object) -> tuple[object, ...]:
    annotation = _plain(annotation)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(member for part in typing.get_args(annotation) for member in _members(part))
    return (annotation,)


def _section_of(field: FieldInfo) -> type[BaseModel] | None:
    for member in _members(field.annotation):
        inner = typing.get_args(member)[0] if typing.get_origin(member) is list else member
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            return inner
    return None


def _value(field: FieldInfo) -> str:
    words = [_type_word(member) for member in _members(field.annotation) if member is not type(None)]
    if any("duration" in str(meta) for meta in field.metadata):
        words = ["duration"]
    bounds = []
    for meta in field.metadata:
        for sign, attribute in (("≥", "ge"), (">", "gt"), ("≤", "le")):
            limit = getattr(meta, attribute, None)
            if limit is not None:
                unit = " s" if words == ["duration"] and limit else ""
                bounds.append(f"{sign} {limit:g}{unit}")
    return " or ".join(words) + (f", {', '.join(bounds)}" if bounds else "")


def _type_word(annotation: object) -> str:
    if typing.get_origin(annotation) is typing.Literal:
        return " \\| ".join(f"`{choice}`" for choice in typing.get_args(annotation))
    if typing.get_origin(annotation) is list:
        return f"list of {_plural(_type_word(_plain(typing.get_args(annotation)[0])))}"
    if typing.get_origin(annotation) is dict:
        key, value = (_type_word(_plain(part)) for part in typing.get_args(annotation))
        return f"map of {key} to {value}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "entry"
    return {str: "string", int: "integer", float: "number", bool: "true or false"}[typing.cast("type", annotation)]


def _plural(word: str) -> str:
    return "entries" if word == "entry" else f"{word}s"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if default is None:
        return "-"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if default in ([], {}):
        return "none"
    if isinstance(default, list):
        return ", ".join(f"`{item}`" for item in default)
    if isinstance(default, float):
        return f"`{default:g}{'s' if any('duration' in str(meta) for meta in field.metadata) else ''}`"
    return f"`{default}`"


def demo() -> str:
    """Return what the demo prints, as a block."""
    told = _run(("demo", "--output-dir", "artifacts/demo"))
    return f"```\n{told.stdout.decode().strip()}\n```\n"


MOVES_EXAMPLE = ("plan", "moves", "--snapshot", "docs/examples/cluster.json.gz")


def example_plan() -> str:
    """Return the plan for the dump of a real cluster, as a block with its command."""
    return _told(MOVES_EXAMPLE)


MIG_EXAMPLE = ("plan", "mig", "--snapshot", "docs/examples/mig.json.gz")


def _run(words: typing.Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "planner", *words]
    return subprocess.run(command, capture_output=True, check=True, env=environment, cwd=ROOT)  # noqa: S603 - our own program


def _told(words: typing.Sequence[str]) -> str:
    """Return what a command prints, as a block with the command."""
    return f"```\n$ islander {' '.join(words)}\n{_run(words).stdout.decode().strip()}\n```\n"


def mig_plan() -> str:
    """Return a plan of MIG layouts, as a block with its command."""
    return _told(MIG_EXAMPLE)


def mig_files() -> str:
    """Return the file for mig-parted and the node labels of the same plan."""
    files = json.loads(_run([*MIG_EXAMPLE, "-o", "json"]).stdout)["files"]
    told = ((name, files[name].strip()) for name in ("mig-parted.yaml", "node-labels.yaml"))
    return "\n".join(f"`{name}`\n\n```yaml\n{text}\n```\n" for name, text in told)


def mig_warnings() -> str:
    """Return what the same plan warns of, as a list."""
    warnings = json.loads(_run([*MIG_EXAMPLE, "-o", "json"]).stdout)["warnings"]
    return "".join(f"- {warning}\n" for warning in warnings)


QUOTA_EXAMPLE = (
    *("plan", "quota", "--snapshot", "docs/examples/quota-cluster.yaml"),
    *("--policy", "docs/examples/quota-policy.yaml"),
)


def quota_policy() -> str:
    """Return the policy of the example, as a block."""
    text = (ROOT / "docs/examples/quota-policy.yaml").read_text(encoding="utf-8")
    return f"```yaml\n{text.strip()}\n```\n"


def quota_plan() -> str:
    """Return a plan of quotas, as a block with its command."""
    return _told(QUOTA_EXAMPLE)


def quota_files() -> str:
    """Return the queues and the kustomization of the same plan."""
    files = json.loads(_run([*QUOTA_EXAMPLE, "-o", "json"]).stdout)["files"]
    told = ((name, files[name].strip()) for name in ("queues.yaml", "kustomization.yaml"))
    return "\n".join(f"`{name}`\n\n```yaml\n{text}\n```\n" for name, text in told)


def quota_warnings() -> str:
    """Return what the same plan warns of, as a list."""
    warnings = json.loads(_run([*QUOTA_EXAMPLE, "-o", "json"]).stdout)["warnings"]
    return "".join(f"- {warning}\n" for warning in warnings)


def quota_keys() -> str:
    """Return the table of the policy file's keys."""
    return _key_table(QuotaPolicy)


# What is written into a page, marker by marker.
PAGES: dict[str, tuple[Callable[[], str], ...]] = {
    "README.md": (demo, example_plan, mig_plan, mig_files, quota_plan, quota_files),
    "docs/codes.md": (codes,),
    "docs/configuration.md": (configuration,),
    "docs/hardware.md": (hardware,),
    "docs/mig.md": (mig_plan, mig_files, mig_warnings),
    "docs/quota.md": (quota_policy, quota_plan, quota_warnings, quota_files, quota_keys),
}


def page(name: str) -> str:
    """Return a page as it should be: the text that stands in the file around the generated part."""
    written, rest = "", (ROOT / name).read_text(encoding="utf-8")
    for content in PAGES[name]:
        head, marker, rest = rest.partition(MARKER)
        if not marker:
            raise SystemExit(f"{name} has too few marker lines: {MARKER.strip()}")
        _, end, rest = rest.partition(END)
        written += f"{head}{MARKER}\n{content()}{end}"
    return written + rest


def main() -> int:
    """Write every page."""
    for name in PAGES:
        text = page(name)
        (ROOT / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Words of a snapshot that name nobody: of Kubernetes, of the vendors, and of Islander itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from islander.cluster import names
from islander.cluster.owners import POD_TEMPLATE_HASH
from islander.hardware.links import PCIE_WORDS
from islander.hardware.products import parse_product_label, product_by_label
from islander.hardware.topo import MalformedTopology, matrix_from_cells
from islander.kube.parse import GROUPS

BOOLEANS = frozenset({"", "true", "false"})
EFFECTS = frozenset({"", "NoSchedule", "PreferNoSchedule", "NoExecute"})
OPERATORS = frozenset({"", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal"})
PHASES = frozenset({"Pending", "Running", "Succeeded", "Failed", "Unknown"})
PROTOCOLS = frozenset({"TCP", "UDP", "SCTP"})
EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - the API's words for "every address"
PREEMPTION_POLICIES = frozenset({"", "Never", "PreemptLowerPriority"})
EVICTION_POLICIES = frozenset({"", "AlwaysAllow", "IfHealthyBudget"})
ACCESS_MODES = frozenset({"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"})
NOT_READY_REASONS = frozenset({"", "KubeletNotReady", "NodeStatusUnknown", "NodeStatusNeverUpdated"})
# Kueue (sigs.k8s.io/kueue v0.17.0, apis/kueue/v1beta2): policies, strategies, and reasons of its conditions.
KUEUE_WORDS = frozenset(
    {
        "",
        "Never",
        "LowerPriority",
        "LowerOrNewerEqualPriority",
        "Any",
        "StrictFIFO",
        "BestEffortFIFO",
        "None",
        "Hold",
        "HoldAndDrain",
        "MayStopSearch",
        "TryNextFlavor",
        "BorrowingOverPreemption",
        "PreemptionOverBorrowing",
        "required",
        "preferred",
        "unconstrained",
        "slices",
        "Terminating",
        "Stopped",
        "FlavorNotFound",
        "AdmissionCheckNotFound",
        "AdmissionCheckInactive",
        "TopologyNotFound",
        "Unknown",
        "Pending",
        "WaitingForQuota",
        "ExceedsMaxQuota",
        "NoMatchingFlavor",
        "TopologyPlacementFailed",
        "WaitingForPreemptedWorkloads",
        "Inadmissible",
        "Preempted",
        "Evicted",
    }
)
KUEUE_FRAMEWORKS = frozenset(
    {
        "pod",
        "deployment",
        "statefulset",
        "batch/job",
        "jobset.x-k8s.io/jobset",
        "leaderworkerset.x-k8s.io/leaderworkerset",
    }
)
PLAIN_RESOURCES = frozenset({"", "cpu", "memory", "ephemeral-storage", "storage", "pods"})
KINDS = frozenset(GROUPS)
API_GROUPS = frozenset(GROUPS.values())
OWNER_KINDS = KINDS | {"CronJob"}

TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}(?:Z|[+-][0-9:]{5})|", re.ASCII)
NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
QUANTITY = re.compile(r"[0-9]{1,19}(?:\.[0-9]{1,9})?(?:[numkMGTPE]|[KMGTPE]i)?|", re.ASCII)
AMOUNT_OR_SHARE = re.compile(r"[0-9]{1,10}%?|", re.ASCII)
MIG_PROFILE = re.compile(r"[0-9]{1,2}g\.[0-9]{1,3}gb(?:[+.](?:me|gfx)(?:\.all)?|-me)?|INVALID", re.ASCII)
DEVICE = re.compile(r"gpu-[0-9]{1,3}(?:-mig-[0-9]{1,2}g[0-9]{1,3}gb(?:-[0-9]{1,3}){2})?", re.ASCII)
VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]+)?", re.ASCII)
_NVLINKS = re.compile(r"NV[0-9]{1,3}", re.ASCII)
_LINK_WORDS = frozenset(PCIE_WORDS.values()) | {"X", "SOC"}

KEYS_OF_PRODUCTS = frozenset({names.GPU_PRODUCT, names.AMD_PRODUCT})
# Values that must go with the names of objects, whatever they look like.
KEYS_OF_NAMES = frozenset(
    {names.HOSTNAME, names.LWS_NAME, POD_TEMPLATE_HASH, "metadata.name", "kubernetes.io/metadata.name"}
)
WORDS_OF_KEY: Mapping[str, frozenset[str]] = {
    names.TOPOLOGY: frozenset({"required", "preferred", "ignored"}),
    names.GPU_SHARING_STRATEGY: frozenset({"none", "mps", "time-slicing"}),
    names.MIG_STRATEGY: frozenset({"none", "single", "mixed"}),
    names.MIG_CONFIG_STATE: frozenset({"pending", "rebooting", "success", "failed"}),
    "kubernetes.io/arch": frozenset({"amd64", "arm64"}),
    "kubernetes.io/os": frozenset({"linux", "windows"}),
}
ANNOTATIONS = names.KEPT_NODE_ANNOTATIONS | names.KEPT_POD_ANNOTATIONS

_VENDORS = ("nvidia.com", "amd.com")
_KNOWN_KEYS = (
    {value for value in vars(names).values() if isinstance(value, str)}
    | set(WORDS_OF_KEY)
    | KEYS_OF_NAMES
    | {
        "app",
        "app.kubernetes.io/component",
        "app.kubernetes.io/instance",
        "app.kubernetes.io/managed-by",
        "app.kubernetes.io/name",
        "app.kubernetes.io/part-of",
        "app.kubernetes.io/version",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-name",
        "controller-revision-hash",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/instance-type",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        "node-role.kubernetes.io/control-plane",
        "statefulset.kubernetes.io/pod-name",
        "topology.kubernetes.io/region",
    }
)


def is_known_key(key: str) -> bool:
    """Return whether a label, taint or resource is one of Kubernetes, a GPU vendor, or a program that many use."""
    return key in _KNOWN_KEYS or key == "" or key.partition("/")[0] in _VENDORS


def is_key_of_amounts(key: str) -> bool:
    """Return whether a number under this label is an amount or an index."""
    return key.partition("/")[0] in _VENDORS or key == names.LWS_GROUP_INDEX


def product_text(text: str, name: Callable[[str], str]) -> str:
    """Return the text of a product label; of a product that is not in the catalogue, with another name.

    What it says of MIG and of sharing stays.
    """
    label = parse_product_label(text)
    # nvidia-smi writes a space where labels have a hyphen.
    known = product_by_label(text.replace(" ", "-")) is not None
    if known and (label.mig is None or MIG_PROFILE.fullmatch(label.mig)):
        return text
    mig = "" if label.mig is None else f"-MIG-{label.mig if MIG_PROFILE.fullmatch(label.mig) else name(label.mig)}"
    return f"{label.name if known else name(label.name)}{mig}{'-SHARED' if label.shared else ''}"


def link_table(table: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """Return a table of links without words of others; what is no link stays none, what is an error stays one."""
    return tuple(tuple(map(_link, row)) for row in table)


def _link(cell: str) -> str:
    if all(word in _LINK_WORDS or _NVLINKS.fullmatch(word) for word in cell.strip().split("+")):
        return cell
    try:
        matrix_from_cells((("X", cell), (cell, "X")))
    except MalformedTopology:
        return "no link"
    return "N/A"

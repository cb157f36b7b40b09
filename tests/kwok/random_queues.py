"""Objects of Kueue drawn by chance, about a third of them with something in them that the API refuses.

Left out is what the API accepts and no node or queue could ever use: a cohort that is its own parent, a level longer
than a label, a toleration with an empty key.
"""

from random import Random
from typing import Any

from tests.kwok.controlplane.objects import GPU, Json
from tests.kwok.controlplane.queues import API

_GOOD_NAMES = ("serving", "team-a", "gpu.h100", "0", "x" * 253)
_BAD_NAMES = ("Serving", "team_a", "-a", "a-", "a..b", "a/b", "x" * 254, " ", "ä")
_GOOD_RESOURCES = (GPU, "cpu", "memory", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.10gb.me", "pods", "example.com/a")
_BAD_RESOURCES = ("nvidia.com/gpu/0", "/gpu", "nvidia.com/", "gpu!", "a" * 64, "Example.com/gpu")
_GOOD_AMOUNTS = ("0", "4", "8", "4500m", "1e2", "1Ki", ".5", "+4", 12)
_BAD_AMOUNTS = ("-1", "four", "1.2.3", "4Gb", "-1m", "", "--4")
_GOOD_LABELS = (
    "pool",
    "nvidia.com/gpu.product",
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "rack",
    "a_B.c",
)
_LONG_LABEL = "x" * 64
_BAD_LABELS = ("a b", "a/b/c", "-rack", "Upper.com/rack", "", _LONG_LABEL)
_GOOD_VALUES = ("", "true", "NVIDIA-H100-80GB-HBM3", "a_b.c")
_BAD_VALUES = ("a b", "-a", "x" * 64, "a/b")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class RandomQueues:
    """Draws objects, the same for the same seed.

    Parameters
    ----------
    bad
        How likely each single choice is a bad one.
    """

    def __init__(self, seed: int, bad: float = 0.02):
        self._random = Random(seed)
        self._bad = bad

    def draw(self) -> Json:
        """Return one object."""
        kinds = (self._cluster_queue, self._cohort, self._flavor, self._topology, self._local_queue)
        return self._random.choices(kinds, (6, 3, 4, 2, 1))[0]()

    def _one(self, good: tuple[Any, ...], bad: tuple[Any, ...]) -> Any:
        return self._random.choice(bad if bad and self._random.random() < self._bad else good)

    def _maybe(self, chance: float = 0.5) -> bool:
        return self._random.random() < chance

    def _object(self, kind: str, spec: Json, **metadata: str) -> Json:
        name = self._one(_GOOD_NAMES, _BAD_NAMES)
        return {"apiVersion": API, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}

    def _cluster_queue(self) -> Json:
        spec: Json = {"resourceGroups": self._groups(), "namespaceSelector": self._selector()}
        if self._maybe(0.8):
            spec["cohortName"] = self._one(_GOOD_NAMES, _BAD_NAMES)
        if self._maybe():
            spec["queueingStrategy"] = self._one(("StrictFIFO", "BestEffortFIFO"), ("FIFO",))
        if self._maybe():
            spec["stopPolicy"] = self._one(("None", "Hold", "HoldAndDrain"), ("Stop",))
        if self._maybe():
            spec["preemption"] = {
                "reclaimWithinCohort": self._one(("Never", "LowerPriority", "Any"), ("Always",)),
                "withinClusterQueue": self._one(("Never", "LowerPriority", "LowerOrNewerEqualPriority"), ("Any",)),
            }
            if self._maybe(0.3):
                spec["preemption"]["borrowWithinCohort"] = {"policy": self._one(("Never", "LowerPriority"), ("Any",))}
        if self._maybe(0.3):
            words = ("MayStopSearch", "TryNextFlavor")
            spec["flavorFungibility"] = {
                "whenCanBorrow": self._one(words, ("Borrow",)),
                "whenCanPreempt": self._one(words, ("Preempt",)),
            }
            if self._maybe(0.3):
                preferences = ("BorrowingOverPreemption", "PreemptionOverBorrowing")
                spec["flavorFungibility"]["preference"] = self._one(preferences, ("None",))
        return self._object("ClusterQueue", spec | self._sharing())

    def _cohort(self) -> Json:
        spec: Json = {"parentName": self._one(("all", "all.gpus"), _BAD_NAMES)} if self._maybe(0.7) else {}
        groups = {"resourceGroups": self._groups()} if self._maybe(0.8) else {}
        return self._object("Cohort", spec | groups | self._sharing())

    def _sharing(self) -> Json:
        if self._maybe(0.7):
            return {}
        return {
            "fairSharing": {"weight": self._one(("0", "1", "2.5", "2n", "1u", 3), ("-1", "1n", "-1n", "much", ".5n"))}
        }

    def _selector(self) -> Json:
        if self._maybe(0.6):
            return {}
        if self._maybe():
            return {"matchLabels": {self._one(_GOOD_LABELS, _BAD_LABELS): self._one(_GOOD_VALUES, _BAD_VALUES)}}
        operator = self._one(("In", "NotIn", "Exists", "DoesNotExist"), ("Like",))
        wants_values = operator in ("In", "NotIn") if self._random.random() > self._bad else self._maybe()
        expression = {"key": self._one(_GOOD_LABELS, _BAD_LABELS), "operator": operator}
        return {"matchExpressions": [expression | ({"values": ["a"]} if wants_values else {})]}

    def _groups(self) -> list[Json]:
        resources, flavors = list(_GOOD_RESOURCES), ["h100", "a100", "l40s", "h200", "b200"]
        self._random.shuffle(resources)
        self._random.shuffle(flavors)
        groups = []
        for _ in range(self._random.choice((1, 1, 2))):
            covered = [resources.pop() for _ in range(self._random.choice((1, 2, 3)))]
            named = [flavors.pop() for _ in range(self._random.choice((1, 2)))]
            covered = [self._one((name,), _BAD_RESOURCES) for name in covered]
            if groups and self._random.random() < 2 * self._bad:
                covered[0] = groups[0]["coveredResources"][0]
            if groups and self._random.random() < 2 * self._bad:
                named[0] = groups[0]["flavors"][0]["name"]
            named = [self._one((name,), _BAD_NAMES) for name in named]
            groups.append({"coveredResources": covered, "flavors": [self._quotas(name, covered) for name in named]})
        return groups

    def _quotas(self, flavor: str, covered: list[str]) -> Json:
        listed = list(covered)
        if self._random.random() < self._bad:
            self._random.shuffle(listed)
        if self._random.random() < self._bad:
            listed = listed[1:]
        if self._random.random() < self._bad:
            listed = [*listed, listed[0]] if listed else ["cpu"]
        resources = []
        for resource in listed:
            item = {"name": resource, "nominalQuota": self._one(_GOOD_AMOUNTS, _BAD_AMOUNTS)}
            if self._maybe(0.15):
                item["borrowingLimit"] = self._one(_GOOD_AMOUNTS, _BAD_AMOUNTS)
            if self._maybe(0.15):
                item["lendingLimit"] = self._one((0, item["nominalQuota"]), (*_BAD_AMOUNTS, "1000"))
            resources.append(item)
        return {"name": flavor, "resources": resources}

    def _flavor(self) -> Json:
        count = self._one((0, 1, 2, 8), (9,))
        labels = {f"label-{number}": self._one(_GOOD_VALUES, _BAD_VALUES) for number in range(count)}
        if labels and self._maybe(0.3):
            labels[self._one(_GOOD_LABELS, _BAD_LABELS)] = labels.pop("label-0")
        spec: Json = {"nodeLabels": labels}
        if self._maybe(0.5):
            taints = [self._taint() for _ in range(self._one((1, 2), (9,)))]
            spec["nodeTaints"] = taints
        if self._maybe(0.5):
            spec["tolerations"] = [self._toleration() for _ in range(self._one((1, 2, 8), (9,)))]
        if self._maybe(0.3):
            spec["topologyName"] = self._one(_GOOD_NAMES, _BAD_NAMES)
        return self._object("ResourceFlavor", spec)

    def _taint(self) -> Json:
        key = self._one((*_GOOD_LABELS, *(f"taint-{number}" for number in range(20))), _BAD_LABELS)
        return {"key": key, "value": self._one(_GOOD_VALUES, _BAD_VALUES), "effect": self._one(_EFFECTS, ("Never", ""))}

    def _toleration(self) -> Json:
        operator = self._one(("Exists", "Equal", None), ("In", "Lt"))
        fields: Json = {
            "key": self._one(_GOOD_LABELS, (None, *(label for label in _BAD_LABELS if label))),
            "operator": operator,
        }
        if operator != "Exists" or self._random.random() < self._bad:
            fields["value"] = self._one(_GOOD_VALUES, _BAD_VALUES)
        if self._maybe():
            fields["effect"] = self._one(_EFFECTS, ("Never",))
        if fields.get("effect") == "NoExecute" or self._random.random() < self._bad:
            fields["tolerationSeconds"] = self._one((0, 60), (-1,))
        return {key: value for key, value in fields.items() if value is not None}

    def _topology(self) -> Json:
        labels = [label for label in _GOOD_LABELS if label != "kubernetes.io/hostname"]
        levels = self._random.sample(labels, self._one((1, 2, 3), ()))
        bad = tuple(label for label in _BAD_LABELS if label != _LONG_LABEL)
        levels = [self._one((level,), bad) for level in levels]
        if self._maybe():
            levels.append("kubernetes.io/hostname")
        if self._random.random() < 3 * self._bad:
            levels.insert(0, self._random.choice(levels))
        return self._object("Topology", {"levels": [{"nodeLabel": level} for level in levels]})

    def _local_queue(self) -> Json:
        spec: Json = {"clusterQueue": self._one(_GOOD_NAMES, _BAD_NAMES)}
        if self._maybe(0.3):
            spec["stopPolicy"] = self._one(("None", "Hold", "HoldAndDrain"), ("Stop",))
        return self._object("LocalQueue", spec | self._sharing(), namespace="default")

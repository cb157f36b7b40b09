"""Codes of what is wrong with quotas. Each has one sentence, and is stable."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from islander.policy.reasons import ReasonText


class Severity(StrEnum):
    """How bad it is: Kueue refuses it or pods hang; it will bite; it is good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class FindingCode(StrEnum):
    """What is wrong with a quota; the value is the code that scripts read."""

    QUOTA_ABOVE_CAPACITY = "QUOTA_ABOVE_CAPACITY"
    REQUEST_LARGER_THAN_NODE = "REQUEST_LARGER_THAN_NODE"
    QUOTA_NOT_PLACEABLE = "QUOTA_NOT_PLACEABLE"
    BASELINE_NOT_PLACEABLE = "BASELINE_NOT_PLACEABLE"
    NOT_SURVIVABLE = "NOT_SURVIVABLE"
    NOT_WHOLE_ISLANDS = "NOT_WHOLE_ISLANDS"
    REQUEST_ABOVE_QUOTA = "REQUEST_ABOVE_QUOTA"
    BASELINE_BORROWED = "BASELINE_BORROWED"
    CANNOT_RECLAIM = "CANNOT_RECLAIM"
    BELOW_RESERVATION = "BELOW_RESERVATION"
    GPUS_HELD_OUTSIDE = "GPUS_HELD_OUTSIDE"
    FLAVOR_WITHOUT_LABELS = "FLAVOR_WITHOUT_LABELS"
    FLAVOR_MIXES_PRODUCTS = "FLAVOR_MIXES_PRODUCTS"
    FLAVORS_OVERLAP = "FLAVORS_OVERLAP"
    MIXED_UNITS = "MIXED_UNITS"
    TWO_ALLOCATORS = "TWO_ALLOCATORS"
    SMALL_STARVES_LARGE = "SMALL_STARVES_LARGE"
    LARGE_BLOCKS_SMALL = "LARGE_BLOCKS_SMALL"
    READY_TIMEOUT_TOO_SHORT = "READY_TIMEOUT_TOO_SHORT"
    RESOURCE_QUOTA_DOUBLES = "RESOURCE_QUOTA_DOUBLES"
    SET_CANNOT_SCALE = "SET_CANNOT_SCALE"
    NAMESPACE_SHUT_OUT = "NAMESPACE_SHUT_OUT"
    ADMISSION_STOPPED = "ADMISSION_STOPPED"
    QUEUE_INACTIVE = "QUEUE_INACTIVE"
    QUOTAS_SET_ELSEWHERE = "QUOTAS_SET_ELSEWHERE"
    OLD_API_VERSION = "OLD_API_VERSION"
    BAD_NAME = "BAD_NAME"
    GROUPS_TOO_LARGE = "GROUPS_TOO_LARGE"
    LISTED_TWICE = "LISTED_TWICE"
    RESOURCES_OUT_OF_ORDER = "RESOURCES_OUT_OF_ORDER"
    BAD_RESOURCE_NAME = "BAD_RESOURCE_NAME"
    BAD_AMOUNT = "BAD_AMOUNT"
    LENDS_TOO_MUCH = "LENDS_TOO_MUCH"
    NOBODY_CAN_BORROW = "NOBODY_CAN_BORROW"
    BAD_PREEMPTION = "BAD_PREEMPTION"
    BAD_FUNGIBILITY = "BAD_FUNGIBILITY"
    BAD_WEIGHT = "BAD_WEIGHT"
    BAD_FLAVOR = "BAD_FLAVOR"
    BAD_TOPOLOGY = "BAD_TOPOLOGY"
    BAD_CHECK = "BAD_CHECK"
    BAD_CONCURRENT_ADMISSION = "BAD_CONCURRENT_ADMISSION"
    NOBODY_MAY_USE = "NOBODY_MAY_USE"
    DEAD_REFERENCE = "DEAD_REFERENCE"
    SHAPE_IS_FIXED = "SHAPE_IS_FIXED"
    BAD_TOPOLOGY_REQUEST = "BAD_TOPOLOGY_REQUEST"


class QuotaFinding(Struct, frozen=True, rename="camel"):
    """One thing that is wrong with the quotas of a cluster, or that is good to know before they change.

    Attributes
    ----------
    severity
        error: Kueue refuses it, or admitted pods cannot run. warning: it will bite. info: good to know.
    object
        `Kind/name` or `Kind/namespace/name`.
    field
        Path in the object; empty when it is about the whole of it.
    """

    code: FindingCode
    severity: Severity
    object: str
    field: str
    message: str
    cure: str


# The code of each rule of `planner.quota.validation`.
CODE_OF_RULE: dict[str, FindingCode] = {
    "V1": FindingCode.BAD_NAME,
    "V2": FindingCode.GROUPS_TOO_LARGE,
    "V3": FindingCode.LISTED_TWICE,
    "V4": FindingCode.RESOURCES_OUT_OF_ORDER,
    "V5": FindingCode.BAD_RESOURCE_NAME,
    "V6": FindingCode.BAD_AMOUNT,
    "V7": FindingCode.LENDS_TOO_MUCH,
    "V8": FindingCode.NOBODY_CAN_BORROW,
    "V9": FindingCode.BAD_PREEMPTION,
    "V10": FindingCode.BAD_FUNGIBILITY,
    "V11": FindingCode.BAD_WEIGHT,
    "V12": FindingCode.BAD_FLAVOR,
    "V13": FindingCode.BAD_TOPOLOGY,
    "V14": FindingCode.BAD_CHECK,
    "V15": FindingCode.BAD_CONCURRENT_ADMISSION,
    "V16": FindingCode.NOBODY_MAY_USE,
    "V17": FindingCode.DEAD_REFERENCE,
    "V18": FindingCode.SHAPE_IS_FIXED,
    "V19": FindingCode.BAD_TOPOLOGY_REQUEST,
}

FINDINGS: dict[FindingCode, ReasonText] = {
    FindingCode.QUOTA_ABOVE_CAPACITY: ReasonText(
        "quotas of a flavor add up to more GPUs than its nodes have for them",
        "Nodes are missing, cordoned or not ready, or pods outside Kueue hold their GPUs. Kueue counts quota and does "
        "not look at nodes, so it admits pods that then stay Pending and keep their quota.",
        "Lower the quotas to what is usable; `islander plan quota` writes files that fit.",
    ),
    FindingCode.REQUEST_LARGER_THAN_NODE: ReasonText(
        "a pod asks for more GPUs than any node of the flavor can give",
        "The quota is a sum over nodes, the pod needs one node. Kueue admits it, and no node ever takes it.",
        "Use a flavor with larger nodes, or a smaller tensor parallel size with pipeline parallelism across pods.",
    ),
    FindingCode.QUOTA_NOT_PLACEABLE: ReasonText(
        "quota cannot be filled with whole replicas",
        "The GPUs are there, but in pieces that are smaller than an island of the replicas that use the quota.",
        "Lower the quota to what is placeable, make room (`islander plan moves`), or use smaller replicas.",
    ),
    FindingCode.BASELINE_NOT_PLACEABLE: ReasonText(
        "replicas of a baseline have no place beside all other baselines",
        "The baselines together need more islands of their shapes than the usable nodes have, or than are left without "
        "the nodes that may be lost.",
        "Add nodes, lower a baseline or `--survive-nodes`, or move what runs outside Kueue away from islands.",
    ),
    FindingCode.NOT_SURVIVABLE: ReasonText(
        "baselines do not fit any more when the biggest node is lost",
        "The minimum of replicas needs more islands than are left without the biggest node of the flavor.",
        "Keep room for one node (`--survive-nodes 1`), or lower the minimum of replicas.",
    ),
    FindingCode.NOT_WHOLE_ISLANDS: ReasonText(
        "quota is not a multiple of the GPUs of a replica",
        "What is left over is a part of a replica: it is counted, and nothing can be started with it.",
        "Round the quota, and its limits, to whole replicas.",
    ),
    FindingCode.REQUEST_ABOVE_QUOTA: ReasonText(
        "a workload asks for more than its queue can ever have",
        "It needs more than the nominal quota and all that the queue may borrow; it waits for ever (ExceedsMaxQuota).",
        "Raise the nominal quota or the borrowing limit, or send the workload to another queue.",
    ),
    FindingCode.BASELINE_BORROWED: ReasonText(
        "the minimum of replicas does not fit into the nominal quota",
        "Part of it runs on borrowed quota. When the lender wants it back, Kueue deletes pods; disruption budgets do "
        "not hold that up.",
        "Raise the nominal quota to the minimum of replicas, or lower the minimum.",
    ),
    FindingCode.CANNOT_RECLAIM: ReasonText(
        "a queue with a baseline lends and may not take back",
        "`reclaimWithinCohort` is Never, so what others have borrowed is gone until they finish by themselves.",
        "Set `preemption.reclaimWithinCohort: Any`, or a lending limit that keeps the baseline back.",
    ),
    FindingCode.BELOW_RESERVATION: ReasonText(
        "workloads hold more than the queue may have",
        "Quota was lowered below what is admitted. Kueue evicts nobody for that; nothing new is admitted until enough "
        "has ended.",
        "Wait for workloads to end, or stop some; others of the cohort cannot use that quota meanwhile.",
    ),
    FindingCode.GPUS_HELD_OUTSIDE: ReasonText(
        "pods that no queue counts hold GPUs of a flavor",
        "They have no queue label and their owner is not managed by Kueue, so Kueue takes their GPUs for free.",
        "Give their owner a queue (`kueue.x-k8s.io/queue-name`), or take their GPUs off the quotas.",
    ),
    FindingCode.FLAVOR_WITHOUT_LABELS: ReasonText(
        "a flavor without node labels names every node",
        "Its quota is one number over GPUs of different kinds, and admitted pods may go to any of them.",
        "Make one flavor for each product, with the label `nvidia.com/gpu.product`.",
    ),
    FindingCode.FLAVOR_MIXES_PRODUCTS: ReasonText(
        "a flavor names GPUs of different products",
        "Its labels are on nodes of several products, so its quota does not say how many of which kind.",
        "Make one flavor for each product, with the label `nvidia.com/gpu.product`.",
    ),
    FindingCode.FLAVORS_OVERLAP: ReasonText(
        "two flavors name the same node",
        "Its GPUs are counted in the quota of both, and handed out twice.",
        "Give the flavors labels that exclude each other.",
    ),
    FindingCode.MIXED_UNITS: ReasonText(
        "a cohort adds up devices of different kinds under one name",
        "Whole GPUs, MIG instances and shares of GPUs have the same resource name on these nodes; lent and borrowed as "
        "equals they are not.",
        "Put flavors with different kinds of devices into different cohorts.",
    ),
    FindingCode.TWO_ALLOCATORS: ReasonText(
        "device plugin and dynamic resource allocation offer the same GPUs",
        "A driver publishes devices of a node whose device plugin hands out GPUs as well; neither knows of the other, "
        "and both may give the same card.",
        "Use one of the two on a node.",
    ),
    FindingCode.SMALL_STARVES_LARGE: ReasonText(
        "small workloads may keep a large one waiting for ever",
        "With BestEffortFIFO, whatever fits is admitted first; GPUs that come free one by one never add up for the "
        "large one.",
        "Give large and small workloads queues of their own, or use StrictFIFO, or let priorities preempt.",
    ),
    FindingCode.LARGE_BLOCKS_SMALL: ReasonText(
        "a large workload holds up the whole queue",
        "With StrictFIFO, nothing behind the first workload is admitted, even if it fits.",
        "Give large and small workloads queues of their own, or use BestEffortFIFO.",
    ),
    FindingCode.READY_TIMEOUT_TOO_SHORT: ReasonText(
        "workloads take about as long to get ready as Kueue waits for them",
        "waitForPodsReady evicts a workload that is not ready in time; large models need long to load, and lose their "
        "quota just before they serve.",
        "Raise `waitForPodsReady.timeout` to at least twice the slowest start.",
    ),
    FindingCode.RESOURCE_QUOTA_DOUBLES: ReasonText(
        "a ResourceQuota of the namespace gates GPUs beside Kueue",
        "Pods that Kueue holds back count in it already, so it refuses pods that Kueue has quota for.",
        "Take GPUs out of the ResourceQuota, or raise it well above nominal quota and borrowing limit.",
    ),
    FindingCode.SET_CANNOT_SCALE: ReasonText(
        "an autoscaler targets a StatefulSet that Kueue manages",
        "Under Kueue a StatefulSet goes from and to 0 replicas only; Kueue's webhook refuses every other change.",
        "Use a Deployment or a LeaderWorkerSet, or take the autoscaler away.",
    ),
    FindingCode.NAMESPACE_SHUT_OUT: ReasonText(
        "a LocalQueue is in a namespace that its ClusterQueue does not let in",
        "The namespace does not match `namespaceSelector`; workloads stay inadmissible.",
        "Widen the selector, or label the namespace.",
    ),
    FindingCode.ADMISSION_STOPPED: ReasonText(
        "a queue admits nothing because its stopPolicy says so",
        "Somebody has set Hold or HoldAndDrain, perhaps for the time of a change.",
        "Set `stopPolicy: None` when the reason is gone.",
    ),
    FindingCode.QUEUE_INACTIVE: ReasonText(
        "Kueue says that a queue is not active",
        "Something that the queue names is missing, or its cohorts form a circle; nothing is admitted.",
        "See the reason in the condition Active, and create what is missing.",
    ),
    FindingCode.QUOTAS_SET_ELSEWHERE: ReasonText(
        "another controller sets the effective quotas of a queue",
        "`status.effectiveQuotas` counts instead of the spec; the values of the spec are proportions then.",
        "Treat the planned values as proportions, or take the queue out of that controller's tree.",
    ),
    FindingCode.OLD_API_VERSION: ReasonText(
        "objects are written in an API version that Kueue gives up",
        "v1beta1 is not served any more from Kueue 0.20 on.",
        "Apply the files that the plan writes; they are v1beta2.",
    ),
    FindingCode.BAD_NAME: ReasonText(
        "a name is none that Kubernetes takes",
        "Rule V1: names are subdomains of RFC 1123 of at most 253 characters.",
        "Use lower case letters, digits, hyphens and dots.",
    ),
    FindingCode.GROUPS_TOO_LARGE: ReasonText(
        "a queue has too many groups, flavors or resources, or none",
        "Rule V2: 16 groups of 1 to 64 resources and 1 to 64 flavors, 256 of each in all, 512 pairs in a group.",
        "Divide the queue.",
    ),
    FindingCode.LISTED_TWICE: ReasonText(
        "a resource or flavor is listed twice",
        "Rule V3: each is in one group only, and there once.",
        "Put CPU, memory and GPUs of the same nodes into one group.",
    ),
    FindingCode.RESOURCES_OUT_OF_ORDER: ReasonText(
        "a flavor does not list the covered resources in their order",
        "Rule V4: every flavor lists every covered resource, in the same order.",
        "List them as `coveredResources` does.",
    ),
    FindingCode.BAD_RESOURCE_NAME: ReasonText(
        "a resource has a name that is none",
        "Rule V5: names of resources are label keys.",
        "Write it as nodes do, such as `nvidia.com/gpu`.",
    ),
    FindingCode.BAD_AMOUNT: ReasonText(
        "an amount is missing, negative or no quantity, or a limit stands where nobody can lend",
        "Rule V6: amounts are 0 or more; limits need a cohort, or a parent of the cohort.",
        "Correct the amount; drop the limit, or name the cohort.",
    ),
    FindingCode.LENDS_TOO_MUCH: ReasonText(
        "a lending limit is above the nominal quota",
        "Rule V7: nobody lends more than it has. Kueue refuses it for queues, and ignores it for cohorts.",
        "Lower the lending limit to the nominal quota.",
    ),
    FindingCode.NOBODY_CAN_BORROW: ReasonText(
        "a cohort has quota that no queue below it can use",
        "Rule V8: a queue borrows only a flavor and resource that it lists, even with quota 0.",
        "List the flavor in the queues that may borrow it, with nominal quota 0.",
    ),
    FindingCode.BAD_PREEMPTION: ReasonText(
        "policies of preemption contradict each other, or are none of Kueue's words",
        "Rule V9: who never reclaims within the cohort cannot preempt while borrowing.",
        "Set `reclaimWithinCohort`, or leave `borrowWithinCohort` out.",
    ),
    FindingCode.BAD_FUNGIBILITY: ReasonText(
        "flavor fungibility is not as v1beta2 wants it",
        "Rule V10: a preference needs TryNextFlavor twice; Borrow and Preempt are words of v1beta1.",
        "Write MayStopSearch instead of Borrow or Preempt.",
    ),
    FindingCode.BAD_WEIGHT: ReasonText(
        "a fair sharing weight is negative or too small",
        "Rule V11: 0 means always last; anything else must be above 1n.",
        "Use whole numbers.",
    ),
    FindingCode.BAD_FLAVOR: ReasonText(
        "labels, taints or tolerations of a flavor are not valid, or may not change",
        "Rule V12; with a topology, a flavor's labels and tolerations are fixed.",
        "Correct them, or make a new flavor.",
    ),
    FindingCode.BAD_TOPOLOGY: ReasonText(
        "a topology is not valid, or may not change",
        "Rule V13: 1 to 16 different labels, the hostname last; fixed before Kueue 0.20.",
        "Make a new topology.",
    ),
    FindingCode.BAD_CHECK: ReasonText(
        "an admission check names a flavor that the queue does not have",
        "Rule V14: `onFlavors` is a subset of the queue's flavors.",
        "Name flavors of the queue, or none for all.",
    ),
    FindingCode.BAD_CONCURRENT_ADMISSION: ReasonText(
        "a concurrent admission policy does not go with the queue",
        "Rule V15: it wants BestEffortFIFO and one group of at most 16 flavors, and never changes.",
        "Make a new queue for it.",
    ),
    FindingCode.NOBODY_MAY_USE: ReasonText(
        "a queue lets no namespace in",
        "Rule V16: without `namespaceSelector` nobody may use the queue; an empty one lets everybody in.",
        "Write the selector, such as `matchLabels: {kubernetes.io/metadata.name: chat}`.",
    ),
    FindingCode.DEAD_REFERENCE: ReasonText(
        "an object names another that is not there",
        "Rule V17: Kueue accepts it, and the queue stays inactive. A circle of cohorts switches all of its queues off, "
        "which may go on saying that they are active; a queue that is made in one ends Kueue 0.17 itself.",
        "Create what is missing first, or correct the name.",
    ),
    FindingCode.SHAPE_IS_FIXED: ReasonText(
        "what is changed cannot be changed while Kueue manages it",
        "Rule V18: replicas of a StatefulSet, size of groups, and what their pods ask for; names of groups are short.",
        "Scale to 0 first, or make a new set.",
    ),
    FindingCode.BAD_TOPOLOGY_REQUEST: ReasonText(
        "annotations that ask for a topology contradict each other",
        "Rule V19: one of required, preferred and unconstrained; slices come with topology and size.",
        "Keep the one that is meant.",
    ),
}

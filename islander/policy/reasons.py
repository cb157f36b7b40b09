"""Reason codes: why a pod does not fit, why a pod does not move. Each code has one sentence, and is stable."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """A placement reason; the value is the code that scripts read."""

    NOT_ENOUGH_FREE_GPUS = "NOT_ENOUGH_FREE_GPUS"
    NODE_TOO_SMALL = "NODE_TOO_SMALL"
    NO_FREE_ISLAND = "NO_FREE_ISLAND"
    ISLAND_NOT_GUARANTEED = "ISLAND_NOT_GUARANTEED"
    NO_SUCH_ISLAND = "NO_SUCH_ISLAND"
    WRONG_PRODUCT = "WRONG_PRODUCT"
    GPU_MEMORY_TOO_SMALL = "GPU_MEMORY_TOO_SMALL"
    NUMA_SPLIT = "NUMA_SPLIT"
    SHARED_GPUS = "SHARED_GPUS"
    MIG_NOT_PLACEABLE = "MIG_NOT_PLACEABLE"
    MIG_NO_PEER = "MIG_NO_PEER"
    MIG_INVALID = "MIG_INVALID"
    MIG_CHANGING = "MIG_CHANGING"
    MIG_FAILED = "MIG_FAILED"
    CLIQUE_TOO_SMALL = "CLIQUE_TOO_SMALL"
    RESERVED = "RESERVED"
    UNKNOWN_NODE = "UNKNOWN_NODE"
    NODE_NOT_READY = "NODE_NOT_READY"
    NODE_CORDONED = "NODE_CORDONED"
    TAINT_NOT_TOLERATED = "TAINT_NOT_TOLERATED"
    SELECTOR_MISMATCH = "SELECTOR_MISMATCH"
    NOT_ENOUGH_CPU = "NOT_ENOUGH_CPU"
    NOT_ENOUGH_MEMORY = "NOT_ENOUGH_MEMORY"
    NOT_ENOUGH_PODS = "NOT_ENOUGH_PODS"
    HOST_PORT_TAKEN = "HOST_PORT_TAKEN"
    POD_AFFINITY_MISMATCH = "POD_AFFINITY_MISMATCH"
    TOPOLOGY_SPREAD = "TOPOLOGY_SPREAD"
    INVALID_REQUEST = "INVALID_REQUEST"


class MoveCode(StrEnum):
    """Why a pod does not move, or why a plan does not hold; the value is the code that scripts read."""

    PDB_ZERO = "PDB_ZERO"
    PDB_SEVERAL = "PDB_SEVERAL"
    DAEMONSET = "DAEMONSET"
    STATIC_POD = "STATIC_POD"
    BARE_POD = "BARE_POD"
    DO_NOT_DISRUPT = "DO_NOT_DISRUPT"
    PRIORITY_HIGHER = "PRIORITY_HIGHER"
    GROUP_MUST_MOVE_WHOLE = "GROUP_MUST_MOVE_WHOLE"
    SINGLE_REPLICA = "SINGLE_REPLICA"
    VOLUME_PINNED = "VOLUME_PINNED"
    RESOURCE_CLAIM = "RESOURCE_CLAIM"
    UNKNOWN_OWNER = "UNKNOWN_OWNER"
    TERMINATING = "TERMINATING"
    NO_SURGE_ROOM = "NO_SURGE_ROOM"
    KUEUE_PINNED = "KUEUE_PINNED"
    KUEUE_NO_QUOTA = "KUEUE_NO_QUOTA"
    PROTECTED = "PROTECTED"
    NO_ROOM_EVEN_IF_REPACKED = "NO_ROOM_EVEN_IF_REPACKED"
    CYCLE_WITHOUT_BUFFER = "CYCLE_WITHOUT_BUFFER"
    OVER_MOVE_LIMIT = "OVER_MOVE_LIMIT"
    NO_ANSWER_IN_TIME = "NO_ANSWER_IN_TIME"
    STALE_POD = "STALE_POD"
    OVER_BUDGET = "OVER_BUDGET"
    TWO_OF_ONE_WORKLOAD = "TWO_OF_ONE_WORKLOAD"
    PLAN_INCONSISTENT = "PLAN_INCONSISTENT"
    NO_SUCH_PROFILE = "NO_SUCH_PROFILE"
    NO_GPU_TO_CUT = "NO_GPU_TO_CUT"
    ISLAND_NEEDED = "ISLAND_NEEDED"
    NEEDS_DRAIN = "NEEDS_DRAIN"
    DRAIN_WITHOUT_TARGET = "DRAIN_WITHOUT_TARGET"
    GPUS_NOT_KNOWN = "GPUS_NOT_KNOWN"
    NO_MIG_TABLE = "NO_MIG_TABLE"
    DRIVER_TOO_OLD = "DRIVER_TOO_OLD"
    NOT_SELECTED = "NOT_SELECTED"
    LAYOUT_NOT_LEGAL = "LAYOUT_NOT_LEGAL"
    STALE_GPU = "STALE_GPU"
    FILE_NOT_VALID = "FILE_NOT_VALID"


@dataclass(frozen=True, slots=True)
class ReasonText:
    """What the docs say of a code.

    Attributes
    ----------
    sentence
        The sentence in the scheduler's event; the same for every node, so that events stay groupable.
    cause
        What brings it about.
    cure
        What the operator can do.
    curable_by_preemption
        True when kube-scheduler's own preemption can cure it; such a node goes into `FailedNodes`.
    """

    sentence: str
    cause: str
    cure: str
    curable_by_preemption: bool = False


REASONS: dict[Code, ReasonText] = {
    Code.NOT_ENOUGH_FREE_GPUS: ReasonText(
        "not enough free GPUs on one node",
        "Pods hold so many of the node's GPUs that fewer are free than the pod asks for.",
        "Wait, move a pod away (`islander explain` names the node closest to fitting), or add a node.",
        curable_by_preemption=True,
    ),
    Code.NODE_TOO_SMALL: ReasonText(
        "node has fewer GPUs than one pod asks for",
        "The pod asks for more GPUs than the node offers even when it is empty.",
        "Use a larger node, or a smaller tensor parallel size with pipeline parallelism across pods.",
    ),
    Code.NO_FREE_ISLAND: ReasonText(
        "free GPUs are not joined by NVLink",
        "Enough GPUs are free, but no set of them is joined pairwise by NVLink: other pods have broken the islands.",
        "Move a pod that breaks the island, or annotate the pod `islander.dev/topology: preferred`.",
    ),
    Code.ISLAND_NOT_GUARANTEED: ReasonText(
        "kubelet may pick GPUs that are not joined by NVLink",
        "The device plugin may hand out other GPUs than a free island, or nothing tells which GPUs are free or linked.",
        "Free the whole node, name its hardware (`islander.dev/hardware`), let it report its GPUs, or use `preferred`.",
    ),
    Code.NO_SUCH_ISLAND: ReasonText(
        "node has no NVLink island of this size",
        "The hardware of the node joins fewer GPUs by NVLink than the pod needs.",
        "Use another node type, or a smaller tensor parallel size.",
    ),
    Code.WRONG_PRODUCT: ReasonText(
        "node has another GPU product than the pod asks for",
        "The pod's node selector or affinity names a GPU product that the node does not have.",
        "Correct the selector, or add nodes of that product.",
    ),
    Code.GPU_MEMORY_TOO_SMALL: ReasonText(
        "GPU memory is smaller than the pod asks for",
        "The pod's affinity asks for more memory per GPU (`nvidia.com/gpu.memory`) than the node's GPUs have.",
        "Use nodes with larger GPUs, or more GPUs per replica.",
    ),
    Code.NUMA_SPLIT: ReasonText(
        "kubelet would refuse GPUs from several NUMA nodes",
        "The node's Topology Manager policy admits only GPUs of one NUMA node, and too few are free there.",
        "Free GPUs on one NUMA node, or relax the node's Topology Manager policy.",
    ),
    Code.SHARED_GPUS: ReasonText(
        "node shares its GPUs, so two of them may be one",
        "The node offers time slices or MPS replicas under the name of whole GPUs; two replicas may be the same GPU.",
        "Use a node with whole GPUs, or annotate the pod `islander.dev/topology: ignored` to accept replicas.",
    ),
    Code.MIG_NOT_PLACEABLE: ReasonText(
        "MIG device cannot be placed on this node",
        "The node has no free MIG device of the profile.",
        "Ask for a profile that the node offers, or change the node's MIG layout.",
        curable_by_preemption=True,
    ),
    Code.MIG_NO_PEER: ReasonText(
        "MIG devices have no way to each other",
        "The pod splits an engine over several devices, and the node's are MIG instances: they have no peer-to-peer.",
        "Ask for whole GPUs on a node that has some, or set the parallel sizes to 1.",
    ),
    Code.MIG_INVALID: ReasonText(
        "MIG layout of the node is not uniform, so it offers no GPU",
        "The node's MIG strategy is `single`, which wants every GPU cut into the same instances; these are not.",
        "Cut all GPUs of the node alike, or set the device plugin's MIG strategy to `mixed`.",
    ),
    Code.MIG_CHANGING: ReasonText(
        "MIG layout of the node is being changed",
        "`nvidia.com/mig.config.state` is `pending` or `rebooting`: devices come and go, and one in use stops it.",
        "Wait until it is `success`.",
    ),
    Code.MIG_FAILED: ReasonText(
        "last change of the node's MIG layout failed",
        "`nvidia.com/mig.config.state` is `failed`: what the GPUs look like is not certain, and a person has to look.",
        "Read the MIG manager's log and put the node right; a label that is only left over can be removed.",
    ),
    Code.CLIQUE_TOO_SMALL: ReasonText(
        "NVLink clique is too small for the whole group",
        "The nodes that share a rack-wide NVLink domain have too few free GPUs for all pods of the group.",
        "Free GPUs inside one clique, or allow the group to spread.",
    ),
    Code.RESERVED: ReasonText(
        "room is reserved by a plan in progress",
        "A plan freed these GPUs for another pod and holds them until it is placed or the plan expires.",
        "Wait for the plan to end, or cancel it.",
    ),
    Code.UNKNOWN_NODE: ReasonText(
        "node is not known",
        "The node is not in the watched state: just created, just deleted, or a template of an autoscaler.",
        "Usually cures itself within seconds; otherwise check the extender's access to nodes.",
    ),
    Code.NODE_NOT_READY: ReasonText(
        "node is not ready",
        "The node's Ready condition is not True.",
        "Repair the node.",
    ),
    Code.NODE_CORDONED: ReasonText(
        "node is cordoned",
        "The node is marked unschedulable.",
        "Uncordon the node when its maintenance is over.",
    ),
    Code.TAINT_NOT_TOLERATED: ReasonText(
        "node has a taint that the pod does not tolerate",
        "A NoSchedule or NoExecute taint of the node has no matching toleration.",
        "Add the toleration, or remove the taint.",
    ),
    Code.SELECTOR_MISMATCH: ReasonText(
        "node does not match the pod's node selector or affinity",
        "A label that the pod requires is missing from the node or has another value.",
        "Correct the selector, or label the node.",
    ),
    Code.NOT_ENOUGH_CPU: ReasonText(
        "not enough CPU on the node",
        "The CPU requests of the node's pods leave less than the pod asks for.",
        "Lower the pod's CPU request, or move a pod away.",
        curable_by_preemption=True,
    ),
    Code.NOT_ENOUGH_MEMORY: ReasonText(
        "not enough memory on the node",
        "The memory requests of the node's pods leave less than the pod asks for.",
        "Lower the pod's memory request, or move a pod away.",
        curable_by_preemption=True,
    ),
    Code.NOT_ENOUGH_PODS: ReasonText(
        "node runs as many pods as it may",
        "The node's pod limit is reached.",
        "Move a pod away, or raise the kubelet's pod limit.",
        curable_by_preemption=True,
    ),
    Code.HOST_PORT_TAKEN: ReasonText(
        "host port of the pod is in use on the node",
        "A pod on the node occupies a host port that the pod asks for.",
        "Use another port, or no host network.",
        curable_by_preemption=True,
    ),
    Code.POD_AFFINITY_MISMATCH: ReasonText(
        "required affinity between pods forbids the node",
        "The pod's required affinity or anti-affinity fails there, or a pod there excludes it.",
        "Loosen the rule to a preference, or move the other pod.",
    ),
    Code.TOPOLOGY_SPREAD: ReasonText(
        "topology spread of the pod would be broken",
        "The pod on this node would make the difference between domains larger than `maxSkew` allows.",
        "Raise `maxSkew`, use `ScheduleAnyway`, or make room in the emptier domain.",
    ),
    Code.INVALID_REQUEST: ReasonText(
        "pod's GPU request is not valid",
        "A GPU quantity is not a whole number, is negative, or its request differs from its limit.",
        "Correct the resources of the container that the explanation names.",
    ),
}


# What holds a single pod where it is.
IMMOVABLE_REASONS: dict[MoveCode, ReasonText] = {
    MoveCode.PDB_ZERO: ReasonText(
        "disruption budget allows no disruption now",
        "A PodDisruptionBudget selects the pod and its `disruptionsAllowed` is 0, so the API refuses eviction.",
        "Wait until all replicas are Ready, or loosen the budget (`maxUnavailable: 1`).",
    ),
    MoveCode.PDB_SEVERAL: ReasonText(
        "several disruption budgets select the pod",
        "The API refuses to evict a pod that more than one PodDisruptionBudget selects.",
        "Leave one budget for the pod.",
    ),
    MoveCode.DAEMONSET: ReasonText(
        "pod of a DaemonSet belongs to its node",
        "A DaemonSet starts the pod again on the same node.",
        "None by moving; ask whether the DaemonSet must hold GPUs there.",
    ),
    MoveCode.STATIC_POD: ReasonText(
        "static pod belongs to its node",
        "kubelet runs the pod from a file of the node; the API cannot evict it.",
        "Take the pod's file off the node.",
    ),
    MoveCode.BARE_POD: ReasonText(
        "no controller would start the pod again",
        "The pod has no owner: once evicted it is gone for ever.",
        "Let a Deployment or another controller own the pod.",
    ),
    MoveCode.DO_NOT_DISRUPT: ReasonText(
        "pod or its node asks not to be disturbed",
        'An annotation says so: `islander.dev/movable: "false"`, `karpenter.sh/do-not-disrupt`, '
        '`cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`, the descheduler\'s `prefer-no-eviction`.',
        "Remove the annotation when the pod may move.",
    ),
    MoveCode.PRIORITY_HIGHER: ReasonText(
        "pod has a higher priority than all pending ones",
        "A pod is never disturbed for one of lower priority; pods of equal priority may move.",
        "Raise the priority of the pending pod, if it deserves it.",
    ),
    MoveCode.GROUP_MUST_MOVE_WHOLE: ReasonText(
        "pod restarts together with its group, and a part of the group cannot move",
        "The pods of one LeaderWorkerSet replica, or of another pod group, live and die together; one of them is held.",
        "See what holds the other pods of the group; `immovable` of the plan lists them.",
    ),
    MoveCode.SINGLE_REPLICA: ReasonText(
        "no other replica would serve meanwhile",
        "The workload has no other replica that is Ready, so moving this one is an outage until it has loaded again.",
        "Run a second replica, or use `--allow-single-replica`, which starts the new copy before the old one ends.",
    ),
    MoveCode.VOLUME_PINNED: ReasonText(
        "volume of the pod cannot follow it to another node",
        "A volume is local to the node, is attached to another pod there, or nothing is known of its claim.",
        "Give the planner claims and volumes (`kubectl get pvc,pv -A`), or use storage that other nodes reach.",
    ),
    MoveCode.RESOURCE_CLAIM: ReasonText(
        "pod uses devices of dynamic resource allocation",
        "The pod has `resourceClaims`: which devices its replacement would get is kube-scheduler's choice.",
        'Annotate the pod `islander.dev/movable: "true"` when its claims can be met on other nodes.',
    ),
    MoveCode.UNKNOWN_OWNER: ReasonText(
        "nothing is known of how the owner replaces the pod",
        "The owner is a Job, or of a kind that may restart everything, something, or nothing when a pod is evicted.",
        'Annotate the pod `islander.dev/movable: "true"`, or use `--allow-unknown-owners`.',
    ),
    MoveCode.TERMINATING: ReasonText(
        "pod is ending already",
        "The pod has a deletion timestamp; it holds its GPUs until it is gone.",
        "Wait, and plan again.",
    ),
    MoveCode.NO_SURGE_ROOM: ReasonText(
        "no second copy can run beside the only replica",
        "The only replica may move as a second copy alone, but its controller makes none (StatefulSet), or its volume "
        "can be used on one node at a time.",
        "Scale the workload to two replicas, or accept the outage and move it by hand.",
    ),
    MoveCode.KUEUE_PINNED: ReasonText(
        "Kueue has chosen the node of the pod",
        "The pod is placed by Kueue's topology-aware scheduling, which would bring its replacement back to its node.",
        "Let Kueue move it: an untolerated taint on the node, or deactivating the Workload.",
    ),
    MoveCode.KUEUE_NO_QUOTA: ReasonText(
        "quota of Kueue is not certain for the replacement",
        "The replacement is a new Workload that queues again, and a waiting one may take its quota.",
        'Hold the waiting queues and annotate the pod `islander.dev/movable: "true"`.',
    ),
    MoveCode.PROTECTED: ReasonText(
        "pod is protected",
        "`--protect` selects it, it runs in `kube-system` or another namespace of the system, or its priority is "
        "system-critical.",
        "Change `--protect`; pods of the system are never moved.",
    ),
}

# What keeps a plan from being made, or from being carried out.
PLAN_REASONS: dict[MoveCode, ReasonText] = {
    MoveCode.NO_ROOM_EVEN_IF_REPACKED: ReasonText(
        "no node could take the pod however the movable pods are placed",
        "Whatever may move was considered; what remains is not enough room in one place.",
        "The message names the smallest change that would help: a budget, an option, or one more node.",
    ),
    MoveCode.CYCLE_WITHOUT_BUFFER: ReasonText(
        "pods would have to change places, and there is no room to begin",
        "Each of the moves needs the room that another of them frees, and no node has room for one of them meanwhile.",
        "Free or add room for one of the pods for the time of the plan.",
    ),
    MoveCode.OVER_MOVE_LIMIT: ReasonText(
        "more moves are needed than are allowed",
        "`--max-moves` or `--max-moves-per-workload` is smaller than what it takes.",
        "Raise the limit.",
    ),
    MoveCode.NO_ANSWER_IN_TIME: ReasonText(
        "time ran out before an answer was certain",
        "Within `--time-limit` neither a place for the pod was found nor the proof that there is none.",
        "Raise `--time-limit`, or plan for fewer pods with `--pod`.",
    ),
    MoveCode.STALE_POD: ReasonText(
        "pod is not what the plan was made for",
        "The pod is gone, was replaced by another one of its name, runs on another node, or does not wait any more.",
        "Plan again.",
    ),
    MoveCode.OVER_BUDGET: ReasonText(
        "one wave disturbs more pods than a disruption budget allows",
        "The budget's `disruptionsAllowed` is smaller than the number of its pods that move in the wave.",
        "Plan again; the budget was loosened and tightened meanwhile, or the plan was edited.",
    ),
    MoveCode.TWO_OF_ONE_WORKLOAD: ReasonText(
        "one wave disturbs two replicas of one workload",
        "Replicas of a workload move one after the other, so that the others serve meanwhile.",
        "Put the steps into different waves, or plan again.",
    ),
    MoveCode.PLAN_INCONSISTENT: ReasonText(
        "plan contradicts itself",
        "Steps, admissions and sums of the plan do not belong together, as after an edit by hand.",
        "Plan again instead of editing a plan.",
    ),
    MoveCode.NO_SUCH_PROFILE: ReasonText(
        "no GPU of the cluster can be cut into this profile",
        "Profile names belong to a product: the same name means another size, or nothing, on another one.",
        "Ask for a profile that the nodes' product has (docs/mig.md), or name the product.",
    ),
    MoveCode.NO_GPU_TO_CUT: ReasonText(
        "no GPU is left that may be cut for it",
        "All idle GPUs of a product that has the profile, on nodes that may change, go to demand that comes first.",
        "Add nodes, free GPUs, or see `notTargets` of the plan for nodes that could be made targets.",
    ),
    MoveCode.ISLAND_NEEDED: ReasonText(
        "only GPUs could be cut that a waiting replica needs whole",
        "Pending pods that ask for whole GPUs fit today, and would not fit any more.",
        "Let the pending pods start, or scale them down, and plan again.",
    ),
    MoveCode.NEEDS_DRAIN: ReasonText(
        "only GPUs could be cut that run pods",
        "mig-parted replaces the whole layout of a GPU, and refuses while something runs on it.",
        "Use `--allow-drain`: pods that may move are then listed to be drained first.",
    ),
    MoveCode.DRAIN_WITHOUT_TARGET: ReasonText(
        "pod waits until the new layout is there",
        "No other instance of its profile is free before the change, so the pod is pending while the GPU is cut.",
        "Accept the outage, or free an instance elsewhere first.",
    ),
    MoveCode.GPUS_NOT_KNOWN: ReasonText(
        "nothing tells which GPUs of the node are idle",
        "Without a report of the node nobody knows which GPU a pod holds, or how GPUs are cut that are.",
        "Run the agent on the node (`islander.dev/gpus`), or drain the node.",
    ),
    MoveCode.NO_MIG_TABLE: ReasonText(
        "no recommendation for this GPU product",
        "The product has no MIG, or is not in the table of placements.",
        "Cut it by hand; `nvidia-smi mig -lgipp` lists what the driver allows.",
    ),
    MoveCode.DRIVER_TOO_OLD: ReasonText(
        "driver of the node is too old to cut its GPUs",
        "The product, or the profile, needs a newer driver than the node's labels tell.",
        "Update the driver.",
    ),
    MoveCode.NOT_SELECTED: ReasonText(
        "node is not among those that may change",
        "`--nodes` does not select it.",
        "Widen the selector.",
    ),
    MoveCode.LAYOUT_NOT_LEGAL: ReasonText(
        "GPU cannot be cut like this",
        "Instances overlap, start where their profile cannot, or are more than the GPU has room for.",
        "Plan again instead of editing a plan.",
    ),
    MoveCode.STALE_GPU: ReasonText(
        "GPU is not what the plan was made for",
        "It is gone, is of another product, or is cut or used differently from what the plan says.",
        "Plan again.",
    ),
    MoveCode.FILE_NOT_VALID: ReasonText(
        "file of the plan would not be accepted, or says something else than the plan",
        "mig-parted's schema is broken, an index is named twice or not at all, or a label names no configuration.",
        "Plan again instead of editing a plan.",
    ),
}

MOVE_REASONS: dict[MoveCode, ReasonText] = IMMOVABLE_REASONS | PLAN_REASONS

"""Every label, annotation and resource name that Islander reads or writes, in one place."""

from __future__ import annotations

DOMAIN = "islander.dev"
API_VERSION = f"{DOMAIN}/v1"

# On pods.
TOPOLOGY = f"{DOMAIN}/topology"
TENSOR_PARALLEL_SIZE = f"{DOMAIN}/tensor-parallel-size"
MOVABLE = f"{DOMAIN}/movable"
RELOAD_SECONDS = f"{DOMAIN}/reload-seconds"

# On nodes.
HARDWARE = f"{DOMAIN}/hardware"
GPUS = f"{DOMAIN}/gpus"

# GPU feature discovery (k8s-device-plugin, docs/gpu-feature-discovery).
GPU_PRESENT = "nvidia.com/gpu.present"
GPU_PRODUCT = "nvidia.com/gpu.product"
GPU_COUNT = "nvidia.com/gpu.count"
GPU_MEMORY = "nvidia.com/gpu.memory"
GPU_REPLICAS = "nvidia.com/gpu.replicas"
GPU_SHARING_STRATEGY = "nvidia.com/gpu.sharing-strategy"
GPU_CLIQUE = "nvidia.com/gpu.clique"
# The driver's major version; the second spelling is that of older releases.
DRIVER_MAJOR = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
# MIG: the device plugin's strategy; what mig-parted's manager is asked for, and how far it is (NVIDIA/mig-parted,
# deployments/k8s-mig-manager).
MIG_STRATEGY = "nvidia.com/mig.strategy"
MIG_CAPABLE = "nvidia.com/mig.capable"
MIG_CONFIG = "nvidia.com/mig.config"
MIG_CONFIG_STATE = "nvidia.com/mig.config.state"
# AMD's node labeller (ROCm/k8s-device-plugin, cmd/k8s-node-labeller).
AMD_PRODUCT = "amd.com/gpu.product-name"

# Resources.
NVIDIA_GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"
MIG_RESOURCE_PREFIX = "nvidia.com/mig-"
DEFAULT_GPU_RESOURCES = (NVIDIA_GPU, AMD_GPU)
# The driver of dynamic resource allocation that serves whole GPUs (NVIDIA/k8s-dra-driver-gpu, ROCm/k8s-gpu-dra-driver).
DRA_DRIVERS = {NVIDIA_GPU: "gpu.nvidia.com", AMD_GPU: "gpu.amd.com"}

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
MIRROR_POD = "kubernetes.io/config.mirror"
KARPENTER_DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
REQUEST_EVICT_ONLY = "descheduler.alpha.kubernetes.io/request-evict-only"
EVICTION_IN_PROGRESS = "descheduler.alpha.kubernetes.io/eviction-in-progress"
KOORDINATOR_EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"

# Pods that live and die together.
LWS_GROUP = "leaderworkerset.x-k8s.io"
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
KUEUE_POD_GROUP = "kueue.x-k8s.io/pod-group-name"
POD_GROUP = "scheduling.x-k8s.io/pod-group"
VOLCANO_POD_GROUP = "scheduling.k8s.io/group-name"

# Kueue (apis/kueue/v1beta2, pkg/controller/constants).
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_MANAGED = "kueue.x-k8s.io/managed"
KUEUE_TAS = "kueue.x-k8s.io/tas"
KUEUE_POD_SET = "kueue.x-k8s.io/podset"
KUEUE_CLUSTER_QUEUE = "kueue.x-k8s.io/cluster-queue-name"
KUEUE_LOCAL_QUEUE = "kueue.x-k8s.io/local-queue-name"
KUEUE_TOPOLOGY_ANNOTATIONS = frozenset(
    f"kueue.x-k8s.io/podset-{kind}"
    for kind in (
        "required-topology",
        "preferred-topology",
        "unconstrained-topology",
        "slice-required-topology",
        "topology-spreading",
    )
)

# The annotations that are kept of an object; all others are dropped when it is parsed.
KEPT_POD_ANNOTATIONS = KUEUE_TOPOLOGY_ANNOTATIONS | {
    TOPOLOGY,
    TENSOR_PARALLEL_SIZE,
    MOVABLE,
    RELOAD_SECONDS,
    MIRROR_POD,
    KARPENTER_DO_NOT_DISRUPT,
    SAFE_TO_EVICT,
    PREFER_NO_EVICTION,
    REQUEST_EVICT_ONLY,
    EVICTION_IN_PROGRESS,
    KOORDINATOR_EVICTION_COST,
    VOLCANO_POD_GROUP,
}
KEPT_NODE_ANNOTATIONS = frozenset({HARDWARE, GPUS, KARPENTER_DO_NOT_DISRUPT, SCALE_DOWN_DISABLED})

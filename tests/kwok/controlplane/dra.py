"""Builders of API objects of dynamic resource allocation (`resource.k8s.io/v1`)."""

from typing import Any

Json = dict[str, Any]

API_VERSION = "resource.k8s.io/v1"
DRIVER = "gpu.nvidia.com"


def device_class(name: str = DRIVER, *, extended_resource: str = "") -> Json:
    """Return a DeviceClass of everything the driver offers; it may stand for an extended resource too."""
    spec: Json = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    if extended_resource:
        spec["extendedResourceName"] = extended_resource
    return {"apiVersion": API_VERSION, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def resource_slice(node: str, gpus: int = 8, *, product: str = "NVIDIA H100 80GB HBM3", memory: str = "80Gi") -> Json:
    """Return the ResourceSlice that a GPU driver publishes for one node; devices are `gpu-0`, `gpu-1`, ..."""
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "index": {"int": index},
                "type": {"string": "gpu"},
                "productName": {"string": product},
                "uuid": {"string": f"GPU-{node}-{index}"},
            },
            "capacity": {"memory": {"value": memory}},
        }
        for index in range(gpus)
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def claim_template(name: str, gpus: int = 1, *, namespace: str = "default", class_name: str = DRIVER) -> Json:
    """Return a ResourceClaimTemplate whose claims ask for `gpus` devices."""
    request = {
        "name": "gpus",
        "exactly": {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": gpus},
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def claim_fields(template: str) -> Json:
    """Return the fields of a pod's spec that claim devices by a template, for `objects.gpu_pod(..., 0, **fields)`."""
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.11.0", "resources": {"claims": [{"name": "gpus"}]}}
    return {
        "containers": [container],
        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": template}],
    }

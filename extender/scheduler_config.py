"""The part of kube-scheduler's configuration that belongs to the extender, as YAML to paste."""

from __future__ import annotations

from io import StringIO
from typing import Any

from ruamel.yaml import YAML

from extender.config import ExtenderConfig
from islander.cluster.names import NVIDIA_GPU
from islander.hardware.mig import MIG_RESOURCES

# kube-scheduler adds score x weight x 10 for us, and at most 100 x 14 for its default plugins (their weights are
# 3 + 2 + 2 + 2 + 2 + 1 + 1 + 1, config/v1 default_plugins.go). With 15 our best node outvotes them all; with 3 to 5
# topology would only steer.
WEIGHT = 15
# Answers take milliseconds; within this time a replica that has just gone is given up and the pod tried again.
HTTP_TIMEOUT = "5s"

_HEADER = """\
# Goes into the KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) that kube-scheduler reads with --config.
# Above 100 nodes kube-scheduler looks at a sample; the node with the right island may not be in it.
"""


def managed_resources(config: ExtenderConfig) -> tuple[str, ...]:
    """Return the resources whose pods are sent: kube-scheduler knows no wildcard, so each MIG profile is named."""
    mig = MIG_RESOURCES if NVIDIA_GPU in config.resource_names else ()
    return (*config.resource_names, *(name for name in mig if name not in config.resource_names))


def scheduler_config(config: ExtenderConfig, *, see_all_pods: bool = False) -> str:
    """Return the entry for this configuration.

    Parameters
    ----------
    see_all_pods
        Have every pod sent, which pods with nothing but resource claims need; otherwise only pods that name one of the
        configured resources, or a MIG profile where GPUs of NVIDIA are configured, so that all others are scheduled
        even while no extender answers.
    """
    address = config.listen.address
    host = "127.0.0.1" if address in ("0.0.0.0", "::") else address  # noqa: S104 - compared, not listened on
    authority = f"[{host}]" if ":" in host else host
    extender: dict[str, Any] = {
        "urlPrefix": f"{'https' if config.tls else 'http'}://{authority}:{config.listen.port}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": WEIGHT,
        "httpTimeout": HTTP_TIMEOUT,
        "nodeCacheCapable": True,
        "ignorable": False,
    }
    if config.bind:
        extender["bindVerb"] = "bind"
    if not see_all_pods:
        extender["managedResources"] = [{"name": name} for name in managed_resources(config)]
    if config.tls:
        extender["tlsConfig"] = {"caFile": "CA_FILE", "serverName": "SERVER_NAME"}
        if config.tls.client_ca_file:
            extender["tlsConfig"] |= {"certFile": "CLIENT_CERT_FILE", "keyFile": "CLIENT_KEY_FILE"}
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = StringIO()
    yaml.dump({"percentageOfNodesToScore": 100, "extenders": [extender]}, text)
    return _HEADER + text.getvalue()

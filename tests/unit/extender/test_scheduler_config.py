from __future__ import annotations

import re
from typing import Any

import pytest
from ruamel.yaml import YAML

from extender.config import parse_config
from extender.scheduler_config import scheduler_config
from islander.hardware.mig import MIG_RESOURCES


def entry(text: str = "", *, see_all_pods: bool = False) -> dict[str, Any]:
    document = YAML(typ="safe").load(scheduler_config(parse_config(text, "c.yaml"), see_all_pods=see_all_pods))
    assert document.keys() == {"percentageOfNodesToScore", "extenders"}
    assert document["percentageOfNodesToScore"] == 100
    (extender,) = document["extenders"]
    return dict(extender)


def test_the_entry_has_everything_that_matters() -> None:
    assert entry() == {
        "urlPrefix": "http://127.0.0.1:8880",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 15,
        "httpTimeout": "5s",
        "nodeCacheCapable": True,
        "ignorable": False,
        "managedResources": [{"name": name} for name in ("nvidia.com/gpu", "amd.com/gpu", *MIG_RESOURCES)],
    }


def test_pods_that_ask_for_mig_instances_are_sent_where_their_gpus_are() -> None:
    sent = [managed["name"] for managed in entry()["managedResources"]]
    assert {"nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.40gb", "nvidia.com/mig-1g.10gb.me"} <= set(sent)
    # kube-scheduler refuses a configuration that names one twice, or names what is no extended resource.
    assert len(set(sent)) == len(sent)
    assert all(re.fullmatch(r"[a-z.]+/[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?", name) for name in sent)
    assert entry("resourceNames: [amd.com/gpu]")["managedResources"] == [{"name": "amd.com/gpu"}]
    twice = entry("resourceNames: [nvidia.com/gpu, nvidia.com/mig-1g.5gb]")["managedResources"]
    assert [managed["name"] for managed in twice].count("nvidia.com/mig-1g.5gb") == 1


def test_the_weight_outvotes_all_default_plugins_together() -> None:
    """Ten points of ours times the weight times ten, against 100 points of each plugin times its weight."""
    assert 10 * 10 * entry()["weight"] > 100 * (3 + 2 + 2 + 2 + 2 + 1 + 1 + 1)


def test_only_the_configured_resources_are_sent_unless_all_pods_are_wanted() -> None:
    assert entry("resourceNames: [example.com/gpu]")["managedResources"] == [{"name": "example.com/gpu"}]
    assert "managedResources" not in entry(see_all_pods=True)


def test_the_bind_verb_is_offered_only_when_it_is_on() -> None:
    assert "bindVerb" not in entry()
    assert entry("bind: true")["bindVerb"] == "bind"


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("address: 10.0.0.5, port: 1234", "http://10.0.0.5:1234"),
        ("address: 0.0.0.0", "http://127.0.0.1:8880"),
        ("address: '::'", "http://127.0.0.1:8880"),
        ("address: 'fd00::1'", "http://[fd00::1]:8880"),
    ],
)
def test_the_address_is_one_that_can_be_called(listen: str, url: str) -> None:
    assert entry(f"listen: {{{listen}}}")["urlPrefix"] == url


def test_with_tls_the_files_of_the_scheduler_are_left_to_fill_in() -> None:
    plain = entry("tls: {certFile: a, keyFile: b}")
    assert plain["urlPrefix"].startswith("https://")
    assert plain["tlsConfig"] == {"caFile": "CA_FILE", "serverName": "SERVER_NAME"}
    assert entry("tls: {certFile: a, keyFile: b, clientCAFile: c}")["tlsConfig"].keys() == {
        "caFile",
        "serverName",
        "certFile",
        "keyFile",
    }

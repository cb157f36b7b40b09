"""Kueue's definitions and webhooks from its module: what `kubectl kustomize config/default` makes of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.kwok.controlplane.api import Json

_PREFIX = "kueue-"
_DEFINITIONS, _WEBHOOKS = Path("config/components/crd"), Path("config/components/webhook")


def definitions(folder: Path, service: Mapping[str, Any]) -> list[Json]:
    """Return the CustomResourceDefinitions, those with two versions converted by the webhook.

    Parameters
    ----------
    folder
        Where `config/components` of the module is.
    service
        Name, namespace and port of the webhooks' service.
    """
    kustomization = _documents(folder / _DEFINITIONS / "kustomization.yaml")[0]
    found = {
        crd["metadata"]["name"]: crd
        for name in kustomization["resources"]
        for crd in _documents(folder / _DEFINITIONS / name)
    }
    for patch in kustomization["patches"]:
        (changed,) = _documents(folder / _DEFINITIONS / patch["path"])
        conversion = changed["spec"]["conversion"]
        conversion["webhook"]["clientConfig"]["service"] |= service
        found[changed["metadata"]["name"]]["spec"]["conversion"] = conversion
    return list(found.values())


def webhooks(folder: Path, service: Mapping[str, Any]) -> list[Json]:
    """Return the two webhook configurations; parameters as for `definitions`."""
    found = {obj["kind"]: obj for obj in _documents(folder / _WEBHOOKS / "manifests.yaml")}
    (kustomization,) = _documents(folder / _WEBHOOKS / "kustomization.yaml")
    for patch in kustomization["patches"]:
        changed = yaml.safe_load(patch["patch"])
        by_name = {webhook["name"]: webhook for webhook in found[changed["kind"]]["webhooks"]}
        for webhook in changed["webhooks"]:
            by_name[webhook["name"]] |= webhook
    for obj in found.values():
        obj["metadata"]["name"] = _PREFIX + obj["metadata"]["name"]
        for webhook in obj["webhooks"]:
            webhook["clientConfig"]["service"] |= service
    return list(found.values())


def _documents(path: Path) -> list[Json]:
    """Return the documents of a file; the parser in C, because the definitions have 23,000 lines."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(path.read_text(), loader) if document]

"""The objects of a kustomization: `kubectl kustomize` for the few fields that deploy/ uses, and no others."""

from pathlib import Path
from typing import Any

import yaml

_FIELDS = {"apiVersion", "kind", "resources"}


def objects_of(folder: Path) -> list[dict[str, Any]]:
    """Return the objects in the order in which the kustomization names them.

    Raises
    ------
    ValueError
        The kustomization has a field whose meaning is not known here.
    """
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if unknown := kustomization.keys() - _FIELDS:
        raise ValueError(f"{folder}: kustomization with {', '.join(sorted(unknown))}")
    found: list[dict[str, Any]] = []
    for name in kustomization["resources"]:
        path = folder / name
        found += objects_of(path) if path.is_dir() else [doc for doc in yaml.safe_load_all(path.read_text()) if doc]
    return found

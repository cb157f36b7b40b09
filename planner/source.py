"""Where a verb gets its cluster from: files, the running extender, or the API server of the kubeconfig."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Source:
    """What the common flags say of the cluster.

    Attributes
    ----------
    files
        Snapshots or dumps, `-` for stdin; when there are any, the API is not asked.
    extender
        Base URL of a running extender.
    extender_ca
        File with the authority of the extender's certificate; None for the system's authorities.
    """

    files: tuple[str, ...] = ()
    extender: str | None = None
    extender_ca: Path | None = None
    kubeconfig: str | None = None
    context: str | None = None
    impersonate: str | None = None

    def describe(self) -> str:
        """Return where the cluster comes from, for a remark."""
        if self.files:
            return ", ".join("stdin" if file == "-" else file for file in self.files)
        return self.extender or (f"context {self.context}" if self.context else "the current kubeconfig context")

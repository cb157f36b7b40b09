"""Soft holds: where pods are probably going, from the moment they were scored until the watch shows where they went.

kube-scheduler does not tell which node it chose, and the watch tells it a moment later. Between the two the next pod
would be scored as though the first had gone nowhere. A hold lowers a score; it never refuses a node.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass

import msgspec

from extender.cache import identity
from islander.cluster.pod import Pod


@dataclass(frozen=True, slots=True)
class _Hold:
    pod: Pod
    until_s: float


class SoftHolds:
    """Pods that are thought to be on their way to a node; thread-safe. Times are seconds of any steady clock.

    Parameters
    ----------
    duration_s
        How long a hold lasts unless it is settled earlier; 0 for no holds.
    """

    def __init__(self, duration_s: float) -> None:
        self._duration_s = duration_s
        self._holds: dict[str, _Hold] = {}
        self._lock = threading.Lock()

    def count(self, now_s: float) -> int:
        """Return how many holds are in force."""
        return sum(hold.until_s > now_s for hold in list(self._holds.values()))

    def place(self, pod: Pod, node: str, now_s: float) -> None:
        """Hold room for a pod on a node, and no longer on another."""
        if self._duration_s > 0:
            with self._lock:
                self._holds[identity(pod)] = _Hold(msgspec.structs.replace(pod, node=node), now_s + self._duration_s)

    def settle(self, who: str) -> None:
        """Drop the hold of a pod, by its identity."""
        if who in self._holds:
            with self._lock:
                self._holds.pop(who, None)

    def on_nodes(self, now_s: float) -> dict[str, list[Pod]]:
        """Return the pods that are held room for, by node; holds whose time is over are dropped."""
        if not self._holds:
            return {}
        with self._lock:
            self._holds = {who: hold for who, hold in self._holds.items() if hold.until_s > now_s}
            held: defaultdict[str, list[Pod]] = defaultdict(list)
            for hold in self._holds.values():
                held[hold.pod.node].append(hold.pod)
        return dict(held)

"""Patience with a pod that is tried again because of something that our own watch has not shown us yet.

kube-scheduler tries a refused pod again within moments of any change of a node or pod. It has its own watch, and when
it asks before ours has brought the same change, we refuse by the old state. Nothing else happens then, and the pod
waits for five minutes although it fits. So a refusal on all nodes that is no news to the pod is held back until the
watch has brought something, for a short time at most. In a busy cluster something has always come, and nothing waits.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from islander.cluster.pod import Pod

# A watch is late by milliseconds; on a loaded machine by some tens.
PATIENCE_S = 0.25
# Some events of kube-scheduler are of kinds that we do not watch. Waiting for them in vain must not cost throughput.
REST_S = 10 * PATIENCE_S
# So many refused pods are remembered.
_REFUSED = 4096


class News:
    """Counts what the watch brings, and waits for it; thread-safe. Times are seconds of a steady clock."""

    def __init__(self, now_s: Callable[[], float], patience_s: float = PATIENCE_S) -> None:
        self._now_s = now_s
        self._patience_s = patience_s
        self._rest_until_s = 0.0
        self._count = 0
        self._refused_at: OrderedDict[str, int] = OrderedDict()
        self._refused_as: dict[str, Pod] = {}
        self._changed = threading.Condition()

    @property
    def count(self) -> int:
        """How much the watch has brought so far."""
        return self._count

    @property
    def resting(self) -> bool:
        """Whether the last wait was in vain, and so recent that no other is begun."""
        return self._now_s() < self._rest_until_s

    def on_change(self, kind: str, key: str, old: object, new: object) -> None:
        """Take in one change, after all else that decisions rest on has done so."""
        if kind not in ("Node", "Pod") or old == new:
            return
        with self._changed:
            self._count += 1
            if kind == "Pod" and key in self._refused_at:
                # What happens to the pod itself, such as the note of our own refusal, is no reason to judge anew.
                self._refused_at[key] += 1
            self._changed.notify_all()

    def refused(self, pod: Pod, count: int) -> None:
        """Remember that all nodes were refused to a pod by what was known at `count`."""
        with self._changed:
            self._refused_at[pod.key] = count
            self._refused_at.move_to_end(pod.key)
            self._refused_as[pod.key] = pod
            if len(self._refused_at) > _REFUSED:
                oldest, _ = self._refused_at.popitem(last=False)
                del self._refused_as[oldest]

    def wait(self, pod: Pod, count: int) -> bool:
        """Return whether the refusal of all nodes by what was known at `count` is worth another look.

        It is when something has come since. When nothing has come since the pod was refused before, this waits for it.
        """
        with self._changed:
            if self._count > count:
                return True
            # A pod that is not the same any more is tried again because of that, as after the note of our refusal.
            if self._refused_as.get(pod.key) != pod or self._has_news(pod.key) or self.resting:
                return False
            came = self._changed.wait_for(lambda: self._has_news(pod.key), self._patience_s)
            if not came:
                self._rest_until_s = self._now_s() + REST_S
            return came

    def _has_news(self, key: str) -> bool:
        return self._refused_at[key] < self._count

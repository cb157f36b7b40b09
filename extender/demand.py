"""The demand mix as it is observed, republished only when it has really changed: every new mix means judging anew."""

from __future__ import annotations

import threading
from collections.abc import Callable

from islander.cluster.pod import Pod
from islander.policy.demand import observed_mix
from islander.policy.need import PodNeed, need_of
from islander.policy.settings import DEFAULT_MIX, DemandMix, PolicySettings

# So many GPU pods, and such a share of all, must have come or gone before the mix is looked at again.
_LEAST_CHANGES = 20
_SHARE = 0.1


class ObservedDemand:
    """The mix of the GPU pods that run or wait, by events; thread-safe."""

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        self._needs: dict[str, PodNeed] = {}
        self._changes = 0
        self._mix = DEFAULT_MIX
        self._lock = threading.Lock()

    def on_change(self, kind: str, key: str, old: object, new: object) -> None:
        """Take in one change of an object; only pods matter."""
        if kind != "Pod":
            return
        pod = new if isinstance(new, Pod) and new.phase not in ("Succeeded", "Failed") else None
        if key not in self._needs and (pod is None or not pod.spec.requests.extended):
            return
        need = need_of(pod, self._settings) if pod is not None else None
        with self._lock:
            before = self._needs.pop(key, None)
            if need is not None and need.gpus:
                self._needs[key] = need
            self._changes += before != self._needs.get(key)

    def mix(self) -> DemandMix:
        """Return the mix in force."""
        if self._changes < max(_LEAST_CHANGES, _SHARE * len(self._needs)):
            return self._mix
        with self._lock:
            self._changes = 0
            self._mix = observed_mix(self._needs.values())
            return self._mix


def mix_source(settings: PolicySettings, observed: ObservedDemand) -> Callable[[], DemandMix]:
    """Return where the mix comes from: the settings, or what is observed when they leave it open."""
    fixed = settings.mix
    return observed.mix if fixed is None else lambda: fixed

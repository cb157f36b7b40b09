"""The demand mix as it is observed, renewed only when it has really changed: every new mix means judging anew."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence

from islander.cluster.pod import Pod
from islander.policy.demand import coarse_mix, observed_mix
from islander.policy.need import PodNeed, need_of
from islander.policy.settings import DEFAULT_MIX, DemandMix, PolicySettings

# So many GPU pods, and such a share of all, must have come or gone before the mix is looked at again.
_LEAST_CHANGES = 20
_SHARE = 0.1

# Makes the judgements of some needs, the most frequent first, under a mix that is about to be in force.
Prepare = Callable[[Sequence[PodNeed], DemandMix], None]


class ObservedDemand:
    """The needs of the GPU pods that run or wait, by events, and the mix that they make; thread-safe."""

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        self._needs: dict[str, PodNeed] = {}
        self._changes = 0
        self._mix = settings.mix or DEFAULT_MIX
        self._lock = threading.Lock()

    def on_change(self, kind: str, key: str, old: object, new: object) -> None:
        """Take in one change of an object; only pods matter."""
        if kind != "Pod":
            return
        pod = new if isinstance(new, Pod) and not new.finished else None
        if key not in self._needs and (pod is None or not pod.spec.requests.extended):
            return
        need = need_of(pod, self._settings) if pod is not None else None
        with self._lock:
            before = self._needs.pop(key, None)
            if need is not None and need.gpus:
                self._needs[key] = need
            self._changes += before != self._needs.get(key)

    def mix(self) -> DemandMix:
        """Return the mix in force: the one of the settings, else the one observed when it was last renewed."""
        return self._mix

    def mix_seen(self) -> DemandMix:
        """Return the mix of the settings, else the one of the pods at this moment, as a snapshot of it would give."""
        if self._settings.mix is not None:
            return self._settings.mix
        with self._lock:
            return observed_mix(self._needs.values())

    def renew(self, prepare: Prepare) -> bool:
        """Put the mix of this moment in force if enough has changed, and return whether it has.

        The judgements are made before, so that no request has to wait for them.
        """
        with self._lock:
            if self._changes < max(_LEAST_CHANGES, _SHARE * len(self._needs)):
                return False
            self._changes = 0
            needs = Counter(self._needs.values())
            mix = self._settings.mix or coarse_mix(observed_mix(self._needs.values()))
        prepare([need for need, _ in needs.most_common()], mix)
        renewed, self._mix = mix != self._mix, mix
        return renewed

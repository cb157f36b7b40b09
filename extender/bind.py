"""The bind verb: off unless configured, for schedulers that must not write by themselves.

A pod is counted on its node before the API is asked, so that no other pod is bound to the same room meanwhile, and no
longer when the API refuses.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from extender.cache import ClusterCache, identity
from extender.judgement import judge
from extender.wire import BindingArgs
from islander.cluster.pod import Pod
from islander.kube.client import KubeClient
from islander.kube.errors import ApiError
from islander.policy.need import need_of
from islander.policy.reasons import REASONS
from islander.policy.settings import DemandMix, PolicySettings

T = TypeVar("T")

_REMEMBERED = 4096
_STRIPES = 64


class Binder(Protocol):
    """Whoever can bind a pod to a node."""

    def bind(self, args: BindingArgs) -> str:
        """Bind, and return what went wrong; empty when the pod is bound."""


class ApiBinder:
    """Binds through the API, with the UID, so that a pod that took over the name is never bound."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def bind(self, args: BindingArgs) -> str:
        """Create the binding of a pod."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": args.namespace, "name": args.name, "uid": args.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": args.node},
        }
        try:
            self._client.post(
                f"/api/v1/namespaces/{args.namespace}/pods/{args.name}/binding", msgspec.json.encode(binding)
            )
        except ApiError as e:
            return str(e)
        return ""


class Bindings:
    """Binds each pod once; thread-safe.

    Parameters
    ----------
    now_s
        A steady clock, in seconds.
    """

    def __init__(
        self,
        cache: ClusterCache,
        binder: Binder,
        settings: PolicySettings,
        mix: Callable[[], DemandMix],
        now_s: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._binder = binder
        self._settings = settings
        self._mix = mix
        self._now_s = now_s
        self._asked: OrderedDict[str, Pod] = OrderedDict()
        self._bound: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()
        # A second call for a pod waits for the first one's answer.
        self._stripes = [threading.Lock() for _ in range(_STRIPES)]

    def remember(self, pod: Pod) -> None:
        """Keep a pod that was asked about: its bind names it only by UID, and the watch may not have shown it yet."""
        with self._lock:
            _keep(self._asked, identity(pod), pod)

    def bind(self, args: BindingArgs) -> str:
        """Bind a pod, and return what went wrong; empty when the pod is on that node, even from an earlier call."""
        with self._stripes[hash(args.uid) % _STRIPES]:
            node = self._node_of(args)
            if node:
                return "" if node == args.node else "pod is bound to another node"
            pod = self._pod(args)
            if pod is not None:
                refusal = self._reserve(pod, args.node)
                if refusal:
                    return refusal
            problem = self._binder.bind(args)
            if problem:
                # The API may have bound it in an earlier call whose answer was lost.
                if self._node_of(args, assumed=False) == args.node:
                    return ""
                if pod is not None:
                    self._cache.forget(pod)
                return problem
            with self._lock:
                _keep(self._bound, args.uid, args.node)
            return ""

    def _node_of(self, args: BindingArgs, *, assumed: bool = True) -> str:
        seen = self._cache.pod(f"{args.namespace}/{args.name}")
        if seen is not None and seen.uid == args.uid and seen.node:
            return seen.node
        return self._bound.get(args.uid, "") if assumed else ""

    def _pod(self, args: BindingArgs) -> Pod | None:
        seen = self._cache.pod(f"{args.namespace}/{args.name}")
        if seen is not None and seen.uid == args.uid:
            return seen
        return self._asked.get(args.uid)

    def _reserve(self, pod: Pod, name: str) -> str:
        """Count the pod on the node if it fits there; return why it does not."""
        need = need_of(pod, self._settings)
        with self._lock:
            node = self._cache.node(name)
            if node is not None and need.gpus:
                state = self._cache.state_of(node, self._cache.pods_on(name), need.resource)
                code, _ = judge(state, need, self._mix())
                if code is not None:
                    return REASONS[code].sentence
            self._cache.assume(pod, name, self._now_s())
            return ""


def _keep(kept: OrderedDict[str, T], key: str, value: T) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _REMEMBERED:
        kept.popitem(last=False)

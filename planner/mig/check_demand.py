"""Whether the instances that a plan promises are there at the same time, and whole GPUs for pods that wait for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import networkx as nx

from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.need import need_of
from islander.policy.reasons import Code, MoveCode
from islander.policy.settings import PolicySettings
from planner.findings import Findings
from planner.mig.demand import Demand, may_run
from planner.mig.fleet import Fleet, FleetNode, spare_by_product
from planner.mig.islands import is_uniform, packs
from planner.mig.patterns import idle_mask, is_unsure
from planner.mig.plan import MigPlan
from planner.mig.pod_demand import RUNNING, running_demands, waits_for_whole, whole_shape
from planner.mig.tolerance import tolerates
from planner.problem import is_waiting


def check_demand(plan: MigPlan, fleet: Fleet, snapshot: ClusterSnapshot, findings: Findings) -> None:
    """Note demand that is said to be met and is not: every instance serves one, and drained pods need theirs, too."""
    pods = {pod.key: pod for pod in snapshot.pods}
    missing: Counter[tuple[str, str, int]] = Counter()
    for unmet in plan.unmet:
        missing[unmet.profile, unmet.source, unmet.priority] += unmet.count
    asked: list[Demand] = []
    for line in plan.demand:
        missing[line.profile, line.source, line.priority] -= line.count - line.met
        if not 0 <= line.met <= line.count:
            findings.add("", MoveCode.PLAN_INCONSISTENT, f"{line.met} of {line.count} x {line.profile} are met")
        if line.source == RUNNING or not line.met:
            continue
        gone = [key for key in line.pods if key not in pods or not is_waiting(pods[key])]
        for key in gone:
            findings.add("", MoveCode.STALE_POD, f"{key} does not wait for {line.profile}")
        asker = pods.get(line.pods[0]) if line.pods else None
        accepts = tuple(sorted(line.accepts.items()))
        asked.append(
            Demand(line.profile, line.met, line.priority, line.source, accepts, strategy=line.strategy, pod=asker)
        )
    if any(missing.values()):
        findings.add("", MoveCode.PLAN_INCONSISTENT, "what is met and what is not do not add up to what is wanted")
    drained = {drain.pod for drain in plan.drains}
    asked += running_demands(fleet, drained)
    wanted = sum(demand.count for demand in asked)
    there = _served(asked, _free_by_node(plan, fleet), fleet)
    if there < wanted:
        message = f"{wanted} instances are promised or needed again, and {there} can be had at the same time"
        findings.add("", MoveCode.PLAN_INCONSISTENT, message)


def _free_by_node(plan: MigPlan, fleet: Fleet) -> dict[str, Counter[tuple[str, str]]]:
    """Return the free instances of each node after the plan, by (product, profile); those of drained pods are gone."""
    free = {node.name: Counter(spare_by_product(node)) for node in fleet.nodes if node.takes_pods}
    known = {(node.name, gpu.index): gpu for node in fleet.nodes for gpu in node.gpus}
    for told in plan.gpus:
        if told.created or len(told.keeps) != len(told.before):
            gpu = known[told.node, told.index]
            free[told.node].subtract({(gpu.product, profile): count for profile, count in gpu.free})
            free[told.node].update((gpu.product, instance.profile) for instance in told.created)
    return free


def _served(asked: list[Demand], free: Mapping[str, Counter[tuple[str, str]]], fleet: Fleet) -> int:
    """Return how many of the wanted instances can be given out at the same time: a maximum flow."""
    supply: Counter[tuple[tuple[bool, ...], str, str]] = Counter()
    for node in fleet.nodes:
        runs = tuple(may_run(demand, node) for demand in asked)
        for (product, profile), count in free.get(node.name, Counter()).items():
            if count > 0:
                supply[runs, product, profile] += count
    graph: nx.DiGraph[object] = nx.DiGraph()
    graph.add_nodes_from(("source", "sink"))
    for number, demand in enumerate(asked):
        graph.add_edge("source", ("demand", number), capacity=demand.count)
        for key in supply:
            runs, product, profile = key
            if runs[number] and demand.profile_on(product) == profile:
                graph.add_edge(("demand", number), key)
    for key, count in supply.items():
        graph.add_edge(key, "sink", capacity=count)
    return int(nx.maximum_flow_value(graph, "source", "sink"))


def check_waiting(
    plan: MigPlan, fleet: Fleet, snapshot: ClusterSnapshot, settings: PolicySettings, findings: Findings
) -> None:
    """Note pods that wait for whole GPUs and would have found them, had the plan not cut these up."""
    nodes = {node.name: node for node in fleet.nodes}
    pods = {pod.key: pod for pod in snapshot.pods if waits_for_whole(pod)}
    there: defaultdict[str, list[Pod]] = defaultdict(list)
    for waiting in plan.waiting:
        pod, node = pods.get(waiting.pod), nodes.get(waiting.node)
        if pod is None or node is None:
            code = MoveCode.STALE_POD if pod is None else Code.UNKNOWN_NODE
            findings.add("", code, f"{waiting.pod} should find GPUs on {waiting.node}")
        elif not (node.takes_pods and tolerates(pod, node.node)):
            findings.add("", Code.SELECTOR_MISMATCH, f"{waiting.pod} should find GPUs on {waiting.node}")
        else:
            there[waiting.node].append(pod)
    cut: defaultdict[str, int] = defaultdict(int)
    for gpu in plan.gpus:
        if gpu.created:
            cut[gpu.node] |= 1 << gpu.index
    for name, staying in there.items():
        if not _hold(nodes[name], staying, settings, cut[name]):
            findings.add("", MoveCode.ISLAND_NEEDED, f"{len(staying)} waiting pods do not fit on node {name}")
    kept = {waiting.pod for waiting in plan.waiting}
    for key, pod in sorted(pods.items()):
        if key in kept:
            continue
        for name in sorted(cut):
            node = nodes[name]
            if not (node.takes_pods and tolerates(pod, node.node)):
                continue
            joined = [*there[name], pod]
            if _hold(node, joined, settings, 0) and not _hold(node, joined, settings, cut[name]):
                findings.add("", MoveCode.ISLAND_NEEDED, f"{key} fits on node {name} today")


def _hold(node: FleetNode, pods: list[Pod], settings: PolicySettings, cut: int) -> bool:
    """Return whether a node has whole GPUs for these pods at the same time, without those that are cut."""
    islands: list[int] = []
    loose = 0
    for pod in pods:
        own, beside = whole_shape(need_of(pod, settings))
        islands += own
        loose += beside
    mask = idle_mask(node) & ~cut
    if is_unsure(node):
        if islands and not (is_uniform(node.hardware) and node.hardware.topology_known):
            return False
        free = node.state.free if node.state.whole and node.state.offered and not node.state.shared else 0
        mask = (1 << min(free, node.hardware.gpus)) - 1
    return packs(node.hardware, mask, tuple(sorted(islands, reverse=True)), loose)

"""Whether objects will be accepted and do something: the rules V1 to V19, each a function of its own.

They are what the CRDs' schemas and CEL rules, Kueue's webhooks and its controllers ask for, so that a file can be
judged where there is no API server. The numbers are stable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from islander.cluster.snapshot import ClusterSnapshot
from planner.quota.rules.flavors import (
    v1_names_are_subdomains,
    v12_flavors_are_well_formed,
    v13_topologies_are_well_formed,
    v17_what_is_named_is_there,
)
from planner.quota.rules.objects import Json, Objects, RuleViolation
from planner.quota.rules.queues import (
    v2_groups_are_not_too_large,
    v3_a_resource_or_flavor_is_in_one_group,
    v4_flavors_list_the_covered_resources_in_order,
    v5_resources_are_label_keys,
    v6_amounts_are_not_negative,
    v7_no_more_is_lent_than_there_is,
    v8_what_is_lent_can_be_borrowed,
    v9_who_never_reclaims_cannot_borrow_by_force,
    v10_fungibility_is_of_this_version,
    v11_weights_do_not_collapse,
    v14_checks_name_flavors_of_the_queue,
    v15_concurrent_admission_is_simple,
    v16_namespaces_are_said,
)
from planner.quota.rules.workloads import v18_managed_sets_keep_their_shape, v19_topology_annotations_agree

Rule = Callable[[Objects], Iterator[RuleViolation]]

RULES: Mapping[str, Rule] = {
    "V1": v1_names_are_subdomains,
    "V2": v2_groups_are_not_too_large,
    "V3": v3_a_resource_or_flavor_is_in_one_group,
    "V4": v4_flavors_list_the_covered_resources_in_order,
    "V5": v5_resources_are_label_keys,
    "V6": v6_amounts_are_not_negative,
    "V7": v7_no_more_is_lent_than_there_is,
    "V8": v8_what_is_lent_can_be_borrowed,
    "V9": v9_who_never_reclaims_cannot_borrow_by_force,
    "V10": v10_fungibility_is_of_this_version,
    "V11": v11_weights_do_not_collapse,
    "V12": v12_flavors_are_well_formed,
    "V13": v13_topologies_are_well_formed,
    "V14": v14_checks_name_flavors_of_the_queue,
    "V15": v15_concurrent_admission_is_simple,
    "V16": v16_namespaces_are_said,
    "V17": v17_what_is_named_is_there,
    "V18": v18_managed_sets_keep_their_shape,
    "V19": v19_topology_annotations_agree,
}


def violations(
    documents: Iterable[Json], context: Iterable[Json] = (), complete: Collection[str] | None = None
) -> tuple[RuleViolation, ...]:
    """Return everything in which objects break the rules, rule by rule.

    Parameters
    ----------
    documents
        The objects to judge, as JSON or YAML is read.
    context
        Objects of the cluster: what they may name, and what they were before.
    complete
        Kinds of which documents and context together hold every object; None when they stand for a whole cluster.
    """
    objects = Objects.of(documents, context, complete)
    return tuple(found for rule in RULES.values() for found in rule(objects))


def manifests_of(snapshot: ClusterSnapshot) -> tuple[Json, ...]:
    """Return the objects of Kueue that a snapshot holds, as they were written; those of an anonymised one are gone."""
    found = [flavor.manifest for flavor in snapshot.resource_flavors]
    found += [topology.manifest for topology in snapshot.queue_topologies]
    found += [cohort.manifest for cohort in snapshot.cohorts]
    found += [queue.manifest for queue in snapshot.cluster_queues]
    found += [queue.manifest for queue in snapshot.local_queues]
    return tuple(msgspec.json.decode(manifest) for manifest in found if manifest)

"""Whether a pod may run on a node, and which slices it names: labels that a layout brings count as if it were there."""

from __future__ import annotations

from msgspec import structs

from islander.cluster import names
from islander.cluster.mig_devices import INVALID
from islander.cluster.node import Node
from islander.cluster.pod import NodeTerm, Pod, Requirement
from islander.hardware.products import parse_product_label
from islander.policy.selectors import unmatched_key, untolerated_taint

_HAS_PRODUCT = Requirement(names.GPU_PRODUCT, "Exists")
# GPU feature discovery labels a node with the product of each kind of instance.
_PRODUCT_OF_INSTANCE = ".product"


def product_of(node: Node) -> str:
    """Return the product that a node's label names, without endings; empty when there is none."""
    return parse_product_label(node.label(names.GPU_PRODUCT) or "").name


def tolerates(pod: Pod, node: Node) -> bool:
    """Return whether selectors and taints let a pod on a node; what its labels say of MIG today does not count.

    Of the labels of instances (`nvidia.com/mig-1g.10gb.product`) only the product is compared.
    """
    if untolerated_taint(pod, node) is not None:
        return False
    plain = product_of(node)
    if plain:
        spec = pod.spec
        labels = tuple((k, plain if k == names.GPU_PRODUCT else v) for k, v in node.labels)
        if labels != node.labels:
            node = structs.replace(node, labels=labels)
        if any(_is_of_mig(key) for key in _keys(pod)):
            selector = [_plain(Requirement(key, "In", (value,))) for key, value in spec.node_selector]
            terms = spec.node_terms
            if terms is not None:
                terms = tuple(NodeTerm(tuple(_plain(r) for r in term.labels), term.fields) for term in terms)
            asked = tuple((r.key, r.values[0]) for r in selector if r is not _HAS_PRODUCT)
            pod = structs.replace(pod, spec=structs.replace(spec, node_selector=asked, node_terms=terms))
    return unmatched_key(pod, node) is None


def sliced_profile(pod: Pod) -> str:
    """Return the profile that a pod means by `nvidia.com/gpu`: the one of the only product label that it selects.

    Under strategy `single` pods ask for plain GPUs, and tell by the product that they mean slices. Empty when it is
    none, or not one only.
    """
    products = [value for key, value in pod.spec.node_selector if key == names.GPU_PRODUCT]
    if not products and pod.spec.node_terms:
        alternatives = [_products(term) for term in pod.spec.node_terms]
        products = [product for each in alternatives for product in each] if all(alternatives) else []
    profiles = {parse_product_label(product).mig or "" for product in products}
    return profiles.pop() if len(profiles) == 1 and INVALID not in profiles else ""


def _products(term: NodeTerm) -> list[str]:
    return [v for r in term.labels if r.key == names.GPU_PRODUCT and r.operator == "In" for v in r.values]


def _keys(pod: Pod) -> list[str]:
    asked = [key for key, _ in pod.spec.node_selector]
    return asked + [requirement.key for term in pod.spec.node_terms or () for requirement in term.labels]


def _is_of_mig(key: str) -> bool:
    return key == names.GPU_PRODUCT or key.startswith(names.MIG_RESOURCE_PREFIX)


def _plain(asked: Requirement) -> Requirement:
    """Return what a requirement asks of the GPUs before they are cut."""
    of_instance = asked.key.startswith(names.MIG_RESOURCE_PREFIX)
    if asked.operator == "In" and (asked.key == names.GPU_PRODUCT or asked.key.endswith(_PRODUCT_OF_INSTANCE)):
        products = tuple(parse_product_label(value).name for value in asked.values)
        return Requirement(names.GPU_PRODUCT if of_instance else asked.key, "In", products)
    return _HAS_PRODUCT if of_instance and asked.operator in ("In", "Exists", "Gt", "Lt") else asked

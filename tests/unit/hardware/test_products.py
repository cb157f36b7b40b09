"""Catalogue of products: labels as nodes carry them."""

from __future__ import annotations

import re

import pytest

from islander.hardware.products import AMD, NVIDIA, PRODUCTS, Fabric, Product, ProductLabel, parse_product_label
from islander.hardware.products import product_by_label as by_label

EVERY_PRODUCT = pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)


@EVERY_PRODUCT
def test_every_label_finds_its_product_and_no_other(product: Product) -> None:
    assert [by_label(label) for label in product.labels] == [product] * len(product.labels)


def test_names_and_labels_are_unique() -> None:
    labels = [label for product in PRODUCTS for label in product.labels]
    assert len(set(labels)) == len(labels)
    assert len({product.name for product in PRODUCTS}) == len(PRODUCTS)


@EVERY_PRODUCT
def test_every_label_is_a_legal_label_value(product: Product) -> None:
    for label in product.labels:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,61}[A-Za-z0-9]", label)


@EVERY_PRODUCT
def test_old_drivers_omit_the_vendor(product: Product) -> None:
    for label in product.labels:
        assert by_label(label.removeprefix("NVIDIA-")) == product


@EVERY_PRODUCT
def test_links_belong_to_a_fabric(product: Product) -> None:
    linked = product.fabric is not Fabric.NONE
    assert (product.links_per_pair > 0) == linked
    assert (product.link_gb_s > 0) == linked


@EVERY_PRODUCT
def test_memory_agrees_with_the_size_in_the_name(product: Product) -> None:
    in_name = re.search(r"-(\d+)GB$", product.name)
    if in_name:
        assert int(in_name[1]) * 1000 <= product.memory_mib * 1.048576 <= int(in_name[1]) * 1024 * 1.0486


@EVERY_PRODUCT
def test_every_product_names_its_source_and_resource(product: Product) -> None:
    assert product.source
    assert product.resource == (AMD if product.name.startswith("MI") else NVIDIA)


@pytest.mark.parametrize(
    ("name", "links_per_gpu", "total_gb_s"),
    [
        ("V100-SXM3-32GB", 6, 300),
        ("A100-SXM4-80GB", 12, 600),
        ("A800-SXM4-80GB", 8, 400),
        ("H100-SXM-80GB", 18, 900),
        ("H800-SXM-80GB", 8, 400),
        ("B200", 18, 1800),
        ("GB200", 18, 1800),
        ("A40", 4, 112.5),
    ],
)
def test_links_times_rate_is_the_vendors_bandwidth(name: str, links_per_gpu: int, total_gb_s: float) -> None:
    product = next(product for product in PRODUCTS if product.name == name)
    assert product.links_per_pair == links_per_gpu
    assert 2 * links_per_gpu * product.link_gb_s == total_gb_s


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("NVIDIA-A100-SXM4-40GB", ProductLabel("NVIDIA-A100-SXM4-40GB")),
        ("NVIDIA-A10G-SHARED", ProductLabel("NVIDIA-A10G", shared=True)),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", ProductLabel("NVIDIA-A100-SXM4-40GB", mig="1g.5gb")),
        ("A100-SXM4-40GB-MIG-1g.5gb-SHARED", ProductLabel("A100-SXM4-40GB", shared=True, mig="1g.5gb")),
        ("NVIDIA-H200-MIG-INVALID", ProductLabel("NVIDIA-H200", mig="INVALID")),
        ("NVIDIA-B200-MIG-1g.23gb.me", ProductLabel("NVIDIA-B200", mig="1g.23gb.me")),
        (" NVIDIA-L4 ", ProductLabel("NVIDIA-L4")),
        ("", ProductLabel("")),
    ],
)
def test_suffixes_of_a_label_are_taken_apart(label: str, expected: ProductLabel) -> None:
    """G28: a replica of a shared GPU is told apart from a GPU."""
    assert parse_product_label(label) == expected


@pytest.mark.parametrize("suffix", ["-SHARED", "-MIG-INVALID", "-MIG-1g.10gb", "-MIG-1g.10gb-SHARED"])
def test_suffixes_do_not_hide_the_product(suffix: str) -> None:
    assert by_label("NVIDIA-H100-80GB-HBM3" + suffix) == by_label("H100-80GB-HBM3")


@pytest.mark.parametrize("label", ["", "NVIDIA-", "NVIDIA-H1000", "NVIDIA-H100", "two", "-SHARED"])
def test_other_labels_name_no_product(label: str) -> None:
    assert by_label(label) is None


def test_nearby_names_are_told_apart() -> None:
    labels = ("NVIDIA-H100-PCIe", "NVIDIA-H100-NVL", "NVIDIA-H200", "NVIDIA-H200-NVL", "NVIDIA-A10", "NVIDIA-A10G")
    assert len({by_label(label) for label in labels}) == len(labels)


def test_amds_labels_may_have_either_character_for_a_space() -> None:
    assert by_label("AMD-Instinct-MI300X-OAM") == by_label("AMD_Instinct_MI300X_OAM") is not None

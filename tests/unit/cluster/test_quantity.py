"""Quantities are exact, and whatever is not one is refused (G10)."""

from __future__ import annotations

import pytest

from islander.cluster.quantity import MalformedQuantity, bytes_of, milli, parse_quantity, whole_number


@pytest.mark.parametrize(
    ("text", "count"),
    [("1", 1), (1, 1), ("4", 4), ("3000m", 3), ("3Ki", 3072), ("1k", 1000), ("20k", 20000), ("0", 0), ("+2", 2)],
)
def test_device_counts_in_every_spelling_are_read(text: str | int, count: int) -> None:
    """G10."""
    assert whole_number(parse_quantity(text)) == count


@pytest.mark.parametrize("text", ["500m", "0.5", "1500m", "-1", "abc", "", "-0.5", "1n", 0.5, -1])
def test_device_counts_are_never_rounded(text: str | float) -> None:
    """G10."""
    with pytest.raises(MalformedQuantity):
        whole_number(parse_quantity(text))


@pytest.mark.parametrize(
    ("text", "expected_bytes"),
    [
        ("16Gi", 16 * 2**30),
        ("1.5Gi", 3 * 2**29),
        ("128M", 128 * 10**6),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", 2),
        (".5Ki", 512),
        ("7Pi", 7 * 2**50),
        ("2T", 2 * 10**12),
        ("1Ti", 2**40),
        ("3Mi", 3 * 2**20),
        ("100m", 1),
        (1024, 1024),
        (1e15, 10**15),
        ("8Ei", 2**63 - 1),
        (1e22, 2**63 - 1),
        ("2P", 2 * 10**15),
        ("5G", 5 * 10**9),
    ],
)
def test_memory_is_exact_and_rounded_up_to_whole_bytes(text: str | float, expected_bytes: int) -> None:
    assert bytes_of(parse_quantity(text)) == expected_bytes


@pytest.mark.parametrize(
    ("text", "expected_milli"), [("1", 1000), ("250m", 250), ("0.1", 100), (0.1, 100), ("1u", 1), ("2k", 2_000_000)]
)
def test_cpu_is_counted_in_thousandths_rounded_up(text: str | float, expected_milli: int) -> None:
    assert milli(parse_quantity(text)) == expected_milli


@pytest.mark.parametrize(
    "text",
    [
        *("1Gi ", " 1", "1ki", "1K", "1 Gi", "1e", "e3", ".", "-", "+", "1e3Ki", "0x10", "1_000", "1,5", "٣", "1e999"),
        *(float("inf"), float("nan"), True, "9" * 100, "1\n"),
    ],
)
def test_junk_is_refused_with_a_short_message(text: str | float) -> None:
    with pytest.raises(MalformedQuantity, match="is not a quantity") as caught:
        parse_quantity(text)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("reader", [whole_number, milli, bytes_of])
def test_a_negative_amount_is_refused(reader: object) -> None:
    assert callable(reader)
    with pytest.raises(MalformedQuantity, match=r"-0\.5 is negative"):
        reader(parse_quantity("-500m"))


def test_an_amount_that_is_not_whole_is_shown_as_a_decimal() -> None:
    with pytest.raises(MalformedQuantity, match=r"^1\.05 is not a whole number$"):
        whole_number(parse_quantity("1050m"))


def test_numbers_and_truth_values_do_not_share_a_memo() -> None:
    assert whole_number(parse_quantity(1)) == 1
    with pytest.raises(MalformedQuantity):
        parse_quantity(True)

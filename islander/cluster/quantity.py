"""Kubernetes quantities ("500m", "3Ki", "1e3", 4) as exact integers."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class MalformedQuantity(ValueError):
    """A text is no quantity, or a quantity has no meaning for its resource; the message is one sentence."""


class Quantity(NamedTuple):
    """An exact amount, `numerator / denominator`; the denominator is a power of ten."""

    numerator: int
    denominator: int


# The grammar of k8s.io/apimachinery, pkg/api/resource/quantity.go. `E` alone is exa, `E3` is an exponent. Digits and
# exponents are bounded, so that no text can fill the memory; amounts are capped where the API caps them.
_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]{0,40})(?:\.(?P<part>[0-9]{0,40}))?"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,2}))?",
    re.ASCII,
)
LARGEST = 2**63 - 1
_POWERS_OF_TEN = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_POWERS_OF_TWO = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@lru_cache(maxsize=8192, typed=True)
def parse_quantity(text: str | int | float) -> Quantity:
    """Return the exact amount that a quantity stands for.

    A JSON number is read as its shortest decimal text, as the API server does.

    Raises
    ------
    MalformedQuantity
        The text is not a quantity.
    """
    if isinstance(text, bool):
        raise MalformedQuantity(f"{str(text).lower()} is not a quantity")
    match = _GRAMMAR.fullmatch(text if isinstance(text, str) else repr(text))
    if match is None or not (match["whole"] or match["part"]):
        raise MalformedQuantity(f"{_shortened(text)} is not a quantity such as 4, 500m or 16Gi")
    part = match["part"] or ""
    numerator = int(match["whole"] + part) << _POWERS_OF_TWO.get(match["suffix"], 0)
    power = int(match["exponent"] or 0) + _POWERS_OF_TEN.get(match["suffix"], 0) - len(part)
    if match["sign"] == "-":
        numerator = -numerator
    return Quantity(numerator * 10**power, 1) if power >= 0 else Quantity(numerator, 10**-power)


def whole_number(quantity: Quantity) -> int:
    """Return a count of devices.

    Raises
    ------
    MalformedQuantity
        The amount is negative or not whole; nothing is rounded.
    """
    count, rest = divmod(_not_negative(quantity).numerator, quantity.denominator)
    if rest:
        raise MalformedQuantity(f"{_decimal_text(quantity)} is not a whole number")
    return min(count, LARGEST)


def milli(quantity: Quantity) -> int:
    """Return thousandths, rounded up as the scheduler does; raise MalformedQuantity when negative."""
    return min(-(-_not_negative(quantity).numerator * 1000 // quantity.denominator), LARGEST)


def bytes_of(quantity: Quantity) -> int:
    """Return bytes, rounded up as the scheduler does; raise MalformedQuantity when negative."""
    return min(-(-_not_negative(quantity).numerator // quantity.denominator), LARGEST)


def _not_negative(quantity: Quantity) -> Quantity:
    if quantity.numerator < 0:
        raise MalformedQuantity(f"{_decimal_text(quantity)} is negative")
    return quantity


def _decimal_text(quantity: Quantity) -> str:
    whole, rest = divmod(abs(quantity.numerator), quantity.denominator)
    sign = "-" if quantity.numerator < 0 else ""
    places = len(str(quantity.denominator)) - 1
    return f"{sign}{whole}.{rest:0{places}d}".rstrip("0") if rest else f"{sign}{whole}"


def _shortened(text: str | int | float) -> str:
    shown = repr(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."

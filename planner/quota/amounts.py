"""Amounts of quota as people write them, and as the snapshot counts them."""

from __future__ import annotations

from islander.cluster.quantity import MalformedQuantity, bytes_of, milli, parse_quantity, whole_number

_BINARY = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def amount_text(resource: str, amount: int) -> str:
    """Return a quantity for an amount: CPU in thousandths, memory and storage in bytes, everything else whole."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if is_bytes(resource):
        return next((f"{amount // size}{unit}" for unit, size in _BINARY if amount and not amount % size), str(amount))
    return str(amount)


def amount_of(resource: str, value: object) -> int | None:
    """Return the amount that a quantity stands for, None for a value that is none."""
    if not isinstance(value, str | int | float):
        return None
    try:
        quantity = parse_quantity(str(value) if isinstance(value, str) else value)
        if resource == "cpu":
            return milli(quantity)
        return bytes_of(quantity) if is_bytes(resource) else whole_number(quantity)
    except MalformedQuantity:
        return None


def is_bytes(resource: str) -> bool:
    """Return whether amounts of the resource are bytes."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")

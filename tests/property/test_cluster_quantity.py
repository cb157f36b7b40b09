"""Laws of quantities and effective requests."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, localcontext

from hypothesis import given
from hypothesis import strategies as st

from islander.cluster.pod import Container, ContainerKind
from islander.cluster.quantity import LARGEST, MalformedQuantity, bytes_of, milli, parse_quantity, whole_number
from islander.cluster.requests import effective_requests
from islander.cluster.resources import Resources

FACTORS = {"": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
FACTORS |= {suffix: Decimal(1000) ** (i + 1) for i, suffix in enumerate("kMGTPE")}
FACTORS |= {f"{suffix}i": Decimal(1024) ** (i + 1) for i, suffix in enumerate("KMGTPE")}
FACTORS |= {f"e{n}": Decimal(10) ** n for n in range(-9, 19)} | {f"E{n}": Decimal(10) ** n for n in range(-9, 19)}

numbers = st.decimals(min_value=0, max_value=10**9, places=3, allow_nan=False, allow_infinity=False)


@given(numbers, st.sampled_from(sorted(FACTORS)))
def test_quantities_agree_with_decimal_arithmetic(number: Decimal, suffix: str) -> None:
    with localcontext() as context:
        context.prec = 80
        value = number * FACTORS[suffix]
        quantity = parse_quantity(f"{number}{suffix}")
        assert Decimal(quantity.numerator) / Decimal(quantity.denominator) == value
        assert bytes_of(quantity) == min(LARGEST, int(value.to_integral_value(ROUND_CEILING)))
        assert milli(quantity) == min(LARGEST, int((value * 1000).to_integral_value(ROUND_CEILING)))
        if value == value.to_integral_value():
            assert whole_number(quantity) == min(LARGEST, int(value))


@given(st.one_of(st.text(max_size=12), st.from_regex(r"[-+.0-9eEmkMGiKnu]{0,12}", fullmatch=True), st.floats()))
def test_any_text_is_a_quantity_or_malformed_and_nothing_else(text: str | float) -> None:
    try:
        count = whole_number(parse_quantity(text))
    except MalformedQuantity:
        return
    assert count >= 0


amounts = st.builds(
    lambda cpu, memory, gpus: Resources(cpu, memory, (("nvidia.com/gpu", gpus),) if gpus else ()),
    st.integers(0, 10_000),
    st.integers(0, 10**12),
    st.integers(0, 16),
)
containers = st.lists(
    st.builds(lambda kind, requests: Container("c", kind, requests), st.sampled_from(ContainerKind), amounts),
    max_size=6,
)


def covers(larger: Resources, smaller: Resources) -> bool:
    return larger == larger.at_least(smaller)


@given(containers, containers, st.builds(Container, st.just("x"), st.sampled_from(ContainerKind), amounts))
def test_one_more_container_never_lowers_the_request(
    before: list[Container], after: list[Container], extra: Container
) -> None:
    assert covers(effective_requests([*before, extra, *after]), effective_requests([*before, *after]))


@given(containers, amounts)
def test_the_request_covers_every_container_and_is_at_most_their_sum(pod: list[Container], overhead: Resources) -> None:
    total = effective_requests(pod, overhead)
    everything = overhead
    for container in pod:
        assert covers(total, container.requests.plus(overhead))
        everything = everything.plus(container.requests)
    assert covers(everything, total)


@given(containers)
def test_the_order_of_apps_does_not_matter(pod: list[Container]) -> None:
    inits = [c for c in pod if c.kind is not ContainerKind.APP]
    apps = [c for c in pod if c.kind is ContainerKind.APP]
    assert effective_requests([*inits, *apps]) == effective_requests([*inits, *reversed(apps)])

"""Laws of the policy that hold for every node."""

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from islander.hardware.links import LinkMatrix, PcieClass, gpus_of, mask_of
from islander.policy.fragmentation import unusable_gpus
from islander.policy.pick import pair_points, possible_picks
from islander.policy.settings import DEFAULT_MIX


@st.composite
def link_matrices(draw: st.DrawFn, max_gpus: int = 8) -> LinkMatrix:
    gpus = draw(st.integers(1, max_gpus))
    pairs = list(combinations(range(gpus), 2))
    classes = draw(st.lists(st.sampled_from([PcieClass.SYS, PcieClass.NODE, PcieClass.PIX]), min_size=len(pairs)))
    counts = draw(st.lists(st.sampled_from([0, 0, 1, 4]), min_size=len(pairs)))
    pcie = [[0] * gpus for _ in range(gpus)]
    nvlinks = [[0] * gpus for _ in range(gpus)]
    for (i, j), pcie_class, count in zip(pairs, classes, counts, strict=False):
        pcie[i][j] = pcie[j][i] = pcie_class
        nvlinks[i][j] = nvlinks[j][i] = count
    return LinkMatrix(tuple(map(tuple, pcie)), tuple(map(tuple, nvlinks)))


@st.composite
def requests(draw: st.DrawFn, max_gpus: int = 8) -> tuple[LinkMatrix, int, int, int]:
    links = draw(link_matrices(max_gpus))
    free = draw(st.integers(0, (1 << links.gpus) - 1))
    size = draw(st.integers(1, 8))
    required = free & draw(st.integers(0, (1 << links.gpus) - 1))
    return links, free, size, required


def best_effort(links: LinkMatrix, available: Sequence[int], required: set[int], size: int) -> list[int | None] | None:
    """Walk the allocator's algorithm literally for one order of the list; None in an answer is a blank device."""
    points = pair_points(links)

    def score(members: Sequence[int | None]) -> int:
        real = [m for m in members if m is not None]
        return sum(int(points[i][j]) for i, j in combinations(real, 2))

    def partitions(rest: list[int | None]) -> Iterator[list[list[int | None]]]:
        if not rest:
            yield []
            return
        first, *others = rest
        for places in combinations(range(len(others)), size - 1):
            chosen = [first, *(others[p] for p in places)]
            blanks = chosen.count(None)
            if blanks and blanks != padding:
                continue
            left = [o for p, o in enumerate(others) if p not in places]
            for tail in partitions(left):
                yield [chosen, *tail]

    if len(available) < size or len(required) > size:
        return None
    if size == 1:
        return next(([gpu] for gpu in available if required <= {gpu}), None)
    padding = -len(available) % size
    best: list[list[int | None]] | None = None
    best_score = -1
    for partition in partitions([*available, *[None] * padding]):
        if not any(None not in part and required <= set(part) for part in partition):
            continue
        total = sum(score(part) for part in partition)
        if total > best_score:
            best, best_score = partition, total
    if best is None:
        return None
    holding = [part for part in best if required <= set(part)]
    return max(holding, key=score)


@given(requests(max_gpus=5))
def test_possible_picks_are_exactly_what_some_order_of_the_list_gives(
    request: tuple[LinkMatrix, int, int, int],
) -> None:
    links, free, size, required = request
    answers = [best_effort(links, order, set(gpus_of(required)), size) for order in permutations(gpus_of(free))]
    whole = {mask_of(g for g in a if g is not None) for a in answers if a is not None and None not in a}
    picks = possible_picks(links, free, size, required)
    assert set(picks.sets) == whole
    assert picks.may_fail == any(a is not None and None in a for a in answers)


@given(requests())
def test_every_pick_has_the_size_asked_for_and_holds_what_is_required(
    request: tuple[LinkMatrix, int, int, int],
) -> None:
    links, free, size, required = request
    for pick in possible_picks(links, free, size, required).sets:
        assert pick.bit_count() == size
        assert pick & ~free == 0
        assert required & ~pick == 0


@given(requests(), st.randoms(use_true_random=False))
def test_numbering_of_the_gpus_does_not_matter(request: tuple[LinkMatrix, int, int, int], random: Random) -> None:
    links, free, size, required = request
    new = list(range(links.gpus))
    random.shuffle(new)
    old = [new.index(i) for i in range(links.gpus)]
    renamed = LinkMatrix(
        tuple(tuple(links.pcie[i][j] for j in old) for i in old),
        tuple(tuple(links.nvlinks[i][j] for j in old) for i in old),
    )

    def rename(mask: int) -> int:
        return mask_of(new[gpu] for gpu in gpus_of(mask))

    expected = {rename(pick) for pick in possible_picks(links, free, size, required).sets}
    assert set(possible_picks(renamed, rename(free), size, rename(required)).sets) == expected


@given(link_matrices())
def test_unusable_gpus_are_never_more_than_the_free_ones(links: LinkMatrix) -> None:
    for free in range(1 << min(links.gpus, 6)):
        assert 0.0 <= unusable_gpus(links, free, DEFAULT_MIX) <= free.bit_count()

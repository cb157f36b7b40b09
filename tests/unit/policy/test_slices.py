"""What each MIG profile can still use of a cut GPU, and where one more instance goes."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from islander.hardware.mig import GEOMETRIES, GEOMETRY_BY_NAME, Geometry, Placement
from islander.policy.slices import (
    RELEASED_SHARE,
    Choice,
    SliceMix,
    best_start,
    gradient,
    room,
    slice_space,
    unusable_slots,
)
from tests.bench.bench_slices import policy
from tests.bench.slice_arrivals import MIXES, replay, space_of, stream

H100 = GEOMETRY_BY_NAME["h100-80gb"]
ONLY_WHOLE = SliceMix.of({"7g.80gb": 1})
ONLY_HALF = SliceMix.of({"3g.40gb": 1})
EVEN = SliceMix.of(dict.fromkeys(("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"), 1))
ONE_AT_0, ONE_AT_6 = Placement("1g.10gb", 0), Placement("1g.10gb", 6)


@pytest.mark.parametrize(
    ("layout", "profile", "instances"),
    [
        ([], "1g.10gb", 7),
        ([], "1g.20gb", 4),
        ([], "1g.10gb+me", 1),
        ([ONE_AT_0], "7g.80gb", 0),
        ([ONE_AT_0], "3g.40gb", 1),
        ([ONE_AT_6], "2g.20gb", 3),
        ([Placement("3g.40gb", 0)], "1g.10gb", 3),
        ([Placement("1g.10gb+me", 3)], "1g.10gb+me", 0),
        ([], "2g.48gb", 0),
    ],
)
def test_room_for_more(layout: list[Placement], profile: str, instances: int) -> None:
    assert room(H100, layout, profile) == instances


def test_what_a_profile_leaves_over_is_unusable_to_it() -> None:
    # Seven slots stay free beside one instance: a whole GPU fits no more, and one half leaves three over.
    assert unusable_slots(H100, [ONE_AT_0], ONLY_WHOLE) == 7
    assert unusable_slots(H100, [ONE_AT_0], ONLY_HALF) == 3
    assert unusable_slots(H100, [], EVEN) == pytest.approx(
        # 1g leave one of eight slots (no start at 7), 2g two, 4g four; weights are the sizes, 21 in all.
        (1 * 1 + 2 * 2 + 4 * 4) / 21
    )


def test_profiles_are_weighted_by_popularity_and_size() -> None:
    mix = SliceMix.of({"1g.10gb": 3, "7g.80gb": 1})
    # 1 free slot (7) that no 1g reaches, 7 that no whole GPU is: weights 3 x 1 and 1 x 8.
    taken = [Placement("1g.10gb", start) for start in range(7)]
    assert unusable_slots(H100, taken, mix) == pytest.approx((3 * 1 + 8 * 1) / 11)
    assert unusable_slots(H100, taken[:-1], mix) == pytest.approx((3 * 1 + 8 * 2) / 11)


def test_profiles_of_other_products_are_not_counted() -> None:
    assert unusable_slots(H100, [ONE_AT_0], SliceMix.of({"7g.80gb": 1, "1g.24gb+gfx": 5})) == 7


def test_the_gradient_is_the_growth() -> None:
    growth = unusable_slots(H100, [ONE_AT_6], EVEN) - unusable_slots(H100, [], EVEN)
    assert gradient(H100, [], ONE_AT_6, EVEN) == pytest.approx(growth)


def test_a_gradient_of_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1g\.10gb cannot be made at 6"):
        gradient(H100, [ONE_AT_6], ONE_AT_6, EVEN)


def test_a_small_instance_leaves_the_place_of_four_slices_alone() -> None:
    assert gradient(H100, [], ONE_AT_6, EVEN) < gradient(H100, [], ONE_AT_0, EVEN)
    assert best_start(H100, [], "1g.10gb", EVEN) == 6
    assert best_start(H100, [ONE_AT_6], "2g.20gb", EVEN) == 4


def test_a_profile_that_does_not_fit_has_no_start() -> None:
    assert best_start(H100, [ONE_AT_0], "4g.40gb", EVEN) is None
    assert best_start(H100, [], "4g.20gb", EVEN) is None


def test_a_mix_refuses_what_is_no_demand() -> None:
    with pytest.raises(ValueError, match=r"1g\.10gb with weight -1"):
        SliceMix((("1g.10gb", -1.0),))
    assert SliceMix.of({"1g.10gb": 0}).weights == ()


class TestChoice:
    def test_a_whole_gpu_stays_whole_while_a_cut_one_has_a_place(self) -> None:
        space = slice_space(H100, EVEN)
        gpus = [space.bits([]), space.bits([ONE_AT_6])]
        assert space.choose(gpus, "1g.10gb") == Choice(1, Placement("1g.10gb", 4))

    def test_between_equals_the_first_wins(self) -> None:
        space = slice_space(H100, EVEN)
        assert space.choose([0, 0, 0], "3g.40gb") == Choice(0, Placement("3g.40gb", 4))

    def test_what_fits_nowhere_has_no_choice(self) -> None:
        space = slice_space(H100, EVEN)
        assert space.choose([space.bits([ONE_AT_0])], "7g.80gb") is None
        assert space.choose([], "1g.10gb") is None

    def test_the_last_place_of_a_large_profile_is_spared(self) -> None:
        # Both GPUs cost the same slots; only the second has the place of the four slices.
        space = slice_space(H100, SliceMix.of({"1g.10gb": 1, "4g.40gb": 1}))
        blocked, clear = [Placement("1g.10gb", 0), Placement("1g.10gb", 6)], [Placement("3g.40gb", 4)]
        choice = space.choose([space.bits(clear), space.bits(blocked)], "1g.10gb")
        assert choice is not None
        assert choice.gpu == 1


class TestBits:
    def test_bits_lead_back_to_the_layout(self) -> None:
        space = slice_space(H100, EVEN)
        layout = (ONE_AT_0, Placement("1g.20gb", 2), Placement("3g.40gb", 4))
        assert space.layout(space.bits(layout)) == layout
        assert space.free_slots(space.bits(layout)) == 1

    def test_a_place_that_the_geometry_has_not_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"h100-80gb has no 2g\.20gb at 1"):
            slice_space(H100, EVEN).bits([Placement("2g.20gb", 1)])


LAYOUTS = st.sampled_from(GEOMETRIES).flatmap(
    lambda geometry: st.lists(
        st.sampled_from([Placement(p.name, start) for p in geometry.profiles for start in p.starts]), max_size=8
    ).map(lambda wanted: (geometry, legal_part(geometry, wanted)))
)


def legal_part(geometry: Geometry, wanted: list[Placement]) -> tuple[Placement, ...]:
    made: tuple[Placement, ...] = ()
    for placement in wanted:
        if geometry.is_legal([*made, placement]):
            made = (*made, placement)
    return made


# What is asked of a geometry for the first time is computed; later it is looked up.
COLD = settings(deadline=None)


class TestLaws:
    @COLD
    @given(LAYOUTS)
    def test_room_is_the_most_that_fit_together(self, case: tuple[Geometry, tuple[Placement, ...]]) -> None:
        geometry, layout = case
        for profile in geometry.profiles:
            places = [Placement(profile.name, start) for start in profile.starts]
            together = [
                count
                for count in range(len(places) + 1)
                if any(geometry.is_legal([*layout, *more]) for more in combinations(places, count))
            ]
            assert room(geometry, layout, profile.name) == max(together)

    @COLD
    @given(LAYOUTS)
    def test_unusable_slots_are_free_slots(self, case: tuple[Geometry, tuple[Placement, ...]]) -> None:
        geometry, layout = case
        mix = SliceMix.of(dict.fromkeys((p.name for p in geometry.profiles), 1))
        space = slice_space(geometry, mix)
        unusable = unusable_slots(geometry, layout, mix)
        assert -1e-9 <= unusable <= space.free_slots(space.bits(layout)) + 1e-9

    @COLD
    @given(LAYOUTS)
    def test_settled_is_the_mean_over_who_may_have_left(self, case: tuple[Geometry, tuple[Placement, ...]]) -> None:
        geometry, layout = case
        mix = SliceMix.of(dict.fromkeys((p.name for p in geometry.profiles), 1))
        space = slice_space(geometry, mix)
        expected = sum(
            RELEASED_SHARE ** (len(layout) - count)
            * (1 - RELEASED_SHARE) ** count
            * unusable_slots(geometry, left, mix)
            for count in range(len(layout) + 1)
            for left in combinations(layout, count)
        )
        assert space.settled(space.bits(layout)) == pytest.approx(expected)

    @COLD
    @given(LAYOUTS)
    def test_a_choice_can_be_made(self, case: tuple[Geometry, tuple[Placement, ...]]) -> None:
        geometry, layout = case
        mix = SliceMix.of(dict.fromkeys((p.name for p in geometry.profiles), 1))
        space = slice_space(geometry, mix)
        for profile in geometry.profiles:
            choice = space.choose([space.bits(layout)], profile.name)
            assert (choice is not None) == bool(geometry.fits(layout, profile.name))
            if choice is not None:
                assert choice.gpu == 0
                assert geometry.is_legal([*layout, choice.placement])


@pytest.mark.parametrize("mix", MIXES)
def test_at_least_as_many_requests_are_admitted_as_by_the_gradient_alone(mix: str) -> None:
    """B4 in small: 40 GPUs, 3,000 requests, three streams; the whole table is a benchmark."""
    streams = [stream(seed, mix, load=1.0, gpus=40, steps=3000) for seed in (1, 2, 3)]

    def admitted(name: str) -> int:
        tallies = [replay(requests, policy(name, mix), space_of(mix), gpus=40, warm_up=600) for requests in streams]
        return sum(tally.admitted.total() for tally in tallies)

    ours = admitted("Islander")
    assert ours > admitted("BF")
    assert ours >= admitted("FGD")

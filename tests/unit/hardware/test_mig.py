"""MIG tables and the rules by which instances share a GPU."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations, product

import pytest

from islander.hardware.mig import (
    DERIVED_SHARE_PERCENT,
    GEOMETRIES,
    GEOMETRY_BY_NAME,
    Geometry,
    Media,
    Placement,
    Profile,
    ProfileName,
    geometry_for,
    parse_profile_name,
    profile_of_resource,
    resource_name,
)
from islander.hardware.products import PRODUCT_BY_NAME

EVERY_GEOMETRY = pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda geometry: geometry.name)
EVERY_PROFILE = pytest.mark.parametrize(
    ("geometry", "profile"),
    [pytest.param(g, p, id=f"{g.name}-{p.name}") for g in GEOMETRIES for p in g.profiles],
)
H100 = GEOMETRY_BY_NAME["h100-80gb"]
A30 = GEOMETRY_BY_NAME["a30"]
RTX_PRO = GEOMETRY_BY_NAME["rtx-pro-6000"]

EVERY_FAMILY = pytest.mark.parametrize("geometry", [H100, A30, RTX_PRO], ids=lambda geometry: geometry.name)
FIVE = ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")

Layout = frozenset[Placement]


@cache
def all_layouts(geometry: Geometry, names: tuple[str, ...]) -> frozenset[Layout]:
    """Every legal layout of the named profiles, the empty one too; built one instance at a time."""
    found = {Layout()}
    grown = [Layout()]
    while grown:
        layout = grown.pop()
        for name in names:
            for start in geometry.fits(layout, name):
                larger = layout | {Placement(name, start)}
                if larger not in found:
                    found.add(larger)
                    grown.append(larger)
    return frozenset(found)


def names_of(layout: Layout) -> tuple[str, ...]:
    return tuple(sorted(placement.profile for placement in layout))


def counted(geometry: Geometry, names: tuple[str, ...]) -> tuple[int, int, int, int]:
    """(multisets, layouts, multisets in no other, layouts to which nothing can be added), the empty one left out."""
    layouts = all_layouts(geometry, names) - {Layout()}
    multisets = [Counter(found) for found in {names_of(layout) for layout in layouts}]
    maximal = [one for one in multisets if not any(one < other for other in multisets)]
    full = [layout for layout in layouts if not any(geometry.fits(layout, name) for name in names)]
    return len(multisets), len(layouts), len(maximal), len(full)


class TestNumbersOfLayouts:
    def test_the_five_basic_profiles_of_seven_slices(self) -> None:
        assert counted(H100, FIVE) == (37, 297, 12, 19)

    def test_with_the_one_of_double_memory(self) -> None:
        assert counted(H100, ("1g.20gb", *FIVE)) == (77, 722, 28, 78)

    @pytest.mark.parametrize(
        ("geometry", "names"),
        [(A30, ("1g.6gb", "2g.12gb", "4g.24gb")), (RTX_PRO, ("1g.24gb", "2g.48gb", "4g.96gb"))],
        ids=["a30", "rtx-pro-6000"],
    )
    def test_four_slices(self, geometry: Geometry, names: tuple[str, ...]) -> None:
        assert counted(geometry, names) == (9, 25, 4, 5)


def counts(text: str) -> dict[str, int]:
    """`3g.40gb 2x1g.10gb` as counts."""
    wanted: Counter[str] = Counter()
    for word in text.split():
        times, x, name = word.rpartition("x")
        wanted[name] += int(times) if x else 1
    return dict(wanted)


class TestWhichSetsExist:
    """G39: the geometries of an 80 GB A100 or H100."""

    @pytest.mark.parametrize("name", ["a100-80gb", "h100-80gb"])
    @pytest.mark.parametrize(
        "wanted",
        [
            "2x3g.40gb",
            "4g.40gb 3g.40gb",
            "3x2g.20gb 1g.10gb",
            "3g.40gb 2g.20gb 2x1g.10gb",
            "3g.40gb 2x2g.20gb",
            "3g.40gb 4x1g.10gb",
            "4g.40gb 2g.20gb 1g.10gb",
            "4g.40gb 3x1g.10gb",
            "4x1g.20gb",
            "7x1g.10gb",
        ],
    )
    def test_a_legal_set_has_a_layout_of_exactly_these_instances(self, name: str, wanted: str) -> None:
        geometry = GEOMETRY_BY_NAME[name]
        layout = geometry.layouts_of(counts(wanted))
        assert layout is not None
        assert geometry.is_legal(layout)
        assert Counter(placement.profile for placement in layout) == counts(wanted)

    @pytest.mark.parametrize(
        "wanted",
        [
            "2x3g.40gb 1g.10gb",
            "2x4g.40gb",
            "3x2g.20gb 2x1g.10gb",
            "3g.40gb 5x1g.10gb",
            "8x1g.10gb",
            *(f"7g.80gb {name}" for name in (*FIVE, "1g.20gb", "1g.10gb+me")),
            "2x1g.10gb+me",
        ],
    )
    def test_an_illegal_set_has_none(self, wanted: str) -> None:
        assert H100.layouts_of(counts(wanted)) is None

    def test_three_slices_with_two_and_two_ones_lie_at_four(self) -> None:
        layout = H100.layouts_of(counts("3g.40gb 2g.20gb 2x1g.10gb"))
        assert layout is not None
        assert Placement("3g.40gb", 4) in layout
        left = (Placement("3g.40gb", 0), Placement("2g.20gb", 4))
        assert H100.fits(left, "1g.10gb") == (6,)
        assert H100.layouts_of(counts("3g.40gb 2g.20gb 2x1g.10gb"), left) is None

    def test_four_ones_beside_three_slices_have_one_layout(self) -> None:
        legal = [layout for layout in all_layouts(H100, FIVE) if names_of(layout) == ("1g.10gb",) * 4 + ("3g.40gb",)]
        ones = {Placement("1g.10gb", start) for start in range(4)}
        assert legal == [ones | {Placement("3g.40gb", 4)}]

    def test_two_of_three_slices_use_all_memory_and_leave_a_slice_of_processors(self) -> None:
        layout = (Placement("3g.40gb", 0), Placement("3g.40gb", 4))
        assert all(not H100.fits(layout, profile.name) for profile in H100.profiles)

    @pytest.mark.parametrize(
        ("taken", "lost"),
        [
            (Placement("1g.10gb", 0), {"7g.80gb": (), "4g.40gb": (), "3g.40gb": (4,)}),
            (Placement("1g.10gb", 6), {"7g.80gb": (), "4g.40gb": (0,), "3g.40gb": (0,)}),
            (Placement("2g.20gb", 0), {"4g.40gb": ()}),
            (Placement("2g.20gb", 4), {"4g.40gb": (0,)}),
        ],
    )
    def test_one_instance_takes_the_places_of_larger_ones(
        self, taken: Placement, lost: dict[str, tuple[int, ...]]
    ) -> None:
        assert {name: H100.fits([taken], name) for name in lost} == lost


class TestKeptInstances:
    def test_those_that_stay_keep_their_place(self) -> None:
        kept = (Placement("1g.10gb", 1), Placement("1g.10gb", 2))
        layout = H100.layouts_of(counts("3g.40gb 2x1g.10gb"), kept)
        assert layout == (*kept, Placement("3g.40gb", 4))

    def test_counts_below_those_kept_have_no_layout(self) -> None:
        assert H100.layouts_of({"1g.10gb": 1}, (Placement("1g.10gb", 0), Placement("1g.10gb", 1))) is None

    def test_nothing_wanted_is_an_empty_layout(self) -> None:
        assert H100.layouts_of({}) == ()

    def test_an_unknown_profile_has_no_layout(self) -> None:
        assert H100.layouts_of({"1g.5gb": 1}) is None
        assert not H100.is_legal([Placement("1g.5gb", 0)])
        assert H100.fits((), "1g.5gb") == ()

    def test_a_place_that_the_profile_has_not_is_illegal(self) -> None:
        assert not H100.is_legal([Placement("2g.20gb", 1)])

    def test_small_instances_leave_room_for_large_ones(self) -> None:
        for few in range(1, 4):
            layout = H100.layouts_of({"1g.10gb": few})
            assert layout is not None
            assert H100.fits(layout, "4g.40gb") == (0,)


@pytest.mark.parametrize(
    ("geometry", "names"),
    [(H100, ("1g.20gb", "1g.10gb+me", *FIVE)), (A30, ("1g.6gb", "1g.6gb+me", "2g.12gb", "2g.12gb+me", "4g.24gb"))],
    ids=["h100-80gb", "a30"],
)
def test_a_set_has_a_layout_exactly_when_one_can_be_built(geometry: Geometry, names: tuple[str, ...]) -> None:
    """All sets up to one more of each profile than there can be, against all layouts."""
    buildable = {names_of(layout) for layout in all_layouts(geometry, names)}
    profiles = [profile for name in names if (profile := geometry.profile(name))]
    tried = 0
    for numbers in product(*(range(profile.max_count + 2) for profile in profiles)):
        slots = sum(number * profile.size for number, profile in zip(numbers, profiles, strict=True))
        if slots > geometry.slots + 2:
            continue
        tried += 1
        wanted = {profile.name: number for number, profile in zip(numbers, profiles, strict=True)}
        layout = geometry.layouts_of(wanted)
        assert (layout is not None) == (tuple(sorted(Counter(wanted).elements())) in buildable)
        if layout is not None:
            assert geometry.is_legal(layout)
            assert names_of(Layout(layout)) == tuple(sorted(Counter(wanted).elements()))
    assert tried > len(buildable)


class TestMediaEngines:
    def test_one_instance_holds_the_engines_that_exist_once(self) -> None:
        first = [Placement("1g.6gb+me", 0)]
        assert A30.fits(first, "1g.6gb+me") == ()
        assert A30.fits(first, "2g.12gb+me") == ()
        assert A30.fits(first, "2g.12gb") == (2,)

    def test_beside_one_with_all_engines_the_others_do_without(self) -> None:
        first = [Placement("2g.48gb+me.all", 0)]
        assert RTX_PRO.fits(first, "2g.48gb-me") == (6,)
        assert RTX_PRO.fits(first, "1g.24gb-me") == (6, 9)
        for other in ("2g.48gb", "2g.48gb+gfx", "1g.24gb", "1g.24gb+me", "1g.24gb+me.all"):
            assert RTX_PRO.fits(first, other) == ()

    def test_graphics_and_plain_instances_share(self) -> None:
        assert RTX_PRO.layouts_of({"1g.24gb+gfx": 2, "1g.24gb+me": 1, "1g.24gb": 1}) is not None

    @EVERY_PROFILE
    def test_a_holder_of_engines_exists_once(self, geometry: Geometry, profile: Profile) -> None:
        if profile.media in (Media.SET, Media.ALL):
            assert profile.max_count == 1


class TestTables:
    @EVERY_PROFILE
    def test_every_place_lies_on_the_gpu(self, geometry: Geometry, profile: Profile) -> None:
        assert profile.starts == tuple(sorted(set(profile.starts)))
        for start in profile.starts:
            assert start >= 0
            assert start + profile.size <= geometry.slots
            assert geometry.is_legal([Placement(profile.name, start)])

    @EVERY_PROFILE
    def test_the_most_instances_that_fit_are_what_the_vendor_says(self, geometry: Geometry, profile: Profile) -> None:
        most = max(map(len, all_layouts(geometry, (profile.name,))))
        assert most == profile.max_count

    @EVERY_FAMILY
    def test_no_legal_layout_overlaps(self, geometry: Geometry) -> None:
        names = tuple(p.name for p in geometry.profiles if p.media in (Media.SHARE, Media.SET))
        for layout in all_layouts(geometry, names):
            slots = [
                slot
                for name, start in layout
                if (profile := geometry.profile(name))
                for slot in range(start, start + profile.size)
            ]
            assert len(slots) == len(set(slots))

    @EVERY_FAMILY
    def test_removing_an_instance_keeps_a_layout_legal(self, geometry: Geometry) -> None:
        for layout in all_layouts(geometry, tuple(p.name for p in geometry.profiles if p.media is Media.SHARE)):
            for fewer in combinations(layout, max(0, len(layout) - 1)):
                assert geometry.is_legal(fewer)

    @EVERY_PROFILE
    def test_a_profile_has_no_more_memory_than_its_slots(self, geometry: Geometry, profile: Profile) -> None:
        for served in geometry.products:
            part = PRODUCT_BY_NAME[served].memory_mib * profile.size / geometry.slots
            assert 0.9 * part - 1 <= profile.memory_mib < part

    def test_derived_memory_is_below_every_driver_s_share(self) -> None:
        shares = [
            profile.memory_mib * geometry.slots / profile.size / PRODUCT_BY_NAME[geometry.products[0]].memory_mib
            for geometry in GEOMETRIES
            for profile in geometry.profiles
            if not profile.memory_derived
        ]
        assert min(shares) > DERIVED_SHARE_PERCENT / 100

    @EVERY_PROFILE
    def test_the_name_counts_the_slots_and_memory_of_the_product(self, geometry: Geometry, profile: Profile) -> None:
        name = parse_profile_name(profile.name)
        assert name is not None
        assert (name.slices, name.media) == (profile.sm_slices, profile.media)
        # The name rounds eighths of the total, so it is above what the instance has, by less than a fifth.
        assert profile.memory_mib / 1024 < name.memory_gb + 0.5
        assert name.memory_gb < profile.memory_mib / 1024 * 1.2

    @EVERY_GEOMETRY
    def test_a_geometry_of_one_memory_size(self, geometry: Geometry) -> None:
        sizes = {PRODUCT_BY_NAME[product].memory_mib for product in geometry.products}
        assert len(sizes) == 1

    def test_device_numbers_belong_to_one_geometry(self) -> None:
        numbers = [number for geometry in GEOMETRIES for number in geometry.device_ids]
        assert len(set(numbers)) == len(numbers)
        assert all(number.startswith("0x") and number.endswith("10DE") and len(number) == 10 for number in numbers)

    def test_only_ampere_needs_a_reset(self) -> None:
        assert {geometry.name for geometry in GEOMETRIES if geometry.reset} == {"a30", "a100-40gb", "a100-80gb"}


class TestLookUp:
    @EVERY_GEOMETRY
    def test_labels_find_their_geometry(self, geometry: Geometry) -> None:
        assert geometry.labels
        for label in geometry.labels:
            assert geometry_for(label) is geometry
            assert geometry_for(f"{label}-MIG-1g.10gb-SHARED") is geometry

    @pytest.mark.parametrize("label", ["", "NVIDIA-L40S", "NVIDIA-RTX-PRO-5000-Blackwell", "Falcon-9000", "MI300X"])
    def test_a_product_that_is_not_in_the_table_gets_no_guess(self, label: str) -> None:
        """G40."""
        assert geometry_for(label) is None

    @pytest.mark.parametrize(
        ("geometry", "name", "meant"),
        [
            ("h100-80gb", "3g.39gb", "3g.40gb"),
            ("gb200", "1g.24gb", "1g.23gb"),
            ("gb200", "3g.95gb", "3g.93gb"),
            ("gb200", "7g.189gb", "7g.186gb"),
            ("h100-80gb", "1g.10gb.me", "1g.10gb+me"),
        ],
    )
    def test_a_name_that_is_slightly_off_means_the_one_of_its_shape(self, geometry: str, name: str, meant: str) -> None:
        profile = GEOMETRY_BY_NAME[geometry].profile(name)
        assert profile is not None
        assert profile.name == meant

    @pytest.mark.parametrize("name", ["1g.15gb", "5g.40gb", "3g.40gb+me", "1c.3g.40gb", "3g.20gb", "all", ""])
    def test_a_name_of_another_shape_is_no_profile(self, name: str) -> None:
        assert H100.profile(name) is None


class TestNames:
    @EVERY_PROFILE
    def test_resource_names_lead_back(self, geometry: Geometry, profile: Profile) -> None:
        assert profile_of_resource(profile.resource) == profile.name
        assert str(parse_profile_name(profile.name)) == profile.name

    def test_the_device_plugin_writes_a_dot_for_a_plus(self) -> None:
        assert resource_name("1g.10gb+me") == "nvidia.com/mig-1g.10gb.me"
        assert resource_name("1g.24gb+me.all") == "nvidia.com/mig-1g.24gb.me.all"
        assert resource_name("1g.24gb-me") == "nvidia.com/mig-1g.24gb-me"

    @pytest.mark.parametrize(
        "resource", ["nvidia.com/gpu", "nvidia.com/mig-", "nvidia.com/mig-1c.3g.20gb", "mig-1g.5gb"]
    )
    def test_another_resource_counts_no_profile(self, resource: str) -> None:
        assert profile_of_resource(resource) is None

    @pytest.mark.parametrize(
        "name", ["1g.10gb+me-me", "1g.10gb-me+gfx", "1g.10gb+gfx.me", "1g.10gb-gfx", "1g10gb", "g.10gb", "1g.10GB"]
    )
    def test_plus_and_minus_do_not_mix(self, name: str) -> None:
        assert parse_profile_name(name) is None

    def test_a_name_taken_apart(self) -> None:
        assert parse_profile_name("1g.24gb+me.all") == ProfileName(1, 24, Media.ALL)

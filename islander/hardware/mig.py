"""MIG: into which instances each product can be cut, where each may lie, and what memory it really has."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from islander.hardware.mig_layout import (
    Geometry,
    Media,
    Placement,
    Profile,
    ProfileName,
    parse_profile_name,
    profile_of_resource,
    resource_name,
)
from islander.hardware.products import PRODUCT_BY_NAME, product_by_label

__all__ = [
    "GEOMETRIES",
    "GEOMETRY_BY_NAME",
    "MIG_RESOURCES",
    "Geometry",
    "Media",
    "Placement",
    "Profile",
    "ProfileName",
    "geometry_for",
    "parse_profile_name",
    "profile_of_resource",
    "resource_name",
]

# Where no driver's figure is known: the least share of the nominal part that any listed product gives its instances is
# 0.908 (H100 NVL, 1g); the rest is the firmware's.
DERIVED_SHARE_PERCENT = 90
# Slots and starts of the products with seven SM slices: `nvidia-smi mig -lgipp` of A100 (40 and 80 GB), H100 (80 and
# 94 GB) in the MIG user guide and public repositories; B200 alike in device lists of cloud nodes. H200, GH200, GB200:
# profile numbers, counts and SMs of `-lgip` agree (NVIDIA/mig-parted issues 120, 139, 227), the starts are inferred
# from the family. B300 and GB300: names and counts only (mig-parted's default file), starts inferred.
# The double-memory 1g takes two slots; one table of the MIG user guide prints an eighth for it, against its size.
# (SM slices, eighths of the memory, starts, most per GPU, media engines)
_SEVEN_SLICES: tuple[tuple[int, int, tuple[int, ...], int, Media], ...] = (
    (7, 8, (0,), 1, Media.SHARE),
    (4, 4, (0,), 1, Media.SHARE),
    (3, 4, (0, 4), 2, Media.SHARE),
    (2, 2, (0, 2, 4), 3, Media.SHARE),
    (1, 2, (0, 2, 4, 6), 4, Media.SHARE),
    (1, 1, (0, 1, 2, 3, 4, 5, 6), 7, Media.SHARE),
    (1, 1, (0, 1, 2, 3, 4, 5, 6), 1, Media.SET),
)


class _Part(NamedTuple):
    """What an instance of one size is called and has: gigabytes in the name; MiB by the driver, None when not known."""

    gigabytes: int
    memory_mib: int | None


def _memory(part: _Part, size: int, slots: int, total_mib: int) -> tuple[int, bool]:
    if part.memory_mib is not None:
        return part.memory_mib, False
    return total_mib * size * DERIVED_SHARE_PERCENT // (slots * 100), True


def _seven_slices(
    name: str,
    products: tuple[str, ...],
    parts: Mapping[int, _Part],
    device_ids: tuple[str, ...],
    min_driver: int,
    *,
    reset: bool = False,
    drivers: Mapping[tuple[int, int, Media], int] = MappingProxyType({}),
) -> Geometry:
    """Build a geometry of seven SM slices and eight slots; `parts` is keyed by eighths of the memory."""
    total_mib = PRODUCT_BY_NAME[products[0]].memory_mib
    profiles = []
    for slices, size, starts, most, media in _SEVEN_SLICES:
        memory_mib, derived = _memory(parts[size], size, 8, total_mib)
        profiles.append(
            Profile(
                name=str(ProfileName(slices, parts[size].gigabytes, media)),
                size=size,
                sm_slices=slices,
                starts=starts,
                max_count=most,
                memory_mib=memory_mib,
                media=media,
                memory_derived=derived,
                min_driver=drivers.get((slices, size, media), 0),
            )
        )
    return Geometry(name, products, 8, 7, tuple(profiles), device_ids, min_driver, reset)


def _parts(eighth: _Part, quarter: _Part, half: _Part, whole: _Part) -> Mapping[int, _Part]:
    return {1: eighth, 2: quarter, 4: half, 8: whole}


# +me with R470, the double-memory 1g with R525 (MIG user guide).
_AMPERE_DRIVERS = MappingProxyType({(1, 1, Media.SET): 470, (1, 2, Media.SHARE): 525})

# Device numbers: mig-parted's default file. Least drivers: MIG user guide. Names: MIG user guide, supported profiles;
# B300 and GB300 only in mig-parted's default file. Memory: the least figure of `nvidia-smi mig -lgip` or of a MIG
# device in `nvidia-smi`, source beside each. Compiled 2026-12-02.
GEOMETRIES: tuple[Geometry, ...] = (
    # Profiles and counts: MIG user guide; starts: NVIDIA/go-nvml's mock, which is right for A30. Memory: `-lgip` in a
    # public log (5.81, 11.69, 23.44 GiB). NVML itself tells wrong counts; mig-parted puts them right.
    Geometry(
        "a30",
        ("A30",),
        slots=4,
        sm_slices=4,
        profiles=(
            Profile("4g.24gb", 4, 4, (0,), 1, 24000),
            Profile("2g.12gb", 2, 2, (0, 2), 2, 11968),
            Profile("2g.12gb+me", 2, 2, (0, 2), 1, 11968, Media.SET, min_driver=525),
            Profile("1g.6gb", 1, 1, (0, 1, 2, 3), 4, 5952),
            Profile("1g.6gb+me", 1, 1, (0, 1, 2, 3), 1, 5952, Media.SET, min_driver=470),
        ),
        device_ids=("0x20B710DE",),
        min_driver=460,
        reset=True,
    ),
    # Memory: MIG user guide and public logs (4.75, 9.75, 19.62 GiB; 40320 MiB).
    _seven_slices(
        "a100-40gb",
        ("A100-SXM4-40GB", "A100-PCIe-40GB"),
        _parts(_Part(5, 4864), _Part(10, 9984), _Part(20, 20096), _Part(40, 40320)),
        ("0x20B010DE", "0x20B110DE", "0x20F110DE", "0x20F610DE"),
        450,
        reset=True,
        drivers=_AMPERE_DRIVERS,
    ),
    # Memory: public logs of several drivers (9.50 or 9.75, 19.50, 39.25 or 39.50, 79.12 GiB).
    _seven_slices(
        "a100-80gb",
        ("A100-SXM4-80GB", "A100-PCIe-80GB", "A800-SXM4-80GB", "A800-PCIe-80GB"),
        _parts(_Part(10, 9728), _Part(20, 19968), _Part(40, 40192), _Part(80, 81024)),
        ("0x20B210DE", "0x20B510DE", "0x20F310DE", "0x20F510DE"),
        450,
        reset=True,
        drivers=_AMPERE_DRIVERS,
    ),
    # Memory: MIG user guide (9.75, 19.62, 39.50, 79.25 GiB).
    _seven_slices(
        "h100-80gb",
        ("H100-SXM-80GB", "H100-PCIe-80GB", "H800-SXM-80GB", "H800-PCIe-80GB"),
        _parts(_Part(10, 9984), _Part(20, 20096), _Part(40, 40448), _Part(80, 81152)),
        ("0x233010DE", "0x233110DE", "0x232210DE", "0x232410DE"),
        525,
    ),
    # Memory: `-lgip` of an H100 NVL in a public repository's test (10.62, 21.50, 46.12, 92.62 GiB).
    _seven_slices(
        "h100-94gb",
        ("H100-NVL-94GB",),
        _parts(_Part(12, 10880), _Part(24, 22016), _Part(47, 47232), _Part(94, 94848)),
        ("0x232110DE", "0x233A10DE"),
        525,
    ),
    # The H100 of a GH200 and the H100 with 96 GB. Memory: public logs of GH200 (11.00, 23.00, 46.50, 93.00 GiB).
    _seven_slices(
        "h100-96gb",
        ("GH200-96GB",),
        _parts(_Part(12, 11264), _Part(24, 23552), _Part(48, 47616), _Part(96, 95232)),
        ("0x234210DE", "0x233D10DE"),
        525,
    ),
    # Memory: none seen.
    _seven_slices(
        "h20",
        ("H20",),
        _parts(_Part(12, None), _Part(24, None), _Part(48, None), _Part(96, None)),
        ("0x232910DE",),
        535,
    ),
    # Memory: NVIDIA/mig-parted issue 120 (16.00, 32.25, 69.50 GiB); the whole: none seen.
    _seven_slices(
        "h200",
        ("H200-SXM-141GB", "H200-NVL-141GB"),
        _parts(_Part(18, 16384), _Part(35, 33024), _Part(71, 71168), _Part(141, None)),
        ("0x233510DE", "0x233B10DE"),
        550,
    ),
    # Memory: NVIDIA/mig-parted issue 139 (17.50, 35.25 GiB); half and whole: none seen.
    _seven_slices(
        "gh200-144gb",
        ("GH200-144GB",),
        _parts(_Part(18, 17920), _Part(36, 36096), _Part(72, None), _Part(144, None)),
        ("0x234810DE",),
        550,
    ),
    # Memory: NVIDIA/mig-parted issue 166 and cloud nodes (20.5 to 22.0 by driver, 44.25, 178.5 GiB); the half is told
    # as about 89 GiB only.
    _seven_slices(
        "b200",
        ("B200",),
        _parts(_Part(23, 20992), _Part(45, 45312), _Part(90, None), _Part(180, 182784)),
        ("0x290110DE",),
        570,
    ),
    # Boards differ in names (1g.24gb, 3g.95gb, 7g.189gb: NVIDIA/mig-parted issue 227), which `profile` allows for.
    # Memory: that issue (22.00, 45.50 GiB); half and whole: none seen.
    _seven_slices(
        "gb200",
        ("GB200",),
        _parts(_Part(23, 22528), _Part(47, 46592), _Part(93, None), _Part(186, None)),
        ("0x294110DE",),
        570,
    ),
    # Memory: none seen.
    _seven_slices(
        "b300",
        ("B300",),
        _parts(_Part(34, None), _Part(67, None), _Part(135, None), _Part(269, None)),
        ("0x318210DE",),
        580,
    ),
    # Memory: none seen.
    _seven_slices(
        "gb300",
        ("GB300",),
        _parts(_Part(35, None), _Part(70, None), _Part(139, None), _Part(278, None)),
        ("0x31C210DE",),
        595,
    ),
    # MIG user guide: `-lgip` (23.62, 47.38, 95.00 GiB) and `-lgipp`. Workstation boards need compute display mode and a
    # least firmware; their device numbers (2BB1, Max-Q 2BB4) as `lspci -nn` shows them in public logs.
    # RTX PRO 5000 and 4500 are not here: versions of the guide disagree on their profiles.
    Geometry(
        "rtx-pro-6000",
        ("RTX-PRO-6000",),
        slots=12,
        sm_slices=4,
        profiles=(
            Profile("4g.96gb", 12, 4, (0,), 1, 97280),
            Profile("4g.96gb+gfx", 12, 4, (0,), 1, 97280, Media.GRAPHICS),
            Profile("2g.48gb", 6, 2, (0, 6), 2, 48512),
            Profile("2g.48gb+gfx", 6, 2, (0, 6), 2, 48512, Media.GRAPHICS),
            Profile("2g.48gb+me.all", 6, 2, (0, 6), 1, 48512, Media.ALL),
            Profile("2g.48gb-me", 6, 2, (0, 6), 2, 48512, Media.NONE),
            Profile("1g.24gb", 3, 1, (0, 3, 6, 9), 4, 24192),
            Profile("1g.24gb+me", 3, 1, (0, 3, 6, 9), 1, 24192, Media.SET),
            Profile("1g.24gb+gfx", 3, 1, (0, 3, 6, 9), 4, 24192, Media.GRAPHICS),
            Profile("1g.24gb+me.all", 3, 1, (0, 3, 6, 9), 1, 24192, Media.ALL),
            Profile("1g.24gb-me", 3, 1, (0, 3, 6, 9), 4, 24192, Media.NONE),
        ),
        device_ids=("0x2BB510DE", "0x2BB110DE", "0x2BB410DE"),
        min_driver=575,
    ),
)

GEOMETRY_BY_NAME: Mapping[str, Geometry] = MappingProxyType({geometry.name: geometry for geometry in GEOMETRIES})
_BY_PRODUCT: Mapping[str, Geometry] = MappingProxyType(
    {product: geometry for geometry in GEOMETRIES for product in geometry.products}
)


_NAMES = {parse_profile_name(profile.name) for geometry in GEOMETRIES for profile in geometry.profiles}
MIG_RESOURCES: tuple[str, ...] = tuple(resource_name(str(name)) for name in sorted(name for name in _NAMES if name))
"""The resources of all profiles in the tables, small ones first."""


def geometry_for(product_label: str) -> Geometry | None:
    """Return the geometry of the product that a node's label names; None when no source tells how it is cut.

    None stands for a product without MIG as well as for one that is not in the table: no answer, and no guess.
    """
    product = product_by_label(product_label)
    return None if product is None else _BY_PRODUCT.get(product.name)

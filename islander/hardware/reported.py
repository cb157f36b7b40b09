"""Hardware of a node that reports its own links."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from islander.hardware.links import Hardware, LinkMatrix

MOST_LINKS_OF_A_GPU = 18
"""NVLinks of one GPU up to Blackwell (vendor's papers: P100 4, V100 6, A100 12, H100 and later 18)."""


def links_as_plugin_sees(links: LinkMatrix) -> LinkMatrix:
    """Return the links as NVIDIA's device plugin counts them: without those that run through a switch.

    A GPU that shows more NVLinks to its peers than a GPU has must share them through a switch. What stays in doubt are
    two GPUs behind a switch, where the device plugin has no choice anyway, and a few V100.
    """
    switched = [sum(row) > MOST_LINKS_OF_A_GPU for row in links.nvlinks]
    if not any(switched):
        return links
    return LinkMatrix(
        links.pcie,
        tuple(
            tuple(0 if switched[i] or switched[j] else count for j, count in enumerate(row))
            for i, row in enumerate(links.nvlinks)
        ),
    )


def reported_hardware(
    links: LinkMatrix, plugin_links: LinkMatrix | None = None, numa: Sequence[int | None] = ()
) -> Hardware:
    """Return the hardware of a node that reports its links; equal reports give equal names.

    Parameters
    ----------
    plugin_links
        What the device plugin's allocator sees; derived from `links` when absent.
    numa
        NUMA node of each GPU, shape (gpus,); nothing is known of them when empty.

    Raises
    ------
    ValueError
        The parts speak of different numbers of GPUs.
    """
    seen = links_as_plugin_sees(links) if plugin_links is None else plugin_links
    numa = tuple(numa) or (None,) * links.gpus
    content = repr((links.pcie, links.nvlinks, seen.pcie, seen.nvlinks, numa))
    name = f"reported-{links.gpus}-{hashlib.sha256(content.encode()).hexdigest()[:10]}"
    return Hardware(name, links, seen, numa)

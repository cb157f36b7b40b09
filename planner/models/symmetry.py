"""Which GPUs of a node can stand for each other: nodes that differ in nothing but the numbers of GPUs are alike.

The policy judges GPUs by their links and NUMA nodes, never by their numbers, so that a set of GPUs and its image under
a symmetry of the node get the same answers for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from islander.hardware.links import Hardware, gpus_of
from islander.policy.kubelet import ALIGNING_POLICIES

# Four bridged pairs have 384 symmetries, eight equal GPUs on two NUMA nodes 1,152. Fewer than there are find less that
# is alike, and nothing that is not.
MAX_SYMMETRIES = 1_200
# The table of images has a column per set of GPUs; of more GPUs every set stands for itself alone.
MAX_GPUS = 10

Table = npt.NDArray[np.uint16]
# Of a GPU: what it is to the model, and who holds it (whatever is equal for GPUs of one pod only).
Mark = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Symmetries:
    """The symmetries of one kind of node.

    Attributes
    ----------
    permutations
        Shape (symmetries, gpus): where each GPU goes; the first one leaves all where they are.
    """

    permutations: Table
    _images: Table
    _known: dict[tuple[int, ...], bytes] = field(default_factory=dict, repr=False, compare=False)

    def sets_like(self, masks: tuple[int, ...]) -> bytes:
        """Return what a family of GPU sets (bit masks) has in common with all its images, and with no other family."""
        found = self._known.get(masks)
        if found is None:
            if not self._images.size:
                return repr(masks).encode()
            rows = np.sort(self._images[:, list(masks)], axis=1).astype(">u2")
            found = self._known[masks] = min(row.tobytes() for row in rows)
        return found

    def marks_like(self, marks: Sequence[Mark]) -> tuple[bytes, tuple[int, ...]]:
        """Return the same for GPUs with marks, and the order of the GPUs in which it was read."""
        if not marks:
            return b"", ()
        at = np.argsort(self.permutations, axis=1)
        kinds = np.array([kind for kind, _ in marks], dtype=np.int32)[at]
        holders = np.array([holder for _, holder in marks], dtype=np.int32)[at]
        # Who is first seen where says which GPUs belong together, whatever the holders are called.
        first_seen = (holders[:, :, None] == holders[:, None, :]).argmax(axis=2)
        rows = np.concatenate([kinds + 2, first_seen], axis=1).astype(">u4")
        images = [row.tobytes() for row in rows]
        best = min(range(len(images)), key=images.__getitem__)
        return images[best], tuple(int(gpu) for gpu in at[best])


@lru_cache(maxsize=256)
def symmetries_of(
    hardware: Hardware, topology_manager_policy: str, apart: int = 0, *, numbered: bool = False
) -> Symmetries:
    """Return the symmetries of a node.

    Parameters
    ----------
    apart
        Bit mask of GPUs that stand for each other only (those that are out of order).
    numbered
        Take every GPU for one of its own, because somebody looks at their numbers.
    """
    gpus = hardware.gpus
    if gpus > MAX_GPUS or numbered:
        return Symmetries(np.arange(gpus, dtype=np.uint16)[None, :], np.empty((0, 0), dtype=np.uint16))
    aligned = topology_manager_policy in ALIGNING_POLICIES
    found = [chosen for _, chosen in zip(range(MAX_SYMMETRIES), _found(hardware, aligned, apart), strict=False)]
    permutations = np.array(found, dtype=np.uint16).reshape(len(found), gpus)
    images = np.zeros((len(found), 1 << gpus), dtype=np.uint16)
    for mask in range(1 << gpus):
        for gpu in gpus_of(mask):
            images[:, mask] |= np.uint16(1) << permutations[:, gpu]
    return Symmetries(permutations, images)


def _found(hardware: Hardware, aligned: bool, apart: int, chosen: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Yield the symmetries that begin with `chosen`; the one that changes nothing is the first."""
    gpu = len(chosen)
    if gpu == hardware.gpus:
        yield chosen
        return
    for image in range(hardware.gpus):
        if image in chosen or (apart >> gpu ^ apart >> image) & 1:
            continue
        if all(_alike(hardware, aligned, (gpu, other), (image, chosen[other])) for other in range(gpu)):
            yield from _found(hardware, aligned, apart, (*chosen, image))


def _alike(hardware: Hardware, aligned: bool, pair: tuple[int, int], image: tuple[int, int]) -> bool:
    (i, j), (k, m) = pair, image
    links_alike = all(
        links.pcie[i][j] == links.pcie[k][m] and links.nvlinks[i][j] == links.nvlinks[k][m]
        for links in (hardware.links, hardware.plugin_links)
    )
    return links_alike and (
        not aligned or (hardware.numa[i] == hardware.numa[j]) == (hardware.numa[k] == hardware.numa[m])
    )

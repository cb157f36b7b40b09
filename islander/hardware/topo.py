"""Reader of `nvidia-smi topo -m`, and of the same words in a table of cells.

The reader takes what people paste: a prompt before the table, escape codes, Windows line ends, spaces for tabs, columns
of network cards. It never reads more links into a text than the text shows: what is cut off is an error, and where the
two directions of a pair differ, the weaker one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from islander.hardware.links import PCIE_WORDS, LinkMatrix, PcieClass
from islander.hardware.presets import MAX_GPUS

# SOC is the word of drivers before NODE was told apart.
_PCIE_CLASSES = {word: pcie_class for pcie_class, word in PCIE_WORDS.items()} | {"SOC": PcieClass.SYS}

_SELF = "X"
_NVLINKS = re.compile(r"NV(\d{1,3})")
# A word that says nothing of the link: `N/A`, `ERR!`, and words that a later driver may bring.
_OTHER_WORD = re.compile(r"[A-Z?-][A-Z0-9/?!_-]*")

_ESCAPE_CODE = re.compile(r"(?:\x1b|\^\[)?\[[0-9;]*m|\x1b\[[0-9;?]*[A-Za-z]")
_QUOTE_MARKS = " \t>|`\ufeff"
_GPU = re.compile(r"GPU(\d{1,4})")
_TAIL_COLUMN = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID|NUMA Node|\S+")
_NUMA_COLUMNS = ("NUMA Affinity", "NUMA Node", "NUMA")
_NUMA_SET = re.compile(r"\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?)*")
_MAX_WARNINGS = 8


class MalformedTopology(ValueError):
    """The text or table does not show the links between GPUs completely; the message is one line."""


@dataclass(frozen=True, slots=True)
class ParsedTopo:
    """What a text of `nvidia-smi topo -m` shows.

    Attributes
    ----------
    links
        The links; a PCIe class that NVLink hides is NODE where both GPUs have the same single NUMA node (their way is
        at least as short), otherwise SYS.
    numa
        NUMA nodes that each GPU is near to, shape (gpus,); None where the text does not tell.
    warnings
        What was read with doubt; each is one sentence.
    indexes
        The number that the text gives to each GPU, ascending, shape (gpus,).
    """

    links: LinkMatrix
    numa: tuple[frozenset[int] | None, ...]
    warnings: tuple[str, ...]
    indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Cell:
    """One cell; `pcie` is None where NVLink hides it, `known` False for a word that says nothing of the link."""

    pcie: PcieClass | None
    nvlinks: int
    known: bool = True


@dataclass(frozen=True, slots=True)
class _Header:
    devices: tuple[str, ...]
    tail: tuple[str, ...]

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(sorted((name for name in self.devices if _GPU.fullmatch(name)), key=_number))


@dataclass(frozen=True, slots=True)
class _Row:
    cells: tuple[str, ...]
    tail: tuple[str, ...]


def parse_topo(text: str) -> ParsedTopo:
    """Read the first table of `nvidia-smi topo -m` in a text.

    Raises
    ------
    MalformedTopology
        There is no table, a row or a cell is missing, or a cell stands where it cannot.
    """
    header, rows = _table(text)
    names = header.gpus
    column = {name: header.devices.index(name) for name in names}
    numa, warnings = _numa(header, rows)
    links, doubts = matrix_from_cells(
        [[rows[row].cells[column[other]] for other in names] for row in names],
        [next(iter(nodes)) if nodes and len(nodes) == 1 else None for nodes in numa],
        names,
    )
    indexes = tuple(map(_number, names))
    if indexes != tuple(range(len(names))):
        warnings = (
            *warnings,
            f"the numbers of the GPUs have gaps: {', '.join(names)} are read as 0 to {len(names) - 1}",
        )
    return ParsedTopo(links, numa, (*doubts, *warnings), indexes)


def matrix_from_cells(
    cells: Sequence[Sequence[str]], numa: Sequence[int | None] = (), names: Sequence[str] = ()
) -> tuple[LinkMatrix, tuple[str, ...]]:
    """Read a table of cells in the words of `nvidia-smi topo -m`.

    Parameters
    ----------
    cells
        Shape (gpus, gpus); `X` on the diagonal; elsewhere a PCIe class, `NVn`, or both joined (`NODE+NV4`).
    numa
        NUMA node of each GPU, shape (gpus,); gives the PCIe class that a bare `NVn` hides, when two are equal.
    names
        What the warnings call the GPUs; `GPU0`, `GPU1`, ... when absent.

    Returns
    -------
    The links, and a sentence for each pair that was read with doubt; the weaker reading counts.

    Raises
    ------
    MalformedTopology
        The table is not square, too large, or holds a cell that cannot be.
    """
    size = len(cells)
    names = names or [f"GPU{gpu}" for gpu in range(size)]
    if size > MAX_GPUS:
        raise MalformedTopology(f"{size} GPUs are more than a node has; expected at most {MAX_GPUS}")
    for name, row in zip(names, cells, strict=True):
        if len(row) != size:
            raise MalformedTopology(f"row {name} has {len(row)} cells for {size} GPUs")
    pcie = [[0] * size for _ in range(size)]
    nvlinks = [[0] * size for _ in range(size)]
    doubts: list[str] = []
    for i, row in enumerate(cells):
        if row[i].strip() != _SELF:
            raise MalformedTopology(f"row {names[i]} has {row[i]!r} where its own column should show X")
        for j in range(i):
            here, there = _cell(row[j], names[i], names[j]), _cell(cells[j][i], names[j], names[i])
            hidden = PcieClass.NODE if numa and numa[i] is not None and numa[i] == numa[j] else PcieClass.SYS
            pcie[i][j] = pcie[j][i] = min((c.pcie for c in (here, there) if c.pcie is not None), default=hidden)
            nvlinks[i][j] = nvlinks[j][i] = min(here.nvlinks, there.nvlinks)
            if here != there:
                doubts.append(
                    f"{names[j]} and {names[i]} show {cells[j][i].strip()} one way and {row[j].strip()} the other; "
                    "the weaker one counts"
                )
            elif not here.known:
                doubts.append(f"{names[j]} and {names[i]} show {row[j].strip()}, which tells no link; read as SYS")
    return LinkMatrix(tuple(map(tuple, pcie)), tuple(map(tuple, nvlinks))), _shortened(doubts)


def cells_of(links: LinkMatrix) -> tuple[tuple[str, ...], ...]:
    """Return the cells of a table of links, shape (gpus, gpus); `matrix_from_cells` reads back the same links."""

    def cell(i: int, j: int) -> str:
        if i == j:
            return _SELF
        word = PCIE_WORDS[PcieClass(links.pcie[i][j])]
        return f"{word}+NV{links.nvlinks[i][j]}" if links.nvlinks[i][j] else word

    return tuple(tuple(cell(i, j) for j in range(links.gpus)) for i in range(links.gpus))


def _cell(text: str, row: str, column: str) -> _Cell:
    pcie: PcieClass | None = None
    nvlinks, known = 0, True
    for word in text.strip().split("+"):
        if word in _PCIE_CLASSES:
            pcie = _PCIE_CLASSES[word]
        elif match := _NVLINKS.fullmatch(word):
            nvlinks = int(match[1])
        elif word != _SELF and _OTHER_WORD.fullmatch(word):
            pcie, nvlinks, known = PcieClass.SYS, 0, False
            break
        else:
            raise MalformedTopology(f"row {row} has {text!r} in column {column}, which is no link")
    return _Cell(pcie, nvlinks, known)


def _table(text: str) -> tuple[_Header, dict[str, _Row]]:
    header: _Header | None = None
    rows: dict[str, _Row] = {}
    for line in _ESCAPE_CODE.sub("", text).splitlines():
        tokens = line.strip(_QUOTE_MARKS).replace("|", " ").split()
        if rows and tokens and tokens[0].startswith("Legend"):
            break
        if not tokens or not _GPU.fullmatch(tokens[0]):
            continue
        if header is None:
            header = _header(tokens)
            continue
        if len(tokens) > 1 and _GPU.fullmatch(tokens[1]):
            raise MalformedTopology("a second header begins inside the table; were long lines wrapped?")
        _add_row(header, rows, tokens)
        if len(rows) == len(header.gpus):
            return header, rows
    if header is None:
        raise MalformedTopology("the text holds no table of `nvidia-smi topo -m`")
    missing = [name for name in header.gpus if name not in rows]
    raise MalformedTopology(f"the table is cut off: no row for {', '.join(missing)}")


def _header(tokens: Sequence[str]) -> _Header:
    if any(token == _SELF or token in _PCIE_CLASSES or _NVLINKS.fullmatch(token) for token in tokens):
        raise MalformedTopology(f"row {tokens[0]} comes before a header with the names of the GPUs")
    starts = ("CPU Affinity", "NUMA Affinity", "NUMA Node", "GPU NUMA")
    end = next(
        (
            at
            for at, token in enumerate(tokens)
            if " ".join(tokens[at : at + 2]) in starts or token in ("NUMA", "Affinity")
        ),
        len(tokens),
    )
    header = _Header(tuple(tokens[:end]), tuple(_TAIL_COLUMN.findall(" ".join(tokens[end:]))))
    if len(set(header.gpus)) != len(header.gpus):
        raise MalformedTopology("the header names a GPU twice")
    return header


def _add_row(header: _Header, rows: dict[str, _Row], tokens: Sequence[str]) -> None:
    name, end = tokens[0], 1 + len(header.devices)
    if name not in header.devices:
        raise MalformedTopology(f"row {name} has no column in the header")
    if name in rows:
        raise MalformedTopology(f"row {name} comes twice")
    cells = tuple(tokens[1:end])
    links = next((at for at, cell in enumerate(cells) if not _is_link_word(cell)), len(cells))
    if links < len(header.devices):
        raise MalformedTopology(f"row {name} is cut off: it has {links} of {len(header.devices)} cells")
    rows[name] = _Row(cells, tuple(tokens[end:]))


def _numa(header: _Header, rows: dict[str, _Row]) -> tuple[tuple[frozenset[int] | None, ...], tuple[str, ...]]:
    column = next((header.tail.index(label) for label in _NUMA_COLUMNS if label in header.tail), None)
    if column is None:
        return (None,) * len(header.gpus), ()
    nodes: list[frozenset[int] | None] = []
    unread: list[str] = []
    for name in header.gpus:
        tail = rows[name].tail
        # With a value missing, nothing tells which one: the columns of the output are not aligned.
        value = tail[column] if len(tail) == len(header.tail) else ""
        found = _numa_set(value)
        nodes.append(found)
        if found is None and value != "N/A" and set(tail) != {"N/A"}:
            unread.append(name)
    warnings = (f"the NUMA node of {', '.join(unread)} could not be read",) if unread else ()
    return tuple(nodes), warnings


def _numa_set(text: str) -> frozenset[int] | None:
    if not _NUMA_SET.fullmatch(text):
        return None
    nodes: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        nodes.update(range(int(first), int(last or first) + 1))
    return frozenset(nodes) or None


def _is_link_word(token: str) -> bool:
    return bool(_OTHER_WORD.fullmatch(token))


def _number(name: str) -> int:
    return int(name.removeprefix("GPU"))


def _shortened(doubts: Iterable[str]) -> tuple[str, ...]:
    doubts = tuple(doubts)
    if len(doubts) <= _MAX_WARNINGS:
        return doubts
    return (*doubts[:_MAX_WARNINGS], f"{len(doubts) - _MAX_WARNINGS} more pairs were read with doubt")

"""Find the layout of a shared tile that its accesses like best, by trying all of them.

Tried are: plain rows; every padding by whole elements up to 128 bytes a row; every XOR swizzle of byte addresses that can change a bank; and the
swizzles of TMA, for rows of whole spans. A layout's cost is its excess wavefronts over all accesses, each as often as it happens; then the
instructions (a layout that tears 16-byte pieces apart needs more of them); then its bytes. The search is exhaustive in its range, so the best that it
names is the best there is in it, and the table of the rest is the proof.

A tile of float32 is written row by row and read by columns:

>>> import numpy as np
>>> from tileworkbench.layout.access import Access, shared_copy
>>> across = np.arange(32)
>>> read = Access.of("a column", np.tile(across, (32, 1)), np.tile(across[:, None], (1, 32)))
>>> found = find_layouts(32, 32, bits=32, accesses=(shared_copy("rows", 32, 32, bits=32), read), buffer="t")
>>> found.tried, found.plain.excess, found.best.excess, found.best.layout.name
(131, 992, 0, 'Swizzle(5, 2, 5)')

The best padding has no conflicts either, but needs more memory:

>>> found.best.bytes, found.of_kind("padding").layout.name, found.of_kind("padding").bytes
(4096, 'padded by 1', 4220)

What to paste into the kernel. Offsets are in elements there:

>>> found.annotation
'T.annotate_layout({t: T.Layout((32, 32), lambda i, j: (i * 32 + j) ^ (((i * 32 + j) >> 5) & 31))})'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..base.span import Span
from .access import Access, TornError
from .algebra import Xor
from .banks import RULE, Wavefronts, wavefronts
from .tile_layout import SPANS, TileLayout, linear, padded, swizzled, xored

__all__ = ["Candidate", "Found", "find_layouts"]

MAX_PAD_BYTES = 128
_BANK_BITS = range(2, 7)  # the bits of a byte address that choose the bank
_ORDER = ("none", "TMA swizzle", "XOR swizzle", "padding")
_SPAN_WORD = {128: "full", 64: "half", 32: "quarter"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """One layout with what it costs. `kind` is "none", "TMA swizzle", "XOR swizzle" or "padding".

    `costs` are the wavefronts of each access once, `times` how often each happens; `widths` the bytes that a thread can take at once in each, and
    `requests` the warp-wide instructions that it takes.
    """

    kind: str
    layout: TileLayout
    costs: tuple[Wavefronts, ...]
    times: tuple[int, ...]
    widths: tuple[int, ...]
    requests: tuple[int, ...]

    @property
    def total(self) -> int:
        """Wavefronts of all accesses, as often as they happen."""
        return sum(c.total * n for c, n in zip(self.costs, self.times, strict=True))

    @property
    def excess(self) -> int:
        """Wavefronts above the ideal."""
        return sum(c.excess * n for c, n in zip(self.costs, self.times, strict=True))

    @property
    def instructions(self) -> int:
        """Warp-wide instructions of all accesses."""
        return sum(r * n for r, n in zip(self.requests, self.times, strict=True))

    @property
    def bytes(self) -> int:
        """Shared memory that the tile takes."""
        return self.layout.bytes

    def annotation(self, buffer: str) -> str:
        """The line that pins this layout in a kernel."""
        rows, columns = self.layout.shape
        place: Any = self.layout.place
        if self.kind == "none":
            return f"T.annotate_layout({{{buffer}: make_linear_layout({buffer})}})"
        if self.kind == "TMA swizzle":
            span = int(self.layout.name.partition("-")[0])
            return f"T.annotate_layout({{{buffer}: make_{_SPAN_WORD[span]}_bank_swizzled_layout({buffer})}})"
        if self.kind == "padding":
            return f"T.annotate_layout({{{buffer}: T.Layout(({rows}, {columns}), lambda i, j: i * {place.stride[0]} + j)}})"
        swizzle = place.outer  # of elements
        mask = ((1 << swizzle.bits) - 1) << swizzle.base
        at = f"i * {columns} + j"
        return f"T.annotate_layout({{{buffer}: T.Layout(({rows}, {columns}), lambda i, j: ({at}) ^ ((({at}) >> {swizzle.shift}) & {mask}))}})"


@dataclass(frozen=True)
class Found:
    """What a search found: the candidates that work, best first. `tried` counts all, `rejected` those on which an access cannot be done.

    `span`: where the tile is allocated, if that is known; `notes`: what the counts leave out.
    """

    buffer: str
    accesses: tuple[Access, ...]
    candidates: tuple[Candidate, ...]
    tried: int
    rejected: int
    searched: str
    span: Span | None = None
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate:
        return self.candidates[0]

    @cached_property
    def plain(self) -> Candidate:
        """Row-major, as it is without any annotation."""
        return self.of_kind("none")

    def of_kind(self, kind: str) -> Candidate:
        """The best of one kind. Raises KeyError if none of that kind could be tried."""
        for candidate in self.candidates:
            if candidate.kind == kind:
                return candidate
        raise KeyError(f"no {kind!r} was possible for {self.buffer}; there are {', '.join(dict.fromkeys(c.kind for c in self.candidates))}")

    @property
    def kinds(self) -> tuple[Candidate, ...]:
        """The best of each kind, best first."""
        return tuple(self.of_kind(kind) for kind in dict.fromkeys(c.kind for c in self.candidates))

    @property
    def conflict_free(self) -> int:
        """How many of the layouts have no excess wavefront."""
        return sum(c.excess == 0 for c in self.candidates)

    @property
    def annotation(self) -> str:
        """The line to paste into the kernel for the best layout."""
        return self.best.annotation(self.buffer)

    @property
    def data(self) -> list[dict[str, object]]:
        """The candidates as plain numbers, best first."""
        return [
            {
                "rank": i + 1,
                "layout": c.layout.name,
                "kind": c.kind,
                "wavefronts": c.total,
                "excess": c.excess,
                "instructions": c.instructions,
                "bytes": c.bytes,
                "by_access": {a.name: cost.excess for a, cost in zip(self.accesses, c.costs, strict=True)},
            }
            for i, c in enumerate(self.candidates)
        ]

    def __str__(self) -> str:
        head = f"{self.buffer}: {self.tried} layouts tried, {self.rejected} cannot be, {self.conflict_free} without conflicts ({RULE})"
        lines = [head, f"  searched: {self.searched}", f"  {'best of its kind':<22} {'wavefronts':>10} {'excess':>7} {'bytes':>7}"]
        lines += [f"  {c.layout.name:<22} {c.total:>10} {c.excess:>7} {c.bytes:>7}" for c in self.kinds]
        return "\n".join([*lines, f"  {self.annotation}"])


def find_layouts(
    rows: int, columns: int, *, bits: int, accesses: Sequence[Access], buffer: str = "tile", max_pad_bytes: int = MAX_PAD_BYTES,
    kinds: Sequence[str] = (), span: Span | None = None, notes: Sequence[str] = (),
) -> Found:  # fmt: skip
    """Try every layout of the range for a tile of `rows` x `columns` cells of `bits` bits, and rank them; of some `kinds` only, if any are named.

    Raises: ValueError without an access, or for cells of less than a byte.
    """
    if not accesses:
        raise ValueError(f"nobody accesses {buffer}; there is nothing to optimise")
    if bits % 8:
        raise ValueError(f"{buffer} has cells of {bits} bits; pack them into bytes first")
    found, rejected = [], 0
    for kind, layout in _layouts(rows, columns, bits, max_pad_bytes):
        if kinds and kind not in kinds:
            continue
        try:
            found.append(_judge(kind, layout, accesses))
        except TornError:
            rejected += 1
    found.sort(key=_rank)
    top = (rows * columns * bits // 8 - 1).bit_length()
    searched = (
        f"plain; paddings of 1..{max_pad_bytes * 8 // bits} elements; XOR swizzles of every 1..{len(_BANK_BITS)} bank bits "
        f"with address bits below {top}; TMA's {', '.join(map(str, SPANS))}-byte swizzles where rows are whole spans"
    )
    searched += f"; of these only {' and '.join(kinds)}: what touches the tile takes no other" if kinds else ""
    return Found(buffer, tuple(accesses), tuple(found), len(found) + rejected, rejected, searched, span, tuple(notes))


def _judge(kind: str, layout: TileLayout, accesses: Sequence[Access]) -> Candidate:
    placed = [a.addresses(layout) for a in accesses]
    costs = tuple(wavefronts(starts, width) for starts, width in placed)
    return Candidate(kind, layout, costs, tuple(a.times for a in accesses), tuple(w for _, w in placed), tuple(len(s) for s, _ in placed))


def _rank(candidate: Candidate) -> tuple[int, ...]:
    """Excess, then instructions, then bytes, then the plainer one: TMA's widest span, else fewer swizzled bits and the longest pieces kept whole."""
    swizzle = getattr(candidate.layout.place, "outer", None)
    bits, base = (swizzle.bits, swizzle.base) if isinstance(swizzle, Xor) else (0, 0)
    return (
        candidate.excess,
        candidate.instructions,
        candidate.bytes,
        _ORDER.index(candidate.kind),
        -bits if candidate.kind == "TMA swizzle" else bits,
        -base,
    )


def _layouts(rows: int, columns: int, bits: int, max_pad_bytes: int) -> Iterator[tuple[str, TileLayout]]:
    yield "none", linear(rows, columns, bits=bits, name="row-major")
    size = bits // 8
    for span in SPANS:
        if columns * size % span == 0:
            yield "TMA swizzle", swizzled(rows, columns, bits=bits, span=span)
    top = (rows * columns * size - 1).bit_length()  # address bits of the tile
    for base in _BANK_BITS:
        for count in range(1, _BANK_BITS.stop - base + 1):
            for shift in range(count, top - base):
                if 1 << base >= size:
                    yield "XOR swizzle", xored(rows, columns, Xor(count, base, shift), bits=bits)
    for pad in range(1, max_pad_bytes // size + 1):
        yield "padding", padded(rows, columns, bits=bits, pad=pad)

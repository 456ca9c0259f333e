"""The runs of bytes in which a tile goes to another block of its cluster by the copy engine, or why threads have to write it element by element."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from ..ir.explicit import Push
from ..ir.expr import Const
from ..ir.stmt import Region, is_whole
from ..ir.tile_form import TileForm
from .tensor_copies import PIECE
from .tile_forms import form_of

MOST_RUNS = 32


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of `bytes` bytes each. `moves`: how far each begins from the first cell of the source and of the destination, dim by dim."""

    bytes: int
    moves: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

    @property
    def all_bytes(self) -> int:
        return self.bytes * len(self.moves)


def runs_of(stmt: Push, forms: tuple[TileForm, ...]) -> Runs | str:
    """The runs of `stmt`; or why it has none."""
    if stmt.barrier is None:
        return "no barrier is told when it has come"
    src, dst = stmt.src, stmt.dst
    if any(r.buffer.view_of is not None or r.buffer.strides is not None for r in (src, dst)):
        return "it works on views"
    one, two = form_of(forms, src.buffer), form_of(forms, dst.buffer)
    size = src.buffer.type.bits
    if one is not None or two is not None:
        same = one is not None and two is not None and one.row_bytes == two.row_bytes and src.buffer.shape == dst.buffer.shape
        if not (same and is_whole(src) and is_whole(dst)):
            return "a tile lies in pieces, as matrix units read it"
        return Runs(src.buffer.static_bytes(), ((_zeros(src), _zeros(dst)),))
    rows = [prod(r.static_extents()[_tail(r) :]) for r in (src, dst)]
    row = min(rows)
    if max(rows) % row or row * size % (8 * PIECE):
        return f"rows of {row} elements are no multiples of {PIECE} bytes"
    corners = [list(_corners(r.static_extents(), row)) for r in (src, dst)]
    if len(corners[0]) > MOST_RUNS:
        return f"it falls into {len(corners[0])} rows"
    if not all(_is_aligned(r, cells, size) for r, cells in zip((src, dst), corners, strict=True)):
        return f"rows are not known to begin at multiples of {PIECE} bytes"
    return Runs(row * size // 8, tuple(zip(*corners, strict=True)))


def _zeros(r: Region) -> tuple[int, ...]:
    return (0,) * r.buffer.rank


def _tail(r: Region) -> int:
    """The first dim from which on cells of the region follow one another in memory."""
    extents, shape = r.static_extents(), r.buffer.static_shape()
    d = r.buffer.rank - 1
    while d > 0 and extents[d] == shape[d]:
        d -= 1
    return d


def _corners(extents: tuple[int, ...], row: int) -> Iterator[tuple[int, ...]]:
    """Where each run of `row` cells begins, in the order of cells."""
    for number, cell in enumerate(product(*(range(n) for n in extents))):
        if number % row == 0:
            yield cell


def _is_aligned(r: Region, corners: list[tuple[int, ...]], bits: int) -> bool:
    """Whether all runs certainly begin at multiples of 16 bytes."""
    shape = r.buffer.static_shape()
    steps = [prod(shape[d + 1 :]) for d in range(len(shape))]
    known = 0
    for start, step in zip(r.starts, steps, strict=True):
        if isinstance(start, Const):
            known += int(start.value) * step
        elif step * bits % (8 * PIECE):
            return False
    return all((known + sum(c * s for c, s in zip(cell, steps, strict=True))) * bits % (8 * PIECE) == 0 for cell in corners)

"""Accesses of a tile by warps: which cells each thread wants at once, before any layout says where they lie.

An access is the same for every layout of its tile; with a layout it gives addresses, and these give wavefronts.

>>> from tileworkbench.layout.tile_layout import linear, padded, swizzled
>>> column = Access.of("a column", rows=np.arange(32), columns=np.zeros(32, int))
>>> column.wavefronts(linear(32, 32, bits=32)), column.wavefronts(padded(32, 32, bits=32, pad=1))
(Wavefronts(total=32, ideal=1), Wavefronts(total=1, ideal=1))

Threads that copy a tile take 16 bytes each, one piece after the other:

>>> copy = shared_copy("copy in", 64, 64, bits=16, threads=128)
>>> copy.requests, copy.cells, copy.wavefronts(linear(64, 64, bits=16))
(16, 8, Wavefronts(total=64, ideal=64))

A matrix instruction reads 8 x 8 pieces with ldmatrix: 8 rows of 16 bytes in each phase. Rows of 128 bytes collide, a swizzle spreads them:

>>> read = ldmatrix("A", 64, 64, bits=16)
>>> read.wavefronts(linear(64, 64, bits=16)).excess, read.wavefronts(swizzled(64, 64, bits=16)).excess
(448, 0)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base.span import Span
from .algebra import Array, Table
from .banks import WARP, Wavefronts, wavefronts
from .tile_layout import TileLayout, vector_of


class TornError(ValueError):
    """A layout on which an access cannot be done at all."""


@dataclass(frozen=True, slots=True)
class Access:
    """Requests of warps on one tile. `rows` and `columns` (requests, 32) name the first cell of each thread, -1 where it takes no part.

    Each thread wants `cells` neighbours in its row, or in its column if `down`. `times` is how often all of it happens in one block, `why` how
    threads share the work. `is_rigid`: the instruction takes nothing narrower, as ldmatrix with its rows of 16 bytes.
    """

    name: str
    rows: Table
    columns: Table
    cells: int = 1
    is_write: bool = False
    times: int = 1
    why: str = ""
    is_rigid: bool = False
    down: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(
        name: str,
        rows: ArrayLike,
        columns: ArrayLike,
        cells: int = 1,
        *,
        is_write: bool = False,
        times: int = 1,
        why: str = "",
        is_rigid: bool = False,
        down: bool = False,
    ) -> Access:
        """An access from arrays (requests, threads) or (threads,); fewer than 32 threads are filled up with idle ones.

        Raises: ValueError for more than 32 threads in a request, or rows and columns that differ in shape.
        """
        r, c = (np.atleast_2d(np.asarray(x, dtype=np.int64)) for x in (rows, columns))
        if r.shape != c.shape or r.shape[1] > WARP:
            raise ValueError(f"an access needs a row and a column for each of at most {WARP} threads, got {r.shape} and {c.shape}")
        fill = ((0, 0), (0, WARP - r.shape[1]))
        r, c = (np.pad(x, fill, constant_values=-1) for x in (r, c))
        return Access(name, Table.of(r), Table.of(c), cells, is_write, times, why, is_rigid, down)

    @property
    def requests(self) -> int:
        """How many warp-wide instructions this is, at full width."""
        return self.rows.rows

    def at(self, span: Span | None, times: int = 1) -> Access:
        """The same access, of this source line and so many times."""
        return replace(self, span=span, times=times)

    def first(self, request: int = 0) -> Access:
        """One request alone, once. Raises IndexError for one that is not there."""
        rows, columns = self.rows.array()[request], self.columns.array()[request]
        return replace(self, rows=Table.of(rows[None]), columns=Table.of(columns[None]), times=1)

    def addresses(self, layout: TileLayout) -> tuple[Array, int]:
        """Byte addresses (requests, 32) and the width of each in bytes.

        Where the layout tears neighbours apart, or an address is not a multiple of the width, the access falls into narrower ones, as a compiler
        would have to: then there are more requests.
        Raises: ValueError for a cell outside the tile, or a tile of 4-bit cells whose threads want single ones.
        """
        rows, columns = self.rows.array(), self.columns.array()
        idle = rows < 0
        more, wide = (self.cells - 1, 0) if self.down else (0, self.cells - 1)
        if rows.max() + more >= layout.rows or columns.max() + wide >= layout.columns:
            raise ValueError(f"access {self.name} goes outside the {layout.rows} x {layout.columns} cells of {layout.name}")
        if self.cells * layout.bits % 8:
            raise ValueError(f"access {self.name}: {self.cells} cells of {layout.bits} bits are not whole bytes")
        r, c = np.where(idle, 0, rows), np.where(idle, 0, columns)
        cell = np.stack([layout.addresses(r + i * self.down, c + i * (not self.down)) for i in range(self.cells)])  # (cells, requests, 32)
        step = self.cells
        while step > 1 and not _fits(cell, step, layout.bits, ~idle):
            step //= 2
            if self.is_rigid:
                raise TornError(
                    f"{layout.name} tears the {self.cells * layout.bits // 8}-byte pieces of access {self.name}, or leaves them unaligned"
                )
        starts = np.where(idle, -1, cell[::step]).reshape(-1, WARP)
        return starts, step * layout.bits // 8

    def wavefronts(self, layout: TileLayout) -> Wavefronts:
        """Wavefronts of all requests, once; `ideal` is that of the access at full width. Rule-based, see `banks`."""
        return wavefronts(*self.addresses(layout))


def _fits(cell: Array, step: int, bits: int, active: NDArray[np.bool_]) -> bool:
    """Whether pieces of `step` cells are contiguous, aligned and of a width that hardware has."""
    width = step * bits // 8
    if width not in (1, 2, 4, 8, 16) or len(cell) % step:
        return False
    groups = cell.reshape(-1, step, *cell.shape[1:])
    offsets = (np.arange(step) * bits // 8).reshape(1, step, 1, 1)
    together = (groups - groups[:, :1] == offsets).all(axis=(0, 1))
    return bool((together | ~active).all() and ((groups[:, 0] % width == 0).all(axis=0) | ~active).all())


# ---------------------------------------------------------------------------------------------- the usual ones
def shared_copy(
    name: str, rows: int, columns: int, *, bits: int, threads: int = 128, is_write: bool = True, origin: tuple[int, int] = (0, 0)
) -> Access:
    """All threads of a block copy a box, 16 bytes each (or what divides a row), consecutive threads consecutive pieces."""
    cells = vector_of(columns, bits)
    piece = np.arange(rows * columns // cells)
    per_row = columns // cells
    r, c = _warps(piece // per_row + origin[0], piece % per_row * cells + origin[1], threads)
    return Access.of(name, r, c, cells, is_write=is_write, why=f"{threads} threads take {cells * bits // 8} bytes each, row by row")


def elementwise(name: str, rows: ArrayLike, columns: ArrayLike, *, threads: int = 128, cells: int = 1, is_write: bool = False) -> Access:
    """Iterations of a parallel loop dealt to threads in order: iteration i touches (rows[i], columns[i]) and `cells - 1` neighbours."""
    r, c = _warps(np.asarray(rows).ravel(), np.asarray(columns).ravel(), threads)
    return Access.of(name, r, c, cells, is_write=is_write, why=f"iterations dealt to {threads} threads in order, {cells} at a time")


def _warps(rows: Array, columns: Array, threads: int) -> tuple[Array, Array]:
    """Items dealt to threads in turns, cut into warps: (requests, 32), idle threads -1."""
    turns = -(-len(rows) // threads)
    wide = -(-threads // WARP) * WARP
    out = []
    for values in (rows, columns):
        table = np.full((turns, wide), -1, dtype=np.int64)
        table[:, :threads].flat[: len(values)] = values
        table = table.reshape(-1, WARP)
        out.append(table)
    keep = (out[0] >= 0).any(axis=1)
    return out[0][keep], out[1][keep]


def ldmatrix(name: str, rows: int, columns: int, *, bits: int, transposed: bool = False) -> Access:
    """ldmatrix.x4 over a whole operand tile: lane i gives the row address of 16 bytes, eight lanes a phase.

    Lanes 0-15 name 16 rows, lanes 16-31 the same rows 16 bytes further; `transposed` (`.trans`) walks the same boxes, whose rows are then k.
    Source: PTX ISA, "Warp-level matrix load instruction: ldmatrix". Raises: ValueError unless the tile is whole boxes of 16 rows x 32 bytes.
    """
    cells = 128 // bits
    if rows % 16 or columns % (2 * cells):
        raise ValueError(f"ldmatrix reads boxes of 16 x {2 * cells}; a tile of {rows} x {columns} is not whole boxes")
    lane = np.arange(WARP)
    box_r, box_c = np.meshgrid(np.arange(0, rows, 16), np.arange(0, columns, 2 * cells), indexing="ij")
    r = box_r.reshape(-1, 1) + (lane & 15)
    c = box_c.reshape(-1, 1) + (lane >> 4) * cells
    kind = "ldmatrix.x4.trans" if transposed else "ldmatrix.x4"
    return Access.of(name, r, c, cells, why=f"{kind}: 8 rows of 16 bytes in each phase, every box once", is_rigid=True)


def lane_reads(name: str, rows: int, columns: int, *, along_rows: bool, cells: int = 1) -> Access:
    """Operand reads without ldmatrix, one fragment register at a time: lane 4 g + t takes k = t and m or n = g (m16n8k8 with 32-bit operands).

    `along_rows`: rows are m or n and columns are k; otherwise rows are k. Source: PTX ISA, fragments of mma.m16n8k8 (tf32).
    Raises: ValueError unless the tile is whole boxes of 8 x 4.
    """
    lane = np.arange(WARP)
    g, t = lane // 4, lane % 4 * cells
    high, wide = (8, 4 * cells) if along_rows else (4 * cells, 8)
    if rows % high or columns % wide:
        raise ValueError(f"this read takes boxes of {high} x {wide}; a tile of {rows} x {columns} is not whole boxes")
    box_r, box_c = np.meshgrid(np.arange(0, rows, high), np.arange(0, columns, wide), indexing="ij")
    down = np.arange(1 if along_rows else cells).reshape(1, -1, 1)  # neighbours in k that lie in different rows are read one by one
    r = box_r.reshape(-1, 1, 1) + (g if along_rows else t) + down
    c = box_c.reshape(-1, 1, 1) + (t if along_rows else g) + 0 * down
    why = "one register of a fragment: lane 4 g + t reads k = t, m or n = g"
    return Access.of(name, r.reshape(-1, WARP), c.reshape(-1, WARP), cells if along_rows else 1, why=why)

"""A tile that all blocks of a cluster need alike is loaded in as many parts as there are blocks: each loads one of them, into every block.

Before:  load a[slot, 0, 0] <- box (64, 64) of A
After:   load a[slot, rank * 32, 0] <- box (32, 64) of A from row .. + rank * 32, into all blocks

A part is some of the tile's boxes, or some rows of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..analysis.alike import Alike
from ..analysis.tensor_copies import TensorCopy
from ..ir.build import add, floormod, index, mul
from ..ir.expr import Expr, is_const
from ..ir.node import replace
from ..ir.stmt import Launch
from ..ir.tile_form import TensorView

_ROWS = 8  # after which a permutation of pieces repeats


@dataclass(frozen=True, slots=True)
class Part:
    """How one block loads its part: `view` for it, boxes of `rows` by `columns`; `places`: the first row and column of each."""

    view: TensorView
    places: tuple[tuple[Expr, Expr], ...]


def rank_of(launch: Launch) -> Expr | None:
    """The rank of a block in its cluster, where blocks of a cluster lie along one axis of the grid and there are several."""
    found = [(var, size) for var, size in zip(launch.block_vars, launch.cluster, strict=False) if size > 1]
    return floormod(found[0][0], index(found[0][1])) if len(found) == 1 else None


def whole_tile(copy: TensorCopy) -> Part:
    """All boxes of the tile."""
    rows, columns = _shape(copy)
    return _boxes(copy.view, range(0, rows, copy.rows), range(0, columns, copy.columns), (index(0), index(0)))


def part_of_tile(copy: TensorCopy, launch: Launch, alike: Alike) -> Part | None:
    """The part of a tile that a block loads for its cluster; None if the tile is its own."""
    rank, size = rank_of(launch), launch.cluster_size
    if rank is None or not all(alike.is_alike(start) for start in copy.copy.src.starts):
        return None
    rows, columns = _shape(copy)
    wide, high = columns // copy.columns, rows // copy.rows  # boxes
    if wide % size == 0:
        mine = columns // size
        return _boxes(copy.view, range(0, rows, copy.rows), range(0, mine, copy.columns), (index(0), mul(rank, index(mine))))
    if high % size == 0:
        mine = rows // size
        return _boxes(copy.view, range(0, mine, copy.rows), range(0, columns, copy.columns), (mul(rank, index(mine)), index(0)))
    if copy.rows % (_ROWS * size) == 0:
        mine = copy.rows // size
        down = next(d for d, e in enumerate(copy.copy.src.extents) if not is_const(e, 1))
        view = replace(copy.view, box=tuple(mine if d == down else n for d, n in enumerate(copy.view.box)))
        return _boxes(view, range(0, rows, copy.rows), range(0, columns, copy.columns), (mul(rank, index(mine)), index(0)))
    return None


def _boxes(view: TensorView, rows: Iterable[int], columns: Iterable[int], first: tuple[Expr, Expr]) -> Part:
    """Boxes that begin so many rows and columns behind `first`."""
    return Part(view, tuple((add(first[0], index(row)), add(first[1], index(column))) for row in rows for column in columns))


def _shape(copy: TensorCopy) -> tuple[int, int]:
    shape = copy.tile.static_shape()
    return (shape[0] if copy.tile.rank == 2 else 1), shape[-1]

"""Reductions and scans of a block, shared out to its threads.

A reduction: each thread reduces its own cells; threads of a warp that hold other cells of the same row exchange what they have by shuffles, other
threads through a tile. The order of a sum is that of the registers, then of the threads. A scan: rows go to threads, through a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import nan, prod
from typing import Protocol

import numpy as np

from ..analysis.fragments import Placement, with_one
from ..base.dtypes import BOOL, FLOAT32, INDEX, INT32, DType
from ..ir.build import TRUE, add, cast, every, index, mul
from ..ir.expr import Binary, Buffer, Const, Expr, Load, Select, Unary, Var, is_const
from ..ir.node import replace
from ..ir.stmt import Body, Collective, For, If, Reduce, Region, Scan, Stmt, Store, Sync, whole
from ..ir.tile_form import TileForm, TileOrder
from ..layout.algebra import Array
from ..layout.fragments import WARP, Digit, Fragment, flat, own_registers
from .held_tiles import coordinates, is_first, is_live, register_at
from .names import Names

_LONG = 16  # registers of a row
COMBINE = {
    "sum": "add", "abssum": "add", "max": "max", "absmax": "max", "min": "min", "bitand": "bitand", "bitor": "bitor", "bitxor": "bitxor",
    "any": "bitor", "all": "bitand",
}  # fmt: skip


class Spreading(Protocol):
    """What `spread_threads` knows and makes."""

    thread: Expr
    names: Names
    arrays: dict[Buffer, Buffer]
    place: Placement

    @property
    def forms(self) -> tuple[TileForm, ...]: ...
    @property
    def orders(self) -> tuple[TileOrder, ...]: ...
    def group(self) -> Var: ...
    def each(self, placed: Fragment, body: Callable[[Expr], Body | None], stmt: Stmt) -> Body: ...
    def value(self, buffer: Buffer, cell: tuple[Expr, ...], placed: Fragment, register: Expr) -> Expr | None: ...
    def array(self, hint: str, count: int, like: Buffer | DType) -> Buffer: ...
    def tile(self, hint: str, shape: tuple[int, ...], dtype: DType) -> Buffer: ...
    def is_inside(self, region: Region) -> bool: ...


# ---------------------------------------------------------------------------------------------- reductions
def spread_reduce(stmt: Reduce, s: Spreading) -> Body:
    """`stmt` for a thread."""
    src, dst, dim = stmt.src, stmt.dst, stmt.dim
    held = s.place.fragments.get(src.buffer)
    cells = held if held is not None else flat(src.static_extents(), s.place.threads)
    rows = cells.drop(dim)
    if stmt.share == "join":
        return _joined(stmt, s, cells, rows)
    work = BOOL if stmt.op in ("any", "all") else FLOAT32 if dst.buffer.type.is_float and dst.buffer.type.bits < 32 else dst.buffer.type
    table = own_registers(cells, rows, _without(cells, dim)) if rows.shape else np.zeros(cells.registers, np.int64)
    assert table is not None
    sides = 2 if _is_in_pairs(stmt, cells, rows, table) else 1
    sums = s.array(f"{dst.buffer.name}_part", sides * rows.registers, work)
    out: list[Stmt] = []
    for side in range(sides):
        out += s.each(rows, partial(_begun, stmt, sums, index(side * rows.registers)), stmt)

    def take(register: Expr) -> Body | None:
        cell = coordinates(cells, s.thread, register)
        value = s.value(src.buffer, moved(src, cell), cells, register)
        at = register_at(cells, table, register)
        if value is None or at is None:
            return None
        if sides == 2:
            at = add(at, mul(Binary("floormod", register, index(2)), index(rows.registers)))
        store = Store(sums, (at,), _combined(stmt, Load(sums, (at,)), _element(stmt, value, work)))
        test = is_live(cells, s.thread, cell)
        return (If(test, (store,)) if test != TRUE else store,)

    out += s.each(cells, take, stmt)
    if sides == 2:
        out += s.each(rows, lambda r: (Store(sums, (r,), _combined(stmt, Load(sums, (r,)), Load(sums, (add(r, index(rows.registers)),)))),), stmt)
    moving = _moving(cells, dim) if stmt.share != "own" else []
    by_shuffle = [d for d in moving if _is_in_warp(cells, d)]
    out += s.each(rows, lambda r: tuple(x for d in by_shuffle for x in _shuffled(stmt, s, sums, r, d)), stmt) if by_shuffle else ()
    is_same_in_warp = prod(d.mod for d in by_shuffle) == WARP
    for digit in moving:
        if digit not in by_shuffle:
            out += _through_tile(stmt, s, sums, rows, digit, is_same_in_warp)

    lower = dst.buffer.rank < src.buffer.rank

    def there(cell: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The cell of a row in the destination: dims of extent 1 may differ."""
        moving = iter(c for c, n in zip(cell, rows.shape, strict=True) if n != 1)
        return moved(dst, tuple(index(0) if is_const(e, 1) else next(moving) for e in dst.extents))

    own = s.place.fragments.get(dst.buffer)
    if src.buffer.root == dst.buffer.root:
        out.append(Sync())  # all of the source is read before any of the destination is written
    if own is None or own == (rows if lower else with_one(rows, dim)):
        return (*out, *s.each(rows, lambda r: _give(stmt, s, rows, r, there, Load(sums, (r,)), work), stmt))
    tile = s.tile(f"{dst.buffer.name}_rows", rows.shape, work)  # the rows of the source lie elsewhere than those of the destination

    def put(register: Expr) -> Body:
        cell = coordinates(rows, s.thread, register)
        return guarded(every([is_live(rows, s.thread, cell), is_first(rows, s.thread)]), Store(tile, cell, Load(sums, (register,))))

    kept = own if lower else own.drop(dim)

    def get(register: Expr) -> Body:
        cell = coordinates(kept, s.thread, register)
        return _give(stmt, s, kept, register, there, Load(tile, cell), work)

    return (*out, Sync(), *s.each(rows, put, stmt), Sync(), *s.each(kept, get, stmt))


def _give(
    stmt: Reduce, s: Spreading, rows: Fragment, register: Expr, there: Callable[[tuple[Expr, ...]], tuple[Expr, ...]], value: Expr, work: DType
) -> Body:
    """Store one result."""
    buffer = stmt.dst.buffer
    cell = coordinates(rows, s.thread, register)
    into, where = (s.arrays[buffer], (register,)) if buffer in s.arrays else (buffer, there(cell))
    if not stmt.clear:
        value = _combined(stmt, _element(stmt, Load(into, where), work, again=True), value)
    first = TRUE if buffer in s.arrays else is_first(rows, s.thread)
    return guarded(every([is_live(rows, s.thread, cell), first]), Store(into, where, cast(value, buffer.type)))


def _begun(stmt: Reduce, sums: Buffer, first: Expr, register: Expr) -> Body:
    return (Store(sums, (add(register, first),), _identity(stmt, sums.type)),)


def _is_in_pairs(stmt: Reduce, cells: Fragment, rows: Fragment, table: Array) -> bool:
    """Whether even and odd registers of long rows are reduced apart, which halves the time until a maximum is known; a sum keeps its order."""
    if stmt.op not in ("max", "min") or stmt.nan_propagate or cells.registers < _LONG * rows.registers or cells.registers % 2:
        return False
    return bool(np.all(table >= 0) and np.array_equal(table[0::2], table[1::2]))


def _joined(stmt: Reduce, s: Spreading, cells: Fragment, rows: Fragment) -> Body:
    """Threads that have parts of a row in their registers add them up, and all of them get the sum."""
    sums = s.arrays[stmt.dst.buffer]
    assert s.place.fragments[stmt.dst.buffer] == rows and is_shuffled(cells, stmt.dim)
    return s.each(rows, lambda r: tuple(x for d in _moving(cells, stmt.dim) for x in _shuffled(stmt, s, sums, r, d)), stmt)


def is_shuffled(cells: Fragment, dim: int) -> bool:
    """Whether threads that hold cells of one row are lanes of one warp, and all of them do."""
    whole = all(_is_power(d.mod) for d in cells.digits if d.source == "thread" and d.dim == dim)
    return whole and cells.threads % WARP == 0 and all(_is_in_warp(cells, d) for d in _moving(cells, dim))


def _moving(cells: Fragment, dim: int) -> list[Digit]:
    """What tells threads apart that hold cells of one row."""
    return [part for d in cells.digits if d.source == "thread" and d.dim == dim and d.mod > 1 for part in _parts(cells, d)]


def _parts(cells: Fragment, d: Digit) -> list[Digit]:
    """The digit as one within a warp and one of warps, where it is bits of the number; else as it is.

    The highest digit may be taken as more threads than it has, up to a power of two: the others have nothing, which takes part without a trace.
    """
    above = [x for x in cells.digits if x.source == "thread" and x.div > d.div]
    mod = d.mod if _is_power(d.mod) or above else 1 << (d.mod - 1).bit_length()
    if cells.threads % WARP or not _is_power(d.div) or not _is_power(mod) or d.div * mod > cells.threads:
        return [d]
    inner = min(mod, max(1, WARP // d.div))
    parts = (Digit(d.source, d.div, inner, d.dim, d.stride), Digit(d.source, d.div * inner, mod // inner, d.dim, d.stride * inner))
    return [part for part in parts if part.mod > 1]


def _is_in_warp(cells: Fragment, d: Digit) -> bool:
    """Whether the digit is bits of a lane's number."""
    return cells.threads % WARP == 0 and _is_power(d.div) and _is_power(d.mod) and d.div * d.mod <= WARP


def _is_power(number: int) -> bool:
    return number & (number - 1) == 0


def _without(cells: Fragment, dim: int) -> Array:
    table = cells.cells()
    return np.stack([table[d] for d in range(len(cells.shape)) if d != dim])


def moved(region: Region, cell: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The cell of a region in its buffer; dims before those of `cell` are where the region starts."""
    lead = len(region.starts) - len(cell)
    return (*region.starts[:lead], *(add(cast(start, INDEX), c) for start, c in zip(region.starts[lead:], cell, strict=True)))


def _identity(stmt: Reduce, work: DType) -> Expr:
    if stmt.op in ("max", "min", "absmax"):
        if work.is_float:  # max and min ignore a NaN, so the first number replaces it and a row of only NaN stays one
            return Const(nan if not stmt.nan_propagate else float("-inf" if stmt.op != "min" else "inf"), work)
        return Const(int(work.min if stmt.op != "min" else work.max), work)
    if stmt.op == "all":
        return Const(True, BOOL)
    if stmt.op == "bitand":
        return Const(-1 if work.kind == "i" else int(work.max), work)
    return Const(False, BOOL) if work == BOOL else Const(0.0 if work.is_float else 0, work)


def _element(stmt: Reduce, value: Expr, work: DType, again: bool = False) -> Expr:
    """A value as it takes part; the old result takes part as it is."""
    value = cast(value, work)
    return Unary("abs", value) if stmt.op in ("abssum", "absmax") and not again else value


def _combined(stmt: Reduce, a: Expr, b: Expr) -> Expr:
    both = Binary(COMBINE[stmt.op], a, b)
    if not stmt.nan_propagate or not a.dtype.is_float or stmt.op not in ("max", "min", "absmax"):
        return both
    return Select(Unary("isnan", a), a, Select(Unary("isnan", b), b, both))


def _shuffled(stmt: Reduce, s: Spreading, sums: Buffer, register: Expr, digit: Digit) -> Body:
    """All threads that differ in `digit` get the result of all of them."""
    out: list[Stmt] = []
    step = digit.mod // 2
    while step:
        other = s.names.var("other", sums.type)
        out.append(Collective("shfl_xor", other, (Load(sums, (register,)), Const(step * digit.div, INT32))))
        out.append(Store(sums, (register,), _combined(stmt, Load(sums, (register,)), other)))
        step //= 2
    return tuple(out)


def _through_tile(stmt: Reduce, s: Spreading, sums: Buffer, rows: Fragment, digit: Digit, is_same_in_warp: bool) -> Body:
    """The same through a tile: each thread reads what the others have, in the order of the digit.

    Where all lanes of a warp have the same, each of them reads what one of the warps has, and they exchange that.
    """
    tile = s.tile(f"{sums.name}_all", (rows.registers, s.place.threads), sums.type)
    turn = s.names.var("turn")
    mine = Binary("floormod", Binary("floordiv", s.thread, index(digit.div)), index(digit.mod))
    first = Binary("sub", s.thread, mul(mine, index(digit.div)))
    there = Load(tile, (index(0), add(first, mul(turn, index(digit.div)))))

    def put(register: Expr) -> Body:
        return (Store(tile, (register, s.thread), Load(sums, (register,))),)

    lanes = Digit("thread", 1, digit.mod)
    if is_same_in_warp and digit.div >= WARP and _is_in_warp(rows, lanes):
        warp = add(first, mul(Binary("floormod", s.thread, index(digit.mod)), index(digit.div)))

        def get(register: Expr) -> Body:
            return (Store(sums, (register,), Load(tile, (register, warp))), *_shuffled(stmt, s, sums, register, lanes))

    else:

        def get(register: Expr) -> Body:
            value = replace(there, indices=(register, there.indices[1]))
            start = Store(sums, (register,), replace(there, indices=(register, first)))
            add_up = Store(sums, (register,), _combined(stmt, Load(sums, (register,)), value))
            return (start, For(turn, index(1), index(digit.mod), (add_up,)))

    one = Fragment((rows.registers,), s.place.threads, rows.registers, (Digit("register", 1, rows.registers, 0, 1),))
    return (*s.each(one, put, stmt), Sync(), *s.each(one, get, stmt), Sync())


# ---------------------------------------------------------------------------------------------- scans
def spread_scan(stmt: Scan, s: Spreading) -> Body:
    """Rows go to threads. A source that the destination overlaps is copied first; where they are one, a row is read as it is written."""
    src, dst, dim = stmt.src, stmt.dst, stmt.dim
    extents = src.static_extents()
    if src.buffer.root == dst.buffer.root and src != dst:
        tile = s.tile(f"{src.buffer.name}_read", extents, src.buffer.type)
        cells = flat(extents, s.place.threads)

        def take(register: Expr) -> Body:
            cell = coordinates(cells, s.thread, register)
            test = every([is_live(cells, s.thread, cell), is_first(cells, s.thread)])
            return guarded(test, Store(tile, cell, Load(src.buffer, moved(src, cell))))

        return (*s.each(cells, take, stmt), Sync(), *spread_scan(replace(stmt, src=whole(tile)), s))
    lines = flat(tuple(n for d, n in enumerate(extents) if d != dim) or (1,), s.place.threads)
    work = FLOAT32 if dst.buffer.type.is_float and dst.buffer.type.bits < 32 else dst.buffer.type
    so_far = s.array("so_far", 1, work)
    step = s.names.var("step")
    as_reduce = Reduce(stmt.op, src, dst, dim)

    def line(register: Expr) -> Body:
        cell = coordinates(lines, s.thread, register)
        along = Binary("sub", index(extents[dim] - 1), step) if stmt.reverse else step
        at = (*cell[:dim], along, *cell[dim:]) if len(extents) > 1 else (along,)
        value = _combined(as_reduce, Load(so_far, (index(0),)), cast(Load(src.buffer, moved(src, at)), work))
        walk = (Store(so_far, (index(0),), value), Store(dst.buffer, moved(dst, at), cast(Load(so_far, (index(0),)), dst.buffer.type)))
        body: Body = (Store(so_far, (index(0),), _identity(as_reduce, work)), For(step, index(0), index(extents[dim]), walk))
        test = every([is_live(lines, s.thread, cell), is_first(lines, s.thread)])
        return (If(test, body),) if test != TRUE else body

    return s.each(lines, line, stmt)


def guarded(test: Expr, stmt: Stmt) -> Body:
    return (If(test, (stmt,)) if test != TRUE else stmt,)

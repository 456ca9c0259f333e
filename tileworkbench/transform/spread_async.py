"""A copy that is only started, shared out to the threads of a block: each starts some of its pieces.

Before:  copy x[0] <- X[by * 16 :+ 16, 0 :+ 32], 16 bytes at a time          (float16, 64 threads)
After:   twb_cp_async<16>(&x[0, tx // 4, tx % 4 * 8], &X[by * 16 + tx // 4, tx % 4 * 8], by * 16 + tx // 4 < M)

Neighbouring threads take neighbouring pieces of a row. A piece that is outside is filled with zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from ..analysis.fragments import Placement
from ..base.dtypes import INDEX
from ..ir.build import TRUE, add, cast, every, index, mul
from ..ir.device import DeviceCall
from ..ir.explicit import Push
from ..ir.expr import AddressOf, Binary, Expr, Load, is_const
from ..ir.stmt import Body, Copy, If, Region, Stmt
from ..layout.fragments import Fragment, flat
from .held_tiles import coordinates, is_first, is_live


class Sharing(Protocol):
    """What `spread_threads` knows."""

    thread: Expr
    place: Placement

    def each(self, placed: Fragment, body: Callable[[Expr], Body | None], stmt: Stmt) -> Body: ...


def spread_async(stmt: Copy, s: Sharing) -> Body:
    """`stmt` for a thread."""
    many = stmt.async_bytes * 8 // stmt.src.buffer.type.bits
    shape = [n for n in stmt.dst.static_extents() if n != 1]
    pieces = flat((*shape[:-1], shape[-1] // many), s.place.threads)

    def start(register: Expr) -> Body:
        cell = coordinates(pieces, s.thread, register)
        moves = (*cell[:-1], mul(cell[-1], index(many)))
        to, where = tuple(_at(stmt.dst, moves)), tuple(_at(stmt.src, moves))
        call = DeviceCall(
            "twb_cp_async",
            (AddressOf(stmt.dst.buffer, to), AddressOf(stmt.src.buffer, where), _is_inside(stmt.src, where)),
            (stmt.async_bytes,),
            span=stmt.span,
        )
        test = every([is_live(pieces, s.thread, cell), is_first(pieces, s.thread)])
        return (If(test, (call,), span=stmt.span) if test != TRUE else call,)

    return s.each(pieces, start, stmt)


def spread_push(stmt: Push, s: Sharing) -> Body:
    """A tile that the threads write into another block's memory, each some cells."""
    shape = [n for n in stmt.dst.static_extents() if n != 1] or [1]
    cells = flat(tuple(shape), s.place.threads)

    def write(register: Expr) -> Body:
        cell = coordinates(cells, s.thread, register)
        value = Load(stmt.src.buffer, tuple(_at(stmt.src, cell)))
        call = DeviceCall("twb_cluster_write", (AddressOf(stmt.dst.buffer, tuple(_at(stmt.dst, cell))), stmt.block, value), span=stmt.span)
        test = every([is_live(cells, s.thread, cell), is_first(cells, s.thread)])
        return (If(test, (call,), span=stmt.span) if test != TRUE else call,)

    return s.each(cells, write, stmt)


def _at(region: Region, moves: tuple[Expr, ...]) -> Iterator[Expr]:
    """The element of the region that is `moves` from its first one."""
    left = iter(moves)
    for start, extent in zip(region.starts, region.extents, strict=True):
        yield cast(start, INDEX) if is_const(extent, 1) else add(cast(start, INDEX), next(left))


def _is_inside(region: Region, where: tuple[Expr, ...]) -> Expr:
    """Whether the element is inside its buffer; flatten_accesses knows which of the tests are needed."""
    tests: list[Expr] = []
    for at, dim in zip(where, region.buffer.shape, strict=True):
        tests += [Binary("ge", at, index(0)), Binary("lt", at, dim)]
    return every(tests)

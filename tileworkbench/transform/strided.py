"""A parallel loop over a box whose size is not known beforehand: thread t runs iteration t, and every so manieth after it.

Before:  for i, j in parallel(n, 8): ..
After:   for turn in 0..ceildiv(n * 8, threads): let at = turn * threads + t; if at < n * 8: let i = at // 8; let j = at % 8; ..
"""

from __future__ import annotations

from ..base.dtypes import INDEX
from ..ir.build import add, cast, index, mul
from ..ir.expr import Binary, Expr
from ..ir.stmt import Body, For, If, Let, ParallelFor, Stmt
from .names import Names


def strided(loop: ParallelFor, thread: Expr, threads: int, names: Names) -> Body:
    """`loop` for a thread of a block of `threads`."""
    count: Expr = index(1)
    for extent in loop.extents:
        count = mul(count, cast(extent, INDEX))
    turn, at = names.var("turn"), names.var("at")
    lets: list[Stmt] = [Let(at, add(mul(turn, index(threads)), thread))]
    rest: Expr = at
    for var, extent in reversed(list(zip(loop.vars[1:], loop.extents[1:], strict=True))):
        lets.append(Let(var, Binary("floormod", rest, cast(extent, INDEX))))
        rest = Binary("floordiv", rest, cast(extent, INDEX))
    lets.append(Let(loop.vars[0], rest))
    turns = Binary("floordiv", add(count, index(threads - 1)), index(threads))
    inside = If(Binary("lt", at, count), (*lets[1:], *loop.body), span=loop.span)
    return (For(turn, index(0), turns, (lets[0], inside), span=loop.span),)

"""Copies and fills of tiles as parallel loops over their elements.

Before:  copy x <- X[by * 16 :+ 16, 0 :+ 8];  fill acc <- 0
After:   for i, j in parallel(16, 8): x[i, j] = X[by * 16 + i, j];  for i, j in parallel(64, 64): acc[i, j] = 0

A copy inside one buffer goes through a tile of its own, since all of the source is read first.

Requires: tile operations.  Preserves: everything else, and copies that are only started.
"""

from __future__ import annotations

from ..base.dtypes import INDEX
from ..ir.build import add, cast
from ..ir.expr import Buffer, Expr, Load, Var, is_const
from ..ir.node import Node, replace, rewrite
from ..ir.stmt import Body, Copy, Fill, Kernel, Launch, ParallelFor, Region, Stmt, Store, whole
from .names import Names


def copies_as_loops(kernel: Kernel) -> Kernel:
    """Return `kernel` with copies and fills as parallel loops."""
    names = Names(kernel)
    made: list[Buffer] = []

    def change(node: Node) -> Node | tuple[Node, ...]:
        match node:
            case Copy(async_bytes=pieces) if pieces:
                return node  # spread_threads shares out its pieces
            case Copy(src, dst) if src.buffer.root == dst.buffer.root:
                tile = names.tile(src.buffer.name, tuple(e for e in src.extents if not is_const(e, 1)) or (src.extents[0],), src.buffer.type)
                made.append(tile)
                between = whole(tile)
                return (*copy_as_loop(Copy(src, between, span=node.span), names), *copy_as_loop(Copy(between, dst, span=node.span), names))
            case Copy():
                return copy_as_loop(node, names)
            case Fill(dst, value):
                loop_vars, at = _walk(dst, names)
                return _loop(loop_vars, dst, Store(dst.buffer, at, value, span=node.span), node)
            case Launch():
                out = replace(node, allocs=(*node.allocs, *made)) if made else node
                made.clear()
                return out
            case _:
                return node

    return rewrite(kernel, change)


def copy_as_loop(stmt: Copy, names: Names) -> Body:
    """A copy between two buffers as a loop."""
    loop_vars, at = _walk(stmt.dst, names)
    theirs = iter(loop_vars)
    source = tuple(s if is_const(e, 1) else add(cast(s, INDEX), next(theirs)) for s, e in zip(stmt.src.starts, stmt.src.extents, strict=True))
    value = cast(Load(stmt.src.buffer, source, span=stmt.span), stmt.dst.buffer.type)
    return _loop(loop_vars, stmt.dst, Store(stmt.dst.buffer, at, value, span=stmt.span), stmt)


def _walk(region: Region, names: Names) -> tuple[tuple[Var, ...], tuple[Expr, ...]]:
    """Loop variables over the dims of a region, and the element they name."""
    loop_vars: list[Var] = []
    at: list[Expr] = []
    for start, extent in zip(region.starts, region.extents, strict=True):
        if is_const(extent, 1):
            at.append(start)
            continue
        loop_vars.append(names.var("ijklmn"[min(len(loop_vars), 5)]))
        at.append(add(cast(start, INDEX), loop_vars[-1]))
    return tuple(loop_vars), tuple(at)


def _loop(loop_vars: tuple[Var, ...], region: Region, store: Store, stmt: Stmt) -> Body:
    if not loop_vars:
        return (store,)
    extents = tuple(cast(e, INDEX) for e in region.extents if not is_const(e, 1))
    return (ParallelFor(loop_vars, extents, (store,), span=stmt.span),)

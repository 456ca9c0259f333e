"""Atomic operations become calls on one element, or plain reads and writes where only one core can see the element.

Before:  let old = atomic 'add' C[i :+ 1] <- v;  atomic 'add' C[tile] <- fragment
After:   let old = inside ? atomic_add(&C[i], v) : 0;  a parallel loop of single additions

Requires: unflattened accesses.  Preserves: everything else.
"""

from __future__ import annotations

from ..analysis.tensor_stores import is_tile_reduction
from ..base.dtypes import INDEX
from ..base.errors import UnsupportedError
from ..ir.build import add, cast
from ..ir.explicit import is_explicit
from ..ir.expr import Buffer, Const, Expr, Load, Var
from ..ir.node import Node, rewrite, walk
from ..ir.stmt import Atomic, Kernel, ParallelFor, Region, Stmt
from .names import Names


def expand_atomics(kernel: Kernel, keeps: bool = False) -> Kernel:
    """Return `kernel` with every tile-wide atomic as a parallel loop of single ones; `keeps`: but those that send_tiles may do."""
    names: list[Names] = []
    kept = _for_engine(kernel) if keeps else set()

    def change(node: Node) -> Node | tuple[Node, ...]:
        if id(node) in kept:
            return node
        if isinstance(node, Atomic) and (isinstance(node.value, Region) or not _is_single(node.dst)):
            if not names:
                names.append(Names(kernel))
            return atomic_as_loop(node, names[0])
        return node

    return rewrite(kernel, change)


def _for_engine(kernel: Kernel) -> set[int]:
    """By identity, the atomics that the tensor copy engine may do."""
    launches = [launch for launch in kernel.launches if not launch.threads_used and not is_explicit(launch)]
    return {id(n) for launch in launches for n in walk(launch) if isinstance(n, Atomic) and is_tile_reduction(n)}


def _is_single(region: Region) -> bool:
    return all(isinstance(e, Const) and int(e.value) == 1 for e in region.extents)


def atomic_as_loop(stmt: Atomic, names: Names) -> Stmt:
    """An atomic on a tile as a loop of single ones."""
    if stmt.result is not None:
        raise UnsupportedError("an atomic on a tile cannot return the old values", span=stmt.span, hint="write a T.Parallel loop of single atomics")
    moving = [d for d, e in enumerate(stmt.dst.extents) if not (isinstance(e, Const) and int(e.value) == 1)]
    loop_vars = tuple(names.var(h) for h, _ in zip("ijklmn", moving, strict=False))
    one = tuple(Const(1) for _ in stmt.dst.extents)
    starts = _shifted(stmt.dst, moving, loop_vars)
    value: Expr | None = None
    if isinstance(stmt.value, Region):
        theirs = [d for d, e in enumerate(stmt.value.extents) if not (isinstance(e, Const) and int(e.value) == 1)]
        value = cast(Load(stmt.value.buffer, _shifted(stmt.value, theirs, loop_vars)), stmt.dst.buffer.type)
    elif stmt.value is not None:
        value = stmt.value
    single = Atomic(stmt.op, Region(stmt.dst.buffer, starts, one), value, memory_order=stmt.memory_order, span=stmt.span)
    if not loop_vars:
        return single
    return ParallelFor(loop_vars, tuple(cast(stmt.dst.extents[d], INDEX) for d in moving), (single,), span=stmt.span)


def _shifted(region: Region, moving: list[int], loop_vars: tuple[Var, ...]) -> tuple[Expr, ...]:
    by = dict(zip(moving, loop_vars, strict=True))
    return tuple(add(cast(start, INDEX), by[d]) if d in by else start for d, start in enumerate(region.starts))


def is_private(buffer: Buffer) -> bool:
    """True if only one core can see the buffer, so that a plain read and write is atomic."""
    return buffer.root.is_on_chip

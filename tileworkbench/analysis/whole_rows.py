"""Accumulators whose rows should each lie in one warp: those that are reduced along their rows, those that become the left operand of another
product, whose rows meet values of such rows, and sums of a product whose left operand is in registers.

Then a reduction is a few shuffles within a warp, and weights that were scores a moment ago stay in the registers where they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.expr import Buffer, Load
from ..ir.node import walk
from ..ir.stmt import Copy, Gemm, ParallelFor, Reduce, Stmt, Store


def whole_rows(stmts: Iterable[Stmt]) -> frozenset[Buffer]:
    """The fragments of two dims among the operands of `stmts` (tile operations and parallel loops of a launch) that are better not cut along n."""
    together: list[set[Buffer]] = []  # fragments that one statement relates cell by cell or row by row
    found: set[Buffer] = set()
    for stmt in stmts:
        match stmt:
            case ParallelFor():
                together.append({n.buffer for n in walk(stmt) if isinstance(n, (Load, Store)) and n.buffer.scope == "fragment"})
            case Copy(src, dst):
                together.append({r.buffer for r in (src, dst) if r.buffer.scope == "fragment"})
            case Reduce(_, src, dst, dim) if src.buffer.scope == "fragment" and dim == src.buffer.rank - 1:
                found |= {src.buffer, dst.buffer}
            case Gemm(a, _, c) if a.buffer.scope == "fragment":
                found |= {a.buffer, c.buffer}
            case _:
                pass
    changed = bool(found)
    while changed:
        changed = False
        for group in together:
            if group & found and not group <= found:
                found |= group
                changed = True
    return frozenset(found)

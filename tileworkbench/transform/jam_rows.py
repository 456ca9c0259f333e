"""Sums of several rows are taken at once: one vector loop reads them side by side.

Before:  for i in 0..16: var sum = 0; for j in 0..512 simd, sum of sum: sum = sum + W[i * 512 + j] * X[j]
                         y[i] = y[i] + sum
After:   for i in 0..16 step 8: var sum = 0, sum_1 = 0 ...
           for j in 0..512 simd, sums: sum = sum + W[i * 512 + j] * X[j]; sum_1 = sum_1 + W[(i + 1) * 512 + j] * X[j]; ...
           y[i] = y[i] + sum; y[i + 1] = y[i + 1] + sum_1; ...

One stream of reads does not keep memory busy, several do; what the rows share is read once, and additions need not wait for each other.
Rows whose lines are asked for ahead (`dot_rows`: bfloat16) are rows / 8 apart instead of neighbours: then what is asked for past the end of a row is
what its stream reads next. 11008 x 4096 while others used memory: 0.95 of the rate of a loop that only reads, and 0.89 with neighbours.

Requires: sums are taken on the way (`join_sums`).  Preserves: each row's own order of additions.
"""

from __future__ import annotations

from ..analysis.aliasing import Aliasing
from ..analysis.rows import stay_in_rows, touched
from ..ir.build import add, index
from ..ir.expr import Buffer, Const, Expr, Var, is_const
from ..ir.lowered import Declare, Element, Loop, SetElement
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Body, Kernel, Let, Stmt
from .dot_rows import BFLOAT16, DOTS
from .names import Names
from .scoped import Result, Scoped

_MOST = 16  # sums at once: half of the vector registers hold them, the rest what is read
# of elements under four bytes, whose cache line serves several steps: rows that lie whole pages apart share a set of L1, and it has to hold them all.
# bfloat16, 4096 x 4096 on a Xeon with 12 ways: 8 rows read 24.4 GB/s, 16 rows 22.4; float32 is 2 % faster with 16 (2026-12-01, bench cpu gemv)
_MOST_NARROW = 8


def jam_rows(kernel: Kernel) -> Kernel:
    """Return `kernel` with such rows side by side."""
    if not any(isinstance(n, Loop) and not n.simd and _parts(n.body) is not None for n in walk(kernel)):
        return kernel
    return _Jam(kernel).kernel(kernel)


class _Jam(Scoped):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.names = Names(kernel)
        self.aliasing = Aliasing(kernel)

    def on_stmt(self, stmt: Stmt) -> Result:
        if not isinstance(stmt, Loop) or stmt.simd or stmt.step != 1 or stmt.label or not is_const(stmt.start, 0) or not isinstance(stmt.stop, Const):
            return stmt
        rows = int(stmt.stop.value)
        parts = _parts(stmt.body)
        most = _MOST if parts is None or _is_wide(parts[1]) else _MOST_NARROW
        many = next((m for m in range(min(most, rows), 1, -1) if rows % m == 0), 1)
        if many == 1 or parts is None or not self.is_apart(stmt, parts):
            return stmt
        first, inner, last = parts
        is_asked_for = many in DOTS and _is_narrow_enough(inner)
        if is_asked_for and len(inner.reductions) >= min(DOTS):
            return stmt  # they are side by side already
        apart = rows // many if is_asked_for else 1
        copies = [self.row(parts, stmt.var, row * apart) for row in range(many)]
        loop = replace(
            inner,
            body=tuple(s for c in copies for s in c[1].body),
            reductions=tuple(r for c in copies for r in c[1].reductions),
        )
        body = (*(s for c in copies for s in c[0]), loop, *(s for c in copies for s in c[2]))
        return replace(stmt, body=body, step=many) if apart == 1 else replace(stmt, body=body, stop=Const(apart, stmt.stop.type))

    def is_apart(self, loop: Loop, parts: tuple[Body, Loop, Body]) -> bool:
        """Whether what a row writes at its end is nothing that another row reads or writes."""
        whole = touched(loop, self.bounds)
        return whole is not None and stay_in_rows(whole, loop.var, whole, loop.var, self.aliasing, self.bounds)

    def row(self, parts: tuple[Body, Loop, Body], var: Var, row: int) -> tuple[Body, Loop, Body]:
        """The parts of row `var + row`, with scalars and bindings of its own."""
        if row == 0:
            return parts
        first, inner, last = parts
        own: dict[Buffer, Buffer] = {}
        put: dict[str, Expr] = {var.name: add(var, index(row))}
        for n in (n for s in (*first, inner, *last) for n in walk(s)):
            if isinstance(n, Declare):
                own[n.buffer] = replace(n.buffer, name=self.names.fresh(n.buffer.name))
            elif isinstance(n, Let):
                put[n.var.name] = self.names.var(n.var.hint or n.var.name, n.var.type)

        def change(node: Node) -> Node:
            match node:
                case Var(name):
                    return put.get(name, node)
                case Element(buffer) | SetElement(buffer) | Declare(buffer) if buffer in own:
                    return replace(node, buffer=own[buffer])
                case _:
                    return node

        body = tuple(rewrite(s, change) for s in inner.body)
        loop = replace(inner, body=body, reductions=tuple((op, own.get(b, b)) for op, b in inner.reductions))
        return tuple(rewrite(s, change) for s in first), loop, tuple(rewrite(s, change) for s in last)


def _parts(body: Body) -> tuple[Body, Loop, Body] | None:
    """Declarations, the one vector loop that only sums up, and stores: a row whose sums are all that it does."""
    loops = [n for n, s in enumerate(body) if isinstance(s, Loop)]
    if len(loops) != 1:
        return None
    first, inner, last = body[: loops[0]], body[loops[0]], body[loops[0] + 1 :]
    assert isinstance(inner, Loop)
    sums = {b for _, b in inner.reductions}
    if not inner.simd or not sums or not all(isinstance(s, (Declare, Let)) for s in first) or not all(isinstance(s, SetElement) for s in last):
        return None
    if any(isinstance(s, Declare) and s.buffer.scope != "var" for s in first):
        return None
    fits = all(isinstance(s, Let) or isinstance(s, SetElement) and s.buffer in sums for s in inner.body)
    return (first, inner, last) if fits and isinstance(inner.stop, Const) else None


def _is_wide(loop: Loop) -> bool:
    """Whether all that the loop reads has elements of four bytes and more."""
    return all(n.buffer.dtype.bits >= 32 for n in walk(loop) if isinstance(n, Element))


def _is_narrow_enough(loop: Loop) -> bool:
    """Whether `dot_rows` may make a call of the loop: the narrow elements that it reads are bfloat16."""
    narrow = {n.buffer.dtype for n in walk(loop) if isinstance(n, Element) and n.buffer.dtype.bits < 32}
    return narrow == {BFLOAT16}

"""A long stretch of memory that a loop reads a few lines at a time is asked for ahead.

Before:  for g in 0..32: for j in 0..16 simd: sums[j] = sums[j] + S[g] * W[row * 512 + (g * 16 + j)]
After:   for g in 0..32:
           ask_ahead(&W[row * 512 + g * 16 + 256], 64)
           for j in 0..16 simd: sums[j] = sums[j] + S[g] * W[row * 512 + (g * 16 + j)]

Each line takes some arithmetic, so the loop runs too slowly to have enough lines under way. Behind the end of the stretch usually comes what is read
next; asking for it does no harm.

Requires: vector loops are made.  Preserves: what is computed and stored.
"""

from __future__ import annotations

from ..analysis.linear import has_load, to_expr, variables
from ..base.dtypes import INT32
from ..ir.build import index
from ..ir.expr import Const, is_const
from ..ir.lowered import Address, Declare, Element, LibraryCall, Loop
from ..ir.node import replace, walk
from ..ir.stmt import Evaluate, Kernel, Let, Stmt
from .scoped import Result, Scoped

_LINE, _MOST = 64, 256  # bytes of a turn of the loop: less than a line would be asked for twice, and many at once have to wait
_AHEAD = 1024  # bytes from what is read to what is asked for


def fetch_pieces(kernel: Kernel) -> Kernel:
    """Return `kernel` with such stretches asked for; `kernel` itself if there are none."""
    return _Fetch().kernel(kernel)


class _Fetch(Scoped):
    def on_stmt(self, stmt: Stmt) -> Result:
        if (
            not isinstance(stmt, Loop)
            or not stmt.body
            or stmt.simd
            or stmt.label
            or not (isinstance(stmt.start, Const) and isinstance(stmt.stop, Const))
        ):
            return stmt
        *before, last = stmt.body
        if not isinstance(last, Loop) or not last.simd or not all(isinstance(s, (Let, Declare)) for s in before):
            return stmt
        asks = self.asks(stmt, last)
        return replace(stmt, body=(*before, *asks, last)) if asks else stmt

    def asks(self, loop: Loop, inner: Loop) -> list[Stmt]:
        """A statement for each global array that the turns of `loop` walk from one end to the other."""
        if not is_const(inner.start, 0) or not isinstance(inner.stop, Const) or not isinstance(loop.stop, Const) or not isinstance(loop.start, Const):
            return []
        count, turns = int(inner.stop.value), (int(loop.stop.value) - int(loop.start.value)) // loop.step
        own = {n.var for n in walk(inner) if isinstance(n, (Let, Loop))}
        found: dict[object, Stmt] = {}
        for read in (n for n in walk(inner) if isinstance(n, Element) and n.buffer.scope == "global"):
            form, bits = self.bounds.sum(read.offset), read.buffer.type.bits
            size = count * bits // 8
            walks = form.coefficient(inner.var) == 1 and form.coefficient(loop.var) * loop.step == count
            is_known = not any(has_load(a) or own.intersection(variables(a)) for a in form.without(inner.var).terms)
            if walks and is_known and _LINE <= size <= _MOST and turns * size >= 2 * _AHEAD:
                place = form.without(inner.var).shift(_AHEAD * 8 // bits)
                call = LibraryCall("twb_ask_ahead", (Address(read.buffer, to_expr(place)), index(size)), INT32)
                found.setdefault((read.buffer, place.key()), Evaluate(call, span=inner.span))
        return list(found.values())

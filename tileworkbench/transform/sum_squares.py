"""A vector loop that only sums up squares is a call, which keeps several sums on the way.

Before:  var sum = 0; for j in 0..64 simd, sum of sum: let d = x[i * 64 + j] - mean; sum = sum + d * d
After:   var sum = 0; sum = sum + squares(&x[i * 64], 64, mean)

The compiler's vector loop has one sum: each addition waits for the one before, four times as long as the elements take from the first cache.

Requires: sums are taken on the way (`join_sums`), rows that are summed side by side are together (`jam_rows`).
Preserves: everything else; sums are taken in another order.
"""

from __future__ import annotations

from ..analysis.linear import has_load, to_expr
from ..base.dtypes import FLOAT32
from ..ir.build import ZERO, index
from ..ir.expr import Binary, Const, Expr, Var, const, is_const
from ..ir.lowered import Address, Element, LibraryCall, Loop, SetElement
from ..ir.node import Node, rewrite, walk
from ..ir.stmt import Kernel, Let, Stmt
from .scoped import Result, Scoped

_SHORT = 64  # elements that are not worth a call


def sum_squares(kernel: Kernel) -> Kernel:
    """Return `kernel` with such loops called."""
    return _SumSquares().kernel(kernel)


class _SumSquares(Scoped):
    def on_stmt(self, stmt: Stmt) -> Result:
        if not isinstance(stmt, Loop) or not stmt.simd or len(stmt.reductions) != 1 or not is_const(stmt.start, 0):
            return stmt
        *lets, last = stmt.body
        if not isinstance(last, SetElement) or not all(isinstance(s, Let) for s in lets) or stmt.reductions != (("+", last.buffer),):
            return stmt
        known: dict[str, Expr] = {}
        for let in lets:
            assert isinstance(let, Let)
            known[let.var.name] = _put(let.value, known)
        call = self.call(_put(last.value, known), stmt.var, stmt.stop, last)
        return stmt if call is None else SetElement(last.buffer, ZERO, Binary("add", Element(last.buffer, ZERO), call), span=last.span)

    def call(self, value: Expr, var: Var, stop: Expr, last: SetElement) -> LibraryCall | None:
        """The call that adds as much as a loop over `var` with `total = value`."""
        match value, stop:
            case Binary("add", Element(total), Binary("mul", a, b)), Const(count) if total == last.buffer and a == b and int(count) >= _SHORT:
                pass
            case _:
                return None
        row, start = (a.a, a.b) if isinstance(a, Binary) and a.op == "sub" else (a, const(0.0, FLOAT32))
        if not isinstance(row, Element) or row.buffer.type != FLOAT32 or any(n == var or n == Element(total, ZERO) for n in walk(start)):
            return None
        form = self.bounds.sum(row.offset)
        if form.coefficient(var) != 1 or any(has_load(atom) or var in walk(atom) for atom in form.without(var).terms):
            return None
        args = (Address(row.buffer, to_expr(form.without(var))), index(int(count)), start)
        return LibraryCall("twb_row_squares_f32", args, FLOAT32)


def _put(expr: Expr, known: dict[str, Expr]) -> Expr:
    def change(node: Node) -> Node:
        return known.get(node.name, node) if isinstance(node, Var) else node

    return rewrite(expr, change) if known else expr

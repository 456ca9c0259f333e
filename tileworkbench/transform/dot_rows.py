"""Rows of bfloat16 that are multiplied by one float32 row and summed side by side are one call, which asks for their lines ahead.

Before:  for j in 0..4096 simd, sums: sum = sum + W[i * 4096 + j] * x[j]; sum_1 = sum_1 + W[(i + 1) * 4096 + j] * x[j]; ...
After:   var dots[8]; twb_dots_bf16_8(&W[i * 4096], 4096, &x[0], 4096, &dots[0])
         sum = sum + dots[0]; sum_1 = sum_1 + dots[1]; ...

Such a loop waits for memory alone. A compiler's vector loop has no place for asking ahead, and takes three shuffles for each line of narrow elements.

Requires: rows are side by side (`jam_rows`).  Preserves: everything else; sums are taken in another order.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.linear import Linear, has_load, to_expr, variables
from ..base.dtypes import FLOAT32, INT32, DType
from ..ir.build import ZERO, add, index
from ..ir.expr import Binary, Buffer, Cast, Const, Expr, Var, is_const
from ..ir.lowered import Address, Declare, Element, LibraryCall, Loop, SetElement
from ..ir.node import Node, rewrite, walk
from ..ir.stmt import Evaluate, Kernel, Let, Stmt
from .names import Names
from .scoped import Result, Scoped

DOTS = (8, 4)  # rows of one call
_CALLS = {rows: f"twb_dots_bf16_{rows}" for rows in DOTS}
_SHORT = 64  # elements that are not worth a call
BFLOAT16 = DType("bfloat16")


def dot_rows(kernel: Kernel) -> Kernel:
    """Return `kernel` with such loops as calls; `kernel` itself if there are none."""
    if not any(isinstance(n, Loop) and n.simd and len(n.reductions) in _CALLS for n in walk(kernel)):
        return kernel
    return _Dots(kernel).kernel(kernel)


@dataclass(frozen=True, slots=True)
class _Dot:
    """`total` grows by the sum of `row` times `other`, elements from `row_start` and `other_start` on, one after the other."""

    total: Buffer
    row: Buffer
    row_start: Linear
    other: Buffer
    other_start: Linear


class _Dots(Scoped):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.names = Names(kernel)

    def on_stmt(self, stmt: Stmt) -> Result:
        if not isinstance(stmt, Loop) or not stmt.simd or stmt.step != 1 or len(stmt.reductions) not in _CALLS or not is_const(stmt.start, 0):
            return stmt
        dots = self.dots(stmt)
        apart = _apart(dots)
        if {("+", d.total) for d in dots} != set(stmt.reductions) or not isinstance(stmt.stop, Const) or int(stmt.stop.value) < _SHORT or not apart:
            return stmt
        first = dots[0]
        found = self.names.tile("dots", (index(len(dots)),), FLOAT32, "local")
        row, other = Address(first.row, to_expr(first.row_start)), Address(first.other, to_expr(first.other_start))
        call = LibraryCall(_CALLS[len(dots)], (row, index(apart), other, index(int(stmt.stop.value)), Address(found, ZERO)), INT32)
        sums = (SetElement(d.total, ZERO, add(Element(d.total, ZERO), Element(found, index(n))), span=stmt.span) for n, d in enumerate(dots))
        return (Declare(found, span=stmt.span), Evaluate(call, span=stmt.span), *sums)

    def dots(self, loop: Loop) -> list[_Dot]:
        """What the statements of the loop sum up; nothing if one of them does something else."""
        known: dict[str, Expr] = {}
        out = []
        for stmt in loop.body:
            match stmt:
                case Let(var, value):
                    known[var.name] = _put(value, known)
                case SetElement(total, _, value):
                    dot = self.dot(total, _put(value, known), loop.var)
                    if dot is None:
                        return []
                    out.append(dot)
                case _:
                    return []
        return out

    def dot(self, total: Buffer, value: Expr, var: Var) -> _Dot | None:
        """The sum that a loop over `var` with `total = value` takes, if it is one of bfloat16 elements of global memory times float32 ones."""
        match value:
            case Binary("add", Element(same), Binary("mul", a, b)) if same == total:
                row, other = (a, b) if isinstance(a, Cast) else (b, a)
            case _:
                return None
        match row, other:
            case Cast(Element(buffer, offset), to), Element(with_, at) if (buffer.type, to, with_.type) == (BFLOAT16, FLOAT32, FLOAT32):
                start, other_start = self.start(offset, var), self.start(at, var)
                if buffer.scope != "global" or start is None or other_start is None:
                    return None
                return _Dot(total, buffer, start, with_, other_start)
            case _:
                return None

    def start(self, offset: Expr, var: Var) -> Linear | None:
        """The offset in the first turn of the loop over `var`, if each turn goes on by one element."""
        form = self.bounds.sum(offset)
        rest = form.without(var)
        fits = form.coefficient(var) == 1 and not any(has_load(a) or var in variables(a) for a in rest.terms)
        return rest if fits else None


def _apart(dots: list[_Dot]) -> int:
    """Elements from a row to the next one, if all lie equally far apart in one array and meet the same row; else 0."""
    if len(dots) < 2 or len({(d.row, d.other, d.other_start.key()) for d in dots}) != 1:
        return 0
    step = dots[1].row_start.const - dots[0].row_start.const
    expected = (dots[0].row_start.shift(n * step).key() for n in range(len(dots)))
    return step if step > 0 and all(d.row_start.key() == key for d, key in zip(dots, expected, strict=True)) else 0


def _put(expr: Expr, known: dict[str, Expr]) -> Expr:
    def change(node: Node) -> Node:
        return known.get(node.name, node) if isinstance(node, Var) else node

    return rewrite(expr, change) if known else expr

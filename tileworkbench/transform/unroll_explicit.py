"""Unrolled loops around copies and products that the author orders himself are written out, so that each knows which part of a tile it is about.

Before:  for j in unroll(0, 2): tile[:, j * 64 :+ 64] <- A[.., j * 64] (barrier ready[j])
After:   tile[:, 0 :+ 64] <- A[.., 0] (barrier ready[0]);  tile[:, 64 :+ 64] <- A[.., 64] (barrier ready[1])

Requires: constant ends of loops.  Preserves: other loops, and those of more than 16 turns.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from ..analysis.uses import uses
from ..base.dtypes import BOOL, INDEX
from ..ir.build import add, mul, sub
from ..ir.explicit import TensorMove, is_explicit
from ..ir.expr import Binary, Cast, Const, Expr, Var
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Body, Break, Continue, For, Gemm, Kernel, Launch
from .names import Names

MOST_TURNS = 16


def unroll_explicit(kernel: Kernel) -> Kernel:
    """Return `kernel` with such loops written out."""
    if not any(is_explicit(launch) for launch in kernel.launches):
        return kernel
    names = Names(kernel)

    def inside(node: Node) -> Node | tuple[Node, ...]:
        return _turns(node, names) if isinstance(node, For) and _suits(node) else node

    def change(node: Launch) -> Launch:
        return rewrite(node, inside) if is_explicit(node) else node

    return rewrite_launches(kernel, change)


def _suits(loop: For) -> bool:
    if loop.kind != "unroll" or not isinstance(loop.start, Const) or not isinstance(loop.stop, Const) or len(_range(loop)) > MOST_TURNS:
        return False
    nodes = [n for s in loop.body for n in walk(s)]
    return any(isinstance(n, (TensorMove, Gemm)) for n in nodes) and not any(isinstance(n, (Break, Continue)) for n in nodes)


def _range(loop: For) -> range:
    assert isinstance(loop.start, Const) and isinstance(loop.stop, Const)
    return range(int(loop.start.value), int(loop.stop.value), loop.step)


def _turns(loop: For, names: Names) -> Body:
    bound = uses(loop.body).bound
    out: Body = ()
    for turn in _range(loop):
        known: dict[Var, Expr] = {v: names.var(v.hint or v.name, v.type) for v in bound}
        known[loop.var] = Const(turn, loop.var.type)
        out += tuple(rewrite(s, lambda n, known=known: _known(n, known)) for s in loop.body)  # type: ignore[misc]  # bound for this turn
    return out


def _known(node: Node, known: dict[Var, Expr]) -> Node:
    match node:
        case Var():
            return known.get(node, node)
        case Cast(Const(value, kind), to) if kind.is_int and to.is_int and to.min <= value <= to.max:
            return Const(int(value), to)
        case Binary(op, Const(a, kind), Const(b)) if kind.is_int and op in _TESTS:
            return Const(bool(_TESTS[op](int(a), int(b))), BOOL)
        case Binary("floordiv" | "floormod" as op, Const(a, kind), Const(b)) if kind == INDEX and int(b) > 0:
            return Const(int(a) // int(b) if op == "floordiv" else int(a) % int(b))
        case Binary("add" | "sub" | "mul" as op, a, b) if node.dtype == INDEX:
            made = {"add": add, "sub": sub, "mul": mul}[op](a, b)
            return node if made == node else replace(made, span=node.span) if isinstance(made, Binary) else made
        case _:
            return node


_TESTS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip

"""What certainly divides an integer, and which conditions are the same for a whole vector of neighbours.

>>> i, x = Var("i"), Var("x")
>>> divisor(linear(Binary("add", Binary("mul", i, Const(12)), Const(8))))
4
>>> is_uniform(Binary("lt", Binary("add", Binary("mul", i, Const(8)), x), Const(96)), x, 8, Bounds())
True
>>> is_uniform(Binary("lt", Binary("add", Binary("mul", i, Const(8)), x), Const(100)), x, 8, Bounds())
False
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from ..ir.expr import Binary, Cast, Const, Expr, Select, Unary, Var
from ..ir.node import Node, rewrite, walk
from .bounds import Bounds
from .linear import Linear, linear, to_expr

NOTHING: Mapping[Var, int] = {}
_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")


def divisor(form: Linear, known: Mapping[Var, int] = NOTHING) -> int:
    """A number that divides the sum; 0 for the sum 0, which all numbers divide. `known` gives divisors of variables."""
    out = form.const
    for atom, c in form.terms.items():
        if out == 1:
            break
        out = gcd(out, c * _of(atom, known))
    return abs(out)


def _of(expr: Expr, known: Mapping[Var, int]) -> int:
    match expr:
        case Const(value):
            return int(value)
        case Var():
            return known.get(expr, 1)
        case Binary("mul", a, b):
            return _of(a, known) * _of(b, known)
        case Binary("add" | "sub" | "min" | "max", a, b) | Select(_, a, b):
            return gcd(_of(a, known), _of(b, known))
        case Binary("floormod" | "truncmod", a, Const(by)):
            return gcd(_of(a, known), int(by))
        case Binary("shl", a, Const(count)) if 0 <= int(count) < 32:
            return _of(a, known) << int(count)
        case Unary("neg", x) | Cast(Var() as x, _):
            return _of(x, known)
        case _:
            return 1


def without_neighbours(expr: Expr, var: Var, width: int, bounds: Bounds, known: Mapping[Var, int] = NOTHING) -> Expr:
    """`expr` for 0 <= var < width with no quotient that `var` takes part in: the sum of a multiple of 8 and of 0..7 has one quotient by 8, 16, ...

    >>> x, i, b = Var("x"), Var("i"), Bounds()
    >>> b.bind(i, Const(0), Const(4))
    >>> j = Binary("add", Binary("mul", i, Const(8)), x)
    >>> b.sum(without_neighbours(Binary("add", Binary("floordiv", j, Const(16)), Binary("floormod", j, Const(8))), x, 8, b))
    <Binary> + x
    """

    def change(node: Node) -> Node:
        if not isinstance(node, Binary) or node.op not in _DIVISIONS or not isinstance(node.b, Const) or int(node.b.value) <= 0:
            return node
        by, form = int(node.b.value), bounds.sum(node.a)
        rest = form.without(var)
        if by % width or form.coefficient(var) != 1 or divisor(rest, known) % width or any(n == var for a in rest.terms for n in walk(a)):
            return node
        if node.op.startswith("trunc") and not bounds.at_least_zero(rest):
            return node
        if node.op.endswith("div"):
            return Binary(node.op, to_expr(rest), node.b)
        if divisor(rest, known) % by == 0:
            return var
        return Binary("add", Binary(node.op, to_expr(rest), node.b), var)

    return rewrite(expr, change)


def is_uniform(cond: Expr, var: Var, width: int, bounds: Bounds, known: Mapping[Var, int] = NOTHING) -> bool:
    """Whether `cond` is the same for all values of `var` from a multiple of `width` up to the next."""
    if not any(n == var for n in walk(cond)):
        return True
    match cond:
        case Binary("and" | "or", a, b):
            return is_uniform(a, var, width, bounds, known) and is_uniform(b, var, width, bounds, known)
        case Unary("not", x):
            return is_uniform(x, var, width, bounds, known)
        case Binary("lt" | "ge" | "gt" | "le" as op, a, b) if a.dtype.is_int and a.dtype.bits == 64:
            form = bounds.sum(a) - bounds.sum(b)
            if op in ("gt", "le"):
                form = form.shift(-1)  # the condition is form >= 0, or its opposite
            if form.coefficient(var) == -1:
                form = form.scale(-1).shift(-1)  # the opposite again
            rest = form.without(var)
            apart = not any(n == var for atom in rest.terms for n in walk(atom))
            return form.coefficient(var) == 1 and apart and divisor(rest, known) % width == 0
        case _:
            return False


__all__ = ["divisor", "is_uniform", "linear", "without_neighbours"]

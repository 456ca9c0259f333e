"""Small constructors that fold constants, for passes that make index arithmetic.

>>> i = Var("i")
>>> add(mul(i, index(1)), index(0)) is i
True
"""

from __future__ import annotations

from collections.abc import Iterable

from ..base.dtypes import BOOL, INDEX, INT32, DType
from .expr import Binary, Cast, Const, Expr, Select, Unary, Var

TRUE, FALSE = Const(True, BOOL), Const(False, BOOL)
ZERO = Const(0)


def index(value: int) -> Const:
    """An index literal."""
    return Const(value, INDEX)


def add(a: Expr, b: Expr) -> Expr:
    """a + b of indices."""
    match a, b:
        case Const(x), Const(y):
            return Const(int(x) + int(y), a.type)
        case _, Const(0):
            return a
        case Const(0), _:
            return b
        case Binary("add", x, Const(y)), Const(z):
            return add(x, Const(int(y) + int(z)))
        case Binary("sub", x, Const(y)), Const(z):
            return add(x, Const(int(z) - int(y)))
        case _, Const(y) if int(y) < 0:
            return Binary("sub", a, Const(-int(y)))
        case Const(), _:
            return Binary("add", b, a)
        case _:
            return Binary("add", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """a - b of indices."""
    match a, b:
        case _, Const(y):
            return add(a, Const(-int(y)))
        case Const(0), _:
            return Unary("neg", b)
        case _ if a == b:
            return ZERO
        case Binary("add", x, y), _ if x == b:
            return y
        case Binary("add", x, y), _ if y == b:
            return x
        case _:
            return Binary("sub", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    """a * b of indices."""
    match a, b:
        case Const(x), Const(y):
            return Const(int(x) * int(y))
        case _, Const(1):
            return a
        case Const(1), _:
            return b
        case (_, Const(0)) | (Const(0), _):
            return ZERO
        case Binary("mul", x, Const(y)), Const(z):
            return mul(x, Const(int(y) * int(z)))
        case Const(), _:
            return Binary("mul", b, a)
        case _:
            return Binary("mul", a, b)


def floordiv(a: Expr, by: Expr) -> Expr:
    """a // by of indices."""
    match a, by:
        case _, Const(1):
            return a
        case Const(x), Const(y) if int(y):
            return Const(int(x) // int(y), a.type)
        case _:
            return Binary("floordiv", a, by)


def floormod(a: Expr, by: Expr) -> Expr:
    """a % by of indices."""
    match a, by:
        case _, Const(1):
            return Const(0, a.dtype)
        case Const(x), Const(y) if int(y):
            return Const(int(x) % int(y), a.type)
        case _:
            return Binary("floormod", a, by)


def total(items: Iterable[Expr]) -> Expr:
    """The sum of indices."""
    out: Expr = ZERO
    for item in items:
        out = add(out, item)
    return out


def product(items: Iterable[Expr]) -> Expr:
    """The product of indices."""
    out: Expr = Const(1)
    for item in items:
        out = mul(out, item)
    return out


def minimum(a: Expr, b: Expr) -> Expr:
    """The smaller of two indices."""
    match a, b:
        case Const(x), Const(y):
            return a if int(x) <= int(y) else b
        case _:
            return a if a == b else Binary("min", a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    """The larger of two indices."""
    match a, b:
        case Const(x), Const(y):
            return a if int(x) >= int(y) else b
        case _:
            return a if a == b else Binary("max", a, b)


def both(a: Expr, b: Expr) -> Expr:
    """a and b."""
    match a, b:
        case Const(x), _:
            return b if x else FALSE
        case _, Const(True):
            return a
        case _:
            return Binary("and", a, b)


def every(conditions: Iterable[Expr]) -> Expr:
    """All of `conditions`, evaluated from left to right."""
    out: Expr = TRUE
    for cond in conditions:
        out = both(out, cond)
    return out


def negate(cond: Expr) -> Expr:
    """not cond."""
    match cond:
        case Const(value):
            return FALSE if value else TRUE
        case Unary("not", x):
            return x
        case _:
            return Unary("not", cond)


def choose(cond: Expr, then: Expr, other: Expr) -> Expr:
    """`then` if `cond` else `other`."""
    match cond:
        case Const(value):
            return then if value else other
        case _:
            return then if then == other else Select(cond, then, other)


def cast(x: Expr, to: DType) -> Expr:
    """`x` as `to`; nothing if it is that already."""
    if x.dtype == to:
        return x
    if isinstance(x, Const) and to.is_int and x.type.is_int and int(to.min) <= int(x.value) <= int(to.max):
        return Const(x.value, to)
    return Cast(x, to)


def int32(var: Var) -> Var:
    """The same name as an int32."""
    return Var(var.name, INT32, hint=var.hint, span=var.span)

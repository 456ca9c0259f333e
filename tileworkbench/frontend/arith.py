"""Arithmetic on IR expressions as the language means it: promotion, literals, constant folding, affine differences.

Every function takes and returns `ir.expr` nodes; `values.py` puts Python operators on top. A Python number takes the dtype of the
other operand where that can hold it: `x_f16 * 0.5` stays float16, `n_int32 + 1.5` becomes float32, `b_uint8 + 300` becomes int32.

>>> from ..ir.printer import print_expr
>>> i = Var("i")
>>> print_expr(binary("add", binary("mul", i, literal(4)), literal(0)))
'i * 4'
>>> print_expr(difference(binary("mul", binary("add", i, literal(1)), literal(64)), binary("mul", i, literal(64))))
'64'
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtypes import BOOL, FLOAT32, FLOAT64, INDEX, INT32, INT64, DType, promote
from ..base.errors import TileTypeError, TileValueError
from ..ir.expr import BITWISE, COMPARE, LOGICAL, Binary, Cast, Const, Expr, Select, Unary, Var, const, is_const

Number = int | float | bool
_KEEPS_INT = ("abs", "neg", "bitnot", "popcount", "clz")
_ROUNDING = ("floor", "ceil", "trunc", "round", "nearbyint")
_SYMBOL = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "floormod": "%", "pow": "**", "bitand": "&", "bitor": "|",
    "bitxor": "^", "shl": "<<", "shr": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- literals
def literal(value: Any, other: DType | None = None) -> Const:
    """A Python or NumPy number as a constant that goes with an operand of dtype `other` (None: index, float32 or bool)."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return const(value, other if other is not None and not other.is_float else BOOL if other is None else other)
    if isinstance(value, int):
        holder = _holder(value, other)
        check_range(value, holder)
        return const(value, holder)
    return const(value, other if other is not None and other.is_float else FLOAT32)


def _holder(value: int, other: DType | None) -> DType:
    """The dtype for an int literal beside `other`: `other` itself unless the value does not fit."""
    if other is None:
        return INDEX
    if other.is_float:
        return other
    if other.is_int and other.min <= value <= other.max:
        return other
    return INT32 if INT32.min <= value <= INT32.max else INT64


def check_range(value: int, dtype: DType) -> None:
    """Raises: TileValueError if an integer is beyond what `dtype` can come near."""
    limit = int(FLOAT64.max) if dtype.is_float else 1 << (dtype.bits if dtype.kind == "u" else dtype.bits - 1)
    if not -limit <= value <= limit - (not dtype.is_float):
        raise TileValueError(f"a number of {len(str(abs(value)))} digits fits no dtype" if dtype.is_float else f"{value} does not fit in {dtype}")


def const_int(e: Expr) -> int | None:
    """The value of a constant integer, else None."""
    return int(e.value) if isinstance(e, Const) and not e.type.is_float else None


# ---------------------------------------------------------------------------------------------- conversions
def cast(e: Expr, dtype: DType) -> Expr:
    """`e` converted by value to `dtype`; constants are converted now."""
    if e.dtype == dtype:
        return e
    if isinstance(e, Const):
        return _cast_const(e, dtype)
    return Cast(e, dtype)


def _cast_const(e: Const, dtype: DType) -> Expr:
    if not e.type.is_float or dtype.is_float or dtype.is_bool:
        return const(e.value, dtype)
    number = float(e.value)
    if math.isnan(number):
        return const(0, dtype)
    return const(int(min(max(number, float(dtype.min)), float(dtype.max))) if math.isinf(number) else _saturate(int(number), dtype), dtype)


def _saturate(value: int, dtype: DType) -> int:
    return int(min(max(value, dtype.min), dtype.max))


def to_bool(e: Expr) -> Expr:
    """`e` as a condition: itself if bool, else `e != 0`."""
    return e if e.dtype.is_bool else binary("ne", e, const(0, e.dtype))


def as_index(e: Expr) -> Expr:
    """`e` as an index (int64); a float is an error."""
    if e.dtype.is_float:
        raise TileTypeError(f"an index must be an integer, got {e.dtype}", hint='convert it with T.cast(x, "int32")')
    return cast(e, INDEX)


# ---------------------------------------------------------------------------------------------- operations
def binary(op: str, a: Expr, b: Expr) -> Expr:
    """`a op b` with both sides promoted to one dtype, folded where both are constant."""
    if op in LOGICAL:
        return _logical(op, to_bool(a), to_bool(b))
    if op in BITWISE:
        return _bitwise(op, a, b)
    if op == "pow":
        return _power(a, b)
    dtype = promote(a.dtype, b.dtype)
    if op in COMPARE:
        return _fold(op, cast(a, dtype), cast(b, dtype))
    if dtype.is_bool:
        dtype = INT32 if op not in ("min", "max") else dtype
    if op in ("div", "atan2", "fmod", "copysign", "hypot") and not dtype.is_float:
        dtype = FLOAT32
    a, b = cast(a, dtype), cast(b, dtype)
    if dtype.is_float and op in ("floordiv", "truncdiv"):
        return unary("floor" if op == "floordiv" else "trunc", _fold("div", a, b))
    if dtype.is_float and op in ("floormod", "truncmod"):
        whole = unary("floor" if op == "floormod" else "trunc", _fold("div", a, b))
        return _fold("sub", a, _fold("mul", whole, b))
    return _fold(op, a, b)


def _logical(op: str, a: Expr, b: Expr) -> Expr:
    stop = op == "or"  # the value of `a` that decides
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Const):
            return one if bool(one.value) == stop else other
    return Binary(op, a, b)


def _bitwise(op: str, a: Expr, b: Expr) -> Expr:
    if a.dtype.is_float or b.dtype.is_float:
        raise TileTypeError(
            f"{_SYMBOL[op]} needs integers, got {a.dtype} {_SYMBOL[op]} {b.dtype}",
            hint="to work on the bits of a float, use T.reinterpret(x, dtype) first",
        )
    if a.dtype.is_bool and b.dtype.is_bool:
        if op in ("bitand", "bitor"):
            return _logical("and" if op == "bitand" else "or", a, b)
        if op == "bitxor":
            return _fold("ne", a, b)
    dtype = promote(a.dtype, b.dtype)
    if dtype.is_bool:
        dtype = INT32
    return _fold(op, cast(a, dtype), cast(b, dtype))


def _power(a: Expr, b: Expr) -> Expr:
    """Small constant integer powers become multiplications; the rest is `pow` on floats."""
    n = const_int(b) if not isinstance(b, Const) or not b.type.is_float else (int(b.value) if float(b.value).is_integer() else None)
    if n is not None and (n in (1, 2, 3, 4) or (n >= 0 and not a.dtype.is_float)) and n <= 64:
        base = cast(a, INT32) if a.dtype.is_bool else a
        return _repeated(base, n)
    dtype = promote(a.dtype, b.dtype)
    if not dtype.is_float:
        raise TileTypeError(
            f"an integer power needs a constant exponent from 0 to 64, got {a.dtype} ** {b.dtype}", hint="convert the base: T.pow(T.float32(x), y)"
        )
    return _fold("pow", cast(a, dtype), cast(b, dtype))


def _repeated(a: Expr, n: int) -> Expr:
    if n == 0:
        return const(1, a.dtype)
    if n == 1:
        return a
    half = _repeated(a, n // 2)
    square = _fold("mul", half, half)
    return square if n % 2 == 0 else _fold("mul", square, a)


def unary(op: str, x: Expr) -> Expr:
    """`op(x)`; math functions of integers are computed in float32, rounding an integer is the integer."""
    if op == "not":
        x = to_bool(x)
        return const(not x.value, BOOL) if isinstance(x, Const) else x.x if isinstance(x, Unary) and x.op == "not" else Unary(op, x)
    if op == "bitnot" and x.dtype.is_bool:
        return unary("not", x)
    if op in ("bitnot", "popcount", "clz") and x.dtype.is_float:
        raise TileTypeError(f"{op} needs an integer, got {x.dtype}", hint="T.reinterpret(x, dtype) gives the bits of a float")
    if x.dtype.is_bool:
        x = cast(x, INT32)
    if not x.dtype.is_float:
        if op in _ROUNDING or (op == "abs" and x.dtype.kind == "u"):
            return x
        if op in ("isnan", "isinf", "isfinite"):
            return const(op == "isfinite", BOOL)
        if op not in _KEEPS_INT:
            x = cast(x, FLOAT32)
    if isinstance(x, Const) and op in ("neg", "abs", "bitnot"):
        return const(-x.value if op == "neg" else abs(x.value) if op == "abs" else ~int(x.value), x.type)
    return Unary(op, x)


def select(cond: Expr, then: Expr, other: Expr) -> Expr:
    """`then` if `cond` else `other`, both sides promoted to one dtype."""
    dtype = promote(then.dtype, other.dtype)
    cond, then, other = to_bool(cond), cast(then, dtype), cast(other, dtype)
    if isinstance(cond, Const):
        return then if cond.value else other
    return Select(cond, then, other)


# ---------------------------------------------------------------------------------------------- folding
def _shift(move: Callable[[int, int], int]) -> Callable[[int, int], int]:
    return lambda a, n: move(a, n) if 0 <= n < 64 else 0


_EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip
_INTEGER: dict[str, Callable[[int, int], int]] = {
    "min": min, "max": max, "bitand": operator.and_, "bitor": operator.or_, "bitxor": operator.xor,
    "floordiv": lambda a, b: a // b if b else 0, "floormod": lambda a, b: a % b if b else 0,
    "truncdiv": lambda a, b: (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0,
    "truncmod": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1) if b else 0,
    "shl": _shift(operator.lshift), "shr": _shift(operator.rshift),
}  # fmt: skip


def _fold(op: str, a: Expr, b: Expr) -> Expr:
    """`Binary(op, a, b)` of operands of one dtype; a constant or a shorter equal expression where there is one."""
    dtype = a.dtype
    if isinstance(a, Const) and isinstance(b, Const):
        value = _constant(op, a, b)
        if value is not None:
            return const(value, BOOL if op in COMPARE else dtype)
    if not dtype.is_float:
        return _identity(op, a, b) or Binary(op, a, b)
    return Binary(op, a, b)


def _constant(op: str, a: Const, b: Const) -> Any:
    if op in _EXACT:
        with np.errstate(all="ignore"):
            if a.type.is_float:  # float64 holds the exact product of two narrower floats, so rounding twice is rounding once
                return _EXACT[op](np.float64(a.value), np.float64(b.value))
            return _EXACT[op](int(a.value), int(b.value))
    if a.type.is_float:
        if op == "div":
            with np.errstate(all="ignore"):
                return np.float64(a.value) / np.float64(b.value)
        if op in ("min", "max"):
            return float(np.fmin(a.value, b.value) if op == "min" else np.fmax(a.value, b.value))
        return None
    if op in ("shl", "shr") and not 0 <= int(b.value) < a.type.bits:
        return None
    return _INTEGER[op](int(a.value), int(b.value)) if op in _INTEGER else None


def _identity(op: str, a: Expr, b: Expr) -> Expr | None:
    """x+0, x-0, x*1, x*0, x//1, x%1, and (x + c) - d on integers."""
    match op:
        case "add" if isinstance(a, Const):
            return _plus(b, int(a.value))
        case "add" if isinstance(b, Const):
            return _plus(a, int(b.value))
        case "sub" if isinstance(b, Const):
            return _plus(a, -int(b.value))
        case "mul":
            for one, other in ((a, b), (b, a)):
                if is_const(one, 1):
                    return other
                if is_const(one, 0):
                    return one
        case "floordiv" | "truncdiv":
            return a if is_const(b, 1) else None
        case "floormod" | "truncmod":
            return const(0, a.dtype) if is_const(b, 1) else None
        case "min" | "max":
            return a if a == b else None
    return None


def _plus(x: Expr, n: int) -> Expr:
    """`x + n`, with a constant that x already adds taken into n; written as a difference where n is negative."""
    if isinstance(x, Binary) and x.op in ("add", "sub") and isinstance(x.b, Const):
        n += int(x.b.value) if x.op == "add" else -int(x.b.value)
        x = x.a
    if n == 0:
        return x
    return Binary("add", x, const(n, x.dtype)) if n > 0 else Binary("sub", x, const(-n, x.dtype))


# ---------------------------------------------------------------------------------------------- affine differences
Monomial = frozenset[tuple[Expr, int]]  # factors with their powers
Polynomial = dict[Monomial, int]
_ONE: Monomial = frozenset()


def polynomial(e: Expr) -> Polynomial:
    """`e` as a sum of products with integer coefficients; what is not +, - or * is a factor of its own."""
    match e:
        case Const(value, _):
            return {_ONE: int(value)} if value else {}
        case Binary("add", a, b):
            return _sum(polynomial(a), polynomial(b), 1)
        case Binary("sub", a, b):
            return _sum(polynomial(a), polynomial(b), -1)
        case Unary("neg", x):
            return _sum({}, polynomial(x), -1)
        case Binary("mul", a, b):
            return _product(polynomial(a), polynomial(b))
        case Cast(x, to) if to == INDEX and x.dtype.is_int and x.dtype.bits >= 32 and isinstance(x, Binary | Unary):
            return polynomial(x)  # no program relies on an index that wraps at 32 bits
        case _:
            return {frozenset({(cast(e, INDEX), 1)}): 1}


def _sum(p: Polynomial, q: Polynomial, sign: int) -> Polynomial:
    out = dict(p)
    for factor, k in q.items():
        out[factor] = out.get(factor, 0) + sign * k
    return {factor: k for factor, k in out.items() if k}


def _product(p: Polynomial, q: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for f, k in p.items():
        for g, m in q.items():
            powers = dict(f)
            for factor, n in g:
                powers[factor] = powers.get(factor, 0) + n
            out = _sum(out, {frozenset(powers.items()): k * m}, 1)
    return out


def difference(a: Expr, b: Expr) -> Expr:
    """`a - b` as an index, simplified: a constant where the symbols cancel."""
    left, right = polynomial(a), polynomial(b)
    gap = _sum(left, right, -1)
    if len(gap) > 1 and len(gap) >= len(left) + len(right):
        return binary("sub", as_index(a), as_index(b))
    total: Expr = const(0)
    for factor, k in gap.items():
        term: Expr = const(abs(k))
        for x, n in sorted(factor, key=lambda f: f[0].name if isinstance(f[0], Var) else ""):
            term = binary("mul", term, _repeated(x, n))
        total = binary("add" if k > 0 else "sub", total, term)
    return total


def is_equal(a: Expr, b: Expr) -> bool | None:
    """True or False where the difference of two indices is a known constant, None where it is not."""
    gap = _sum(polynomial(a), polynomial(b), -1)
    if not gap:
        return True
    return False if set(gap) == {_ONE} else None

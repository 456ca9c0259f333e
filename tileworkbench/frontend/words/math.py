"""Meanings of the arithmetic words. Python numbers in, Python numbers out; anything else gives a Value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dtypes import INDEX
from ...base.errors import TileTypeError, UnsupportedError
from ...ir.expr import Expr, const
from ...language import math as words
from ...language._dispatch import impl
from .. import arith
from ..scalars import divisor
from ..values import Value, as_expr, both, is_number


# ---------------------------------------------------------------------------------------------- two operands
def _two(word: str, op: str, a: Any, b: Any, python: Callable[[Any, Any], Any]) -> Any:
    if is_number(a) and is_number(b):
        return _in_python(word, python, a, b)
    x, y = both(a, b)
    return Value(arith.binary(op, x, divisor(op, y)))


def _in_python(word: str, python: Callable[..., Any], *args: Any) -> Any:
    plain = [a.item() if isinstance(a, np.generic) else a for a in args]
    try:
        with np.errstate(all="ignore"):
            result = python(*plain)
    except (ArithmeticError, ValueError) as error:
        raise TileTypeError(f"T.{word}({', '.join(map(str, plain))}): {error}") from None
    return result.item() if isinstance(result, np.generic) else result


@impl(words.ceildiv)
def _ceildiv(a: Any, b: Any) -> Any:
    if is_number(a) and is_number(b):
        return _in_python("ceildiv", lambda x, y: -(-x // y), a, b)
    x, y = both(a, b)
    if x.dtype.is_float or y.dtype.is_float:
        raise TileTypeError(f"T.ceildiv needs integers, got {x.dtype} and {y.dtype}", hint="T.ceil(a / b) rounds a float up")
    step = arith.const_int(divisor("floordiv", y))
    if x.dtype == INDEX and step is not None and step > 0:  # the form that the analyses know; index arithmetic does not overflow
        return Value(arith.binary("floordiv", arith.binary("add", x, const(step - 1)), y))
    if x.dtype == INDEX:
        return Value(arith.unary("neg", arith.binary("floordiv", arith.unary("neg", x), y)))
    quotient, rest = arith.binary("floordiv", x, y), arith.binary("floormod", x, y)
    return Value(arith.binary("add", quotient, arith.cast(arith.binary("ne", rest, const(0, rest.dtype)), quotient.dtype)))


@impl(words.floordiv)
def _floordiv(a: Any, b: Any) -> Any:
    return _two("floordiv", "floordiv", a, b, lambda x, y: x // y)


@impl(words.floormod)
def _floormod(a: Any, b: Any) -> Any:
    return _two("floormod", "floormod", a, b, lambda x, y: x % y)


@impl(words.truncdiv)
def _truncdiv(a: Any, b: Any) -> Any:
    return _two("truncdiv", "truncdiv", a, b, lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1))


@impl(words.truncmod)
def _truncmod(a: Any, b: Any) -> Any:
    return _two("truncmod", "truncmod", a, b, lambda x, y: abs(x) % abs(y) * (-1 if x < 0 else 1))


@impl(words.align_up)
def _align_up(x: Any, y: Any) -> Any:
    return _ceildiv(x, y) * y


@impl(words.shift_left)
def _shift_left(a: Any, b: Any) -> Any:
    return _two("shift_left", "shl", a, b, lambda x, y: x << y)


@impl(words.shift_right)
def _shift_right(a: Any, b: Any) -> Any:
    return _two("shift_right", "shr", a, b, lambda x, y: x >> y)


@impl(words.bitwise_and)
def _bitwise_and(a: Any, b: Any) -> Any:
    return _two("bitwise_and", "bitand", a, b, lambda x, y: x & y)


@impl(words.bitwise_or)
def _bitwise_or(a: Any, b: Any) -> Any:
    return _two("bitwise_or", "bitor", a, b, lambda x, y: x | y)


@impl(words.bitwise_xor)
def _bitwise_xor(a: Any, b: Any) -> Any:
    return _two("bitwise_xor", "bitxor", a, b, lambda x, y: x ^ y)


@impl(words.bitwise_not)
def _bitwise_not(x: Any) -> Any:
    return ~x if is_number(x) else Value(arith.unary("bitnot", as_expr(x)))


@impl(words.max)
def _max(a: Any, b: Any) -> Any:
    return _two("max", "max", a, b, max)


@impl(words.min)
def _min(a: Any, b: Any) -> Any:
    return _two("min", "min", a, b, min)


@impl(words.clamp)
def _clamp(x: Any, lo: Any, hi: Any) -> Any:
    return _min(_max(x, lo), hi)


@impl(words.pow)
def _pow(x: Any, y: Any) -> Any:
    return _two("pow", "pow", x, y, lambda a, b: a**b)


@impl(words.fmod)
def _fmod(x: Any, y: Any) -> Any:
    return _two("fmod", "fmod", x, y, math.fmod)


@impl(words.atan2)
def _atan2(y: Any, x: Any) -> Any:
    return _two("atan2", "atan2", y, x, math.atan2)


@impl(words.copysign)
def _copysign(x: Any, y: Any) -> Any:
    return _two("copysign", "copysign", x, y, math.copysign)


@impl(words.hypot)
def _hypot(x: Any, y: Any) -> Any:
    return _two("hypot", "hypot", x, y, math.hypot)


@impl(words.div)
def _div(a: Any, b: Any) -> Any:
    return _two("div", "div", a, b, lambda x, y: x / y)


# ---------------------------------------------------------------------------------------------- logic
def _logical(op: str, conditions: tuple[Any, ...]) -> Any:
    if all(isinstance(c, bool) for c in conditions):
        return all(conditions) if op == "and" else any(conditions)
    total: Expr = const(op == "and", as_expr(True).dtype)
    for c in conditions:
        total = arith.binary(op, total, arith.to_bool(as_expr(c)))
    return Value(total)


@impl(words.logical_and)
def _logical_and(*conditions: Any) -> Any:
    return _logical("and", conditions)


@impl(words.logical_or)
def _logical_or(*conditions: Any) -> Any:
    return _logical("or", conditions)


@impl(words.logical_not)
def _logical_not(x: Any) -> Any:
    return not x if is_number(x) else Value(arith.unary("not", as_expr(x)))


# ---------------------------------------------------------------------------------------------- one operand
def _round_half_away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


_PYTHON: dict[str, Callable[[Any], Any]] = {
    "abs": abs, "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.float64(10.0) ** x, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": math.erf, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "round": _round_half_away, "nearbyint": np.rint, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "popcount": lambda x: (x & 0xFFFFFFFF).bit_count(), "clz": lambda x: 32 - (x & 0xFFFFFFFF).bit_length(),
}  # fmt: skip


def _bind(op: str) -> None:
    @impl(getattr(words, op))
    def meaning(x: Any) -> Any:
        if is_number(x):
            return _in_python(op, _PYTHON[op], x)
        return Value(arith.unary(op, as_expr(x)))


for _op in _PYTHON:
    _bind(_op)


@impl(words.fast_rcp)
def _fast_rcp(x: Any) -> Any:
    return 1.0 / x


# ---------------------------------------------------------------------------------------------- IEEE operations by name
def _nearest(word: str, rounding: str) -> None:
    if rounding != "rn":
        raise UnsupportedError(f"T.{word} with rounding {rounding!r}", hint='only rounding to nearest even is available: "rn"')


@impl(words.ieee_add)
def _ieee_add(x: Any, y: Any, rounding: str = "rn") -> Any:
    _nearest("ieee_add", rounding)
    return x + y


@impl(words.ieee_sub)
def _ieee_sub(x: Any, y: Any, rounding: str = "rn") -> Any:
    _nearest("ieee_sub", rounding)
    return x - y


@impl(words.ieee_mul)
def _ieee_mul(x: Any, y: Any, rounding: str = "rn") -> Any:
    _nearest("ieee_mul", rounding)
    return x * y


@impl(words.ieee_fdiv)
def _ieee_fdiv(x: Any, y: Any, rounding: str = "rn") -> Any:
    _nearest("ieee_fdiv", rounding)
    return x / y


@impl(words.ieee_frcp)
def _ieee_frcp(x: Any, rounding: str = "rn") -> Any:
    _nearest("ieee_frcp", rounding)
    return 1.0 / x


@impl(words.ieee_fsqrt)
def _ieee_fsqrt(x: Any, rounding: str = "rn") -> Any:
    _nearest("ieee_fsqrt", rounding)
    return words.sqrt(x)


@impl(words.ieee_frsqrt)
def _ieee_frsqrt(x: Any) -> Any:
    return words.rsqrt(x)


@impl(words.index_to_coordinates)
def _index_to_coordinates(index: Any, shape: Any) -> Any:
    out: list[Any] = []
    for d in reversed(list(shape)):
        out.append(index % d)
        index = index // d
    return out[::-1]

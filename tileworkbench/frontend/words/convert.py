"""Meanings of casts, bit patterns, limits and selections. Also what `T.float32(x)` does."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...base.errors import TileTypeError, UnsupportedError
from ...ir.expr import Const, Reinterpret, const
from ...language import convert as words
from ...language._dispatch import impl
from ...language.types import as_dtype
from .. import arith
from ..scalars import literal_of
from ..values import Tile, Value, as_expr, both, is_number


def convert(dtype: DType, value: Any) -> Value:
    """`T.float32(value)`: a value of that dtype; a Python number becomes a constant."""
    return Value(arith.cast(literal_of(value) if is_number(value) else as_expr(value), dtype))


DType.caster = convert


def _is_dtype(x: Any) -> bool:
    return not isinstance(x, Value | Tile) and not is_number(x) and not isinstance(x, np.ndarray)


def _order(word: str, value: Any, dtype: Any) -> tuple[Any, DType]:
    """(value, dtype) from two arguments in either order."""
    if _is_dtype(value) and not _is_dtype(dtype):
        value, dtype = dtype, value
    if not _is_dtype(dtype) or _is_dtype(value):
        raise TileTypeError(f"T.{word} needs a value and a dtype, got {value!r} and {dtype!r}"[:200], hint=f'T.{word}(x, "float32")')
    return value, as_dtype(dtype)


@impl(words.cast)
def _cast(value: Any, dtype: Any, round: str = "", sat: bool = True, rbits: Any = None) -> Any:
    if round not in ("", "rn", "rne", "nearest"):
        raise UnsupportedError(f"T.cast with rounding {round!r}", hint="casts round to nearest even; T.floor, T.ceil and T.trunc round otherwise")
    x, to = _order("cast", value, dtype)
    return convert(to, x)


@impl(words.Cast)
def _Cast(dtype: Any, value: Any) -> Any:
    x, to = _order("Cast", value, dtype)
    return convert(to, x)


@impl(words.reinterpret)
def _reinterpret(value: Any, dtype: Any) -> Any:
    if "handle" in (value, dtype) if isinstance(value, str) or isinstance(dtype, str) else False:
        return dtype if isinstance(value, str) else value  # a pointer-sized placeholder of TVM programs
    x, to = _order("reinterpret", value, dtype)
    if is_number(x):
        integer = isinstance(x, int | np.integer)
        x = Value(const(x, DType(f"uint{to.bits}") if integer else DType(f"float{to.bits}") if to.bits in (16, 32, 64) else to))
    e = as_expr(x)
    if e.dtype.bits != to.bits:
        raise TileTypeError(
            f"T.reinterpret from {e.dtype} ({e.dtype.bits} bits) to {to} ({to.bits} bits)",
            hint=f"the widths must agree: convert with T.cast, or use a {e.dtype.bits}-bit dtype",
        )
    return Value(e if e.dtype == to else _bits(e, to) if isinstance(e, Const) else Reinterpret(e, to))


def _bits(e: Const, to: DType) -> Const:
    """The constant whose bits are those of `e`."""
    if e.type.bits < 8:
        return const(int(e.value), to)
    raw = np.asarray(e.value).astype(e.type.to_numpy()).view(to.to_numpy())
    return Const(raw.item() if not to.is_float else float(raw), to)


# ---------------------------------------------------------------------------------------------- limits
@impl(words.infinity)
def _infinity(dtype: Any) -> Any:
    kind = as_dtype(dtype)
    if not kind.has_infinity:
        raise TileTypeError(f"{kind} has no infinity", hint=f'T.max_value("{kind}") is its largest value')
    return Value(const(float("inf"), kind))


@impl(words.max_value)
def _max_value(dtype: Any) -> Any:
    kind = as_dtype(dtype)
    return Value(const(kind.max, kind))


@impl(words.min_value)
def _min_value(dtype: Any) -> Any:
    kind = as_dtype(dtype)
    return Value(const(kind.min, kind))


# ---------------------------------------------------------------------------------------------- selections
@impl(words.if_then_else)
def _if_then_else(cond: Any, t: Any, f: Any) -> Any:
    return _select(cond, t, f)


@impl(words.Select)
def _Select(cond: Any, t: Any, f: Any) -> Any:
    return _select(cond, t, f)


def _select(cond: Any, t: Any, f: Any) -> Any:
    if isinstance(cond, bool | np.bool_):
        return t if cond else f
    then, other = both(t, f)
    return Value(arith.select(as_expr(cond), then, other))

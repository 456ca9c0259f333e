"""Arithmetic on the values that the interpreter computes with, exactly as `ir/expr.py` defines it.

A value of a tile IR dtype is held as

- int64 ("index") and bool: a Python int or bool where it is one value, a NumPy array where it differs between lanes;
- every other dtype: a NumPy scalar or array of its *compute dtype*, which is float32 for the floats below 32 bits (each value
  representable in the narrow type) and int8 / uint8 for the 4-bit integers.

So `binary("add", FLOAT16)` is a function that adds in float32 and rounds once to float16. Callers silence NumPy's floating-point warnings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..base.dtypes import BOOL, INDEX, DType
from ..base.errors import InternalError
from ..ir.expr import COMPARE

Value = Any  # int, bool, np.generic or np.ndarray; see above
_HALF, _FULL = 1 << 63, 1 << 64


@cache
def compute_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype in which values of `dtype` are computed."""
    if dtype.is_float:
        return np.dtype(np.float64 if dtype.bits == 64 else np.float32)
    return np.dtype(f"{'u' if dtype.kind == 'u' else ''}int8") if dtype.bits == 4 else dtype.to_numpy()


@cache
def storage_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of an element in memory; 4-bit types are packed into uint8."""
    return np.dtype(np.uint8) if dtype.bits == 4 else dtype.to_numpy()


def is_narrow(dtype: DType) -> bool:
    """A float that is computed in float32 and then rounded."""
    return dtype.is_float and dtype.bits < 32


@cache
def rounder(dtype: DType) -> Callable[[Any], Any] | None:
    """What makes a result of the compute dtype a value of `dtype`; None if nothing is left to do."""
    if is_narrow(dtype):
        narrow, wide = dtype.to_numpy(), np.dtype(np.float32)
        return lambda x: x.astype(narrow).astype(wide)
    if dtype.bits == 4:
        return (lambda x: x & 15) if dtype.kind == "u" else (lambda x: ((x & 15) ^ 8) - 8)
    return None


def scalar(value: int | float | bool, dtype: DType) -> Value:
    """One Python number as a value of `dtype`."""
    if dtype == INDEX:
        return int(value)
    return bool(value) if dtype.is_bool else compute_dtype(dtype).type(value)


def counter(values: Any, dtype: DType) -> Value:
    """A loop variable or thread index, one or an array of them, as values of its dtype."""
    if dtype == INDEX:
        return values
    return compute_dtype(dtype).type(values)


def plain(value: Value, dtype: DType) -> Value:
    """A NumPy result back in the form of the module docstring: int64 and bool scalars as Python numbers."""
    if dtype in (INDEX, BOOL) and not (isinstance(value, np.ndarray) and value.ndim):
        return value if type(value) in (int, bool) else value.item()
    return value


# ---------------------------------------------------------------------------------------------- index arithmetic
def _wrap(x: Any) -> Any:
    if type(x) is not int or -_HALF <= x < _HALF:
        return x
    return (x + _HALF) % _FULL - _HALF


def _both_ints(scalars: Callable[[int, int], int], arrays: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: _wrap(scalars(a, b)) if type(a) is int and type(b) is int else arrays(a, b)


def _truncdiv(a: Any, b: Any) -> Any:
    return np.floor_divide(a - np.fmod(a, b), b)


def _int_power(a: Any, b: Any) -> Any:
    """`a ** b`; a negative exponent gives the integer part, so 0 unless the base is 1 or -1."""
    a, b = np.asarray(a), np.asarray(b)
    result = np.power(a, np.maximum(b, 0).astype(b.dtype))
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0)).astype(result.dtype)
    return np.where(b < 0, inverse, result)[()]


def _shift(op: str, dtype: DType) -> Callable[[Any, Any], Any]:
    width = dtype.bits

    def apply(a: Any, b: Any) -> Any:
        inside = (np.asarray(b) >= 0) & (np.asarray(b) < width)
        count = np.where(inside, b, width - 1).astype(compute_dtype(dtype))
        if op == "shl":
            return np.where(inside, np.left_shift(a, count), 0).astype(compute_dtype(dtype))[()]
        kept = np.right_shift(a, count)  # by width - 1 leaves the sign
        return (kept if dtype.kind == "i" else np.where(inside, kept, 0)).astype(compute_dtype(dtype))[()]

    return apply


_INDEX_SCALARS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "floormod": lambda a, b: a % b if b else 0,
    "truncdiv": lambda a, b: (abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))) if b else 0,
    "truncmod": lambda a, b: (abs(a) % abs(b) if a >= 0 else -(abs(a) % abs(b))) if b else 0,
    "min": min,
    "max": max,
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b if 0 <= b < 64 else 0,
    "shr": lambda a, b: a >> b if 0 <= b < 64 else -(a < 0),
}
_INT: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "floormod": np.remainder,
    "truncdiv": _truncdiv, "truncmod": np.fmod, "min": np.minimum, "max": np.maximum, "pow": _int_power,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
}  # fmt: skip
_FLOAT: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide, "floormod": np.remainder,
    "truncdiv": lambda a, b: np.trunc(np.divide(a, b)), "truncmod": np.fmod, "min": np.fmin, "max": np.fmax, "pow": np.power,
    "atan2": np.arctan2, "fmod": np.fmod, "copysign": np.copysign, "hypot": np.hypot,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
}  # fmt: skip


@cache
def binary(op: str, dtype: DType) -> Callable[[Any, Any], Any]:
    """The function of two values of `dtype` that `Binary(op)` means; `and` / `or` are not here, since they are lazy."""
    if op in COMPARE:
        return _COMPARE[op]
    if dtype.is_float:
        if op not in _FLOAT:
            raise InternalError(f"{op} of {dtype}")
        return _finished(_FLOAT[op], rounder(dtype))
    if dtype.is_bool:
        if op not in ("bitand", "bitor", "bitxor", "min", "max"):
            raise InternalError(f"{op} of bool")
        return lambda a, b: plain(_INT[op](a, b), BOOL)
    if op not in _INT and op not in ("shl", "shr"):
        raise InternalError(f"{op} of {dtype}")
    arrays = _shift(op, dtype) if op in ("shl", "shr") else _INT[op]
    if dtype == INDEX:
        if op == "pow":
            return lambda a, b: plain(_int_power(np.asarray(a, np.int64), np.asarray(b, np.int64)), INDEX)
        return _both_ints(_INDEX_SCALARS[op], arrays)
    return _finished(arrays, rounder(dtype))


def _finished(function: Callable[..., Any], finish: Callable[[Any], Any] | None) -> Callable[..., Any]:
    return function if finish is None else (lambda *args: finish(function(*args)))


# ---------------------------------------------------------------------------------------------- one operand
_erf_each = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Any) -> Any:
    return np.asarray(_erf_each(np.asarray(x, np.float64))).astype(x.dtype)[()]


def _round_half_away(x: Any) -> Any:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole)[()]


_FLOAT_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": np.negative, "abs": np.abs, "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(x.dtype.type(10), x), "log": np.log,
    "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "expm1": np.expm1, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": _erf, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "round": _round_half_away, "nearbyint": np.rint,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip


def _unsigned(x: Any, dtype: DType) -> Any:
    bits = np.asarray(x, compute_dtype(dtype)).view(f"u{compute_dtype(dtype).itemsize}").astype(np.uint64)
    return bits & np.uint64((1 << dtype.bits) - 1)


def _popcount(x: Any, dtype: DType) -> Any:
    bits = _unsigned(x, dtype)
    total = np.zeros_like(bits)
    for shift in range(dtype.bits):
        total += (bits >> np.uint64(shift)) & np.uint64(1)
    return total


def _clz(x: Any, dtype: DType) -> Any:
    bits = _unsigned(x, dtype)
    length = np.zeros_like(bits)
    for shift in range(dtype.bits):
        length = np.where(bits >> np.uint64(shift), np.uint64(shift + 1), length)
    return np.uint64(dtype.bits) - length


@cache
def unary(op: str, dtype: DType) -> Callable[[Any], Any]:
    """The function of one value of `dtype` that `Unary(op)` means."""
    if op == "not":
        return lambda x: (not x) if type(x) is bool else np.logical_not(x)
    if dtype.is_float:
        return _finished(_FLOAT_UNARY[op], None if op.startswith("is") else rounder(dtype))
    if op in ("popcount", "clz"):
        count = _popcount if op == "popcount" else _clz
        return lambda x: plain(count(x, dtype).astype(compute_dtype(dtype))[()], dtype)
    if op in ("floor", "ceil", "trunc", "round", "nearbyint"):
        return lambda x: x
    if op in ("isnan", "isinf"):
        return lambda x: False
    if op == "isfinite":
        return lambda x: True
    if dtype.is_bool and op == "bitnot":
        return lambda x: (not x) if type(x) is bool else np.logical_not(x)
    whole = {"neg": np.negative, "abs": np.abs, "bitnot": np.invert}.get(op)
    if whole is None:
        raise InternalError(f"{op} of {dtype}")
    if dtype == INDEX:
        python: Callable[[int], int] = {"neg": lambda x: -x, "abs": abs, "bitnot": lambda x: ~x}[op]
        return lambda x: _wrap(python(x)) if type(x) is int else whole(x)
    return _finished(whole, rounder(dtype))


# ---------------------------------------------------------------------------------------------- conversions
def _round_to_odd(x: Any) -> Any:
    """float64 -> float32 so that a second rounding, to a float of at most 22 bits of precision, is as good as one."""
    near = x.astype(np.float32)
    back = near.astype(np.float64)
    toward_zero = np.where(np.abs(back) > np.abs(x), np.nextafter(near, np.float32(0)), near).astype(np.float32)
    bits = np.asarray(toward_zero).view(np.uint32) | np.where((back != x) & np.isfinite(back), 1, 0).astype(np.uint32)
    return np.where(np.isfinite(near), bits.view(np.float32), near)


def round_from_double(x: Any, dtype: DType) -> Any:
    """float64 values rounded once to the narrow float `dtype`, as float32."""
    if dtype == "float16":
        return x.astype(np.float16).astype(np.float32)
    return _round_to_odd(np.asarray(x)).astype(dtype.to_numpy()).astype(np.float32)[()]


def _saturate(x: Any, dtype: DType) -> Any:
    low, high, target = float(dtype.min), float(dtype.max), compute_dtype(dtype)
    whole = np.trunc(np.asarray(x, np.float64))
    top = np.nextafter(high, 0) if int(high) > dtype.max else high  # 2**63 - 1 is no double
    result = np.clip(np.where(np.isnan(whole), 0, whole), low, top).astype(target)
    return np.where(whole > top, target.type(dtype.max), result)[()]


@cache
def caster(source: DType, target: DType) -> Callable[[Any], Any] | None:
    """The function that `Cast` means, from values of `source` to values of `target`; None if it changes nothing."""
    if source == target or (source.is_float and target.is_float and {source, target} == {DType("float32"), DType("tfloat32")}):
        return None
    have, want = compute_dtype(source), compute_dtype(target)
    if target.is_bool:
        return lambda x: plain(x != 0, BOOL)
    if source.is_float:
        if not target.is_float:
            return lambda x: plain(_saturate(x, target), target)
        if is_narrow(target):
            return (lambda x: round_from_double(x, target)) if source.bits == 64 else rounder(target)
        return None if have == want else (lambda x: x.astype(want))

    def array(x: Any) -> Any:
        return x if isinstance(x, np.ndarray | np.generic) else have.type(x)

    if is_narrow(target):
        return lambda x: round_from_double(array(x).astype(np.float64), target)
    if target == INDEX:
        return lambda x: plain(array(x).astype(want), INDEX)
    finish = rounder(target)
    return (lambda x: array(x).astype(want)) if finish is None else (lambda x: finish(array(x).astype(want)))


def to_storage(x: Any, dtype: DType) -> Any:
    """Values as the elements that memory holds (4-bit: a uint8 with the bits in its low half)."""
    if dtype.bits == 4:
        return (np.asarray(x, compute_dtype(dtype)).view(np.uint8)) & 15
    return np.asarray(x, compute_dtype(dtype)).astype(storage_dtype(dtype), copy=False)


def from_storage(x: Any, dtype: DType) -> Any:
    """Elements of memory as values; the array itself where the two are one."""
    if dtype.bits == 4:
        finish = rounder(dtype)
        return finish(x.view(compute_dtype(dtype))) if finish is not None else x
    return plain(x.astype(np.float32), dtype) if is_narrow(dtype) else plain(x, dtype)


def reinterpreter(source: DType, target: DType) -> Callable[[Any], Any]:
    """The function that `Reinterpret` means: the bits of a value read as another dtype of one width."""
    return lambda x: from_storage(to_storage(x, source).view(storage_dtype(target))[()], target)

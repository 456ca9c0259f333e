"""The expression semantics of `ir/expr.py` written a second time: one element at a time, on Python numbers, sharing no code with the interpreter.

Integers are Python ints, floats are Python floats that the narrow type can hold; each operation is done exactly or in double and rounded once.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import numpy as np

from tileworkbench.base.dtypes import DType
from tileworkbench.ir.expr import Binary, Cast, Const, Expr, Load, Reinterpret, Select, Unary, Var

# name: (exponent bits, mantissa bits, has infinity)
FORMATS = {"float16": (5, 10, True), "bfloat16": (8, 7, True), "float8_e4m3fn": (4, 3, False), "float8_e5m2": (5, 2, True), "float32": (8, 23, True)}


def wrap(x: int, dtype: DType) -> int:
    span = 1 << dtype.bits
    x %= span
    return x - span if dtype.kind == "i" and x >= span // 2 else x


def round_float(x: float | Fraction | int, dtype: DType) -> float:
    """`x` to the nearest value of the format, ties to even, by exact arithmetic."""
    if isinstance(x, float) and (math.isnan(x) or math.isinf(x)):
        return math.nan if math.isinf(x) and dtype == "float8_e4m3fn" else x
    if dtype == "float64":
        return float(x)
    exponent_bits, mantissa, has_infinity = FORMATS[dtype]
    bias = (1 << (exponent_bits - 1)) - 1
    exact = Fraction(x)
    if exact == 0:
        return math.copysign(0.0, x) if isinstance(x, float) else 0.0
    size = abs(exact)
    exponent = max(math.floor(math.log2(size)) if size < 2**1000 else 1000, 1 - bias)
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    while exponent > 1 - bias and Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (exponent - mantissa)
    count = size / unit
    whole = math.floor(count)
    rest = count - whole
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    rounded = whole * unit
    # the largest value that rounds to a finite one: IEEE keeps the top exponent for infinity, e4m3fn uses all of it but one code
    largest = Fraction(dtype.max)
    if rounded > largest:
        return math.copysign(math.inf if has_infinity else math.nan, float(exact))
    return math.copysign(float(rounded), float(exact))


def value(e: Expr, env: dict[str, Any], memory: dict[str, Any]) -> Any:
    """The value of `e`; `memory` holds nested lists by buffer name."""
    match e:
        case Const(v, dtype):
            return round_float(float(v), dtype) if dtype.is_float else bool(v) if dtype.is_bool else int(v)
        case Var(name):
            return env[name]
        case Load(buffer, indices):
            found = memory[buffer.name]
            for i in indices:
                at = value(i, env, memory)
                if not 0 <= at < len(found):
                    return buffer.safe_value or (0.0 if buffer.dtype.is_float else 0)
                found = found[at]
            return found
        case Select(cond, then, other):
            return value(then if value(cond, env, memory) else other, env, memory)
        case Binary("and", a, b):
            return bool(value(a, env, memory) and value(b, env, memory))
        case Binary("or", a, b):
            return bool(value(a, env, memory) or value(b, env, memory))
        case Binary(name, a, b):
            return binary(name, value(a, env, memory), value(b, env, memory), a.dtype)
        case Unary(name, x):
            return unary(name, value(x, env, memory), x.dtype)
        case Cast(x, to):
            return cast(value(x, env, memory), x.dtype, to)
        case Reinterpret(x, to):
            raw = to_bytes(value(x, env, memory), x.dtype)
            return from_bytes(raw, to)
    raise AssertionError(e)


def finish(x: Any, dtype: DType) -> Any:
    if dtype.is_float:
        return round_float(x, dtype)
    return bool(x) if dtype.is_bool else wrap(int(x), dtype)


def binary(name: str, a: Any, b: Any, dtype: DType) -> Any:
    if name in ("lt", "le", "gt", "ge", "eq", "ne"):
        return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[name]
    if dtype.is_float:
        return finish(float_binary(name, a, b, dtype), dtype)
    width = dtype.bits
    match name:
        case "add":
            x = a + b
        case "sub":
            x = a - b
        case "mul":
            x = a * b
        case "floordiv":
            x = a // b if b else 0
        case "floormod":
            x = a % b if b else 0
        case "truncdiv":
            x = int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b)) if b else 0
        case "truncmod":
            x = int(math.copysign(1, a)) * (abs(a) % abs(b)) if b else 0
        case "min":
            x = min(a, b)
        case "max":
            x = max(a, b)
        case "pow":
            x = a**b if b >= 0 else (a**-b if abs(a) == 1 else 0)
        case "bitand":
            x = a & b
        case "bitor":
            x = a | b
        case "bitxor":
            x = a ^ b
        case "shl":
            x = a << b if 0 <= b < width else 0
        case "shr":
            x = a >> b if 0 <= b < width else (-1 if a < 0 else 0)
        case _:
            raise AssertionError(name)
    return finish(x, dtype)


def float_binary(name: str, a: float, b: float, dtype: DType) -> Any:
    if name in ("min", "max"):
        if math.isnan(a) or math.isnan(b):
            return b if math.isnan(a) else a
        return min(a, b) if name == "min" else max(a, b)
    if name in ("add", "sub", "mul") and math.isfinite(a) and math.isfinite(b):
        x, y = Fraction(a), Fraction(b)
        exact = x + y if name == "add" else x - y if name == "sub" else x * y
        if exact == 0:  # the sign of zero is IEEE's
            return {"add": a + b, "sub": a - b, "mul": a * b}[name]
        if dtype.bits < 32:  # computed in float32, then rounded
            return round_float(exact, DType("float32"))
        return exact
    with np.errstate(all="ignore"):
        x, y = np.float64(a), np.float64(b)
        found = {
            "add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y, "div": lambda: x / y, "copysign": lambda: np.copysign(x, y),
            "fmod": lambda: np.fmod(x, y), "truncmod": lambda: np.fmod(x, y),
        }[name]()  # fmt: skip
        return float(found) if dtype.bits == 64 or name != "div" else round_float(float(found), DType("float32"))


def unary(name: str, x: Any, dtype: DType) -> Any:
    match name:
        case "not":
            return not x
        case "neg":
            return finish(-x, dtype)
        case "abs":
            return finish(abs(x), dtype)
        case "bitnot":
            return (not x) if dtype.is_bool else finish(~x, dtype)
        case "popcount":
            return finish((x % (1 << dtype.bits)).bit_count(), dtype)
        case "clz":
            return finish(dtype.bits - (x % (1 << dtype.bits)).bit_length(), dtype)
        case "isnan":
            return dtype.is_float and math.isnan(x)
        case "isinf":
            return dtype.is_float and math.isinf(x)
        case "isfinite":
            return not dtype.is_float or math.isfinite(x)
        case "floor" | "ceil" | "trunc" | "round" | "nearbyint":
            if not dtype.is_float or not math.isfinite(x):
                return x
            away = math.floor(abs(Fraction(x)) + Fraction(1, 2))
            whole = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "nearbyint": round, "round": lambda v: away if v > 0 else -away}[
                name
            ](x)
            return finish(math.copysign(float(whole), x) if whole == 0 else float(whole), dtype)
        case "sqrt":
            return math.nan if math.isnan(x) or x < 0 else finish(math.sqrt(x), dtype)
    raise AssertionError(name)


def cast(x: Any, source: DType, to: DType) -> Any:
    if to.is_bool:
        return x != 0
    if to.is_float:
        return round_float(x if isinstance(x, float) else Fraction(int(x)), to)
    if not source.is_float:
        return wrap(int(x), to)
    if math.isnan(x):
        return 0
    return int(min(max(math.trunc(x) if math.isfinite(x) else x, to.min), to.max))


def to_bytes(x: Any, dtype: DType) -> int:
    """The bits of a value."""
    if dtype.is_float:
        raw = np.asarray(x, np.float64).astype(dtype.to_numpy())
        return int.from_bytes(raw.tobytes(), "little")
    return int(x) % (1 << dtype.bits)


def from_bytes(bits: int, dtype: DType) -> Any:
    if dtype.is_float:
        raw = np.frombuffer(bits.to_bytes(dtype.bits // 8, "little"), dtype.to_numpy())
        return float(raw[0])
    return bool(bits) if dtype.is_bool else wrap(bits, dtype)


def same(got: Any, want: Any) -> bool:
    """Equal, with NaN equal to NaN and the sign of zero told apart."""
    if isinstance(want, float):
        got = float(got)
        if math.isnan(want):
            return math.isnan(got)
        return struct.pack("d", got) == struct.pack("d", want)
    return int(got) == int(want)

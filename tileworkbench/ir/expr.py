"""Expressions: what a kernel computes, one value at a time.

Semantics, for every target:

- **Integers** wrap in their dtype. Loop variables, block and thread indices and symbolic dims are int64 ("index"), and so is
  arithmetic on them, so index arithmetic never wraps. `floordiv` and `floormod` follow Python, `truncdiv`/`truncmod` C.
  Division by zero of integers gives 0. A shift by a negative count, or by the width or more, gives 0 (arithmetic right: the sign).
- **Floats** of 32 and 64 bits are IEEE. Narrower floats (float16, bfloat16, float8) are computed in float32 and rounded to
  nearest even once per operation; a target may keep float32 between the operations of one expression.
  `min`/`max` ignore a NaN operand; comparisons with NaN are false except `ne`.
- **Casts** float -> narrower float round to nearest even, keep NaN, and overflow to infinity (to NaN in float8_e4m3fn). Float -> int truncates
  towards zero; outside the range of the type it saturates, NaN gives 0. Int -> int wraps. Anything -> bool is `!= 0`.
- **and, or, select** are lazy: a side that is not taken is not evaluated, so they may guard a load.
- **Loads** from a global buffer outside its shape give the buffer's safe value (0 unless annotated). On-chip loads outside
  give 0 where the compiler cannot prove them inside (a proved one is an error before the kernel runs).
- Both operands of an arithmetic `Binary` have the same dtype; the frontend inserts the casts. Evaluation order does not matter:
  expressions have no side effects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..base.dtypes import BOOL, INDEX, DType
from .node import Node

ARITHMETIC = ("add", "sub", "mul", "div", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max", "pow", "atan2", "fmod", "copysign", "hypot")
BITWISE = ("bitand", "bitor", "bitxor", "shl", "shr")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
LOGICAL = ("and", "or")
UNARY = (
    "neg", "not", "bitnot", "abs", "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "floor", "ceil", "trunc", "round", "nearbyint",
    "isnan", "isinf", "isfinite", "popcount", "clz",
)  # fmt: skip
BOOL_UNARY = ("not", "isnan", "isinf", "isfinite")


@dataclass(frozen=True, slots=True)
class Expr(Node):
    """Base of expressions; every one has a `dtype`."""

    @property
    def dtype(self) -> DType:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A literal: a Python int, float or bool, already rounded to `type`. Infinity and NaN are allowed for floats."""

    value: int | float | bool
    type: DType = INDEX

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A named immutable scalar: loop variable, `Let`, block or thread index, symbolic dim or scalar parameter.

    Names are unique in a kernel; `hint` is what the author called it.
    """

    name: str
    type: DType = INDEX
    hint: str = field(default="", compare=False)

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class Buffer(Node):
    """A named array of elements: a kernel argument, an on-chip tile, a workspace, or another view of one.

    `shape` holds expressions (constants for on-chip buffers); `strides` count elements, `None` means row-major. `scope` is one of
    "global" (argument or workspace), "shared" and "fragment" (a block's tiles), "local" (an array of each thread), "var" (a mutable
    scalar of each thread, shape (1,)). `view_of` names the buffer whose storage a reshaped or retyped view shares.
    """

    is_symbol: ClassVar[bool] = True
    name: str
    shape: tuple[Expr, ...]
    type: DType
    scope: str = "global"
    strides: tuple[Expr, ...] | None = None
    safe_value: int | float | None = None
    view_of: Buffer | None = None
    offset: Expr | None = None  # elements from the start of view_of's storage, in this buffer's own element size

    def __hash__(self) -> int:
        return hash(self.name)  # names are unique in a kernel; hashing the shape would be slow

    @property
    def dtype(self) -> DType:
        return self.type

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def root(self) -> Buffer:
        """The buffer that owns the storage."""
        return self if self.view_of is None else self.view_of.root

    @property
    def is_on_chip(self) -> bool:
        return self.scope != "global"

    def static_shape(self) -> tuple[int, ...]:
        """The shape as ints; raises ValueError if a dim is symbolic."""
        sizes = [int(d.value) for d in self.shape if isinstance(d, Const)]
        if len(sizes) != len(self.shape):
            raise ValueError(f"{self.name} has a symbolic dim")
        return tuple(sizes)

    def static_bytes(self) -> int:
        """Bytes from the first element to behind the last; rounded up for 4-bit types. Strides are constants."""
        sizes = self.static_shape()
        count = 1
        for d in sizes:
            count *= d
        if self.strides is not None and count:
            count = 1 + sum((d - 1) * int(s.value) for d, s in zip(sizes, self.strides, strict=True) if isinstance(s, Const))
        return (count * self.type.bits + 7) // 8


@dataclass(frozen=True, slots=True)
class Load(Expr):
    """One element of `buffer`; one index per dim."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> DType:
        return self.buffer.type


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """`op(x)`, op one of UNARY. The result has x's dtype; `not` and the is-tests give bool; `popcount`, `clz` keep x's dtype."""

    op: str
    x: Expr

    @property
    def dtype(self) -> DType:
        return BOOL if self.op in BOOL_UNARY else self.x.dtype


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """`a op b`, both of one dtype. Comparisons and logical operations give bool, the rest the operands' dtype."""

    op: str
    a: Expr
    b: Expr

    @property
    def dtype(self) -> DType:
        return BOOL if self.op in COMPARE or self.op in LOGICAL else self.a.dtype


@dataclass(frozen=True, slots=True)
class Select(Expr):
    """`then` if `cond` (bool) else `other`, lazily; both sides have one dtype."""

    cond: Expr
    then: Expr
    other: Expr

    @property
    def dtype(self) -> DType:
        return self.then.dtype


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """`x` converted by value; the module docstring says how it rounds."""

    x: Expr
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class Reinterpret(Expr):
    """The bits of `x` read as `type`, which has the same width."""

    x: Expr
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class CallExtern(Expr):
    """A call of a C function that `T.import_source` brought; only compiled targets can run it."""

    name: str
    args: tuple[Expr, ...]
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class AddressOf(Expr):
    """A pointer to an element, only as an argument of `CallExtern`."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> DType:
        return INDEX


def const(value: Any, dtype: DType = INDEX) -> Const:
    """A literal of `dtype`; floats are rounded to it, ints wrapped."""
    if dtype.is_bool:
        return Const(bool(value), dtype)
    if dtype.is_float:
        number = float(value)
        if dtype not in ("float64",):
            with np.errstate(over="ignore"):
                number = float(np.asarray(number).astype(dtype.to_numpy()))
        return Const(number, dtype)
    span, low = 1 << dtype.bits, int(dtype.min)
    return Const((int(value) - low) % span + low, dtype)


def is_const(expr: Expr, value: Any = None) -> bool:
    """True for a literal (equal to `value`, if one is given)."""
    return isinstance(expr, Const) and (value is None or expr.value == value)

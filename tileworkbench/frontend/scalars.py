"""Scalars of a kernel with Python's operators.

A `Value` wraps an expression; operators build larger expressions and nothing is computed yet. One that is constant
(`T.infinity("float32")`, `T.int32(3) + 1`) converts to int, float and bool; any other use as a Python condition or number is an
error, because a kernel runs later.

>>> i = Value(Var("i"))
>>> print_expr(((i + 1) * 64 - i * 64 < 100).expr)
'(i + 1) * 64 - i * 64 < 100'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from ..base.dtypes import BOOL, FLOAT64, INT32, INT64, UINT64, DType
from ..base.errors import TileNameError, TileTypeError, TileValueError
from ..ir.expr import Buffer, Const, Expr, Load, Var, const
from ..ir.printer import print_expr
from ..ir.stmt import Store
from ..language._dispatch import WORDS
from . import arith
from .builder import active, current

NUMBERS = (int, float, np.generic)
_NO_NUMBERS = (str, bytes, type(None), list, tuple, dict, set, complex)


def _binary(op: str, a: Any, b: Any) -> Any:
    """`a op b` where at least one is a Value; NotImplemented for what is no number."""
    if isinstance(a, Value):
        if isinstance(b, Value):
            return Value(arith.binary(op, a.expr, divisor(op, b.expr)))
        if isinstance(b, NUMBERS):
            return Value(arith.binary(op, a.expr, divisor(op, arith.literal(b, a.dtype))))
    elif isinstance(a, NUMBERS):
        return Value(arith.binary(op, arith.literal(a, b.dtype), b.expr))
    other = b if isinstance(a, Value) else a
    if op not in ("eq", "ne") and isinstance(other, (*_NO_NUMBERS, np.ndarray)):
        return as_expr(other)  # raises, and says what is expected
    return NotImplemented


def divisor(op: str, e: Expr) -> Expr:
    """`e`, as what `op` divides by if it is a division. Raises: TileValueError if it is the integer 0."""
    if op in ("floordiv", "truncdiv", "floormod", "truncmod") and arith.const_int(e) == 0:
        raise TileValueError("integer division by zero", hint="the divisor is 0 when the kernel is built")
    return e


def _operator(op: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: _binary(op, self, other)


def _reflected(op: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: _binary(op, other, self)


_UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "floor_divide": "floordiv", "remainder": "floormod",
    "power": "pow", "bitwise_and": "bitand", "bitwise_or": "bitor", "bitwise_xor": "bitxor", "left_shift": "shl", "right_shift": "shr",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
}  # fmt: skip


class Value:
    """A scalar of the kernel, known only when it runs. `.dtype` is its element type, `.expr` the IR."""

    __slots__ = ("expr",)
    expr: Expr

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    @property
    def dtype(self) -> DType:
        return self.expr.dtype

    @property
    def is_constant(self) -> bool:
        return isinstance(self.expr, Const)

    def astype(self, dtype: Any) -> Value:
        """This value converted to `dtype`, as `T.cast(x, dtype)`."""
        return Value(arith.cast(self.expr, DType(dtype)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        """NumPy scalars on the left leave the operator to us; NumPy's functions cannot work on a kernel value."""
        operation = _UFUNCS.get(ufunc.__name__)
        if operation is not None and method == "__call__" and len(inputs) == 2:
            return _binary(operation, *(x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else x for x in inputs))
        raise TileTypeError(
            f"NumPy's {ufunc.__name__} cannot work on {print_expr(self.expr)} ({self.dtype}), which is known only when the kernel runs",
            hint=f"use the word of the language, such as T.{ufunc.__name__}(x)" if ufunc.__name__ in WORDS else "dir(T) lists the words",
        )

    def __matmul__(self, other: Any) -> NoReturn:
        raise TileTypeError("@ multiplies matrices, not numbers", hint="write x * y; for tiles, T.gemm(A, B, C)")

    __rmatmul__ = __matmul__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or hasattr(type(self), name):
            raise AttributeError(name)
        raise TileNameError(f"{print_expr(self.expr)} is a {self.dtype} value of the kernel and has no `.{name}`", hint=_has(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.dtype} {print_expr(self.expr)}>"

    def __hash__(self) -> int:
        return id(self)

    # arithmetic
    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("sub"), _reflected("sub")
    __mul__, __rmul__ = _operator("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _operator("div"), _reflected("div")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _reflected("floordiv")
    __mod__, __rmod__ = _operator("floormod"), _reflected("floormod")
    __pow__, __rpow__ = _operator("pow"), _reflected("pow")
    __and__, __rand__ = _operator("bitand"), _reflected("bitand")
    __or__, __ror__ = _operator("bitor"), _reflected("bitor")
    __xor__, __rxor__ = _operator("bitxor"), _reflected("bitxor")
    __lshift__, __rlshift__ = _operator("shl"), _reflected("shl")
    __rshift__, __rrshift__ = _operator("shr"), _reflected("shr")

    def __neg__(self) -> Value:
        return Value(arith.unary("neg", self.expr))

    def __pos__(self) -> Value:
        return Value(self.expr)

    def __abs__(self) -> Value:
        return Value(arith.unary("abs", self.expr))

    def __invert__(self) -> Value:
        return Value(arith.unary("bitnot", self.expr))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __round__(self, digits: int = 0) -> Value:
        """Python's `round`: halves to even."""
        if digits:
            raise TileTypeError("a kernel value rounds to integers only", hint="scale it first: T.round(x * 100) / 100")
        return Value(arith.unary("nearbyint", self.expr))

    def __floor__(self) -> Value:
        return Value(arith.unary("floor", self.expr))

    def __ceil__(self) -> Value:
        return Value(arith.unary("ceil", self.expr))

    def __trunc__(self) -> Value:
        return Value(arith.unary("trunc", self.expr))

    # comparisons
    __lt__ = _operator("lt")
    __le__ = _operator("le")
    __gt__ = _operator("gt")
    __ge__ = _operator("ge")

    def __eq__(self, other: Any) -> Any:
        return _binary("eq", self, other)

    def __ne__(self, other: Any) -> Any:
        return _binary("ne", self, other)

    # Python values, for constants only
    def __bool__(self) -> bool:
        return bool(self._number("a Python condition", "inside a kernel use if/while/and/or directly, or T.if_then_else(cond, a, b)"))

    def __index__(self) -> int:
        if self.dtype.is_float:
            raise TileTypeError(f"a {self.dtype} value is no integer", hint='convert it with T.cast(x, "int32")')
        return int(self._number("a Python int", "shapes and list indices must be known when the kernel is built"))

    def __int__(self) -> int:
        return int(self._number("a Python int", 'T.cast(x, "int32") converts inside the kernel'))

    def __float__(self) -> float:
        return float(self._number("a Python float", 'T.cast(x, "float32") converts inside the kernel'))

    def __iter__(self) -> Iterator[Any]:
        """A launch index is also a tuple of one: `with T.Kernel(n) as (bx,)`."""
        if not isinstance(self.expr, Var):
            raise TileTypeError(f"{print_expr(self.expr)} ({self.dtype}) is one number, not a sequence", hint="use `for i in T.serial(n)`")
        yield self

    def _number(self, what: str, hint: str) -> int | float | bool:
        if isinstance(self.expr, Const):
            return self.expr.value
        raise TileTypeError(f"{print_expr(self.expr)} ({self.dtype}) is known only when the kernel runs and cannot be used as {what}", hint=hint)


class ElementValue(Value):
    """One element of a buffer: a value when read, an address for copies and atomics."""

    __slots__ = ("buffer", "indices")

    def __init__(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        self.buffer = buffer
        self.indices = indices
        builder = active()
        super().__init__(Load(buffer, indices, span=builder.span() if builder is not None else None))

    def assign(self, value: Any) -> None:
        """Emit the store of `value` here."""
        store(self.buffer, self.indices, value)


class Tile:
    """What buffers and slices have in common: they are not numbers."""

    __slots__ = ()
    __array_ufunc__ = None

    def _refuse(self, *_: Any) -> NoReturn:
        raise TileTypeError(
            f"{self.describe()} is a tile, not a number", hint="work on its elements inside `for i, j in T.Parallel(...)`, or use a tile operation"
        )

    def describe(self) -> str:
        raise NotImplementedError

    def __matmul__(self, other: Any) -> NoReturn:
        raise TileTypeError("@ does not multiply tiles", hint="use T.gemm(A, B, C), which adds A @ B to C")

    __rmatmul__ = __matmul__

    def __call__(self, *index: Any) -> NoReturn:
        raise TileTypeError(f"{self.describe()} is a tile, not a function", hint="index it with square brackets, such as tile[i, j]")

    def __len__(self) -> int:
        raise TileTypeError(f"{self.describe()} is a tile, not a sequence", hint="`.shape[0]` is the extent of its first dim")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or hasattr(type(self), name):
            raise AttributeError(name)
        raise TileNameError(f"{self.describe()} has no `.{name}`", hint=_has(self))

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _refuse
    __mod__ = __rmod__ = __pow__ = __rpow__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rlshift__ = _refuse
    __rshift__ = __rrshift__ = __neg__ = __abs__ = __invert__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __float__ = __int__ = __index__ = __round__ = _refuse

    def __bool__(self) -> bool:
        raise TileTypeError(
            f"{self.describe()} is a tile and cannot be a condition",
            hint="test one element, such as `if buf[0] > 0`, or use T.any_of(buf) or T.all_of(buf)",
        )

    def __iter__(self) -> Iterator[Any]:
        raise TileTypeError(f"{self.describe()} is a tile, not a sequence", hint="loop over its indices: `for i in T.serial(n)` or T.Parallel")


# ---------------------------------------------------------------------------------------------- conversions
def as_expr(x: Any, dtype: DType | None = None, beside: DType | None = None) -> Expr:
    """The IR of a scalar: a Value, a Python or a NumPy number. `dtype` converts it; a literal goes with the dtype `beside`.

    Raises: TileTypeError for tiles, None, strings and other objects.
    """
    if isinstance(x, Value):
        return x.expr if dtype is None else arith.cast(x.expr, dtype)
    if is_number(x):
        return arith.literal(x, beside) if dtype is None else arith.cast(_fitting(x, dtype), dtype)
    if isinstance(x, np.ndarray) and x.ndim == 0:
        return as_expr(x.item(), dtype, beside)
    if isinstance(x, Tile):
        x._refuse()
    if isinstance(x, Expr):
        return x if dtype is None else arith.cast(x, dtype)
    hint = "a kernel computes with scalars; index a buffer to get one"
    if isinstance(x, tuple) and any(isinstance(v, Value) for v in x):
        hint = "give each its name: `for i, j in T.Parallel(M, N)`"
    raise TileTypeError(f"expected a number or a kernel value, got {shown(x)}", hint=hint)


def shown(x: Any) -> str:
    """How a message calls a value that does not fit: short, and on one line."""
    match x:
        case None:
            return "None"
        case np.ndarray():
            return f"a NumPy array of shape {x.shape}"
        case Value():
            return f"the {x.dtype} value {print_expr(x.expr)}"
        case tuple() if any(isinstance(v, Value) for v in x):
            return f"a tuple of {len(x)} kernel values"
    text = " ".join(repr(x).split())
    return f"{type(x).__name__} {text if len(text) <= 80 else text[:77] + '...'}"


def _fitting(x: Any, dtype: DType) -> Const:
    """The number `x`, if an integer dtype has bits for it, read as signed or as unsigned: -1 and 255 go into int8 and uint8, 256 into neither."""
    number = literal_of(x)
    if dtype.is_int and isinstance(x, int | np.integer) and not -(1 << (dtype.bits - 1)) <= int(x) < 1 << dtype.bits:
        raise TileValueError(
            f"{x} does not fit in {dtype}", hint=f"{dtype} holds {dtype.min} to {dtype.max}; use a wider dtype, or T.cast to wrap around"
        )
    return number


def literal_of(x: Any) -> Const:
    """A Python number in the widest dtype of its kind, so that converting it rounds once. Raises: TileValueError if none holds it."""
    number = x.item() if isinstance(x, np.generic) else x
    if isinstance(number, bool) or not isinstance(number, int):
        return const(number, BOOL if isinstance(number, bool) else FLOAT64)
    arith.check_range(number, FLOAT64)
    return const(number, INT64 if -(1 << 63) <= number < 1 << 63 else UINT64 if 0 < number < 1 << 64 else FLOAT64)


def _has(value: Any) -> str:
    """A hint that lists the attributes an author may use."""
    inner = ("expr", "describe", "assign", "is_constant")
    return "it has " + ", ".join(f".{n}" for n in dir(type(value)) if not n.startswith("_") and n not in inner)


def store(buffer: Buffer, indices: tuple[Expr, ...], value: Any) -> None:
    """Emit `buffer[indices] = value`, converted to the buffer's dtype."""
    current(f"assigning to {buffer.name}").emit(Store(buffer, indices, as_expr(value, buffer.type)))


def is_number(x: Any) -> bool:
    """True for a Python or NumPy number (a bool is one)."""
    return isinstance(x, NUMBERS) and not isinstance(x, np.str_ | np.bytes_)


def both(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Two operands, of which a Python number takes the other's dtype; two Python ints are int32 where they fit."""
    if is_number(a) and is_number(b):
        low, high = arith.literal(a, INT32), arith.literal(b, INT32)
        return low, high
    if is_number(a):
        right = as_expr(b)
        return as_expr(a, beside=right.dtype), right
    left = as_expr(a)
    return left, as_expr(b, beside=left.dtype)

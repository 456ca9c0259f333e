"""Python's lazy operators and built-in functions over values that may belong to the kernel.

`a if c else b`, `and`, `or`, `not` and chained comparisons cannot be overloaded in Python, so the rewriter calls these instead.
Without a kernel value each does what Python does.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any

from ..base.dtypes import BOOL, FLOAT32, INT32
from ..base.errors import TileSyntaxError, TileTypeError
from ..ir.expr import Const, Expr
from . import arith
from .builder import current
from .loops import kernel_range
from .positions import here
from .values import Tile, Value, as_expr


def is_kernel(value: Any) -> bool:
    """True for what is known only when the kernel runs: values, buffers, slices."""
    return isinstance(value, Value | Tile)


def condition_of(value: Any) -> Expr:
    """A kernel value as a bool expression; numbers are true when not zero. Raises: TileTypeError for buffers."""
    if isinstance(value, Tile):
        bool(value)  # raises
    return arith.to_bool(as_expr(value))


def choose(condition: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """`then if condition else other`."""
    if not is_kernel(condition):
        return then() if condition else other()
    test = condition_of(condition)
    if isinstance(test, Const):
        return then() if test.value else other()
    a, b = _pure(then, "a conditional expression"), _pure(other, "a conditional expression")
    if isinstance(a, Tile) or isinstance(b, Tile):
        raise TileTypeError("a kernel value cannot choose between buffers", span=here(), hint="write an if statement with a copy in each branch")
    return Value(arith.select(test, as_expr(a, beside=getattr(b, "dtype", None)), as_expr(b, beside=getattr(a, "dtype", None))))


def both(first: Any, *rest: Callable[[], Any]) -> Any:
    """`first and ...`."""
    return _logical("and", first, list(rest), stops_at=False)


def either(first: Any, *rest: Callable[[], Any]) -> Any:
    """`first or ...`."""
    return _logical("or", first, list(rest), stops_at=True)


def _logical(op: str, value: Any, rest: list[Callable[[], Any]], stops_at: bool) -> Any:
    """Python values decide now; kernel values are joined; the rest is not evaluated once the result is known."""
    found: Expr | None = None
    while True:
        test = condition_of(value) if is_kernel(value) else None
        if test is None or isinstance(test, Const):
            known = bool(value) if test is None else bool(test.value)
            if known == stops_at or (not rest and found is None):
                return value if found is None else known
        else:
            found = test if found is None else arith.binary(op, found, test)
        if not rest:
            return Value(found) if found is not None else value
        side = rest.pop(0)
        value = side() if found is None else _pure(side, f"`{op}`")


def negate(value: Any) -> Any:
    """`not value`."""
    return Value(arith.unary("not", condition_of(value))) if is_kernel(value) else not value


def chain(left: Any, *parts: Any) -> Any:
    """`a < b < c`: each operand evaluated once. `parts` alternates operators and delayed operands."""
    found: Any = True
    for op, operand in zip(parts[::2], parts[1::2], strict=True):
        right = operand() if found is True else _pure(operand, "a chained comparison")
        test = getattr(operator, op)(left, right)
        found = test if found is True else _logical("and", found, [_constantly(test)], stops_at=False)
        if found is False:
            return False
        left = right
    return found


def _constantly(value: Any) -> Callable[[], Any]:
    return lambda: value


def _pure(side: Callable[[], Any], where: str) -> Any:
    """Evaluate a side that may not run; it may not emit statements."""
    body = current().scopes[-1].body
    before = len(body)
    value = side()
    if len(body) != before:
        raise TileSyntaxError(f"a call inside {where} emits statements, which would run in any case", span=here(), hint="write an if statement")
    return value


# ---------------------------------------------------------------------------------------------- built-in functions
def builtin(function: Any) -> Any:
    """The kernel's version of a Python built-in; any other function as it is."""
    try:
        return _BUILTINS.get(function, function)
    except TypeError:  # not hashable
        return function


def _extreme(op: str, python: Callable[..., Any]) -> Callable[..., Any]:
    def extreme(*values: Any, **options: Any) -> Any:
        items = list(values[0]) if len(values) == 1 and not is_kernel(values[0]) else list(values)
        if options or not any(is_kernel(v) for v in items):
            return python(*values, **options)
        found = items[0]
        for value in items[1:]:
            a, b = as_expr(found, beside=getattr(value, "dtype", None)), as_expr(value, beside=getattr(found, "dtype", None))
            found = Value(arith.binary(op, a, b))
        return found

    return extreme


def _number(dtype: Any, python: Callable[..., Any]) -> Callable[..., Any]:
    def convert(*args: Any, **options: Any) -> Any:
        if len(args) == 1 and is_kernel(args[0]):
            expr = as_expr(args[0])
            keeps = python is int and expr.dtype.is_int
            return Value(condition_of(args[0]) if python is bool else expr if keeps else arith.cast(expr, dtype))
        return python(*args, **options)

    return convert


def _fold(op: str, python: Callable[..., Any]) -> Callable[..., Any]:
    def fold(values: Any) -> Any:
        items = list(values)
        if not any(is_kernel(v) for v in items):
            return python(items)
        return _logical(op, items[0], [_constantly(v) for v in items[1:]], stops_at=op == "or")

    return fold


def _round(value: Any, *digits: Any) -> Any:
    return Value(arith.unary("nearbyint", as_expr(value))) if is_kernel(value) and not digits else round(value, *digits)


_BUILTINS: dict[Any, Any] = {
    builtins.min: _extreme("min", min),
    builtins.max: _extreme("max", max),
    builtins.int: _number(INT32, int),
    builtins.float: _number(FLOAT32, float),
    builtins.bool: _number(BOOL, bool),
    builtins.range: kernel_range,
    builtins.any: _fold("or", any),
    builtins.all: _fold("and", all),
    builtins.round: _round,
}

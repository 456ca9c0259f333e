"""Integer expressions over symbolic dims: as Python text, evaluated, and solved for one unknown.

Shapes, strides and workspace sizes of a kernel are such expressions; the runtime needs their values at every call.

>>> m, n = Var("m"), Var("n")
>>> python_text(Binary("mul", Binary("add", m, Const(3)), n))
'((m + 3) * n)'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import UnsupportedError
from ..ir.expr import Binary, Cast, Const, Expr, Select, Unary, Var
from ..ir.node import walk

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "and", "or": "or",
}  # fmt: skip
_CALL = {"floordiv": "floordiv", "floormod": "floormod", "truncdiv": "truncdiv", "truncmod": "truncmod", "min": "min", "max": "max"}


def floordiv(a: int, b: int) -> int:
    """a // b, and 0 for b = 0, as in a kernel."""
    return a // b if b else 0


def floormod(a: int, b: int) -> int:
    """a % b, and 0 for b = 0."""
    return a % b if b else 0


def truncdiv(a: int, b: int) -> int:
    """a / b rounded towards zero, and 0 for b = 0."""
    return 0 if not b else -(-a // b) if (a < 0) != (b < 0) else a // b


def truncmod(a: int, b: int) -> int:
    """The remainder that goes with `truncdiv`."""
    return a - truncdiv(a, b) * b if b else 0


HELPERS: dict[str, Any] = {"floordiv": floordiv, "floormod": floormod, "truncdiv": truncdiv, "truncmod": truncmod, "min": min, "max": max, "abs": abs}


def python_text(expr: Expr, names: Mapping[str, str] | None = None) -> str:
    """`expr` as a Python expression; `names` renames variables. Raises UnsupportedError for what cannot be part of a shape."""
    match expr:
        case Const(value=value):
            return repr(int(value))
        case Var(name=name):
            return names[name] if names is not None else name
        case Cast(x=x):
            return python_text(x, names)
        case Binary(op=op, a=a, b=b) if op in _INFIX:
            return f"({python_text(a, names)} {_INFIX[op]} {python_text(b, names)})"
        case Binary(op="floordiv" | "floormod" as op, a=a, b=Const(value=value)) if int(value):
            return f"({python_text(a, names)} {'//' if op == 'floordiv' else '%'} {int(value)})"
        case Binary(op=op, a=a, b=b) if op in _CALL:
            return f"{_CALL[op]}({python_text(a, names)}, {python_text(b, names)})"
        case Unary(op="neg", x=x):
            return f"(-{python_text(x, names)})"
        case Unary(op="abs", x=x):
            return f"abs({python_text(x, names)})"
        case Unary(op="not", x=x):
            return f"(not {python_text(x, names)})"
        case Select(cond=cond, then=then, other=other):
            return f"({python_text(then, names)} if {python_text(cond, names)} else {python_text(other, names)})"
        case _:
            raise UnsupportedError(f"a shape cannot hold {type(expr).__name__}", span=expr.span, hint="use integers and symbolic dims")


_RANK = {"add": 1, "sub": 1, "mul": 2, "floordiv": 2, "floormod": 2}


def show(expr: Expr) -> str:
    """`expr` as the author would write it, for a message.

    >>> show(Binary("add", Binary("mul", Const(2), Var("m")), Const(1))), show(Binary("floordiv", Binary("add", Var("m"), Const(3)), Const(4)))
    ('2 * m + 1', '(m + 3) // 4')
    """
    match expr:
        case Binary(op=op, a=a, b=b) if op in _RANK:
            sign = {"floordiv": "//", "floormod": "%"}.get(op) or _INFIX[op]
            return f"{_operand(a, _RANK[op])} {sign} {_operand(b, _RANK[op] + 1)}"
        case Var(name=name, hint=hint):
            return hint or name
        case Cast(x=x):
            return show(x)
        case _:
            return python_text(expr)


def _operand(expr: Expr, rank: int) -> str:
    text = show(expr)
    return f"({text})" if isinstance(expr, Binary) and _RANK.get(expr.op, 0) < rank else text


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """The value of `expr`; `values` gives each dim by name."""
    match expr:
        case Const(value=value):
            return int(value)
        case Var(name=name):
            return values[name]
        case _:
            return int(eval(python_text(expr), HELPERS, dict(values)))  # the text is ours


def unknowns(expr: Expr) -> set[str]:
    """Names of the variables in `expr`."""
    return {node.name for node in walk(expr) if isinstance(node, Var)}


def is_linear(expr: Expr, name: str) -> bool:
    """True when `expr` is `a * name + b` with `a` and `b` free of `name`."""
    match expr:
        case Const() | Var():
            return True
        case Cast(x=x) | Unary(op="neg", x=x):
            return is_linear(x, name)
        case Binary(op="add" | "sub", a=a, b=b):
            return is_linear(a, name) and is_linear(b, name)
        case Binary(op="mul", a=a, b=b):
            free_a, free_b = name not in unknowns(a), name not in unknowns(b)
            return (free_a and is_linear(b, name)) or (free_b and is_linear(a, name)) or (free_a and free_b)
        case _:
            return name not in unknowns(expr)


def solve(expr: Expr, name: str, value: int, known: Mapping[str, int]) -> int | None:
    """The `name` for which the linear `expr` is `value`; None if there is no such whole number, or any would do."""
    at_zero = evaluate(expr, {**known, name: 0})
    slope = evaluate(expr, {**known, name: 1}) - at_zero
    if slope == 0 or (value - at_zero) % slope:
        return None
    return (value - at_zero) // slope

"""What is rounded to 16 bits or fewer at once is computed to little more than that, where a GPU has shorter ways.

Before:  Y@[i] = bfloat16(0.5 * x * (1 + erf(z)))
After:   Y@[i] = bfloat16(0.5 * x * (1 + twb_erf_short_f32(z)))

Only factors of a rounded value are looked at: their relative errors add up, and that of a short function is a tenth of a float16's rounding. 1 plus
or minus an error function or a tanh is such a factor, too: the short ones give its small values as well as float32 can hold them beside 1. In any
other sum a small rest of large terms would keep their error, so it is computed in full; so is a value that has a name, which others may read.

Requires: casts where values are rounded (`widen_floats`).  Preserves: everything else.
"""

from __future__ import annotations

from ..base.dtypes import FLOAT32
from ..ir.device import DeviceValue
from ..ir.expr import Binary, Cast, Expr, Select, Unary, is_const
from ..ir.node import Node, replace, rewrite
from ..ir.stmt import Kernel
from .widen_floats import is_narrow

SHORT = {op: f"twb_{op}_short_f32" for op in ("erf", "tanh", "sigmoid")}
BESIDE_1 = ("erf", "tanh")  # of which also the distance from 1 is right


def spare_digits(kernel: Kernel) -> Kernel:
    """Return `kernel` with short functions in factors of values that are rounded."""

    def change(node: Node) -> Node:
        if not isinstance(node, Cast) or not is_narrow(node.type) or node.x.dtype != FLOAT32:
            return node
        short = _short(node.x)
        return node if short is node.x else replace(node, x=short)

    return rewrite(kernel, change)


def _short(e: Expr) -> Expr:
    """`e`, of which only the relative error counts."""
    match e:
        case Binary("mul" | "div", a, b):
            return _with(e, _short(a), _short(b))
        case Binary("add" | "sub", a, b) if is_const(a, 1) or is_const(b, 1):
            return _with(e, _beside_1(a), _beside_1(b))
        case Unary("neg", x):
            inner = _short(x)
            return e if inner is x else replace(e, x=inner)
        case Select(_, then, other):
            parts = _short(then), _short(other)
            return e if parts[0] is then and parts[1] is other else replace(e, then=parts[0], other=parts[1])
        case _:
            return _function(e)


def _with(e: Binary, a: Expr, b: Expr) -> Expr:
    return e if a is e.a and b is e.b else replace(e, a=a, b=b)


def _beside_1(e: Expr) -> Expr:
    return _function(e) if isinstance(e, Unary) and e.op in BESIDE_1 else e


def _function(e: Expr) -> Expr:
    if isinstance(e, Unary) and e.op in SHORT and e.x.dtype == FLOAT32:
        return DeviceValue(SHORT[e.op], (e.x,), FLOAT32)
    return e

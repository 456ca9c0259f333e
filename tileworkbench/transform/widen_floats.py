"""Arithmetic on float16, bfloat16 and float8 happens in float32.

Before:  c[i] = a[i] * b[i] + x           (all float16)
After:   c[i] = float16(float32(a[i]) * float32(b[i]) + float32(x))

A stored element is widened where it is read and rounded where it is written or bound; a cast written by the author rounds where it stands.
A variable bound to a narrow value holds the rounded value as float32. Integers reach a narrow float through float64, so they round once.

Requires: lowered statements.  Preserves: everything that involves no narrow float.
"""

from __future__ import annotations

from ..base.dtypes import FLOAT32, FLOAT64, DType
from ..ir.expr import Binary, CallExtern, Cast, Const, Expr, Reinterpret, Select, Unary, Var
from ..ir.lowered import AtomicOp, Declare, Element, LibraryCall, SetElement
from ..ir.node import Node, map_children, replace
from ..ir.stmt import Evaluate, Kernel, Let, ScalarParam


def widen_floats(kernel: Kernel) -> Kernel:
    """Return `kernel` with narrow floats only in memory."""
    return map_children(kernel, _stmt)


def is_narrow(dtype: DType) -> bool:
    """True for floats that C has no arithmetic for."""
    return dtype.is_float and dtype.bits < 32


def _stmt(node: Node) -> Node:
    match node:
        case ScalarParam():
            return node  # what the caller passes; uses of it are float32
        case Expr():
            return _value(node)
        case SetElement(buffer, offset, value):
            new, where = _stored(value, buffer.type), _value(offset)
            return node if new is value and where is offset else replace(node, offset=where, value=new)
        case Evaluate(AtomicOp() as update):
            new = _atomic(update)  # nobody reads what was there
            return node if new is update else replace(node, value=new)
        case Declare(buffer, init) if init is not None:
            new = _stored(init, buffer.type)
            return node if new is init else replace(node, init=new)
        case Let(var, value) if is_narrow(var.type):
            rounded = Cast(_stored(value, var.type), FLOAT32)  # `_stored` leaves a value of the narrow type
            return replace(node, var=Var(var.name, FLOAT32, hint=var.hint), value=rounded)
        case _:
            return map_children(node, _stmt)


def _stored(expr: Expr, to: DType) -> Expr:
    """`expr` as it is stored in a buffer of type `to`."""
    if not is_narrow(to):
        return _value(expr)
    if isinstance(expr, AtomicOp):
        return _atomic(expr)
    if isinstance(expr, Reinterpret):
        return _bits(expr)
    if isinstance(expr, (Element, Const)) and expr.dtype == to:
        return map_children(expr, _stmt)
    if isinstance(expr, Cast) and expr.type == to:
        return _rounded(expr)
    if isinstance(expr, Select) and _moves(expr):
        parts = (_value(expr.cond), _stored(expr.then, to), _stored(expr.other, to))
        return expr if parts == (expr.cond, expr.then, expr.other) else Select(*parts, span=expr.span)
    return Cast(_value(expr), to)


def _moves(expr: Expr) -> bool:
    """Whether a narrow float is only chosen among stored ones, without arithmetic."""
    return isinstance(expr, (Element, Const)) or isinstance(expr, Select) and _moves(expr.then) and _moves(expr.other)


def _rounded(expr: Cast) -> Cast:
    """A cast to a narrow type, which rounds once."""
    value = _value(expr.x)
    if not value.dtype.is_float:
        value = Cast(value, FLOAT64)
    return expr if value is expr.x else Cast(value, expr.type, span=expr.span)


def _value(expr: Expr) -> Expr:
    """`expr` for arithmetic: a narrow float becomes a float32."""
    narrow = is_narrow(expr.dtype)
    match expr:
        case Const(value, _):
            return Const(value, FLOAT32) if narrow else expr
        case Var(name):
            return Var(name, FLOAT32, hint=expr.hint) if narrow else expr
        case _ if narrow and _is_bits(expr):
            return Cast(_bits(expr), FLOAT32)
        case Cast(x, to) if to == FLOAT32 and is_narrow(x.dtype) and _is_bits(x):
            inner = _bits(x)
            return expr if inner is x else Cast(inner, FLOAT32)
        case AtomicOp():
            return _atomic(expr)
        case Reinterpret(x, _):
            bits = _stored(x, x.dtype)
            return expr if bits is x else replace(expr, x=bits)
        case Cast(x, to):
            given = _value(x)
            return expr if given is x else given if given.dtype == to else Cast(given, to)
        case Binary(_, a, b):
            left, right = _value(a), _value(b)
            return expr if left is a and right is b else replace(expr, a=left, b=right)
        case Unary(_, x):
            operand = _value(x)
            return expr if operand is x else replace(expr, x=operand)
        case Select(cond, then, other):
            parts = (_value(cond), _value(then), _value(other))
            return expr if parts[0] is cond and parts[1] is then and parts[2] is other else Select(*parts, span=expr.span)
        case _:
            return map_children(expr, _stmt)


def _is_bits(expr: Expr) -> bool:
    """Whether a narrow float comes as it is stored."""
    return isinstance(expr, (Element, AtomicOp, LibraryCall, CallExtern, Reinterpret, Cast))


def _bits(expr: Expr) -> Expr:
    """Such a float, its parts widened."""
    match expr:
        case AtomicOp():
            return _atomic(expr)
        case Cast():
            return _rounded(expr)
        case Reinterpret(x, _):
            bits = _stored(x, x.dtype)
            return expr if bits is x else replace(expr, x=bits)
        case _:
            return map_children(expr, _stmt)


def _atomic(expr: AtomicOp) -> AtomicOp:
    value = None if expr.value is None else _stored(expr.value, expr.buffer.type)
    offset = _value(expr.offset)
    return expr if value is expr.value and offset is expr.offset else replace(expr, offset=offset, value=value)

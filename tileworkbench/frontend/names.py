"""Assignment and `return` in a kernel function: what a name, an element or an attribute holds afterwards.

A kernel expression is computed where it is assigned and bound to an immutable variable (`Let`), so that later stores do not change
it. A name that holds a `T.alloc_var` is stored to. Buffers, slices and Python values bind as they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..base.dtypes import DType
from ..base.errors import TileNameError, TileRuntimeError, TileSyntaxError, UnsupportedError
from ..ir.expr import Const, Load, Var
from ..ir.node import walk
from .branches import Handle, KernelBranch
from .builder import current
from .positions import here
from .values import BufferValue, ElementValue, Tile, Value, VarCell, as_expr, assign_item

_SIGN = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and_": "&", "or_": "|", "xor": "^",
    "lshift": "<<", "rshift": ">>", "matmul": "@",
}  # fmt: skip


def named(name: str) -> str:
    """Announce the target of the assignment whose value is about to be evaluated."""
    current().hint = name
    return name


def kept(name: str, value: Any) -> Any:
    """One element of `a, b = x, y`, evaluated under its name; the assignment follows."""
    current().hint = ""
    return value


def assign(name: str, value: Any, old: Any = None) -> Any:
    """`name = value`: what the name holds from now on; `old` is what it held."""
    builder = current()
    builder.hint = ""
    if isinstance(value, VarCell) and builder.new_cells.pop(id(value), None) is not None:
        return value
    if isinstance(old, VarCell):
        old.store(value)
        return old
    return settle(value, name)


def settle(value: Any, hint: str = "") -> Any:
    """`value` computed at this point of the program. Without a `hint`, and between launches, only if a later store could change it."""
    if isinstance(value, Value):
        expr, builder = value.expr, current()
        if isinstance(expr, Const | Var) or ((not hint or builder.launch is None) and not any(isinstance(n, Load) for n in walk(expr))):
            return value
        return Value(builder.bind(expr, hint or "value"))
    if type(value) in (tuple, list) and any(isinstance(v, Value) for v in value):
        return type(value)(v if isinstance(v, VarCell) else settle(v, hint) for v in value)
    if type(value) is dict and any(isinstance(v, Value) for v in value.values()):
        return {k: v if isinstance(v, VarCell) else settle(v, hint) for k, v in value.items()}
    return value


def rebind(name: str, value: Any, old: Any, escapes: tuple[Any, ...]) -> Any:
    """`assign` to a name that is read outside an enclosing loop or branch: an error if that belongs to the kernel."""
    if value is not old and (not isinstance(old, VarCell) or id(value) in current().new_cells):
        escaping(name, escapes, is_tile=isinstance(value, Tile))
    return assign(name, value, old)


def escaping(name: str, escapes: tuple[Any, ...], is_loop_variable: bool = False, is_tile: bool = False) -> None:
    """Raise if one of the enclosing constructs out of which `name` is read is a loop or branch of the kernel."""
    for handle, (line, col, end_col, is_new) in escapes:
        if not handle.is_kernel:
            continue
        span = here()
        what = "branch" if isinstance(handle, KernelBranch) else "loop"
        if is_new:
            if span is not None:
                span = replace(span, line=line, col=col, end_line=line, end_col=end_col, text=None)
            hint = f"declare `{name} = T.alloc_var(dtype)` before the {what}; assigning to it then stores"
            if is_tile:
                hint = f"move this definition of `{name}` in front of the {what}"
            elif is_loop_variable:
                hint = f"keep what is needed of `{name}` in a T.alloc_var, assigned inside the loop"
            raise TileNameError(f"`{name}` is used outside the {what} that defines it", span=span, hint=hint)
        if span is not None:
            span = replace(span, end_line=span.line, end_col=span.col + len(name))
        hint = f"declare it with `{name} = T.alloc_var(dtype, init=...)`; assigning to it then stores"
        if is_tile:
            hint = f"a name stands for one buffer in a kernel: use another name than `{name}`, or T.copy the elements"
        elif is_loop_variable:
            hint = f"give the loop variable another name than `{name}`"
        raise TileRuntimeError(f"`{name}` is rebound inside a {what} of the kernel and read again in line {line}", span=span, hint=hint)


def result(value: Any, *handles: Handle) -> Any:
    """The value of a `return` statement, computed now. Raises: UnsupportedError inside a kernel loop or branch."""
    if any(h.is_kernel for h in handles):
        raise UnsupportedError(
            "`return` inside a loop or branch of the kernel", span=here(),
            hint="return once at the end, through a T.alloc_var; T.thread_return() ends the block early",
        )  # fmt: skip
    return settle(value)


def peek(read: Callable[[], Any]) -> Any:
    """The value of a name that may be unbound, or None."""
    try:
        return read()
    except NameError:
        return None


def argument(name: str, value: Any) -> Any:
    """A parameter at the start of an inlined function: scalars arrive by value."""
    if isinstance(value, ElementValue) and not isinstance(value, Reference):
        return Value(current().bind(value.expr, name))
    return settle(value) if isinstance(value, Value) and not isinstance(value, ElementValue) else value


class Reference(VarCell):
    """The argument of a `T.Ref` parameter: assigning to the parameter's name stores to the caller's element."""

    __slots__ = ()

    def __init__(self, element: ElementValue) -> None:
        ElementValue.__init__(self, element.buffer, element.indices)


def augmented(op: str, old: Any, value: Any) -> Any:
    """The new value of `old op= value`."""
    if isinstance(old, BufferValue):
        sign = _SIGN[op] + "="
        raise TileRuntimeError(
            f"`{sign}` on the whole buffer {old.name}", span=here(), hint=f"write {old.name}[i] {sign} ... for its elements, inside T.Parallel"
        )
    if isinstance(old, Value) or isinstance(value, Value):
        return getattr(operator, op)(old, value)
    return getattr(operator, "i" + op.rstrip("_"))(old, value)


def place(target: Any, index: Any) -> Any:
    """What `target[index]` in front of `=` is: an element or a slice of a buffer, or a container of Python's and an index."""
    return target[index] if isinstance(target, Tile | VarCell) else (target, index)  # type: ignore[index]  # both have __getitem__


def set_item(place: Any, value: Any) -> None:
    """`target[index] = value`, of what `place` gave for the two."""
    if isinstance(place, tuple):
        target, index = place
        target[index] = settle(value, "item")
    else:
        assign_item(place, value)


def augment_item(place: Any, op: str, value: Any) -> None:
    """`target[index] op= value`, with target and index evaluated once."""
    if isinstance(place, tuple):
        target, index = place
        target[index] = settle(augmented(op, target[index], value), "item")
    else:
        assign_item(place, getattr(operator, op)(place, value))


def set_attribute(target: Any, name: str, value: Any, *handles: Handle) -> None:
    """`target.name = value` for build-time objects; an `alloc_var` in the attribute is stored to."""
    if isinstance(target, Tile | Value):
        raise TileSyntaxError(f"`.{name}` of a kernel value cannot be assigned", span=here(), hint="store to its elements")
    builder, old = current(), getattr(target, name, None)
    if isinstance(value, VarCell) and builder.new_cells.pop(id(value), None) is not None:
        setattr(target, name, value)
    elif isinstance(old, VarCell):
        old.store(value)
    elif any(h.is_kernel for h in handles):
        raise TileRuntimeError(
            f"`.{name}` is assigned inside a loop or branch of the kernel", span=here(),
            hint=f"make it a variable first: `.{name} = T.alloc_var(dtype)`",
        )  # fmt: skip
    else:
        setattr(target, name, settle(value, name))


def augment_attribute(target: Any, name: str, op: str, value: Any, *handles: Handle) -> None:
    """`target.name op= value`."""
    set_attribute(target, name, augmented(op, getattr(target, name), value), *handles)


def annotate(name: str, annotation: Any, old: Any) -> Any:
    """`name: annotation` without a value: declares a parameter of an eager kernel; elsewhere it says nothing."""
    return current().annotate(name, annotation, old)


def typed(annotation: Any, value: Any) -> Any:
    """The value of `name: annotation = value`: converted if the annotation is a dtype."""
    if isinstance(annotation, DType) and not isinstance(value, VarCell):
        return Value(as_expr(value, annotation))
    return value


def context(manager: Any, names: tuple[str, ...]) -> Any:
    """The manager of a `with` statement, told the names after `as`."""
    if hasattr(manager, "set_names"):
        manager.set_names(names)
    return manager

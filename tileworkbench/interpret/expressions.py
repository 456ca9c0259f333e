"""Expressions compiled to Python closures: `Frame -> value`, for all lanes of the frame's space at once.

Compiling once and running often keeps the cost of a node near that of one Python call. A `Scope` is what the compiler of a body knows:
the variables that run along the axes of the space, and those that may differ between lanes. With it, an access such as `C[y * 64 + i, j]` in a
parallel loop becomes a slice instead of a gather.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.dtypes import BOOL
from ..base.errors import InternalError, UnsupportedError
from ..ir.expr import AddressOf, Binary, Buffer, CallExtern, Cast, Const, Expr, Load, Reinterpret, Select, Unary, Var
from ..ir.node import walk
from .access import Index, gather, note
from .arithmetic import Value, binary, caster, plain, reinterpreter, scalar, unary
from .frame import Frame, both, negation
from .memory import READ, Storage, view

Run = Callable[[Frame], Any]


@dataclass(slots=True)
class Scope:
    """What is known where a body is compiled. `axes` are the variables along the space, outermost first ("" for an axis without one)."""

    axes: tuple[str, ...] = ()
    varying: set[str] = field(default_factory=set)
    tracing: bool = False
    ramps: dict[str, int] = field(default_factory=dict)  # lets that are an axis + a uniform offset, which `offset_name` holds

    def inner(self) -> Scope:
        """A scope for a nested body: what it binds does not show outside."""
        return Scope(self.axes, set(self.varying), self.tracing, dict(self.ramps))

    def is_varying(self, expr: Expr) -> bool:
        """Whether the value may differ between lanes."""
        if not self.axes:
            return False
        for node in walk(expr):
            if isinstance(node, Var) and node.name in self.varying:
                return True
            if isinstance(node, Load) and is_private(node.buffer):
                return True
        return False


def is_private(buffer: Buffer) -> bool:
    """A buffer of which each lane has its own."""
    return buffer.root.scope in ("local", "var")


def evaluate(e: Expr, scope: Scope) -> Run:
    """The closure that computes `e`."""
    match e:
        case Const(value, dtype):
            fixed = scalar(value, dtype)
            return lambda f: fixed
        case Var(name):
            return lambda f: f.env[name]
        case Binary("and" | "or" as op, a, b):
            return _lazy(op, evaluate(a, scope), evaluate(b, scope))
        case Binary(op, a, b):
            return _binary(op, a, b, scope)
        case Load(buffer, indices):
            return load(buffer, indices, scope)
        case Cast(x, to):
            inner, change = evaluate(x, scope), caster(x.dtype, to)
            return inner if change is None else _apply(change, inner)
        case Unary(op, x):
            run = _apply(unary(op, x.dtype), evaluate(x, scope))
            return _counted(run, e) if scope.tracing else run
        case Select(cond, then, other):
            return _select(evaluate(cond, scope), evaluate(then, scope), evaluate(other, scope))
        case Reinterpret(x, to):
            return _apply(reinterpreter(x.dtype, to), evaluate(x, scope))
        case CallExtern(name) as call:
            raise UnsupportedError(f"the interpreter cannot call the C function {name}", span=call.span, hint="use a compiled target: target='c'")
        case AddressOf():
            raise UnsupportedError("the interpreter has no addresses", span=e.span, hint="use a compiled target: target='c'")
        case _:
            raise InternalError(f"no such expression: {e!r}")


def _apply(change: Callable[[Any], Any], inner: Run) -> Run:
    return lambda f: change(inner(f))


def _binary(op: str, a: Expr, b: Expr, scope: Scope) -> Run:
    left, right, function = evaluate(a, scope), evaluate(b, scope), binary(op, a.dtype)
    run: Run = lambda f: function(left(f), right(f))
    return _counted(run, a) if scope.tracing and a.dtype.is_float else run


def _counted(run: Run, operand: Expr) -> Run:
    """`run`, which also counts one floating-point operation per active lane."""
    dtype = operand.dtype
    if not dtype.is_float:
        return run

    def counting(f: Frame) -> Any:
        if f.recorder is not None:
            f.recorder.operations(dtype, f.lanes())
        return run(f)

    return counting


def _narrowed(run: Run, f: Frame, cond: Any) -> Any:
    """`run` for the lanes in which `cond` holds; only a trace can tell."""
    if f.recorder is None:
        return run(f)
    before = f.mask
    f.mask = both(before, cond)
    try:
        return run(f)
    finally:
        f.mask = before


def _lazy(op: str, left: Run, right: Run) -> Run:
    def conjunction(f: Frame) -> Any:
        a = left(f)
        if not isinstance(a, np.ndarray):
            return right(f) if a else False
        return np.logical_and(a, _narrowed(right, f, a))

    def disjunction(f: Frame) -> Any:
        a = left(f)
        if not isinstance(a, np.ndarray):
            return True if a else right(f)
        return np.logical_or(a, _narrowed(right, f, ~a))

    return conjunction if op == "and" else disjunction


def _select(cond: Run, then: Run, other: Run) -> Run:
    def choose(f: Frame) -> Any:
        c = cond(f)
        if not isinstance(c, np.ndarray):
            return then(f) if c else other(f)
        return np.where(c, _narrowed(then, f, c), _narrowed(other, f, negation(c)))

    return choose


# ---------------------------------------------------------------------------------------------- memory
def storage_of(buffer: Buffer, scope: Scope) -> Callable[[Frame], Storage]:
    """The closure that finds a buffer's storage, and makes that of a view when it is first needed."""
    name = buffer.name
    if buffer.view_of is None:
        return lambda f: f.buffers[name]
    parts = (*buffer.shape, *(buffer.strides or ()), *(() if buffer.offset is None else (buffer.offset,)))
    root, make = storage_of(buffer.view_of, scope), viewer(buffer)
    if not all(isinstance(p, Const) for p in parts):
        return lambda f: f.buffers.get(name) or make(f, root(f))

    def found(f: Frame) -> Storage:
        storage = f.buffers.get(name)
        if storage is None:
            storage = f.buffers[name] = make(f, root(f))
        return storage

    return found


def viewer(buffer: Buffer) -> Callable[[Frame, Storage], Storage]:
    """The closure that makes `buffer` a view of a given storage."""
    shape = [evaluate(d, Scope()) for d in buffer.shape]
    strides = None if buffer.strides is None else [evaluate(s, Scope()) for s in buffer.strides]
    offset = None if buffer.offset is None else evaluate(buffer.offset, Scope())

    def make(f: Frame, root: Storage) -> Storage:
        steps = None if strides is None else tuple(int(s(f)) for s in strides)
        return view(buffer, root, tuple(int(d(f)) for d in shape), steps, 0 if offset is None else int(offset(f)))

    return make


def load(buffer: Buffer, indices: tuple[Expr, ...], scope: Scope) -> Run:
    """The closure that reads one element per lane. Its result may be a view of memory, so whoever keeps it copies it."""
    find, safe = storage_of(buffer, scope), scalar(buffer.safe_value or 0, buffer.dtype)
    index = [evaluate(i, scope) for i in indices]
    plan = slice_plan(buffer, indices, scope)
    if plan is None:
        return lambda f: gather(find(f), [i(f) for i in index], safe, f)
    arrange = _arrange([axis for axis, _ in plan if axis is not None], len(scope.axes))

    def sliced(f: Frame) -> Any:
        storage = find(f)
        take = slices(plan, storage.shape, f)
        if take is None:
            return gather(storage, [i(f) for i in index], safe, f)
        if f.recorder is not None:
            _note_slices(storage, take, [i(f) for i in index], f)
        return arrange(storage.read(take))

    return sliced


def _note_slices(storage: Storage, take: Any, index: Index, f: Frame) -> None:
    note(storage, take if f.mask is True else index, f.mask, READ, f)


Plan = list[tuple[int | None, Run]]


def slice_plan(buffer: Buffer, indices: tuple[Expr, ...], scope: Scope) -> Plan | None:
    """Per dim the axis that its index runs along (or None) and the index at the start of that axis; None if the access is no box."""
    if not scope.axes or is_private(buffer):
        return None
    plan: Plan = []
    for index in indices:
        found = ramp(index, scope)
        if found is None:
            return None
        plan.append(found)
    used = [axis for axis, _ in plan if axis is not None]
    return plan if used and len(set(used)) == len(used) else None


def ramp(e: Expr, scope: Scope) -> tuple[int | None, Run] | None:
    """`e` as (axis, offset) with e = position along axis + offset, where the offset is the same in all lanes; None if it is not of that form."""
    if not scope.is_varying(e):
        return None, evaluate(e, scope)
    match e:
        case Var(name) if name in scope.axes:
            return scope.axes.index(name), lambda f: 0
        case Var(name) if name in scope.ramps:
            return scope.ramps[name], lambda f: f.env[offset_name(name)]
        case Binary("add" | "sub" as op, a, b) if e.dtype.bits == 64 and e.dtype.is_int:
            left, right = ramp(a, scope), ramp(b, scope)
            if left is None or right is None or (left[0] is not None and right[0] is not None) or (op == "sub" and right[0] is not None):
                return None
            first, second, function = left[1], right[1], binary(op, e.dtype)
            return (left[0] if right[0] is None else right[0]), lambda f: function(first(f), second(f))
        case _:
            return None


def offset_name(name: str) -> str:
    """Where a let of the form axis + offset keeps its offset; no variable can have this name."""
    return f"{name} - axis"


def slices(plan: Plan, shape: tuple[int, ...], f: Frame) -> tuple[Any, ...] | None:
    """The NumPy index of the box that the lanes access; None if a part of it is outside."""
    take: list[Any] = []
    for (axis, offset), extent in zip(plan, shape, strict=True):
        start = offset(f)
        length = 1 if axis is None else f.space[axis]
        if not isinstance(start, int | np.integer) or start < 0 or start + length > extent:
            return None
        take.append(start if axis is None else slice(start, start + length))
    return tuple(take)


def _arrange(axes: list[int], rank: int) -> Callable[[Any], Any]:
    """What brings an array whose dims run along `axes` into the order of the space."""
    order = sorted(range(len(axes)), key=lambda d: axes[d])
    used = [axes[d] for d in order]
    index = tuple(slice(None) if axis in used else None for axis in range(used[0], rank))
    if order == list(range(len(axes))):
        return (lambda x: x) if None not in index else (lambda x: x[index])
    return lambda x: x.transpose(order)[index]


def as_bool(run: Run) -> Run:
    """A condition, with NumPy scalars as Python bools."""
    return lambda f: plain(run(f), BOOL)


def own(value: Value) -> Value:
    """The value, copied if it may be a view of memory that changes later."""
    return value.copy() if isinstance(value, np.ndarray) and value.base is not None else value

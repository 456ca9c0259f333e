"""Statements compiled to Python closures `Frame -> None`.

A closure runs for the active lanes, `frame.mask`, and leaves in `frame.mask` the lanes that go on: `Break`, `Continue` and `Return` take lanes
out, and the loop gives them back where they belong. In the space () of a whole block the masks are plain True and False, so the same code
serves blocks, threads and parallel iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.errors import DeviceAssertError, InternalError
from ..ir.expr import Var
from ..ir.stmt import (
    Assert,
    Atomic,
    Body,
    Break,
    Collective,
    Continue,
    Copy,
    Evaluate,
    Fill,
    For,
    Gemm,
    If,
    Let,
    ParallelFor,
    PipelinedFor,
    Print,
    Reduce,
    Return,
    Scan,
    Stmt,
    Store,
    Sync,
    While,
)
from . import tiles
from .access import scatter, spread, write_where
from .arithmetic import counter
from .atomics import atomic
from .collectives import collective
from .expressions import Run, Scope, as_bool, evaluate, offset_name, own, ramp, slice_plan, slices, storage_of
from .frame import Frame, Loop, both, count, either, negation
from .memory import WRITTEN
from .parallel import parallel
from .printing import printer
from .tracing import traced


def block(body: Body, scope: Scope) -> Run:
    """The closure that runs statements in order, until no lane is left."""
    runs = [statement(s, scope) for s in body]
    if len(runs) == 1:
        return runs[0]

    def run(f: Frame) -> None:
        for each in runs:
            each(f)
            if f.mask is False:
                return

    return run


def statement(s: Stmt, scope: Scope) -> Run:
    """The closure that runs one statement."""
    run = _statement(s, scope)
    return traced(s, run, scope) if scope.tracing else run


def _statement(s: Stmt, scope: Scope) -> Run:
    match s:
        case Let():
            return let(s, scope)
        case Store():
            return store(s, scope)
        case Copy():
            return tiles.copy(s, scope)
        case Fill():
            return tiles.fill(s, scope)
        case Gemm():
            return tiles.gemm(s, scope)
        case Reduce():
            return tiles.reduce(s, scope)
        case Scan():
            return tiles.scan(s, scope)
        case Atomic(result=result):
            _binds(result, scope)
            return atomic(s, scope)
        case ParallelFor():
            return parallel(s, scope, block)
        case For(step=step):
            return counted(s, step, scope)
        case PipelinedFor():
            return counted(s, 1, scope)
        case While(cond, body):
            return while_(as_bool(evaluate(cond, scope)), block(body, scope.inner()))
        case If(cond, then, other):
            return branch(as_bool(evaluate(cond, scope)), block(then, scope.inner()), block(other, scope.inner()))
        case Break():
            return _leave(lambda f: setattr(f.loop, "broken", either(f.loop.broken, f.mask)))
        case Continue():
            return _leave(lambda f: setattr(f.loop, "continued", either(f.loop.continued, f.mask)))
        case Return():
            return _leave(lambda f: None)
        case Sync(scope_name):
            return _grid_barrier if scope_name == "grid" else lambda f: None  # lanes run in lockstep
        case Collective(result=result):
            _binds(result, scope)
            return collective(s, scope)
        case Print():
            return printer(s, scope)
        case Assert():
            return check(s, scope)
        case Evaluate(value):
            return evaluate(value, scope)
        case _:
            raise InternalError(f"the interpreter knows no statement {type(s).__name__}")


def _binds(var: Var | None, scope: Scope) -> None:
    if var is not None and scope.axes:
        scope.varying.add(var.name)


# ---------------------------------------------------------------------------------------------- scalars
def let(s: Let, scope: Scope) -> Run:
    """Bind a variable; where it is an axis plus an offset, remember the offset for sliced accesses."""
    name, value = s.var.name, evaluate(s.value, scope)
    line = ramp(s.value, scope) if scope.is_varying(s.value) else None
    if scope.is_varying(s.value):
        scope.varying.add(name)
    if line is None or line[0] is None:
        return lambda f: f.env.__setitem__(name, own(value(f)))
    scope.ramps[name], offset, start = line[0], offset_name(name), line[1]

    def run(f: Frame) -> None:
        f.env[name], f.env[offset] = value(f), start(f)

    return run


def store(s: Store, scope: Scope) -> Run:
    """One element per active lane."""
    find, value, index = storage_of(s.buffer, scope), evaluate(s.value, scope), [evaluate(i, scope) for i in s.indices]
    plan = slice_plan(s.buffer, s.indices, scope)
    axes = [] if plan is None else [axis for axis, _ in plan if axis is not None]
    if plan is None or len(axes) < len(scope.axes):  # lanes along an unused axis would meet at one element
        return lambda f: scatter(find(f), [i(f) for i in index], value(f), f, f.mask)

    def run(f: Frame) -> None:
        storage = find(f)
        take = slices(plan, storage.shape, f)
        if take is None or isinstance(f.mask, np.ndarray):
            scatter(storage, [i(f) for i in index], value(f), f, f.mask)
            return
        x = value(f)
        if f.recorder is not None:
            f.recorder.access(storage, count(f.mask, f.space), WRITTEN)
            storage.mark(take, WRITTEN)
        write_where(storage, take, spread(x, f.space).transpose(axes) if isinstance(x, np.ndarray) else x, True)

    return run


def check(s: Assert, scope: Scope) -> Run:
    """Fail where the condition does not hold."""
    cond = as_bool(evaluate(s.cond, scope))

    def run(f: Frame) -> None:
        if both(f.mask, negation(cond(f))) is not False:
            raise DeviceAssertError(s.message or "the condition does not hold", span=s.span)

    return run


# ---------------------------------------------------------------------------------------------- control flow
def _leave(note: Callable[[Frame], None]) -> Run:
    def run(f: Frame) -> None:
        note(f)
        f.mask = False

    return run


def _grid_barrier(f: Frame) -> None:
    if f.pause is not None:
        f.pause()


def branch(cond: Run, then: Run, other: Run) -> Run:
    """Each lane takes one side."""

    def run(f: Frame) -> None:
        c, before = own(cond(f)), f.mask  # the body may write what the condition read
        if not isinstance(c, np.ndarray):
            (then if c else other)(f)
            return
        f.mask = both(before, c)
        if f.mask is not False:
            then(f)
        survivors = f.mask
        f.mask = both(before, ~c)
        if f.mask is not False:
            other(f)
        f.mask = either(survivors, f.mask)

    return run


def while_(cond: Run, body: Run) -> Run:
    """Lanes leave when their condition fails."""

    def run(f: Frame) -> None:
        outer, loop, done = f.loop, Loop(), False
        f.loop = loop
        while f.mask is not False:
            c = own(cond(f))
            done = either(done, both(f.mask, negation(c)))
            f.mask = both(f.mask, c)
            if f.mask is not False:
                body(f)
                f.mask, loop.continued = either(f.mask, loop.continued), False
        f.mask, f.loop = either(done, loop.broken), outer

    return run


def counted(s: For | PipelinedFor, step: int, scope: Scope) -> Run:
    """A loop over a range; where the range differs between lanes, each leaves after its own number of trips."""
    start, stop, inside = evaluate(s.start, scope), evaluate(s.stop, scope), scope.inner()
    if scope.is_varying(s.start) or scope.is_varying(s.stop):
        inside.varying.add(s.var.name)
    name, shown, run_body, tracing = s.var.name, s.var.hint or s.var.name, block(s.body, inside), scope.tracing
    dtype = s.var.type

    def trip(f: Frame, value: Any, loop: Loop) -> None:
        f.env[name] = counter(value, dtype)
        if tracing:
            f.loops.append((shown, value))
        run_body(f)
        if tracing:
            f.loops.pop()
        f.mask, loop.continued = either(f.mask, loop.continued), False

    def uniform(f: Frame, values: range) -> None:
        outer, loop = f.loop, Loop()
        f.loop = loop
        for value in values:
            trip(f, value, loop)
            if f.mask is False:
                break
        f.mask, f.loop = either(f.mask, loop.broken), outer

    def run(f: Frame) -> None:
        first, last = own(start(f)), own(stop(f))
        if not isinstance(first, np.ndarray) and not isinstance(last, np.ndarray):
            uniform(f, range(int(first), int(last), step))
            return
        outer, loop, done = f.loop, Loop(), False
        f.loop = loop
        value = np.asarray(first)
        while f.mask is not False:
            going = value < last if step > 0 else value > last
            done = either(done, both(f.mask, ~going))
            f.mask = both(f.mask, going)
            if f.mask is not False:
                trip(f, value, loop)
                value = value + value.dtype.type(step)
        f.mask, f.loop = either(done, loop.broken), outer

    return run

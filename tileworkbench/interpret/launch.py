"""Running a kernel: arguments in, host-level control flow, launches block by block."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..analysis.explicit_words import require_words
from ..base.dtypes import INDEX
from ..base.errors import InternalError
from ..ir.expr import Buffer, Expr, Var
from ..ir.node import walk
from ..ir.stmt import Body, For, If, Kernel, Launch, ScalarParam, Stmt, Sync, TensorParam, While
from .arithmetic import counter, rounder, scalar
from .expressions import Run, Scope, evaluate, is_private
from .frame import Frame, Loop
from .memory import allocate, from_host, to_host, with_shadow
from .statements import block, statement
from .trace import Recorder, Trace, TraceOptions


class Program:
    """A kernel made ready to run, any number of times.

    Args:
        kernel: tile IR that has passed the verifier.
    Raises: UnsupportedError for what needs a compiler: C functions and addresses.
    """

    def __init__(self, kernel: Kernel) -> None:
        require_words(kernel, 0, "the interpreter")
        self.kernel = kernel
        self._bodies: dict[bool, Run] = {False: _host(kernel.body, Scope())}

    def run(
        self,
        arrays: Sequence[np.ndarray[Any, Any]],
        scalars: Mapping[str, Any] | None = None,
        dims: Mapping[str, int] | None = None,
        trace: bool | TraceOptions = False,
    ) -> Trace | None:
        """Run on NumPy arrays, in place; `interpret.run` says how."""
        tracing = bool(trace)
        if tracing not in self._bodies:
            self._bodies[tracing] = _host(self.kernel.body, Scope(tracing=tracing))
        frame = Frame(_environment(self.kernel, arrays, scalars or {}, dims or {}), {})
        if tracing:
            frame.recorder = Recorder(trace if isinstance(trace, TraceOptions) else TraceOptions())
        with np.errstate(all="ignore"):
            tensors = [p.buffer for p in self.kernel.params if isinstance(p, TensorParam)]
            if len(tensors) != len(arrays):
                raise InternalError(f"{self.kernel.name} takes {len(tensors)} arrays, not {len(arrays)}")
            for buffer, array in zip(tensors, arrays, strict=True):
                frame.buffers[buffer.name] = from_host(buffer, array, _shape(buffer, frame))
            for buffer in self.kernel.workspaces:
                frame.buffers[buffer.name] = allocate(buffer, _shape(buffer, frame))
            if frame.recorder is not None:
                frame.recorder.globals = [with_shadow(s) for s in frame.buffers.values()]
            self._bodies[tracing](frame)
            for buffer, array in zip(tensors, arrays, strict=True):
                to_host(frame.buffers[buffer.name], array)
        return None if frame.recorder is None else frame.recorder.finish()


def run(
    kernel: Kernel,
    arrays: Sequence[np.ndarray[Any, Any]],
    scalars: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    trace: bool | TraceOptions = False,
) -> Trace | None:
    """Run a kernel on NumPy arrays, which it changes in place.

    Args:
        kernel: tile IR.
        arrays: one array per `TensorParam`, in order, outputs included. bfloat16 and float8 are ml_dtypes arrays; 4-bit tensors
            are ml_dtypes arrays of the tensor's shape, or packed bytes (two elements each, low half first).
        scalars: the values of the scalar parameters by name; a missing one takes its default.
        dims: the values of the symbolic dims by name; a missing one is read off the arrays' shapes and strides.
        trace: True, or `TraceOptions`, to record what happens.
    Returns: the `Trace` if one was asked for.
    Raises: DeviceAssertError if a kernel's assertion fails; UnsupportedError for what needs a compiler.
    """
    return Program(kernel).run(arrays, scalars, dims, trace)


def _environment(
    kernel: Kernel, arrays: Sequence[np.ndarray[Any, Any]], scalars: Mapping[str, Any], dims: Mapping[str, int]
) -> dict[str, Any]:  # fmt: skip
    known = dict(dims)
    tensors = [p.buffer for p in kernel.params if isinstance(p, TensorParam)]
    for buffer, array in zip(tensors, arrays, strict=False):
        strides = [s // max(array.itemsize, 1) for s in array.strides]
        for dim, size in (*zip(buffer.shape, array.shape, strict=False), *zip(buffer.strides or (), strides, strict=False)):
            if isinstance(dim, Var):
                known.setdefault(dim.name, size)
    env: dict[str, Any] = {}
    for var in kernel.dims:
        if var.name not in known:
            raise InternalError(f"{kernel.name}: no value for the dim {var.name}")
        env[var.name] = scalar(known[var.name], var.type)
    for param in kernel.params:
        if isinstance(param, ScalarParam):
            value = scalars.get(param.var.name, param.default)
            if value is None:
                raise InternalError(f"{kernel.name}: no value for the scalar {param.var.name}")
            number, finish = scalar(value, param.var.type), rounder(param.var.type)
            env[param.var.name] = number if finish is None else finish(number)
    return env


def _shape(buffer: Buffer, f: Frame) -> tuple[int, ...]:
    return tuple(int(evaluate(d, Scope())(f)) for d in buffer.shape)


# ---------------------------------------------------------------------------------------------- host level
def _host(body: Body, scope: Scope) -> Run:
    runs = [_host_statement(s, scope) for s in body]

    def run(f: Frame) -> None:
        for each in runs:
            each(f)

    return run


def _host_statement(s: Stmt, scope: Scope) -> Run:
    match s:
        case Launch():
            return launch(s, scope)
        case If(cond, then, other):
            test, yes, no = evaluate(cond, scope), _host(then, scope), _host(other, scope)
            return lambda f: yes(f) if test(f) else no(f)
        case For(var, start, stop, body, step):
            return _host_loop(var, evaluate(start, scope), evaluate(stop, scope), step, _host(body, scope))
        case While(cond, body):
            return _host_while(evaluate(cond, scope), _host(body, scope))
        case _:  # Let and Assert; anything else the host runs as a block would
            return statement(s, scope)


def _host_loop(var: Var, start: Run, stop: Run, step: int, body: Run) -> Run:
    def run(f: Frame) -> None:
        for value in range(int(start(f)), int(stop(f)), step):
            f.env[var.name] = value
            body(f)

    return run


def _host_while(cond: Run, body: Run) -> Run:
    def run(f: Frame) -> None:
        while cond(f):
            body(f)

    return run


# ---------------------------------------------------------------------------------------------- launches
def launch(s: Launch, scope: Scope) -> Run:
    """The closure that runs every block of a grid, x fastest."""
    grid = [evaluate(e, scope) for e in s.grid]
    names, space = thread_axes(s)
    inner = Scope(names, set(names), scope.tracing)
    lanes = {var.name: counter(0, var.type) for var in s.thread_vars}
    dtypes = {var.name: var.type for var in s.thread_vars}
    for axis, name in enumerate(names):
        lanes[name] = counter(np.arange(space[axis]).reshape((-1,) + (1,) * (len(space) - 1 - axis)), dtypes.get(name, INDEX))
    body = block(s.body, inner)
    together = any(isinstance(n, Sync) and n.scope == "grid" for n in walk(s))
    owned = [(b, b.static_shape(), None if b.strides is None else _ints(b.strides)) for b in s.allocs if b.view_of is None]

    def start(f: Frame, place: tuple[int, ...]) -> Frame:
        env, buffers = dict(f.env), dict(f.buffers)
        for var, at in zip(s.block_vars, place, strict=False):
            env[var.name] = counter(at, var.type)
        env.update(lanes)
        for buffer, shape, strides in owned:
            buffers[buffer.name] = allocate(buffer, shape, space if is_private(buffer) else (), strides)
        return Frame(env, buffers, space, True, Loop(), place, f.recorder)

    def run(f: Frame) -> None:
        if f.recorder is not None:
            f.recorder.launch += 1
        extents = [max(0, int(g(f))) for g in grid]
        frames = (start(f, tuple(reversed(place))) for place in np.ndindex(*reversed(extents)))
        if together:
            _in_step(list(frames), body)
            return
        for frame in frames:
            body(frame)

    return run


def _ints(exprs: Sequence[Expr]) -> tuple[int, ...]:
    return tuple(int(evaluate(e, Scope())(Frame({}, {}))) for e in exprs)


def thread_axes(s: Launch) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The names and extents of the thread axes, z first, without those of extent 1; () where threads are not visible."""
    if not s.threads_used:
        return (), ()
    pairs = [(s.thread_vars[d].name if d < len(s.thread_vars) else f"thread axis {d}", extent) for d, extent in enumerate(s.threads)]
    seen = [(name, extent) for name, extent in reversed(pairs) if extent != 1] or [pairs[0]]
    return tuple(name for name, _ in seen), tuple(extent for _, extent in seen)


def _in_step(frames: list[Frame], body: Run) -> None:
    """Run blocks that meet at grid barriers: one Python thread each, of which exactly one runs at a time, in block order."""
    blocks = [_Block(frame, body) for frame in frames]
    while alive := [b for b in blocks if not b.done]:
        for each in alive:
            each.resume()
            if each.error is not None:
                raise each.error


class _Block:
    """A block that stops at every grid barrier until it is resumed."""

    def __init__(self, frame: Frame, body: Run) -> None:
        self.done, self.error = False, None  # type: bool, BaseException | None
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        frame.pause = self._pause
        self._thread = threading.Thread(target=self._run, args=(frame, body), daemon=True)
        self._thread.start()

    def resume(self) -> None:
        self._go.release()
        self._paused.acquire()

    def _pause(self) -> None:
        self._paused.release()
        self._go.acquire()

    def _run(self, frame: Frame, body: Run) -> None:
        self._go.acquire()
        try:
            with np.errstate(all="ignore"):  # NumPy keeps it per thread
                body(frame)
        except BaseException as error:  # handed to the thread that called run()
            self.error = error
        self.done = True
        self._paused.release()

"""`ParallelFor`: every iteration at once, along new axes in front of the space.

In a kernel with visible threads the block runs the loop once, on the values that its threads share; where the body uses values that differ
between threads, each thread runs the whole box.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.expr import Buffer, Load, Var
from ..ir.node import walk
from ..ir.stmt import Atomic, Body, ParallelFor, Region, Store
from .arithmetic import counter
from .expressions import Run, Scope, evaluate, is_private
from .frame import Frame, Loop, first_active, is_uniform, spread_mask
from .memory import Storage

Compile = Callable[[Body, Scope], Run]


def parallel(s: ParallelFor, scope: Scope, compile_body: Compile) -> Run:
    """The closure for a parallel loop; `compile_body` compiles statements (it is `statements.block`)."""
    names = tuple(v.name for v in s.vars)
    extents = [evaluate(e, scope) for e in s.extents]
    uses = _Uses(s.body)
    bodies: dict[bool, Run] = {}

    def body(per_thread: bool) -> Run:
        if per_thread not in bodies:
            axes = names + (scope.axes if per_thread else ())
            varying = set(names) | (scope.varying | set(scope.axes) if per_thread else set())
            ramps = {n: axis + len(names) for n, axis in scope.ramps.items()} if per_thread else {}
            bodies[per_thread] = compile_body(s.body, Scope(axes, varying, scope.tracing, ramps))
        return bodies[per_thread]

    body(False)  # so that what the interpreter cannot run is refused before it starts

    def run(f: Frame) -> None:
        box = tuple(max(0, int(first_active(e(f), f))) for e in extents)
        if 0 in box:
            return
        per_thread = bool(f.space) and uses.differ(f)
        env, buffers, space, mask, loop = f.env, f.buffers, f.space, f.mask, f.loop
        f.env, f.buffers, f.loop = dict(env), dict(buffers), Loop()
        f.space = box + (space if per_thread else ())
        if not per_thread:
            f.mask = True
            uses.collapse(f, space, mask)
        uses.expand(f, f.space)
        for axis, (var, extent) in enumerate(zip(s.vars, box, strict=True)):
            f.env[var.name] = counter(np.arange(extent).reshape((extent,) + (1,) * (len(f.space) - 1 - axis)), var.type)
        body(per_thread)(f)
        f.env, f.buffers, f.space, f.mask, f.loop = env, buffers, space, mask, loop

    return run


class _Uses:
    """The names that a parallel body takes from outside, and the per-lane buffers that it touches."""

    def __init__(self, body: Body) -> None:
        self.names: list[str] = []
        self.private: list[Buffer] = []
        self.written: set[str] = set()
        for node in (n for s in body for n in walk(s)):
            if isinstance(node, Var) and node.name not in self.names:
                self.names.append(node.name)
            buffer = node.buffer if isinstance(node, Load | Store | Region) else None
            if buffer is not None and is_private(buffer) and buffer.root not in self.private:
                self.private.append(buffer.root)
            if isinstance(node, Store):
                self.written.add(node.buffer.root.name)
            elif isinstance(node, Atomic):
                self.written.add(node.dst.buffer.root.name)

    def differ(self, f: Frame) -> bool:
        """Whether a value that the body uses differs between the active threads."""
        if any(not is_uniform(f.env[name], f) for name in self.names if name in f.env):
            return True
        for buffer in self.private:
            storage = f.buffers.get(buffer.name)
            if storage is not None and storage.lanes:
                for element in np.ndindex(storage.shape):
                    if not is_uniform(np.asarray(storage.read((..., *element))), f):
                        return True
        return False

    def collapse(self, f: Frame, space: tuple[int, ...], mask: Any) -> None:
        """Replace what the threads share by what the first active one holds."""
        outside = Frame(f.env, f.buffers, space, mask)
        for name in self.names:
            if name in f.env:
                f.env[name] = first_active(f.env[name], outside)
        lane = np.unravel_index(int(np.argmax(spread_mask(mask, space))), space) if space else ()
        for buffer in self.private:
            storage = f.buffers.get(buffer.name)
            if storage is not None and storage.lanes:
                f.buffers[buffer.name] = Storage(storage.buffer, storage.array[lane], (), storage.flat)

    def expand(self, f: Frame, space: tuple[int, ...]) -> None:
        """Give each lane its own copy of the per-lane buffers that the body writes; what it leaves in them is lost."""
        for buffer in self.private:
            storage = f.buffers.get(buffer.name)
            if storage is not None:
                _forget_views(f, buffer)
                if buffer.name in self.written:
                    f.buffers[buffer.name] = storage.in_lanes(space)


def _forget_views(f: Frame, root: Buffer) -> None:
    for name in [n for n, s in f.buffers.items() if s.buffer.view_of is not None and s.buffer.root == root]:
        del f.buffers[name]

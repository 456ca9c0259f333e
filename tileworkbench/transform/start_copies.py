"""Copies in front of `T.cp_async_barrier_noinc` are only started: the barrier is told when they have come (sm_90).

Before:  tile <- A[..];  other <- B[..];  cp_async_arrive bar
After:   tile <- A[..] (async, 16 bytes);  other <- B[..] (async, 16 bytes);  cp_async_arrive bar

Copies that the hardware cannot start (`analysis/async_copies.py`) are done at once, and the arrival then says so too.

Requires: tile operations.  Preserves: everything else.
"""

from __future__ import annotations

from ..analysis.async_copies import async_copy
from ..ir.build import index
from ..ir.explicit import ASYNC_ARRIVAL, Asked
from ..ir.expr import Buffer, is_const
from ..ir.node import replace, walk
from ..ir.stmt import Body, Copy, Kernel, Let, Stmt, whole
from .scoped import Scoped


def start_copies(kernel: Kernel, aligned: bool = True) -> Kernel:
    """Return `kernel` with copies that are only started; `aligned`: arrays begin at multiples of 16 bytes."""
    if not any(isinstance(n, Asked) and n.name == ASYNC_ARRIVAL for n in walk(kernel)):
        return kernel
    return _Start(aligned).kernel(kernel)


class _Start(Scoped):
    def __init__(self, aligned: bool) -> None:
        super().__init__()
        self.aligned = aligned

    def body(self, body: Body) -> Body:
        out = list(super().body(body))
        for at, stmt in enumerate(out):
            if isinstance(stmt, Asked) and stmt.name == ASYNC_ARRIVAL:
                before = at - 1
                while before >= 0 and isinstance(out[before], (Copy, Let)):
                    out[before] = self.started(out[before])
                    before -= 1
        return body if len(out) == len(body) and all(a is b for a, b in zip(out, body, strict=True)) else tuple(out)

    def started(self, stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Copy) or not is_const(stmt.dst.starts[-1], 0) or stmt.dst.extents[-1] != stmt.dst.buffer.shape[-1]:
            return stmt
        sizes = tuple(index(n) for n in stmt.dst.static_extents())
        tile = Buffer(stmt.dst.buffer.name, sizes, stmt.dst.buffer.type, stmt.dst.buffer.scope, view_of=stmt.dst.buffer.view_of)
        found = async_copy(replace(stmt, dst=whole(tile)), self.bounds, self.aligned)
        return replace(stmt, async_bytes=found.bytes) if found.bytes else stmt

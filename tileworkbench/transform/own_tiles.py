"""Tile operations that every thread does on its own, since they touch its own buffers, become statements about elements.

Before:  mine: local float32[4];  fill mine <- 0;  copy mine <- A[tx * 4 :+ 4]
After:   for i in serial(0, 4): mine[i] = 0;  for i in serial(0, 4): mine[i] = A[tx * 4 + i]

So do operations whose regions differ from thread to thread. Where threads are not visible all do the same, and a parallel loop keeps what it
writes for its iteration.

Requires: tile operations, single atomics.  Preserves: operations of the whole block.
"""

from __future__ import annotations

from ..analysis.uniform import Uniformity, is_private, touches_private
from ..ir.launches import rewrite_launches
from ..ir.node import replace, walk
from ..ir.stmt import Body, Copy, Fill, For, Gemm, If, Kernel, Launch, ParallelFor, PipelinedFor, Reduce, Region, Scan, Stmt, While
from .names import Names
from .thread_private import scalarise


def own_tiles(kernel: Kernel) -> Kernel:
    """Return `kernel` with tile operations of the block only."""
    names = Names(kernel)

    def change(node: Launch) -> Launch:
        body = _Own(node, names).body(node.body)
        return node if body is node.body else replace(node, body=body)

    return rewrite_launches(kernel, change)


class _Own:
    def __init__(self, launch: Launch, names: Names) -> None:
        self.uniform = Uniformity(launch) if launch.threads_used else None
        self.names = names

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        changed = False
        for stmt in body:
            new = self.stmt(stmt)
            changed |= len(new) != 1 or new[0] is not stmt
            out += new
        return tuple(out) if changed else body

    def stmt(self, stmt: Stmt) -> Body:
        match stmt:
            case If(_, then, other):
                bodies = self.body(then), self.body(other)
                return (stmt if bodies[0] is then and bodies[1] is other else replace(stmt, then=bodies[0], other=bodies[1]),)
            case For(body=body) | PipelinedFor(body=body) | While(body=body):
                inside = self.body(body)
                return (stmt if inside is body else replace(stmt, body=inside),)
            case Copy() | Fill() | Gemm() | Reduce() | Scan() | ParallelFor() if self.is_own(stmt):
                return scalarise(stmt, self.names)
            case _:
                return (stmt,)

    def is_own(self, stmt: Stmt) -> bool:
        if self.uniform is None:
            return any(isinstance(n, Region) and is_private(n.buffer) for n in walk(stmt))  # places that depend on such a buffer are one to all
        return touches_private(stmt) or not self.uniform.is_uniform(stmt)

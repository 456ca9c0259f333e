"""Tile operations of a launch whose threads are visible are shared out to them; what stands between them stays each thread's own.

Before:  tx: x = A[tx]; s[tx] = x; gemm c <- a @ b; C[tx] = c[0, tx]
After:   tx: x = A[tx]; s[tx] = x; sync block; (c's cells that this thread sums); sync block; C[tx] = c[0, tx]

The block is together where such an operation starts and ends, and `meet_outside` has seen to it that all threads come there. `insert_barriers`
counts on that: barriers between two statements of which an operation stands between are placed here, where memory passes between threads.

Requires: copies and fills as parallel loops, single atomics, no operation on a thread's own buffers.  Preserves: launches whose threads are not
visible, and those without tile operations.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.bodies import heads, statements
from ..ir.expr import Buffer, Expr
from ..ir.launches import rewrite_launches
from ..ir.node import Node
from ..ir.stmt import Body, For, Gemm, If, Kernel, Launch, ParallelFor, PipelinedFor, Reduce, Region, Scan, Stmt, Sync, While
from .certain_regions import certain_regions
from .names import Names
from .spread_threads import Spread

TILE_OPERATIONS = (ParallelFor, Gemm, Reduce, Scan)


def spread_together(kernel: Kernel, arch: int = 0) -> Kernel:
    """Return `kernel` without tile operations in thread-level launches, for compute capability `arch`."""
    names, certain = Names(kernel), certain_regions(kernel)

    def change(node: Launch) -> Launch:
        if node.threads_used and _has_operation(node.body):
            return _Together(node, arch, names, certain).launch()
        return node

    return rewrite_launches(kernel, change)


def _has_operation(body: Body) -> bool:
    return any(isinstance(n, TILE_OPERATIONS) for s in body for n in statements(s))


class _Together(Spread):
    """`read` and `wrote`: memory touched since the last barrier and before the last tile operation, or by it; `since`: after it, by threads.

    Threads' statements with no operation between them have their barriers already.
    """

    def __init__(self, launch: Launch, arch: int, names: Names, certain: Sequence[Region]) -> None:
        super().__init__(launch, arch, names, certain)
        self.since_read = set(self.read)
        self.since_wrote = set(self.wrote)

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, TILE_OPERATIONS):
                self.remember()
                reads, writes = self.shared([stmt])
                self.barrier(out, reads, writes, stmt)
                out += self.stmt(stmt)
                self.read, self.wrote = self.read | reads, self.wrote | writes
            elif isinstance(stmt, Sync):
                self.forget()
                out.append(stmt)
            elif isinstance(stmt, (If, For, PipelinedFor, While)) and _has_operation((stmt,)):
                self.of_threads(out, [*heads(stmt)], stmt)
                out += self.stmt(stmt)
            else:
                self.of_threads(out, [stmt], stmt)
                out.append(stmt)
        self.remember()
        return tuple(out)

    def of_threads(self, out: list[Stmt], nodes: list[Node], stmt: Stmt) -> None:
        """A barrier in front of what threads do on their own, if it meets what stood before the last operation."""
        reads, writes = self.shared(nodes)
        self.barrier(out, reads, writes, stmt)
        self.since_read, self.since_wrote = self.since_read | reads, self.since_wrote | writes

    def around(self, body: Body, again: list[Expr], are_blocks: bool = False) -> Body:
        self.remember()
        return super().around(body, again, are_blocks)

    def stmt(self, stmt: Stmt) -> Body:
        if isinstance(stmt, If):
            self.remember()  # each side begins with it
        return super().stmt(stmt)

    def barrier(self, out: list[Stmt], reads: set[Buffer], writes: set[Buffer], stmt: Stmt | None) -> None:
        before = len(out)
        super().barrier(out, reads, writes, stmt)
        if len(out) > before:
            self.forget()

    def remember(self) -> None:
        """What threads did since the last operation lies before one."""
        self.read, self.wrote = self.read | self.since_read, self.wrote | self.since_wrote
        self.since_read, self.since_wrote = set(), set()

    def forget(self) -> None:
        """All is settled."""
        self.read, self.wrote, self.since_read, self.since_wrote = set(), set(), set(), set()

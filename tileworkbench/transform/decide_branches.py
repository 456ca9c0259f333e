"""A test whose outcome is certain goes away, and with it the branch that is never taken.

Before:  for step in pipelined(0, 8): if (step + 1) * 128 > 1024: mask the scores that lie outside
After:   for step in pipelined(0, 8): (nothing)

Authors write one program for sizes that divide and sizes that do not; what the second needs is no text for the first.
Requires: indices of the index dtype (`index_loops`).  Preserves: every other test, and what a test reads that is not certain.
"""

from __future__ import annotations

from ..ir.build import TRUE
from ..ir.node import replace
from ..ir.stmt import If, Kernel, Let, Stmt
from .scoped import Result, Scoped


def decide_branches(kernel: Kernel) -> Kernel:
    """Return `kernel` without branches that are certain."""
    return _Decide().kernel(kernel)


class _Decide(Scoped):
    def on_stmt(self, stmt: Stmt) -> Result:
        if not isinstance(stmt, If):
            return stmt
        outcome = self.bounds.truth(stmt.cond)
        if outcome is None or stmt.cond == TRUE:
            return stmt
        taken = stmt.then if outcome else stmt.other
        if any(isinstance(s, Let) for s in taken):  # its names stay in a scope of their own
            return replace(stmt, cond=TRUE, then=taken, other=())
        return taken

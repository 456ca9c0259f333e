"""What is certainly inside its buffer wherever control comes there: operands that may be read by address, targets that begin at no negative index."""

from __future__ import annotations

from ..base.dtypes import INDEX
from ..ir.build import cast
from ..ir.device import Specialised
from ..ir.node import walk
from ..ir.stmt import Atomic, Copy, Gemm, Kernel, Region, Stmt
from .scoped import Result, Scoped


def certain_regions(kernel: Kernel) -> list[Region]:
    """The operands of `kernel`'s products, each the object itself, that no condition is needed for."""
    if not any(isinstance(node, Gemm) for node in walk(kernel)):
        return []
    looking = _Look()
    looking.kernel(kernel)
    return looking.found


def natural_targets(kernel: Kernel) -> set[int]:
    """By identity, the copies and atomics of `kernel` to global memory whose target begins at no negative index."""
    looking = _Look()
    looking.kernel(kernel)
    return looking.natural


class _Look(Scoped):
    """Changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Region] = []
        self.natural: set[int] = set()

    def stmt(self, stmt: Stmt) -> Result:
        if isinstance(stmt, Specialised):
            for body in (stmt.setup, stmt.producer, stmt.consumers):
                self.body(body)
            return stmt
        return super().stmt(stmt)

    def on_stmt(self, stmt: Stmt) -> Result:
        if isinstance(stmt, Gemm):
            self.found += [region for region in (stmt.a, stmt.b) if self.bounds.holds(region)]
        elif isinstance(stmt, (Copy, Atomic)) and stmt.dst.buffer.root.scope == "global":
            if all(self.bounds.at_least_zero(self.bounds.sum(cast(start, INDEX))) for start in stmt.dst.starts):
                self.natural.add(id(stmt))
        return stmt

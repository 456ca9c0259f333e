"""Operands of products that are certainly inside their buffers, wherever control reaches the product: what may be read by address."""

from __future__ import annotations

from ..ir.device import Specialised
from ..ir.node import walk
from ..ir.stmt import Gemm, Kernel, Region, Stmt
from .scoped import Result, Scoped


def certain_regions(kernel: Kernel) -> list[Region]:
    """The operands of `kernel`'s products, each the object itself, that no condition is needed for."""
    if not any(isinstance(node, Gemm) for node in walk(kernel)):
        return []
    looking = _Look()
    looking.kernel(kernel)
    return looking.found


class _Look(Scoped):
    """Changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Region] = []

    def stmt(self, stmt: Stmt) -> Result:
        if isinstance(stmt, Specialised):
            for body in (stmt.setup, stmt.producer, stmt.consumers):
                self.body(body)
            return stmt
        return super().stmt(stmt)

    def on_stmt(self, stmt: Stmt) -> Result:
        if isinstance(stmt, Gemm):
            self.found += [region for region in (stmt.a, stmt.b) if self.bounds.holds(region)]
        return stmt

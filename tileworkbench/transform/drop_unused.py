"""Bindings that nothing reads go away.

Before:  let m = by * 64 + i; C[(by * 64 + i) * N] = 0        (proofs have seen through m)
After:   C[(by * 64 + i) * N] = 0

Requires: any stage.  Preserves: everything with an effect.
"""
from __future__ import annotations

from ..ir.expr import CallExtern, Var
from ..ir.lowered import AtomicOp
from ..ir.node import Node, rewrite, walk
from ..ir.stmt import Kernel, Let


def drop_unused(kernel: Kernel) -> Kernel:
    """Return `kernel` without unread `Let`s."""
    while True:
        used = _used(kernel)

        def change(node: Node, used: set[str] = used) -> Node | None:
            return None if isinstance(node, Let) and node.var.name not in used and not _acts(node) else node

        smaller = rewrite(kernel, change)
        if smaller is kernel:
            return kernel
        kernel = smaller


def _used(kernel: Kernel) -> set[str]:
    """Names of variables that are read somewhere; a binding's own mention does not count."""
    mentions: dict[str, int] = {}
    for n in walk(kernel):
        if isinstance(n, Var):
            mentions[n.name] = mentions.get(n.name, 0) + 1
        elif isinstance(n, Let):
            mentions[n.var.name] = mentions.get(n.var.name, 0) - 1
    return {name for name, count in mentions.items() if count > 0}


def _acts(let: Let) -> bool:
    return any(isinstance(n, (AtomicOp, CallExtern)) for n in walk(let.value))

"""Assertions become tests that record their number and leave.

Before:  assert i < n, "too far"
After:   if not i < n: fail 0 "too far"

Requires: any stage before placing.  Preserves: everything else.
"""

from __future__ import annotations

from ..ir.build import negate
from ..ir.lowered import Fail
from ..ir.node import Node, rewrite
from ..ir.stmt import Assert, If, Kernel


def expand_asserts(kernel: Kernel) -> Kernel:
    """Return `kernel` without `Assert`; assertions are numbered in program order."""
    count = 0

    def change(node: Node) -> Node:
        nonlocal count
        if isinstance(node, Assert):
            count += 1
            return If(negate(node.cond), (Fail(count - 1, node.message, span=node.span),), span=node.span)
        return node

    return rewrite(kernel, change)

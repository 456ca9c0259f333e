"""Changing the launches of a kernel and nothing else.

Launches stand in the body of a kernel, or in branches and loops there that the host decides; never in each other. So nothing inside one has to be
looked at to find them, which makes this much faster than `rewrite`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .node import Node, map_children
from .stmt import Body, Kernel, Launch, Stmt


def rewrite_launches(kernel: Kernel, change: Callable[[Launch], Stmt | Body]) -> Kernel:
    """`kernel` with what `change` makes of each launch, in program order: the launch itself for "unchanged", another statement, or several."""

    def at(node: Node) -> Any:
        if isinstance(node, Launch):
            return change(node)
        return map_children(node, at) if isinstance(node, Stmt) else node

    return map_children(kernel, at)

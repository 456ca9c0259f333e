"""Bindings that nothing reads go away.

Before:  let m = by * 64 + i; C[(by * 64 + i) * N] = 0        (proofs have seen through m)
After:   C[(by * 64 + i) * N] = 0

Requires: any stage.  Preserves: everything with an effect.
"""

from __future__ import annotations

from ..ir.expr import CallExtern, Var
from ..ir.lowered import AtomicOp
from ..ir.node import Node, children, rewrite, walk
from ..ir.stmt import Kernel, Let


def drop_unused(kernel: Kernel) -> Kernel:
    """Return `kernel` without bindings that no statement needs, directly or through others."""
    used, inside = _uses(kernel)
    waiting = list(used)
    while waiting:
        for name in inside.get(waiting.pop(), ()):
            if name not in used:
                used.add(name)
                waiting.append(name)

    def change(node: Node) -> Node | None:
        return None if isinstance(node, Let) and node.var.name not in used and not _acts(node) else node

    return rewrite(kernel, change)


def _uses(kernel: Kernel) -> tuple[set[str], dict[str, set[str]]]:
    """Names that statements read, and for each bound name what its value reads."""
    used: set[str] = set()
    inside: dict[str, set[str]] = {}
    stack: list[Node] = [kernel]
    while stack:
        node = stack.pop()
        match node:
            case Let(var, value) if not _acts(node):
                inside.setdefault(var.name, set()).update(n.name for n in walk(value) if isinstance(n, Var))
            case Let(_, value):
                stack.append(value)
            case Var(name):
                used.add(name)
            case _:
                stack.extend(children(node))
    return used, inside


def _acts(let: Let) -> bool:
    return any(isinstance(n, (AtomicOp, CallExtern)) for n in walk(let.value))

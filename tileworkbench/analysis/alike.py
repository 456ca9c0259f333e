"""What is the same in all blocks of a cluster: expressions that do not depend on a block's rank.

Of an index that counts blocks, divided by the size of the cluster along it, only the cluster is left: `bx // 2` is alike in clusters (2, 1, 1).
"""

from __future__ import annotations

from ..ir.expr import Binary, Const, Expr, Var
from ..ir.node import Node, children, walk
from ..ir.stmt import For, Launch, Let


class Alike:
    """The names of one launch that differ between blocks of a cluster. Loops are taken to go alike; the caller knows that they do."""

    def __init__(self, launch: Launch) -> None:
        self.counts = {v.name: size for v, size in zip(launch.block_vars, launch.cluster, strict=False) if size > 1}
        for node in (n for s in launch.body for n in walk(s)):
            match node:
                case For(Var(name), kind="blocks"):
                    self.counts[name] = launch.cluster_size
                case _:
                    pass
        self.apart = set(self.counts)
        for node in (n for s in launch.body for n in walk(s)):
            match node:
                case Let(var, Var(name)) if name in self.counts:
                    self.counts[var.name] = self.counts[name]
                    self.apart.add(var.name)
                case Let(var, value) if not self.is_alike(value):
                    self.apart.add(var.name)
                case _:
                    pass

    def is_alike(self, e: Expr) -> bool:
        """Whether all blocks of a cluster get the same value."""
        return not self._differs(e)

    def _differs(self, node: Node) -> bool:
        match node:
            case Binary("floordiv", Var(name), Const(by)) if name in self.counts and int(by) % self.counts[name] == 0:
                return False
            case Var(name):
                return name in self.apart
            case _:
                return any(self._differs(child) for child in children(node))

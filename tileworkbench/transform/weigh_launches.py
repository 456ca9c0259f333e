"""A launch of little work runs on the caller's thread: waking another one would take longer.

Before:  grid (bx) in (4), each block about 2 us
After:   grid (bx) in (4), on one thread

A parallel region costs about a microsecond while the workers spin, and tens of them once they sleep. The work of a block is estimated from its loops
(`analysis/work.py`); with symbolic extents the number of blocks that are worth it stays in the text as a comparison. Work that cannot be estimated is
shared.
Requires: grids, constant loops where they can be.  Preserves: everything but `Grid.enough_blocks`.
"""

from __future__ import annotations

import math

from ..analysis.work import work_ns
from ..ir.expr import Const
from ..ir.lowered import Grid
from ..ir.node import Node, replace, rewrite
from ..ir.stmt import Kernel

WORTH_NS = 25_000.0  # of work in all; half of it is what a sleeping worker takes to be there


def weigh_launches(kernel: Kernel) -> Kernel:
    """Return `kernel` with the number of blocks from which each grid is worth sharing between threads."""
    return rewrite(kernel, _weigh)


def _weigh(node: Node) -> Node:
    if not isinstance(node, Grid):
        return node
    enough = _enough(node)
    return node if enough == node.enough_blocks else replace(node, enough_blocks=enough)


def _enough(grid: Grid) -> int | None:
    block = work_ns(grid.body)
    if block is None:
        return 0
    least = math.ceil(WORTH_NS / max(block, 1.0))
    blocks = 1
    for extent in grid.extents:
        if not isinstance(extent, Const):
            return least if least > 2 else 0
        blocks *= int(extent.value)
    return 0 if blocks >= least else None

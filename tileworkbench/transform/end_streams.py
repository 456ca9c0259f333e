"""The end of stores past the caches is waited for once a core, not once a block.

Before:  grid (bx) in (64): turn_stream(..); stream_end()
After:   grid (bx) in (64), then stream_end(): turn_stream(..)

`twb_stream_end` waits until memory has everything; meanwhile the next block could have begun. No block looks at what a block of the same launch
streams (`stream_stores`, `turn_tiles`), and a launch is over only when every core is done with what stands after its blocks.

Requires: grids.  Preserves: everything else.
"""

from __future__ import annotations

from ..ir.lowered import Grid, LibraryCall
from ..ir.node import Node, replace, rewrite
from ..ir.stmt import Evaluate, Kernel, Stmt


def end_streams(kernel: Kernel) -> Kernel:
    """Return `kernel` with the ends of streams after the blocks of each core."""
    return rewrite(kernel, _moved)


def _moved(node: Node) -> Node:
    if not isinstance(node, Grid):
        return node
    kept = tuple(s for s in node.body if not _ends(s))
    if len(kept) == len(node.body):
        return node
    end = next(s for s in node.body if _ends(s))
    return replace(node, body=kept, after=(*node.after, end))


def _ends(stmt: Stmt) -> bool:
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, LibraryCall) and stmt.value.name == "twb_stream_end"

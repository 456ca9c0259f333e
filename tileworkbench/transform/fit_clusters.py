"""Clusters of blocks are what the target can launch: none where hardware has none, and whole ones elsewhere.

Before:  launch blocks (bx) in (32), clusters (2, 1, 1)
After:   the same on sm_90;  elsewhere launch blocks (bx) in (32), with a remark

Requires: any stage.  Preserves: everything else. UnsupportedError for a constant grid that clusters do not divide, where there are some; other grids
are looked at when they are launched.
"""

from __future__ import annotations

from ..base.errors import UnsupportedError
from ..ir.expr import Const
from ..ir.launches import rewrite_launches
from ..ir.node import replace
from ..ir.remark import Remark
from ..ir.stmt import Kernel, Launch


def fit_clusters(kernel: Kernel, arch: int = 0) -> Kernel:
    """Return `kernel` with the clusters that compute capability `arch` has (0: no GPU)."""
    if all(launch.cluster_size == 1 for launch in kernel.launches):
        return kernel

    def change(node: Launch) -> Launch:
        if node.cluster_size == 1:
            return node
        if arch < 90:
            said = Remark(f"clusters of {node.cluster_size} blocks need sm_90: here each block runs by itself", span=node.span)
            return replace(node, cluster=(1, 1, 1), remarks=(*node.remarks, said))
        require_whole(kernel.name, node)
        return node

    return rewrite_launches(kernel, change)


def require_whole(name: str, launch: Launch) -> None:
    """Refuse a grid that cannot be cut into clusters."""
    for axis, extent, size in zip("xyz", launch.grid, launch.cluster, strict=False):
        if isinstance(extent, Const) and int(extent.value) % size:
            raise UnsupportedError(
                f"kernel {name}: its grid has {int(extent.value)} blocks in {axis}, which clusters of {launch.cluster} do not divide",
                span=launch.span,
                hint=f"launch a multiple of {size} blocks in {axis}, and let those behind the end do nothing; or leave cluster_dims out",
            )  # fmt: skip

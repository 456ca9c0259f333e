"""Tiles that matrix instructions read lie in chunks with permuted pieces.

Before:  launch ... gemm a b acc
After:   launch with forms a: rows of 128 bytes, b: rows of 128 bytes ... gemm a b acc
"""

from __future__ import annotations

from ..analysis.tile_forms import span_of
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Gemm, Kernel, Launch
from ..ir.tile_form import TileForm


def form_tiles(kernel: Kernel, arch: int) -> Kernel:
    def change(node: Node) -> Node:
        if not isinstance(node, Launch) or node.threads_used:
            return node
        tiles = {}
        for n in walk(node):
            if isinstance(n, Gemm):
                for r in (n.a, n.b):
                    if r.buffer.scope == "shared" and r.buffer.type.bits == 16 and span_of(r.buffer):
                        tiles[r.buffer] = TileForm(r.buffer, span_of(r.buffer))
        return replace(node, forms=tuple(tiles.values())) if tiles else node

    return rewrite(kernel, change)

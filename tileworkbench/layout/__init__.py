"""Layouts of tiles: where each cell lies in memory, which thread holds it, what an access costs, and which swizzle makes it cost less.

A `TileLayout` is a value on tensor-layouts' algebra. `linear`, `padded`, `swizzled` and `xored` make tiles in memory, `fragment` and `spread` tiles
held by threads, `atom(name)` the operands of a matrix or copy instruction. An `Access` says which cells the threads of a warp want at once; on a
layout it has wavefronts. `find_layouts` tries every padding and XOR swizzle. Three examples:

>>> atom("SM80_16x8x8_F32TF32TF32F32_TN").c.at(3, 5)
{'thread': 14, 'register': 1}
>>> read = ldmatrix("A", 64, 64, bits=16)
>>> read.wavefronts(linear(64, 64, bits=16)).excess, read.wavefronts(swizzled(64, 64, bits=16)).excess
(448, 0)
>>> find_layouts(64, 64, bits=16, accesses=(read,), buffer="A_s").annotation
'T.annotate_layout({A_s: make_full_bank_swizzled_layout(A_s)})'

The names that start with `make_` are what a kernel gives to `T.annotate_layout`: requests, which a CPU accepts and does not need. So is a
`T.Layout`; `annotated` says which index maps a GPU target can follow.
"""

from __future__ import annotations

from .access import Access, TornError, elementwise, lane_reads, ldmatrix, shared_copy
from .algebra import ComposedLayout, Layout, Table, Xor
from .atoms import Atom, atom, atom_names
from .banks import CacheShape, Pieces, Wavefronts, false_sharing, l1_shape, pieces, serve, wavefronts
from .finder import Candidate, Found, find_layouts
from .swizzle import (
    Swizzle,
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    make_mma_swizzle_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
)
from .tile_layout import TileLayout, fragment, linear, padded, spread, swizzled, xored

__all__ = [
    "Access",
    "Atom",
    "CacheShape",
    "Candidate",
    "ComposedLayout",
    "Found",
    "Layout",
    "Pieces",
    "Swizzle",
    "Table",
    "TileLayout",
    "TornError",
    "Wavefronts",
    "Xor",
    "atom",
    "atom_names",
    "elementwise",
    "false_sharing",
    "find_layouts",
    "fragment",
    "l1_shape",
    "lane_reads",
    "ldmatrix",
    "linear",
    "make_full_bank_swizzled_layout",
    "make_half_bank_swizzled_layout",
    "make_linear_layout",
    "make_mma_swizzle_layout",
    "make_quarter_bank_swizzled_layout",
    "make_swizzled_layout",
    "padded",
    "pieces",
    "serve",
    "shared_copy",
    "spread",
    "swizzled",
    "wavefronts",
    "xored",
]

"""Layouts of tiles over threads, registers and banks.

What stands here so far are the names that kernels pin layouts with. A CPU keeps every tile row-major, so they are accepted and change nothing.
"""

from __future__ import annotations

from .swizzle import (
    Swizzle,
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    make_mma_swizzle_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
)

__all__ = [
    "Swizzle",
    "make_full_bank_swizzled_layout",
    "make_half_bank_swizzled_layout",
    "make_linear_layout",
    "make_mma_swizzle_layout",
    "make_quarter_bank_swizzled_layout",
    "make_swizzled_layout",
]

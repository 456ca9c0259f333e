"""Words for memory that several threads or blocks change at once.

`dst` is one element, `C[i]`, or a tile (a buffer or slice, with a tile of the same extents as `value`). `value` is converted to dst's dtype.
Elements outside a global `dst` are skipped. With `return_prev=True`, on one element, the word gives the value before the change.
"""

from __future__ import annotations

from typing import Any

from ._dispatch import word


@word
def atomic_add(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False, use_tma: bool = False, annotations: Any = None) -> Any:
    """`dst += value` atomically. Example: `slot = T.atomic_add(counter[0], 1, return_prev=True)`"""


@word
def atomic_max(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False) -> Any:
    """`dst = max(dst, value)` atomically."""


@word
def atomic_min(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False) -> Any:
    """`dst = min(dst, value)` atomically."""


@word
def atomic_or(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False) -> Any:
    """`dst |= value` atomically, for integers."""


@word
def atomic_and(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False) -> Any:
    """`dst &= value` atomically, for integers."""


@word
def atomic_xor(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False) -> Any:
    """`dst ^= value` atomically, for integers."""


@word
def atomic_exch(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False) -> Any:
    """`dst = value` atomically, giving the old value with `return_prev`."""


@word
def atomic_addx2(dst: Any, value: Any, return_prev: bool = False) -> Any:
    """Add the two elements from `value` on to the two from `dst` on, each atomically. Both lie along the last dim."""


@word
def atomic_addx4(dst: Any, value: Any, return_prev: bool = False) -> Any:
    """As `atomic_addx2`, for four elements."""


@word
def atomic_load(src: Any, memory_order: str = "seq_cst") -> Any:
    """The value of one element; order "relaxed", "consume", "acquire" or "seq_cst"."""


@word
def atomic_store(dst: Any, value: Any, memory_order: str = "seq_cst") -> None:
    """Set one element; order "relaxed", "release" or "seq_cst"."""

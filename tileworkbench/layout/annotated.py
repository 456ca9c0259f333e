"""What an author's index map means: which of the layouts that a compiler can count by it is.

A map is tried on every element at once. Known are strides (padding, transposition) and, on rows that follow one another, an XOR of offset bits with
higher ones.

>>> recognised((32, 32), lambda i, j: i * 33 + j)
Asked(strides=(33, 1), xor=None)
>>> recognised((32, 32), lambda i, j: (i * 32 + j) ^ (((i * 32 + j) >> 5) & 28))
Asked(strides=(32, 1), xor=(3, 2, 5))
>>> recognised((32, 32), lambda i, j: (i, j // 2))
'it puts two elements in one place'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .algebra import Array, Xor, xor

_MOST_ELEMENTS = 1 << 20


@dataclass(frozen=True, slots=True)
class Asked:
    """`strides` in elements; `xor`: (bits, base, shift) of a swizzle of the offset, as CuTe counts them."""

    strides: tuple[int, ...]
    xor: tuple[int, int, int] | None = None


def recognised(shape: Sequence[int], place: Callable[..., Any]) -> Asked | str:
    """How `place`, from indices to an offset or to indices of another shape, lays a tile of `shape` out; or why it cannot be followed."""
    count = prod(shape)
    if not 0 < count <= _MOST_ELEMENTS:
        return f"the tile has {count} elements"
    offsets = _offsets(tuple(shape), place)
    if offsets is None:
        return "its function is not one of integers"
    if offsets.min() < 0:
        return "it puts elements before the tile"
    if len(np.unique(offsets)) != count:
        return "it puts two elements in one place"
    first = (0,) * len(shape)
    strides = tuple(int(offsets[(*first[:d], 1, *first[d + 1 :])] - offsets[first]) if n > 1 else 1 for d, n in enumerate(shape))
    if offsets[first] == 0 and min(strides) > 0 and np.array_equal(offsets, _linear(tuple(shape), strides)):
        return Asked(strides)
    found = _as_xor(offsets, count)
    if found is None:
        return "it is neither strides nor an XOR of offsets"
    rows = tuple(int(prod(shape[d + 1 :])) for d in range(len(shape)))
    return Asked(rows, found)


def _offsets(shape: tuple[int, ...], place: Callable[..., Any]) -> Array | None:
    """The offset of every element; a place of several indices counts row after row in the smallest shape that holds them all."""
    grids = np.indices(shape, dtype=np.int64)
    try:
        found = place(*grids)
    except Exception:  # the author's function, which may not be one of arrays
        try:
            found = [place(*(int(x) for x in at)) for at in np.ndindex(shape)]
            found = tuple(np.reshape(part, shape) for part in zip(*found, strict=True)) if isinstance(found[0], tuple) else np.reshape(found, shape)
        except Exception:  # nor of numbers
            return None
    parts = [np.asarray(part) for part in (found if isinstance(found, tuple | list) else (found,))]
    if not all(part.dtype.kind in "iu" for part in parts):
        return None
    total = np.zeros(shape, dtype=np.int64)
    for part in parts:
        total = total * (int(part.max()) + 1) + np.broadcast_to(part, shape)
    return total


def _linear(shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    out = np.zeros(shape, dtype=np.int64)
    for d, step in enumerate(strides):
        out += np.arange(shape[d]).reshape(-1, *(1,) * (len(shape) - 1 - d)) * step
    return out


def _as_xor(offsets: Array, count: int) -> tuple[int, int, int] | None:
    """(bits, base, shift) if the offsets of rows that follow one another are changed so, within the tile."""
    plain = np.arange(count)
    changed = plain ^ offsets.ravel()
    mask = int(np.bitwise_or.reduce(changed))
    if mask == 0:
        return None
    base, top = (mask & -mask).bit_length() - 1, mask.bit_length()
    bits = top - base
    for shift in range(bits, max(count.bit_length() - base, bits)):
        if np.array_equal(xor(Xor(bits, base, shift), plain), offsets.ravel()):
            return bits, base, shift
    return None


__all__ = ["Asked", "recognised"]

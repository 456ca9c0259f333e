"""4-bit integers: two to a byte, low nibble first, in memory; one to a byte in an `ml_dtypes.int4` array.

>>> import ml_dtypes
>>> pack(np.array([1, -2, 3], ml_dtypes.int4)).tolist()
[225, 3]
>>> unpack(np.array([0xE1, 0x03], np.uint8), (3,), np.dtype(ml_dtypes.int4)).tolist()
[1, -2, 3]
"""

from __future__ import annotations

from typing import Any

import numpy as np

NAMES = ("int4", "uint4")


def pack(array: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The elements in row-major order, two to a byte: `ceil(n / 2)` bytes."""
    nibbles = array.astype(np.int8).view(np.uint8).reshape(-1) & 0x0F
    if nibbles.size % 2:
        nibbles = np.append(nibbles, np.uint8(0))
    packed: np.ndarray[Any, np.dtype[np.uint8]] = nibbles[0::2] | np.left_shift(nibbles[1::2], 4).astype(np.uint8)
    return packed


def unpack(packed: np.ndarray[Any, Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The opposite of `pack`: an array of `shape` with one element to a byte."""
    raw = packed.view(np.uint8).reshape(-1)
    nibbles = np.empty(raw.size * 2, np.uint8)
    nibbles[0::2], nibbles[1::2] = raw & 0x0F, raw >> 4
    count = int(np.prod(shape, dtype=np.int64))
    values = nibbles[:count].astype(np.int8)
    if dtype.name == "int4":
        values = (values ^ 8) - 8
    return values.astype(dtype).reshape(shape)

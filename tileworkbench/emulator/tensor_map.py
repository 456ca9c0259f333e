"""Tensor maps of the emulator: what `cuTensorMapEncodeTiled` takes, in 128 bytes of our own."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import ArgumentError

SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_TYPES = {"float16": 0, "bfloat16": 1, "float32": 2, "float64": 9, "int32": 8, "uint32": 8}
_MARK = 0x54


@dataclass(frozen=True, slots=True)
class TensorMap:
    """How boxes of `array` are copied: `box` innermost first, rows of `swizzle` bytes (0, 32, 64, 128), outside filled with zeros (or NaN).

    `dims` and `strides` (elements and bytes, innermost first; strides of dims 1 and up) are those of the array unless given.
    Raises: ArgumentError for what hardware cannot do.
    """

    array: np.ndarray[Any, Any]
    box: tuple[int, ...]
    swizzle: int = 0
    fill_nan: bool = False
    dims: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        why = self._why_not()
        if why:
            raise ArgumentError(f"tensor map: {why}", hint="see the limits of cuTensorMapEncodeTiled")

    def _shape(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        dims = self.dims or tuple(reversed(self.array.shape))
        return dims, self.strides or tuple(reversed(self.array.strides[:-1]))

    def _why_not(self) -> str:
        dims, strides = self._shape()
        size, inner = self.array.dtype.itemsize, self.box[0] * self.array.dtype.itemsize if self.box else 0
        if not 1 <= len(dims) <= 5 or len(self.box) != len(dims) or len(strides) != len(dims) - 1:
            return f"a tensor has 1 to 5 dimensions, a box and strides as many; got {len(dims)}, {len(self.box)} and {len(strides) + 1}"
        if self.swizzle not in SWIZZLES:
            return f"rows are swizzled in 0, 32, 64 or 128 bytes, not {self.swizzle}"
        if any(not 1 <= b <= 256 for b in self.box):
            return f"a box has 1 to 256 elements along each dimension, not {self.box}"
        if inner % 16 or (self.swizzle and inner > self.swizzle):
            most = f" and at most {self.swizzle}" if self.swizzle else ""
            return f"the innermost row of the box has {inner} bytes: it must be a multiple of 16{most}"
        if not self.dims and self.array.strides[-1] != size:
            return "the innermost dimension must lie in a row"
        bad = [s for s in strides if s % 16 or s <= 0]
        if bad:
            return f"strides are multiples of 16 bytes, not {bad[0]}"
        return "dimensions must not be empty" if any(d < 1 for d in dims) else ""

    def pack(self, buffer: int) -> bytes:
        """The 128 bytes; `buffer` is the address of the array's description."""
        dims, strides = self._shape()
        five, four, boxes = (*dims, *(1,) * (5 - len(dims))), (*strides, *(0,) * (4 - len(strides))), (*self.box, *(1,) * (5 - len(self.box)))
        size = self.array.dtype.itemsize
        kind = _TYPES.get(self.array.dtype.name, 7)
        small = (size, len(dims), SWIZZLES[self.swizzle], self.fill_nan, _MARK, kind)
        head = struct.pack("<QQ5Q4Q5H6B", self.array.ctypes.data, buffer, *five, *four, *boxes, *small)
        return head.ljust(128, b"\0")


class PackedMap(ctypes.Structure):
    """128 bytes, as a kernel takes them."""

    _fields_ = (("words", ctypes.c_uint64 * 16),)

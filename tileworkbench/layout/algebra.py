"""The bridge to `tensor_layouts`: its algebra makes layouts, this evaluates them on whole tiles at once.

A layout of that package is a function from coordinates to a number; called one cell at a time, a tile of 32768 cells takes a tenth of a second and
more. `evaluate` gives the same numbers for NumPy arrays of coordinates. A `Table` is a function that no formula describes, written out.

>>> rows, columns = np.arange(4)[:, None], np.arange(8)[None, :]
>>> evaluate(Layout((4, 8), (8, 1)), rows, columns)[3].tolist()                       # row-major: row * 8 + column
[24, 25, 26, 27, 28, 29, 30, 31]
>>> evaluate(ComposedLayout(Xor(2, 0, 3), Layout((4, 8), (8, 1))), rows, columns)[3].tolist()   # the row's number XORed into the column
[27, 26, 25, 24, 31, 30, 29, 28]
>>> evaluate(Table.of([[5, 6], [7, 8]]), np.array(1), np.array(0)).tolist()
7
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tensor_layouts import ComposedLayout, Layout
from tensor_layouts import Swizzle as Xor

__all__ = ["Array", "ComposedLayout", "Layout", "Map", "Table", "Xor", "evaluate", "formula", "largest", "xor"]

Array = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Table:
    """A function of (row, column) as a table: int64 `numbers`, row after row."""

    rows: int
    columns: int
    numbers: bytes

    @staticmethod
    def of(values: ArrayLike) -> Table:
        """The table of a two-dimensional array."""
        array = np.ascontiguousarray(values, dtype=np.int64)
        if array.ndim != 2:
            raise ValueError(f"Table.of needs rows and columns, got {array.ndim} dims")
        return Table(array.shape[0], array.shape[1], array.tobytes())

    def array(self) -> Array:
        """The numbers as an array (rows, columns); not writable."""
        return np.frombuffer(self.numbers, dtype=np.int64).reshape(self.rows, self.columns)

    def __repr__(self) -> str:
        return f"Table({self.rows} x {self.columns})"


Map = Any  # a Table, or a layout of tensor_layouts: Layout, ComposedLayout, Swizzle, which carry no type information


def evaluate(function: Map, *coordinates: ArrayLike) -> Array:
    """`function` at arrays of coordinates, which are broadcast: one array for each mode, or one array of flat (column-major) indices."""
    if isinstance(function, Table):
        row, column = (np.asarray(c, dtype=np.int64) for c in coordinates)
        return function.array()[row, column]
    if isinstance(function, Xor):
        return xor(function, np.asarray(coordinates[0], dtype=np.int64))
    if isinstance(function, ComposedLayout):
        return evaluate(function.outer, evaluate(function.inner, *coordinates) + function.offset)
    if len(coordinates) == 1:
        return _mode(function.shape, function.stride, np.asarray(coordinates[0], dtype=np.int64))
    modes = zip(function.shape, function.stride, coordinates, strict=True)
    return np.asarray(sum(_mode(shape, stride, np.asarray(c, dtype=np.int64)) for shape, stride, c in modes), dtype=np.int64)


def xor(swizzle: Xor, numbers: Array) -> Array:
    """A swizzle at every number: bits of it XORed with `swizzle.bits` other bits, `shift` places higher (or lower, if negative)."""
    mask = ((1 << int(swizzle.bits)) - 1) << int(swizzle.base)
    shift = int(swizzle.shift)
    return numbers ^ (numbers >> shift & mask) if shift >= 0 else numbers ^ (numbers & mask) << -shift


def _mode(shape: Any, stride: Any, index: Array) -> Array:
    """One mode at flat indices: the digits of `index` in the mixed radix of the shape, first digit fastest, times their strides."""
    leaves = list(_leaves(shape, stride))
    total = np.zeros_like(index)
    for i, (size, step) in enumerate(leaves):
        digit = index if i == len(leaves) - 1 else index % size
        total = total + digit * step
        index = index // max(size, 1)
    return total


def _leaves(shape: Any, stride: Any) -> Iterator[tuple[int, int]]:
    if isinstance(shape, tuple):
        for inner_shape, inner_stride in zip(shape, stride, strict=True):
            yield from _leaves(inner_shape, inner_stride)
    else:
        yield shape, stride


def largest(layout: Layout) -> int:
    """The largest number of a layout whose strides are not negative, without evaluating it."""
    return sum((size - 1) * step for size, step in _leaves(layout.shape, layout.stride))


def formula(function: Map) -> str:
    """The function as one line in CuTe's notation, or "a table"."""
    return "a table" if isinstance(function, Table) else str(function).replace(" : ", ":")

"""How tiles lie in shared memory beyond row after row, and how the tensor copy engine sees an array: facts that a launch carries."""

from __future__ import annotations

from dataclasses import dataclass

from .expr import Buffer
from .node import Node


@dataclass(frozen=True, slots=True)
class TileForm(Node):
    """`buffer`'s last two dims (rows, columns) lie as matrix units and the tensor copy engine want them.

    Columns are cut into chunks of `row_bytes` bytes (128, 64 or 32), chunk after chunk, rows within a chunk; the 16-byte pieces of a row are permuted
    by the row's number (`analysis/tile_forms.py` has the formula). The leading dims count such tiles. Tiles begin at multiples of `alignment` bytes.
    """

    buffer: Buffer
    row_bytes: int

    @property
    def alignment(self) -> int:
        return 8 * self.row_bytes


@dataclass(frozen=True, slots=True)
class TensorView(Node):
    """A global array as the tensor copy engine sees it: `box` elements of each dim (innermost last) at a time, in rows of `row_bytes` bytes."""

    buffer: Buffer
    box: tuple[int, ...]
    row_bytes: int

"""How tiles lie in shared memory beyond row after row, or in registers, and how the tensor copy engine sees an array: facts that a launch carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .expr import Buffer
from .node import Node

if TYPE_CHECKING:
    from ..layout.fragments import Fragment  # it loads the algebra of layouts, which importing the package does not need


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


@dataclass(frozen=True, slots=True)
class TileOrder(Node):
    """Rows of `buffer` follow one another; `bits` bits of an element's offset from bit `base` on are XORed with those `shift` places higher.

    Such a buffer has strides, so that nobody takes its rows for plain ones: what matters is the offset of each element.
    """

    buffer: Buffer
    bits: int
    base: int
    shift: int


@dataclass(frozen=True, slots=True)
class HeldTile:
    """The fragment `tile` lies in registers as `fragment` says, from thread `first_thread` of the block on; None: in shared memory. `why`: one line.

    No node: it speaks of the tile as it was before its cells became registers, and stays as it is when the program changes.
    """

    tile: Buffer
    fragment: Fragment | None
    why: str
    first_thread: int = 0

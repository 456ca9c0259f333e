"""The boxes in which the tensor copy engine does a copy that the author asked of it, or why it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir.explicit import TensorMove
from ..ir.expr import Const, is_const
from ..ir.stmt import Region
from ..ir.tile_form import TensorView, TileForm
from .access import static_strides, strides
from .tensor_copies import MOST_BOX, MOST_RANK, PIECE
from .tile_forms import form_of


@dataclass(frozen=True, slots=True)
class Boxes:
    """`view` is the array as the engine sees it; a box holds `height` by `width` elements of the `rows` by `columns` that move.

    `down` and `along`: the array's dims that the tile's rows and columns count.
    """

    view: TensorView
    rows: int
    columns: int
    height: int
    width: int
    down: int
    along: int

    @property
    def bytes(self) -> int:
        return self.rows * self.columns * self.view.buffer.type.bits // 8

    def places(self) -> Iterator[tuple[int, int]]:
        """The first row and column of each box."""
        for row in range(0, self.rows, self.height):
            for column in range(0, self.columns, self.width):
                yield row, column


def boxes_of(stmt: TensorMove, forms: tuple[TileForm, ...]) -> Boxes | str:
    """The boxes of `stmt`; or why there are none."""
    part, whole = (stmt.dst, stmt.src) if stmt.barrier is not None else (stmt.src, stmt.dst)
    tile, array = part.buffer, whole.buffer
    size = array.type.bits // 8
    if array.view_of is not None or tile.view_of is not None:
        return "it works on views"
    if tile.strides is not None:
        return f"rows of {tile.name} lie where its strides say"
    if array.type != tile.type or array.type.bits % 8:
        return f"it does not convert, and {array.name} holds {array.type}, {tile.name} {tile.type}"
    if array.safe_value not in (None, 0):
        return f"it fills with 0, and {array.name} has another safe value"
    steps = static_strides(array)
    if array.rank > MOST_RANK or not is_const(strides(array)[-1], 1):
        return f"{array.name} has more than five dims, or none of them lies in a row"
    if steps is None or any(s * size % PIECE or s == 0 for s in steps[:-1]):
        return f"rows of {array.name} are not known to begin at multiples of {PIECE} bytes"
    moving = [d for d, e in enumerate(whole.extents) if not is_const(e, 1)]
    extents = [int(e.value) if isinstance(e, Const) else 0 for e in whole.extents]
    lead, (rows, columns) = part.extents[:-2], _sizes(part)
    if any(not is_const(e, 1) for e in lead):
        return f"more than two dims of {tile.name} move at once"
    if not moving or moving[-1] != array.rank - 1 or [extents[d] for d in moving] != ([rows] if rows > 1 else []) + [columns]:
        return f"rows of {tile.name} are not rows of {array.name}"
    form = form_of(forms, tile)
    width = columns if form is None else form.row_bytes // size
    why = _why_no_rows(part, rows, columns, width, form is not None)
    if why:
        return why
    if width * size % PIECE or width > MOST_BOX:
        return f"rows of {width} elements are no boxes of it: multiples of {PIECE} bytes, at most {MOST_BOX} elements"
    height = next(h for h in range(min(rows, MOST_BOX), 0, -1) if rows % h == 0 and (h % 8 == 0 or h == rows or form is None))
    box = [1] * array.rank
    box[moving[-1]] = width
    if rows > 1:
        box[moving[0]] = height
    return Boxes(TensorView(array, tuple(box), 0 if form is None else form.row_bytes), rows, columns, height, width, moving[0], moving[-1])


def _sizes(part: Region) -> tuple[int, int]:
    sizes = part.static_extents()
    return (sizes[-2] if len(sizes) > 1 else 1), sizes[-1]


def _why_no_rows(part: Region, rows: int, columns: int, width: int, formed: bool) -> str:
    """Why the part of a tile is no series of boxes, or ""."""
    name, shape = part.buffer.name, part.buffer.static_shape()
    if not formed:
        return "" if columns == shape[-1] or rows == 1 else f"rows of the part of {name} do not follow one another"
    row, column = part.starts[-2:]
    first = [int(x.value) if isinstance(x, Const) else 1 for x in (row, column)]
    if first[0] % 8 or rows % 8 or first[1] % width or columns % width:
        return f"the part of {name} does not begin and end at multiples of 8 rows and {width} columns, as matrix units read them"
    return ""

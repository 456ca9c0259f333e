"""Which tiles in shared memory lie in chunks with permuted pieces (`ir/tile_form.py`), and where an element of such a tile is.

A tile that a matrix instruction reads has a form: the 16-byte pieces that the eight rows of a small matrix take at once then lie in different
banks, and the tensor copy engine can write them so. Source of the permutation: PTX ISA, "Shared memory matrix layout", swizzling modes.

>>> from ..base.dtypes import DType
>>> from ..ir.build import floordiv, floormod, index
>>> tile = Buffer("tile", (index(16), index(64)), DType("float16"), "shared")
>>> [int(form_offset(TileForm(tile, 128), (index(r), index(8))).value) for r in (0, 1, 2)]    # the second piece: where it was, or swapped
[8, 64, 152]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..base.dtypes import INDEX
from ..ir.build import add, cast, floordiv, floormod, index, mul
from ..ir.expr import Binary, Buffer, Const, Expr, const
from ..ir.stmt import Gemm, Region
from ..ir.tile_form import TileForm, TileOrder

PIECE = 16  # bytes


def span_of(buffer: Buffer) -> int:
    """The widest span that cuts the rows of `buffer` into whole chunks, or 0."""
    if buffer.rank < 2 or buffer.strides is not None or buffer.view_of is not None or not all(isinstance(d, Const) for d in buffer.shape):
        return 0
    row_bits = buffer.static_shape()[-1] * buffer.type.bits
    return next((span for span in (128, 64, 32) if row_bits % (8 * span) == 0), 0)


def form_offset(form: TileForm, indices: Sequence[Expr]) -> Expr:
    """The element offset of `buffer[indices]` from the buffer's start."""
    buffer = form.buffer
    *lead, rows, columns = buffer.static_shape()
    *where, row, column = [cast(i, INDEX) for i in indices]
    size = buffer.type.bits // 8
    width, piece = form.row_bytes // size, PIECE // size
    out: Expr = index(0)
    for i, dim in zip(where, lead, strict=True):
        out = add(mul(out, index(dim)), i)
    out = mul(out, index(rows * columns))
    number = floordiv(column, index(piece))  # of the 16 bytes, from the start of the row
    if columns > width:
        out = add(out, mul(floordiv(number, index(width // piece)), index(rows * width)))
        number = floormod(number, index(width // piece))
    place = _xor(number, floordiv(floormod(row, index(8)), index(128 // form.row_bytes)))
    return add(add(add(out, mul(row, index(width))), mul(place, index(piece))), floormod(column, index(piece)))


def order_offset(order: TileOrder, indices: Sequence[Expr]) -> Expr:
    """The element offset of `buffer[indices]`, whose rows follow one another, with the bits of it changed that `order` names.

    Written so that what a piece of 2**base elements keeps together can be seen: pieces are counted, and the element in its piece is added.

    >>> from ..base.dtypes import DType
    >>> tile = Buffer("tile", (index(32), index(32)), DType("float32"), "shared", (index(32), index(1)))
    >>> [int(order_offset(TileOrder(tile, 3, 2, 5), (index(r), index(5))).value) for r in (0, 3, 4)]   # rows four apart exchange their pieces
    [5, 101, 129]
    """
    *lead, column = [cast(i, INDEX) for i in indices]
    *dims, columns = order.buffer.static_shape()
    row: Expr = index(0)
    for i, dim in zip(lead, dims, strict=True):
        row = add(mul(row, index(dim)), i)
    piece, period = 1 << order.base, 1 << (order.base + order.shift)
    if columns % piece == 0 and period % columns == 0:
        number = add(mul(row, index(columns // piece)), floordiv(column, index(piece)))
        by, inside = floordiv(row, index(period // columns)), floormod(column, index(piece))
    else:
        flat = add(mul(row, index(columns)), column)
        number, by, inside = floordiv(flat, index(piece)), floordiv(flat, index(period)), floormod(flat, index(piece))
    return add(mul(_xor(number, floormod(by, index(1 << order.bits))), index(piece)), inside)


def form_of(forms: Iterable[TileForm], buffer: Buffer) -> TileForm | None:
    """The form of `buffer`, if it has one."""
    return next((f for f in forms if f.buffer == buffer), None)


def suits_groups(stmt: Gemm, forms: tuple[TileForm, ...]) -> bool:
    """Whether warp groups can read the factors of `stmt` where they lie: tiles with forms, parts that begin where pieces do."""
    if stmt.b.buffer.scope != "shared" or (stmt.a.buffer.scope == "fragment" and stmt.trans_a):
        return False
    factors = [(stmt.b, stmt.trans_b), *([] if stmt.a.buffer.scope == "fragment" else [(stmt.a, not stmt.trans_a)])]
    return all(_is_readable(region, along_k, form_of(forms, region.buffer)) for region, along_k in factors)


def _is_readable(region: Region, along_k: bool, form: TileForm | None) -> bool:
    if form is None or region.buffer.static_shape()[-2] % 8:
        return False
    row, column = region.starts[-2:]
    width = (2 * PIECE if along_k else form.row_bytes) * 8 // region.buffer.type.bits
    return all(isinstance(x, Const) and int(x.value) % by == 0 for x, by in ((row, 8), (column, width)))


def _xor(a: Expr, b: Expr) -> Expr:
    return const(int(a.value) ^ int(b.value)) if isinstance(a, Const) and isinstance(b, Const) else Binary("bitxor", a, b)

"""Layouts of tiles: where each cell of a small matrix lies, and who holds it.

A tile has rows and columns. Its *place* says at which address each cell lies in memory; its *owner* and *slot* say which thread (or vector lane)
holds the cell and in which of its registers. Any may be absent: a shared tile has a place, a fragment has owners, a vector loop on a CPU both.

Three examples. A row-major tile of 2-byte numbers, 8 cells to a row:

>>> tile = linear(4, 8, bits=16)
>>> tile.addresses().tolist()[1]
[16, 18, 20, 22, 24, 26, 28, 30]

Columns of such a tile hit few memory banks. XOR the row into the column in pieces of 16 bytes, and rows change places without using more memory:

>>> wide = swizzled(8, 64, bits=16, span=128)
>>> wide.at(1, 0)["address"], wide.at(1, 8)["address"], wide.is_one_to_one()
(144, 128, True)

A fragment is spread over the registers of threads. Here 4 threads hold 8 cells, two each: (thread, register) -> the cell's column-major index.

>>> piece = fragment(2, 4, Layout((4, 2), (2, 1)), bits=32)
>>> piece.owners().tolist(), piece.slots().tolist()
([[0, 1, 2, 3], [0, 1, 2, 3]], [[0, 0, 0, 0], [1, 1, 1, 1]])
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .algebra import Array, ComposedLayout, Layout, Map, Table, Xor, evaluate, formula, largest

SPANS = (128, 64, 32)  # bytes: the widths of the swizzles that TMA and wgmma know
_LOG_SPAN = {128: 3, 64: 2, 32: 1}
_CHUNK = 16  # bytes that every swizzle of theirs keeps together


@dataclass(frozen=True, slots=True)
class TileLayout:
    """A tile of `rows` x `columns` cells of `bits` bits each.

    `place` maps (row, column) to an offset in elements from byte address `base`; `owner` and `slot` map it to the holder and to its register.
    `owner_name` and `slot_name` say what these are: "thread" and "register", or "lane" and "vector". `note` is one line for a reader.
    """

    name: str
    rows: int
    columns: int
    bits: int
    place: Map | None = None
    base: int = 0
    owner: Map | None = None
    slot: Map | None = None
    owner_name: str = "thread"
    slot_name: str = "register"
    note: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if min(self.rows, self.columns, self.bits) < 1:
            raise ValueError(f"a tile needs at least one row, column and bit, got {self.rows} x {self.columns} of {self.bits} bits")

    # ------------------------------------------------------------------ numbers
    def addresses(self, rows: Array | None = None, columns: Array | None = None) -> Array:
        """The byte address of every cell, or of cells at `rows` and `columns`, which broadcast. 4-bit cells give their byte."""
        if self.place is None:
            raise ValueError(f"{self.name} lies in registers and has no addresses")
        return self.base + self._at(self.place, rows, columns) * self.bits // 8

    def owners(self, rows: Array | None = None, columns: Array | None = None) -> Array:
        """The thread or lane of every cell; -1 where nobody holds it. Raises ValueError if the layout says nothing of holders."""
        if self.owner is None:
            raise ValueError(f"{self.name} has no {self.owner_name}s, only addresses")
        return self._at(self.owner, rows, columns)

    def slots(self, rows: Array | None = None, columns: Array | None = None) -> Array:
        """The register of every cell in its owner. Raises ValueError as `owners` does."""
        if self.slot is None:
            raise ValueError(f"{self.name} has no {self.slot_name}s, only addresses")
        return self._at(self.slot, rows, columns)

    def _at(self, function: Map, rows: Array | None, columns: Array | None) -> Array:
        r = np.arange(self.rows)[:, None] if rows is None else np.asarray(rows)
        c = np.arange(self.columns)[None, :] if columns is None else np.asarray(columns)
        return np.broadcast_to(evaluate(function, r, c), np.broadcast_shapes(r.shape, c.shape))

    def at(self, row: int, column: int) -> dict[str, int]:
        """What is known of one cell: "address", and the owner and slot under their names. Raises IndexError outside the tile."""
        if not (0 <= row < self.rows and 0 <= column < self.columns):
            raise IndexError(f"{self.name} has {self.rows} x {self.columns} cells, there is no ({row}, {column})")
        out: dict[str, int] = {}
        r, c = np.array([row]), np.array([column])
        if self.place is not None:
            out["address"] = int(self.addresses(r, c)[0])
        if self.owner is not None:
            out[self.owner_name] = int(self.owners(r, c)[0])
        if self.slot is not None:
            out[self.slot_name] = int(self.slots(r, c)[0])
        return out

    # ------------------------------------------------------------------ facts
    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns

    @property
    def bytes(self) -> int:
        """Bytes from `base` to behind the last cell; what the tile needs, paddings included. 0 without a place."""
        if self.place is None:
            return 0
        last = largest(self.place) if isinstance(self.place, Layout) else int(self._at(self.place, None, None).max())
        return ((last + 1) * self.bits + 7) // 8

    @property
    def holders(self) -> int:
        """How many threads or lanes hold cells; of an enormous tile, of its first 512 rows and columns."""
        if self.owner is None:
            return 0
        found = np.unique(self.owners(np.arange(min(self.rows, 512))[:, None], np.arange(min(self.columns, 512))[None, :]))
        return int((found >= 0).sum())

    def is_one_to_one(self) -> bool:
        """True if no two cells share an address or, without a place, a (holder, register) pair."""
        if self.place is not None:
            numbers = evaluate(self.place, np.arange(self.rows)[:, None], np.arange(self.columns)[None, :])
        else:
            numbers = self.owners() * (int(self.slots().max()) + 1) + self.slots()
        return len(np.unique(numbers)) == self.rows * self.columns

    def formula(self) -> str:
        """The place, or the owner, in CuTe's notation."""
        return formula(self.place if self.place is not None else self.owner)

    def renamed(self, name: str, note: str = "") -> TileLayout:
        """The same layout under another name."""
        return replace(self, name=name, note=note or self.note)

    def in_registers(self) -> TileLayout:
        """The holders alone, without the place in memory."""
        return replace(self, place=None)

    def __str__(self) -> str:
        where = f", {self.bytes} bytes" if self.place is not None else ""
        held = f", {self.holders} {self.owner_name}s" if self.owner is not None else ""
        return f"{self.name}: {self.rows} x {self.columns} of {self.bits} bits{where}{held}, {self.formula()}"


# ---------------------------------------------------------------------------------------------- in memory
def linear(rows: int, columns: int, *, bits: int, name: str = "row-major", base: int = 0) -> TileLayout:
    """Row after row, nothing between them."""
    return TileLayout(name, rows, columns, bits, Layout((rows, columns), (columns, 1)), base)


def padded(rows: int, columns: int, *, bits: int, pad: int, name: str = "", base: int = 0) -> TileLayout:
    """Row after row, with `pad` unused elements behind each.

    >>> padded(4, 32, bits=32, pad=1).addresses()[:, 0].tolist()      # a column now moves on by one bank a row
    [0, 132, 264, 396]
    """
    if pad < 0:
        raise ValueError(f"padded: pad must not be negative, got {pad}")
    return TileLayout(name or f"padded by {pad}", rows, columns, bits, Layout((rows, columns), (columns + pad, 1)), base)


def xored(rows: int, columns: int, swizzle: Xor, *, bits: int, name: str = "", base: int = 0) -> TileLayout:
    """Row-major with an XOR on *byte* addresses: `Xor(bits, base, shift)` as CuTe counts them, base in log2 of bytes.

    Raises: ValueError if the XOR would tear an element apart.

    >>> xored(8, 32, Xor(3, 4, 3), bits=32).addresses()[1, :5].tolist()
    [144, 148, 152, 156, 128]
    """
    return TileLayout(name or str(swizzle), rows, columns, bits, _on_bytes(swizzle, Layout((rows, columns), (columns, 1)), bits), base)


def swizzled(rows: int, columns: int, *, bits: int, span: int = 0, name: str = "", base: int = 0) -> TileLayout:
    """The swizzle that TMA writes and wgmma reads: rows cut into chunks of `span` bytes, 16-byte pieces XORed with the row; 0: the widest that fits.

    A tile wider than the span is stored chunk after chunk. Address: `a ^ ((a >> 3) & 0x70)` for 128 bytes, `& 0x30` for 64, `& 0x10` for 32.
    Source: PTX ISA, "Tensor-Map swizzling modes" and "Matrix descriptor"; `base` must be a multiple of 8 spans.
    Raises: ValueError if rows are not whole spans.
    """
    row_bytes = columns * bits // 8
    span = span or next((s for s in SPANS if row_bytes % s == 0), 0)
    if span not in SPANS or row_bytes % span:
        raise ValueError(f"a {span}-byte swizzle needs rows of whole spans of {', '.join(map(str, SPANS))} bytes; these have {row_bytes}")
    width = span * 8 // bits
    chunks = Layout((rows, (width, columns // width)), (width, (1, rows * width)))
    swizzle = Xor(_LOG_SPAN[span], 4, 3)
    return TileLayout(name or f"{span}-byte swizzle", rows, columns, bits, _on_bytes(swizzle, chunks, bits), base)


def _on_bytes(swizzle: Xor, inner: Layout, bits: int) -> ComposedLayout:
    """The XOR of byte addresses as one of element offsets."""
    size = bits // 8
    down = size.bit_length() - 1
    if size < 1 or size & (size - 1) or swizzle.base < down:
        raise ValueError(f"{swizzle} on bytes tears elements of {bits} bits apart; its base must be at least {down}")
    return ComposedLayout(Xor(swizzle.bits, swizzle.base - down, swizzle.shift), inner)


# ---------------------------------------------------------------------------------------------- in registers
def fragment(
    rows: int, columns: int, held: Any, *, bits: int, name: str = "fragment", threads: Any = None, by_rows: bool = False, owner_name: str = "thread"
) -> TileLayout:
    """A tile in registers, from a layout `held`: (thread, register) -> the cell's index, column-major as CuTe counts (row-major if `by_rows`).

    `threads` maps the layout's thread to the hardware's, where they differ. Where several threads hold a cell, the tile names the first.
    Raises: ValueError if an index lies outside the tile.
    """
    shape = held.shape
    count, registers = (_size(mode) for mode in shape)
    t, r = np.meshgrid(np.arange(count), np.arange(registers), indexing="ij")
    cells = evaluate(held, t, r)
    if cells.min() < 0 or cells.max() >= rows * columns:
        raise ValueError(f"fragment {name}: index {int(cells.max())} is outside a tile of {rows} x {columns}")
    real = t if threads is None else evaluate(threads, t)
    owners, slots = np.full((2, rows * columns), -1, dtype=np.int64)
    order = np.argsort(real.ravel(), kind="stable")[::-1]  # the first holder is written last
    owners[cells.ravel()[order]] = real.ravel()[order]
    slots[cells.ravel()[order]] = r.ravel()[order]
    to = (rows, columns) if by_rows else (columns, rows)
    tables = [Table.of(x.reshape(to) if by_rows else x.reshape(to).T) for x in (owners, slots)]
    return TileLayout(name, rows, columns, bits, owner=tables[0], slot=tables[1], owner_name=owner_name)


def spread(rows: int, columns: int, *, bits: int, threads: int, vector: int = 0, name: str = "", base: int = 0) -> TileLayout:
    """A row-major tile whose cells `threads` take in turns, `vector` neighbours at a time (0: 16 bytes, or what divides a row).

    This is how threads share a copy: thread t moves vectors t, t + threads, ... A register counts cells.
    """
    step = vector or vector_of(columns, bits)
    if columns % step:
        raise ValueError(f"spread: rows of {columns} cells are not whole vectors of {step}")
    number = np.arange(rows * columns).reshape(rows, columns)
    turn = number // step
    slots = turn // threads * step + number % step
    place = Layout((rows, columns), (columns, 1))
    return TileLayout(
        name or f"spread over {threads} threads", rows, columns, bits, place, base, owner=Table.of(turn % threads), slot=Table.of(slots)
    )


def vector_of(columns: int, bits: int, most: int = 16) -> int:
    """Cells of the widest power-of-two vector, at most `most` bytes, that divides a row."""
    step = max(most * 8 // bits, 1)
    while columns % step:
        step //= 2
    return step


def _size(shape: Any) -> int:
    if not isinstance(shape, tuple):
        return int(shape)
    out = 1
    for part in shape:
        out *= _size(part)
    return out

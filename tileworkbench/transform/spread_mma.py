"""A product by tensor cores: each warp loads small matrices of its share into registers and multiplies them, one step of k after the other.

Before:  gemm acc += A_tile @ B_tile                       (64 x 64 x 32 float16, acc a fragment, 4 warps as 2 x 2)
After:   for k in unroll(0, 2): for i in unroll(0, 2): twb_ldmatrix_x4(a[i], address of A_tile[row + i * 16, column + k * 16])
         ...; for i, j: twb_mma_m16n8k16_f32_f16(acc_r[i, j], a[i], b[j])

`ldmatrix` gives eight rows of 16 bytes to a warp as an instruction wants them, turned over for 16-bit elements. Operands that it cannot read
(8-bit and 32-bit elements across their rows, rows that begin off 16 bytes, places that may be outside) are read element by element. A left operand
in registers is used as it lies. Results are added up in the registers of the accumulator, or in others if it is not a fragment.

Layouts are those of `layout/fragments.py`. Source: PTX ISA, "Matrix Fragments for mma", "ldmatrix".
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.linear import linear
from ..analysis.matrix_units import MatrixUnit
from ..base.dtypes import DType
from ..base.errors import InternalError
from ..ir.build import TRUE, add, every, index, mul
from ..ir.device import DeviceCall, Registers
from ..ir.expr import AddressOf, Binary, Buffer, Const, Expr, Load, Var, is_const
from ..ir.stmt import Body, For, Gemm, If, Let, Region, Stmt, Store, Sync
from ..layout.fragments import WARP, Digit, Fragment, mma_a, mma_b
from .held_tiles import coordinates, is_first, is_live
from .spread_tiles import Spreading, moved

WORD = DType("uint32")
_PIECE_BITS = 128  # of a row of a small matrix
_SHORT = {
    "float16": "f16", "bfloat16": "bf16", "float32": "tf32", "tfloat32": "tf32", "int8": "s8", "uint8": "u8", "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}  # fmt: skip
_RESULT = {"float16": "f16", "float32": "f32", "int32": "s32"}


def spread_mma(stmt: Gemm, unit: MatrixUnit, s: Spreading) -> Body:
    """`stmt` for a thread."""
    m, n = stmt.c.static_extents()[-2:]
    depth = stmt.a.static_extents()[-2 if stmt.trans_a else -1]
    down, across = unit.warps
    rows, columns = m // down // 16, n // across // 8  # instructions of a warp
    sums, start, finish = _results(stmt, unit, s)
    left = _Side(stmt, unit, s, "a", stmt.a, stmt.trans_a, rows, 16)
    right = _Side(stmt, unit, s, "b", stmt.b, not stmt.trans_b, columns, 8)

    i, j, k = (s.names.var(hint) if count > 1 else index(0) for hint, count in (("i", rows), ("j", columns), ("k", depth // unit.step)))
    word, count = (WORD, 2) if sums.type.bits == 16 else (sums.type, 4)
    out = Registers(sums, mul(add(mul(j, index(rows)), i), index(4)), count, word)
    multiply = DeviceCall(_name(stmt, unit), (out, left.registers(i, k), right.registers(j, k)), span=stmt.span)
    inside = (*left.load(k), *right.load(k), *_over(i, rows, _over(j, columns, (multiply,), stmt), stmt))
    loop = _over(k, depth // unit.step, inside, stmt)
    busy = down * across * WARP
    test = Binary("lt", s.thread, index(busy)) if busy < s.place.threads else TRUE
    work: Body = (*left.lets, *right.lets, *loop)
    overlaps = stmt.c.buffer.root in (stmt.a.buffer.root, stmt.b.buffer.root)
    meet = (Sync(span=stmt.span),) if overlaps else ()  # factors are read before results are written
    return (*start, *((If(test, work, span=stmt.span),) if test != TRUE else work), *meet, *finish)


def _name(stmt: Gemm, unit: MatrixUnit) -> str:
    """The device function."""
    a, b = _SHORT[str(stmt.a.buffer.type)], _SHORT[str(stmt.b.buffer.type)]
    return f"twb_mma_m16n8k{unit.step}_{_RESULT[str(stmt.c.buffer.type)]}_{a if a == b else f'{a}_{b}'}"


def _over(var: Expr, count: int, body: Body, stmt: Stmt) -> Body:
    """The loop, or the body alone where `var` is the one number that it would count."""
    return (For(var, index(0), index(count), body, kind="unroll", span=stmt.span),) if isinstance(var, Var) else body


# ---------------------------------------------------------------------------------------------- results
def _results(stmt: Gemm, unit: MatrixUnit, s: Spreading) -> tuple[Buffer, Body, Body]:
    """The registers that results are added up in, what to do before, and after."""
    c, held = stmt.c, stmt.c.buffer in s.arrays
    dtype = c.buffer.type
    if held and s.place.fragments[c.buffer] != unit.c:
        raise InternalError(f"{c.buffer.name} does not lie as its product wants it")
    sums = s.arrays[c.buffer] if held else s.array("sums", unit.c.registers, dtype)
    zero = Const(0.0 if dtype.is_float else 0, dtype)
    clear = s.each(unit.c, lambda r: (Store(sums, (r,), zero),), stmt)
    if held:
        return sums, () if is_const(stmt.clear, False) else clear if is_const(stmt.clear, True) else (If(stmt.clear, clear, span=stmt.span),), ()

    def place(register: Expr) -> tuple[Expr, tuple[Expr, ...]]:
        cell = coordinates(unit.c, s.thread, register)
        return is_live(unit.c, s.thread, cell), moved(c, cell)

    def take(register: Expr) -> Body:
        test, at = place(register)
        store = Store(sums, (register,), Load(c.buffer, at))
        return (If(test, (store,)) if test != TRUE else store,)

    def give(register: Expr) -> Body:
        test, at = place(register)
        test = every([test, is_first(unit.c, s.thread)])
        store = Store(c.buffer, at, Load(sums, (register,)))
        return (If(test, (store,)) if test != TRUE else store,)

    old = s.each(unit.c, take, stmt)
    start = clear if is_const(stmt.clear, True) else old if is_const(stmt.clear, False) else (If(stmt.clear, clear, old, span=stmt.span),)
    return sums, start, s.each(unit.c, give, stmt)


# ---------------------------------------------------------------------------------------------- operands
@dataclass(frozen=True, slots=True)
class _Move:
    """Bits of the number of a lane move the row that it names: along k or not, by how many elements."""

    count: int
    along_k: bool
    stride: int


class _Side:
    """One operand: where it is in registers, and how it comes there. `turned`: k counts its rows in memory."""

    def __init__(self, stmt: Gemm, unit: MatrixUnit, s: Spreading, name: str, region: Region, turned: bool, tiles: int, size: int) -> None:
        self.stmt, self.unit, self.s, self.name, self.region, self.turned = stmt, unit, s, name, region, turned
        self.tiles, self.size = tiles, size
        self.type = region.buffer.type
        self.piece = _PIECE_BITS // self.type.bits
        self.words = size // 8 * (unit.step // self.piece)  # registers of one instruction
        self.per_word = 32 // self.type.bits
        self.lets: list[Stmt] = []
        self.held = s.arrays.get(region.buffer) if name == "a" else None
        self.is_held = self.held is not None and self.type.bits < 32  # float32 is rounded first
        self.by_matrices = self.held is None and self.suits_ldmatrix()
        if self.held is not None and self.is_held:
            self.array = self.held
        elif self.by_matrices:
            self.array = s.array(name, tiles * self.words, WORD)
        else:
            self.array = s.array(name, tiles * self.words * self.per_word, self.type)

    def suits_ldmatrix(self) -> bool:
        """Whether rows of 16 bytes of the region are what registers want, begin at multiples of 16 bytes, and are certainly inside."""
        buffer = self.region.buffer
        if buffer.scope not in ("shared", "fragment") or buffer.view_of is not None or not self.has_whole_pieces(buffer):
            return False
        if self.turned and self.type.bits != 16 or buffer.static_shape()[-1] % self.piece:
            return False
        return _is_multiple(self.region.starts[-1], self.piece) and self.s.is_inside(self.region)

    def has_whole_pieces(self, buffer: Buffer) -> bool:
        """Whether 16 bytes of a row lie together, at a multiple of 16 bytes, whatever strides and order the author asked for."""
        *steps, unit = [int(s.value) if isinstance(s, Const) else 0 for s in buffer.strides or (Const(1),)]
        kept = next((1 << order.base for order in self.s.orders if order.buffer == buffer), self.piece)
        return unit == 1 and all(step and step % self.piece == 0 for step in steps) and kept % self.piece == 0

    def registers(self, tile: Expr, k: Expr) -> Registers:
        """The registers of instruction number `tile` in step `k`."""
        per_word = 1 if self.by_matrices else self.per_word
        where = add(mul(k, index(self.tiles)), tile) if self.is_held else tile
        return Registers(self.array, mul(where, index(self.words * per_word)), self.words, WORD)

    def load(self, k: Expr) -> Body:
        """What brings the operand of step `k` to its registers."""
        if self.is_held:
            return ()
        step = mul(k, index(self.unit.step))
        found = self.own(k) if self.held is not None else self.matrices(step) if self.by_matrices else self.elements(step)
        if self.type.bits < 32:
            return found
        words = Registers(self.array, index(0), self.tiles * self.words, WORD)
        return (*found, DeviceCall("twb_round_tf32", (words,), (self.tiles * self.words,), span=self.stmt.span))  # which would only cut bits off

    def own(self, k: Expr) -> Body:
        """A copy of the registers of a step, which may be changed."""
        assert self.held is not None
        count = self.tiles * self.words
        register = self.s.names.var("r")
        store = Store(self.array, (register,), Load(self.held, (add(mul(k, index(count)), register),)))
        return _over(register, count, (store,), self.stmt)

    def elements(self, k: Expr) -> Body:
        """One element after the other."""
        (down, across), bits = self.unit.warps, self.type.bits
        if self.name == "a":
            lies = mma_a(down, across, self.tiles * 16 * down, self.unit.step, bits, self.unit.step)
        else:
            lies = mma_b(down, across, self.tiles * 8 * across, self.unit.step, bits, self.unit.step)

        def read(register: Expr) -> Body:
            i, j = coordinates(lies, self.s.thread, register)
            at = (i, add(j, k)) if self.name == "a" else (add(i, k), j)
            if self.stmt.trans_a if self.name == "a" else self.stmt.trans_b:
                at = at[::-1]
            return (Store(self.array, (register,), Load(self.region.buffer, moved(self.region, at))),)

        return self.s.each(lies, read, self.stmt)

    def matrices(self, k: Expr) -> Body:
        """Four small matrices, or as many as there are, at a time."""
        out: list[Stmt] = []
        most = 4 // self.words
        first = 0
        while most:
            turns = (self.tiles - first) // most
            if turns:
                out += self.group(first, turns, most, k)
            first += turns * most
            most //= 2
        return tuple(out)

    def group(self, first: int, turns: int, tiles: int, k: Expr) -> Body:
        """`turns` loads of `tiles` instructions' matrices, from tile `first` on."""
        count = tiles * self.words
        row, column = self.place(tiles)
        turn: Expr = self.s.names.var("i") if turns > 1 else index(0)
        tile = add(mul(turn, index(tiles)), index(first))
        name, along = (column, row) if self.turned else (row, column)  # the one along m or n, the one along k
        at: dict[bool, Expr] = {True: add(along, k), False: add(name, mul(tile, index(self.size)))}
        where = AddressOf(self.region.buffer, moved(self.region, (at[self.turned], at[not self.turned])))
        into = Registers(self.array, mul(tile, index(self.words)), count, WORD)
        call = DeviceCall(f"twb_ldmatrix_x{count}{'_trans' if self.turned else ''}", (into, where), span=self.stmt.span)
        return _over(turn, turns, (call,), self.stmt)

    def place(self, tiles: int) -> tuple[Var, Var]:
        """Row and column in memory, within the region at k = 0, that a thread names for a load of `tiles` instructions' matrices."""
        moves = [_Move(8, self.turned, 1)]
        halves = [_Move(2, False, 8)] if self.size == 16 else []
        deep = [_Move(2, True, self.piece)] if self.unit.step > self.piece else []
        moves += [*halves, *deep]
        if tiles > 1:
            moves.append(_Move(tiles, False, self.size))
        digits, div = list[Digit](), 1
        for move in moves:
            last = digits[-1] if digits else None
            if last is not None and last.dim == int(move.along_k) and last.stride * last.mod == move.stride and last.div * last.mod == div:
                digits[-1] = Digit("thread", last.div, last.mod * move.count, last.dim, last.stride)
            else:
                digits.append(Digit("thread", div, move.count, int(move.along_k), move.stride))
            div *= move.count
        down, across = self.unit.warps
        share = self.tiles * self.size
        warps = Digit("thread", WARP, down, 0, share) if self.name == "a" else Digit("thread", WARP * down, across, 0, share)
        shape = (share * warps.mod, self.unit.step)
        lies = Fragment(shape, WARP * down * across, 1, (*digits, *((warps,) if warps.mod > 1 else ())))
        cell = coordinates(lies, self.s.thread, index(0))
        names = (f"{self.name}_row", f"{self.name}_column")
        found = []
        for hint, value in zip(names, cell[::-1] if self.turned else cell, strict=True):
            var = self.s.names.var(hint)
            self.lets.append(Let(var, value, span=self.stmt.span))
            found.append(var)
        return found[0], found[1]


def _is_multiple(e: Expr, of: int) -> bool:
    form = linear(e)
    return form.const % of == 0 and all(c % of == 0 for c in form.terms.values())

"""Products by warp groups (wgmma, sm_90a): both factors, or the right one, are read from tiles in shared memory that have a form.

Before:  gemm a (128x64) b (64x256) acc
After:   keep acc; fence; for each 16 of k: wgmma(acc, a's descriptor + ..., b's descriptor + ..., keep); commit; wait; keep acc

With sums apart (`promote_sums`) the products of some of k and some columns come together in registers of their own, and each such part is waited for:
         keep part; fence; for each 32 of 128 of k: wgmma(part, ..., 0 at first); commit; wait; keep part; acc += part

A descriptor says where a matrix starts and how far its pieces are apart; steps along k only move its start. Each group does the 64-row blocks that
its threads hold. Threads' own stores to a factor must be fenced before the barrier that this product stands behind (`spread_threads` does it).
"""

from __future__ import annotations

from collections.abc import Callable

from ..analysis.matrix_units import GROUP, MatrixUnit
from ..analysis.tile_forms import PIECE, form_of, form_offset
from ..base.dtypes import BOOL, FLOAT32, INT32, UINT32, DType
from ..ir.build import add, cast, index, negate
from ..ir.device import DeviceCall, DeviceValue, Registers, WaitProducts
from ..ir.expr import AddressOf, Binary, Buffer, Const, Expr, Load, Select, is_const
from ..ir.node import replace
from ..ir.stmt import Body, For, Gemm, If, Let, Region, Stmt, Store
from .held_tiles import coordinates
from .spread_tiles import Spreading, moved
from .take_turns import in_turn

U64 = DType("uint64")
MOST_IN_A_ROW = 16  # products of one call, as `device/wgmma.py` makes them: each call costs the compiler time for every register of the sums
MOST_KEPT = 128  # registers of one call, as many as one product has
_KINDS = {
    "float16": "f16", "bfloat16": "bf16", "float32": "tf32", "tfloat32": "tf32",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "int8": "s8", "uint8": "u8",
}  # fmt: skip
_FEW = 4  # values of a thread that are worth an instruction each
_SUMS = {"float32": "f32", "float16": "f16", "int32": "s32"}


def spread_wgmma(stmt: Gemm, unit: MatrixUnit, s: Spreading) -> Body:
    """`stmt` for a thread of a warp group."""
    m, n = unit.c.shape
    k = stmt.a.static_extents()[-2 if stmt.trans_a else -1]
    blocks, steps = m // 64 // unit.warps[0], k // unit.step
    held = s.arrays.get(stmt.c.buffer)
    sums = held if held is not None else s.array("sums", unit.c.registers, stmt.c.buffer)
    out: list[Stmt] = []
    if held is None:
        old = s.each(unit.c, lambda r: (Store(sums, (r,), Load(stmt.c.buffer, moved(stmt.c, coordinates(unit.c, s.thread, r)))),), stmt)
        out += old if is_const(stmt.clear, False) else () if is_const(stmt.clear, True) else (If(negate(stmt.clear), old, span=stmt.span),)
    in_registers = stmt.a.buffer in s.arrays
    kind = _SUMS[str(stmt.c.buffer.type)]
    depth, columns = stmt.apart[:2] if stmt.apart[0] else (k, n)
    factors = f"{_KINDS[str(stmt.a.buffer.type)]}_{_KINDS[str(stmt.b.buffer.type)]}"
    name = f"twb_wgmma_{'rs_' if in_registers else ''}m64n{columns}k{unit.step}{{}}_{kind}_{factors}"
    wide = stmt.a.buffer.type.bits == 16
    constants = ((int(stmt.trans_a),) if not in_registers else ()) + (int(not stmt.trans_b),) if wide else ()
    b = _Factor(stmt.b, stmt.trans_b, unit.step, 0, s)
    a = None if in_registers else _Factor(stmt.a, not stmt.trans_a, unit.step, 64 * blocks, s)
    out += [*b.lets, *(a.lets if a is not None else ())]
    words, word = (n // 4, UINT32) if kind == "f16" else (columns // 2, stmt.c.buffer.type)

    def products(d: Registers, steps: range, block: int, column: int, keep: Expr) -> DeviceCall:
        left: list[Expr]
        if a is None:
            per_step = unit.a.registers // (blocks * (k // unit.step))
            first = (block * (k // unit.step) + steps[0]) * per_step
            left = [Registers(s.arrays[stmt.a.buffer], index(first), 4 * len(steps), UINT32)]
        else:
            left = [a.at(step, 64 * block) for step in steps]
        repeated = f"x{len(steps)}" if len(steps) > 1 else ""
        return DeviceCall(name.format(repeated), (d, *left, *(b.at(step, column) for step in steps), keep), constants)

    if stmt.apart[0]:
        runs = [range(first // unit.step, min(first + depth, k) // unit.step) for first in range(0, k, depth)]
        out += _apart(stmt, products, sums, runs, (blocks * n, n, columns), s)
    else:
        whole = _words(sums)
        places = [Registers(sums, index(block * n // 2), words, word) for block in range(blocks)]
        rows = [range(first, min(first + MOST_IN_A_ROW, steps)) for first in range(0, steps, MOST_IN_A_ROW)]
        keep = [Const(1, INT32) if row[0] else _scale(stmt.clear) for row in rows]
        out += _run(whole, [products(places[block], row, block, 0, more) for row, more in zip(rows, keep, strict=True) for block in range(blocks)])
        if held is not None and stmt.is_async:
            return tuple(out)
        out += _waited(whole)
    if held is None:
        out += s.each(unit.c, lambda r: (Store(stmt.c.buffer, moved(stmt.c, coordinates(unit.c, s.thread, r)), Load(sums, (r,))),), stmt)
    return tuple(out)


_Products = Callable[[Registers, range, int, int, Expr], DeviceCall]  # into registers: steps along k, block of rows, first column, whether to add


def _apart(stmt: Gemm, products: _Products, sums: Buffer, runs: list[range], sizes: tuple[int, int, int], s: Spreading) -> Body:
    """Steps in `runs`, for some columns at a time, each in registers of their own. `sizes`: columns of all blocks of rows, of one, and at a time."""
    total, n, columns = sizes
    count = columns // 2
    part = s.array("part", count, sums.type)
    whole, out = _words(part), list[Stmt]()
    for run in runs:
        for at in range(0, total, columns):
            block, column = divmod(at, n)
            started = _run(whole, [products(whole, run, block, column, Const(0, INT32))])
            out += in_turn(started, stmt.apart[2])
            out += _waited(whole)
            out.append(_added(sums, part, count, at // 2, stmt.clear if run[0] == 0 else Const(False, BOOL), s))
    return tuple(out)


def _run(sums: Registers, products: list[DeviceCall]) -> Body:
    """Products into `sums`, started. Whoever waits for them keeps their registers."""
    return (
        *_keep(sums),
        DeviceCall("twb_wgmma_fence"),
        *products,
        DeviceCall("twb_wgmma_commit"),
    )


def _waited(sums: Registers) -> Body:
    return (DeviceCall("twb_wgmma_wait", constants=(0,)), *_keep(sums))


def _added(sums: Buffer, part: Buffer, count: int, at: int, clear: Expr, s: Spreading) -> Stmt:
    """A loop that brings `part` to the registers of `sums` from `at` on."""
    r = s.names.var("r")
    there = (add(r, index(at)),)
    before: Expr = Load(sums, there)
    if not isinstance(clear, Const):
        before = Select(clear, Const(0.0, sums.type), before)
    value = Load(part, (r,)) if isinstance(clear, Const) and clear.value else Binary("add", before, Load(part, (r,)))
    return For(r, index(0), index(count), (Store(sums, there, value),), kind="unroll")


def spread_wait(stmt: WaitProducts, s: Spreading) -> Body:
    """`stmt` for a thread: results that lie in its registers stay where they are meanwhile."""
    arrays = [s.arrays[r.buffer] for r in stmt.results if r.buffer in s.arrays]
    kept = [call for a in arrays for call in _keep(_words(a))]
    return (*_computed(stmt, s), DeviceCall("twb_wgmma_wait", constants=(stmt.left,), span=stmt.span), *kept)


def _keep(registers: Registers) -> Body:
    """Keep `registers` where they are."""
    kind = {"float32": "f32", "int32": "s32"}.get(str(registers.word), "u32")
    each = registers.word.bits // registers.buffer.type.bits  # elements of a word
    pieces = [(at, min(MOST_KEPT, registers.count - at)) for at in range(0, registers.count, MOST_KEPT)]
    kept = [replace(registers, offset=add(registers.offset, index(at * each)), count=count) for at, count in pieces]
    return tuple(DeviceCall(f"twb_keep_{kind}x{piece.count}", (piece,)) for piece in kept)


def _words(array: Buffer) -> Registers:
    """An array in registers, in words."""
    count, bits = int(array.static_shape()[0]), array.type.bits
    return Registers(array, index(0), count * bits // 32, array.type if bits == 32 else UINT32)


def _computed(stmt: WaitProducts, s: Spreading) -> Body:
    """What keeps ptxas from moving the wait above what computes `stmt.after`."""
    arrays = [s.arrays[b] for b in stmt.after if b in s.arrays]
    values: list[Expr] = [Load(a, (index(r),)) for a in arrays for r in range(int(a.static_shape()[0]))]
    if not values or len(values) > _FEW:
        return ()
    value = values[0]
    for further in values[1:]:
        value = Binary("add", value, further)
    place = DeviceValue("twb_shared_address", (AddressOf(s.tile("computed", (1,), FLOAT32), (index(0),)),), UINT32)
    return (DeviceCall("twb_computed", (value, place), span=stmt.span),)


class _Factor:
    """A factor in shared memory. `along_k`: its rows hold k; `each`: how many rows (or columns) of it belong to a group, 0: all."""

    def __init__(self, region: Region, along_k: bool, step: int, each: int, s: Spreading) -> None:
        form = form_of(s.forms, region.buffer)
        assert form is not None
        self.form, self.along_k, self.step = form, along_k, step
        rows = region.buffer.static_shape()[-2]
        leading = PIECE if along_k else rows * form.row_bytes
        place: Expr = DeviceValue("twb_shared_address", (AddressOf(region.buffer, region.starts),), UINT32)
        if each and s.place.threads > GROUP:
            place = Binary("add", place, Binary("mul", cast(s.group(), UINT32), Const(self.moved(0, each) * PIECE, UINT32)))
        numbers = [Const(n, INT32) for n in (leading, 8 * form.row_bytes, form.row_bytes)]
        self.start = s.names.var(f"{region.buffer.name}_at", U64)
        self.lets = (Let(self.start, DeviceValue("twb_descriptor", (place, *numbers), U64)),)

    def at(self, step: int, further: int) -> Expr:
        """The descriptor for a step along k, `further` rows (or columns) on."""
        moved = self.moved(step, further)
        return Binary("add", self.start, Const(moved, U64)) if moved else self.start

    def moved(self, step: int, further: int) -> int:
        """How many pieces further that is."""
        k = step * self.step
        where = (further, k) if self.along_k else (k, further)
        lead = [index(0)] * (self.form.buffer.rank - 2)
        offset = form_offset(self.form, (*lead, *(index(w) for w in where)))
        assert isinstance(offset, Const)
        return int(offset.value) * self.form.buffer.type.bits // 8 // PIECE


def _scale(clear: Expr) -> Expr:
    if isinstance(clear, Const):
        return Const(int(not clear.value), INT32)
    return Select(clear, Const(0, INT32), Const(1, INT32))

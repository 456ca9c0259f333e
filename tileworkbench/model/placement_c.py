"""Layouts on the C target: read from the lowered kernel and the plans of its products, which is what the emitted text follows.

Tiles lie row-major in the core's scratch memory, at the offsets that `place_tiles` chose; scratch starts at a page, so cache sets are exact. Vector
lanes are those of a loop over neighbours. A product keeps its accumulators in vector registers, panel by panel, and packs operands that would be slow
to read in place; packed panels share one piece of scratch, strip after strip.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..base.cpu import Isa
from ..base.dtypes import DType
from ..base.span import Span
from ..codegen.gemm_plan import GemmPlan, GemmSpec, plan_gemm
from ..ir.expr import Buffer, Const
from ..ir.lowered import GemmCall, Grid
from ..ir.node import walk
from ..ir.stmt import Kernel, TensorParam
from ..layout.algebra import Layout, Table
from ..layout.tile_layout import TileLayout
from ..transform.lowering import lower
from .tile_accesses import fold, shape_of

Parts = tuple[str, str, str, tuple[int, ...], TileLayout, str, str, Span | None]
EXACT = "exact"
_LANES = "lane"


def c_layouts(program: Kernel, isa: Isa, dims: Mapping[str, int]) -> Iterator[Parts]:
    """(buffer, role, dtype, shape, layout, source, why, span) of every buffer of `program` on the C target."""
    for param in program.params:
        if isinstance(param, TensorParam) and (shape := shape_of(param.buffer, dims)):
            b = param.buffer
            why = "the caller's array; shown from address 0, a real one starts where the caller put it"
            yield b.name, "argument", str(b.dtype), shape, _rows(b, shape, isa, 0), EXACT, why, b.span
    many = len(program.launches) > 1
    for number, grid in enumerate(n for n in walk(lower(program)) if isinstance(n, Grid)):
        for tile in grid.tiles:
            shape = tile.buffer.static_shape()
            base = tile.offset + (_base(grid, tile.buffer) if tile.buffer.view_of is not None else 0)
            why = f"at byte {base} of the core's scratch memory, which starts at a page" + (f" (launch {number})" if many else "")
            yield tile.buffer.name, "tile", str(tile.buffer.dtype), shape, _rows(tile.buffer, shape, isa, base), EXACT, why, tile.buffer.span
        seen: set[tuple[object, ...]] = set()
        for call in (n for n in walk(grid) if isinstance(n, GemmCall)):
            for parts in _product(call, isa, grid.scratch_bytes):
                if parts[:2] + parts[3:5] not in seen:
                    seen.add(parts[:2] + parts[3:5])
                    yield parts


def _base(grid: Grid, view: Buffer) -> int:
    """Where a view starts in scratch."""
    root = next((t.offset for t in grid.tiles if t.buffer == view.root), 0)
    start = int(view.offset.value) if isinstance(view.offset, Const) else 0
    return root + start * view.dtype.bits // 8


def _rows(buffer: Buffer, shape: tuple[int, ...], isa: Isa, base: int) -> TileLayout:
    """Row-major (or strided) rows and columns, with the vector lanes of a loop over a row."""
    rows, columns = fold(shape)
    bits = buffer.dtype.bits
    place = Layout((rows, columns), (columns, 1))
    strides = [int(s.value) for s in buffer.strides or () if isinstance(s, Const)]
    if buffer.strides is not None and len(strides) == len(shape):
        place = Layout((tuple(reversed(shape[:-1])) or 1, columns), (tuple(reversed(strides[:-1])) or 0, strides[-1]))
    lanes = max(isa.vector_bytes * 8 // bits, 1)
    vectors = -(-columns // lanes)
    owner = Layout((rows, (lanes, vectors)), (0, (1, 0)))
    slot = Layout((rows, (lanes, vectors)), (vectors, (0, 1)))
    note = f"lanes of {isa.vector_bytes}-byte vectors ({isa.name})"
    return TileLayout(buffer.name, rows, columns, bits, place, base, owner, slot, _LANES, "vector", note)


def _product(call: GemmCall, isa: Isa, scratch: int) -> Iterator[Parts]:
    """What a product adds: its accumulators in registers, and the operands that it packs behind the tiles."""
    kinds = (call.a.buffer.dtype, call.b.buffer.dtype, call.c.buffer.dtype)
    far = (not o.buffer.is_on_chip for o in (call.a, call.b))
    spec = GemmSpec(call.m, call.n, call.k, *kinds, call.lda, call.ldb, call.ldc, call.trans_a, call.trans_b, isa, *far)
    plan = plan_gemm(spec)
    yield _accumulators(call, spec, plan)
    offset = scratch
    if plan.pack_a:
        rows, columns = (call.k, call.m) if call.trans_a else (call.m, call.k)
        name = f"{call.a.buffer.name} packed"
        why = f"converted to {spec.acc} once; rows are {plan.lda} elements apart, so that they do not share the low bits of their addresses"
        place = Layout((rows, columns), (plan.lda, 1))
        yield _packed(name, rows, columns, spec.acc, place, offset, why, call.span)
    offset += _padded(plan.a_length * spec.acc.bits // 8)
    if plan.pack_b:
        strip, at = _strips(plan, call.n)
        width = np.array([plan.lanes * size for size in _sizes(plan)])[strip]
        k = np.arange(call.k)[:, None] % plan.k_block
        start = np.arange(call.n) - at if plan.whole_b else 0
        place = Table.of(k * width[None, :] + at[None, :] + start * plan.k_block)
        name = f"{call.b.buffer.name} packed"
        turn = "turned to [k][columns], " if call.trans_b else ""
        order = "one behind the other" if plan.whole_b else "one at a time: strips take turns in the same memory"
        why = f"{turn}strips of {int(width.max())} columns, {order}" + (f", {plan.k_block} steps of k at a time" if plan.k_block < call.k else "")
        yield _packed(name, call.k, call.n, spec.acc, place, offset, why, call.span, plan.lanes, Table.of(np.tile(strip, (call.k, 1))))


def _packed(
    name: str, rows: int, columns: int, dtype: DType, place: Any, base: int, why: str, span: Span | None, lanes: int = 0, strip: Any = None
) -> Parts:
    owner = Layout((rows, (lanes, -(-columns // lanes))), (0, (1, 0))) if lanes else None
    layout = TileLayout(name, rows, columns, dtype.bits, place, base, owner, strip, _LANES, "strip", why)
    return name, "packed operand", str(dtype), (rows, columns), layout, EXACT, why, span


def _accumulators(call: GemmCall, spec: GemmSpec, plan: GemmPlan) -> Parts:
    """The tile of c while it grows: one vector register for each row and vector of a panel and strip."""
    strip, at = _strips(plan, call.n)
    first_row = np.concatenate([np.repeat(r.first + r.size * np.arange(r.count), r.size) for r in plan.panels])
    row_in_panel = np.arange(call.m) - first_row
    sizes = np.array(_sizes(plan))[strip]
    register = row_in_panel[:, None] * sizes[None, :] + at[None, :] // plan.lanes
    lane = np.tile(at % plan.lanes, (call.m, 1))
    rows, vectors = max(r.size for r in plan.panels), max(r.size for r in plan.strips)
    name = f"{call.c.buffer.name} in vectors"
    why = f"a kernel of {rows} rows x {vectors} vectors keeps {rows * vectors} of {spec.isa.registers} registers; panels and strips take turns"
    layout = TileLayout(
        name, call.m, call.n, spec.acc.bits, owner=Table.of(lane), slot=Table.of(register), owner_name=_LANES, slot_name="register", note=why
    )
    return name, "accumulators", str(spec.acc), (call.m, call.n), layout, EXACT, why, call.span


def _sizes(plan: GemmPlan) -> list[int]:
    """Vectors of each strip, in order."""
    return [r.size for r in plan.strips for _ in range(r.count)]


def _strips(plan: GemmPlan, columns: int) -> tuple[Any, Any]:
    """For every column: the number of its strip, and its place in it."""
    firsts = [(r.first + i * r.size) * plan.lanes for r in plan.strips for i in range(r.count)]
    strip = np.searchsorted(np.array(firsts), np.arange(columns), side="right") - 1
    return strip, np.arange(columns) - np.array(firsts)[strip]


def _padded(size: int) -> int:
    return (size + 63) // 64 * 64

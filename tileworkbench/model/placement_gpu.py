"""Layouts on a GPU, as the model expects a compiler to choose them; `placement_cuda` has those of a kernel that was compiled for one.

Shared tiles that a product reads take the widest swizzle their rows allow, the others stay row-major. Accumulators of a product follow the matrix
instruction of the machine: wgmma at compute capability 9.0 where a warp group fits, else mma.sync. Other fragments are dealt to the threads 16
bytes each, row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..base.machine import Machine
from ..ir.expr import Buffer
from ..ir.node import walk
from ..ir.stmt import Gemm, Kernel, Launch, TensorParam
from ..layout.algebra import Table
from ..layout.tile_layout import SPANS, TileLayout, linear, spread, swizzled
from .placement_c import Parts
from .tile_accesses import fold, shape_of

MODELLED = "modelled"


def gpu_layouts(program: Kernel, machine: Machine, dims: Mapping[str, int]) -> Iterator[Parts]:
    """(buffer, role, dtype, shape, layout, source, why, span) of every buffer of `program` on a GPU."""
    yield from arguments(program, dims, MODELLED)
    for launch in program.launches:
        products = [n for n in walk(launch) if isinstance(n, Gemm)]
        offset = 0
        for buffer in launch.allocs:
            if buffer.view_of is not None or buffer.scope not in ("shared", "fragment"):
                continue
            rows, columns = fold(shape_of(buffer))
            if buffer.scope == "shared":
                layout, why = _shared(buffer, rows, columns, products, offset)
                offset += -(-layout.bytes // 1024) * 1024
            else:
                layout, why = _fragment(buffer, rows, columns, products, launch, machine)
            yield buffer.name, buffer.scope, str(buffer.dtype), buffer.static_shape(), layout, MODELLED, why, buffer.span


def arguments(program: Kernel, dims: Mapping[str, int], source: str) -> Iterator[Parts]:
    """The tensor arguments whose dims are known."""
    for param in program.params:
        if isinstance(param, TensorParam) and (shape := shape_of(param.buffer, dims)):
            rows, columns = fold(shape)
            tile = linear(rows, columns, bits=param.buffer.dtype.bits, name=param.buffer.name)
            yield param.buffer.name, "argument", str(param.buffer.dtype), shape, tile, source, "the caller's array, row-major", param.buffer.span


def _shared(buffer: Buffer, rows: int, columns: int, products: list[Gemm], offset: int) -> tuple[TileLayout, str]:
    bits = buffer.dtype.bits
    is_operand = any(buffer.name in (g.a.buffer.name, g.b.buffer.name) for g in products)
    span = next((s for s in SPANS if columns * bits // 8 % s == 0), 0)
    if is_operand and span and bits >= 8:
        return swizzled(rows, columns, bits=bits, span=span, name=buffer.name, base=offset), f"operand of a product: the {span}-byte swizzle"
    why = "operand of a product, but its rows are not whole spans of 32 bytes" if is_operand else "no product reads it: row-major"
    return linear(rows, columns, bits=bits, name=buffer.name, base=offset), why


def _fragment(buffer: Buffer, rows: int, columns: int, products: list[Gemm], launch: Launch, machine: Machine) -> tuple[TileLayout, str]:
    threads = int(np.prod(launch.threads)) if launch.threads else 128
    is_sum = any(buffer.name == g.c.buffer.name for g in products)
    capability = machine.gpu.capability if machine.gpu is not None else (8, 0)
    if is_sum and capability[0] == 9 and threads % 128 == 0 and rows % 64 == 0 and columns % 8 == 0:
        groups = min(threads // 128, rows // 64)
        return _accumulators(
            buffer, rows, columns, 4 * groups
        ), f"accumulator of wgmma m64n{min(columns, 256)}: {groups} warp group{'s' * (groups > 1)}"
    if is_sum and threads % 32 == 0 and rows % 16 == 0 and columns % 8 == 0:
        warps = min(threads // 32, rows // 16)
        return _accumulators(buffer, rows, columns, warps), f"accumulator of mma.sync m16n8: {warps} warp{'s' * (warps > 1)} share the rows"
    why = (
        "dealt to the threads row by row, 16 bytes each"
        if not is_sum
        else "accumulator, but its shape is not whole matrix instructions; dealt row by row"
    )
    return spread(rows, columns, bits=buffer.dtype.bits, threads=threads, name=buffer.name).in_registers(), why


def _accumulators(buffer: Buffer, rows: int, columns: int, warps: int) -> TileLayout:
    """Rows in pieces of 16 dealt to warps in turns; in each, lane 4 g + t holds columns 2t, 2t + 1 of rows g and g + 8 of every 8 columns.

    Source: PTX ISA, accumulator fragments of mma.m16n8 and wgmma.m64nNk16, which agree within a warp. Warps that find no rows left hold nothing.
    """
    r, c = np.arange(rows)[:, None], np.arange(columns)[None, :]
    piece = r // 16
    lane = r % 8 * 4 + c % 8 // 2
    owner = piece % warps * 32 + lane
    per_piece = columns // 8 * 4
    slot = piece // warps * per_piece + c // 8 * 4 + r % 16 // 8 * 2 + c % 2
    return TileLayout(buffer.name, rows, columns, buffer.dtype.bits, owner=Table.of(owner), slot=Table.of(slot))

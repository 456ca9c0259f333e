"""Tiles that matrix instructions read lie in chunks with permuted pieces (`ir/tile_form.py`), so that their rows are read without bank conflicts.

Before:  launch: A_tile 128 x 32 float16, shared; gemm acc += A_tile @ B_tile
After:   launch, A_tile in rows of 64 bytes, B_tile in rows of 128: gemm acc += A_tile @ B_tile

A tile keeps its rows where a view shows them, its address is taken or it is printed as it lies, where its shape does not fit, and where the author
asked for another layout of it.

Requires: products as tile operations.  Preserves: everything else.
"""

from __future__ import annotations

from ..analysis.asked_layouts import asked_layouts
from ..analysis.matrix_units import product_unit
from ..analysis.tile_forms import span_of
from ..ir.expr import AddressOf, Buffer
from ..ir.launches import rewrite_launches
from ..ir.node import replace, walk
from ..ir.stmt import Gemm, Kernel, Launch, Print
from ..ir.tile_form import TileForm

_ROWS = 8  # of a small matrix: a tile of a multiple of these has whole patterns


def form_tiles(kernel: Kernel, arch: int) -> Kernel:
    """Return `kernel` with forms of the tiles that matrix units of compute capability `arch` read."""

    return rewrite_launches(kernel, lambda node: formed(node, arch))


def formed(launch: Launch, arch: int) -> Launch:
    """`launch` with the forms of its tiles."""
    nodes = [n for stmt in launch.body for n in walk(stmt)]
    products = [n for n in nodes if isinstance(n, Gemm)]
    if not products:
        return launch
    threads = 1
    for count in launch.threads:
        threads *= count
    read = {r.buffer: None for p in products if product_unit(p, threads, arch).kind != "fma" for r in (p.a, p.b)}
    fixed = {n.buffer.root for n in nodes if isinstance(n, AddressOf)} | {
        n.buffer.root for n in nodes if isinstance(n, Print) and n.buffer is not None
    }
    fixed |= {b.root for b in launch.allocs if b.view_of is not None} | {form.buffer for form in launch.forms}
    asked = {name: wish.span or 0 for name, wish in asked_layouts(launch).items()}  # 0: rows as they are, and a layout of the author's own
    made = []
    for buffer in read:
        if buffer.scope not in ("shared", "fragment") or buffer in fixed:
            continue
        span = min(_span(buffer), asked.get(buffer.name, 128))
        if span:
            made.append(TileForm(buffer, span, span=buffer.span))
    return replace(launch, forms=(*launch.forms, *made)) if made else launch


def _span(buffer: Buffer) -> int:
    span = span_of(buffer)
    return span if span and buffer.static_shape()[-2] % _ROWS == 0 else 0

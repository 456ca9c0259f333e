"""Tiles in shared memory lie as `T.annotate_layout` asked: with strides, with an XOR of their offsets, or in permuted rows.

Before:  launch, hints t: strides 33 1, s: xor, a: rows of 128 bytes;  t 32 x 32 float32
After:   launch, s in an order, a in rows of 128 bytes;  t 32 x 32 float32, strides 33 and 1

A tile keeps its rows where another tile is a view of it, its address is taken, it is printed whole, or its elements share bytes; a remark says so.
Tiles with strides or an order are filled and read in what can be proved to be neighbours: neither warp groups nor the tensor copy engine count so. A
map of the author's that comes to the permuted rows of these is taken for them.

Requires: whole launches, hints of the frontend.  Preserves: everything else.
"""

from __future__ import annotations

from ..analysis.asked_layouts import Asked, asked_layouts
from ..analysis.tile_forms import PIECE, span_of
from ..ir.build import index
from ..ir.explicit import Push, TensorMove
from ..ir.expr import AddressOf, Buffer, Const
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite, walk
from ..ir.remark import Remark
from ..ir.stmt import Gemm, Kernel, Launch, Print
from ..ir.tile_form import TileForm, TileOrder

_ROWS = 8


def lay_tiles(kernel: Kernel) -> Kernel:
    """Return `kernel` with the layouts that its author asked for."""

    def change(node: Launch) -> Launch:
        asked = asked_layouts(node)
        return _laid(node, asked) if any(a.strides or a.span or a.why_not for a in asked.values()) else node

    return rewrite_launches(kernel, change)


def _laid(launch: Launch, asked: dict[str, Asked]) -> Launch:
    nodes = [n for s in launch.body for n in walk(s)]
    factors = {r.buffer for n in nodes if isinstance(n, Gemm) for r in (n.a, n.b)}
    fixed = _fixed(launch, nodes)
    remarks, forms, orders = list(launch.remarks), list(launch.forms), list(launch.orders)
    new: dict[Buffer, Buffer] = {}
    for buffer in launch.allocs:
        wish = asked.get(buffer.name)
        if wish is None or buffer.scope != "shared" or buffer.view_of is not None:
            continue
        if (form := _as_form(buffer, wish)) is not None and buffer not in fixed:
            forms += [form] if all(f.buffer != buffer for f in forms) else []
            continue
        why = wish.why_not or (fixed.get(buffer, "") if wish.strides or (wish.span and buffer not in factors) else "")
        if why:
            remarks.append(Remark(f"the layout that is asked for {buffer.name} is not used: {why}", span=buffer.span))
        elif wish.strides and wish.strides != _rows(buffer) or wish.xor is not None:
            new[buffer] = replace(buffer, strides=tuple(index(s) for s in wish.strides))
            orders += [TileOrder(new[buffer], *wish.xor, span=buffer.span)] if wish.xor is not None else []
        elif wish.span and buffer not in factors and all(form.buffer != buffer for form in forms):  # form_tiles sees to those that products read
            span = min(span_of(buffer), wish.span)
            forms += [TileForm(buffer, span, span=buffer.span)] if span and buffer.static_shape()[-2] % _ROWS == 0 else []
    if not new and len(remarks) == len(launch.remarks) and len(forms) == len(launch.forms):
        return launch
    moved = rewrite(launch, lambda n: new.get(n, n) if isinstance(n, Buffer) else n) if new else launch
    return replace(moved, forms=tuple(forms), orders=tuple(orders), remarks=tuple(remarks))


def _as_form(buffer: Buffer, wish: Asked) -> TileForm | None:
    """The author's own map as rows that matrix units and the tensor copy engine know, where it is one: a single chunk, whose pieces are permuted."""
    if wish.xor is None or wish.strides != _rows(buffer) or buffer.rank < 2 or buffer.static_shape()[-2] % _ROWS:
        return None
    size, span = buffer.type.bits // 8, buffer.static_shape()[-1] * buffer.type.bits // 8
    known = {128: 3, 64: 2, 32: 1}
    if span not in known or wish.xor != (known[span], PIECE.bit_length() - size.bit_length(), 3):
        return None
    return TileForm(buffer, span, span=buffer.span)


def _fixed(launch: Launch, nodes: list[Node]) -> dict[Buffer, str]:
    """Tiles whose rows must follow one another, and why."""
    out = {b: "elements share bytes" for b in launch.allocs if b.type.bits < 8 or not all(isinstance(d, Const) for d in b.shape)}
    out |= {b.view_of.root: f"{b.name} is a view of it" for b in launch.allocs if b.view_of is not None}
    for n in nodes:
        if isinstance(n, AddressOf):
            out[n.buffer.root] = "its address is taken"
        elif isinstance(n, Print) and n.buffer is not None:
            out[n.buffer.root] = "it is printed whole"
        elif isinstance(n, (TensorMove, Push)):
            out |= {r.buffer.root: "the copy engine moves it as the author said" for r in (n.src, n.dst)}
    return out


def _rows(buffer: Buffer) -> tuple[int, ...]:
    """Row after row."""
    out, step = [], 1
    for size in reversed(buffer.static_shape()):
        out.append(step)
        step *= size
    return tuple(reversed(out))

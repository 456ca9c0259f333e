"""Why each fragment of a launch lies where it does, in a line for its author."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.expr import Buffer
from ..ir.stmt import Gemm, Reduce, Stmt
from ..ir.tile_form import HeldTile
from ..layout.fragments import Fragment, flat
from .fragments import Placement
from .matrix_units import MatrixUnit


def held_tiles(placement: Placement, stmts: Iterable[Stmt], first_thread: int = 0) -> tuple[HeldTile, ...]:
    """Every fragment that was placed, with its reason; then those that lie in shared memory. `stmts` are the tile operations of the launch."""
    products = [s for s in stmts if isinstance(s, Gemm)]
    reasons: dict[Buffer, str] = {}
    for product in products:
        unit = placement.units[id(product)]
        reasons.setdefault(product.c.buffer, f"accumulator of {_instruction(unit, product)}")
        reasons.setdefault(product.a.buffer, f"left operand of {_instruction(unit, product)}, from registers")
    rows = {s.dst.buffer: s.src.buffer for s in stmts if isinstance(s, Reduce)}
    held = []
    for buffer, fragment in placement.fragments.items():
        why = reasons.get(buffer) or _follows(buffer, fragment, placement.fragments, rows)
        held.append(HeldTile(buffer, fragment, why, first_thread))
    return (*held, *(HeldTile(buffer, None, why, first_thread) for buffer, why in placement.shared.items()))


def _instruction(unit: MatrixUnit, product: Gemm) -> str:
    down, across = unit.warps
    columns = product.c.static_extents()[-1]
    if unit.kind == "wgmma":
        return f"wgmma m64n{columns}k{unit.step}: {down} warp group{'s' * (down > 1)}"
    if unit.kind == "mma":
        return f"mma.sync m16n8k{unit.step}: {down} x {across} warps share the tile"
    return "a product by FMA: each thread has cells of as many rows as columns, about"


def _follows(buffer: Buffer, fragment: Fragment, placed: dict[Buffer, Fragment], rows: dict[Buffer, Buffer]) -> str:
    if buffer in rows:
        return f"what the reduction of {rows[buffer].name} leaves in each thread"
    vector = fragment.vector
    if fragment == flat(fragment.shape, fragment.threads, vector):
        return "dealt to the threads row by row" + (f", {vector} neighbours at a time" if vector > 1 else "")
    same = next((other for other, there in placed.items() if other != buffer and there == fragment), None)
    return f"its loops run where {same.name} lies" if same is not None else "its loops and reductions run where other tiles lie"

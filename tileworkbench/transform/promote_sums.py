"""Long sums of float8 products leave the matrix unit in pieces, which plain additions bring together (sm_90a).

Before:  for k in 0..64: wait full[slot]; gemm a[slot] b[slot] acc; arrive at empty[slot]
After:   for k in 0..64: wait full[slot]; gemm a[slot] b[slot] acc, 128 of k and 128 columns apart; arrive at empty[slot]

wgmma keeps 13 bits behind the first one of a sum of float8 products and cuts the rest off, at each step of 32 along k: over 8192 of them a result
loses all but five bits. The sum of 128 has registers of its own, so many columns at a time as fit beside the accumulator, and is added to it in
float32 when it is complete; another warp group multiplies meanwhile. Source: DeepSeek-V3 technical report, section 3.3.2, December 2024.

With the pass configuration "tl.fast_accumulate" all stays in the matrix unit.

Requires: forms of tiles, roles of warps.  Preserves: sums of at most 128 products, and products that the author starts and waits for.
"""

from __future__ import annotations

from ..analysis.fragments import is_grouped
from ..base.pass_configs import FAST_ACCUMULATE, is_asked
from ..ir.bodies import statements
from ..ir.device import Specialised
from ..ir.expr import Buffer, Const
from ..ir.launches import rewrite_launches
from ..ir.node import Node, children, replace, rewrite, walk
from ..ir.stmt import Fill, For, Gemm, Kernel, Launch, PipelinedFor, While, is_whole
from ..layout.fragments import WARP
from .stay_on_chip import KIND

DEPTH = 128  # products that are added up in the matrix unit: four steps of it
_REGISTERS, _MOST, _OTHERS = 65536, 255, 40  # of a multiprocessor, of a thread, and what a thread needs beside its tiles
_LEAST_COLUMNS = 32


def promote_sums(kernel: Kernel, arch: int) -> Kernel:
    """Return `kernel` with products whose long sums are made of short ones, on sm_90a."""
    if arch != 90 or is_asked(kernel.attrs, FAST_ACCUMULATE):
        return kernel
    return rewrite_launches(kernel, lambda node: _launch(node, arch))


def _launch(launch: Launch, arch: int) -> Launch:
    if is_asked(launch.hints, FAST_ACCUMULATE):
        return launch
    products = [n for s in launch.body for n in statements(s) if isinstance(n, Gemm) and _is_short(n) and is_grouped(n, launch, arch)]
    if not products:
        return launch
    lengths: dict[Buffer, int | None] = {}
    for stmt in launch.body:
        _measure(stmt, (), {id(p) for p in products}, lengths)
    long = {id(p) for p in products if (length := lengths[p.c.buffer]) is None or length > DEPTH}

    def change(node: Node) -> Node:
        return replace(node, apart=(DEPTH, _columns(node, launch), 1)) if isinstance(node, Gemm) and id(node) in long else node

    return rewrite(launch, change) if long else launch


def _is_short(stmt: Gemm) -> bool:
    """Whether a matrix unit keeps few bits of the sums."""
    factors = (stmt.a.buffer.type, stmt.b.buffer.type)
    return all(t.is_float and t.bits == 8 for t in factors) and stmt.c.buffer.type == "float32" and not stmt.is_async and not stmt.unit


def _measure(node: Node, loops: tuple[For | PipelinedFor | While, ...], wanted: set[int], lengths: dict[Buffer, int | None]) -> None:
    """Add up how many products come together in each accumulator of `wanted` statements; None: nobody knows."""
    if isinstance(node, Gemm) and id(node) in wanted:
        length: int | None = node.a.static_extents()[-2 if node.trans_a else -1]
        if not (isinstance(node.clear, Const) and node.clear.value):
            for loop in _running(loops, node.c.buffer):
                turns = _turns(loop)
                length = None if length is None or turns is None else length * turns
        before = lengths.get(node.c.buffer, 0)
        lengths[node.c.buffer] = None if before is None or length is None else before + length
    inside = (*loops, node) if isinstance(node, (For, PipelinedFor, While)) else loops
    for child in children(node):
        _measure(child, inside, wanted, lengths)


def _running(loops: tuple[For | PipelinedFor | While, ...], sums: Buffer) -> tuple[For | PipelinedFor | While, ...]:
    """The loops from the innermost one outwards that do not begin the sums anew."""
    out = []
    for loop in reversed(loops):
        if any(isinstance(n, Fill) and n.dst.buffer == sums and is_whole(n.dst) for n in walk(loop)):
            break
        out.append(loop)
    return tuple(out)


def _turns(loop: For | PipelinedFor | While) -> int | None:
    if isinstance(loop, While):
        return None
    if isinstance(loop, For) and loop.kind == KIND:
        return 1
    ends = loop.start, loop.stop
    return max(0, int(ends[1].value) - int(ends[0].value)) if isinstance(ends[0], Const) and isinstance(ends[1], Const) else None


def _columns(stmt: Gemm, launch: Launch) -> int:
    """How many columns of a piece have registers beside all tiles that threads hold; at least a few, which may then spill."""
    roles = launch.body[0] if len(launch.body) == 1 and isinstance(launch.body[0], Specialised) else None
    threads = launch.count_threads
    room = (roles.registers[1] if roles is not None else 0) or min(_MOST, _REGISTERS // (threads + (4 * WARP if roles is not None else 0)))
    held = sum(b.static_bytes() // 4 // threads for b in launch.allocs if b.scope == "fragment")
    n = stmt.c.static_extents()[-1]
    fitting = (c for c in range(n, 0, -8) if n % c == 0 and c // 2 <= room - _OTHERS - held)
    return max(next(fitting, 0), next(c for c in range(min(_LEAST_COLUMNS, n), n + 1, 8) if n % c == 0))

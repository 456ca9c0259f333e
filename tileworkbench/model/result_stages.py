"""Shared memory that the compiler adds to a block's tiles: results in registers pass through a stage on their way to memory (sm_90).

The rule is that of `transform.send_tiles`: pieces of 64 rows for each warp group, as many as the block has room for without there being fewer blocks
on a multiprocessor. What only passes can see is taken to be well: that nothing else in the launch touches the array, that tiles begin inside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.capacity import room_bytes
from ..analysis.fragments import is_grouped
from ..analysis.matrix_units import GROUP
from ..analysis.tensor_stores import ROWS, pieces_of, slots_of, source_of
from ..base.gpu import Gpu
from ..ir.explicit import is_explicit
from ..ir.expr import Buffer
from ..ir.node import walk
from ..ir.stmt import Atomic, Body, Copy, Gemm, If, Launch, is_whole
from ..transform.form_tiles import formed
from .needs import Need

ARCH = 90
KEPT_BYTES = 2048  # of shared memory, for barriers and rows that reductions exchange (`transform.send_tiles`)
OTHERS = 40  # registers of a thread beside its fragments, at least (the same)


def result_stages(launch: Launch, gpu: Gpu, needs: Sequence[Need], beside: int) -> tuple[Need, ...]:
    """The stages of a launch, on a GPU with a tensor copy engine that stores; `needs` are its tiles, `beside` the threads that the compiler adds."""
    if gpu.capability != (9, 0) or launch.threads_used or is_explicit(launch) or launch.count_threads % GROUP:
        return ()
    sums = _sums(formed(launch, ARCH))
    used = sum(n.bytes for n in needs if n.scope == "shared") + KEPT_BYTES
    held = sum(n.bytes for n in needs if n.scope == "fragment") // (4 * launch.count_threads)
    out = []
    for stmt in _in_order(launch.body):
        source = source_of(stmt)
        if source is None or source.buffer not in sums:
            continue
        dtype = stmt.dst.buffer.type
        pieces = pieces_of(source.buffer, dtype, stmt.dst)
        if isinstance(pieces, str):
            continue
        groups = launch.count_threads // GROUP
        slots = slots_of(pieces, dtype, groups, room_bytes(used, launch.count_threads + beside, held + OTHERS))
        if slots:
            shape = (groups, slots, ROWS, pieces.width)
            size = groups * slots * ROWS * pieces.width * dtype.bits // 8
            out.append(Need(f"{stmt.dst.buffer.name}_stage", shape, str(dtype), "shared", size))
            used += size
    return tuple(out)


def _sums(launch: Launch) -> set[Buffer]:
    """Fragments that lie as sums of warp groups do: their products' results, and what those are converted to."""
    nodes = list(walk(launch))
    products = [n for n in nodes if isinstance(n, Gemm)]
    sums = {n.c.buffer for n in products} - {n.c.buffer for n in products if not (is_whole(n.c) and is_grouped(n, launch, ARCH))}
    for copy in (n for n in nodes if isinstance(n, Copy)):
        if copy.src.buffer in sums and copy.dst.buffer.scope == "fragment" and is_whole(copy.src) and is_whole(copy.dst):
            sums.add(copy.dst.buffer)
    return sums


def _in_order(body: Body) -> Iterator[Copy | Atomic]:
    """Copies and sums outside of loops, in which the engine's stores would have to be ordered."""
    for stmt in body:
        if isinstance(stmt, If):
            yield from _in_order((*stmt.then, *stmt.other))
        elif isinstance(stmt, Copy | Atomic):
            yield stmt

"""Shared memory that the compiler adds to a block's tiles: results in registers pass through a stage on their way to memory (sm_90).

The rule is that of `transform.send_tiles`: pieces of 64 rows for each warp group, as many as the block has room for without there being fewer blocks
on a multiprocessor. What only passes can see is taken to be well: that nothing else in the launch touches the array, that tiles begin inside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.capacity import room_bytes
from ..analysis.matrix_units import GROUP
from ..analysis.tensor_stores import KEPT_BYTES, OTHERS, ROWS, pieces_of, slots_of, source_of, sums_of_groups
from ..base.gpu import Gpu
from ..ir.explicit import is_explicit
from ..ir.node import walk
from ..ir.stmt import Atomic, Body, Copy, If, Launch
from ..transform.form_tiles import formed
from .needs import Need

ARCH = 90


def result_stages(launch: Launch, gpu: Gpu, needs: Sequence[Need], beside: int) -> tuple[Need, ...]:
    """The stages of a launch, on a GPU with a tensor copy engine that stores; `needs` are its tiles, `beside` the threads that the compiler adds."""
    if gpu.capability != (9, 0) or launch.threads_used or is_explicit(launch) or launch.count_threads % GROUP:
        return ()
    made = formed(launch, ARCH)
    sums = sums_of_groups(list(walk(made)), made, ARCH)
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
            size = groups * slots * pieces.size(dtype)
            out.append(Need(f"{stmt.dst.buffer.name}_stage", shape, str(dtype), "shared", size))
            used += size
    return tuple(out)


def _in_order(body: Body) -> Iterator[Copy | Atomic]:
    """Copies and sums outside of loops, in which the engine's stores would have to be ordered."""
    for stmt in body:
        if isinstance(stmt, If):
            yield from _in_order((*stmt.then, *stmt.other))
        elif isinstance(stmt, Copy | Atomic):
            yield stmt

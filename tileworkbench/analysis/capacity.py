"""How much on-chip memory a launch asks for, and whether a core can give it."""

from __future__ import annotations

from ..base.errors import CapacityError
from ..base.gpu import capability_limits
from ..ir.expr import Buffer
from ..ir.stmt import Launch

LIMIT_BYTES = 1 << 30
"""Of one block on a CPU core. Caches are far smaller; more than this is surely a mistake, and would take the machine's memory."""


def room_bytes(used: int, threads: int, registers: int, arch: str = "sm_90") -> int:
    """The bytes of shared memory that a block may take beyond `used`, so that no fewer blocks than now run on a multiprocessor.

    `registers`: of each of its `threads`, at least.

    >>> room_bytes(192 << 10, 384, 168), room_bytes(100 << 10, 128, 100)     # one block, which may take all; two, which share
    (35840, 13312)
    """
    limits = {name: int(q.value if q.unit != "KiB" else q.value * 1024) for name, q in capability_limits(arch).items()}
    reserved = limits["shared_reserved"]
    by_threads = min(limits["max_threads"] // threads, limits["registers_per_sm"] // (max(1, registers) * threads))
    blocks = max(1, min(limits["shared_per_sm"] // (used + reserved), by_threads))
    return min(limits["shared_per_sm"] // blocks - reserved, limits["shared_per_block"]) - used


def require_capacity(launch: Launch, limit_bytes: int = LIMIT_BYTES) -> None:
    """Raises: CapacityError if the tiles of one block of `launch` take more than `limit_bytes`; it names the largest."""
    tiles = [b for b in launch.allocs if b.view_of is None and b.scope != "var"]
    total = sum(b.static_bytes() for b in tiles)
    if total <= limit_bytes:
        return
    largest = max(tiles, key=Buffer.static_bytes)
    shape, size = ", ".join(map(str, largest.static_shape())), largest.static_bytes()
    raise CapacityError(
        f"the tiles of one block take {total >> 20} MiB, more than the {limit_bytes >> 20} MiB of a core", span=largest.span or launch.span,
        hint=f"use smaller tiles; the largest is {largest.name} ({shape}) {largest.type} with {size >> 20} MiB",
    )  # fmt: skip

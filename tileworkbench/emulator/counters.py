"""What a run moved, line by line.

A *request* is one access of a warp: the n-th time that its lanes came by one place of the program since they last met at a barrier. Its sectors are
the different pieces of 32 bytes that it touches; wavefronts follow the phase rule of `layout.banks`; bytes are those that threads asked for.
`loaded_sectors` and `stored_sectors` count every sector once in a run, at the line that touched it first.
`specials` are results of the unit for exp2, rcp and the like (the `*_approx` functions), one for each thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .text import Line

COUNTERS = (
    "global_loads", "global_stores", "global_load_sectors", "global_store_sectors", "global_load_bytes", "global_store_bytes",
    "shared_loads", "shared_stores", "shared_load_wavefronts", "shared_store_wavefronts", "shared_load_ideal", "shared_store_ideal",
    "shared_load_bytes", "shared_store_bytes", "shuffles", "votes", "barriers", "barrier_waits", "atomics", "async_copies", "matrix_loads",
    "matrix_stores", "mma", "mma_flops", "wgmma", "wgmma_flops", "tma_loads", "tma_stores", "tma_load_bytes", "tma_store_bytes", "async_bytes",
    "loaded_sectors", "stored_sectors", "specials",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LineCounters:
    """Counters of one line, or of all: a value for each name in `COUNTERS`, as attributes too."""

    values: tuple[int, ...]

    def __getattr__(self, name: str) -> int:
        try:
            return self.values[COUNTERS.index(name)]
        except ValueError:
            raise AttributeError(name) from None

    def __add__(self, other: LineCounters) -> LineCounters:
        return LineCounters(tuple(a + b for a, b in zip(self.values, other.values, strict=True)))

    @property
    def shared_bytes(self) -> int:
        """Bytes between registers and shared memory."""
        return self.shared_load_bytes + self.shared_store_bytes

    @property
    def l2_bytes(self) -> int:
        """Bytes between L2 and the multiprocessors: sectors of requests, and bulk copies."""
        return 32 * (self.global_load_sectors + self.global_store_sectors) + self.tma_load_bytes + self.tma_store_bytes

    @property
    def dram_bytes(self) -> int:
        """The least that memory must move: every sector that was touched, once in each direction."""
        return 32 * (self.loaded_sectors + self.stored_sectors)

    def to_dict(self) -> dict[str, int]:
        """Counters that are not zero, by name."""
        return {name: value for name, value in zip(COUNTERS, self.values, strict=True) if value}


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of a run: `total`, and by author line; None stands for accesses of no line."""

    total: LineCounters
    by_line: Mapping[Line | None, LineCounters]

    @staticmethod
    def none() -> Counters:
        """Of a run that did nothing."""
        return Counters(LineCounters((0,) * len(COUNTERS)), {})

    def at(self, line: int) -> LineCounters:
        """Of author line `line`, over all files."""
        found = [c for where, c in self.by_line.items() if where is not None and where.line == line]
        return sum(found, Counters.none().total)

"""Requests of warps on shared memory, as a run made them: which lane wanted which bytes of which tile, at which line, how often.

A request is what `counters` counts: one access of a warp. `ldmatrix` and `stmatrix` are one request each, whose lanes give the rows of 16 bytes:
eight lanes a phase, which is the rule for 16-byte accesses too. What the tensor copy engine and `wgmma` touch is no request of a warp and not here:
they read and write whole tiles past the threads, by hardware whose bank use is not documented.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from ..layout.algebra import Array
from .text import Line

KINDS = ("load", "store", "atomic", "cp.async", "ldmatrix", "stmatrix")
_WORDS = 37  # of the runtime's record: line, kind, bytes, low, high, 32 addresses
_NOBODY = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class SharedRequest:
    """`width` bytes of each lane at `addresses` (32 of them, -1 for a lane that takes no part), in bytes from the start of the block's shared memory.

    `kind` is one of `KINDS`; the tile lies at bytes [`low`, `high`); the run made the request `times` times.
    """

    line: Line | None
    kind: str
    width: int
    low: int
    high: int
    addresses: tuple[int, ...]
    times: int

    @property
    def is_write(self) -> bool:
        return self.kind not in ("load", "ldmatrix")


@dataclass(frozen=True, slots=True)
class SharedRequests:
    """The different requests of a run. `left_out` counts those of patterns that there was no room for."""

    made: tuple[SharedRequest, ...] = ()
    left_out: int = 0


def read_requests(library: ctypes.CDLL, lines: tuple[Line, ...]) -> SharedRequests:
    """What the runtime recorded in its last run."""
    left_out = ctypes.c_uint64()
    count = library.twbe_requests(None, None, ctypes.byref(left_out))
    rows, times = np.zeros((count, _WORDS), np.uint32), np.zeros(count, np.uint64)
    if count:
        library.twbe_requests(rows.ctypes.data_as(ctypes.c_void_p), times.ctypes.data_as(ctypes.c_void_p), ctypes.byref(left_out))
    return SharedRequests(tuple(_request(row, int(n), lines) for row, n in zip(rows.astype(np.int64), times, strict=True)), int(left_out.value))


def _request(row: Array, times: int, lines: tuple[Line, ...]) -> SharedRequest:
    number, kind, width, low, high = (int(x) for x in row[:5])
    at = tuple(int(x) for x in np.where(row[5:] == _NOBODY, -1, row[5:]))
    line = lines[number - 1] if 0 < number <= len(lines) else None
    return SharedRequest(line, KINDS[kind], width, low, high, at, times)

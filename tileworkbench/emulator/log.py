"""What one cluster of blocks did, in order, as the emulator wrote it down: what each warp starts, arrives at and waits for, and the work between.

An entry's numbers by kind (`line` is the author's):
    work        n instructions of a thread, m of them by the unit for exponentials and the like
    shared      n wavefronts between registers and shared memory
    loaded, stored   n bytes of L2's sectors that the warp's threads asked for
    multiply    n FLOP of matrix products that the warp waits for (mma.sync) of operand type a
    product     n FLOP that run beside the warp (a quarter of a warp group's wgmma) of type a; b says whether an operand is in registers;
                product_commit closes group a
    load        a bulk load of n bytes to shared address m of the blocks in mask p, which arrives at phase b of the mbarrier at a; q is its array's
    store       a bulk store of n bytes of group a from shared address m; store_commit closes group a
    copy        n bytes to shared address m by the warp's cp.async in group a; copy_commit closes it, or copy_arrive, which when they are there
                arrives at phase q of the mbarrier at p
    *_wait      until all groups below a are done
    arrive      at phase b of the mbarrier at a, in the blocks of mask p
    wait        for the end of phase b of the mbarrier at a (-1: of no copy or arrival)
    bar         at named barrier a, which b threads come to; n says whether it waits
    step        a turn of loop a, whose variable has the value b (-1: no variable); loop -1 - a has ended
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .text import Line

KINDS = (
    "work", "shared", "loaded", "stored", "multiply", "copy", "product", "product_commit", "product_wait", "load", "store", "store_commit",
    "store_wait", "copy_commit", "copy_wait", "copy_arrive", "arrive", "wait", "bar", "cluster_arrive", "cluster_wait", "step", "end",
)  # fmt: skip
SUMS = 6  # kinds before this one are sums of a segment
TYPES = ("float16", "bfloat16", "float32", "tfloat32", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int32", "float64")  # operands, by number
FIELDS = ("order", "thread", "segment", "kind", "line", "a", "b", "n", "m", "p", "q")
_SHARED_KINDS = tuple(map(KINDS.index, ("load", "store", "arrive")))  # of lanes that do not speak for their warp, these count all the same
WARP = 32
Rows = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that a warp did; the numbers are explained above."""

    kind: str
    line: Line | None
    a: int = 0
    b: int = 0
    n: int = 0
    m: int = 0
    p: int = 0
    q: int = 0


@dataclass(frozen=True, slots=True)
class WarpLog:
    """The entries of warp `index` of block `rank` of the cluster, in order."""

    rank: int
    index: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Log:
    """One cluster's run. `loops` holds the variable of each loop that takes turns."""

    kernel: str
    warps: tuple[WarpLog, ...]
    loops: tuple[str, ...] = ()
    block_threads: int = 0

    def of(self, kind: str) -> list[Entry]:
        """All entries of a kind."""
        return [e for w in self.warps for e in w.entries if e.kind == kind]


def log_of(kernel: str, rows: Rows, block_threads: int, lines: tuple[Line | None, ...], loops: tuple[str, ...]) -> Log:
    """The log of the emulator's rows (int64, a column for each of `FIELDS`); line number i is `lines[i]`."""
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    per_block = -(-block_threads // WARP)
    warp = rows[:, 1] // block_threads * per_block + rows[:, 1] % block_threads // WARP
    order = np.argsort(warp, kind="stable")
    ends = np.flatnonzero(np.diff(warp[order])) + 1
    warps = []
    for mine in np.split(order, ends) if len(rows) else ():
        number = int(warp[mine[0]])
        warps.append(WarpLog(number // per_block, number % per_block, _entries(rows[mine], lines)))
    return Log(kernel, tuple(warps), loops, block_threads)


def _entries(rows: Rows, lines: tuple[Line | None, ...]) -> tuple[Entry, ...]:
    """One warp's entries in order: those of the lane that did most, with what others start and arrive at."""
    is_copy = rows[:, 3] == KINDS.index("copy")
    ordered = rows[:, 3] >= SUMS
    lanes, counts = np.unique(rows[ordered, 1], return_counts=True)
    leader = lanes[np.argmax(counts)]
    arrivals = {(r[5], r[6], r[9]) for r in rows[(rows[:, 1] == leader) & (rows[:, 3] == KINDS.index("arrive"))].tolist()}
    mine = ordered & (rows[:, 1] == leader)
    others = ordered & (rows[:, 1] != leader) & np.isin(rows[:, 3], _SHARED_KINDS)
    events = [r for r in rows[mine | others].tolist() if r[1] == leader or r[3] != _SHARED_KINDS[2] or (r[5], r[6], r[9]) not in arrivals]
    places = [r[0] for r in events if r[1] == leader]  # the order of the leader's n-th event
    segments = [r[2] for r in events if r[1] == leader]
    at_segment = dict(zip(segments, places, strict=True))
    keyed = [(float(r[0]), 1, r) for r in events]
    for r in rows[~ordered & ~is_copy].tolist():
        own = at_segment.get(r[2]) if r[1] == leader else None
        keyed.append((float(own) if own is not None else float(r[0]), 0, r))
    keyed.sort(key=lambda k: (k[0], k[1], k[2][0]))
    copies: dict[int, tuple[int, int]] = {}
    parts: dict[int, list[list[int]]] = {}
    for r in rows[is_copy].tolist():
        parts.setdefault(r[2], []).append(r)
        n, m = copies.get(r[2], (0, r[8]))
        copies[r[2]] = n + r[7], min(m, r[8])
    out: list[Entry] = []
    for _, _, r in keyed:
        kind = KINDS[r[3]]
        line = lines[r[4]] if 0 <= r[4] < len(lines) else None
        if kind == "copy_commit":
            out += [Entry("copy", lines[c[4]], r[5], 0, c[7], c[8]) for c in parts.get(r[5], ())]
            out.append(Entry(kind, line, r[5]))
        elif kind == "copy_arrive":
            out += [Entry("copy", lines[c[4]], r[8], 0, c[7], c[8]) for c in parts.get(r[8], ())]
            out.append(Entry(kind, line, r[8], 0, 0, 0, r[5], r[6]))
        else:
            out.append(Entry(kind, line, *r[5:]))
    return tuple(out)

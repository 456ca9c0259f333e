"""Timing by many short runs: the best of them went undisturbed, however busy the machine is.

On one thread the clock is processor time, so that a run that was interrupted counts only what it ran itself. Several threads wait for each other, so
there only the wall clock tells, and runs that are shorter than a time slice.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

from .loader import Entry

RUN_S = 0.002
RUNS = 12

Clock = Callable[[], float]


def call(entry: Entry, threads: int, *args: int) -> None:
    """Call a probe: `args` are its 64-bit numbers."""
    entry(struct.pack(f"={len(args)}q", *args), threads)


def clock_of(threads: int) -> Clock:
    """The clock for work on `threads` threads, in seconds."""
    return time.thread_time if threads <= 1 else time.perf_counter


def rounds(work: Callable[[int], None], start: int, run_s: float = RUN_S, clock: Clock = time.thread_time) -> int:
    """How many rounds of `work` take about `run_s` seconds. The quicker of two tries counts: threads take their time to wake up."""
    count = start
    while True:
        spent = best(lambda: work(count), runs=2, clock=clock)  # noqa: B023  # called at once
        if spent > run_s / 4:
            return max(1, int(count * run_s / spent))
        count *= 4


def best(work: Callable[[], Any], runs: int = RUNS, skip: int = 0, clock: Clock = time.thread_time) -> float:
    """Seconds of the fastest run, after the `skip` fastest, which may have been lucky."""
    times = []
    for _ in range(runs):
        begin = clock()
        work()
        times.append(clock() - begin)
    return sorted(times)[skip]

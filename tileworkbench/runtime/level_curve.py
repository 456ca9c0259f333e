"""The levels of this machine's memory, read off a curve: the read rate of one core over working sets of 8 KiB to 256 MiB.

Two sweeps are taken, some time apart. Rates are the better of the two; where a level ends is the middle of what either and both together say, and the
last record's figure where the new one lies near it, since a shared cache looks larger or smaller with every neighbour.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..base.cpu import Isa
from ..base.machine import Level, Quantity
from .knees import Plateau, at_most, find_plateaus, without_transitions
from .loader import Entry
from .short_runs import RUNS, best, call, clock_of, rounds

SMALLEST, LARGEST = 8 << 10, 256 << 20
MOST = 768 << 20  # where a cache is larger than LARGEST
PER_OCTAVE = 2
WINDOW = 16 << 20
SWEEPS = 2
NEAR_OWN, NEAR_SHARED = 2.5, 1.4  # a stated capacity counts if the curve agrees within this factor; one that is shared is rarely all ours
SAME = 2.0  # a capacity within this factor of the last record's is the same one

Rate = Callable[[int, int], float]
MOST_CACHES = 3  # that processors of today have in front of their memory; views have a colour and a mark for each


def largest_set() -> int:
    """Bytes that surely do not fit in a cache: twice the largest that the system states, within reason."""
    return max(LARGEST, min(MOST, 2 * max(stated_capacities(), default=0)))


def measure_levels(read: Entry, isa: Isa, threads: int, start: int, largest: int = LARGEST, known: Sequence[Level] = ()) -> tuple[Level, ...]:
    """Registers, the caches and memory. `start`: the address of `largest` bytes; `known`: the levels of an earlier record."""
    unit = 8 * isa.vector_bytes
    steps = round(math.log2(largest / SMALLEST) * PER_OCTAVE)
    sizes = [min(int(SMALLEST * 2 ** (i / PER_OCTAVE)), largest) // unit * unit for i in range(steps + 1)]
    rate = _reader(read, start)
    sweeps = [[rate(size, 1) for size in sizes] for _ in range(SWEEPS)]
    rates, plateaus = settle(sizes, sweeps)
    levels = [
        Level(
            "registers",
            Quantity(isa.registers * isa.vector_bytes / 1024, "KiB", f"{isa.registers} registers of {isa.vector_bytes} bytes"),
            None,
            None,
        )
    ]
    below = 0
    for number, plateau in enumerate(plateaus):
        is_memory = plateau.capacity is None
        name = "DRAM" if is_memory else f"L{number + 1}"
        shared = is_memory or number >= 2
        inside = [r for s, r in zip(sizes, rates, strict=True) if 1.5 * below <= s <= 0.75 * (plateau.capacity or math.inf)]
        one = max(sorted(inside)[len(inside) // 2 :][:1] or [plateau.rate]) if not is_memory else float(np.median(rates[-2:]))
        size = _probe_size(plateau, below, sizes[-1], threads if shared else 1, unit)
        everything = min(max(one, rate(size, threads)), threads * one) if threads > 1 else one
        before = next((x.capacity for x in known if x.name == name), None)
        capacity = level_capacity(plateau, stated_capacities(), shared=shared, before=before)
        source = "timed: reads of one working set a core"
        levels.append(Level(name, capacity, Quantity(one, "GB/s", source, True), Quantity(everything, "GB/s", source, True), shared))
        below = plateau.capacity or 0
    return tuple(levels)


def _reader(read: Entry, start: int) -> Rate:
    def rate(size: int, n: int) -> float:
        clock = clock_of(n)
        if size <= WINDOW:
            passes = rounds(lambda k: call(read, n, start, size, k, size), 1, clock=clock)
            return size * n * passes / best(lambda: call(read, n, start, size, passes, size), runs=RUNS * 2 // 3, clock=clock) / 1e9
        # a run that is short all the same: one window of the working set after the other, each last read a whole round ago
        places = itertools.cycle(range(0, size - WINDOW + 1, WINDOW))
        call(read, n, start, size, 1, size)
        return WINDOW * n / best(lambda: call(read, n, start + next(places), WINDOW, 1, size), runs=2 * RUNS, skip=3, clock=clock) / 1e9

    return rate


def settle(sizes: Sequence[int], sweeps: Sequence[Sequence[float]]) -> tuple[list[float], list[Plateau]]:
    """The rates of several sweeps together, and their plateaus with the median of the capacities that each sweep, and all together, give.

    >>> _, found = settle([2**k for k in range(14, 24)], [[100.0] * 5 + [20.0] * 5, [100.0] * 4 + [20.0] * 6])
    >>> [k.capacity for k in found]
    [262144, None]
    """
    merged = _falling([max(at) for at in zip(*sweeps, strict=True)])
    plateaus = at_most(without_transitions(find_plateaus(sizes, merged, most=6)), MOST_CACHES)
    each = [without_transitions(find_plateaus(sizes, _falling(sweep), most=6)) for sweep in sweeps]
    settled = []
    for number, plateau in enumerate(plateaus):
        same = [p[number].capacity for p in each if len(p) == len(plateaus)]
        found = [c for c in (plateau.capacity, *same) if c is not None]
        settled.append(plateau if plateau.capacity is None else Plateau(sorted(found)[len(found) // 2], plateau.rate))
    return merged, settled


def _falling(rates: Sequence[float]) -> list[float]:
    """A larger set is never read faster: what lies below was disturbed."""
    return list(itertools.accumulate(reversed(rates), max))[::-1]


def _probe_size(plateau: Plateau, below: int, largest: int, sharers: int, unit: int) -> int:
    """Bytes a thread for the all-cores run: well inside the level, whose capacity `sharers` threads divide."""
    top = largest if plateau.capacity is None else plateau.capacity // 2
    size = top // sharers if plateau.capacity is None else max(int(1.5 * below), top // sharers)
    return max(unit, min(size, largest // max(1, sharers)) // unit * unit)


def level_capacity(plateau: Plateau, stated: Sequence[int], *, shared: bool, before: Quantity | None = None) -> Quantity | None:
    """A level's capacity: what the system states if the curve agrees, else the last record's if near, else what the curve says."""
    if plateau.capacity is None:
        return None
    most = NEAR_SHARED if shared else NEAR_OWN
    near = [s for s in stated if s / most <= plateau.capacity <= s * most]
    size = min(near, key=lambda s: abs(math.log(s / (plateau.capacity or 1)))) if near else plateau.capacity
    source = "stated by the system, and the read rate falls there" if near else "where the read rate falls"
    if not near and before is not None and before.bytes / SAME <= size <= before.bytes * SAME:
        return before
    return Quantity(size / 1024, "KiB", source, not near) if size < 1 << 20 else Quantity(size / (1 << 20), "MiB", source, not near)


def stated_capacities() -> list[int]:
    """Data cache sizes of the first core in bytes, as Linux states them."""
    sizes = []
    for place in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (place / "type").read_text().strip() != "Instruction":
                text = (place / "size").read_text().strip()
                sizes.append(int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1))
        except (OSError, ValueError):
            continue
    return sizes

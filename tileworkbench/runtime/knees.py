"""Reading a memory hierarchy off a curve: rates over working-set sizes fall in steps, one a level.

>>> sizes = [2**k for k in range(14, 26)]
>>> [k.capacity for k in find_plateaus(sizes, [100.0] * 4 + [40.0] * 4 + [10.0] * 4)]
[131072, 2097152, None]
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

NOISE = 0.10  # relative scatter of one point that is no step
SMALLEST_STEP = 1.25


@dataclass(frozen=True, slots=True)
class Plateau:
    """A level: the largest working set that it still served (None: the last one, memory), and its rate in the curve's unit."""

    capacity: int | None
    rate: float


def find_plateaus(sizes: Sequence[int], rates: Sequence[float], most: int = 4) -> list[Plateau]:
    """Split the curve into at most `most` plateaus: the least-squares fit of steps to log(rate), a step more only where it pays.

    `sizes` ascend. Neighbouring plateaus differ by at least SMALLEST_STEP.
    """
    logs = [math.log(max(r, 1e-9)) for r in rates]
    best: list[int] = [len(logs)]
    best_cost = _spread(logs, 0, len(logs))
    for count in range(2, min(most, len(logs) // 2) + 1):
        cost, ends = _fit(logs, count)
        if cost < best_cost - 3 * NOISE * NOISE * math.log(len(logs)):
            best_cost, best = cost, ends
    return _plateaus(sizes, rates, best)


def without_transitions(plateaus: Sequence[Plateau]) -> list[Plateau]:
    """The plateaus that are levels: a step that ends before four times the capacity of the level above is the way from one to the next.

    >>> [k.rate for k in without_transitions([Plateau(1 << 20, 90.0), Plateau(3 << 19, 60.0), Plateau(None, 10.0)])]
    [90.0, 10.0]
    """
    kept: list[Plateau] = []
    for plateau in plateaus:
        if kept and plateau.capacity is not None and plateau.capacity < 4 * (kept[-1].capacity or 0):
            continue
        kept.append(plateau)
    return kept


def at_most(plateaus: Sequence[Plateau], caches: int) -> list[Plateau]:
    """The plateaus with no more than `caches` caches: those whose fall is smallest are no level, but the noise of a busy machine.

    >>> [k.rate for k in at_most([Plateau(1 << 15, 90.0), Plateau(1 << 18, 84.0), Plateau(1 << 21, 40.0), Plateau(None, 10.0)], 2)]
    [84.0, 40.0, 10.0]
    """
    kept = list(plateaus)
    while len(kept) > caches + 1:
        falls = [kept[i].rate / max(kept[i + 1].rate, 1e-9) for i in range(len(kept) - 1)]
        least = falls.index(min(falls))
        del kept[least]  # its bytes belong to the next, slower level
    return kept


def _plateaus(sizes: Sequence[int], rates: Sequence[float], ends: Sequence[int]) -> list[Plateau]:
    found: list[tuple[int, float]] = []
    start = 0
    for end in ends:
        rate = statistics.median(rates[start:end])
        if found and found[-1][1] < rate * SMALLEST_STEP:  # no fall to speak of: one level
            found[-1] = (end, min(found[-1][1], rate) if rate < found[-1][1] else found[-1][1])
        else:
            found.append((end, rate))
        start = end
    return [Plateau(None if end == len(sizes) else sizes[end - 1], rate) for end, rate in found]


def _spread(values: Sequence[float], start: int, end: int) -> float:
    """Sum of squared distances from the mean."""
    part = values[start:end]
    mean = sum(part) / len(part)
    return sum((v - mean) ** 2 for v in part)


def _fit(values: Sequence[float], count: int) -> tuple[float, list[int]]:
    """The best split into `count` runs of at least two values: its cost and the ends of the runs."""
    n = len(values)
    table: list[dict[int, tuple[float, list[int]]]] = [{0: (0.0, [])}]
    for _ in range(count):
        row: dict[int, tuple[float, list[int]]] = {}
        for start, (cost, ends) in table[-1].items():
            for end in range(start + 2, n + 1):
                total = cost + _spread(values, start, end)
                if end not in row or total < row[end][0]:
                    row[end] = (total, [*ends, end])
        table.append(row)
    return table[-1].get(n, (math.inf, [n]))

"""Timing two sides fairly on a chip whose power limit sets its clock: both run in turns, and ratios count, not times.

`alternate`: single launches (or few, of short ones) take turns on a hot chip, and each pair gives a ratio. Both sides share the clock, so the median
compares cycles. `segments`: runs of 150 ms take turns, the second half of each counts. Each side settles at its own clock, so the ratio compares the
energy of a result. Times are those of the GPU, between events in the stream.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...runtime.device_clock import PATIENCE

Run = Callable[[], Any]
Runs = Sequence[Run]  # the same work on different arrays, taken in turns

SHORT_MS = 0.3  # launches that are shorter are timed several at once
ALTERNATE_MS = 1200.0  # of the GPU, for a pair of sides
MOST_ROUNDS, FEWEST_ROUNDS = 40, 6
SEGMENT_MS, SEGMENTS = 150.0, 4
SEGMENT_LEAST_MS = 0.03
HEAT_MS = 300.0
LAUNCH_US = 12.0  # of the host, usually at most: a launch that is shorter has to be in the stream before its turn comes


class Clock(Protocol):
    """The stream of a GPU, as far as timing needs it."""

    def mark(self) -> Any:
        """An event in the stream."""

    def between(self, first: Any, second: Any) -> float:
        """Milliseconds of the GPU between two events that have passed."""

    def has_passed(self, mark: Any) -> bool:
        """Whether the stream has come to an event."""

    def wait(self) -> None:
        """Until the stream is empty."""

    def hold(self, microseconds: float) -> None:
        """Keep the stream busy for so long, while the host fills it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What one side took beside the base: milliseconds of each, and the median ratio base / side."""

    ms: float
    base_ms: float
    ratio: float


def estimate(clock: Clock, runs: Runs, least: int = 5) -> float:
    """Milliseconds of one run, the median of a few batches after a warm-up."""
    runs[0]()
    clock.wait()
    rough = _batch(clock, runs, 1)
    inner = max(1, round(SHORT_MS / max(rough, 1e-4)))
    return statistics.median(_batch(clock, runs, inner) for _ in range(least))


def samples(clock: Clock, runs: Runs, ms: float, count: int) -> list[float]:
    """Milliseconds of one run, `count` times, of batches of those that take about `ms`, without a pause in which the chip would cool."""
    inner = max(1, round(SHORT_MS / max(ms, 1e-4)))
    return [_batch(clock, runs, inner) for _ in range(count)]


def _batch(clock: Clock, runs: Runs, count: int) -> float:
    first, second = _queued(clock, ((runs, count),), 0)
    clock.wait()
    return clock.between(first, second) / count


def _queued(clock: Clock, sides: Sequence[tuple[Runs, int]], turn: int) -> list[Any]:
    """Marks around so many launches of each side, which all stood in the stream before it came to the first; after some tries perhaps not all."""
    marks: list[Any] = []
    for patience in PATIENCE:
        clock.wait()
        clock.hold(patience * LAUNCH_US * sum(count for _, count in sides))
        marks = _marked(clock, sides, turn)
        if not clock.has_passed(marks[0]):
            break
    return marks


def _marked(clock: Clock, sides: Sequence[tuple[Runs, int]], turn: int) -> list[Any]:
    """Marks around so many launches of each side."""
    marks = [clock.mark()]
    for runs, count in sides:
        for i in range(count):
            runs[(turn + i) % len(runs)]()
        marks.append(clock.mark())
    return marks


def heat(clock: Clock, runs: Runs, ms: float) -> None:
    """Run until the chip is in its steady state of power."""
    for i in range(max(1, int(HEAT_MS / max(ms, 1e-3)))):
        runs[i % len(runs)]()
    clock.wait()


def alternate(clock: Clock, sides: Mapping[str, Runs], base: Runs, ms: float) -> dict[str, Pair]:
    """Every side beside `base`, which takes about `ms`: base, side, base, side, in changing order of the sides."""
    inner = max(1, round(SHORT_MS / max(ms, 1e-4) + 0.4))
    rounds = int(ALTERNATE_MS / (2 * inner * max(ms, 1e-4)))
    names, records = list(sides), []
    mixed = random.Random(1)
    for turn in range(max(FEWEST_ROUNDS, min(MOST_ROUNDS, rounds)) + 1):
        mixed.shuffle(names)
        for name in names:
            both = ((base, inner), (sides[name], inner))
            events = _queued(clock, both, turn) if inner > 1 else _marked(clock, both, turn)
            if turn:  # the first one warms up
                records.append((name, events))
    clock.wait()
    found: dict[str, Pair] = {}
    for name in sides:
        times = [(clock.between(e[0], e[1]) / inner, clock.between(e[1], e[2]) / inner) for n, e in records if n == name]
        mine, theirs = statistics.median(s for _, s in times), statistics.median(b for b, _ in times)
        found[name] = Pair(mine, theirs, statistics.median(b / s for b, s in times))
    return found


def segments(clock: Clock, side: Runs, base: Runs, ms: float) -> Pair:
    """One side beside `base`, which takes about `ms`, in runs of 150 ms in turns. Not for launches that the host takes longer for than the GPU."""
    count = max(4, int(SEGMENT_MS / max(ms, 1e-4)))
    half = count // 2

    def run(runs: Runs) -> tuple[Any, Any]:
        first = None
        for i in range(count):
            if i == half:
                first = clock.mark()
            runs[i % len(runs)]()
        return first, clock.mark()

    run(base)
    records = [(run(base), run(side)) for _ in range(SEGMENTS)]
    clock.wait()
    times = [(clock.between(*b) / (count - half), clock.between(*s) / (count - half)) for b, s in records]
    return Pair(statistics.median(s for _, s in times), statistics.median(b for b, _ in times), statistics.median(b / s for b, s in times))

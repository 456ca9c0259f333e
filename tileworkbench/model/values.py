"""Numbers that a report shows, as values that say whether they were predicted or measured.

>>> print(Predicted(0.00123, "s"), "|", Measured.of([0.0013, 0.00131, 0.0014]))
~1.23 ms | 1.31 ms (median of 3, best 1.3 ms)
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


def show(value: float, unit: str, digits: int = 3) -> str:
    """`value` in base units (B, s, FLOP, FLOP/s, B/s) with a decimal prefix.

    >>> show(12_582_912, "B"), show(0.00042, "s"), show(2.15e11, "FLOP/s"), show(0, "B")
    ('12.6 MB', '420 us', '215 GFLOP/s', '0 B')
    """
    if not value:
        return f"0 {unit}"
    steps = _SMALL if unit == "s" else _PREFIXES
    factor, prefix = next(((f, p) for f, p in steps if abs(value) >= f * (1 - 0.5 * 10**-digits)), steps[-1])
    number = value / factor
    places = max(digits, len(str(int(abs(number)))))
    return f"{number:.{places}g} {prefix}{unit}"


def several(count: float, thing: str) -> str:
    """A count with its noun: "1 block", "12 blocks"; a fraction keeps three digits.

    >>> several(1, "block"), several(12.0, "block"), several(2.5, "round")
    ('1 block', '12 blocks', '2.5 rounds')
    """
    number = f"{count:.0f}" if count == int(count) or count >= 100 else f"{count:.3g}"
    return f"{number} {thing}{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Predicted:
    """A number that a model made: `value` in base units of `unit`. Prints with a tilde."""

    value: float
    unit: str

    def __str__(self) -> str:
        return f"~{show(self.value, self.unit)}"


@dataclass(frozen=True, slots=True)
class Measured:
    """A number that a clock gave: the median of `runs` runs, the `best` of them, and `spread`, the interquartile range over the median."""

    value: float
    unit: str
    runs: int = 1
    best: float = 0.0
    spread: float = 0.0

    @staticmethod
    def of(samples: Sequence[float], unit: str = "s") -> Measured:
        """The median of times (or of other samples where less is better). Raises ValueError for none."""
        if not samples:
            raise ValueError("no samples")
        middle = statistics.median(samples)
        low, _, high = statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else (middle,) * 3
        return Measured(middle, unit, len(samples), min(samples), max(0.0, (high - low) / middle if middle else 0.0))

    @property
    def is_unstable(self) -> bool:
        """Whether half of the runs differ by more than a tenth: the clock, or a neighbour, moved."""
        return self.spread > 0.10 and self.runs > 2

    @property
    def variation(self) -> str:
        """The spread in words: a share, or that it is beyond telling."""
        return f"{self.spread * 100:.0f} %" if self.spread < 2 else "more than twice their median"

    def __str__(self) -> str:
        text = show(self.value, self.unit)
        return f"{text} (median of {self.runs}, best {show(self.best, self.unit)})" if self.runs > 1 else text


@dataclass(frozen=True, slots=True)
class Recorded(Measured):
    """A number that a clock gave on another machine, at another time: `badge` says where and when. It prints with it.

    >>> print(Recorded.at([0.0013, 0.0014, 0.0015], "recorded on NVIDIA H200, 2026-12-01, driver 580"))
    1.4 ms (recorded on NVIDIA H200, 2026-12-01, driver 580; median of 3, best 1.3 ms)
    """

    badge: str = "recorded"

    @staticmethod
    def at(samples: Sequence[float], badge: str, unit: str = "s") -> Recorded:
        """The median of recorded samples. Raises ValueError for none."""
        m = Measured.of(samples, unit)
        return Recorded(m.value, unit, m.runs, m.best, m.spread, badge)

    def __str__(self) -> str:
        more = f"; median of {self.runs}, best {show(self.best, self.unit)}" if self.runs > 1 else ""
        return f"{show(self.value, self.unit)} ({self.badge}{more})"


Number = Predicted | Measured


def kind_of(number: Number) -> str:
    """ "predicted", "measured" or "recorded"."""
    return "recorded" if isinstance(number, Recorded) else "measured" if isinstance(number, Measured) else "predicted"

"""Measuring how long a function takes, honestly enough to compare two schedules.

Runs are timed one by one with the monotonic clock, or with that of a GPU; calls shorter than 50 us (there 300) are timed in batches. Caches stay
warm between runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

SHORT_NS = 50_000  # by the host's clock; another device's says itself (`short_ns`)
Clock = Callable[[Callable[[], Any], int], int]  # nanoseconds for so many calls


@dataclass(frozen=True, slots=True)
class Timing:
    """Measured times of one function, in milliseconds, one for each run (a batch of short calls counts as one run)."""

    runs_ms: tuple[float, ...]
    calls_per_run: int = 1
    threads: int = 0
    was_stopped: bool = False  # the runs were cut short because it was clearly slower than the baseline

    @property
    def median_ms(self) -> float:
        return statistics.median(self.runs_ms)

    @property
    def mean_ms(self) -> float:
        return statistics.fmean(self.runs_ms)

    @property
    def best_ms(self) -> float:
        return min(self.runs_ms)

    @property
    def spread(self) -> float:
        """Interquartile range over the median: 0.05 means that half of the runs lie within 5 %."""
        if len(self.runs_ms) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.runs_ms, n=4)
        return (high - low) / self.median_ms if self.median_ms else 0.0

    def quantile(self, q: float) -> float:
        """The time below which a share `q` of the runs lies."""
        ordered = sorted(self.runs_ms)
        place = q * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    def __str__(self) -> str:
        unit, scale = ("us", 1e3) if self.median_ms < 1 else ("ms", 1.0)
        best = f"best {self.best_ms * scale:.4g} {unit}"
        return f"{self.median_ms * scale:.4g} {unit} (median of {len(self.runs_ms)}, {best}, spread {self.spread:.0%}; measured)"


def measure(
    function: Callable[[], Any],
    *,
    warmup_ms: float = 25.0,
    rep_ms: float = 100.0,
    warmup_runs: int = 0,
    runs: int = 0,
    baseline_ms: float | None = None,
    stop_factor: float = 1.2,
    clock: Clock | None = None,
) -> Timing:
    """Time `function`: warm up for `warmup_ms`, then run for `rep_ms` (or exactly `warmup_runs` and `runs` calls).

    `clock` is another device's, for work that goes on when the call is over.

    With `baseline_ms`, stop after three runs that are all slower than `stop_factor` times it.
    """
    nanoseconds = clock or host_clock
    first_ns = nanoseconds(function, 1)
    estimate_ns = first_ns if first_ns > 50e6 else min(first_ns, nanoseconds(function, 1), nanoseconds(function, 1))
    estimate_ns = max(estimate_ns, 50)
    for _ in range(warmup_runs or int(warmup_ms * 1e6 / estimate_ns)):
        function()
    batch = 1 if runs else max(1, getattr(clock, "short_ns", SHORT_NS) // estimate_ns)
    count = runs or min(10_000, max(3, int(rep_ms * 1e6 / (estimate_ns * batch))))
    times: list[float] = []
    for _ in range(count):
        times.append(nanoseconds(function, batch) / batch / 1e6)
        if baseline_ms is not None and len(times) == 3 and min(times) > stop_factor * baseline_ms:
            return Timing(tuple(times), batch, was_stopped=True)
    return Timing(tuple(times), batch)


def host_clock(function: Callable[[], Any], calls: int) -> int:
    """Nanoseconds for `calls` calls, by the host's clock."""
    start = time.perf_counter_ns()
    for _ in range(calls):
        function()
    return time.perf_counter_ns() - start


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    backend: str = "event",
    return_mode: str = "mean",
    device: Any = None,
    cache_size: int = 256,
    early_stop_baseline: float | None = None,
    early_stop_factor: float = 1.2,
    trim: bool = False,
    clock: Clock | None = None,
) -> float | list[float]:
    """Milliseconds that `fn()` takes. TileLang's signature; `fast_flush`, `backend`, `device` and `cache_size` speak of GPUs and change nothing.

    Args:
        warmup, rep: how long to warm up and to measure, in milliseconds; `_n_warmup` and `_n_repeat` count runs instead.
        quantiles: return these quantiles (a list, or the one) instead.
        return_mode: "mean", "median", "min" or "max".
        clock: of the device that the work runs on, for calls that do not wait for it.
    """
    del fast_flush, backend, device, cache_size, trim
    timing = measure(
        fn, warmup_ms=warmup, rep_ms=rep, warmup_runs=_n_warmup, runs=_n_repeat, baseline_ms=early_stop_baseline, stop_factor=early_stop_factor,
        clock=clock,
    )  # fmt: skip
    if quantiles is not None:
        found = [timing.quantile(q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    modes: dict[str, Callable[[Sequence[float]], float]] = {"mean": statistics.fmean, "median": statistics.median, "min": min, "max": max}
    if return_mode not in modes:
        raise ValueError(f"return_mode must be one of {', '.join(modes)}, got {return_mode!r}")
    return modes[return_mode](timing.runs_ms)

"""The run as a table: every problem with our rate, the best peer's, their ratio by both methods and our share of the roof, the worst last."""

from __future__ import annotations

import json
import math
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...base.errors import UnsupportedError
from .helper import Helper
from .problems import FIRST, PROBLEMS, chosen
from .result import FAILED, GOOD, Result

NOTES = (
    "medians of GPU time. alt: the best peer's time over ours, single launches in turns on a hot chip; seg: the same for runs of 150 ms in turns",
    "copy: our bytes a second over those of a copy in the same turns, which is what the floor of row and elementwise kernels is about",
)


@dataclass(frozen=True, slots=True)
class Found:
    """All results of one run; `about`: the GPU, the libraries, the date."""

    results: tuple[Result, ...]
    about: dict[str, Any]

    @property
    def is_within(self) -> bool:
        """Whether every ratio reaches its floor."""
        return all(r.reached >= 1 for r in self.results)

    def as_json(self) -> dict[str, Any]:
        """Every record, and where they come from."""
        return {"about": self.about, "results": [r.as_json() for r in self.results]}

    def table(self) -> str:
        """One line a problem, sorted by how near it is to its floor, the worst last; then what failed and why, and the mean of each group."""
        names = f"{'problem':<40} {'ours':>10} {'us':>9} {'best peer':>22} {'alt':>6} {'seg':>6} {'copy':>6} {'floor':>6} {'roof':>5}"
        head = f"{names}  {'schedule':<24} {'regs':>4} {'spilt':>5} {'ms':>6} {'error':>8}"
        ran = sorted((r for r in self.results if r.status == GOOD), key=lambda r: r.reached, reverse=True)
        rest = [r for r in self.results if r.status != GOOD]
        lines = [
            head,
            "-" * len(head),
            *map(line, ran),
            *(f"{r.problem.name:<40} {r.status}: {r.why} ({r.schedule or 'not compiled'})" for r in rest),
        ]
        return "\n".join([*lines, *self._means(), *self._copies(), ", ".join(f"{k} {v}" for k, v in self.about.items()), *NOTES])

    def _copies(self) -> list[str]:
        """How fast PyTorch copies on this GPU, as far as it was measured."""
        rates = [r.copy_rate for r in self.results if r.copy_rate]
        return [f"a copy moved {min(rates):.0f} to {max(rates):.0f} GB/s, read and written"] if rates else []

    def _means(self) -> list[str]:
        """The geometric mean and the least of each group's ratios."""
        lines = []
        for group in dict.fromkeys(r.problem.group for r in self.results):
            all_of = [r for r in self.results if r.problem.group == group]
            ratios = [r.judged for r in all_of if r.status == GOOD and r.judged]
            if ratios:
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                lines.append(f"{group:<20} mean {mean:.3f}, least {min(ratios):.3f}, {len(ratios)} of {len(all_of)} ran")
        return lines


def line(r: Result) -> str:
    """The line of a result that was timed."""
    p = r.problem
    peer = f"{_rate(r, r.peer_us)} {r.peer}" if r.peer_us else "none"
    mark = "" if r.reached >= 1 else "  below"
    ratios = f"{_two(r.alt):>6} {_two(r.seg):>6} {_two(r.copy_alt):>6} {p.floor:>6.2f} {_percent(r.of_roof):>5}"
    facts = f"{r.schedule:<24} {_whole(r.registers):>4} {_whole(r.spilt_bytes):>5} {_whole(r.compile_ms):>6} {r.error or 0:8.1e}"
    return f"{p.name:<40} {_rate(r, r.us):>10} {r.us or 0:>9.1f} {peer:>22} {ratios}  {facts}{mark}"


def _rate(r: Result, microseconds: float | None) -> str:
    rate = r.rate(microseconds)
    return "-" if rate is None else f"{rate:.0f} {r.unit}"


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def run(only: Sequence[str] = (), file: str | None = None, helper: Helper | None = None) -> Found:
    """Play the problems of the groups `only` (default: all); each is told on stderr and kept in `file` as soon as it is known.

    For the group "first" the floors are those of a first version.

    Raises: ValueError for an unknown group; UnsupportedError where there is no GPU, or no PyTorch that sees it.
    """
    numbers = chosen(list(only))
    helper = helper or Helper()
    results: list[Result] = []
    start = time.time()
    found = Found((), {})
    try:
        for number in numbers:
            try:
                results.append(helper.play(number))
            except UnsupportedError as error:
                if not results:
                    raise
                results.append(Result(PROBLEMS[number], FAILED, str(error)))  # the GPU was there, and is lost
            if FIRST in only:
                results[-1] = replace(results[-1], problem=replace(PROBLEMS[number], floor=PROBLEMS[number].first))
            told = line(results[-1]) if results[-1].status == GOOD else f"{PROBLEMS[number].name:<40} {results[-1].status}: {results[-1].why}"
            print(told, file=sys.stderr, flush=True)
            took = {"python": platform.python_version(), "date": time.strftime("%Y-%m-%d %H:%M"), "seconds": round(time.time() - start)}
            found = Found(tuple(results), {**helper.about, **took})
            if file:
                Path(file).write_text(json.dumps(found.as_json(), indent=1) + "\n")
    finally:
        helper.close()
    return found

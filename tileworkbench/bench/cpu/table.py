"""The run as a table: every problem with our rate, the best peer's, their ratio and our share of the roof, the worst last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...base.machine import Machine
from ...model.values import show
from ...runtime.measure import measure
from .match import Contestant, installed, play
from .problems import GROUPS, PROBLEMS
from .result import Result
from .roof import roof_of

NOISE = 0.05  # a dip below the floor that one run may show if another holds


@dataclass(frozen=True, slots=True)
class Found:
    """All results of one run on one machine."""

    results: tuple[Result, ...]
    machine: Machine

    @property
    def is_within(self) -> bool:
        """Whether every ratio reaches its floor."""
        return all(r.reached >= 1 for r in self.results)

    def as_json(self) -> dict[str, Any]:
        """Every record, and the machine."""
        return {"machine": self.machine.name, "results": [r.as_json() for r in self.results]}

    def table(self) -> str:
        """One line a problem; sorted by how near it is to its floor, the worst last."""
        names = f"{'problem':<36} {'thr':>3} {'ours':>13} {'best peer':>21} {'ratio':>6} {'copy':>5} {'floor':>6}"
        head = f"{names} {'of the roof':>13}  {'schedule':<12} differs"
        lines = [head, "-" * len(head)]
        for r in sorted(self.results, key=lambda r: r.reached, reverse=True):
            lines.append(_line(r))
            lines += [f"    {name}: {why}" for name, why in r.errors.items()]
        versions = sorted({v.partition(" (")[0] for r in self.results for v in r.versions.values()} - {"copy"})
        return "\n".join([*lines, *self._speed(), f"on {self.machine.name}; {'; '.join(versions)}", *NOTES])

    def _speed(self) -> list[str]:
        """What the register probe saw over the whole run."""
        clocks = [c for r in self.results for c in r.clocks.values() if c]
        if not clocks:
            return []
        low, high = (show(c, "FLOP/s") for c in (min(clocks), max(clocks)))
        return [f"register probe between the samples: {low} to {high} on one core"]


NOTES = (
    "medians of clean samples, in turns; * disturbed: processor time, or the fastest sample of several threads; ~ clocks differ by more than 3 %",
    "ratio: to the best peer; copy: bytes a second beside those of a copy, which is what the floor of that group is about",
)


def _line(r: Result) -> str:
    p = r.problem
    ours = rate(r, "ours") if "ours" in r.seconds else "failed" if "ours" in r.errors else "disturbed"
    ours += ("" if all(r.clean.values()) else " *") + ("" if r.is_same_clock else " ~")
    peer = f"{rate(r, r.best_peer)} {r.best_peer}" if r.best_peer else "none"
    roof = f"{100 * r.of_roof:.0f} % {r.roof.bound:<7}" if r.of_roof and r.roof else "-"
    mark = "" if r.reached >= 1 else "  below" if r.reached < 1 - NOISE else "  near"
    numbers = f"{_two(r.ratio):>6} {_two(r.of_copy):>5} {p.floor:>6.2f} {roof:>13}"
    return f"{p.name:<36} {p.threads:>3} {ours:>13} {peer:>21} {numbers}  {r.schedule:<12} {r.difference:7.0e}{mark}"


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def rate(r: Result, name: str) -> str:
    """FLOP/s, or bytes a second where bytes are what counts."""
    p = r.problem
    return show(p.bytes / r.seconds[name], "B/s") if p.is_counted_in_bytes else show(p.flops / r.seconds[name], "FLOP/s")


def run(only: Sequence[str] = (), threads: Sequence[int] = (1, 2), rounds: int = 15) -> Found:
    """Play the problems of the groups `only` (default: all) that ask for a number of threads in `threads`. Raises ValueError for an unknown group."""
    if unknown := [g for g in only if g not in GROUPS]:
        raise ValueError(f"there is no group {unknown[0]!r}; the groups are {', '.join(GROUPS)}")
    machine = measure()
    results: list[Result] = []
    for count in threads:
        wanted = [i for i, p in enumerate(PROBLEMS) if p.threads == count and (not only or p.group in only)]
        if not wanted:
            continue
        contestants = [Contestant(name, count) for name in installed()]
        try:
            results += [replace(play(i, contestants, rounds), roof=roof_of(PROBLEMS[i], machine)) for i in wanted]
        finally:
            for contestant in contestants:
                contestant.__exit__(None, None, None)
    return Found(tuple(results), machine)

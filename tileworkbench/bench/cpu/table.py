"""The run as a table: every problem with our rate, the best peer's, and the ratio, the worst last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...base.machine import Machine
from ...model.values import show
from ...runtime.measure import measure
from .match import Contestant, Result, installed, play
from .problems import GROUPS, PROBLEMS

NOISE = 0.05  # a dip below the floor that one run may show if another holds


@dataclass(frozen=True, slots=True)
class Found:
    """All results of one run on one machine."""

    results: tuple[Result, ...]
    machine: Machine

    @property
    def is_within(self) -> bool:
        """Whether every ratio reaches its floor."""
        return all(reached(r) >= 1 for r in self.results)

    def as_json(self) -> dict[str, Any]:
        """Every record, and the machine."""
        return {"machine": self.machine.name, "results": [r.as_json() for r in self.results]}

    def table(self) -> str:
        """One line a problem; sorted by how near the ratio is to its floor, the worst last."""
        head = f"{'problem':<38} {'thr':>3} {'ours':>12} {'best peer':>24} {'ratio':>6} {'floor':>6}  {'schedule':<14} difference"
        lines = [head, "-" * len(head)]
        for r in sorted(self.results, key=reached, reverse=True):
            p = r.problem
            ours = rate(r, "ours") if "ours" in r.seconds else "failed" if "ours" in r.errors else "disturbed"
            ours += "" if all(r.clean.values()) else " *"
            peer = f"{rate(r, r.best_peer)} {r.versions[r.best_peer].split()[0]}" if r.best_peer else "none"
            ratio = f"{r.ratio:6.2f}" if r.ratio else "     -"
            mark = "" if reached(r) >= 1 else "  below" if reached(r) < 1 - NOISE else "  near"
            lines.append(f"{p.name:<38} {p.threads:>3} {ours:>12} {peer:>24} {ratio} {p.floor:>6.2f}  {r.schedule:<14} {r.difference:8.1e}{mark}")
            lines += [f"    {name}: {why}" for name, why in r.errors.items()]
        versions = sorted({v for r in self.results for v in r.versions.values()})
        return "\n".join([*lines, f"on {self.machine.name}; {'; '.join(versions)}; medians of clean samples, alternating; * processor time"])


def rate(r: Result, name: str) -> str:
    """FLOP/s, or bytes a second where bytes are what counts."""
    seconds = r.seconds[name]
    p = r.problem
    return show(p.bytes / seconds, "B/s") if p.bytes and not (p.flops and p.kind in ("gemm", "attention")) else show(p.flops / seconds, "FLOP/s")


def reached(r: Result) -> float:
    """The ratio over its floor; 0 where there is none."""
    return (r.ratio or 0.0) / r.problem.floor


def run(only: Sequence[str] = (), threads: Sequence[int] = (1, 2), rounds: int = 15) -> Found:
    """Play the problems of the groups `only` (default: all) that ask for a number of threads in `threads`. Raises ValueError for an unknown group."""
    if unknown := [g for g in only if g not in GROUPS]:
        raise ValueError(f"there is no group {unknown[0]!r}; the groups are {', '.join(GROUPS)}")
    results: list[Result] = []
    for count in threads:
        wanted = [i for i, p in enumerate(PROBLEMS) if p.threads == count and (not only or p.group in only)]
        if not wanted:
            continue
        contestants = [Contestant(name, count) for name in installed()]
        try:
            results += [play(i, contestants, rounds) for i in wanted]
        finally:
            for contestant in contestants:
                contestant.__exit__(None, None, None)
    return Found(tuple(results), measure())

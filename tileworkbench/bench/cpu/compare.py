"""Two runs of the bench side by side: a row holds if it holds in both, or if its one dip is small enough to be noise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .table import NOISE

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A problem in two runs: what the floor is about, over the floor (None: the run has no such row)."""

    name: str
    first: float | None
    second: float | None
    floor: float

    @property
    def verdict(self) -> str:
        """ "holds", "noise" (one run is below by less than NOISE, the other holds), "below", or "missing"."""
        if self.first is None or self.second is None:
            return "missing"
        low, high = sorted((self.first, self.second))
        return "holds" if low >= 1 else "noise" if high >= 1 and low > 1 - NOISE else "below"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rows of two runs, the worst last."""

    rows: tuple[Row, ...]

    @property
    def is_within(self) -> bool:
        """Whether every row holds, noise allowed for."""
        return all(r.verdict in ("holds", "noise") for r in self.rows)

    def as_json(self) -> dict[str, Any]:
        """The rows with their verdicts."""
        return {"rows": [{"name": r.name, "first": r.first, "second": r.second, "floor": r.floor, "verdict": r.verdict} for r in self.rows]}

    def table(self) -> str:
        """One line a row: both ratios, the floor and the verdict."""
        head = f"{'problem':<52} {'first':>6} {'second':>6} {'floor':>6}  verdict"
        lines = [head, "-" * len(head)]
        lines += [f"{r.name:<52} {_times(r.first, r.floor):>6} {_times(r.second, r.floor):>6} {r.floor:>6.2f}  {r.verdict}" for r in self.rows]
        kinds = {kind: sum(r.verdict == kind for r in self.rows) for kind in ("holds", "noise", "below", "missing")}
        return "\n".join([*lines, ", ".join(f"{n} {kind}" for kind, n in kinds.items() if n)])


def _times(reached: float | None, floor: float) -> str:
    return "-" if reached is None else f"{reached * floor:.2f}"


def compare(first: str, second: str) -> Comparison:
    """The comparison of two files that `--json` wrote. Raises ValueError for a file that is none."""
    one, other = (_records(Path(file)) for file in (first, second))
    rows = [Row(name, _reached(one.get(name)), _reached(other.get(name)), (one.get(name) or other[name])["floor"]) for name in {**one, **other}]
    return Comparison(tuple(sorted(rows, key=lambda r: min(r.first or 0.0, r.second or 0.0), reverse=True)))


def _reached(record: Record | None) -> float | None:
    return None if record is None else float(record["reached"])


def _records(file: Path) -> dict[str, Record]:
    try:
        found: Sequence[Record] = json.loads(file.read_text())["results"]
        return {_name(r): r for r in found}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} is no record of `bench cpu --json`: {error}") from None


def _name(r: Record) -> str:
    threads = f", {r['threads']} threads" if r["threads"] > 1 else ""
    return f"{r['group']} {'x'.join(map(str, r['shape']))}{' causal' if r['causal'] else ''}{threads}"

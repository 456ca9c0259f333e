"""Crumbs: the runs of a cell, numbered, each with its schedule and source kept."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..model.report import Report

MAX_LINES = 60  # of a source's differences


@dataclass(frozen=True, slots=True)
class Crumb:
    """One run: its `number` (from 1), its report, the schedule that made it, and the text of the cell."""

    number: int
    report: Report
    schedule: Mapping[str, Any]
    source: str = ""

    @staticmethod
    def of(number: int, report: Report, source: str = "") -> Crumb:
        """A crumb of a report, with the schedule that it names."""
        return Crumb(number, report, dict(report.schedule), source)

    def changes_from(self, other: Mapping[str, Any]) -> list[tuple[str, str, str]]:
        """(tunable, its value here, its value in `other`), where they differ."""
        names = dict.fromkeys((*self.schedule, *other))
        rows = [(name, _word(self.schedule, name), _word(other, name)) for name in names]
        return [row for row in rows if row[1] != row[2]]

    def source_changes(self, other: str) -> list[str]:
        """The lines in which `other` differs from this source, as a unified diff without its head; none where they are equal."""
        lines = list(difflib.unified_diff(self.source.splitlines(), other.splitlines(), lineterm="", n=1))[2:]
        return [*lines[:MAX_LINES], f"… {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else lines


@dataclass(slots=True)
class Trail:
    """The runs of one kernel, numbered from 1 as they come; the last `most` of them are kept."""

    most: int = 12
    crumbs: tuple[Crumb, ...] = ()

    def add(self, report: Report, source: str = "") -> tuple[Crumb, ...]:
        """Remember a run, and give the earlier ones on the same machine, oldest first."""
        number = self.crumbs[-1].number + 1 if self.crumbs else 1
        earlier = tuple(c for c in self.crumbs if c.report.machine == report.machine)
        self.crumbs = (*self.crumbs, Crumb.of(number, report, source))[-self.most :]
        return earlier


def numbered(runs: Iterable[Report | Crumb]) -> tuple[Crumb, ...]:
    """Runs as crumbs, oldest first; reports are numbered from 1, crumbs keep their numbers."""
    out: list[Crumb] = []
    for run in runs:
        number = out[-1].number + 1 if out else 1
        out.append(run if isinstance(run, Crumb) else Crumb.of(number, run))
    return tuple(out)


def _word(schedule: Mapping[str, Any], name: str) -> str:
    return str(schedule[name]) if name in schedule else "-"

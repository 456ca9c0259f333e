"""Past predictions beside their measurements: how far the model can be trusted, by machine and kind of kernel.

Every report that has a measured time on this machine adds a line to an SQLite file in the cache folder; launches never do.

    card = tileworkbench.scorecard()
    print(card)                                   # n, median ratio of predicted to measured, spread
    card.is_tested("gemm", machine.name)          # whether a new prediction lies where the model was tested
    card.judge(report)                            # the same in words

Nothing here raises: without a file that can be written there is no scorecard. TILEWORKBENCH_SCORECARD=0 keeps none; tests keep none unless it is 1.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ..model.kinds import KINDS, kernel_kind
from ..model.report import Report
from .measure import cpu_name
from .storage import cache_folder

SCHEMA = 1
BUSY_S = 2.0  # how long to wait for another process that is writing
MOST_ROWS = 5000  # older ones go
ENOUGH = 3  # measurements that make a kind tested
REACH = 2.0  # a prediction is within the tested range up to this factor beyond the shortest and the longest launch so far
_TABLE = """CREATE TABLE IF NOT EXISTS predictions (
  id INTEGER PRIMARY KEY, machine TEXT NOT NULL, kind TEXT NOT NULL, kernel TEXT NOT NULL, dims TEXT NOT NULL, schedule TEXT NOT NULL,
  threads INTEGER NOT NULL, predicted REAL NOT NULL, measured REAL NOT NULL, date TEXT NOT NULL)"""
_COLUMNS = "machine, kind, kernel, dims, schedule, threads, predicted, measured, date"


@dataclass(frozen=True, slots=True)
class Score:
    """One prediction and what came of it, in seconds. `dims` and `schedule` are JSON texts, `date` is UTC."""

    machine: str
    kind: str
    kernel: str
    dims: str
    schedule: str
    threads: int
    predicted: float
    measured: float
    date: str

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


@dataclass(frozen=True, slots=True)
class Group:
    """The scores of one machine and kind."""

    machine: str
    kind: str
    scores: tuple[Score, ...]

    @property
    def median(self) -> float:
        """The median ratio of predicted to measured: below 1 the model is too fast."""
        return statistics.median(s.ratio for s in self.scores)

    @property
    def spread(self) -> tuple[float, float]:
        """Ratios between which four of five lie."""
        ordered = sorted(s.ratio for s in self.scores)
        cut = len(ordered) // 10
        return ordered[cut], ordered[-1 - cut]

    @property
    def times(self) -> tuple[float, float]:
        """The shortest and the longest prediction."""
        return min(s.predicted for s in self.scores), max(s.predicted for s in self.scores)


@dataclass(frozen=True, slots=True)
class Scorecard:
    """All scores of a file. `note` says why there are none, where something is wrong."""

    scores: tuple[Score, ...] = ()
    note: str = ""

    @property
    def groups(self) -> tuple[Group, ...]:
        """One for each machine and kind, in their order."""
        found: dict[tuple[str, str], list[Score]] = {}
        for score in self.scores:
            found.setdefault((score.machine, score.kind), []).append(score)
        order = lambda key: (key[0], KINDS.index(key[1]) if key[1] in KINDS else len(KINDS))
        return tuple(Group(*key, tuple(found[key])) for key in sorted(found, key=order))

    def group(self, kind: str, machine: str) -> Group | None:
        """The scores of one kind on one machine; None if there are none."""
        return next((g for g in self.groups if (g.machine, g.kind) == (machine, kind)), None)

    def is_tested(self, kind: str, machine: str, seconds: float | None = None) -> bool:
        """Whether predictions for `kind` on `machine` were compared with measurements often enough; with `seconds`, for launches that long."""
        found = self.group(kind, machine)
        if found is None or len(found.scores) < ENOUGH:
            return False
        low, high = found.times
        return seconds is None or low / REACH <= seconds <= high * REACH

    def judge(self, report: Report) -> str:
        """One sentence on how far to trust the prediction of a report."""
        kind = kernel_kind(report.ir) if report.ir is not None else ""
        found = self.group(kind, report.machine.name)
        if found is None:
            return f"untested: no {kind or 'such'} kernel was measured on {report.machine.name} yet"
        low, high = found.spread
        count = f"{len(found.scores)} measured {kind} launches here"
        tested = f"{count}: predicted {found.median:.2f} of the time in the middle, mostly {low:.2f} to {high:.2f}"
        if len(found.scores) < ENOUGH:
            return f"hardly tested: {tested}"
        return tested if self.is_tested(kind, report.machine.name, report.predicted.value) else f"outside the tested range of times; {tested}"

    def __str__(self) -> str:
        if not self.scores:
            return self.note or "no prediction was compared with a measurement yet: report(args=...) of a kernel does that"
        lines = [f"{'machine':<40} {'kind':<12} {'n':>5} {'predicted/measured':>19} {'4 of 5 within':>14}"]
        for g in self.groups:
            low, high = g.spread
            lines.append(f"{g.machine[:40]:<40} {g.kind:<12} {len(g.scores):>5} {g.median:>19.2f} {f'{low:.2f} - {high:.2f}':>14}")
        return "\n".join(lines)


def scorecard(path: Path | None = None) -> Scorecard:
    """All scores so far, from the file in the cache folder (or `path`), oldest first."""
    place = path or _place()
    if not place.exists():
        return Scorecard()
    try:
        with _connected(place) as base:
            rows = base.execute(f"SELECT {_COLUMNS} FROM predictions ORDER BY id").fetchall()
    except (sqlite3.Error, OSError) as error:
        return Scorecard(note=f"the scorecard {place} cannot be read: {error}")
    return Scorecard(tuple(Score(*row) for row in rows))


def record(report: Report, path: Path | None = None) -> bool:
    """Add a report to the scorecard; whether it was added. Reports without a measured time or about another machine are not."""
    score = _score(report)
    if score is None or (path is None and not is_on()):
        return False
    try:
        with _connected(path or _place()) as base:
            values = (score.machine, score.kind, score.kernel, score.dims, score.schedule, score.threads, score.predicted, score.measured, score.date)
            base.execute(f"INSERT INTO predictions ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            base.execute("DELETE FROM predictions WHERE id <= (SELECT MAX(id) FROM predictions) - ?", (MOST_ROWS,))
    except (sqlite3.Error, OSError):
        return False
    return True


def is_on() -> bool:
    """Whether reports are recorded: yes, unless TILEWORKBENCH_SCORECARD says no, or a test is running and it does not say yes."""
    said = os.environ.get("TILEWORKBENCH_SCORECARD", "").strip().lower()
    return said not in ("0", "off", "no", "false") if said else "PYTEST_CURRENT_TEST" not in os.environ


def _score(report: Report) -> Score | None:
    """A report as a line; None if it has nothing to compare."""
    machine, predicted = report.machine, report.predicted.value
    if report.measured is None or report.ir is None or machine.is_gpu or machine.name != cpu_name() or predicted <= 0 or report.judged_seconds <= 0:
        return None
    schedule = json.dumps({k: str(v) for k, v in report.schedule.items()}, sort_keys=True)
    dims, now = json.dumps(dict(report.dims), sort_keys=True), datetime.now(UTC).isoformat(timespec="seconds")
    return Score(machine.name, kernel_kind(report.ir), report.kernel, dims, schedule, report.threads, predicted, report.judged_seconds, now)


def _place() -> Path:
    return cache_folder() / f"scorecard-{SCHEMA}.sqlite"


@contextlib.contextmanager
def _connected(place: Path) -> Iterator[sqlite3.Connection]:
    """The open file, its changes kept when all went well. A file that is no database, or is damaged, is put aside and begun anew."""
    base = _opened(place)
    try:
        with base:
            yield base
    finally:
        base.close()


def _opened(place: Path) -> sqlite3.Connection:
    try:
        return _prepared(place)
    except sqlite3.OperationalError:
        raise  # locked or read-only: nothing is wrong with the file
    except sqlite3.DatabaseError:
        with contextlib.suppress(FileNotFoundError):
            os.replace(place, place.with_suffix(".damaged"))
        return _prepared(place)


def _prepared(place: Path) -> sqlite3.Connection:
    base = sqlite3.connect(place, timeout=BUSY_S)
    try:
        found: Sequence[tuple[str]] = base.execute("PRAGMA quick_check(1)").fetchall()
        if [row[0] for row in found] != ["ok"]:
            raise sqlite3.DatabaseError("the file is damaged")
        base.execute(_TABLE)
        base.execute(f"SELECT {_COLUMNS} FROM predictions LIMIT 1")
    except sqlite3.OperationalError as error:
        base.close()
        if "no such column" in str(error):
            raise sqlite3.DatabaseError("the file has another form") from error
        raise
    except sqlite3.Error:
        base.close()
        raise
    return base

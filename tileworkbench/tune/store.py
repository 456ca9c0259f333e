"""What searches found, in an SQLite file that later sessions and the sliders read.

A row is one schedule of one program on one machine and target: its status, times, the model's prediction, the reason of a failure, when, and by which
version. A row is written when its candidate has finished, so a search that is killed keeps everything up to then. Many processes may write at once.

    store = Store()                                  # tuning.sqlite in the cache folder
    print(store.results(program=problem.program))    # a table
    store.best(problem.program)                      # the fastest candidate, or None
    store.export_json("results.json")
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar, get_args

from filelock import FileLock, Timeout

from ..base.errors import TileError
from ..runtime.notices import notice_once
from ..runtime.storage import cache_folder, temporary_folder
from .candidate import Candidate, Status, best_of
from .schedule import Schedule
from .table import table

SCHEMA = 1
BUSY_S = 30.0
T = TypeVar("T")

_TABLE = """
CREATE TABLE IF NOT EXISTS results (
  program TEXT NOT NULL, machine TEXT NOT NULL, target TEXT NOT NULL, schedule TEXT NOT NULL,
  kernel TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL, times_ms TEXT NOT NULL, predicted_ms REAL, bound TEXT NOT NULL,
  code TEXT NOT NULL, checked_by TEXT NOT NULL, version TEXT NOT NULL, date TEXT NOT NULL,
  PRIMARY KEY (program, machine, target, schedule)
) WITHOUT ROWID
"""
_COLUMNS = "program, machine, target, schedule, kernel, status, reason, times_ms, predicted_ms, bound, code, checked_by, version, date"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a result belongs: `program` (see `Problem.program`) with the kernel's name, the machine that ran it, the target."""

    program: str
    kernel: str
    machine: str
    target: str


@dataclass(frozen=True, slots=True)
class Row:
    """One stored result. `version` is the package's."""

    place: Place
    candidate: Candidate
    version: str


@dataclass(frozen=True, slots=True)
class Results:
    """Rows of the store as a value: a sequence that prints as a table and exports as JSON."""

    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return tuple(r.candidate for r in self.rows)

    def __str__(self) -> str:
        if not self.rows:
            return "no results"
        ordered = sorted(self.rows, key=lambda r: (r.place.kernel, r.place.program, r.candidate.judged_ms or float("inf")))
        lines = [(r.place.kernel, str(r.candidate.schedule), _said(r.candidate), r.place.target, r.candidate.date[:10]) for r in ordered]
        return table(("kernel", "schedule", "time", "target", "date"), lines)

    def to_json(self) -> str:
        """A list of objects: everything that is stored."""
        return json.dumps([_as_json(r) for r in self.rows], indent=1)


class Store:
    """The file of results. A connection lives for one operation, so a store may be used by any thread and survives a fork.

    A file that is damaged is set aside (with one line said), and a new one begun; one of a newer version is left alone, and results of this process
    are kept in a temporary file.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path) if path is not None else cache_folder() / "tuning.sqlite"

    # ------------------------------------------------------------------ writing
    def put(self, place: Place, candidate: Candidate) -> None:
        """Keep a finished candidate, in place of an older result of the same schedule. Never raises: a result that cannot be kept is told once."""
        values = (
            place.program, place.machine, place.target, candidate.schedule.key, place.kernel, candidate.status, candidate.reason,
            json.dumps(candidate.times_ms), candidate.predicted_ms, candidate.bound, candidate.code, candidate.checked_by, package_version(),
            candidate.date or now(),
        )  # fmt: skip
        marks = ", ".join("?" * len(values))
        try:
            self._do(lambda db: db.execute(f"INSERT OR REPLACE INTO results ({_COLUMNS}) VALUES ({marks})", values))
        except (sqlite3.Error, OSError) as error:
            notice_once(f"cannot write the tuning results to {self.path} ({error}); they last as long as this process")

    def forget(self, program: str | None = None) -> int:
        """Delete the results of a program, or all; returns how many there were."""
        where, values = _where(program=program)
        return int(self._do(lambda db: db.execute(f"DELETE FROM results{where}", values).rowcount))

    # ------------------------------------------------------------------ reading
    def find(self, place: Place, schedule: Schedule, code: str) -> Candidate | None:
        """The result of exactly this code at `place`, or None."""
        found = self._rows(program=place.program, machine=place.machine, target=place.target, schedule=schedule.key, code=code)
        return found[0].candidate if found else None

    def results(self, program: str | None = None, *, kernel: str | None = None, machine: str | None = None, target: str | None = None) -> Results:
        """The stored results, of all programs or of those that match."""
        return Results(tuple(self._rows(program=program, kernel=kernel, machine=machine, target=target)))

    def best(self, program: str, *, machine: str | None = None, target: str | None = None) -> Candidate | None:
        """The fastest stored candidate of a program, or None."""
        return best_of(self.results(program, machine=machine, target=target).candidates)

    def export_json(self, path: str | os.PathLike[str]) -> Path:
        """Write every result to a JSON file; returns its path."""
        place = Path(path)
        place.write_text(self.results().to_json() + "\n", encoding="utf-8")
        return place

    def _rows(self, **wanted: str | None) -> list[Row]:
        where, values = _where(**wanted)
        try:
            found = self._do(lambda db: db.execute(f"SELECT {_COLUMNS} FROM results{where} ORDER BY date", values).fetchall())
        except (sqlite3.Error, OSError) as error:
            notice_once(f"cannot read the tuning results in {self.path} ({error})")
            return []
        return [row for values in found if (row := _row(values)) is not None]

    # ------------------------------------------------------------------ the file
    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction; once more on a new file if this one is damaged."""
        try:
            return self._once(work)
        except sqlite3.DatabaseError as error:
            if isinstance(error, (sqlite3.OperationalError, sqlite3.IntegrityError, sqlite3.ProgrammingError)):
                raise
            self._set_aside(str(error))
            return self._once(work)

    def _once(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = not self.path.exists()
        db = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        try:
            if is_new:
                os.chmod(self.path, 0o600)
            schema = _schema(db)
            if schema > SCHEMA:
                newer, self.path = self.path, temporary_folder() / "tuning.sqlite"
                notice_once(f"{newer} was written by a newer version; tuning results last as long as this process")
                return self._once(work)
            with contextlib.suppress(sqlite3.OperationalError):  # a file system without shared memory keeps the plain journal
                db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute("BEGIN IMMEDIATE" if schema < SCHEMA else "BEGIN")
            if schema < SCHEMA:
                db.execute(_TABLE)
                db.execute(f"PRAGMA user_version={SCHEMA}")
            result = work(db)
            db.execute("COMMIT")
            return result
        finally:
            db.close()  # an unfinished transaction is rolled back

    def _set_aside(self, why: str) -> None:
        """Move a damaged file away, unless another process has just done so."""
        with contextlib.suppress(OSError, NotImplementedError, Timeout), FileLock(f"{self.path}.lock", timeout=BUSY_S):
            if not self._is_sound():
                aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
                os.replace(self.path, aside)
                for suffix in ("-wal", "-shm"):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
                notice_once(f"the tuning results were damaged ({why}); they are set aside as {aside}")

    def _is_sound(self) -> bool:
        try:
            return bool(self._once(lambda db: db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"))
        except sqlite3.DatabaseError:
            return False


@cache
def package_version() -> str:
    """The version of this package; "source" where it was never installed."""
    try:
        return version("tileworkbench")
    except PackageNotFoundError:
        return "source"


def now() -> str:
    """The time, in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _schema(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _where(**wanted: str | None) -> tuple[str, tuple[str, ...]]:
    given = {name: value for name, value in wanted.items() if value is not None}
    return (f" WHERE {' AND '.join(f'{name} = ?' for name in given)}" if given else ""), tuple(given.values())


def _row(values: Sequence[Any]) -> Row | None:
    """A row of the table, or None for one that this version cannot read."""
    program, machine, target, schedule, kernel, status, reason, times, predicted, bound, code, checked_by, by_version, date = values
    try:
        if status not in get_args(Status):
            return None
        candidate = Candidate(
            Schedule.from_json(schedule), status, reason, tuple(map(float, json.loads(times))), predicted, bound, code, checked_by, True, date
        )
    except (TileError, ValueError, TypeError):
        return None
    return Row(Place(program, kernel, machine, target), candidate, by_version)


def _said(candidate: Candidate) -> str:
    return str(candidate.measured) if candidate.measured is not None else f"{candidate.status}: {candidate.first_line}"


def _as_json(row: Row) -> dict[str, Any]:
    c, p = row.candidate, row.place
    return {
        "program": p.program, "kernel": p.kernel, "machine": p.machine, "target": p.target, "schedule": json.loads(c.schedule.key),
        "status": c.status, "reason": c.reason, "times_ms": list(c.times_ms), "median_ms": c.median_ms, "predicted_ms": c.predicted_ms,
        "bound": c.bound, "code": c.code, "checked_by": c.checked_by, "version": row.version, "date": c.date,
    }  # fmt: skip

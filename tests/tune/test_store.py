"""The store of results: many processes, damaged and foreign files, and what it says."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tileworkbench.runtime import notices
from tileworkbench.tune.candidate import Candidate
from tileworkbench.tune.schedule import Schedule
from tileworkbench.tune.store import SCHEMA, Place, Results, Store, package_version

PLACE = Place("program", "matmul", "this machine", "c")
ROOT = Path(__file__).resolve().parents[2]


def ran(n: int, *times: float, code: str = "text") -> Candidate:
    return Candidate(Schedule(n=n), "ran", times_ms=times or (float(n),), code=code, checked_by="a reference")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "private" / "tuning.sqlite")


def test_keeps_everything(store: Store) -> None:
    candidate = Candidate(Schedule(n=1, policy="x"), "ran", "", (1.5, 1.25), 1.0, "DRAM", "text", "a reference", date="2026-01-02T03:04:05+00:00")
    store.put(PLACE, candidate)
    (row,) = Store(store.path).results()
    assert (row.place, row.version) == (PLACE, package_version())
    assert row.candidate.is_reused
    assert {f: getattr(row.candidate, f) for f in Candidate.__slots__ if f != "is_reused"} == {
        f: getattr(candidate, f) for f in Candidate.__slots__ if f != "is_reused"
    }


def test_a_newer_result_replaces_an_older_one(store: Store) -> None:
    store.put(PLACE, ran(1, 5.0))
    store.put(PLACE, ran(1, 4.0))
    store.put(Place("program", "matmul", "this machine", "interpret"), ran(1, 9.0))
    assert sorted(c.times_ms[0] for c in store.results("program").candidates) == [4.0, 9.0]


def test_finds_the_same_code_only(store: Store) -> None:
    store.put(PLACE, ran(1))
    assert store.find(PLACE, Schedule(n=1), "text") is not None
    assert store.find(PLACE, Schedule(n=1), "another text") is None
    assert store.find(PLACE, Schedule(n=2), "text") is None
    assert store.find(Place("program", "matmul", "another machine", "c"), Schedule(n=1), "text") is None


def test_the_best(store: Store) -> None:
    assert store.best("program") is None
    for candidate in (ran(3), ran(2), Candidate(Schedule(n=0), "crashed", "crashed with signal 11")):
        store.put(PLACE, candidate)
    best = store.best("program", machine="this machine", target="c")
    assert best is not None
    assert best.schedule == {"n": 2}
    assert store.best("program", target="interpret") is None
    assert store.best("another program") is None
    assert store.forget("program") == 3
    assert len(store.results()) == 0


def test_prints_and_exports(store: Store, tmp_path: Path) -> None:
    assert str(Results(())) == "no results"
    store.put(PLACE, ran(2))
    store.put(PLACE, Candidate(Schedule(n=0), "timed out", "killed after 10 s", date="2026-01-02T00:00:00+00:00"))
    lines = str(store.results()).splitlines()
    assert lines[0].split() == ["kernel", "schedule", "time", "target", "date"]
    assert lines[1].startswith("matmul  n=2       2 ms")
    assert lines[2].startswith("matmul  n=0       timed out: killed after 10 s  c       2026-01-02")
    found = json.loads(store.export_json(tmp_path / "all.json").read_text())
    assert [(r["schedule"], r["status"], r["times_ms"]) for r in found] == [({"n": 0}, "timed out", []), ({"n": 2}, "ran", [2.0])]


def test_the_file_is_private(store: Store) -> None:
    store.put(PLACE, ran(1))
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


WRITER = """
import sys
from pathlib import Path
from tileworkbench.tune.candidate import Candidate
from tileworkbench.tune.schedule import Schedule
from tileworkbench.tune.store import Place, Store
store = Store(Path(sys.argv[1]))
for i in range(25):
    store.put(Place("program", "matmul", "this machine", "c"), Candidate(Schedule(n=i, writer=sys.argv[2]), "ran", times_ms=(1.0,)))
"""


def test_two_processes_write_at_once(store: Store) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(store.path), name], stderr=subprocess.PIPE, env=env) for name in "ab"]
    for writer in writers:
        assert writer.communicate(timeout=120)[1] == b""
        assert writer.returncode == 0
    assert len(store.results("program")) == 50


@pytest.mark.parametrize("how", ["text", "page", "empty"])
def test_a_damaged_file_is_set_aside(store: Store, how: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_said", set())
    for i in range(50):
        store.put(PLACE, Candidate(Schedule(n=i), "raised", "why" * 100))
    whole = store.path.read_bytes()
    damaged = {"text": b"this is no database", "page": whole[:4096] + b"\xff" * 4096 + whole[8192:], "empty": b""}[how]
    store.path.write_bytes(damaged)
    with caplog.at_level(logging.WARNING, "tileworkbench"):
        assert len(store.results()) == 0
        store.put(PLACE, ran(1))
    assert len(store.results()) == 1
    aside = list(store.path.parent.glob("tuning.sqlite.damaged-*"))
    if how == "empty":  # what a crash before the first write leaves: nothing is lost
        assert not aside
        return
    assert [p.read_bytes() for p in aside] == [damaged]
    (said,) = [r.getMessage() for r in caplog.records]
    assert said.startswith("tileworkbench: the tuning results were damaged (")
    assert said.endswith(f"they are set aside as {aside[0]}")


def test_a_newer_file_is_left_alone(store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(notices, "_said", set())
    store.put(PLACE, ran(1))
    path = store.path
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={SCHEMA + 1}")
    db.close()
    before = path.read_bytes()
    with caplog.at_level(logging.WARNING, "tileworkbench"):
        store.forget()
        store.put(PLACE, ran(2))
    assert [c.schedule for c in store.results().candidates] == [{"n": 2}]
    assert "was written by a newer version; tuning results last as long as this process" in caplog.text
    assert path.read_bytes() == before


def test_what_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_said", set())
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "tuning.sqlite")
    with caplog.at_level(logging.WARNING, "tileworkbench"):
        store.put(PLACE, ran(1))
        store.put(PLACE, ran(2))
        assert len(store.results()) == 0
    assert [r.getMessage().split("(")[0] for r in caplog.records] == [
        f"tileworkbench: cannot write the tuning results to {store.path} ", f"tileworkbench: cannot read the tuning results in {store.path} "
    ]  # fmt: skip


def test_a_row_of_another_version_is_left_out(store: Store) -> None:
    store.put(PLACE, ran(1))
    store.put(PLACE, ran(2))
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE results SET schedule = '{\"n\": {\"later\": 1}}' WHERE schedule LIKE '%1%'")
    db.close()
    assert [c.schedule for c in store.results().candidates] == [{"n": 2}]

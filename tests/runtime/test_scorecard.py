"""The scorecard: what is kept, what it says, and what happens to a file that is shared or damaged."""

from __future__ import annotations

import multiprocessing
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.machine import REFERENCE_CPU, find_machine
from tileworkbench.ir.stmt import Kernel
from tileworkbench.kernels import attention, gemm, softmax
from tileworkbench.model.kinds import kernel_kind
from tileworkbench.model.report import Report, report
from tileworkbench.runtime import scorecard as cards
from tileworkbench.runtime.scorecard import Score, Scorecard, record, scorecard

# mypy: disable-error-code="valid-type"
F32 = "float32"
HERE = "a CPU"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "cpu_name", lambda: HERE)


def program() -> Kernel:
    return gemm.program(64, 64, 64, 32, 32, 32, 2, F32, F32, True).kernel


def measured(seconds: float = 1e-3, machine: str = HERE) -> Report:
    return report(program(), replace(REFERENCE_CPU, name=machine), {}, seconds=[seconds] * 5, schedule={"block_m": 32})


def score(kind: str, predicted: float, seconds: float, machine: str = HERE) -> Score:
    return Score(machine, kind, "k", "{}", "{}", 1, predicted, seconds, "2026-11-30T00:00:00+00:00")


# ------------------------------------------------------------------------------------------- kinds
def test_kinds_come_from_what_a_kernel_does() -> None:
    @T.prim_func
    def plain(X: T.Tensor((64,), F32), Y: T.Tensor((64,), F32)):  # type: ignore[no-untyped-def]
        with T.Kernel(1):
            x = T.alloc_shared((64,), F32)
            T.copy(X, x)
            T.copy(x, Y)

    @T.prim_func
    def doubled(X: T.Tensor((64,), F32), Y: T.Tensor((64,), F32)):  # type: ignore[no-untyped-def]
        with T.Kernel(1):
            for i in T.Parallel(64):
                Y[i] = X[i] * 2.0

    @T.prim_func
    def chained(A: T.Tensor((32, 32), F32), B: T.Tensor((32, 32), F32), C: T.Tensor((32, 32), F32)):  # type: ignore[no-untyped-def]
        with T.Kernel(1):
            a = T.alloc_shared((32, 32), F32)
            b = T.alloc_shared((32, 32), F32)
            first = T.alloc_fragment((32, 32), F32)
            second = T.alloc_fragment((32, 32), F32)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, first, clear_accum=True)
            T.copy(first, a)
            T.gemm(a, b, second, clear_accum=True)
            T.copy(second, C)

    kinds = {
        "gemm": program(),
        "attention": attention.program(1, 1, 64, 32, True, 32, 32, "float16").kernel,
        "row": softmax.program(16, 64, 4, F32).kernel,
        "copy": plain.kernel,
        "elementwise": doubled.kernel,
        "chain": chained.kernel,
    }
    assert {kind: kernel_kind(kernel) for kind, kernel in kinds.items()} == {kind: kind for kind in kinds}


# ------------------------------------------------------------------------------------------- keeping
def test_a_measured_report_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "card.sqlite"
    made = measured(2e-3)
    assert record(made, place)
    (kept,) = scorecard(place).scores
    assert (kept.machine, kept.kind, kept.kernel, kept.schedule, kept.threads) == (HERE, "gemm", "gemm", '{"block_m": "32"}', 1)
    assert kept.predicted == pytest.approx(made.predicted.value) and kept.measured == 2e-3
    assert kept.ratio == pytest.approx(made.predicted.value / 2e-3)


def test_what_says_nothing_is_not_kept(tmp_path: Path) -> None:
    place = tmp_path / "card.sqlite"
    assert not record(report(program(), replace(REFERENCE_CPU, name=HERE), {}), place), "nothing was measured"
    assert not record(measured(machine="another CPU"), place), "a prediction for a machine that did not run it"
    assert not record(replace(measured(), machine=find_machine("h200")), place)
    assert not place.exists()


def test_only_the_newest_lines_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "MOST_ROWS", 3)
    for n in range(1, 6):
        record(measured(n * 1e-3), tmp_path / "card.sqlite")
    assert [round(s.measured * 1e3) for s in scorecard(tmp_path / "card.sqlite").scores] == [3, 4, 5]


def test_tests_and_users_can_keep_none(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not record(measured()), "a test keeps none"
    monkeypatch.setenv("TILEWORKBENCH_SCORECARD", "1")
    assert record(measured()) and len(tileworkbench.scorecard().scores) == 1
    monkeypatch.setenv("TILEWORKBENCH_SCORECARD", "0")
    assert not record(measured())


def test_a_report_of_a_kernel_records_itself(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWORKBENCH_SCORECARD", "1")
    kernel = gemm.gemm(64, 64, 64)
    if not kernel.executable.source:
        pytest.skip("no C compiler on this machine")
    x = np.ones((64, 64), np.float32)
    machine = replace(REFERENCE_CPU, name=HERE)
    kernel(x, x)
    assert not scorecard().scores, "a launch writes nothing"
    kernel.report(machine, args=(x, x))
    assert [s.kind for s in scorecard().scores] == ["gemm"]


# ------------------------------------------------------------------------------------------- saying
def test_the_table() -> None:
    card = Scorecard((score("row", 1.0, 2.0), *(score("gemm", 1.0 + n / 10, 1.0) for n in range(5)), score("gemm", 1, 1, "another CPU")))
    assert str(card).splitlines() == [
        "machine                                  kind             n  predicted/measured  4 of 5 within",
        "a CPU                                    gemm             5                1.20    1.00 - 1.40",
        "a CPU                                    row              1                0.50    0.50 - 0.50",
        "another CPU                              gemm             1                1.00    1.00 - 1.00",
    ]
    assert "no prediction was compared" in str(Scorecard())


def test_tested_means_often_enough_and_of_that_length() -> None:
    card = Scorecard((*(score("gemm", t, 1.0) for t in (1e-3, 2e-3, 4e-3)), score("row", 1, 1)))
    assert card.is_tested("gemm", HERE) and not card.is_tested("row", HERE) and not card.is_tested("gemm", "another CPU")
    assert card.is_tested("gemm", HERE, 7e-3) and not card.is_tested("gemm", HERE, 9e-3) and not card.is_tested("gemm", HERE, 4e-4)


def test_a_report_is_judged_in_a_sentence() -> None:
    made = measured()
    t = made.predicted.value
    assert Scorecard().judge(made) == "untested: no gemm kernel was measured on a CPU yet"
    assert Scorecard((score("gemm", t, t),)).judge(made).startswith("hardly tested: 1 measured gemm launches here")
    tested = Scorecard(tuple(score("gemm", t, t / r) for r in (0.9, 1.0, 1.1))).judge(made)
    assert tested == "3 measured gemm launches here: predicted 1.00 of the time in the middle, mostly 0.90 to 1.10"
    assert Scorecard(tuple(score("gemm", 9 * t, t) for _ in range(3))).judge(made).startswith("outside the tested range of times; ")


# ------------------------------------------------------------------------------------------- files
@pytest.mark.parametrize("damage", ["no database", "cut", "another form"])
def test_a_damaged_file_is_begun_anew(damage: str, tmp_path: Path) -> None:
    place = tmp_path / "card.sqlite"
    for n in range(300):
        record(measured(1e-3 * (n + 1)), place) if damage == "cut" and n < 60 else None
    if damage == "no database":
        place.write_text("not a database, but long enough to be read as one\n" * 20)
    elif damage == "cut":
        data = place.read_bytes()
        place.write_bytes(data[:4096] + bytes(len(data) - 4096))
    else:
        base = sqlite3.connect(place)
        base.execute("CREATE TABLE predictions (id INTEGER PRIMARY KEY, other TEXT)")
        base.commit()
        base.close()
    assert record(measured(), place)
    assert len(scorecard(place).scores) == 1
    assert place.with_suffix(".damaged").exists()


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    assert not record(measured(), tmp_path / "nowhere" / "card.sqlite")
    (tmp_path / "folder.sqlite").mkdir()
    assert "cannot be read" in str(scorecard(tmp_path / "folder.sqlite"))


def _write(place: Path, count: int) -> None:
    cards.cpu_name = lambda: HERE
    for n in range(count):
        assert record(measured(1e-3 * (n + 1)), place)


def test_many_processes_write_at_once(tmp_path: Path) -> None:
    place = tmp_path / "card.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(place, 5)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [w.exitcode for w in workers] == [0, 0, 0]
    assert len(scorecard(place).scores) == 15

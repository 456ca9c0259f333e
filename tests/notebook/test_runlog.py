"""The run log: its numbers, its best, and what it says of a surprise."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benches import bench

from tileworkbench.model.report import Report
from tileworkbench.model.values import Measured
from tileworkbench.notebook.reference import Comparison
from tileworkbench.notebook.runlog import Run, RunLog, reasons
from tileworkbench.tune.schedule import Schedule

WRONG = Comparison("B", (4,), 2, 1.0, 0.1, (3,), 1.0, 2.0, ((2, 4),))


@pytest.fixture(scope="module")
def report() -> Report:
    made = bench(block=[64, 128])
    found = made.ghost
    made.close()
    assert found is not None
    return found


def run(report: Report, number: int, factor: float, *, spread: float = 0.0, **more: object) -> Run:
    """A run that took `factor` times its prediction."""
    plain = replace(report, measured=Measured(1.0, "s", 5, 1.0))
    seconds = plain.predicted.value * factor
    measured = Measured(seconds, "s", 5, seconds, spread)
    return Run(number, Schedule(block=64 * number), replace(report, measured=measured), **more)  # type: ignore[arg-type]


def test_a_run_near_its_prediction_is_no_surprise(report: Report):
    for factor in (0.85, 1.0, 1.2):
        assert not run(report, 1, factor).is_surprise
        assert run(report, 1, factor).surprise == ""
    assert run(report, 1, 1.2).ratio == pytest.approx(1.2)


@pytest.mark.parametrize(("factor", "said"), [(2.0, "2 times the predicted time"), (0.5, "2 times faster than predicted")])
def test_a_surprise_says_how_large_and_offers_reasons(report: Report, factor: float, said: str):
    one = run(report, 1, factor)
    assert said in one.surprise
    assert "usually within 25 %" in one.surprise
    assert len(one.surprise) > len(said) + 60
    assert "!" in one.row[4]


def test_the_usual_error_is_the_models_own(report: Report):
    assert not run(report, 1, 2.0, usual_error=0.6).is_surprise


def test_unstable_runs_are_the_first_reason(report: Report):
    shaky = replace(report, measured=Measured(1.0, "s", 5, 0.5, 0.4))
    assert "vary by 40 %" in reasons(shaky)[0]
    assert reasons(report) == ()


def test_the_best_is_the_fastest_right_one(report: Report):
    runs = (run(report, 1, 1.0), run(report, 2, 0.5, checks=(WRONG,)), run(report, 3, 0.9), Run(4, Schedule(block=1), None, "no compiler"))
    log = RunLog(runs)
    assert log.best is runs[2]
    assert log[3] is runs[2]
    assert log[-1].verdict == "no compiler"
    assert "3 best" in str(log)
    assert "WRONG: B[3] is 1" in str(log)
    assert [d["right"] for d in log.data] == [True, False, True, False]
    with pytest.raises(IndexError, match="no run 9"):
        log[9]


def test_an_empty_log_says_so():
    assert str(RunLog()) == "no run yet"
    assert RunLog().best is None

"""`tune`: its arguments and the value that it returns."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tune.programs import double, matmul

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import TileValueError
from tileworkbench.base.machine import REFERENCE_CPU
from tileworkbench.tune.candidate import Candidate
from tileworkbench.tune.plan import Plan
from tileworkbench.tune.problem import Problem
from tileworkbench.tune.result import TuningResult
from tileworkbench.tune.schedule import Schedule
from tileworkbench.tune.space import Space, Tunable
from tileworkbench.tune.store import Store
from tileworkbench.tune.trial import Settings
from tileworkbench.tune.tuner import is_choice, tune

APART = Plan(Settings(warmup_ms=0.0, rep_ms=0.0, runs=3))
PLAN = replace(APART, is_isolated=False)  # in this process, where nothing can be killed: quicker
SIZES = {"M": 64, "N": 64, "K": 64}


def product(a: Any, b: Any) -> Any:
    return a @ b


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> TuningResult:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    store = Store(tmp_path_factory.mktemp("store") / "tuning.sqlite")
    return tune(
        matmul, (a, b), **SIZES, block=[0, 16, 32], relu=[False, True], reference=product, machine=REFERENCE_CPU, run=True, store=store, plan=APART
    )


def test_what_it_finds(found: TuningResult) -> None:
    assert {str(c.schedule): c.status for c in found.candidates} == {
        "block=0, relu=False": "does not compile", "block=0, relu=True": "does not compile", "block=16, relu=False": "ran",
        "block=16, relu=True": "wrong result", "block=32, relu=False": "ran", "block=32, relu=True": "wrong result",
    }  # fmt: skip
    assert found.best == found.ran[0].schedule == found.winner.schedule
    assert found.kernel.config == found.best
    assert found.kernel.latency == found.winner.median_ms
    np.testing.assert_allclose(found.kernel(*found.problem.given), product(*found.problem.given), rtol=1e-4, atol=1e-4)
    assert found.is_complete
    assert len(found.failures) == 4


def test_it_prints(found: TuningResult) -> None:
    lines = str(found).splitlines()
    assert lines[0].startswith("matmul: 6 of 6 schedules (2 do not compile, 2 ran, 2 give wrong results) in ")
    assert lines[2].split() == ["block", "relu", "time", "slower", "spread", "predicted", "bound"]
    assert lines[3].split()[:2] == [str(found.best["block"]), "False"]
    assert "1.00x" in lines[3]
    (refused,) = (line for line in lines if "does not compile" in line)
    assert refused.startswith("block=0, relu=")
    assert refused.endswith(" (and 1 more): does not compile: type error: T.ceildiv(64, 0): integer division or modulo by zero")
    assert any("relu=True (and 1 more): wrong result: output 0 differs in" in line for line in lines)
    data = json.loads(found.to_json())
    assert data["best"] == dict(found.best)
    assert [c["median_ms"] for c in data["candidates"]] == [c.median_ms for c in found.candidates]


def test_the_map(found: TuningResult) -> None:
    area = found.feasibility()
    assert (area.x.name, area.y.name, area.x.values, area.y.values) == ("block", "relu", (0, 16, 32), (False, True))
    assert area.current == (found.best["block"], found.best["relu"])
    assert {(p.x, p.y) for p in area.positions if not p.is_legal} == {(0, False), (0, True)}
    for candidate in found.ran:
        place = area.at(candidate.schedule["block"], candidate.schedule["relu"])
        assert place is not None
        assert place.seconds == pytest.approx(candidate.predicted_ms / 1e3)
    trials = {(t.x, t.y): t for t in area.trials}
    assert set(trials) == {(16, False), (32, False), (16, True), (32, True)}
    assert trials[16, True].why.startswith("wrong result: output 0 differs")
    assert area.best_measured is not None
    assert (area.best_measured.x, area.best_measured.y) == (found.best["block"], found.best["relu"])
    turned = found.feasibility("relu")
    assert (turned.x.name, turned.y.name) == ("relu", "block")
    with pytest.raises(TileValueError, match="a map needs two tunables\n  hint: this search has 1"):
        TuningResult(found.problem, Space.of(block=[16]), ()).feasibility()


def test_a_machine_that_is_not_here_only_predicts() -> None:
    machine = tileworkbench.find_machine("reference")
    result = tune(matmul, **SIZES, relu=False, block=[0, 16, 32], machine=machine)
    assert sorted(c.status for c in result.candidates) == ["does not compile", "predicted", "predicted"]
    assert result.winner.predicted_ms == min(c.predicted_ms for c in result.candidates if c.predicted_ms)
    assert "~" in str(result).splitlines()[3], "predicted times are marked"
    assert result.kernel.latency is None


def test_a_machine_forbids() -> None:
    machine = tileworkbench.find_machine("h200")
    result = tune(matmul, M=1024, N=1024, K=1024, block=[64, 128, 256], relu=[False], machine=machine)
    assert {c.schedule["block"]: c.status for c in result.candidates} == {64: "predicted", 128: "does not fit", 256: "does not fit"}
    assert result.best == {"block": 64, "relu": False}, "a schedule that does not fit is never the best, however fast it were"
    why = result.space.why_not({"block": 256, "relu": False})
    assert why == next(c.reason for c in result.failures if c.schedule["block"] == 256)
    assert why.startswith("shared memory: ")
    place = result.feasibility("block", "relu").at(256, False)
    assert place is not None
    assert str(place.limit) == why


def test_nothing_works() -> None:
    result = tune(double, (np.zeros(8, np.float32),), mode=["refused"], block=[4, 8], order="grid", plan=PLAN, store=False)
    with pytest.raises(TileValueError) as caught:
        result.kernel
    assert str(caught.value) == (
        "value error: no configuration works (2 tried):\n"
        "  mode=refused, block=4: does not compile: ValueError: this mode is refused\n"
        "  mode=refused, block=8: does not compile: ValueError: this mode is refused"
    )
    assert "mode=refused, block=4 (and 1 more): does not compile: ValueError: this mode is refused" in str(result)


def test_unchecked_results_are_said_to_be() -> None:
    result = tune(double, (np.zeros(8, np.float32),), block=[4], order="grid", plan=PLAN, store=False)
    assert "no reference was given: the results were not checked" in str(result)


def test_spaces_and_rules(tmp_path: Path) -> None:
    a = np.zeros(8, np.float32)
    quick: dict[str, Any] = {"order": "grid", "plan": PLAN, "store": Store(tmp_path / "tuning.sqlite")}
    assert [c.schedule for c in tune(double, (a,), space=[{"block": 4}, {"block": 2}], **quick).candidates] == [{"block": 4}, {"block": 2}]
    assert len(tune(double, (a,), block=[2, 4, 8], where=lambda block: block > 2, **quick).candidates) == 2
    assert len(tune(double, (a,), space=Space.of(block=[2, 4]), limit=1, **quick).candidates) == 1
    assert tune(double, (a,), block=[2, 4], limit=1, **quick).is_complete is False
    with pytest.raises(TileValueError, match="both a space and values for block are given"):
        tune(double, (a,), space=[{"block": 4}], block=[2], **quick)
    with pytest.raises(TileValueError, match="double has nothing to choose"):
        tune(double, (a,), block=8, mode="right", **quick)


def test_what_is_a_choice() -> None:
    assert all(map(is_choice, ([1, 2], range(3), T.GemmWarpPolicy, Tunable.of("x", [1]))))
    assert not any(map(is_choice, (1, (1, 2), "ab", None, np.zeros(2))))


def test_events_reach_the_caller(tmp_path: Path) -> None:
    seen: list[str] = []
    tune(double, (np.zeros(8, np.float32),), block=[4], order="grid", plan=PLAN, store=False, on_event=lambda e: seen.append(e.kind))
    assert seen == ["started", "finished"]


def test_a_long_table_is_cut() -> None:
    candidates = tuple(Candidate(Schedule(block=i), "ran", times_ms=(float(i + 1),)) for i in range(30))
    text = str(TuningResult(Problem.of(matmul, None, SIZES), Space.of(block=range(30)), candidates, is_complete=False, reference_ms=2.5))
    assert "and 10 slower ones" in text
    assert "the reference takes 2.5 ms" in text
    assert "(30 ran, not finished) in 0.0 s" in text

"""Searches: every way in which a candidate fails, executors, stopping, resuming. No test depends on how fast anything is."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tune.programs import TARGET, double, dying, increment, matmul

from tileworkbench.base.errors import TileValueError
from tileworkbench.base.machine import REFERENCE_CPU
from tileworkbench.tune.candidate import Candidate, best_of
from tileworkbench.tune.plan import Plan, with_options
from tileworkbench.tune.problem import Problem
from tileworkbench.tune.schedule import Schedule
from tileworkbench.tune.search import Event, Search, search
from tileworkbench.tune.space import Space
from tileworkbench.tune.store import Store

ROOT = Path(__file__).resolve().parents[2]
APART: dict[str, Any] = {"warmup_ms": 0.0, "rep_ms": 0.0, "runs": 3, "timeout_s": 60.0}  # kernels in processes of their own, as users have it
QUICK: dict[str, Any] = {**APART, "is_isolated": False}
needs_c = pytest.mark.skipif(TARGET != "c", reason="needs a C compiler")


def array() -> np.ndarray[Any, Any]:
    return np.arange(20, dtype=np.float32)


def twice(a: Any) -> Any:
    return a * 2


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "tuning.sqlite")


@pytest.fixture
def doubling() -> Problem:
    return Problem.of(double, (array(),))


def statuses(hunt: Search) -> dict[str, str]:
    return {str(c.schedule): c.status for c in hunt.candidates}


def test_every_way_to_fail(doubling: Problem, store: Store) -> None:
    space = Space.of(mode=["right", "refused", "wrong", "assert"], block=[8])
    hunt = search(doubling, space, reference=twice, store=store, **APART).run()
    assert {c.schedule["mode"]: c.status for c in hunt.candidates} == {
        "right": "ran", "refused": "does not compile", "wrong": "wrong result", "assert": "raised"
    }  # fmt: skip
    reasons = {c.schedule["mode"]: c.first_line for c in hunt.failures}
    assert reasons["refused"] == "ValueError: this mode is refused"
    assert reasons["wrong"].startswith("output 0 differs in 19 of 20 elements")
    assert "the first element is large" in next(c.reason for c in hunt.failures if c.schedule["mode"] == "assert")
    assert hunt.best is not None
    assert hunt.best.schedule["mode"] == "right"
    kept = {c.schedule["mode"]: (c.status, c.reason) for c in store.results(doubling.program).candidates}
    assert kept == {c.schedule["mode"]: (c.status, c.reason) for c in hunt.candidates}


@needs_c
def test_a_hanging_and_a_crashing_candidate_do_not_stop_the_others() -> None:
    hung = search(Problem.of(double, (array(),)), Space.of(mode=["hang", "right"]), **{**APART, "timeout_s": 5.0}).run()
    assert statuses(hung) == {"mode=hang": "timed out", "mode=right": "ran"}
    assert hung.failures[0].reason == "killed after 5 s"
    died = search(Problem.of(dying, (array(),)), Space.of(mode=["signal", "exit", "right"]), **APART).run()
    assert statuses(died) == {"mode=signal": "crashed", "mode=exit": "crashed", "mode=right": "ran"}
    assert died.failures[0].reason == "crashed with signal 11 (SIGSEGV)"


def test_in_place_kernels_poison_nobody() -> None:
    mine = array()

    def reference(a: Any) -> None:
        a += 1

    hunt = search(Problem.of(increment, (mine,)), Space.of(block=[4, 8, 16]), reference=reference, **APART).run()
    assert [c.status for c in hunt.candidates] == ["ran"] * 3, hunt.failures
    np.testing.assert_array_equal(mine, array())


def test_events_and_progress(doubling: Problem) -> None:
    hunt = search(doubling, Space.of(mode=["right", "refused"], block=[4, 8]), **QUICK)
    events = list(hunt)
    started = [e.candidate.schedule for e in events if e.kind == "started"]
    finished = [e for e in events if e.kind == "finished"]
    assert started == list(Space.of(mode=["right", "refused"], block=[4, 8]))
    assert [e.done for e in finished] == [1, 2, 3, 4]
    assert {e.total for e in events} == {4}
    for event in finished:
        known = [e.candidate for e in finished[: event.done]]
        assert event.best is best_of(known), "the best so far is the best of those that have finished"


class Elsewhere(Executor):
    """What a Dask client's executor is to a search: the function and its argument are pickled and travel, and only then run."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.threads = ThreadPoolExecutor(2)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        packet = pickle.dumps((fn, args, kwargs))
        self.sizes.append(len(packet))
        return self.threads.submit(self.work, packet)

    @staticmethod
    def work(packet: bytes) -> Any:
        fn, args, kwargs = pickle.loads(packet)
        return pickle.loads(pickle.dumps(fn(*args, **kwargs)))


EXECUTORS: dict[str, Callable[[], Executor]] = {
    "threads": lambda: ThreadPoolExecutor(2),
    "processes": lambda: ProcessPoolExecutor(2, mp_context=get_context("spawn")),
    "elsewhere": Elsewhere,
}


@pytest.mark.parametrize("name", EXECUTORS)
@pytest.mark.parametrize("at_once", [1, 2])
def test_any_executor(name: str, at_once: int, doubling: Problem) -> None:
    with EXECUTORS[name]() as executor:
        hunt = search(doubling, Space.of(mode=["right", "wrong"], block=[4, 8]), reference=twice, executor=executor, at_once=at_once, **APART).run()
    assert sorted(statuses(hunt).values()) == ["ran", "ran", "wrong result", "wrong result"], [c.reason for c in hunt.candidates]


@needs_c
def test_a_timeout_kills_wherever_it_runs() -> None:
    with EXECUTORS["processes"]() as executor:
        hunt = search(Problem.of(double, (array(),)), Space.of(mode=["hang", "right"]), executor=executor, **{**APART, "timeout_s": 5.0}).run()
    assert statuses(hunt) == {"mode=hang": "timed out", "mode=right": "ran"}


def test_an_executor_that_loses_work(doubling: Problem) -> None:
    class Broken(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(OSError("the worker is gone"))
            return future

    hunt = search(doubling, Space.of(mode=["right"], block=[8]), executor=Broken(), **QUICK).run()
    (failure,) = hunt.failures
    assert (failure.status, failure.reason) == ("crashed", "the executor lost it: OSError: the worker is gone")


@needs_c
@pytest.mark.parametrize("from_thread", [False, True])
def test_stop_midway(from_thread: bool, store: Store) -> None:
    problem = Problem.of(double, (array(),))
    hunt = search(problem, Space.of(mode=["right", "hang", "refused"]), store=store, **{**APART, "timeout_s": 600.0})
    seen: list[Event] = []
    timer: threading.Timer | None = None
    for event in hunt:
        seen.append(event)
        if event.kind == "finished" and event.candidate.ran:
            if not from_thread:
                hunt.stop()
            else:  # the next candidate hangs by then
                timer = threading.Timer(1.0, hunt.stop)
                timer.start()
    if timer is not None:
        timer.join()
    assert hunt.is_stopped
    assert [c.status for c in hunt.candidates if c.schedule["mode"] != "refused"] == ["ran"]
    assert [c.schedule["mode"] for c in store.results(problem.program).candidates if c.ran] == ["right"]
    hunt.stop()


def test_leaving_the_loop_stops(doubling: Problem) -> None:
    hunt = search(doubling, Space.of(mode=["right"], block=[2, 4, 8]), wave=1, **QUICK)
    for event in hunt:
        if event.kind == "finished":
            break
    assert len(hunt.candidates) == 1


def test_an_error_of_the_caller_ends_the_search(doubling: Problem) -> None:
    hunt = search(doubling, Space.of(mode=["right"], block=[2, 4]), reference=lambda a: 1 / 0, **QUICK)
    with pytest.raises(ZeroDivisionError):
        hunt.run()
    assert hunt.is_stopped


# ------------------------------------------------------------------------------------------- the store
def test_results_are_reused(doubling: Problem, store: Store) -> None:
    space = Space.of(mode=["right", "wrong"], block=[4, 8])
    first = search(doubling, space, reference=twice, store=store, **QUICK).run()
    again = search(doubling, space, reference=twice, store=store, **QUICK).run()
    reused = {str(c.schedule): c for c in again.candidates if c.is_reused}
    assert set(reused) == {"mode=right, block=4", "mode=right, block=8"}, "a failure is tried again"
    assert {k: c.times_ms for k, c in reused.items()} == {str(c.schedule): c.times_ms for c in first.candidates if c.ran}
    afresh = search(doubling, space, reference=twice, store=store, reuse=False, **QUICK).run()
    assert not any(c.is_reused for c in afresh.candidates)


def test_what_is_not_reused(doubling: Problem, store: Store) -> None:
    space = Space.of(mode=["right"], block=[8])
    search(doubling, space, store=store, **QUICK).run()
    assert search(doubling, space, store=store, **QUICK).run().candidates[0].is_reused
    checked = search(doubling, space, reference=twice, store=store, **QUICK).run()
    assert not checked.candidates[0].is_reused, "it was never compared with anything"
    other = search(doubling, space, reference=lambda a: a + a, store=store, **QUICK).run()
    assert not other.candidates[0].is_reused, "it was compared with another reference"
    assert not search(Problem.of(double, (np.zeros(24, np.float32),)), space, store=store, **QUICK).run().candidates[0].is_reused


INTERRUPTED = """
import os, signal, sys
import numpy as np
from tune.programs import double
from tileworkbench.tune import Problem, Space, Store
from tileworkbench.tune.search import search
problem = Problem.of(double, (np.arange(20, dtype=np.float32),))
for event in search(problem, Space.of(block=[2, 4, 8, 16]), store=Store(sys.argv[1]), wave=1, warmup_ms=0.0, rep_ms=0.0, runs=3):
    if event.kind == "finished" and event.done == 2:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_search_is_resumed(doubling: Problem, store: Store) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, str(store.path)], cwd=ROOT / "tests", env=_env(), capture_output=True, timeout=120)
    assert done.returncode == -9, done.stderr
    space = Space.of(block=[2, 4, 8, 16])
    hunt = search(doubling, space, store=store, **QUICK)
    first = {e.candidate.schedule["block"]: e.candidate.is_reused for e in hunt if e.kind == "finished"}
    assert first == {2: True, 4: True, 8: False, 16: False}
    assert len(store.results(doubling.program)) == 4


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}


# ------------------------------------------------------------------------------------------- order and limits
def test_the_cheapest_predicted_comes_first() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((64, 64)).astype(np.float32), rng.standard_normal((64, 64)).astype(np.float32)
    problem = Problem.of(matmul, (a, b), {"M": 64, "N": 64, "K": 64})
    hunt = search(problem, Space.of(block=[0, 16, 32, 64]), order="model", machine=REFERENCE_CPU, reference=lambda x, y: x @ y, **QUICK).run()
    predicted = [c.predicted_ms for c in hunt.candidates if c.ran]
    assert len(predicted) == 3
    assert None not in predicted
    assert predicted == sorted(predicted)
    assert all(c.predicted_ms == problem.report(c.schedule, REFERENCE_CPU).predicted.value * 1e3 for c in hunt.candidates if c.ran)
    assert [c.schedule["block"] for c in hunt.failures] == [0]


def test_predicting_only(store: Store) -> None:
    problem = Problem.of(matmul, None, {"M": 64, "N": 64, "K": 64})
    hunt = search(problem, Space.of(block=[0, 16, 32]), order="model", machine=REFERENCE_CPU, run=False, store=store).run()
    assert sorted(c.status for c in hunt.candidates) == ["does not compile", "predicted", "predicted"]
    assert hunt.best is not None
    assert hunt.best.predicted_ms == min(c.predicted_ms for c in hunt.candidates if c.predicted_ms is not None)
    assert len(store.results()) == 0


def test_limits(doubling: Problem) -> None:
    space = Space.of(mode=["right"], block=[1, 2, 4, 5, 8, 10])
    assert len(search(doubling, space, limit=2, **QUICK).run().candidates) == 2
    assert len(search(doubling, space, time_limit_s=0.0, wave=2, **QUICK).run().candidates) == 0
    refused = search(doubling, Space.of(mode=["refused"], block=[1, 2, 4, 8]), patience=2, wave=1, **QUICK).run()
    assert len(refused.candidates) == 2
    order = [c.schedule for c in search(doubling, space, order="random", seed=3, **QUICK).run().candidates]
    assert order != list(space)
    assert set(order) == set(space)


def test_slow_candidates_are_given_up(doubling: Problem, monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    hunt = search(doubling, Space.of(block=[4, 8]), early_stop_factor=1e-9, store=store, **{**QUICK, "runs": 5}).run()
    assert [c.status for c in hunt.candidates] == ["ran", "slower"]
    assert hunt.candidates[1].reason.startswith("stopped after 3 runs")
    assert not hunt.failures
    assert len(store.results()) == 1, "a time that was cut short is none"


def test_close_candidates_are_settled(doubling: Problem, monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setattr("tileworkbench.tune.search.TIE", 1e9)
    events = list(search(doubling, Space.of(block=[4, 8]), store=store, **APART))
    settled = [e.candidate for e in events if e.kind == "settled"]
    assert [len(c.times_ms) for c in settled] == [24, 24]
    assert {c.times_ms for c in store.results().candidates} == {c.times_ms for c in settled}


def test_the_same_code_is_run_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []
    real = Search._trial
    monkeypatch.setattr(Search, "_trial", lambda self, kernel: ran.append(1) or real(self, kernel))
    problem = Problem.of(increment, (array(),), {"block": 4})
    hunt = search(problem, Space.of(unused=[1, 2, 3, 4]), store=store, wave=2, **QUICK).run()
    assert len(ran) == 1
    first, *twins = hunt.candidates
    assert {c.times_ms for c in twins} == {first.times_ms}
    assert [c.same_as for c in hunt.candidates] == [None, *[first.schedule] * 3]
    assert str(twins[0]).endswith("same code as unused=1")
    assert len(store.results(problem.program)) == 4


def test_options_have_names() -> None:
    plan = with_options(Plan(), {"rtol": 0.5, "order": "random"})
    assert (plan.settings.rtol, plan.order) == (0.5, "random")
    with pytest.raises(TileValueError, match="a search has no option 'warm_up'\n  hint: its options are at_once, atol, "):
        with_options(Plan(), {"warm_up": 1})


def test_candidates_are_ranked_by_what_a_busy_machine_cannot_spoil() -> None:
    calm = Candidate(Schedule(n=1), "ran", times_ms=(1.0, 1.01, 1.02))
    disturbed = Candidate(Schedule(n=2), "ran", times_ms=(0.9, 12.0, 12.0, 12.0))
    assert best_of([calm, disturbed]) is disturbed
    assert (calm.judged_ms, disturbed.judged_ms) == (pytest.approx(1.01), pytest.approx(0.9))
    assert best_of([]) is None
    assert best_of([Candidate(Schedule(n=1), "crashed")]) is None

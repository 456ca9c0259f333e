"""A workbench without a browser: its numbers are the reports', and no position spoils another."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import numpy as np
import pytest
from benches import HAS_COMPILER, N, array, bench, bump, make_add, scale

import tileworkbench
from tileworkbench.base.errors import TileError, TileTypeError, TileValueError
from tileworkbench.base.machine import find_machine
from tileworkbench.model.report import report
from tileworkbench.notebook import engine as engine_module
from tileworkbench.notebook.bench_views import views_of
from tileworkbench.tune.space import Constraint, Space
from tileworkbench.tune.store import Store

compiled = pytest.mark.skipif(not HAS_COMPILER, reason="needs a C compiler")


def test_the_ghost_is_the_kernels_own_report():
    made = bench()
    for block in (64, 256):
        ghost = made.move(block=block).ghost
        wanted = scale.compile(array(), block=block).report(find_machine("reference"), args=())
        assert ghost is not None
        assert ghost.facts == wanted.facts
        assert ghost.predicted == wanted.predicted
    made.close()


@compiled
def test_the_truth_is_the_kernels_own_report_with_its_measurement(monkeypatch: Any):
    """The very report that `report()` makes of these times: nothing is counted, predicted or judged anew."""
    seconds = (1.1e-3, 1.0e-3, 1.3e-3)
    monkeypatch.setattr(engine_module.Attempt, "times", lambda *_: seconds)
    made = bench()
    truth = made.move(block=128).truth
    assert truth is not None
    kernel, reference = scale.compile(array(), block=128), find_machine("reference")
    call = kernel.bind(array())
    wanted = report(kernel.ir, reference, call.dims, threads=call.threads, seconds=seconds)
    assert truth.facts == wanted.facts
    assert truth.measured == wanted.measured
    assert truth.predicted == wanted.predicted
    assert truth.verdict == wanted.verdict
    assert made.data["measured"] == truth.judged_seconds == made.log[1].seconds
    made.close()


@compiled
def test_every_view_shows_the_reports_numbers():
    made = bench(block=[64, 128], factor=[2, 3])
    truth = made.truth
    assert truth is not None
    made.engine.worker.wait_idle(30)
    views = {name: make() for name, make in views_of(made.engine, truth).items()}
    assert {"roofline", "traffic", "map", "source"} <= set(views)
    rates = [d["rate"] for d in views["roofline"].data["dots"] if d["measured"]]
    assert set(rates) == {truth.rate.value}
    assert {x["level"]: x["bytes"] for x in views["traffic"].data["links"] if x["level"] != "registers"} == {x.name: x.bytes for x in truth.levels}
    here = next(p for p in views["map"].data["positions"] if [p["x"], p["y"]] == views["map"].data["current"])
    assert here["seconds"] == made.ghost.predicted.value
    assert [t["seconds"] for t in views["map"].data["measured"]] == [truth.judged_seconds]
    made.close()


@compiled
def test_a_position_that_does_not_compile_is_marked_and_the_rest_lives():
    made = bench()
    assert made.move(block=96).truth is None
    assert "96 is no block" in made.reason
    assert made.ghost is None
    assert made.move(block=64).truth is not None
    assert len(made.log) == 1
    assert "96 is no block" in next(reason for schedule, _, reason in made.predictions if schedule["block"] == 96)
    made.close()


@compiled
def test_a_run_that_raises_is_its_positions_reason(monkeypatch: Any):
    made, real = bench(), engine_module.Attempt.of

    def broken(kernel: Any, args: Any) -> Any:
        if kernel.schedule["block"] == 512:
            raise MemoryError("no room")
        return real(kernel, args)

    monkeypatch.setattr(engine_module.Attempt, "of", staticmethod(broken))
    assert made.move(block=512).truth is None
    assert made.reason == "MemoryError: no room"
    assert made.ghost is not None, "the prediction stands"
    assert made.move(block=64).truth is not None
    made.close()


@compiled
def test_only_the_newest_move_is_run():
    made = bench()
    gate, told = threading.Event(), []
    made.engine.listeners.append(lambda news, place: told.append((news, place)))
    made.engine.worker.ask(lambda _: gate.wait(5))
    for block in (64, 128, 256, 512, 128):
        made.move(block=block)
    gate.set()
    assert made.truth is not None
    assert [run.schedule["block"] for run in made.log] == [128]
    assert {place for news, place in told if news in ("ghost", "truth")} == {made.engine.place}
    made.close()


@compiled
def test_a_result_that_came_too_late_is_dropped(monkeypatch: Any):
    made, started, gate = bench(), threading.Event(), threading.Event()
    real = engine_module.Attempt.run

    def slow(self: Any) -> float:
        started.set()
        gate.wait(5)
        return real(self)

    monkeypatch.setattr(engine_module.Attempt, "run", slow)
    made.move(block=64)
    assert started.wait(10)
    made.move(block=128)
    gate.set()
    assert made.truth is not None
    assert [run.schedule["block"] for run in made.log] == [128]
    made.close()


@compiled
def test_a_kernel_that_hangs_is_reported_and_the_rest_lives(monkeypatch: Any):
    made, gate = bench(settings_hang_s=0.2), threading.Event()
    monkeypatch.setattr(engine_module, "HANG_TIMES", 0.0)
    real = engine_module.Attempt.run
    monkeypatch.setattr(engine_module.Attempt, "run", lambda self: gate.wait(20) and 0.0 if self.kernel.schedule["block"] == 64 else real(self))
    assert made.move(block=64).truth is None
    assert "did not end within 0.2 s" in made.reason
    made.engine.settings.hang_s = 20.0
    assert made.move(block=128).truth is not None
    gate.set()
    made.close()


def test_a_position_predicted_to_be_slow_is_run_only_when_asked():
    made = bench(settings_limit_s=1e-12)
    assert made.move(block=64).run is None
    assert "not run unless asked for" in made.reason
    if HAS_COMPILER:
        assert made.move(anyway=True).truth is not None
        assert made.reason == ""
    made.close()


@compiled
def test_the_result_is_checked_and_a_wrong_one_is_never_the_best():
    made = bench(block=[64, 128], factor=[2, 3], settings_check=lambda a: a * 2)
    assert made.move(factor=2).run.is_right
    wrong = made.move(factor=3).run
    assert wrong is not None
    assert not wrong.is_right
    assert wrong.verdict.startswith("WRONG: B[")
    assert made.best is not None
    assert made.best.schedule["factor"] == 2
    assert "WRONG" in str(made)
    made.close()


@compiled
def test_the_callers_arrays_are_left_alone():
    data = array()
    made = bench(bump, (data,), block=[64, 256])
    assert made.truth is not None
    assert np.array_equal(data, array())
    made.close()


@compiled
def test_a_factory_with_fixed_sizes_and_made_up_arrays():
    made = bench(make_add, (), fixed={"n": 512}, block=[64, 128])
    assert made.move(block=64).truth is not None
    assert made.apply() == "kernel = make_add(n=512, block=64)\nresult = kernel()"
    made.close()


def test_a_rule_forbids_without_building():
    made = bench(block=[64, 128], factor=[2, 3])
    made.engine.space = Space(made.space.tunables, (Constraint.of(lambda block, factor: block * factor < 300, "more than 300 in all"),))
    made.move(block=128, factor=3)
    assert made.ghost is None
    assert made.reason == "more than 300 in all"
    made.close()


NOWHERE = [({"bloc": 64}, "no tunable is called bloc"), ({"block": 65}, "block cannot be 65"), ({"block": True}, "block cannot be True")]


@pytest.mark.parametrize(("values", "message"), NOWHERE)
def test_a_move_to_nowhere(values: dict[str, Any], message: str):
    made = bench()
    with pytest.raises(TileValueError, match=message):
        made.move(**values)
    made.close()


def test_a_machine_that_is_not_here_is_predicted_only():
    made = tileworkbench.workbench(scale, (array(),), machine="reference", block=[64, 128], store=None)
    assert made.ghost is not None
    assert made.truth is None
    assert "not this computer" in made.reason
    with pytest.raises(TileValueError, match="not this computer"):
        made.search()
    made.close()


def test_what_cannot_be_turned_is_refused():
    with pytest.raises(TileTypeError, match="jitted function"):
        tileworkbench.workbench(scale.compile(array()), (array(),), machine="reference", block=[1])
    with pytest.raises(TileValueError, match="nothing|default"):
        tileworkbench.workbench(scale, (array(),), machine="reference", block=64, factor=2, store=None)
    with pytest.raises(TileError, match="no values"):
        tileworkbench.workbench(scale, (array(),), machine="reference", block=[], store=None)


def test_tunables_are_guessed_from_the_defaults():
    made = tileworkbench.workbench(scale, (array(),), machine="reference", store=None)
    assert made.space.names == ("block", "factor")
    assert dict(made.schedule) == {"block": 256, "factor": 2}
    assert set(made.space.tunable("block").values) == {64, 128, 256, 512, 1024}
    made.close()


@compiled
def test_a_search_fills_the_log_and_the_store_and_marks_what_fails(tmp_path: Any):
    store = Store(tmp_path / "results.sqlite")
    made = bench(store=store, settings_check=lambda a: a * 2)
    progress = made.search(timeout_s=30)
    assert not progress.is_running
    assert {run.schedule["block"] for run in made.log} == {64, 128, 256, 512}
    assert made.best is not None
    made.move(block=96).wait()
    assert "96 is no block" in made.reason
    made.close()
    again = bench(store=store, settings_check=lambda a: a * 2)
    assert {c.schedule["block"] for c in again.engine.remembered if c.ran} == {64, 128, 256, 512}
    assert again.search(timeout_s=30).reused == 4, "the same code on the same arrays is not run twice"
    again.close()


@compiled
def test_an_interrupt_keeps_what_has_finished(tmp_path: Any, monkeypatch: Any):
    store = Store(tmp_path / "results.sqlite")
    made = bench(store=store, block=[16, 32, 64, 128, 256, 512])
    seen = threading.Event()
    made.engine.listeners.append(lambda news, _: seen.set() if news == "search" else None)

    def interrupted(seconds: float | None = None) -> bool:
        monkeypatch.undo()  # once; what waits after it waits in peace
        assert seen.wait(60)
        raise KeyboardInterrupt

    hunt = made.engine.search(timeout_s=30)
    monkeypatch.setattr(hunt, "wait", interrupted)
    progress = made.search()
    assert hunt.wait(30)
    assert progress.why == "stopped"
    assert progress.done < progress.total, "it ended before its time"
    assert len(made.log) >= 1
    assert len(store.results(made.engine.problem.program)) >= 1
    made.close()


@compiled
def test_no_port_is_opened(monkeypatch: Any):
    opened: list[Any] = []
    monkeypatch.setattr(socket.socket, "bind", lambda *args: opened.append(args))
    monkeypatch.setattr(socket.socket, "connect", lambda *args: opened.append(args))
    made = bench()
    assert made.truth is not None
    assert opened == []
    made.close()


@compiled
def test_the_caller_goes_on_while_the_worker_works():
    made = bench(make_add, (), fixed={"n": N}, block=[64, 128, 256])
    start = time.perf_counter()
    made.move(block=256)
    assert time.perf_counter() - start < 0.1, "a move returns at once"
    assert made.truth is not None
    made.close()


def test_text_and_page_name_the_schedule(tmp_path: Any):
    made = bench(block=[64, 128])
    text = str(made.move(block=128))
    assert "block  64  [128]" in text
    page = made.save(tmp_path / "bench.html").read_text()
    assert "64  [128]" in page
    made.save(tmp_path / "bench.svg")
    made.close()

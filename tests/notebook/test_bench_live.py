"""What a workbench tells a browser, and what it does with what it hears."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from benches import HAS_COMPILER, Heard, bench

from tileworkbench.notebook import bench_live
from tileworkbench.notebook.runlog import Run

pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="needs a C compiler")


def settled(made: Any) -> None:
    """Wait for everything that was begun; nothing may have gone wrong in telling."""
    assert made.wait(30)
    assert made.engine.worker.wait_idle(60)
    if made.engine.trouble is not None:
        raise made.engine.trouble


def test_a_start_holds_all_that_a_browser_needs_and_stays_small():
    made = bench(block=[64, 96, 128], factor=[2, 3])
    made.face(Heard())
    made.move(block=64)
    settled(made)
    live = made.live()
    text = json.dumps(live)
    assert len(text) < 200_000
    assert [c["name"] for c in live["controls"]] == ["block", "factor"]
    assert [v["tab"] for v in live["views"]][:2] == ["roofline", "traffic"]
    assert len(live["table"]) == 6
    assert "96 is no block" in live["table"]["1,0"]["reason"]
    assert live["table"]["0,0"]["truth"]["number"] == 1
    assert {"kind", "group"} <= set(live["ghosts"]["2,0"][0])
    assert {m["group"] for m in live["ghosts"]["2,0"]} == {"ghost"}
    made.close()


def test_a_move_is_answered_by_a_ghost_and_then_by_the_truth():
    made, browser = bench(block=[64, 128], factor=[2, 3]), Heard()
    face = made.face(browser)
    settled(made)
    browser.messages.clear()
    face.heard({"type": "move", "at": [1, 0], "seq": 7})
    settled(made)
    states = [m["state"] for m in browser.messages if "state" in m]
    ghost = next(i for i, s in enumerate(states) if s["ghost"] and not s["truth"])
    truth = next(i for i, s in enumerate(states) if s["truth"])
    assert ghost < truth
    assert states[truth]["seq"] == 7
    assert states[truth]["at"] == [1, 0]
    assert browser.last("log")["at"] == [[1, 0]]
    assert browser.last("best")["at"] == [1, 0]
    assert browser.last("views")[0]["tab"] == "roofline"
    assert "measured" in browser.last("say")
    made.close()


def test_moves_from_python_carry_the_sliders_along():
    made, browser = bench(block=[64, 128]), Heard()
    made.face(browser)
    made.move(block=128)
    settled(made)
    assert any(m["state"]["pushed"] and m["state"]["at"] == [1] for m in browser.messages if "state" in m)
    made.close()


def test_a_position_that_fails_is_told_with_its_reason():
    made, browser = bench(block=[64, 96]), Heard()
    face = made.face(browser)
    face.heard({"type": "move", "at": [1], "seq": 1})
    settled(made)
    assert "96 is no block" in browser.last("state")["reason"]
    made.close()


def test_other_tabs_are_drawn_when_they_are_opened():
    made, browser = bench(block=[64, 128], factor=[2, 3]), Heard()
    face = made.face(browser)
    made.move()
    settled(made)
    for tab in ("traffic", "map", "source"):
        face.heard({"type": "tab", "tab": tab})
        settled(made)
        assert browser.last("views")[0]["tab"] == tab
        assert len(json.dumps(browser.last("views"))) < 200_000
    assert browser.last("views")[0]["module"] != "scene", "the source of a kernel that ran is its stages"
    made.close()


def test_a_view_that_cannot_be_drawn_says_why(monkeypatch: Any):
    made, browser = bench(block=[64, 128]), Heard()
    face = made.face(browser)

    def broken(*_: Any) -> Any:
        raise OSError("no disassembler")

    monkeypatch.setattr("tileworkbench.notebook.bench_views.source_of", broken)
    made.move()
    face.heard({"type": "tab", "tab": "source"})
    settled(made)
    assert "no disassembler" in browser.last("views")[0]["text"]
    made.close()


def test_apply_gives_the_text_and_what_it_replaces():
    made, browser = bench(block=[64, 128], cell="%%tile --tune\ndef scale(A, block=64): ..."), Heard()
    made.face(browser).heard({"type": "apply", "at": [1]})
    assert browser.last("applied") == {"text": "%%tile --tune\ndef scale(A, block=128): ...", "before": "%%tile --tune\ndef scale(A, block=64): ..."}
    made.close()


def test_a_position_that_ran_twice_keeps_its_place():
    """The first of two runs at one position may be the best of all: it stays the best, and both have their place in the log."""
    made, browser = bench(block=[64, 128]), Heard()
    made.face(browser)
    made.move(block=64).wait(30)
    settled(made)
    first = made.engine.log.runs[0]
    slower = Run(0, first.schedule, replace(first.report, measured=replace(first.report.measured, value=1.0)))
    made.engine.record(made.engine.place, slower)
    assert made.engine.log.best is first
    found = bench_live.best_of(made.engine)
    assert found is not None and (found["number"], found["at"]) == (1, list(made.engine.place))
    assert bench_live.log_of(made.engine)["at"] == [list(made.engine.place)] * 2
    made.close()


def test_a_search_is_started_followed_and_ended_from_the_browser():
    made, browser = bench(block=[64, 96, 128]), Heard()
    face = made.face(browser)
    face.heard({"type": "search"})
    assert made.engine.hunt is not None
    assert made.engine.hunt.wait(60)
    settled(made)
    seen = [m["search"] for m in browser.messages if m.get("search")]
    assert seen[0]["is_running"]
    assert not seen[-1]["is_running"]
    assert seen[-1]["done"] == seen[-1]["total"]
    assert browser.last("best") is not None
    made.close()


@pytest.mark.parametrize("message", [None, "x", {}, {"type": "move", "at": [1, 2, 3]}, {"candidate": {"block": 64}}])
def test_a_message_without_sense_is_ignored(message: Any):
    made, browser = bench(block=[64, 128]), Heard()
    made.face(browser).heard(message)
    settled(made)
    assert made.engine.place in ((0,), (1,))
    made.close()


def test_a_closed_widget_is_told_nothing_and_its_work_is_left():
    made, browser = bench(block=[64, 128]), Heard()
    face = made.face(browser)
    settled(made)
    face.close()
    browser.messages.clear()
    assert made.move(block=128).truth is not None
    settled(made)
    assert browser.messages == []
    assert not made.engine.errands
    made.close()


def test_a_large_space_still_makes_a_small_output():
    made = bench(block=[16, 32, 64, 128, 256, 512, 1024, 2048], factor=list(range(1, 31)))
    made.face(Heard())
    made.move()
    settled(made)
    live = made.live()
    assert len(live["table"]) == 240
    assert len(json.dumps(live)) + len(made.html()) < 200_000
    assert next(v for v in live["views"] if v["tab"] == "map")["module"] == "scene", "a word stands for the large map until it is opened"
    made.close()

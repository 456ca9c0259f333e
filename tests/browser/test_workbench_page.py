"""The workbench's browser half on a bare page with a model that the test plays: what a hand sees and what is sent, without a notebook."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benches import HAS_COMPILER, Heard, bench

from tileworkbench.notebook.live import bundle_text

pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="needs a C compiler")

START = """
window.sent = [];
const heard = {};
const values = { live: LIVE, selection: {}, group: "g", static_id: "" };
const model = { get: (n) => values[n], set: (n, v) => { values[n] = v; }, save_changes() {}, off() {},
  on: (event, f) => { heard[event] = f; }, send: (m) => window.sent.push(m) };
window.tell = (message) => heard["msg:custom"](message);
render({ model, el: document.body.appendChild(document.createElement("main")) });
"""


@pytest.fixture(scope="module")
def live() -> dict[str, Any]:
    """A workbench at (64, 2), with two runs; 96 is no block."""
    made = bench(block=[64, 96, 128, 256], factor=[2, 3])
    made.face(Heard())
    for block in (128, 64):
        made.move(block=block, factor=2).wait(30)
    made.engine.worker.wait_idle(60)
    found = made.live()
    made.close()
    assert made.engine.trouble is None
    return json.loads(json.dumps(found))


@pytest.fixture
def opened(watched: Any, live: dict[str, Any]) -> Any:
    """The page with the workbench on it."""
    script = bundle_text("workbench").replace("export default { render };", "")
    watched.page.set_content("<!doctype html><html lang='en'><title>bench</title><body></body></html>")
    watched.page.add_script_tag(content=f"(() => {{ {script}\n{START.replace('LIVE', json.dumps(live))} }})()")
    watched.page.get_by_role("slider", name="block").wait_for()
    return watched


def moves(page: Any) -> list[list[int]]:
    return [m["at"] for m in page.evaluate("window.sent") if m.get("type") == "move"]


def step(page: Any, key: str, name: str = "block") -> None:
    page.get_by_role("slider", name=name).focus()
    page.keyboard.press(key)


def test_the_ghost_moves_before_any_answer(opened: Any, live: dict[str, Any]):
    page = opened.page
    marks = "[...document.querySelectorAll('svg [data-group=ghost]')].map(n => n.outerHTML).join('')"
    before = page.evaluate(marks)
    step(page, "End")
    assert page.evaluate(marks) not in ("", before)
    assert page.locator("svg [data-group=truth]").count() == 0, "no run is shown where nothing ran"
    assert live["table"]["3,0"]["time"] in page.locator(".twb-bars").inner_text()
    assert moves(page) == [[3, 0]]
    assert opened.errors == []


def test_one_move_is_in_flight_and_the_newest_follows(opened: Any, live: dict[str, Any]):
    page = opened.page
    step(page, "End")
    step(page, "ArrowLeft")
    step(page, "End", "factor")
    assert moves(page) == [[3, 0]], "the others wait"
    seq = next(m["seq"] for m in page.evaluate("window.sent") if m.get("type") == "move")
    state = {**live["state"], "seq": seq, "at": [3, 0]}
    page.evaluate("m => window.tell(m)", {"type": "news", "state": state})
    assert moves(page) == [[3, 0], [2, 1]], "when the answer is there the newest is sent, and nothing in between"
    assert page.get_by_role("slider", name="factor").get_attribute("aria-valuetext") == "3", "an old answer moves no slider"


def test_a_step_that_cannot_be_is_skipped_and_says_why(opened: Any):
    page = opened.page
    step(page, "ArrowRight")
    assert page.get_by_role("slider", name="block").get_attribute("aria-valuetext") == "128"
    assert moves(page) == [[2, 0]]
    assert "not possible: 96" in page.locator(".twb-why-not").first.inner_text()
    assert "96 is no block" in page.locator(".twb-sr").text_content()
    assert page.locator(".twb-no").first.inner_text() == "96"


def test_the_truth_arrives_in_bars_log_and_voice(opened: Any, live: dict[str, Any]):
    page = opened.page
    step(page, "End")
    truth = {"number": 3, "time": "12.5 us", "seconds": 1.25e-5, "ratio": "1.31", "is_right": True}
    state = {**live["state"], "seq": 1, "at": [3, 0], "truth": truth, "verdict": "DRAM-bound: made up", "surprise": "1.3 times."}
    log = {
        **live["log"],
        "rows": [*live["log"]["rows"], ["3", "block=256", "~9 us", "12.5 us", "1.31 !", "made up"]],
        "at": [*live["log"]["at"], [3, 0]],
    }
    page.evaluate("m => window.tell(m)", {"type": "news", "state": state, "log": log, "say": "run 3: 12.5 us measured"})
    assert "12.5 us" in page.locator(".twb-bars").inner_text()
    assert page.get_by_text("DRAM-bound: made up").is_visible()
    assert page.get_by_text("Prediction and measurement differ.").is_visible()
    assert page.locator(".twb-sr").text_content() == "run 3: 12.5 us measured"
    page.get_by_role("button", name="go to run 1", exact=True).click()
    assert moves(page)[-1] == [2, 0]


def test_a_candidate_chosen_in_another_view_moves_the_sliders(opened: Any):
    page = opened.page
    page.get_by_role("tab", name="map").click()
    page.wait_for_timeout(100)
    page.locator("[role=tabpanel] [tabindex='0']").first.focus()
    page.keyboard.press("ArrowUp")
    assert page.get_by_role("slider", name="factor").get_attribute("aria-valuetext") == "3"
    assert moves(page)[-1] == [0, 1]


def test_a_kernel_that_is_silent_is_named(opened: Any):
    page = opened.page
    step(page, "End")
    page.get_by_text("the notebook's kernel is busy or gone").wait_for(timeout=6000)
    step(page, "ArrowLeft")
    assert moves(page) == [[3, 0], [2, 0]], "it is asked again"


def test_the_text_of_apply_can_be_copied_where_there_is_no_cell(opened: Any):
    page = opened.page
    page.get_by_role("button", name="put this schedule into the cell").click()
    assert page.evaluate("window.sent").pop()["type"] == "apply"
    page.evaluate("m => window.tell(m)", {"type": "news", "applied": {"text": "C = f(A, block=64)", "before": "other"}})
    assert page.get_by_label("text of the new cell").input_value() == "C = f(A, block=64)"


@pytest.mark.parametrize(("width", "dark"), [(600, False), (1200, True)])
def test_it_fits_and_every_control_has_a_name(opened: Any, serious: Any, width: int, dark: bool):
    page = opened.page
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if dark else "light")
    page.wait_for_timeout(100)
    assert serious(page, "main") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    named = "n => n.ariaLabel || n.textContent || n.labels?.[0]?.textContent"
    names = page.evaluate(f"[...document.querySelectorAll('main button, main input, main textarea')].map({named})")
    assert all(names)
    assert page.get_by_role("status").count() == 1, "one line speaks"


def test_a_tab_that_was_a_word_becomes_the_view_it_stands_for(opened: Any, live: dict[str, Any]):
    page = opened.page
    page.get_by_role("tab", name="source").click()
    assert page.evaluate("window.sent").pop() == {"type": "tab", "tab": "source"}
    assert page.get_by_role("tabpanel").get_by_text("shown when it is opened").first.is_visible()
    scene = next(v for v in live["views"] if v["tab"] == "map")
    page.evaluate("m => window.tell(m)", {"type": "news", "views": [{**scene, "tab": "source"}], "place": live["state"]["at"]})
    assert page.get_by_role("tabpanel").get_by_text("shown when it is opened").count() == 0
    assert page.get_by_role("tabpanel").locator("svg").count() >= 1
    assert opened.errors == []

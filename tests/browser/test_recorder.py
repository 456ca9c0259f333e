"""The flight recorder, the error map and predict-first: scrubbed by keyboard and pointer, guessed in a real JupyterLab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileworkbench.kernels.attention import Schedule, attention
from tileworkbench.notebook.flight import fly
from tileworkbench.notebook.offline import document
from tileworkbench.views.error_map import error_map
from tileworkbench.views.recorder import Recorder

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((1, 1, 32, 8)).astype(np.float32) for _ in range(3)]
    return fly(attention(1, 1, 32, 8, causal=True, schedule=Schedule(8, 8)), *inputs)


@pytest.fixture
def opened(watched: Any) -> Open:
    def show(*views: Any, theme: str = "light") -> Any:
        page = watched.page
        page.set_viewport_size({"width": 1150, "height": 900})
        page.set_content(document([v.live() for v in views], theme=theme))
        page.locator(".twb").first.wait_for()
        return page

    return show


def value(page: Any, name: str) -> str:
    return str(page.get_by_role("slider", name=name).get_attribute("aria-valuetext"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_recorder_scrubs_by_keyboard(recorder: Recorder, opened: Open, watched: Any, serious: Any, theme: str) -> None:
    page = opened(recorder, theme=theme)
    block = page.get_by_role("slider", name="query block")
    block.wait_for()
    assert page.get_by_role("slider").count() == 3
    block.focus()
    page.keyboard.press("Home")
    assert value(page, "query block").startswith("block 0: Q[24:32")
    page.get_by_role("slider", name="key block").focus()
    page.keyboard.press("End")
    assert value(page, "key block") == "after the loop"
    page.keyboard.press("ArrowLeft")
    assert value(page, "key block") == "step = 3: K[24:32, 0:8]"
    page.get_by_role("slider", name="operation").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert value(page, "operation").startswith("2. gemm")
    assert "2. gemm" in page.locator("[role=status]").inner_text(), "a screen reader hears where it stands"
    assert page.locator("svg text", has_text="written now").count() == 1
    assert serious(page, ".twb") == [] and watched.errors == [] and watched.asked == []


def test_the_map_and_the_buttons_move_it(recorder: Recorder, opened: Open, watched: Any) -> None:
    page = opened(recorder)
    page.locator("[data-key='pair:2:1']").first.click()
    assert value(page, "query block").startswith("block 2")
    assert value(page, "key block").startswith("step = 1")
    page.locator("[data-key='pair:2:3']").first.click()  # skipped by the causal walk: nowhere to go
    assert value(page, "key block").startswith("step = 1")
    before = value(page, "operation")
    page.get_by_role("button", name="next operation").click()
    assert value(page, "operation") != before
    page.get_by_role("button", name="previous operation").click()
    assert value(page, "operation") == before
    play = page.get_by_role("button", name="play")
    play.click()
    page.wait_for_function("before => document.querySelectorAll('input[type=range]')[2].getAttribute('aria-valuetext') !== before", arg=before)
    page.get_by_role("button", name="pause").click()
    assert watched.errors == []


def test_fewer_keys_for_another_block(recorder: Recorder, opened: Open) -> None:
    """The last block of queries of this kernel has one key tile: its slider shrinks, and the place stays inside."""
    page = opened(recorder)
    page.get_by_role("slider", name="query block").focus()
    page.keyboard.press("End")
    assert page.get_by_role("slider", name="key block").get_attribute("max") == "2"  # before, one step, after


def test_the_error_map_switches(opened: Open, watched: Any, serious: Any) -> None:
    want = np.ones((8, 8))
    got = want.copy()
    got[0, 0] = 2
    page = opened(error_map({"as written": want, "no rescale": got}, want, tile=(4, 4)))
    switch = page.get_by_role("slider", name="show")
    switch.focus()
    page.keyboard.press("End")
    assert switch.get_attribute("aria-valuetext") == "no rescale"
    assert page.locator("svg text", has_text="1 of 4 tiles wrong").count() == 1
    assert page.locator("svg text", has_text="0 of 4 tiles wrong").count() == 0
    assert serious(page, ".twb") == [] and watched.errors == []


def test_a_guess_reveals_the_number(lab: Any, watched: Any, serious: Any) -> None:
    page = watched.page
    cell = "from tileworkbench.notebook.predict import predict_first\npredict_first(4194304, 'How many bytes?', unit='B')"
    lab.open(page, "predict.ipynb", ("%load_ext tileworkbench", cell))
    lab.run_all(page)
    form = page.locator(".jp-OutputArea-output .twb").last
    field = form.get_by_role("textbox", name="your guess (B)")
    field.wait_for(timeout=120_000)
    assert "4.194" not in form.inner_text()
    assert serious(page, ".twb") == []
    field.fill("lots")
    page.keyboard.press("Enter")
    form.get_by_role("alert").wait_for()
    assert "null" not in form.locator("div").last.inner_text()
    form.get_by_role("textbox").fill("1 MB")
    page.keyboard.press("Enter")
    form.locator("svg text", has_text="It is 4.194 MB; you said 1 MB").wait_for()
    assert watched.errors == []

"""Every lesson in a real JupyterLab, the network off: run all, then turn what it shows by pointer and keyboard. One opened page for each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LESSONS = {path.stem[:2]: path.name for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
SLOW_MS = 180_000
FAILED = "[data-mime-type='application/vnd.jupyter.stderr']"
UNRUN = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].filter(n => !/\\d/.test(n.textContent)).length"


@pytest.fixture(scope="module")
def lesson(request: pytest.FixtureRequest, browser: Any, lab: Any, watch: Any) -> Iterator[Any]:
    """A lesson, opened and run once for all its tests: pytest runs these one after another, since they ask for the same parameter."""
    if request.param not in LESSONS:
        pytest.skip(f"there is no lesson {request.param}")
    seen = watch(browser.new_page(viewport={"width": 1280, "height": 900}))
    try:
        lab.open(seen.page, LESSONS[request.param])
        lab.run_all(seen.page, timeout_s=600)
        yield seen
    finally:
        seen.page.context.close()
        lab.stop_kernels()


def of_lesson(*numbers: str) -> pytest.MarkDecorator:
    """A test of these lessons, each of which it is given as `lesson`."""
    return pytest.mark.parametrize("lesson", numbers, indirect=True)


def cell_with(page: Any, code: str) -> Any:
    """The code cell that holds this text."""
    cell = page.locator(".jp-CodeCell").filter(has=page.locator(".cm-content", has_text=code)).first
    cell.scroll_into_view_if_needed()
    return cell


def view_of(page: Any, code: str) -> Any:
    """The live view under that cell."""
    view = cell_with(page, code).locator(".twb").first
    view.wait_for(timeout=SLOW_MS)
    view.scroll_into_view_if_needed()
    return view


def walk(page: Any, view: Any, to: str) -> None:
    """Move by arrow keys along the marks of a picture until the key of the focused one begins with `to`."""
    view.locator("svg [tabindex='0']").first.focus()
    for _ in range(view.locator("svg [role=button]").count()):
        if str(page.evaluate("document.activeElement.dataset.key ?? ''")).startswith(to):
            return
        page.keyboard.press("ArrowRight")
    raise AssertionError(f"the arrow keys reach no {to}")


@of_lesson(*sorted(LESSONS))
def test_a_lesson_runs_and_is_live(lesson: Any, serious: Any) -> None:
    """No cell fails, no script of ours fails, nothing is asked of a network, and what is shown is live and can be read."""
    page = lesson.page
    assert page.locator(FAILED).all_inner_texts() == []
    assert page.evaluate(UNRUN) == 0
    page.locator(".jp-OutputArea-output .twb").first.wait_for(state="attached", timeout=SLOW_MS)
    assert serious(page, ".twb") == []
    assert (lesson.errors, lesson.asked) == ([], [])


# ---------------------------------------------------------------------------------------------- 4. layouts
@of_lesson("04")
def test_a_layout_cell_lights_its_thread(lesson: Any) -> None:
    """Pointing at a cell of an instruction's map names its thread and registers, and lights them in all three tiles."""
    view = view_of(lesson.page, "layout_view(mma)")
    tile = view.get_by_role("application").nth(2)
    tile.hover(position={"x": 34 + 12, "y": 20 + 7})
    status = view.locator(".twb-value", has_text="Lit:")
    status.wait_for()
    assert re.search(r"row 0, column 0, .*thread 0", status.inner_text())
    assert "cells of thread 0" in status.inner_text()
    tile.focus()
    lesson.page.keyboard.press("ArrowDown")
    lesson.page.keyboard.press("ArrowRight")
    assert re.search(r"row 1, column 1, .*thread 4", status.inner_text())
    lesson.page.keyboard.press("Enter")
    view.get_by_role("region", name="thread 4", exact=False).wait_for()
    lesson.page.keyboard.press("Escape")
    assert lesson.errors == []


@of_lesson("04")
def test_the_wavefronts_scrub(lesson: Any) -> None:
    """Each wavefront of the worst read serves one lane; the arrow keys go from one to the next, and it is said."""
    view = view_of(lesson.page, "worst_request(read, tile.plain)")
    slider = view.get_by_role("slider", name="wavefront")
    assert slider.get_attribute("max") == "32", "all of them, then one by one"
    slider.focus()
    before = view.locator("svg").first.inner_html()
    lesson.page.keyboard.press("ArrowRight")
    assert view.locator("svg").first.inner_html() != before
    assert slider.get_attribute("aria-valuetext") in view.get_by_role("status").inner_text()
    assert lesson.errors == []


# ---------------------------------------------------------------------------------------------- 5. roofline
@of_lesson("05")
def test_crumbs_of_a_roofline_by_keyboard(lesson: Any) -> None:
    """Earlier runs are reached by arrow keys; each says what it reached, Enter shows how its schedule differs, Escape closes and comes back."""
    page, view = lesson.page, view_of(lesson.page, "Roofline.of(*reports)")
    walk(page, view, "crumb:1")
    tip = view.get_by_role("tooltip")
    assert tip.inner_text().startswith("Run 1:")
    assert "BM was 16" in tip.inner_text()
    walk(page, view, "crumb:2")
    assert tip.inner_text().startswith("Run 2:")
    page.keyboard.press("Enter")
    details = view.locator(".twb-details")
    details.wait_for()
    assert "BM" in details.inner_text()
    assert view.locator("svg .twb-lit").count() > 0
    details.get_by_role("button", name="close").press("Escape")
    assert view.locator(".twb-details").count() == 0
    assert page.evaluate("document.activeElement.dataset.key") == "crumb:2"
    assert lesson.errors == []


# ---------------------------------------------------------------------------------------------- 6. attention
@of_lesson("06")
def test_the_flight_recorder_scrubs_on_both_axes(lesson: Any) -> None:
    """Query block and key block by arrow keys: tiles change, and so do the bytes so far."""
    page, view = lesson.page, view_of(lesson.page, "flight = fly(")
    queries, keys = (view.get_by_role("slider", name=name) for name in ("query block", "key block"))
    queries.wait_for(timeout=SLOW_MS)

    def shown() -> tuple[list[str], list[str]]:
        """(what the tiles hold, bytes so far by level)."""
        words = view.locator("svg text").all_text_contents()
        return [w for w in words if "mean" in w], [w for w in words if re.fullmatch(r"~?[\d.]+ [kMG]?B", w)]

    queries.focus()
    page.keyboard.press("Home")
    first = shown()
    page.keyboard.press("ArrowRight")
    assert str(queries.get_attribute("aria-valuetext")).startswith("block 1: Q[8:16")
    assert view.locator("svg text", has_text="m, the running maximum").count() >= 1
    second = shown()
    assert second[0] != first[0] and second[1] != first[1]
    keys.focus()
    page.keyboard.press("Home")
    early = shown()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    late = shown()
    assert late[0] != early[0] and late[1] != early[1]
    assert keys.get_attribute("aria-valuetext") in view.get_by_role("status").inner_text()
    assert len(late[1]) >= 3, "registers or shared memory, caches, DRAM"
    assert lesson.errors == []


@of_lesson("06")
def test_a_fault_shows_by_tile(lesson: Any) -> None:
    """The error map of a kernel that does not rescale has wrong tiles where the right one has none."""
    page = lesson.page
    view = view_of(page, "broken = error_map(")
    switch = view.get_by_role("slider", name="show")
    switch.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert switch.get_attribute("aria-valuetext") == "as written"
    assert view.locator("svg text", has_text="0 of 16 tiles wrong").count() == 1
    page.keyboard.press("ArrowRight")
    assert switch.get_attribute("aria-valuetext") == "no rescale"
    assert view.locator("svg text", has_text="16 of 16 tiles wrong").count() == 1


# ---------------------------------------------------------------------------------------------- 7. tuning
def marks(view: Any, group: str) -> str:
    """The marks of one group in the picture: where the ghost, or the truth, stands."""
    return str(view.evaluate(f"n => [...n.querySelectorAll('svg [data-group={group}]')].map(m => m.outerHTML).join('')"))


@of_lesson("07")
def test_a_slider_of_the_workbench(lesson: Any) -> None:
    """A step moves the ghost before any answer; then the kernel is compiled and run, the solid marker stands, and the log has a run more."""
    page, view = lesson.page, view_of(lesson.page, "bench = workbench(")
    rows, columns = (view.get_by_role("slider", name=name) for name in ("BM", "BN"))
    columns.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    view.locator("svg [data-group=truth]").first.wait_for(state="attached", timeout=SLOW_MS)
    view.locator(".twb-status:not(.twb-busy)", has_text="run ").wait_for(timeout=SLOW_MS)
    before, ran = marks(view, "truth"), view.get_by_role("button", name="go to run").count()
    ghost = marks(view, "ghost")
    rows.focus()
    # what the page shows at once, before it gives way to any message
    moved = rows.evaluate("""n => {
      const view = n.closest(".twb"), all = (group) => [...view.querySelectorAll(`svg [data-group=${group}]`)].map((m) => m.outerHTML).join("");
      n.value = n.max;
      n.dispatchEvent(new Event("input", { bubbles: true }));
      return [all("ghost"), all("truth")];
    }""")
    assert moved[0] not in ("", ghost), "the ghost is where the slider is"
    assert moved[1] == "", "no measured marker where nothing has run"
    assert rows.get_attribute("aria-valuetext") == "128"
    view.locator("svg [data-group=truth]").first.wait_for(state="attached", timeout=SLOW_MS)
    assert marks(view, "truth") != before
    assert view.get_by_role("button", name="go to run").count() == ran + 1
    assert lesson.errors == []


@of_lesson("07")
def test_a_search_fills_the_log_until_it_is_stopped(lesson: Any) -> None:
    """The search runs beside the notebook; stop ends it, and what has finished stays in the log and on the map."""
    view = view_of(lesson.page, "bench = workbench(")
    ran = view.get_by_role("button", name="go to run").count()
    view.get_by_role("button", name="try every position and keep the fastest").click()
    view.get_by_role("progressbar", name="search").wait_for(timeout=SLOW_MS)
    lesson.page.wait_for_function("document.querySelector('progress')?.value >= 1", timeout=SLOW_MS)
    view.get_by_role("button", name="stop the search").click()
    view.get_by_text(re.compile(r"stopped: \d+ of \d+")).wait_for(timeout=SLOW_MS)
    assert view.get_by_role("button", name="go to run").count() > ran
    view.get_by_role("tab", name="map").click()
    view.locator(".twb-knob").wait_for(timeout=SLOW_MS)
    view.get_by_role("tab", name="roofline").click()
    assert lesson.errors == []


@of_lesson("07")
def test_apply_puts_the_schedule_into_words(lesson: Any) -> None:
    """The workbench was made by a call, not by a cell with the kernel: the text to run is offered, ready to be copied."""
    view = view_of(lesson.page, "bench = workbench(")
    view.get_by_role("button", name="put this schedule into the cell").click()
    text = view.get_by_label("text of the new cell")
    text.wait_for(timeout=SLOW_MS)
    assert re.search(r"matmul\(A, B, .*BM=\d+", text.input_value())
    view.get_by_role("button", name="close the text").click()
    assert lesson.errors == []


# ---------------------------------------------------------------------------------------------- export
@of_lesson("04")
def test_a_run_lesson_exports(lesson: Any, lab: Any, watched: Any, serious: Any) -> None:
    """What was run in the notebook and saved becomes an offline page whose views answer to hover, without running anything again."""
    lesson.page.locator(".jp-MarkdownCell").first.click()
    lesson.page.keyboard.press("Control+s")
    lesson.page.wait_for_function("!document.querySelector('.jp-mod-dirty')", timeout=SLOW_MS)
    command = [sys.executable, "-m", "nbconvert", "--to", "tile_html", "--output=exported.html", LESSONS["04"]]
    done = subprocess.run(command, cwd=lab.folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    page = watched.page
    page.goto((lab.folder / "exported.html").as_uri())
    view = page.locator(".twb").filter(has=page.get_by_role("application")).first
    view.wait_for(timeout=SLOW_MS)
    view.get_by_role("application").first.hover(position={"x": 34 + 12, "y": 20 + 7})
    view.locator(".twb-value", has_text="row 0, column 0").wait_for()
    assert serious(page, ".twb") == []
    assert (watched.errors, watched.asked) == ([], [])

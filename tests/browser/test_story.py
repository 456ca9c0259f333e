"""A reader's story in a real JupyterLab: a panel by keyboard alone, in both themes and two widths; an error, an interrupt, a restarted kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from product_cell import KERNEL, SETUP

SLOW_MS = 180_000
WRONG = """\
%%tile
@tileworkbench.jit
def wrong(A):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), "float32")
    B = T.empty((M, N), "float32")
    with T.Kernel(M) as bx:
        row = T.alloc_shared((32,), "float32")
        T.copy(A[bx, 0], row)
        T.gemm(row, row, row)
    return B
wrong(A)
"""
BENCH = """\
bench = tileworkbench.workbench(matmul, (A, B), block_M=[16, 32, 64, 128, 256], block_N=[16, 32, 64, 128, 256], store=None)
bench
"""
SEARCH = "found = bench.search()\nprint('now', found, len(bench.log))"
FAILED = "[data-mime-type='application/vnd.jupyter.stderr']"
FOCUS = "document.activeElement"
CONTROLS = """v => [...v.querySelectorAll("button, input, select, textarea, summary, [tabindex='0']")].filter(n =>
  !n.disabled && n.tabIndex >= 0 && n.checkVisibility()).length"""


@pytest.fixture(scope="module")
def panel(browser: Any, lab: Any, watch: Any) -> Iterator[Any]:
    """A notebook with one panel on a named machine, and a last cell that is wrong."""
    seen = watch(browser.new_page(viewport={"width": 1280, "height": 900}))
    lab.open(seen.page, "story.ipynb", (SETUP, "%%tile --check 'A @ B' --show all --machine reference\n" + KERNEL, WRONG))
    lab.run_all(seen.page)
    seen.page.locator(".twb").first.wait_for(timeout=SLOW_MS)
    yield seen
    seen.page.context.close()


def view(page: Any) -> Any:
    shown = page.locator(".jp-OutputArea-output .twb").first
    shown.scroll_into_view_if_needed()
    return shown


def put_theme(page: Any, name: str) -> None:
    """Choose a theme in the menu, as a reader does while views are on the page."""
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    page.get_by_text("Theme", exact=True).first.hover()
    page.get_by_text(f"JupyterLab {name.title()}", exact=True).first.click()
    page.locator(f".twb[data-theme={name}]").first.wait_for(state="attached", timeout=SLOW_MS)


# ---------------------------------------------------------------------------------------------- a panel
def test_tabs_and_the_memory_chart_by_keyboard(panel: Any) -> None:
    """Arrow keys change the tab; Enter on a link of the memory chart opens its bytes; Escape closes them and the focus is back on the link."""
    page, shown = panel.page, view(panel.page)
    tabs = shown.get_by_role("tab")
    names = tabs.all_inner_texts()
    assert names[:2] == ["roofline", "traffic"], names
    tabs.first.focus()
    for name in names[1:]:
        page.keyboard.press("ArrowRight")
        assert page.evaluate(f"{FOCUS}.textContent") == name
        assert shown.get_by_role("tab", selected=True).inner_text() == name
        assert shown.get_by_role("tabpanel").inner_text().strip()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    shown.locator("svg [tabindex='0']").first.focus()
    for _ in range(40):
        if str(page.evaluate(f"{FOCUS}.dataset.key")).startswith("level:"):
            break
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    shown.locator(".twb-details").wait_for()
    key = page.evaluate(f"{FOCUS}.dataset.key")
    words = shown.locator(".twb-details").inner_text()
    assert all(word in words for word in ("buffer", "line", "step")), words
    shown.locator(".twb-details button").last.press("Escape")
    assert shown.locator(".twb-details").count() == 0
    assert page.evaluate(f"{FOCUS}.dataset.key") == key
    assert panel.errors == []


def test_a_wrong_cell_shows_one_short_error(panel: Any) -> None:
    """The error names the line of the cell and points at it; no frames of ours stand around it."""
    found = panel.page.locator(FAILED)
    assert found.count() == 1
    text = found.first.text_content()
    assert "Cell In[3]:10" in text and "T.gemm(row, row, row)" in text and "^" in text
    assert len(text.splitlines()) <= 12, text
    assert "site-packages" not in text and "/tileworkbench/" not in text


def test_tab_reaches_every_control(panel: Any) -> None:
    """From the cell, Tab alone visits every control of its panel."""
    page, shown = panel.page, view(panel.page)
    shown.get_by_role("tab").first.click()
    wanted = shown.evaluate(CONTROLS)
    page.locator(".jp-CodeCell").nth(1).evaluate("n => n.focus()")
    reached = set()
    for _ in range(40 + wanted):
        page.keyboard.press("Tab")
        if (at := shown.evaluate("v => [...v.querySelectorAll('*')].indexOf(document.activeElement)")) >= 0:
            reached.add(at)
        elif reached:
            break
    assert len(reached) == wanted >= 3


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_tab_can_be_read_in_both_themes(panel: Any, serious: Any, unreadable: Any, theme: str) -> None:
    """The theme changes under the reader's hand: axe finds nothing serious, and words in pictures stand out from what is under them."""
    page, shown = panel.page, view(panel.page)
    put_theme(page, theme)
    for tab in shown.get_by_role("tab").all():
        tab.click()
        assert serious(page, ".twb") == [], tab.inner_text()
        assert unreadable(page, ".twb") == [], tab.inner_text()
    assert panel.errors == []


@pytest.mark.parametrize("width", [600, 1280])
def test_a_panel_fits(panel: Any, width: int) -> None:
    """No tab is wider than the output that holds it: what is wide scrolls in a place of its own."""
    page = panel.page
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(400)
    shown = view(page)
    for tab in shown.get_by_role("tab").all():
        tab.click()
        room = "n => { const out = n.closest('.jp-OutputArea-output'); return [out.scrollWidth, out.clientWidth, n.scrollWidth, n.clientWidth]; }"
        outer, inner, wide, has = shown.evaluate(room)
        assert outer <= inner + 1 and wide <= has + 1, (tab.inner_text(), outer, inner, wide, has)
    page.set_viewport_size({"width": 1280, "height": 900})


# ---------------------------------------------------------------------------------------------- a workbench
@pytest.fixture
def opened(browser: Any, lab: Any, watch: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """`opened(cell)`: a notebook of the test's own with a workbench of 25 positions, then that cell."""
    seen = watch(browser.new_page(viewport={"width": 1280, "height": 900}))

    def show(*cells: str) -> Any:
        lab.open(seen.page, f"{request.node.originalname}.ipynb", (SETUP, "%%tile --show none\n" + KERNEL, BENCH, *cells))
        return seen

    yield show
    seen.page.context.close()


def test_an_interrupted_search_keeps_what_it_found(opened: Any, lab: Any) -> None:
    """Interrupt the kernel while a search runs: the cell ends without an error, and finished results stay in the log."""
    bench = opened(SEARCH)
    page = bench.page
    with suppress(AssertionError):
        lab.run_all(page, timeout_s=1)  # it is busy with the search
    shown = page.locator(".jp-OutputArea-output .twb").last
    progress = shown.get_by_role("progressbar", name="search")
    progress.wait_for(timeout=SLOW_MS)
    page.wait_for_function("document.querySelector('progress')?.value >= 2", timeout=SLOW_MS)
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_text("Interrupt Kernel", exact=True).click()
    said = page.locator(".jp-OutputArea-output pre", has_text="now stopped")
    said.wait_for(state="attached", timeout=SLOW_MS)
    assert page.locator(FAILED).count() == 0
    assert int(said.text_content().split()[-1]) >= 2
    assert shown.get_by_role("button", name="go to run 2", exact=True).count() == 1
    assert bench.errors == []


def test_a_kernel_that_was_restarted(opened: Any, lab: Any) -> None:
    """The workbench stays on the page: it says that nobody answers, the ghost still follows the hand, and nothing throws."""
    bench = opened()
    page = bench.page
    lab.run_all(page)
    page.locator(".jp-OutputArea-output .twb").last.wait_for(timeout=SLOW_MS)
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_text("Restart Kernel…", exact=True).click()
    page.get_by_role("button", name="Confirm Kernel Restart").click()
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for(timeout=SLOW_MS)
    shown = page.locator(".jp-OutputArea-output .twb").last
    rows = shown.get_by_role("slider", name="block_M")
    rows.focus()
    page.keyboard.press("Home")
    before = shown.locator(".twb-bars").inner_text()
    page.keyboard.press("End")
    assert shown.locator(".twb-bars").inner_text() != before
    shown.get_by_text("busy or gone").wait_for(timeout=60_000)
    shown.get_by_role("button", name="try every position and keep the fastest").click()
    shown.get_by_role("tab", name="traffic").click()
    assert bench.errors == []

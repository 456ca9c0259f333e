"""The workbench in a real JupyterLab: drag a slider, see the ghost move at once and the measured marker follow."""

from __future__ import annotations

from typing import Any

from product_cell import KERNEL, SETUP

# one position of its sliders cannot work
PICKY = KERNEL.replace("    with T.Kernel", '    assert block_M != 48, "48 rows do not divide the matrix"\n    with T.Kernel', 1)
TUNE = '%%tile --tune "block_M=32,48,64,128; block_N=32,64,128" --check "A @ B"\n'


def test_a_slider_moves_the_ghost_and_then_the_measured_marker(lab: Any, watched: Any, serious: Any):
    page = watched.page
    lab.open(page, "bench.ipynb", (SETUP, TUNE + PICKY))
    lab.run_all(page)
    bench = page.locator(".jp-OutputArea-output .twb").last
    rows = bench.get_by_role("slider", name="block_M")
    rows.wait_for(timeout=120_000)
    bench.get_by_text("run 1").first.wait_for(timeout=120_000)
    rows.focus()
    page.keyboard.press("End")
    assert rows.get_attribute("aria-valuetext") == "128"
    bench.locator("svg [data-group=ghost]").first.wait_for(state="attached")
    bench.locator(".twb-status", has_text="run 2").wait_for(timeout=120_000)
    bench.locator("svg [data-group=truth]").first.wait_for(state="attached")
    assert bench.get_by_role("button", name="go to run 2", exact=True).count() == 1
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert rows.get_attribute("aria-valuetext") == "32"
    assert "48 rows do not divide" in bench.locator(".twb-why-not").first.inner_text()
    assert serious(page, ".twb") == []
    bench.get_by_role("button", name="put this schedule into the cell").click()
    bench.locator("span", has_text="run it again (undo works there)").wait_for(timeout=60_000)
    assert "def matmul(A, B, block_M=32, block_N=64)" in page.locator(".jp-Cell").nth(1).locator(".cm-content").inner_text()
    assert watched.errors == []
    assert watched.asked == []

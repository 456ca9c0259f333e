"""The layout view in a real browser, from an offline page: hover, keys, zoom, colouring, themes, the time it takes to draw."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tileworkbench.language as T
from tileworkbench.base.machine import find_machine
from tileworkbench.kernels import gemm
from tileworkbench.layout import atom, linear, swizzled
from tileworkbench.model.tile_accesses import shared_tile
from tileworkbench.notebook.live import bundle_text
from tileworkbench.notebook.offline import document
from tileworkbench.views.gallery import Gallery
from tileworkbench.views.layout import LayoutView, layout_view
from tileworkbench.views.layout_finder import finder_view

MMA = atom("SM80_16x8x16_F32F16F16F32_TN")


@T.prim_func
def TRANSPOSE(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
    with T.Kernel(1, threads=128):
        t = T.alloc_shared((32, 32), "float32")
        T.copy(A, t)
        for i, j in T.Parallel(32, 32):
            B[i, j] = t[j, i]


class Shown:
    """One view on a page of its own, with no network."""

    def __init__(self, browser: Any, place: Path, view: LayoutView, theme: str = "light") -> None:
        place.write_text(document([view.live()], theme=theme), encoding="utf-8")
        self.errors: list[str] = []
        self.page = browser.new_page(viewport={"width": 1000, "height": 1000})
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(place.as_uri())
        self.page.wait_for_selector("[data-ready]")
        self.canvases = self.page.locator("canvas[role=application]")

    @property
    def status(self) -> str:
        return str(self.page.locator(".twb-value").inner_text())

    def point(self, panel: int, x: float, y: float) -> None:
        box = self.canvases.nth(panel).bounding_box()
        self.page.mouse.move(box["x"] + x, box["y"] + y)

    def pixel(self, panel: int, x: float, y: float) -> list[int]:
        """The colour (r, g, b) at a point of a canvas."""
        script = "([p, x, y]) => { const c = document.querySelectorAll('canvas[role=application]')[p], r = devicePixelRatio;"
        script += " return [...c.getContext('2d').getImageData(x * r, y * r, 1, 1).data].slice(0, 3); }"
        return list(self.page.evaluate(script, [panel, x, y]))


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Any]:
    shown: list[Shown] = []

    def make(view: LayoutView, theme: str = "light") -> Shown:
        shown.append(Shown(browser, tmp_path / "page.html", view, theme))
        return shown[-1]

    yield make
    for one in shown:
        one.page.close()
        assert one.errors == []


def test_hover_lights_the_thread_in_every_operand(show: Any) -> None:
    """A has 16 columns; the middle of cell (1, 3) lies 3.5 cells right of the row numbers."""
    shown = show(layout_view(MMA))
    names = [shown.canvases.nth(i).get_attribute("aria-label").partition(":")[0] for i in range(3)]
    assert names == ["A (M x K)", "B (K x N)", "C (M x N)"]
    width = (shown.canvases.first.bounding_box()["width"] - 36) / 16
    shown.point(0, 34 + 3.5 * width, 20 + 1.5 * 14)
    assert shown.status == "A (M x K), row 1, column 3, thread 5, register 1. Lit: 16 cells of thread 5."
    shown.page.mouse.move(1, 1)
    assert "Point at a cell" in shown.status


def test_arrow_keys_walk_and_enter_lists_what_the_thread_holds(show: Any) -> None:
    shown = show(layout_view(MMA, operand="C"))
    shown.page.keyboard.press("Tab")
    for _ in range(20):
        if shown.page.evaluate("document.activeElement.getAttribute('role')") == "application":
            break
        shown.page.keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "End", "Shift+ArrowDown"):
        shown.page.keyboard.press(key)
    assert shown.status.startswith("C (M x N), row 9, column 7, thread 7, register 3.")
    assert MMA.c.at(9, 7) == {"thread": 7, "register": 3}
    assert "row 9, column 7" in shown.page.locator("[role=status]").inner_text()
    shown.page.keyboard.press("Enter")
    rows = shown.page.locator(".twb-details tbody tr").all_inner_texts()
    assert [r.split("\t")[1:3] for r in rows] == [["(1, 6)", "0"], ["(1, 7)", "1"], ["(9, 6)", "2"], ["(9, 7)", "3"]]
    shown.page.keyboard.press("Escape")
    assert shown.page.locator(".twb-details").count() == 0


def test_the_colouring_can_be_chosen(show: Any) -> None:
    shown = show(layout_view(gemm.program(128, 128, 128, 64, 64, 64, 1, "float32", "float32", False), "acc", machine=find_machine("reference")))
    assert shown.page.locator("select option").all_inner_texts() == ["lane", "vector", "line", "set"]
    before = [shown.pixel(0, 34 + 4 * i, 25) for i in range(8)]
    shown.page.get_by_label("colour by").select_option("lane")
    after = [shown.pixel(0, 34 + 4 * i, 25) for i in range(8)]
    assert before != after and "L1: 64 sets of 12 lines" in shown.page.locator("body").inner_text()
    shown.point(0, 34 + 3, 20 + 3)
    assert "line 0" in shown.status and "set 0" in shown.status and "address 0" in shown.status and "gemm.py:" in shown.status


def test_zoom_brings_numbers_into_cells_and_can_be_undone(show: Any) -> None:
    shown = show(layout_view(swizzled(64, 64, bits=16)))
    canvas = shown.canvases.first
    canvas.focus()
    size = shown.page.evaluate("document.querySelector('canvas[role=application]').parentElement.style.width")
    for _ in range(4):
        shown.page.keyboard.press("+")
    assert float(shown.page.evaluate("document.querySelector('canvas[role=application]').parentElement.style.width")[:-2]) > 3 * float(size[:-2])
    assert canvas.bounding_box()["width"] <= 700, "what is drawn stays inside the view"
    for _ in range(70):
        shown.page.keyboard.press("ArrowRight")
    assert "column 63" in shown.status and "bank" in shown.status
    assert shown.page.evaluate("document.querySelector('canvas[role=application]').parentElement.parentElement.scrollLeft") > 0
    shown.page.keyboard.press("0")
    assert shown.page.evaluate("document.querySelector('canvas[role=application]').parentElement.style.width") == size


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_large_tile_is_drawn_at_once_in_both_themes(show: Any, theme: str) -> None:
    """256 x 128 cells; the budget is 50 ms, and here ten times that, since another machine may be slow."""
    shown = show(layout_view(swizzled(256, 128, bits=16)), theme)
    taken = float(shown.page.evaluate("document.querySelector('[data-draw-ms]').dataset.drawMs"))
    assert 0 <= taken < 500
    ground = shown.pixel(0, 2, 2)
    assert sum(ground) > 700 if theme == "light" else sum(ground) < 120


def test_an_enormous_tile_says_that_it_is_sampled(show: Any) -> None:
    shown = show(layout_view(linear(8192, 1000, bits=16)))
    assert "sampled: every 32nd row and every 4th column" in shown.page.locator("body").inner_text()
    shown.canvases.first.focus()
    shown.page.keyboard.press("ArrowDown")
    assert "row 32, column 0" in shown.status and "address 64000" in shown.status


def test_a_layout_is_applied_by_a_button(watched: Any, tmp_path: Path) -> None:
    """The finder's button asks Python; the answer goes into the cell that reads as it did, or is shown to be copied. Offline there is no button."""
    found = shared_tile(TRANSPOSE, "t").find()
    live = finder_view(found).live()
    script = bundle_text("scene").replace("export default { render };", "")
    model = """const heard = {}, sent = window.sent = [], values = { live: LIVE, selection: {}, group: "g", static_id: "" };
    window.tell = (message) => heard["msg:custom"](message);
    const model = { get: (n) => values[n], set() {}, save_changes() {}, off() {}, on: (e, f) => { heard[e] = f; }, send: (m) => sent.push(m) };
    render({ model, el: document.querySelector("main") });"""
    page = watched.page
    cells = "".join(f"<div class='jp-Cell'><div class='cm-content'></div>{more}</div>" for more in ("", "<main></main>"))
    page.set_content(f"<!doctype html><html lang='en'><title>t</title><body>{cells}</body></html>")
    page.evaluate("""() => { window.texts = ["the kernel", "finder_view(found)"];
      document.querySelectorAll(".cm-content").forEach((node, i) => { node.cmTile = { view: {
        state: { doc: { toString: () => texts[i], length: 1 } }, dispatch: (d) => { texts[i] = d.changes.insert; } } }; }); }""")
    page.add_script_tag(content=f"(() => {{ {script}\n{model.replace('LIVE', json.dumps(live))} }})()")
    page.get_by_role("button", name=f"write {found.best.layout.name} for t into the kernel").click()
    assert page.evaluate("window.sent") == [{"type": "apply", "buffer": "t", "layout": found.best.layout.name}]
    page.evaluate("m => window.tell(m)", {"type": "news", "applied": {"text": "the kernel, laid out", "before": "the kernel", "buffer": "t"}})
    assert page.evaluate("window.texts") == ["the kernel, laid out", "finder_view(found)"]
    assert page.get_by_text("the cell has the new layout").first.is_visible()
    page.evaluate(
        "m => window.tell(m)", {"type": "news", "applied": {"text": found.annotation, "before": "", "say": "its cell is gone", "buffer": "t"}}
    )
    assert page.get_by_label("text of the new cell").input_value() == found.annotation
    assert page.get_by_text("its cell is gone").is_visible()
    assert watched.errors == []
    (tmp_path / "page.html").write_text(document([live], theme="light"), encoding="utf-8")
    page.goto((tmp_path / "page.html").as_uri())
    page.locator("[data-twb-live] svg").first.wait_for()
    assert page.get_by_role("button", name="write").count() == 0
    tabs = Gallery([layout_view(linear(4, 4, bits=32)), finder_view(found)], ["one", "other"], "two views")
    (tmp_path / "tabs.html").write_text(document([tabs.live()], theme="dark"), encoding="utf-8")
    page.goto((tmp_path / "tabs.html").as_uri())
    page.get_by_role("tab", name="other").wait_for()
    assert page.get_by_text("two views").first.is_visible() and page.get_by_text("null").count() == 0

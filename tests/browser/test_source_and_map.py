"""The source, pass, pipeline and feasibility views on a page without a notebook: pointer, keyboard, shared selection, narrow pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tileworkbench.base.machine import find_machine
from tileworkbench.base.span import Span
from tileworkbench.kernels import gemm
from tileworkbench.model.feasibility import Axis, feasibility
from tileworkbench.notebook.offline import document
from tileworkbench.runtime.kernel import JITKernel
from tileworkbench.runtime.stages import Stage
from tileworkbench.transform.lowering import C_STEPS
from tileworkbench.views.feasibility import FeasibilityView
from tileworkbench.views.passes import pass_diff
from tileworkbench.views.pipeline import pipeline
from tileworkbench.views.twins import Twins, twins

H200 = find_machine("h200")
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def kernel() -> JITKernel:
    return gemm.gemm(128, 128, 128, schedule=gemm.Schedule(64, 64, 32, 2))


@pytest.fixture
def opened(watched: Any) -> Open:
    def show(*views: Any, theme: str = "light", width: int = 1150) -> Any:
        page = watched.page
        page.set_viewport_size({"width": width, "height": 900})
        page.set_content(document([v.live() for v in views], theme=theme))
        page.locator(".twb").first.wait_for()
        return page

    return show


def line_with(page: Any, text: str, column: int = 0) -> Any:
    return page.locator(".twb-src-list").nth(column).locator(".twb-src-line", has_text=text).first


def test_pointing_at_a_product_shows_its_instruction(opened: Open, watched: Any, serious: Any) -> None:
    """Not the first of its lines: helpers stand before the kernel, and addresses are worked out before the product."""
    span, other = Span("k.py", 4, 0, 4, 4, text="T.gemm(a, b, c)"), Span("k.py", 5, 0, 5, 4, text="T.copy(c, C)")
    moves = [f"    UMOV UR{i}, 0x1" for i in range(60)]
    code = "\n".join(["k:", *moves, "    HGMMA.64x8x16.F32 R0, gdesc[UR4]", *moves, "    STG.E [R2], R0", "    EXIT"])
    sass = Stage("SASS", "sass", code, {**dict.fromkeys(range(2, 63), (span,)), 123: (other,)}, about=("k: 40 registers a thread, nothing spilt",))
    text = "\n".join([*("// helper" for _ in range(60)), "wgmma();"])
    cuda = Stage("CUDA", "c", text, dict.fromkeys((1, 2, 61), (span,)), start=61)
    page = opened(Twins("k", (Stage("tile program", "python", "T.gemm(a, b, c)\nT.copy(c, C)", {1: (span,), 2: (other,)}, (4, 5)), cuda, sass)))
    assert "40 registers a thread" in page.locator(".twb-src-about").inner_text() and "1 tensor" in page.locator(".twb-src-about").inner_text()
    line_with(page, "T.gemm(").hover()
    top = "node.offsetTop - box.offsetTop - box.scrollTop"
    shown = f"(node) => {{ const box = node.parentElement; return {top} >= 0 && {top} < box.clientHeight; }}"
    assert line_with(page, "wgmma();", 1).evaluate(shown) and line_with(page, "HGMMA", 2).evaluate(shown)
    assert "SASS: 1 tensor, 60 other" in page.locator(".twb-src-words").inner_text()
    assert serious(page, ".twb") == [] and watched.errors == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_line_lights_its_twins(kernel: JITKernel, opened: Open, watched: Any, serious: Any, theme: str) -> None:
    page = opened(twins(kernel, kernel.report(H200)), theme=theme)
    assert page.locator(".twb-src-list").count() == 3, "program, C and assembly; the others on request"
    line_with(page, "T.gemm(").hover()
    for column in range(3):
        assert page.locator(".twb-src-list").nth(column).locator(".lit").count() > 0
    shown = page.locator(".twb-src-list").nth(1)
    assert shown.locator(".lit").first.is_visible(), "the twins come into view"
    page.get_by_role("button", name="lowered IR").click()
    assert page.locator(".twb-src-list").count() == 4
    assert page.get_by_role("button", name="copy assembly").is_visible()
    assert serious(page, ".twb") == [] and watched.errors == [] and watched.asked == []


def test_the_keyboard_walks_lines_and_stages(kernel: JITKernel, opened: Open) -> None:
    page = opened(twins(kernel, kernel.report(H200)))
    page.locator(".twb-src-list").first.focus()
    for _ in range(30):
        page.keyboard.press("ArrowDown")
        if "T.gemm(" in page.locator(".twb-src-list").first.locator(".at").inner_text():
            break
    said = page.locator(".twb [role=status]").inner_text()
    assert "FLOP" in said and "of assembly" in said
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("C, ")
    chosen = page.locator(".twb-src-list").nth(1)
    assert chosen.evaluate("n => document.getElementById(n.getAttribute('aria-activedescendant')).classList.contains('lit')")


def test_little_room_makes_tabs(kernel: JITKernel, opened: Open, serious: Any) -> None:
    page = opened(twins(kernel), width=520)
    assert page.locator(".twb-src-list").count() == 1
    page.get_by_role("tab", name="assembly").click()
    assert page.get_by_role("listbox").get_attribute("aria-label").startswith("assembly, ")
    assert serious(page, ".twb") == []


def test_choosing_a_line_lights_it_in_the_pipeline(kernel: JITKernel, opened: Open) -> None:
    page = opened(twins(kernel, machine_code=False), pipeline(kernel.report(H200), kernel.ir))
    line_with(page, "T.copy(A[").click()
    lit = page.locator("svg .twb-lit")
    assert lit.count() > 0 and lit.first.get_attribute("data-key").startswith("tile_product.py:")


def test_passes_by_keyboard(kernel: JITKernel, opened: Open, serious: Any) -> None:
    page = opened(pass_diff(kernel), theme="dark")
    page.get_by_role("listbox", name="passes").focus()
    before = [step.name for step in C_STEPS].index("place_tiles")
    for _ in C_STEPS:
        page.keyboard.press("j")
    for _ in C_STEPS[before + 1 :]:
        page.keyboard.press("k")
    assert "place_tiles" in page.locator(".twb [role=status]").inner_text()
    assert page.locator(".twb-pass-diff .add").count() > 0
    page.keyboard.press("k")
    assert page.locator(".twb-pass[aria-selected=true]").inner_text().startswith(f"{before}. ")
    assert serious(page, ".twb") == []


def test_the_map_answers_to_keys_and_to_a_hand(opened: Open, watched: Any, serious: Any) -> None:
    def build(c: Any) -> Any:
        return gemm.program(512, 512, 512, c["block_m"], c["block_n"], 64, 3, "float16", "float16", False).kernel

    sizes = (64, 128, 512)
    found = feasibility(build, Axis("block_m", sizes), Axis("block_n", sizes), machine=H200, current={"block_m": 64, "block_n": 64})
    page = opened(FeasibilityView(found))
    handle = page.locator(".twb-knob")
    handle.focus()
    page.keyboard.press("ArrowRight")
    assert "block_m 128, block_n 64" in page.locator(".twb [role=status]").inner_text()
    page.keyboard.press("End")
    assert "forbidden" in handle.get_attribute("aria-label"), "512 x 64 needs too many registers"
    page.keyboard.press("Home")
    grid = FeasibilityView(found).live()["grid"]
    box = page.locator(".twb svg").bounding_box()
    x, y = box["x"] + grid["left"] + grid["wide"] * 0.5, box["y"] + grid["top"] + grid["high"] * 2.5
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + grid["wide"], y - grid["high"], steps=4)
    page.mouse.up()
    assert "block_m 128, block_n 128" in handle.get_attribute("aria-label")
    assert serious(page, ".twb") == [] and watched.errors == []

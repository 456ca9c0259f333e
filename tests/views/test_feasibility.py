"""The feasibility map's picture: hatches with the limit's name, contours, dots, and what the browser is told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tileworkbench.model.feasibility import Axis, FeasibilityMap, Position
from tileworkbench.model.limits import Limit
from tileworkbench.views.feasibility import FeasibilityView
from tileworkbench.views.labels import clashes
from tileworkbench.views.marks import Dot, Path, Rect, Text

SIZES = (32, 64, 128, 256)


def made_up() -> FeasibilityMap:
    """Time falls with both sizes; the largest products do not fit; one position fails to compile; one was not judged."""
    m = FeasibilityMap("k", "a machine", Axis("block_m", SIZES), Axis("block_n", SIZES), {"stages": 2}, current=(64, 64))
    for x in SIZES:
        for y in SIZES:
            if x * y >= 128 * 256:
                m = m.with_position(Position(x, y, Limit("shared memory", f"{x * y // 128} KiB > 227 KiB per block")))
            elif (x, y) == (32, 32):
                m = m.with_position(Position(x, y, Limit("does not compile", "ValueError: too small")))
            elif (x, y) != (32, 256):
                m = m.with_position(Position(x, y, None, 1e-3 * (32 / x + 32 / y), {"DRAM": 1e6 * (x + y)}, "48 KiB shared"))
    m = m.with_measured({"block_m": 64, "block_n": 64}, seconds=1.5e-3).with_measured({"block_m": 128, "block_n": 64}, seconds=0.9e-3)
    return m.with_measured({"block_m": 64, "block_n": 128}, why="killed after 5 s")


@pytest.fixture
def view() -> FeasibilityView:
    return FeasibilityView(made_up())


def marks_of(view: FeasibilityView, kind: type) -> list:  # type: ignore[type-arg]  # of that kind
    return [m for m in view.scene().marks if isinstance(m, kind)]


def test_forbidden_cells_are_hatched_and_named_once_a_region(view: FeasibilityView) -> None:
    hatched = [m for m in marks_of(view, Rect) if m.hatch and m.key]
    assert len(hatched) == sum(not p.is_legal for p in view.map.positions) == 4
    assert all("forbidden, " in m.tip for m in hatched)
    outline = [m for m in marks_of(view, Path) if m.stroke == "warning"]
    assert len(outline) == 8 + 4, "around three cells in an L, and around one"
    words = [m.text for m in marks_of(view, Text)]
    assert words.count("shared memory") == 1
    assert "does not" in words and "compile" in words


def test_dots_are_runs_and_the_best_is_marked(view: FeasibilityView) -> None:
    dots = [m for m in marks_of(view, Dot) if m.tip]
    assert sum(m.shape == "circle" for m in dots) == 1 and sum(m.shape == "diamond" and not m.is_hollow for m in dots) == 1
    assert sum(m.is_hollow for m in dots) == 1, "the best predicted"
    assert [m for m in marks_of(view, Text) if m.text == "×" and "killed after 5 s" in m.tip]


def test_contours_and_words_do_not_touch(view: FeasibilityView) -> None:
    assert [m for m in marks_of(view, Path) if m.dash]
    assert not clashes(marks_of(view, Text))


def test_data_and_text_are_the_maps(view: FeasibilityView) -> None:
    data = view.data
    assert [(p["x"], p["y"], p["value"]) for p in data["positions"]] == [(p.x, p.y, view.map.value(p)) for p in view.map.positions]
    assert data["best"] == [128, 128] and data["best_measured"] == [128, 64] and data["current"] == [64, 64]
    text = str(view)
    assert "A shared memory: " in text and "[~1 ms]" in text and "measured 900 us (fastest)" in text and "failed: killed after 5 s" in text


def test_traffic_instead_of_time() -> None:
    view = FeasibilityView(replace(made_up(), metric="DRAM"))
    assert "bytes at DRAM" in str(view) and view.data["unit"] == "B"
    assert view.map.best is not None and (view.map.best.x, view.map.best.y) in ((32, 64), (64, 32))


def test_the_browser_gets_every_cell(view: FeasibilityView) -> None:
    live = view.live()
    assert len(live["cells"]) == 16 and live["current"] == [1, 1] and live["fixed"] == {"stages": 2}
    states = [c["state"] for c in live["cells"]]
    assert (states.count("forbidden"), states.count("unknown")) == (4, 1)
    assert not any(m.get("group") == "current" for m in live["scene"]["marks"]), "the handle is the browser's"
    assert len(json.dumps(live)) < 200_000


def test_an_empty_map_and_one_off_the_axes() -> None:
    empty = FeasibilityView(FeasibilityMap("", "m", Axis("a", (1,)), Axis("b", (1, 2)), current=(9, 9)))
    assert empty.live()["current"] is None and "." in str(empty) and empty.svg("dark").startswith("<svg")

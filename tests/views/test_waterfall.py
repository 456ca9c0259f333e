"""The gap waterfall: bars that add up, each with why and edit, and the measurement beside the prediction."""

from __future__ import annotations

import pytest

from tileworkbench.model.values import Measured
from tileworkbench.model.waterfall import Bar, Waterfall
from tileworkbench.views.labels import clashes
from tileworkbench.views.scene import Rect, Text
from tileworkbench.views.waterfall import WaterfallView

BARS = (
    Bar("launch", 5e-6, "one launch"),
    Bar("tail wave", 2e-4, "0.4 of the last wave idles", "choose blocks so that 264 divides their number", "pipeline"),
)
FALL = Waterfall(Bar("compute", 1e-3, "2.1 GFLOP at 2.1 TFLOP/s"), BARS)


def view(seconds: float | None = 1.5e-3) -> WaterfallView:
    return WaterfallView(FALL, Measured.of([seconds] * 3) if seconds else None, "gemm")


def test_each_bar_starts_where_the_last_one_ends() -> None:
    data = view().data
    assert [d["name"] for d in data] == ["compute", "launch", "tail wave", "predicted", "unexplained", "measured"]
    assert [d["start"] for d in data[:3]] == pytest.approx([0, 1e-3, 1.005e-3])
    assert data[2]["stop"] == pytest.approx(data[3]["seconds"]) == pytest.approx(FALL.seconds)
    assert data[4]["start"] == pytest.approx(FALL.seconds) and data[4]["stop"] == data[5]["seconds"] == 1.5e-3


def test_bars_are_drawn_in_proportion() -> None:
    scene = view().scene()
    wide = {m.key: m.width for m in scene.marks if isinstance(m, Rect) and m.key}
    assert wide["bar:tail wave"] / wide["bar:compute"] == pytest.approx(0.2)
    assert wide["bar:measured"] / wide["bar:compute"] == pytest.approx(1.5)
    assert {m.key for m in scene.marks if isinstance(m, Rect) and m.hatch} == {"bar:launch", "bar:tail wave", "bar:unexplained"}


def test_tips_and_details_say_why_and_what_to_change() -> None:
    live = view().live()
    assert ["to make it smaller", "choose blocks so that 264 divides their number"] in live["details"]["bar:tail wave"]["rows"]
    assert live["opens"] == {"bar:tail wave": "pipeline"}
    tip = next(m.tip for m in view().scene().marks if m.key == "bar:tail wave" and m.tip)
    assert tip == "tail wave: +200 us.\n0.4 of the last wave idles.\nTo make it smaller: choose blocks so that 264 divides their number."


def test_a_run_that_is_faster_than_predicted_shows_what_the_model_misses() -> None:
    rest = view(1.1e-3).data[4]
    assert rest["name"] == "faster than predicted" and rest["seconds"] < 0 and rest["stop"] < rest["start"]
    assert "9 % of the prediction" in rest["why"]


def test_without_a_run_there_is_only_the_prediction() -> None:
    assert [d["kind"] for d in view(None).data] == ["roof", "gap", "gap", "predicted"]
    assert view(None).title == "gemm: from the roof to the prediction"


def test_the_text_twin() -> None:
    assert str(view()).splitlines()[1:4] == [
        "compute         ~1 ms  2.1 GFLOP at 2.1 TFLOP/s",
        "launch          +5 us  one launch",
        "tail wave     +200 us  0.4 of the last wave idles; choose blocks so that 264 divides their number",
    ]


def test_nothing_overlaps_with_long_names_and_tiny_bars() -> None:
    bars = tuple(Bar(f"a name that is much too long {i}", 10.0**-i, "why " * 60, "edit " * 40) for i in range(3, 9))
    scene = WaterfallView(Waterfall(Bar("DRAM", 1e-3, "why"), bars), Measured.of([9e-4])).scene()
    assert clashes([m for m in scene.marks if isinstance(m, Text)]) == []
    assert all(m.x + m.width <= scene.width for m in scene.marks if isinstance(m, Rect))


def test_html_survives_without_a_picture() -> None:
    html = view().html()
    assert "<img" not in html and "width: 66.67%" in html and "+200 us" in html

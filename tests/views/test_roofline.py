"""The roofline: what it shows, that its frame stands still, and that its labels can be read."""

from __future__ import annotations

import io
import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image
from views.made_up import report

from tileworkbench.base.machine import PRESETS
from tileworkbench.views.roofline import Roofline
from tileworkbench.views.view import DARK, LIGHT


def labels(figure: Figure) -> list[Text]:
    """Every text of the chart but tick labels, axis titles and the heading."""
    return [t for t in figure.axes[0].texts if t.get_text()]


def boxes(figure: Figure) -> dict[str, tuple[float, float, float, float]]:
    out = {}
    for number, t in enumerate(labels(figure)):
        if t.get_rotation() == 0:
            b = t.get_window_extent(figure.canvas.get_renderer())  # type: ignore[attr-defined]
            out[f"{number} {t.get_text()}"] = (b.x0, b.y0, b.x1, b.y1)
    return out


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    found = boxes(figure)
    return [(a, b) for a, b in combinations(found, 2) if _touch(found[a], found[b])]


def _touch(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] - 1 and b[0] < a[2] - 1 and a[1] < b[3] - 1 and b[1] < a[3] - 1


def test_data_are_roofs_and_one_dot_for_each_level() -> None:
    data = Roofline.of(report(seconds=(0.012, 0.0125, 0.013))).data
    assert [r["level"] for r in data["roofs"]] == ["L1", "L2", "L3", "DRAM"]
    assert [round(r["ridge"], 2) for r in data["roofs"]] == [0.85, 1.43, 7.96, 14.33]
    assert [(d["level"], round(d["intensity"], 2)) for d in data["dots"]] == [("L1", 5.0), ("L2", 20.0), ("L3", 40.0), ("DRAM", 166.67)]
    assert {d["rate"] for d in data["dots"]} == {2e9 / 0.0125}, "all dots share one height"
    assert all(d["measured"] for d in data["dots"])


def test_the_frame_is_the_machine_s() -> None:
    """No kernel moves the axes, full decades on both; two machines differ."""
    one, two = Roofline.of(report()), Roofline.of(report(flops=10, asked=10**9, seconds=(3.0,)))
    assert one.frame == two.frame
    assert all(math.log10(edge) == round(math.log10(edge)) for edge in one.frame)
    assert Roofline.of(report(machine=PRESETS["laptop"], threads=8)).frame != one.frame


def test_axis_titles_and_names_are_in_the_svg() -> None:
    text = Roofline.of(report(seconds=(0.012,))).svg()
    assert "<script" not in text
    assert text == Roofline.of(report(seconds=(0.012,))).svg(), "the same value gives the same file"
    for wanted in ("Arithmetic Intensity [FLOP/byte]", "Performance [FLOP/s]", "DRAM 15 GB/s", "215 GFLOP/s float32", "167 GFLOP/s measured"):
        assert wanted in text, wanted


def test_the_text_twin_holds_the_numbers() -> None:
    assert str(Roofline.of(report(seconds=(0.0125, 0.0125, 0.0125)))).splitlines() == [
        "made_up (m=1024) on reference CPU (Sapphire Rapids, 2 cores), 1 thread",
        "made_up: 160 GFLOP/s, measured; peak 215 GFLOP/s (float32)",
        "level  bandwidth  ridge  FLOP/byte   roof there  reached",
        "-----  ---------  -----  ---------  -----------  -------",
        "L1      254 GB/s  0.846          5  215 GFLOP/s     13 %",
        "L2      150 GB/s   1.43         20  215 GFLOP/s      5 %",
        "L3       27 GB/s   7.96         40  215 GFLOP/s     15 %",
        "DRAM     15 GB/s   14.3        167  215 GFLOP/s      6 %",
    ]


def test_predictions_are_hollow_and_measurements_filled() -> None:
    for seconds, filled in (((0.0125,), True), ((), False)):
        figure = Roofline.of(report(seconds=seconds))._figure(LIGHT)
        dots = [line for line in figure.axes[0].lines if line.get_marker() in ("o", "s", "^", "D")]
        assert len(dots) == 4
        assert {line.get_markerfacecolor() != LIGHT.background for line in dots} == {filled}


def test_stated_roofs_are_dashed() -> None:
    figure = Roofline.of(report())._figure(LIGHT)
    roofs = [line for line in figure.axes[0].lines if line.get_linewidth() >= 1.6 and line.get_marker() == "None"]
    assert [line.get_linestyle() for line in roofs] == ["--"] * 5


def test_a_dot_above_its_roof_is_called_out() -> None:
    figure = Roofline.of(report(seconds=(0.001,)))._figure(LIGHT)
    (headline,) = [t for t in labels(figure) if "above a roof" in t.get_text()]
    assert headline.get_color() == LIGHT.warning


def test_earlier_runs_stay_as_faint_dots() -> None:
    figure = Roofline.of(report(seconds=(0.05,)), report(seconds=(0.0125,)))._figure(LIGHT)
    faint = [line for line in figure.axes[0].lines if line.get_marker() in ("o", "s", "^", "D") and line.get_alpha() is not None]
    assert len(faint) == 4


def test_nothing_to_place_is_said() -> None:
    texts = [t.get_text() for t in labels(Roofline.of(report(flops=0))._figure(LIGHT))]
    assert "no floating-point work: nothing to place" in texts


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_png_is_small_and_readable(theme: str) -> None:
    """Under 40 KB, and the text's colour stands out from the background by 7 to 1."""
    png = Roofline.of(report(seconds=(0.0125,))).png(theme)
    assert len(png) < 40_000
    picture = np.asarray(Image.open(io.BytesIO(png)).convert("L"))
    assert picture.shape[1] > 700
    assert abs(int(picture.max()) - int(picture.min())) > 180


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda t: t.name)
def test_every_colour_stands_out_from_its_background(theme: object) -> None:
    """Contrast of 3 to 1 or better for lines and dots, 4.5 for text (WCAG 2.2, 1.4.3 and 1.4.11)."""
    assert theme in (LIGHT, DARK)
    t = LIGHT if theme is LIGHT else DARK
    assert all(_contrast(color, t.background) >= 3 for color in t.levels.values())
    assert all(_contrast(color, t.background) >= 4.5 for color in (t.text, t.faint, t.warning))


def _contrast(a: str, b: str) -> float:
    bright, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@settings(max_examples=12, deadline=None)
@given(
    st.floats(-1.2, 2.8),
    st.lists(st.floats(0, 1.5), min_size=3, max_size=3),
    st.floats(0.02, 1.0),
    st.booleans(),
    st.sampled_from(["float32", "float16>float32"]),
)
def test_labels_do_not_cover_one_another(first: float, steps: list[float], share: float, has_run: bool, dtype: str) -> None:
    """Dots anywhere in the frame, near together or apart, high or low: no two level texts overlap, and none leaves the picture."""
    flops = 10**9
    bytes_ = [flops / 10 ** (first + sum(steps[:i])) for i in range(4)]
    seconds = (flops / (share * 215e9),) * 3 if has_run else ()
    figure = Roofline.of(report(flops, int(bytes_[0]), *bytes_[1:], seconds=seconds, dtype=dtype))._figure(LIGHT)
    assert overlaps(figure) == []
    width = figure.bbox.width
    assert all(box[0] >= 0 and box[2] <= width for box in boxes(figure).values())

"""Scenes: the same marks in SVG, PNG and matplotlib, small files, colours that can be told apart."""

from __future__ import annotations

import io
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tileworkbench.views.labels import Labels, around, box_of, clashes
from tileworkbench.views.marks import dashes
from tileworkbench.views.scene import Cells, Dot, Path, Rect, Scene, Text
from tileworkbench.views.theme import DARK_PAGE, HEATS, LIGHT_PAGE, PAGES, SERIES, Palette, contrast
from tileworkbench.views.widths import cut_to, text_width

PICTURE = Scene(
    200,
    120,
    (
        Rect(10, 10, 60, 30, fill="L2", key="a", tip="a box"),
        Rect(80, 10, 60, 30, fill="surface", stroke="L1", stroke_width=2, hatch="warning", radius=4),
        Path(((10, 60), (90, 60)), "DRAM", 4),
        Path(((110, 50), (140, 50), (125, 70)), "text", 1, fill="L3", is_closed=True),
        Dot(160, 60, 6, "square", "s1"),
        Dot(180, 60, 6, "circle", "s2", is_hollow=True),
        Cells(10, 80, 60, 30, 2, 3, ("heat0", "heat9"), bytes([0, 1, 0, 1, 0, 1]), ("0", "1", "2", "3", "4", "5")),
        Text(100, 105, "words", 14),
    ),
    "a picture",
)
# what the middle of each mark shows: (x, y) in scene pixels and the colour's name
SPOTS = [
    ((40, 20), "L2"),
    ((50, 60), "DRAM"),
    ((125, 56), "L3"),
    ((160, 60), "s1"),
    ((180, 60), "background"),
    ((14, 84), "heat0"),
    ((34, 84), "heat9"),
]


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def rgb(page: Palette, name: str) -> np.ndarray:
    return np.asarray([int(page[name][i : i + 2], 16) for i in (1, 3, 5)])


@pytest.mark.parametrize("theme", PAGES)
@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_png_shows_every_mark_in_its_colour(theme: str, scale: float) -> None:
    """Flat areas keep their exact colour, for all that the file has a palette."""
    seen = pixels(PICTURE.png(theme, scale))
    assert seen.shape[:2] == (round(120 * scale), round(200 * scale))
    for (x, y), name in SPOTS:
        assert seen[int(y * scale), int(x * scale)].tolist() == rgb(PAGES[theme], name).tolist(), name
    assert seen[2, 2].tolist() == rgb(PAGES[theme], "background").tolist()


def test_matplotlib_draws_the_same_picture() -> None:
    """The figure for papers and the PNG agree at the middle of every mark, and nearly everywhere."""
    figure = PICTURE.figure("light")
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=96)
    ours, theirs = pixels(PICTURE.png("light", 1.0)), pixels(out.getvalue())
    assert ours.shape == theirs.shape
    for (x, y), name in SPOTS:
        assert np.abs(theirs[y, x] - rgb(LIGHT_PAGE, name)).max() <= 2, name
    assert (np.abs(ours - theirs).max(axis=2) > 96).mean() < 0.05


def test_svg_holds_every_mark_with_its_words() -> None:
    text = PICTURE.svg("dark")
    assert text.count("<rect") == 1 + 1 + 2 + 6 and text.count("<polyline") == 1 and text.count("<polygon") == 2 and text.count("<circle") == 1
    assert ">words</text>" in text and 'data-key="a"' in text and "<title>a box</title>" in text
    assert LIGHT_PAGE["L2"] not in text and DARK_PAGE["L2"] in text


def test_hatches_reach_the_png() -> None:
    box = pixels(PICTURE.png("light", 2.0))[24:76, 164:276]
    near = np.abs(box - rgb(LIGHT_PAGE, "warning")).max(axis=2) < 40
    assert 0.05 < near.mean() < 0.5


def test_turned_words_stand_where_their_anchor_is() -> None:
    """Upright words of an axis: inside a narrow strip left of the anchor's x, centred on its y."""
    dark = pixels(Scene(80, 160, (Text(40, 80, "Performance", 12, anchor="middle", angle=-90),)).png("light", 2.0)).sum(axis=2) < 300
    rows, columns = np.flatnonzero(dark.any(axis=1)), np.flatnonzero(dark.any(axis=0))
    assert 40 * 2 - 24 <= columns.min() and columns.max() <= 40 * 2 + 8
    assert abs((rows.min() + rows.max()) / 2 - 160) < 8 and rows.max() - rows.min() > 100


def test_a_picture_is_drawn_in_a_blink_and_is_small() -> None:
    """The best of a few goes, so that a busy machine does not matter; the limit is far above what it takes."""
    marks = [Text(20 + 90 * (i % 7), 20 + 14 * (i // 7), "DRAM 15 GB/s", 11) for i in range(80)]
    scene = Scene(700, 400, tuple(marks))
    scene.png()
    best = min(_seconds(scene) for _ in range(5))
    assert best < 0.4
    assert len(scene.png()) < 40_000


def _seconds(scene: Scene) -> float:
    start = time.perf_counter()
    scene.png()
    return time.perf_counter() - start


def test_dashes_leave_gaps_and_follow_corners() -> None:
    strokes = list(dashes(((0, 0), (10, 0), (10, 10)), (8, 4)))
    assert strokes == [((0, 0), (8.0, 0.0)), ((10.0, 2.0), (10, 10))]
    assert list(dashes(((0, 0), (5, 5)), ())) == [((0, 0), (5, 5))]


def test_widths_are_not_below_those_of_the_font() -> None:
    """The table against DejaVu Sans itself, for words of views."""
    from tileworkbench.views.png import _font

    for text in ("DRAM 15 GB/s", "215 GFLOP/s float32", "L2 L3 40 (off the chart)", "148 GFLOP/s measured, above a roof"):
        for is_bold in (False, True):
            true = _font(20.0, is_bold, False).getlength(text)
            assert true * 0.97 <= text_width(text, 20.0, is_bold=is_bold) <= true * 1.08, text
    assert text_width(cut_to("a" * 200, 100), 11) <= 100


@pytest.mark.parametrize("colours", PAGES.values(), ids=lambda p: p.name)
def test_every_colour_stands_out_from_its_page(colours: Palette) -> None:
    """Contrast of 4.5 for words and 3 for marks (WCAG 2.2, 1.4.3 and 1.4.11), on the page and on surfaces; grid and unused links may recede."""
    for name in ("text", "faint", "accent", "good", "warning", "registers", "shared", "L1", "L2", "L3", "DRAM", "compute"):
        assert contrast(colours[name], colours["background"]) >= 4.5 and contrast(colours[name], colours["surface"]) >= 4.5, name
    for i in range(SERIES):
        assert contrast(colours[f"s{i}"], colours["background"]) >= 3 and contrast(colours[f"s{i}"], colours["surface"]) >= 3, f"s{i}"
    for i in range(HEATS):
        assert contrast(colours[colours.ink_on(f"heat{i}")], colours[f"heat{i}"]) >= 4.5, f"words on heat{i}"


def test_a_pair_of_themes_names_the_same_colours() -> None:
    assert set(LIGHT_PAGE.colours) == set(DARK_PAGE.colours)
    with pytest.raises(KeyError):
        LIGHT_PAGE["mauve"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(60, 540), st.floats(40, 260), st.text("abcdefg 123", min_size=1, max_size=14)), min_size=1, max_size=14))
def test_placed_words_do_not_cover_one_another(spots: list[tuple[float, float, str]]) -> None:
    """However dots crowd, words find places of their own inside the area."""
    labels = Labels((0, 0, 600, 300))
    for x, y, _ in spots:
        labels.avoid_dot((x, y))
    for x, y, text in spots:
        labels.place(Text(0, 0, text), (x, y), around(9))
    words = [m for m in labels.marks if isinstance(m, Text)]
    assert len(words) == len(spots) and clashes(words) == []
    assert all(box_of(w)[0] >= -1 and box_of(w)[2] <= 601 for w in words)

"""Layout views: their numbers are the layouts' own, as data, as text, as a picture and as what the browser gets."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import pytest

from tileworkbench.base.machine import find_machine
from tileworkbench.kernels import gemm
from tileworkbench.layout import Access, atom, find_layouts, linear, padded, shared_copy, swizzled
from tileworkbench.layout.banks import serve, wavefronts
from tileworkbench.layout.tile_layout import TileLayout
from tileworkbench.model.line_sharing import shared_lines, writers
from tileworkbench.model.placement import layout_of
from tileworkbench.model.tile_accesses import shared_tile
from tileworkbench.views.layout import LayoutView, layout_view, sharing_view
from tileworkbench.views.layout_finder import compare_view, finder_view
from tileworkbench.views.layout_parts import PALETTE
from tileworkbench.views.scene import Cells, Rect, Text
from tileworkbench.views.theme import DARK_PAGE, LIGHT_PAGE, contrast
from tileworkbench.views.wavefronts import wavefront_view, worst_request

REFERENCE, H200 = find_machine("reference"), find_machine("h200")
ACROSS = np.arange(32)
COLUMNS = Access.of("columns", np.tile(ACROSS, (32, 1)), np.tile(ACROSS[:, None], (1, 32)))
MMA = layout_view(atom("SM80_16x8x16_F32F16F16F32_TN"))


def product() -> Any:
    return gemm.program(256, 256, 256, 128, 128, 64, 2, "float16", "float16", False)


def unpacked(text: str) -> np.ndarray:
    return np.cumsum(np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<i4"))


VIEWS: dict[str, LayoutView] = {
    "instruction": MMA,
    "one operand": layout_view(atom("SM80_16x8x16_F32F16F16F32_TN"), operand="C", by="register"),
    "wgmma": layout_view(atom("SM90_64x96x16_F32BF16BF16_SS")),
    "amx": layout_view(atom("AMX_16x16x32_F32BF16BF16F32"), by="tile row"),
    "ldmatrix": layout_view(atom("SM75_U32x4_LDSM_N")),
    "swizzle": layout_view(swizzled(64, 64, bits=16)),
    "padding, cache sets": layout_view(padded(64, 60, bits=32, pad=4), machine=REFERENCE, by="set"),
    "big": layout_view(swizzled(256, 128, bits=16)),
    "enormous": layout_view(linear(8192, 1000, bits=16)),
    "one cell": layout_view(linear(1, 1, bits=64)),
    "a row": layout_view(linear(1, 700, bits=32), machine=REFERENCE),
    "kernel, C": layout_view(product(), "acc in vectors", machine=REFERENCE),
    "kernel, GPU": layout_view(product(), "A_tile", machine=H200),
    "kernel, first": layout_view(product()),
}


@pytest.mark.parametrize("name", VIEWS)
def test_every_form_holds_the_same_numbers(name: str) -> None:
    view = VIEWS[name]
    live = json.loads(json.dumps(view.live()))
    for panel, data, sent in zip(view.panels, view.data["panels"], live["panels"], strict=True):
        for of in ("address", "owner", "slot"):
            if panel.has(of):
                assert unpacked(sent[of]).tolist() == panel.values(of).ravel().tolist()
        for mode in live["modes"]:
            if mode["of"] in sent and mode["name"] in data:
                raw = unpacked(sent[mode["of"]])
                value = raw // mode["div"] % mode["mod"] if mode["mod"] else raw // mode["div"]
                assert np.where(raw < 0, -1, value).tolist() == np.ravel(data[mode["name"]]).tolist()
    assert len(json.dumps(live)) < 100_000
    assert json.dumps(view.data)
    assert view.svg().startswith("<svg") and view.png("dark")[:4] == b"\x89PNG"
    assert len(view.html()) < 200_000


@pytest.mark.parametrize("name", VIEWS)
def test_pictures_stay_inside_their_page_and_words_apart(name: str) -> None:
    scene = VIEWS[name].scene()
    assert scene.width <= 900 and scene.height <= 760
    for mark in scene.marks:
        if isinstance(mark, (Cells, Rect)):
            assert mark.x >= 0 and mark.y >= 0 and mark.x + mark.width <= scene.width and mark.y + mark.height <= scene.height


def test_data_is_the_layout_s_own() -> None:
    tile = swizzled(64, 64, bits=16)
    panel = layout_view(tile).data["panels"][0]
    assert panel["address"] == tile.addresses().tolist() and panel["bytes"] == 8192
    assert panel["bank"] == (tile.addresses() // 4 % 32).tolist()
    assert panel["sector"] == (tile.addresses() // 32).tolist()
    c = MMA.data["panels"][2]
    assert c["thread"] == atom("SM80_16x8x16_F32F16F16F32_TN").c.owners().tolist()


def test_a_kernel_s_buffer_is_the_placement_s() -> None:
    found = layout_of(product(), "acc", REFERENCE)
    view = layout_view(product(), "acc", machine=REFERENCE)
    assert view.mode == "line" and view.buffer == "acc" and view.facts[0].startswith("tile, float32[128, 128]; exact: at byte")
    assert view.data["panels"][0]["line"] == (found.layout.addresses() // 64).tolist()
    assert view.live()["line"].endswith(f"gemm.py:{found.span.line}")  # type: ignore[union-attr]
    gpu = layout_view(product(), "B_tile", machine=H200)
    assert gpu.mode == "bank" and "modelled" in gpu.facts[0]
    assert layout_view(product(), "acc", machine=H200).mode == "thread"
    with pytest.raises(KeyError, match="no buffer is called 'nope'"):
        layout_view(product(), "nope")


def test_text_twin_of_a_small_tile_is_a_grid() -> None:
    lines = str(MMA.by("register")).splitlines()
    assert lines[:3] == ["SM80_16x8x16_F32F16F16F32_TN: register of each cell", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
                         "A (M x K): 16 x 16 of 16 bits, 32 threads"]  # fmt: skip
    assert lines[4].split() == ["0", *"0 1 0 1 0 1 0 1 4 5 4 5 4 5 4 5".split()]
    assert len(lines) == 2 + 3 * 2 + 16 + 16 + 16


def test_text_twin_of_a_large_tile_counts() -> None:
    text = str(layout_view(linear(256, 128, bits=16), machine=REFERENCE))
    assert "1024 different lines (0 to 1023), 32 cells each" in text
    assert "along row 0: 0, 0, 0" in text and "down column 0: 0, 4, 8" in text


def test_an_enormous_tile_is_sampled_and_says_so() -> None:
    view = VIEWS["enormous"]
    assert view.data["panels"][0]["sampled"] == "sampled: every 32nd row and every 4th column of 8192 x 1000"
    assert np.shape(view.data["panels"][0]["address"]) == (256, 250)
    assert view.data["panels"][0]["address"][1][1] == 2 * (32 * 1000 + 4)
    assert "sampled" in str(view) and any(isinstance(m, Text) and m.text.startswith("sampled") for m in view.scene().marks)
    assert view.live()["panels"][0]["steps"] == [32, 4]


def test_nobody_s_cells_are_marked_unused() -> None:
    view = layout_view(TileLayout("hole", 1, 2, 32, owner=layout_table([[3, -1]]), slot=layout_table([[0, -1]])))
    cells = next(m for m in view.scene().marks if isinstance(m, Cells))
    assert list(cells.index) == [4, 0] and cells.palette[0] == "unused" and cells.words[1] == ""
    assert str(view).splitlines()[-1].split() == ["0", "3", "."]


def layout_table(rows: list[list[int]]) -> Any:
    from tileworkbench.layout import Table

    return Table.of(rows)


def test_lines_with_two_writers_are_outlined() -> None:
    program = gemm.program(32, 60, 32, 16, 20, 32, 1, "float32", "float32", False)
    view = sharing_view(program, "C", machine=REFERENCE)
    count = shared_lines(program)[0].lines
    assert view.facts == (f"written by 6 blocks; {count} lines of 64 bytes have more than one writer: outlined",)
    lines = {(r * 60 + c) * 4 // 64 for r, c in view.panels[0].lit}
    assert len(lines) == count and view.data["panels"][0]["block"] == writers(program, "C").owners().tolist()
    clean = sharing_view(gemm.program(32, 64, 32, 16, 16, 32, 1, "float32", "float32", False), "C")
    assert clean.panels[0].lit == () and clean.facts[0].endswith("0 lines of 64 bytes have more than one writer")


def test_a_colouring_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be coloured by 'warp'; it has bank, sector"):
        layout_view(linear(4, 4, bits=32), by="warp")
    with pytest.raises(KeyError, match="has A, B, C, not D"):
        layout_view(atom("SM80_16x8x16_F32F16F16F32_TN"), operand="D")


def test_words_can_be_read_on_every_colour() -> None:
    for page in (LIGHT_PAGE, DARK_PAGE):
        assert all(contrast(page["text"], page[name]) >= 4.5 for name in PALETTE if name.startswith("cell"))
        assert len({page[name] for name in PALETTE}) == 33


# ---------------------------------------------------------------------------------------------- wavefronts
LAYOUTS = (linear(32, 32, bits=32), padded(32, 32, bits=32, pad=1), padded(32, 32, bits=32, pad=4))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda x: x.name)
def test_the_scrubber_shows_what_is_served(layout: TileLayout) -> None:
    view = wavefront_view(COLUMNS, layout)
    starts, width = COLUMNS.addresses(layout)
    side = view.data["sides"][0]
    assert view.data["wavefronts"] == side["wavefronts"] == wavefronts(starts[0], width).total == len(side["steps"])
    assert sorted((s.wavefront, s.lane, s.bank, s.word) for s in serve(starts[0], width)) == sorted(
        (i, *x) for i, step in enumerate(side["steps"]) for x in step
    )
    live = view.live()
    assert [f["label"] for f in live["frames"][1:]] == [f"wavefront {i + 1} of {view.steps}" for i in range(view.steps)]
    assert live["frames_name"] == "wavefront"
    frame = next(m for m in view.frame(0).marks if isinstance(m, Cells))
    served = {(s.lane, s.bank) for s in view.sides[0].served if s.wavefront == 0}
    assert {divmod(i, 32) for i, n in enumerate(frame.index) if n == 2} == served


def test_layouts_side_by_side_end_one_after_the_other() -> None:
    view = wavefront_view(COLUMNS, *LAYOUTS)
    assert [(s["layout"], s["wavefronts"]) for s in view.data["sides"]] == [("row-major", 32), ("padded by 1", 1), ("padded by 4", 4)]
    assert len(json.dumps(view.live())) < 110_000
    for wavefront, marks in ((0, [32, 32, 32]), (3, [32, 32, 32])):
        cells = [m for m in view.frame(wavefront).marks if isinstance(m, Cells)]
        assert [sum(n > 0 for n in c.index) for c in cells] == marks
    third = [m for m in view.frame(3).marks if isinstance(m, Cells)]
    assert [[c.index.count(n) for n in (1, 2, 3)] for c in third] == [[28, 1, 3], [0, 0, 32], [0, 8, 24]]
    assert [m.text for m in view.frame(4).marks if isinstance(m, Text)].count("done") == 2
    assert view.scene().width <= 900


def test_narrow_pieces_of_a_request_are_all_served() -> None:
    """Rows of 33 words: 16 bytes of each thread become four accesses of 4 bytes; together they still give every word once."""
    copy = shared_copy("copy", 32, 32, bits=32)
    wide, narrow = wavefront_view(copy, linear(32, 32, bits=32), padded(32, 32, bits=32, pad=1)).sides
    assert (wide.width, wide.cost.total, narrow.width, narrow.cost.total) == (16, 4, 4, 4)
    assert len(narrow.served) == len(wide.served) == 128


def test_conflicts_are_said_in_words() -> None:
    lines = str(wavefront_view(COLUMNS, *LAYOUTS[:2])).splitlines()
    assert lines[1] == "on row-major: 32 wavefronts, ideal 1, 31 in excess"
    assert lines[6].startswith("on padded by 1: 1 wavefront, ideal 1, 0 in excess")
    assert "no conflicts" in "".join(m.text for m in wavefront_view(COLUMNS, LAYOUTS[1]).scene().marks if isinstance(m, Text))
    assert wavefront_view(COLUMNS, LAYOUTS[1]).title == "columns on padded by 1"
    with pytest.raises(IndexError, match="has 32 requests, there is no 32"):
        wavefront_view(COLUMNS, LAYOUTS[0], request=32)
    with pytest.raises(ValueError, match="needs a layout"):
        wavefront_view(COLUMNS)


def test_the_worst_request_is_found() -> None:
    two = Access.of("two", np.stack([ACROSS * 0, ACROSS]), np.stack([ACROSS, ACROSS * 0]))
    assert worst_request(two, linear(32, 32, bits=32)) == 1


# ---------------------------------------------------------------------------------------------- finder
def test_finder_shows_the_best_of_each_kind_and_the_count() -> None:
    found = find_layouts(32, 32, bits=32, accesses=(COLUMNS,), buffer="t")
    view = finder_view(found)
    assert view.data["tried"] == found.tried == len(view.data["candidates"]) and view.data["annotation"] == found.annotation
    assert [c.kind for c in view.shown] == ["XOR swizzle", "padding", "TMA swizzle", "none"]
    bars = [m for m in view.scene().marks if isinstance(m, Rect) and m.key == "row-major"]
    assert bars[1].hatch == "warning" and bars[1].width / bars[0].width == pytest.approx(
        found.plain.excess / (found.plain.total - found.plain.excess)
    )
    assert set(view.live()["details"]) == {c.layout.name for c in view.shown}
    assert found.annotation in str(view) and "searched:" in view.html()
    assert len(finder_view(found, 3).shown) == 10


def test_none_padding_and_swizzle_side_by_side() -> None:
    found = shared_tile(product(), "A_tile").find()
    view = compare_view(found, "T.gemm reads a")
    assert [p.title for p in view.panels] == ["row-major", "padded by 8", "128-byte swizzle"]
    excess = [c.costs[1].excess for c in (found.plain, found.of_kind("padding"), found.best)]
    assert [p.caption.split(",")[1].split()[0] for p in view.panels] == [str(n) for n in excess] and excess[1:] == [0, 0]
    banks = [[view.numbers(i)[r, c] for r, c in view.panels[i].lit] for i in range(3)]
    assert len(view.panels[0].lit) == 64 and [len(set(b)) for b in banks] == [4, 32, 32], "eight rows of 16 bytes: 4 banks, then all"
    with pytest.raises(KeyError, match="no access is called 'x'"):
        compare_view(found, "x")

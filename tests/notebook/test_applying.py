"""The finder's layout in the author's text, from a kernel that has conflicts to the same one without, with no GPU."""

from __future__ import annotations

import linecache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tileworkbench as tw
from tileworkbench.base.errors import TileValueError
from tileworkbench.notebook.applying import cell_text, layout_applied
from tileworkbench.notebook.live import hear_finders
from tileworkbench.views.annotating import with_layout
from tileworkbench.views.layout_finder import FinderView, finder_view

CELL = """
import tileworkbench.language as T

@T.prim_func
def transpose(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
    with T.Kernel(1, threads=128):
        t = T.alloc_shared((64, 64), "float16")  # é
        T.copy(A, t)
        for i, j in T.Parallel(64, 64):
            B[i, j] = t[j, i]
"""
A = np.arange(64 * 64).reshape(64, 64).astype(np.float16)


def made(text: str, name: str) -> Any:
    """The kernel of a cell, whose text can be read back as a notebook's can."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {}
    exec(compile(text, name, "exec"), space)
    return tw.compile(space["transpose"], target="emulate:sm_90a")


def found(text: str, name: str) -> FinderView:
    return finder_view(made(text, name).accesses(A, np.zeros_like(A)).tile("t").find())


def excess(text: str, name: str) -> int:
    """Excess wavefronts of the kernel of a cell, whose result is right."""
    kernel, b = made(text, name), np.zeros_like(A)
    kernel(A, b)
    assert np.array_equal(b, A.T)
    c = kernel.count(A, b).total
    return c.shared_load_wavefronts + c.shared_store_wavefronts - c.shared_load_ideal - c.shared_store_ideal


def test_applied_to_a_transpose() -> None:
    view = found(CELL, "<cell-1>")
    assert excess(CELL, "<cell-1>") == view.found.plain.excess == 896
    once = view.apply(CELL)
    added = [line for line in once.splitlines() if line not in CELL.splitlines()]
    assert added == ["        T.annotate_layout({t: T.Layout((64, 64), lambda i, j: (i * 64 + j) ^ (((i * 64 + j) >> 6) & 56))})"]
    assert once.splitlines().index(added[0]) == CELL.splitlines().index('        t = T.alloc_shared((64, 64), "float16")  # é') + 1
    assert excess(once, "<cell-2>") == 0
    padding = view.found.of_kind("padding").layout.name
    other = view.apply(once, padding)
    assert other.count("annotate_layout") == 1 and "i * 67 + j" in other, "what was asked for is replaced"
    assert excess(other, "<cell-3>") == view.found.of_kind("padding").excess


def test_a_swizzle_brings_its_import() -> None:
    text = with_layout("%%tile --check\n" + CELL, "t", "T.annotate_layout({t: make_half_bank_swizzled_layout(t)})", line=8)
    assert text.startswith("%%tile --check\nfrom tileworkbench.layout import make_half_bank_swizzled_layout\n")
    assert text.count("import make_half") == with_layout(text, "t", "T.annotate_layout({t: make_half_bank_swizzled_layout(t)})").count(
        "import make_half"
    )
    words = with_layout("import x as tl\na, b = tl.alloc_shared((4, 4)), 1", "a", "T.annotate_layout({a: T.Layout((4, 4), lambda i, j: i * 5 + j)})")
    assert words.splitlines()[-1] == "tl.annotate_layout({a: tl.Layout((4, 4), lambda i, j: i * 5 + j)})"


def test_where_the_place_cannot_be_found() -> None:
    note = "T.annotate_layout({t: make_linear_layout(t)})"
    twice = CELL + CELL.replace("transpose", "again")
    with pytest.raises(TileValueError, match=r"t is allocated on lines 7, 17\n  hint: say which of them"):
        with_layout(twice, "t", note)
    assert with_layout(twice, "t", note, line=17).splitlines()[18].strip() == note
    with pytest.raises(TileValueError, match=r"no line here reads u = T.alloc_shared"):
        with_layout(CELL, "u", note)
    with pytest.raises(TileValueError, match="not Python alone"):
        with_layout("!ls\n", "t", note)
    with pytest.raises(TileValueError, match="shares its line"):
        with_layout("if 1: t = T.alloc_shared((4, 4))", "t", note)


def test_the_button_answers_with_the_cell() -> None:
    """The text goes to the cell that the kernel came from, as it was typed; without it there is the line to paste, and why."""
    view = found(CELL, "<cell-4>")
    assert view.live()["buttons"][0]["message"] == {"type": "apply", "buffer": "t", "layout": view.found.best.layout.name}
    shell = SimpleNamespace(
        compile=SimpleNamespace(_filename_map={"<cell-4>": 1}), history_manager=SimpleNamespace(input_hist_raw=["", "%%tile\n" + CELL[1:]])
    )
    answer = layout_applied(view, "", shell)
    assert answer["before"] == "%%tile\n" + CELL[1:] and answer["text"] == view.apply(answer["before"]) and not answer["say"]
    assert cell_text(view.found.span, None) == CELL and cell_text(None, shell) == ""
    del linecache.cache["<cell-4>"]
    heard: list[dict[str, Any]] = []
    hear_finders((view,), {"type": "apply", "buffer": "t", "layout": "padded by 3"}, heard.append)
    hear_finders((view,), "nonsense", heard.append)
    hear_finders((view,), {"type": "apply", "buffer": "u"}, heard.append)
    assert [m["applied"]["text"] for m in heard] == ["T.annotate_layout({t: T.Layout((64, 64), lambda i, j: i * 67 + j)})"]
    assert "no line here reads t" in heard[0]["applied"]["say"] and heard[0]["applied"]["before"] == ""

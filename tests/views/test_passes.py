"""Pass by pass: reasons, folded diffs, and nothing for a pass that did nothing."""

from __future__ import annotations

import difflib

import pytest

from tileworkbench.ir.printer import print_kernel
from tileworkbench.kernels import gemm
from tileworkbench.runtime.executable import PassRecord
from tileworkbench.runtime.target_c import translate
from tileworkbench.views.passes import PassDiff, change_of, folded

RECORDS = translate(gemm.program(64, 64, 64, 32, 32, 32, 2, "float32", "float32", True).kernel)[1]


@pytest.fixture(scope="module")
def view() -> PassDiff:
    return PassDiff("gemm", tuple(map(change_of, RECORDS)))


def test_one_record_for_each_pass(view: PassDiff) -> None:
    assert [(r["pass"], r["ms"], r["because"]) for r in view.data] == [(p.name, p.time_ms, p.because) for p in RECORDS]
    assert all(r["about"].endswith(".") for r in view.data), "each pass says what it is for"


def test_diffs_are_those_of_the_texts(view: PassDiff) -> None:
    for record, change in zip(RECORDS, view.changes, strict=True):
        before, after = print_kernel(record.before).splitlines(), print_kernel(record.after).splitlines()
        unified = [x for x in difflib.unified_diff(before, after, lineterm="", n=0) if x[0] in "+-" and not x.startswith(("+++", "---"))]
        assert sorted(x for x in change.lines if x[0] in "+-") == sorted(unified)
        assert (change.summary == "unchanged") == (before == after)


def test_stretches_of_unchanged_lines_are_folded() -> None:
    before = [str(i) for i in range(20)]
    after = ["x" if i in (5, 15) else str(i) for i in range(20)]
    assert folded(before, after, 1) == ("… 4 lines", " 4", "-5", "+x", " 6", "… 7 lines", " 14", "-15", "+x", " 16", "… 3 lines")
    assert folded(before, before) == ()


def test_every_form_gives_the_reason(view: PassDiff) -> None:
    reason = "expand_tiles adds tiles"
    assert f"here because: {reason}" in str(view)
    assert reason in view.html()
    assert any(reason in p["reason"] for p in view.live()["passes"])
    assert "<script" not in view.html() and "<style" not in view.html()


def test_a_pass_that_returns_its_input_is_unchanged() -> None:
    kernel = RECORDS[0].before
    change = change_of(PassRecord("nothing", kernel, kernel, 0.5, about="Does nothing."))
    assert change.lines == () and change.summary == "unchanged"
    assert PassDiff("k", (change,)).scene().width > 0

"""The source view: costs that are the report's, twins in every stage, a static form without a script."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from tileworkbench.base.machine import find_machine
from tileworkbench.base.span import Span
from tileworkbench.kernels.gemm import Schedule, gemm
from tileworkbench.model.report import Report
from tileworkbench.model.values import show
from tileworkbench.runtime.assembly import vector_bytes
from tileworkbench.runtime.kernel import JITKernel
from tileworkbench.runtime.stages import Stage, key_of
from tileworkbench.views.twins import Twins, twins


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> JITKernel:
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("kernels")
    folder.chmod(0o700)
    patch.setenv("TILEWORKBENCH_CACHE_DIR", str(folder))
    made = gemm(128, 128, 128, relu=True, schedule=Schedule(64, 64, 32))
    made.assembly()
    patch.undo()
    return made


@pytest.fixture(scope="module")
def about(kernel: JITKernel) -> Report:
    return kernel.report(find_machine("reference"))


@pytest.fixture(scope="module")
def view(kernel: JITKernel, about: Report) -> Twins:
    return twins(kernel, about)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_costs_are_the_reports(view: Twins, about: Report) -> None:
    costs = view.data["costs"]
    assert costs == {key_of(u.span): {"flops": u.flops, "asked_bytes": u.asked_bytes, "bytes": dict(u.bytes)} for u in about.by_line() if u.span}
    assert sum(c["flops"] for c in costs.values()) == about.counts.total_flops
    live = view.live()
    for use in about.by_line():
        assert use.span is not None
        gutter = live["costs"][live["keys"].index(key_of(use.span))]["gutter"]
        last = use.bytes["DRAM"]
        assert gutter == [show(use.flops, "").strip() if use.flops else "-", show(use.asked_bytes, "B"), show(last, "B") if last else "-"]


def test_the_text_twin_names_the_lines_of_every_stage(view: Twins) -> None:
    text = str(view)
    row = next(line for line in text.splitlines() if "T.gemm(" in line)
    key = next(k for k in view.live()["keys"] if k.endswith(f":{row.split()[0]}"))
    found = view.of_line(key)
    assert set(found) == {"tile program", "tile IR", "lowered IR", "C", "assembly"}
    assert f" {found['tile IR'][0]} " in row and f"{found['C'][0]}-" in row


def test_vectors_are_those_of_the_lines_instructions(view: Twins) -> None:
    assembly = view.stages[-1]
    for key, size in view.vectors.items():
        rows = [assembly.lines[n - 1] for n in view.of_line(key)["assembly"]]
        assert max(map(vector_bytes, rows)) == size
        assert f"vectors of {size} bytes" in view.live()["costs"][view.live()["keys"].index(key)]["words"]


def test_live_twins_are_positions_in_keys(view: Twins) -> None:
    live = view.live()
    for stage, made in zip(live["stages"], view.stages, strict=True):
        assert len(stage["twins"]) == len(made.lines)
        for i, twin in enumerate(stage["twins"], 1):
            keys = [live["keys"][k] for k in ([twin] if isinstance(twin, int) else twin) if k >= 0]
            assert keys == list(dict.fromkeys(key_of(s) for s in made.twins.get(i, ())))
    assert len(json.dumps(live)) < 200_000


def test_the_static_form_needs_no_script_and_no_style_sheet(view: Twins) -> None:
    tags = Tags(view.html())
    assert tags.seen <= {"div", "pre", "span", "small"} and tags.attributes <= {"style", "title"}
    assert len(view.html()) < 200_000
    assert "T.gemm" in re.sub(r"<[^>]*>", "", view.html())


def test_the_picture_holds_every_working_line(view: Twins, about: Report) -> None:
    keys = {mark.key for mark in view.scene().marks}
    assert {key_of(u.span) for u in about.by_line() if u.span} <= keys


def test_a_stage_that_is_missing_says_why() -> None:
    span = Span("k.py", 1, 0, 1, 4, text="a < b")
    view = Twins("k", (Stage("tile program", "python", "a < b", {1: (span,)}, (1,)), Stage("assembly", "gas", "", why="no C compiler found")))
    assert "no assembly: no C compiler found" in str(view)
    assert "no C compiler found" in view.html() and "a &lt; b" in re.sub(r"</?span[^>]*>", "", view.html())
    assert view.live()["stages"][1]["why"] == "no C compiler found"
    assert view.live()["heads"] == [] and view.data["costs"] == {}


def test_a_second_target_fills_the_same_stages() -> None:
    """PTX and SASS are two more stages; nothing in the view knows their names."""
    span = Span("k.cu.py", 4, 0, 4, 4, text="T.copy(A, s)")
    ptx, sass = Stage("PTX", "text", "cp.async\nret", {1: (span,)}), Stage("SASS", "text", "LDGSTS\nEXIT", {1: (span,)})
    view = Twins("k", (Stage("tile program", "python", "T.copy(A, s)", {1: (span,)}, (4,)), ptx, sass))
    assert view.of_line("k.cu.py:4") == {"tile program": [4], "PTX": [1], "SASS": [1]}


def test_instructions_by_line_and_kind_in_every_form() -> None:
    span, other = Span("k.py", 4, 0, 4, 4, text="T.gemm(a, b, c)"), Span("k.py", 5, 0, 5, 4, text="T.copy(c, C)")
    code = "k:\n    UMOV UR4, 0x1\n    HGMMA.64x8x16.F32 R0, gdesc[UR4]\n    STG.E [R2], R0\n    EXIT"
    sass = Stage("SASS", "sass", code, {2: (span,), 3: (span,), 4: (other,)}, about=("k: 40 registers a thread, nothing spilt",))
    view = Twins("k", (Stage("tile program", "python", "T.gemm(a, b, c)\nT.copy(c, C)", {1: (span,), 2: (other,)}, (4, 5)), sass))
    assert view.instructions == {"": {"other": 1}, "k.py:4": {"tensor": 1, "other": 1}, "k.py:5": {"global": 1}}
    rows = [line.split() for line in str(view).splitlines()]
    assert ["k.py:4", "1", "-", "1", "2"] in rows and ["of", "no", "line", "-", "-", "1", "1"] in rows and ["all", "1", "1", "2", "4"] in rows
    assert "SASS of k: 40 registers a thread, nothing spilt" in str(view) and "40 registers" in view.html() and ">tensor</th>" in view.html()
    assert re.search(r"font-weight: 600\">HGMMA\.64x8x16\.F32</span> R0", view.html())
    live = view.live()
    assert [live["kinds"][k] if k >= 0 else "" for k in live["stages"][1]["kinds"]] == ["", "other", "tensor", "global", "other"]
    assert "SASS: 1 tensor, 1 other" in live["costs"][live["keys"].index("k.py:4")]["words"]
    assert live["heads"] == ["instr"] and [c["gutter"] for c in live["costs"]] == [["2"], ["1"]]

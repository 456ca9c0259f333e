"""Tables, source and panel: the fragment that a notebook shows, and its text twin."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from views.made_up import report, span

from tileworkbench.views.panel import Panel
from tileworkbench.views.report_html import ReportPage, Result
from tileworkbench.views.source import MAX_LINES, SourceView
from tileworkbench.views.tables import BufferTable, LineTable
from tileworkbench.views.view import View

SOURCE = 'static void k(float *a) {\n  /* <b> & "c" */\n  a[0] = 1.0f;\n}\n'
LINES = {2: span(3), 3: span(6)}


def panel(**options: object) -> Panel:
    checks = [("max |error| 1e-6 < 2e-6", True), ("time < 1 ms", False)]
    return Panel(report(seconds=(0.0125, 0.0125, 0.0126)), SOURCE, LINES, checks=checks, **options)  # type: ignore[arg-type]


class Balance(HTMLParser):
    """Checks that every tag is closed, and gathers tags and attributes."""

    VOID = {"img", "meta", "br", "source"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


VIEWS = {
    "panel": panel(),
    "buffers": BufferTable(report()),
    "lines": LineTable(report()),
    "source": SourceView(SOURCE, LINES),
}


@pytest.mark.parametrize("name", VIEWS)
def test_fragments_survive_a_notebook_that_is_not_trusted(name: str) -> None:
    """No style sheet, script, event handler, id, link or inline SVG: nothing that a sanitizer removes and the meaning needs."""
    found = Balance(VIEWS[name].html())
    assert not found.tags & {"script", "style", "svg", "iframe", "link", "form", "input", "button"}
    assert found.attributes <= {"style", "alt", "src", "srcset", "media", "title", "scope", "open"}
    assert "http" not in VIEWS[name].html().replace("data:image", "")


def test_buffers_show_bytes_by_level() -> None:
    assert str(BufferTable(report())).splitlines() == [
        "made_up: bytes by buffer",
        "buffer  where   L1 (asked)      L2      L3   DRAM  once  moved",
        "------  ------  ----------  ------  ------  -----  ----  -----",
        "A       global      200 MB  ~50 MB  ~25 MB  ~6 MB  6 MB     1x",
        "C       global      200 MB  ~50 MB  ~25 MB  ~6 MB  6 MB     1x",
    ]


def test_lines_show_work_and_bytes_with_their_source() -> None:
    text = str(LineTable(report()))
    assert "kernel.py:3  T.copy(A[<i>], A_s)  # a & b   2 G      200 MB  ~50 MB" in text
    assert [(r["where"], r["flops"]) for r in LineTable(report()).data] == [("kernel.py:3", 2_000_000_000), ("kernel.py:6", 0)]
    assert "T.copy(A[&lt;i&gt;], A_s)  # a &amp; b" in LineTable(report()).html()


def test_source_carries_the_author_s_line_in_its_margin() -> None:
    view = SourceView(SOURCE, LINES)
    assert str(view).splitlines()[1:] == [
        "1   | static void k(float *a) {",
        '2 3 |   /* <b> & "c" */',
        "3 6 |   a[0] = 1.0f;",
        "4   | }",
    ]
    plain = re.sub(r"<[^>]+>", "", view.html())
    assert "3 2  " in plain and "6 3  " in plain
    assert 'title="kernel.py:3:1: T.copy(A[&lt;i&gt;], A_s)  # a &amp; b"' in view.html()
    assert view.data[2] == {"line": 3, "text": "  a[0] = 1.0f;", "from": "kernel.py:6:1", "from_text": "T.copy(A[<i>], A_s)  # a & b"}


def test_source_is_coloured_if_pygments_is_there_and_plain_if_not(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = SourceView(SOURCE, LINES).html()
    monkeypatch.setitem(sys.modules, "pygments", None)
    plain = SourceView(SOURCE, LINES).html()
    assert "color: #" in coloured.replace("solid #", "") and coloured != plain
    assert re.sub(r"<[^>]+>", "", coloured) == re.sub(r"<[^>]+>", "", plain), "colour changes no letter"


def test_a_long_source_is_cut_and_says_so() -> None:
    view = SourceView("int a;\n" * (MAX_LINES + 7), {})
    assert "… 7 more lines" in view.html()
    assert len(str(view).splitlines()) == MAX_LINES + 8


def test_panel_says_verdict_checks_and_numbers() -> None:
    text = str(panel())
    assert "compute-bound: 74 % of 215 GFLOP/s (float32)" in text
    assert "ok   max |error| 1e-6 < 2e-6" in text and "FAIL time < 1 ms" in text
    html = panel().html()
    assert "compute-bound: 74 % of 215 GFLOP/s (float32)" in html and "FAILED" in html
    assert "data:image/png;base64," in html
    assert panel().data["facts"]["dram.bytes"] == 1.2e7
    assert set(panel()._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_panel_shows_what_is_asked_for() -> None:
    only = panel(show=("traffic",)).html()
    assert only.count("base64") == 2 and "generated source" not in only and "bytes by buffer" in only, "one chart, light and dark"
    assert "base64" not in panel(show=()).html()


def test_panel_is_live_as_tabs_that_share_its_head() -> None:
    live = panel().live()
    assert live["module"] == "panel" and live["verdict"] == panel().report.verdict
    assert [v.get("tab") for v in live["views"]] == ["roofline", "traffic", "waterfall", "source"]
    assert live["checks"] == [["max |error| 1e-6 < 2e-6", True], ["time < 1 ms", False]]
    assert ["needed once", "12 MB"] in live["facts"]
    assert len(json.dumps(live)) < 120_000


def test_a_dark_page_gets_dark_pictures() -> None:
    """Each picture is there for both pages; a viewer that drops <picture> keeps the light one."""
    html = panel().html()
    assert html.count("<picture>") == 2 and html.count('<source media="(prefers-color-scheme: dark)"') == 2


def test_panel_is_small() -> None:
    """Below 200 KB with 400 lines of source."""
    source = 'for (int64_t i = 0; i < 64; ++i) c_0_0 += a0 * b0; /* "x" */\n' * 400
    long = Panel(report(seconds=(0.0125,)), source, {i: span(3 + i % 7) for i in range(1, 400)})
    assert len(long.html()) < 200_000


def test_data_in_the_cache_are_explained() -> None:
    view = Panel(report(seconds=(0.0125,), fits=True))
    assert "repeated launches move nothing at DRAM, the first one ~12 MB" in view.html()


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf", "html", "txt"])
def test_every_view_saves_by_suffix(tmp_path: Path, suffix: str) -> None:
    for name, view in VIEWS.items():
        place = view.save(tmp_path / f"{name}.{suffix}")
        assert place.stat().st_size > 100, name
    start = (tmp_path / f"panel.{suffix}").read_bytes()[:16]
    assert {"svg": b"<svg xmlns", "png": b"\x89PNG", "pdf": b"%PDF-1", "html": b"<!doctype html>", "txt": b"made_up"}[suffix] in start


def test_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as caught:
        BufferTable(report()).save(tmp_path / "x.gif")
    assert str(caught.value) == "cannot save a view as .gif; use .svg, .png, .pdf, .html or .txt"


def test_the_page_is_one_file_that_fetches_nothing() -> None:
    results = [Result("gemm", "64", panel()), Result("old", "")]
    page = ReportPage("Title <1>", ["on a machine"], ["kernel", "ms"], [["gemm", "1.2"], ["old", "-"]], results, left=1)
    html = page.html()
    found = Balance(html)
    assert "script" not in found.tags and "link" not in found.tags
    assert not re.search(r'(src|href|srcset)="(?!data:|#)', html)
    assert "Title &lt;1&gt;" in html and "prefers-color-scheme: dark" in html
    assert html.count("data:image/png") == 4, "roofline and memory chart, each for light and for dark"
    assert page.data == [{"kernel": "gemm", "ms": "1.2"}, {"kernel": "old", "ms": "-"}]
    assert isinstance(page, View)

"""The memory chart: its numbers are the report's, links open into buffers, lines and steps, and nothing covers anything."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views.made_up import report

from tileworkbench.base.machine import find_machine
from tileworkbench.kernels import gemm
from tileworkbench.model.counters import Counters
from tileworkbench.model.memory import memory_chart
from tileworkbench.model.report import Report
from tileworkbench.model.report import report as make_report
from tileworkbench.model.steps import LoopSteps, loop_steps
from tileworkbench.views.labels import clashes
from tileworkbench.views.scene import Path, Rect, Scene, Text
from tileworkbench.views.traffic import TrafficChart


def words(scene: Scene) -> list[Text]:
    return [m for m in scene.marks if isinstance(m, Text)]


def arrows(scene: Scene, level: str) -> list[Path]:
    return [m for m in scene.marks if isinstance(m, Path) and m.key == f"level:{level}"]


@cache
def gemm_report() -> tuple[Report, LoopSteps]:
    kernel = gemm.gemm(256, 256, 256)
    r = make_report(kernel.ir, find_machine("reference"), {}, threads=2).first_launch  # a later one finds its data in L2
    return r, loop_steps(kernel.ir, r)


def test_links_hold_the_report_s_bytes() -> None:
    r = report(seconds=(0.0125,))
    data = TrafficChart(r).data
    assert [(x["level"], x["bytes"]) for x in data["links"]] == [(x.name, x.bytes) for x in r.levels]
    assert [x["busy"] for x in data["links"]] == [r.shares[x.name] for x in r.levels]
    assert all(x["read"] + x["written"] == x["bytes"] for x in data["links"])
    assert {x["once"] for x in data["links"]} == {r.counts.compulsory_bytes} and {x["worst"] for x in data["links"]} == {r.counts.asked_bytes}


def test_hit_rates_are_what_is_not_asked_of_the_next_level() -> None:
    places = {p["name"]: p["hit_rate"] for p in TrafficChart(report()).data["places"]}
    assert places == {"registers": None, "L1": 0.75, "L2": 0.5, "L3": 1 - 1.2e7 / 5e7, "DRAM": None}
    assert {"hits 75 %", "hits 50 %", "hits 76 %"} <= {w.text for w in words(TrafficChart(report()).scene())}


def test_width_grows_with_bytes_and_colour_with_the_share_of_the_roof() -> None:
    def height(mark: Path) -> float:
        ys = [y for _, y in mark.points]
        return max(ys) - min(ys)

    r = report(seconds=(0.0125,))
    scene = TrafficChart(r).scene()
    tall = [height(arrows(scene, level)[0]) for level in ("L1", "L2", "L3", "DRAM")]
    assert tall == sorted(tall, reverse=True) and tall[0] > tall[-1]
    busy = [int(arrows(scene, x.name)[0].fill.removeprefix("heat")) for x in r.levels]
    assert busy == [min(int(r.shares[x.name] * 10), 9) for x in r.levels]


def test_a_link_that_nothing_uses_is_grey_and_still_there() -> None:
    view = TrafficChart(report(seconds=(0.0125,), fits=True))
    unused = arrows(view.scene(), "DRAM")
    assert len(unused) == 2 and all(m.stroke == "unused" and m.dash for m in unused)
    assert unused[0].tip == "Nothing moves between L3 and DRAM."
    assert "first launch" in {w.text for w in words(view.scene())}, "what an empty cache would cost is said"


def test_a_link_opens_into_buffers_lines_and_loop_steps() -> None:
    r, steps = gemm_report()
    buffers, lines, by_step = TrafficChart(r, steps).live()["details"]["level:DRAM"]
    assert buffers["caption"].startswith("L3 - DRAM by buffer: needed once") and "times" in buffers["caption"]
    assert {row[0] for row in buffers["rows"]} == {"A", "B", "C"}
    assert any("T.copy(A" in row[1] for row in lines["rows"])
    assert [row[0] for row in by_step["rows"]] == [s.name for s in steps.steps]
    last = by_step["rows"][-1][2].removeprefix("~")
    assert last == buffers["caption"] or last in str(TrafficChart(r)), "so far ends at what the link moves"
    link = memory_chart(r).link("DRAM")
    assert sum(s.bytes for s in link.shares) == pytest.approx(link.bytes)
    with pytest.raises(KeyError, match="no link leads to 'L9'"):
        memory_chart(r).link("L9")


def test_every_key_has_details_and_the_live_form_is_small() -> None:
    r, steps = gemm_report()
    live = TrafficChart(r, steps).live()
    keys = {m.key for m in TrafficChart(r, steps).scene().marks if m.key}
    assert keys == set(live["details"]) and {"level:L2", "place:L2"} <= keys
    assert len(json.dumps(live)) < 60_000


def test_the_text_twin_is_a_table_of_the_links() -> None:
    assert str(TrafficChart(report(seconds=(0.0125,)))).splitlines() == [
        "made_up: bytes between levels",
        "link              moved    read  written   once  times   worst  of roof  hits below",
        "--------------  -------  ------  -------  -----  -----  ------  -------  ----------",
        "registers - L1   400 MB  200 MB   200 MB  12 MB  33.3x  400 MB     13 %        75 %",
        "L1 - L2         ~100 MB  ~50 MB   ~50 MB  12 MB  8.33x  400 MB      5 %        50 %",
        "L2 - L3          ~50 MB  ~25 MB   ~25 MB  12 MB  4.17x  400 MB     15 %        76 %",
        "L3 - DRAM        ~12 MB   ~6 MB    ~6 MB  12 MB     1x  400 MB      6 %           -",
    ]


@pytest.mark.parametrize("name", ["h200", "rtx-4090"])
def test_a_gpu_shows_shared_memory_in_place_of_a_cache(name: str) -> None:
    view = TrafficChart(report(machine=find_machine(name), l3=0))
    names = [p["name"] for p in view.data["places"]]
    assert names[:1] == ["registers"] and "shared" in names and names[-1] == "DRAM"
    assert next(p for p in view.data["places"] if p["name"] == "shared")["hit_rate"] is None
    assert clashes(words(view.scene())) == []


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 10**13), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_words_fit_whatever_the_sizes(asked: int, l2: float, l3: float, dram: float, has_run: bool) -> None:
    """From one byte to terabytes: nothing overlaps, boxes and gauges stay inside the picture, and it is at most 640 wide."""
    r = report(asked=max(asked, 4), l2=asked * l2, l3=asked * l2 * l3, dram=asked * l2 * l3 * dram, seconds=(0.01,) if has_run else ())
    scene = TrafficChart(r).scene()
    assert clashes(words(scene)) == [] and scene.width <= 640
    assert all(0 <= m.x and m.x + m.width <= scene.width for m in scene.marks if isinstance(m, Rect))


def test_counters_stand_beside_predictions_and_are_flagged_past_a_tenth() -> None:
    """Counters see what is read, so they are held against what the model says is read."""
    r = replace(report(), counters=Counters({"L1D misses": 5.2e7 / 64, "LLC misses": 1.2e7 / 64}))
    view = TrafficChart(r)
    assert {x["level"]: x["counters"] for x in view.data["links"]} == {"L1": None, "L2": 5.2e7, "L3": None, "DRAM": 1.2e7}
    found = {w.text: w.colour for w in words(view.scene())}
    assert found["52 MB"] == "text" and found["12 MB (0.5x)"] == "warning"
    assert "DRAM: counters saw 12 MB (0.5x) read" in str(view)


def test_a_refused_counter_says_why() -> None:
    why = "no counters: perf_event_paranoid is 4"
    view = TrafficChart(replace(report(), counters=Counters(missing=why)))
    assert why in {w.text for w in words(view.scene())} and why in str(view)
    assert "counted read" not in {w.text for w in words(view.scene())}

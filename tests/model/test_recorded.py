"""Runs that were recorded elsewhere: they travel as JSON, the model is held against them, and every view says where they come from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tileworkbench.base.machine import find_machine
from tileworkbench.kernels import softmax
from tileworkbench.model.memory import memory_chart
from tileworkbench.model.recorded import Origin, RecordedRun, Recording, recordings
from tileworkbench.model.report import Report, report
from tileworkbench.model.values import Measured, Recorded
from tileworkbench.views.labels import clashes
from tileworkbench.views.panel import Panel
from tileworkbench.views.roofline import Roofline
from tileworkbench.views.scene import Text
from tileworkbench.views.traffic import TrafficChart
from tileworkbench.views.waterfall import WaterfallView

ORIGIN = Origin("NVIDIA H200", "2026-12-01", "580.95", "13.0", "python -m tileworkbench.bench model")
BADGE = "recorded on NVIDIA H200, 2026-12-01, driver 580.95"
MB = 1e6
RUN = RecordedRun(
    "softmax float32", "8192x1024", "1 row t64", (17.1e-6, 17.3e-6, 17.2e-6),
    {"DRAM read": 33.6 * MB, "DRAM written": 30.0 * MB, "L2 read": 33.6 * MB, "L2 written": 33.5 * MB}, {"seconds": 11e-6}, 31,
)  # fmt: skip
MADE = Recording(ORIGIN, (RUN,))


def recorded() -> Report:
    return MADE.report(RUN, softmax.program(8192, 1024, 1, "float32", 64).kernel)


def test_a_recording_travels_as_json() -> None:
    assert Recording.from_json(MADE.to_json()) == MADE
    assert MADE.run("softmax float32 8192x1024, 1 row t64") is RUN
    with pytest.raises(KeyError, match="no run 'gemm', only softmax float32"):
        MADE.run("gemm")
    for damaged in ("{}", '{"schema": 2}', '{"schema": 1, "origin": {}, "runs": []}', "[]"):
        with pytest.raises(ValueError, match="not a recording|another schema"):
            Recording.from_json(damaged)


def test_a_recorded_number_is_a_kind_of_its_own() -> None:
    r = recorded()
    assert isinstance(r.time, Recorded) and isinstance(r.rate, Recorded) and (r.kind, r.badge) == ("recorded", BADGE)
    assert str(r.time) == f"17.2 us ({BADGE}; median of 3, best 17.1 us)"
    assert f"time 17.2 us ({BADGE}" in str(r) and ", measured" not in str(r)
    here = replace(r, measured=Measured.of(RUN.seconds))
    rows = {line.split()[0]: line.split() for line in str(r).splitlines() if line.split()[0] in ("level", "L2", "DRAM")}
    assert rows["level"][2] == "counted" and rows["DRAM"][1:5] == ["~67.1", "MB", "63.6", "MB"] and "67.1 MB" in " ".join(rows["L2"][3:5])
    assert (here.kind, here.badge) == ("measured", "") and BADGE not in str(replace(here, counters=None))
    assert not r.is_warm and here.is_warm, "recorded launches found nothing in a cache"


def test_its_counters_are_held_against_the_same_launch() -> None:
    link = memory_chart(recorded()).link("DRAM")
    assert link.counted_bytes == 33.6 * MB and not link.is_off
    assert link.counted_write_bytes == 30 * MB and link.is_off_written, "33.6 MB are predicted"
    warm = report(softmax.program(8192, 1024, 1, "float32", 64).kernel, find_machine("h200"), {}, seconds=RUN.seconds)
    warm = replace(warm, counters=recorded().counters)
    link = memory_chart(warm).link("DRAM")
    assert link.bytes == 67_108_864 and link.expected == pytest.approx((33_554_432, 33_554_432)), "of a first launch, whatever is shown beside it"


def test_counted_bytes_have_names_for_assertions() -> None:
    facts = recorded().facts
    assert facts["dram.counted.read"] == (33.6 * MB, "B") and facts["dram.counted.written"] == (30 * MB, "B") and "shared.counted.read" not in facts


def test_what_l2_is_spared_has_a_reason() -> None:
    r = recorded()
    assert r.counters is not None
    fewer = replace(r, counters=replace(r.counters, values={**r.counters.values, "L2 read": 20 * MB}))
    tips = [m.tip for m in TrafficChart(fewer).scene().marks if m.key == "level:L2" and m.tip]
    assert tips and all("what neighbours ask for at a time is merged" in t for t in tips)
    assert not any("merged" in m.tip for m in TrafficChart(r).scene().marks if m.tip)


def test_every_view_says_where_it_comes_from() -> None:
    r = recorded()
    for view in (Roofline.of(r), TrafficChart(r), WaterfallView.of(r)):
        assert BADGE in str(view), type(view)
        scene = view.scene()
        assert any(BADGE in m.text for m in scene.marks if isinstance(m, Text)), type(view)
        assert clashes([m for m in scene.marks if isinstance(m, Text)]) == []
        assert view.png()[:4] == b"\x89PNG"
    assert BADGE in str(Panel(r)) and BADGE in Panel(r).html() and "the data fit in the last cache" not in Panel(r).html()
    steps = WaterfallView.of(r).data
    assert steps[-1]["kind"] == "recorded" and WaterfallView.of(r).title.endswith("to the recording")
    assert {d["kind"] for d in Roofline.of(r).data["dots"]} == {"recorded", "predicted"}
    text = str(TrafficChart(r))
    assert "DRAM: counters saw 33.6 MB read, 30 MB (1.1x) written" in text and "counted by ncu" in text


def test_the_package_s_recordings_can_be_read() -> None:
    for name, found in recordings().items():
        assert found.origin.machine and found.origin.date and found.origin.driver and found.runs, name
        assert found.machine.is_gpu

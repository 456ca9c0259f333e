"""Bytes by loop step as bars: their heights are the steps' bytes, and the line ends at the level's total."""

from __future__ import annotations

from functools import cache

import pytest

from tileworkbench.base.machine import find_machine
from tileworkbench.kernels import gemm
from tileworkbench.model.report import Report, report
from tileworkbench.model.steps import LoopStep, LoopSteps, loop_steps
from tileworkbench.views.labels import clashes
from tileworkbench.views.scene import Path, Rect, Text
from tileworkbench.views.step_chart import MOST_BARS, StepChart


@cache
def made() -> tuple[Report, StepChart]:
    kernel = gemm.gemm(128, 128, 1024, schedule=gemm.Schedule(128, 128, 256))
    r = report(kernel.ir, find_machine("reference"), {})
    return r, StepChart(loop_steps(kernel.ir, r))


def test_bars_are_as_tall_as_their_bytes() -> None:
    _, view = made()
    names = view.steps.level_names
    bars = [m for m in view.scene().marks if isinstance(m, Rect) and m.key]
    assert len(bars) == len(names) * len(view.groups)
    first = bars[: len(view.groups)]
    most = max(g.bytes[names[0]] for g in view.groups)
    tallest = max(b.height for b in first)
    for bar, group in zip(first, view.groups, strict=True):
        assert bar.height == pytest.approx(max(tallest * group.bytes[names[0]] / most, 0.8))


def test_numbers_are_the_report_s() -> None:
    r, view = made()
    for level in r.levels:
        assert sum(step["bytes"][level.name] for step in view.data) == pytest.approx(level.bytes)
        assert view.groups[-1].so_far[level.name] == pytest.approx(level.bytes)
    assert sum(step["flops"] for step in view.data) == pytest.approx(r.counts.total_flops)


def test_many_steps_share_bars_and_keep_their_sum() -> None:
    steps = tuple(LoopStep((("k", i),), f"k = {i}", 1.0, {}, {"L1": 10.0}) for i in range(1000))
    view = StepChart(LoopSteps("long", None, 4, ("L1",), steps))
    assert len(view.groups) <= MOST_BARS
    assert sum(g.bytes["L1"] for g in view.groups) == 10_000
    assert view.groups[0].name == "k = 0 to k = 10"


def test_live_details_and_text_twin() -> None:
    _, view = made()
    live = view.live()
    assert set(live["details"]) == {m.key for m in view.scene().marks if m.key}
    assert str(view).splitlines()[1].split()[:2] == ["step", "L1"]
    assert view.title == "gemm: bytes by loop step, the one block"
    assert clashes([m for m in view.scene().marks if isinstance(m, Text)]) == []
    assert [m for m in view.scene().marks if isinstance(m, Path) and m.stroke == "text"]

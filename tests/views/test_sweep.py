"""Schedules side by side: bars are as tall as what they stand for, words do not touch, a prediction looks different from a measurement."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views.made_up import report

from tileworkbench.views.labels import clashes
from tileworkbench.views.scene import Rect, Text
from tileworkbench.views.sweep import Sweep

SWEEP = Sweep({"16": report(asked=800_000_000, seconds=(0.04,)), "32": report(seconds=(0.02,)), "64": report(asked=200_000_000)}, by="tile")


def bars(view: Sweep) -> list[Rect]:
    return [m for m in view.scene().marks if isinstance(m, Rect) and m.key]


def test_bars_are_as_tall_as_their_numbers() -> None:
    found = bars(SWEEP)
    assert len(found) == 3 * (1 + len(SWEEP.level_names))
    slow, fast, predicted = found[:3]
    assert fast.height == pytest.approx(2 * slow.height)
    assert (slow.hatch, fast.hatch, predicted.hatch) == ("", "", "background")
    l1 = found[3:6]
    assert [round(b.height / l1[2].height, 3) for b in l1] == [4, 2, 1]


def test_numbers_are_the_reports() -> None:
    record = SWEEP.data[0]
    assert record["rate"] == 2_000_000_000 / 0.04 and record["is_measured"] and record["bytes"]["L1"] == 800_000_000
    assert record["share"] == pytest.approx(50 / 215)
    lines = str(SWEEP).splitlines()
    assert lines[1].split() == ["tile", "speed", "of", "the", "peak", *SWEEP.level_names]
    assert lines[3].split()[:3] == ["16", "50", "GFLOP/s"] and "~" in lines[5]


def test_words_have_room_and_a_level_that_moves_nothing_has_no_row() -> None:
    assert clashes([m for m in SWEEP.scene().marks if isinstance(m, Text)]) == []
    still = Sweep({"16": report(seconds=(0.04,), fits=True)})
    assert "DRAM" in SWEEP.level_names and "DRAM" not in still.level_names


def test_live_details_say_the_verdict() -> None:
    live = SWEEP.live()
    assert set(live["details"]) == {b.key for b in bars(SWEEP)}
    assert ["verdict", SWEEP.reports["32"].verdict] in live["details"]["run:1"]["rows"]
    with pytest.raises(ValueError, match="needs a report"):
        replace(SWEEP, reports={})

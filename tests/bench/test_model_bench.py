"""`bench model` as a value, its cases, and what it prints where there is no GPU."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

import tileworkbench
from tileworkbench.bench.__main__ import BENCHES, main
from tileworkbench.bench.gpu import model
from tileworkbench.bench.gpu.model import ModelFound, dram_ratio, over, predictions, recorded
from tileworkbench.bench.gpu.model_cases import cases
from tileworkbench.model.recorded import Origin, RecordedRun, Recording
from tileworkbench.model.report import report
from tileworkbench.views.roofline import Roofline
from tileworkbench.views.traffic import TrafficChart
from tileworkbench.views.waterfall import WaterfallView

ORIGIN = Origin("NVIDIA H200", "2026-12-01", "580.95", "13.0", "python -m tileworkbench.bench model")
SAID = {"seconds": 1e-3, "DRAM read": 80e6, "DRAM written": 20e6, "L2 read": 90e6, "L2 written": 20e6}
RUN = RecordedRun("gemm float16", "64x64x64", "fast", (1.1e-3, 1.0e-3, 1.2e-3), {"DRAM read": 79e6, "DRAM written": 20e6})


@pytest.fixture(autouse=True)
def nothing_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wavefronts have tests of their own (`test_wavefronts`), and take a C++ compiler."""
    monkeypatch.setattr("tileworkbench.bench.gpu.wavefronts.emulated", lambda case: ({}, ""))


def test_three_schedules_of_each_kind_compile_to_kernels_of_the_model() -> None:
    found = cases()
    assert set(Counter((c.kernel, c.shape) for c in found if not c.off).values()) == {3}
    assert {c.problem.kind for c in found} >= {"gemm", "attention", "softmax", "transpose"} and len({c.name for c in found}) == len(found)
    said = predictions(report(found[0].make().kernel, Recording(ORIGIN).machine, {}))
    assert said["seconds"] > 0 and said["L2 read"] > said["DRAM read"] >= 2 * 4096**2 * 2 and said["DRAM written"] == 4096**2 * 2


@pytest.mark.parametrize(
    ("run", "wrong"),
    [
        (RUN, []),
        (replace(RUN, counters={"DRAM read": 68e6, "DRAM written": 20e6}), ["bytes"]),
        (replace(RUN, seconds=(0.7e-3,)), ["time"]),
        (replace(RUN, seconds=(), counters={}), ["bytes", "time"]),
        (replace(RUN, counters={"DRAM read": 79e6}), ["bytes"]),
    ],
)
def test_a_row_is_within_its_limits_or_says_what_is_not(run: RecordedRun, wrong: list[str]) -> None:
    assert over(run, SAID) == wrong
    found = ModelFound(Recording(ORIGIN, (run,)), (SAID,))
    assert found.is_within == (not wrong)
    assert ("OVER: " + " and ".join(wrong) in found.table()) == bool(wrong)
    assert Recording.from_json(Recording(ORIGIN, (replace(run, predicted=SAID),)).to_json()).as_dict() == found.as_json()


def test_the_table_has_both_sides() -> None:
    table = ModelFound(Recording(ORIGIN, (RUN,)), (SAID,)).table()
    assert dram_ratio(RUN, SAID) == pytest.approx(100 / 99)
    assert "80.0 / 79.0" in table and "1000.0 / 1100.0" in table and "1.01" in table and "0.91" in table
    assert "NVIDIA H200, 2026-12-01, driver 580.95, CUDA 13.0" in table and "recorded" not in table
    assert "--cache-control none" in table


def test_without_a_gpu_the_newest_recording_is_printed_beside_what_the_model_says_now(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    case = next(c for c in cases() if c.problem.kind == "softmax")
    now = predictions(report(case.make().kernel, Recording(ORIGIN).machine, {}))
    run = RecordedRun(case.kernel, case.shape, case.schedule, (now["seconds"],), {"DRAM read": now["DRAM read"], "DRAM written": now["DRAM written"]})
    gone = replace(run, schedule="a schedule that nobody has any more", predicted={"seconds": 1.0})
    old = replace(ORIGIN, date="2025-01-01")
    held = {"old": Recording(old, (replace(run, seconds=(1.0,)),)), "new": Recording(ORIGIN, (run, gone))}
    monkeypatch.setattr(model, "recordings", lambda: held)
    monkeypatch.setattr(model, "why_no_gpu", lambda: "no GPU here (no driver)")
    assert main(["model"]) == 0
    said = capsys.readouterr().out
    assert "no GPU here (no driver): recorded on NVIDIA H200, 2026-12-01, driver 580.95" in said
    assert "1 of 1 rows" in said and "nobody has" not in said
    monkeypatch.setattr(model, "recordings", dict)
    assert main(["model"]) == 1 and "nothing is recorded" in capsys.readouterr().out
    assert recorded("why").recording.runs == () and "model" in BENCHES


def test_a_row_that_is_known_to_be_off_says_why_and_fails_nothing() -> None:
    slow = replace(RUN, schedule="slow", seconds=(5e-3,))
    both = Recording(ORIGIN, (RUN, slow))
    assert not ModelFound(both, (SAID, SAID)).is_within
    found = ModelFound(both, (SAID, SAID), known={slow.name: "a reason"})
    assert found.is_within and "OVER: time, known: a reason" in found.table() and "1 of 2 rows" in found.table()


def test_a_recorded_run_of_the_package_is_shown_without_a_gpu() -> None:
    case, held = cases()[0], tileworkbench.recordings()["h200_model"]
    r = held.report(held.run(case.name), case.make().kernel, useful_flops=case.problem.flops)
    assert r.kind == "recorded" and 500e12 < r.rate.value < 800e12 and r.counters is not None
    for view in (Roofline.of(r), TrafficChart(r), WaterfallView.of(r)):
        assert held.origin.badge in str(view) and "recorded on NVIDIA H200" in view.svg() and view.png()[:4] == b"\x89PNG"


@pytest.mark.skipif(not model.why_no_gpu(), reason="there is a GPU: it would be measured")
def test_the_model_agrees_with_what_an_h200_counted() -> None:
    """DRAM bytes within 10 %, time within 25 %, of every recorded row but those whose reason is known: the model as it is now."""
    found = model.run()
    assert found.recording.origin.machine == "NVIDIA H200" and len(found.rows) >= 14
    kinds = Counter(r.kernel for r, _ in found.rows)
    assert min(kinds[k] for k in ("gemm float16", "attention float16", "softmax float32", "transpose float32")) >= 3
    assert found.is_within, found.table()

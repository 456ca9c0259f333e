"""Timelines: their numbers from events made by hand, and the model's against the report that they come from."""

from __future__ import annotations

import pytest

from tileworkbench.base.machine import find_machine
from tileworkbench.kernels import attention, gemm, softmax
from tileworkbench.model.pipeline import OUTSIDE, Event, Timeline
from tileworkbench.model.pipelining import timeline
from tileworkbench.model.report import Report, report
from tileworkbench.model.stage_work import MainLoop, main_loop

KERNELS = {
    "gemm": gemm.program(500, 300, 700, 128, 128, 64, 3, "float32", "float32", True).kernel,
    "attention": attention.program(1, 2, 500, 64, True, 128, 64, "float16").kernel,
}
GEMM = gemm.program(4096, 4096, 4096, 128, 128, 64, 3, "float16", "float16", False).kernel


def about(kernel: object, machine: str) -> Report:
    return report(kernel, find_machine(machine), {}, threads=1)  # type: ignore[arg-type]  # a kernel


def event(kind: str, start: float, end: float, step: int, slot: int = -1) -> Event:
    return Event("copy" if kind == "copy" else "units", kind, kind, start, end, step, slot)


def test_a_pipeline_of_two_stages_by_hand() -> None:
    """Copies of 2 s, arithmetic of 3 s: full from the second step on, and the copies hide."""
    copies = [event("copy", 0, 2, 0, 0), event("copy", 2, 4, 1, 1), event("copy", 5, 7, 2, 0), event("copy", 8, 10, 3, 1)]
    sums = [event("compute", 2 + 3 * k, 5 + 3 * k, k) for k in range(4)]
    t = Timeline.of_events("k", "made up", [*copies, *sums, event("store", 14, 15, OUTSIDE)], stages=2, total_steps=10)
    assert t.steps == (0, 1, 2, 3)
    assert (t.prologue_seconds, t.steady_seconds, t.epilogue_seconds) == (2.0, 3.0, 1.0)
    assert (t.bound, t.steady_wait, t.exposed_seconds) == ("compute", 0.0, 2.0)
    assert t.seconds == 15 + 6 * 3
    assert t.busy("units") == pytest.approx(13 / 15)


def test_copies_without_a_pause_and_copies_that_nothing_hides() -> None:
    busy = [event("copy", 4.0 * k, 4.0 * k + 4, k, k % 2) for k in range(6)] + [event("compute", 4.0 * k + 4, 4.0 * k + 5, k) for k in range(6)]
    assert Timeline.of_events("k", "m", busy, stages=2).bound == "copy bandwidth"
    turns = [event("copy", 3.0 * k, 3.0 * k + 2, k) for k in range(6)] + [event("compute", 3.0 * k + 2, 3.0 * k + 3, k) for k in range(6)]
    t = Timeline.of_events("k", "m", turns)
    assert (t.bound, t.steady_wait) == ("exposed copies", 2.0)
    assert "67 %" in t.verdict and "nothing hides" in t.verdict


def whole(loop: MainLoop, key: str, name: str = "") -> float:
    """A quantity of all steps of all blocks."""
    total = 0.0
    for w in loop.work:
        part = getattr(w, key)
        total += (part.get(name, 0.0) if name else sum(part.values())) * loop.blocks * (loop.steps if w.place == "loop" else 1)
    return total


@pytest.mark.parametrize("machine", ["reference", "h200"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_steps_add_up_to_the_report(kernel: object, machine: str) -> None:
    """FLOP, exponentials and the bytes of every level: operations times how often they run are the report's totals."""
    r = about(kernel, machine)
    loop = main_loop(kernel, r)  # type: ignore[arg-type]  # a kernel
    assert loop is not None
    assert whole(loop, "flops") == pytest.approx(r.counts.total_flops)
    assert whole(loop, "special") == pytest.approx(sum(r.counts.special.values()))
    for level in r.levels:
        assert whole(loop, "bytes", level.name) == pytest.approx(level.cold_bytes), level.name


def test_more_stages_hide_more() -> None:
    """On a GPU a step gets shorter with every stage until the copies or the arithmetic fill it."""
    r = about(GEMM, "h200")
    steady = [timeline(r, GEMM, stages=n, residents=1).steady_seconds for n in (0, 1, 2, 3, 4)]
    assert steady[0] >= steady[1] > steady[2] >= steady[3] == pytest.approx(steady[4])
    first = timeline(r, GEMM, stages=1, residents=1)
    assert first.bound == "exposed copies" and {e.slot for e in first.events if e.kind == "copy"} == {0}
    third = timeline(r, GEMM, stages=3, residents=1)
    assert {e.slot for e in third.events if e.kind == "copy"} == {0, 1, 2}
    arithmetic = sum(e.seconds for e in third.events if e.kind == "compute" and e.step == 2)
    assert third.steady_seconds >= arithmetic


def test_a_copy_waits_for_its_buffer_and_arithmetic_for_its_data() -> None:
    t = timeline(about(GEMM, "h200"), GEMM, stages=2, residents=1)
    for step in t.steps[2:]:
        released = max(e.end for e in t.events if e.kind == "compute" and e.step == step - 2)
        assert min(e.start for e in t.events if e.kind == "copy" and e.step == step) >= released
    for step in t.steps:
        arrived = max(e.end for e in t.events if e.kind == "flight" and e.step == step)
        assert min(e.start for e in t.events if e.kind == "compute" and e.step == step) >= arrived


def test_no_asynchronous_copies_before_ampere() -> None:
    t = timeline(about(GEMM, "t4"), GEMM)
    assert any("no asynchronous copies" in a for a in t.assumptions)
    assert t.steady_seconds == pytest.approx(timeline(about(GEMM, "t4"), GEMM, stages=0).steady_seconds)


def test_a_core_does_one_thing_at_a_time() -> None:
    kernel = KERNELS["gemm"]
    t = timeline(about(kernel, "reference"), kernel)
    ordered = sorted(t.events, key=lambda e: e.start)
    assert all(a.end <= b.start + 1e-15 for a, b in zip(ordered, ordered[1:], strict=False))
    assert t.exposed_seconds > 0 and set(t.lanes) == {"core copies", "core computes", "core stores"}


def test_a_kernel_without_a_loop() -> None:
    kernel = softmax.program(64, 256, 4, "float32").kernel
    for machine in ("reference", "h200"):
        t = timeline(about(kernel, machine), kernel)
        assert not t.steps and t.events and t.seconds > 0 and t.verdict.startswith("no loop")

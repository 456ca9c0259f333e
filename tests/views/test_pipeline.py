"""The pipeline's picture and its text, from a timeline made by hand and from the model."""

from __future__ import annotations

import json

import pytest

from tileworkbench.base.machine import find_machine
from tileworkbench.base.span import Span
from tileworkbench.kernels import attention, gemm, softmax
from tileworkbench.model.pipeline import OUTSIDE, Event, Timeline
from tileworkbench.model.report import report
from tileworkbench.views.labels import clashes
from tileworkbench.views.marks import Rect, Text
from tileworkbench.views.pipeline import PipelineView, pipeline

SPAN = Span("k.py", 7, 0, 7, 9, text="T.copy(A, a)  # <b>")


def by_hand() -> PipelineView:
    events = [Event("copy", "copy", "copy A to a", 2.0 * k, 2.0 * k + 1, k, k % 2, "1 B at 1 B/s", SPAN) for k in range(4)]
    events += [Event("tensor cores", "wait", "c += a @ b", 2.0 * k, 2.0 * k + 1, k, why="waits for a") for k in range(4)]
    events += [Event("tensor cores", "compute", "c += a @ b", 2.0 * k + 1, 2.0 * k + 2, k) for k in range(4)]
    events.append(Event("store", "store", "store c to C", 8.0, 9.0, OUTSIDE))
    return PipelineView(Timeline.of_events("made_up", "a machine", events, stages=2, total_steps=10))


def test_waits_are_hatched_and_stages_have_rows() -> None:
    view = by_hand()
    rects = [m for m in view.scene().marks if isinstance(m, Rect) and m.key]
    assert sum(m.hatch == "warning" for m in rects) == 4
    copies = [m for m in rects if m.fill == "L2"]
    assert len({m.y for m in copies}) == 2, "one row for each stage"
    assert all(m.key == "k.py:7" for m in copies), "a copy lights its line"
    words = [m.text for m in view.scene().marks if isinstance(m, Text)]
    assert "6 more steps" in words and "copy A to a [1]" in words


def test_numbers_are_the_timelines() -> None:
    view = by_hand()
    t = view.timeline
    data = view.data
    assert data["steady_seconds"] == t.steady_seconds == 2.0 and data["bound"] == t.bound == "exposed copies"
    assert len(data["events"]) == len(t.events) and data["busy"]["tensor cores"] == t.busy("tensor cores")
    assert t.verdict in str(view) and "10 steps" in str(view)


def test_details_and_frames() -> None:
    live = by_hand().live()
    assert [f["label"] for f in live["frames"]] == ["all", "step 0", "step 1", "step 2", "step 3"]
    assert live["details"]["k.py:7"]["caption"] == "k.py:7: T.copy(A, a)  # <b>"
    assert [row[0] for row in live["details"]["k.py:7"]["rows"]] == ["0", "1", "2", "3"]


KERNELS = {
    "gemm": gemm.program(4096, 4096, 4096, 128, 128, 64, 3, "float16", "float16", False).kernel,
    "attention": attention.program(1, 8, 2048, 64, False, 128, 128, "float16").kernel,
    "softmax": softmax.program(512, 1024, 8, "float32").kernel,
}


@pytest.mark.parametrize("machine", ["h200", "reference"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_librarys_kernels(name: str, machine: str) -> None:
    kernel = KERNELS[name]
    about = report(kernel, find_machine(machine), {})
    view = pipeline(about)
    assert view == pipeline(about, kernel)
    scene = view.scene()
    assert not clashes(m for m in scene.marks if isinstance(m, Text))
    assert all(0 <= m.x and m.x + m.width <= scene.width for m in scene.marks if isinstance(m, Rect))
    assert len(json.dumps(view.live())) < 200_000
    for theme in ("light", "dark"):
        assert view.svg(theme).startswith("<svg")
    if machine == "h200" and name != "softmax":
        assert set(view.data["by_stages"]) >= {1, 2, 3, 4}
        assert view.data["by_stages"][view.timeline.stages] == view.timeline.steady_seconds


def test_three_groups_and_four_stages_stay_readable() -> None:
    """An emulated run says so; a row for each tile of each stage and two for each group, none on top of another, and its long loop is cut."""
    lanes = ["copy", "producer", *(f"consumer {i}{tail}" for i in range(3) for tail in (": tensor cores", "")), "store"]
    events = [Event("copy", "copy", f"copy {n} to {n}_tile", 3.0 * k + i, 3.0 * k + i + 1, k, k % 4) for k in range(40) for i, n in enumerate("AB")]
    events += [Event(lane, "compute", "acc += A_tile @ B_tile", 3.0 * k + 2, 3.0 * k + 5, k) for lane in lanes[2:-1] for k in range(40)]
    events += [Event("producer", "idle", "copy A to A_tile", 3.0 * k, 3.0 * k + 2, k) for k in range(40)]
    events.append(Event("store", "store", "store acc to C", 123.0, 125.0, OUTSIDE))
    view = pipeline(Timeline("gemm", "NVIDIA H200", tuple(lanes), tuple(events), 4, 40.0, "ko", "emulated"))
    scene = view.scene()
    words = [m.text for m in scene.marks if isinstance(m, Text)]
    assert "emulated: order from the run, durations from the model of NVIDIA H200" in words and "30 more steps" in words
    assert {f"copy {n} to {n}_tile [{slot}]" for n in "AB" for slot in range(4)} | set(lanes[1:]) <= set(words)
    assert not clashes(m for m in scene.marks if isinstance(m, Text))
    rows = {m.y for m in scene.marks if isinstance(m, Rect) and m.key and m.fill != "grid"}
    assert len(rows) == 8 + 6 + 1 and scene.height < 560
    assert view.data["source"] == "emulated" and view.data["steady_seconds"] == 3.0, "of all steps, not of those that are drawn"


def test_a_prediction_says_that_it_is_one() -> None:
    kernel = KERNELS["softmax"]
    view = pipeline(report(kernel, find_machine("h200"), {}), note="not emulated: too long")
    assert "predicted: order and durations from the model of NVIDIA H200 (not emulated: too long)" in str(view)


def test_an_empty_timeline() -> None:
    view = PipelineView(Timeline("k", "m", (), ()))
    assert "nothing runs" in str(view) and view.scene().width > 0

"""The recorder's view: text, data, picture and live frames hold the recording's numbers and stay small."""

from __future__ import annotations

import base64
import json
import zlib

import numpy as np
import pytest

from tileworkbench.base.machine import find_machine
from tileworkbench.kernels.attention import Schedule, attention
from tileworkbench.model.recording import record_run
from tileworkbench.model.report import report
from tileworkbench.views.recorder import Recorder
from tileworkbench.views.recorder_parts import short

SEQ, DIM, TILE = 32, 8, 8
MAX_BYTES = 200 * 1024


def recorded(seq=SEQ, dim=DIM, tile=TILE, *, causal=True, machine="h200", block=None):
    rng = np.random.default_rng(1)
    kernel = attention(1, 1, seq, dim, causal=causal, schedule=Schedule(tile, tile))
    call = kernel.bind(*(rng.standard_normal((1, 1, seq, dim)).astype(np.float32) for _ in range(3)))
    chosen = find_machine(machine)
    facts = report(kernel.ir, chosen, call.dims, threads=chosen.cores)
    return record_run(kernel.ir, [b.array for b in call.tensors], report=facts, dims=call.dims, block=block)


@pytest.fixture(scope="module")
def view():
    return Recorder(recorded())


def film(live):
    return json.loads(zlib.decompress(base64.b64decode(live["film"])))


def scene_texts(marks):
    return [m["text"] for m in marks if m["kind"] == "text"]


def test_the_text_twin_has_a_line_for_each_step(view):
    text = str(view)
    recording = view.recording
    steps = sum(len(recording.steps(b)) for b in range(len(recording.blocks)))
    assert text.count("loop") + text.count("step = ") == steps
    assert f"{recording.at(0, 1)[-1].tiles['m'].values[0, 0]:.4g}" in text
    assert "shared memory: a block takes 768 B of 227 KiB of a block: fits" in text


def test_data_are_the_recordings_numbers(view):
    last = view.data[-1]
    assert last["bytes"] == pytest.approx(view.recording.totals)
    assert last["tiles"]["O"]["high"] == view.recording.ops[-1].tiles["O"].high
    json.dumps(view.data)


def test_the_picture_shows_tiles_curves_bytes_and_capacity(view):
    scene = view.scene()
    words = {m.text for m in scene.marks if hasattr(m, "text")}
    assert {"Q", "K", "V", "S", "O", "O when the step began", "m, the running maximum", "l, the running sum", "shared memory", "DRAM"} <= words
    assert view.png()[:8] == b"\x89PNG\r\n\x1a\n"
    assert all(0 <= m.x <= scene.width for m in scene.marks if hasattr(m, "x"))


def test_numbers_stand_in_the_cells_of_small_tiles(view):
    cells = [m for m in view.scene().marks if type(m).__name__ == "Cells" and m.rows == TILE]
    assert all(len(m.words) == TILE * TILE for m in cells)
    block, step, op = view.place
    tile = view.recording.at(block, step)[op].tiles["O"]
    assert any(m.words[0] == short(tile.values[0, 0]) for m in cells)


def test_the_film_holds_every_operation(view):
    shown = film(view.live())
    recording = view.recording
    assert [len(b["steps"]) for b in shown["blocks"]] == [len(recording.steps(b)) for b in range(len(recording.blocks))]
    frames = [f for b in shown["blocks"] for s in b["steps"] for f in s["frames"]]
    assert len(frames) == len(recording.ops)
    assert {part for f in frames for part in f} == set(range(len(shown["parts"])))


def test_a_frame_is_the_static_picture_of_that_place(view):
    """The same marks, whether the browser puts them together or Python does."""
    live = view.live()
    shown = film(live)
    block, step, op = live["at"]
    frame = shown["blocks"][block]["steps"][step]["frames"][op]
    marks = [m for part in frame for m in shown["parts"][part]]
    assert marks == json.loads(json.dumps(view.scene().to_json()["marks"]))


def test_bytes_in_the_last_frame_are_the_reports(view):
    shown = film(view.live())
    frame = shown["blocks"][-1]["steps"][-1]["frames"][-1]
    texts = scene_texts([m for part in frame for m in shown["parts"][part]])
    for level in view.recording.report.levels:
        whole = next(t for t in texts if t.startswith("of ") and level.name)
        assert whole.removeprefix("of ") in texts or not level.bytes


def test_a_long_run_is_thinned_and_says_so():
    """752 operations with numbers in every cell are too many for an output: some blocks are left out, never the one that is shown."""
    view = Recorder(recorded(64, 8, 8, causal=False), block=3, step=2)
    live = view.live()
    assert len(json.dumps(live)) < MAX_BYTES / 2
    assert live["note"] == "the run is long: every 2. block can be scrubbed"
    shown = film(live)
    assert [b["block"] for b in shown["blocks"]] == [1, 3, 5, 7]
    assert shown["blocks"][live["at"][0]]["block"] == 3
    assert shown["blocks"][live["at"][0]]["steps"][live["at"][1]]["step"] == 2


def test_outputs_stay_small():
    """Tiles too large to draw, and a lesson's run with its picture."""
    assert len(json.dumps(Recorder(recorded(256, 64, 64)).live())) < MAX_BYTES / 2
    small = Recorder(recorded(causal=False))
    assert len(json.dumps(small.live())) + len(small.html()) + len(base64.b64encode(small.png())) < MAX_BYTES


def test_a_sampled_tile_is_labelled():
    view = Recorder(recorded(256, 64, 64, block=(0,)))
    assert "every 4. row, 4. column" in {m.text for m in view.scene().marks if hasattr(m, "text")}
    assert "every n-th row and column" in str(view)


def test_a_place_can_be_chosen():
    view = Recorder(recorded(), block=1, step=0, op=1)
    assert view.place == (1, 0, 1)
    assert "operation 2 of" in view.scene().svg()
    assert Recorder(recorded(), block=3, step=7).place[1] == 0  # the block walks one step only


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_is_in_the_theme(view, theme):
    assert view.scene().svg(theme).startswith("<svg")

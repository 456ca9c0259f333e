"""Times of logs written by hand: what waits for what, and who shares what."""

from __future__ import annotations

import pytest

from tileworkbench.emulator.log import Entry, Log, WarpLog
from tileworkbench.emulator.recording_text import recorded
from tileworkbench.emulator.text import Line
from tileworkbench.model.replay import Piece, replay
from tileworkbench.model.sm_rates import SmRates

RATES = SmRates(1e9, issue=1.0, special=8.0, shared_bytes=128.0, copy_bytes=10.0, latency=100.0, tensors={"float16": 4.0})
COPY, USE = Line("k.py", 1), Line("k.py", 2)
FULL, EMPTY = 64, 72


def played(*warps: list[Entry], residents: int = 1) -> dict[tuple[int, str], list[Piece]]:
    log = Log("k", tuple(WarpLog(0, i, (*w, Entry("end", None))) for i, w in enumerate(warps)), (), 32 * len(warps))
    out: dict[tuple[int, str], list[Piece]] = {}
    for p in replay(log, RATES, residents=residents).pieces:
        out.setdefault((p.warp, p.kind), []).append(p)
    return out


def load(phase: int, size: int = 500) -> list[Entry]:
    return [Entry("wait", COPY, EMPTY, phase - 1), Entry("arrive", COPY, FULL, phase, 1, 0, 1), Entry("load", COPY, FULL, phase, size, 1024, 1)]


def use(phase: int) -> list[Entry]:
    product = [Entry("product", USE, 0, 0, 40), Entry("product_commit", USE, phase), Entry("product_wait", USE, phase + 1)]
    return [Entry("wait", USE, FULL, phase), *product, Entry("arrive", USE, EMPTY, phase, 1, 0, 1)]


def test_one_stage_by_hand() -> None:
    """50 clocks for the bytes, 100 until they come, 40 for the product on one of four tensor cores; then the stage is filled again."""
    found = played(load(0) + load(1), use(0) + use(1))
    assert [(p.start, p.end, p.arrives) for p in found[0, "load"]] == [(0, 50, 150), (190, 240, 340)]
    assert [(p.start, p.end) for p in found[1, "product"]] == [(150, 190), (340, 380)]
    assert [(p.start, p.end) for p in found[1, "wait"]] == [(0, 150), (190, 340)]
    assert [p.end - p.start for p in found[0, "wait"]] == [0, 190]


@pytest.mark.parametrize(("in_registers", "goes_on"), [(0, 0), (1, 40)])
def test_a_warp_goes_on_when_its_registers_are_read(in_registers: int, goes_on: float) -> None:
    found = played([*[Entry("product", USE, 0, in_registers, 40)] * 2, Entry("work", USE, 0, 0, 16)])
    assert [(p.start, p.end) for p in found[0, "product"]] == [(0, 40), (40, 80)]
    assert [(p.start, p.end) for p in found[0, "work"]] == [(goes_on, goes_on + 16)]


def test_schedulers_and_tensor_cores_are_four() -> None:
    """Warps 0 and 4 share one; warp 1 has its own. Warps take turns in slices, and exponentials take eight clocks each."""
    work = [Entry("work", USE, 0, 0, 64)]
    found = played(work, work, [], [], work)
    assert found[1, "work"][0].end == 64
    assert sorted(found[i, "work"][0].end for i in (0, 4)) == [96, 128]
    assert played([Entry("work", USE, 0, 0, 10, 10)])[0, "work"][0].end == pytest.approx(80, abs=4)


def test_groups_of_copies_and_barriers() -> None:
    copy = [Entry("copy", COPY, 0, 0, 100, 1024), Entry("copy_commit", COPY, 0), Entry("copy", COPY, 1, 0, 100, 2048), Entry("copy_commit", COPY, 1)]
    waits = [Entry("copy_wait", USE, 1), Entry("bar", USE, 0, 64, 1), Entry("shared", USE, 0, 0, 7)]
    found = played([*copy, *waits], [Entry("work", USE, 0, 0, 300), Entry("bar", USE, 0, 64, 1)])
    assert [(p.start, p.end) for p in found[0, "copy_wait"]] == [(0, 110)], "for the first group alone"
    assert [(p.start, p.end) for p in found[0, "barrier"]] == [(110, 300)]
    assert [(p.start, p.end) for p in found[0, "work"]] == [(300, 307)], "wavefronts, one a clock"


def test_blocks_that_share_a_multiprocessor_take_turns() -> None:
    """The second block's bytes go out before the first block asks for its second stage."""
    starts = [[p.start for p in played(load(0, 5000) + load(1, 5000), use(0) + use(1), residents=n)[0, "load"]] for n in (1, 2)]
    assert starts == [[0, 640], [0, 1000]]


def test_a_cluster_meets_without_those_that_have_ended() -> None:
    meet = [Entry("cluster_arrive", USE), Entry("cluster_wait", USE)]
    found = played([*meet, Entry("work", USE, 0, 0, 8)], [Entry("work", USE, 0, 0, 50), *meet], [Entry("work", USE, 0, 0, 80)])
    assert [(p.start, p.end) for p in found[0, "barrier"]] == [(0, 80)], "the third one ends, and did not come"


def test_a_wait_that_nothing_ends() -> None:
    log = Log("k", (WarpLog(0, 0, (Entry("wait", USE, FULL, 0), Entry("end", None))),), (), 32)
    assert replay(log, RATES).unmatched == 1


def test_text_with_turns_and_instructions() -> None:
    turns = "  for (int32_t ko = 0; ko < 8; ko += 1) {\n    #pragma unroll\n    for (int32_t r = 0; r < 4; r += 1) {\n"
    text = f'extern "C" __global__ void k() {{\n{turns}      x[r] = x[r] * y + z;\n    }}\n  }}\n  z = a;\n}}\n'
    told, loops = recorded(text)
    assert loops == ("ko",)
    lines = told.splitlines()
    assert lines[1].endswith("{ twbe_step(0, (int64_t)ko);") and lines[6].endswith("} twbe_step(-1, 0);")
    assert lines[4].endswith("; twb_work(1);") and lines[3] == text.splitlines()[3] and lines[7] == "  z = a;"

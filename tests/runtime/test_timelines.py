"""`kernel.timeline`: stages, bytes, waits and steps of small kernels, from runs in the emulator."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import tileworkbench
from tileworkbench.base.errors import UnsupportedError
from tileworkbench.base.machine import find_machine
from tileworkbench.kernels import attention, gemm
from tileworkbench.model.pipeline import OUTSIDE, Event, Timeline
from tileworkbench.runtime import timelines
from tileworkbench.runtime.kernel import JITKernel

M, N, K = 128, 128, 512


def halves(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float16)


@cache
def product(arch: str, stages: int, m: int = M, n: int = N, threads: int = 0, block: int = 128) -> tuple[JITKernel, Timeline]:
    program = gemm.program(m, n, K, 128, block, 64, stages, "float16", "float16", False, threads=threads)
    kernel = tileworkbench.compile(program, out_idx=-1, target=f"emulate:{arch}")
    return kernel, kernel.timeline(halves(m, K), halves(K, n))


def of(t: Timeline, kind: str, lane: str = "") -> list[Event]:
    return [e for e in t.events if e.kind == kind and e.lane.startswith(lane)]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_bytes_and_stages_are_the_runs(arch: str) -> None:
    """A copy for each tile and step; their bytes are what the emulator counts, and every stage is used in turn."""
    kernel, t = product(arch, 3)
    assert "twb_work(" not in kernel.executable.program.source.text.partition("#line")[2], "a text counts its instructions only when it is recorded"
    copies = of(t, "copy")
    counted = kernel.count(halves(M, K), halves(K, N)).total  # the launch has one block
    assert sum(e.amount for e in copies) == counted.async_bytes + counted.tma_load_bytes == 2 * (M + N) * K
    assert (t.source, t.loop, t.total_steps, t.stages) == ("emulated", "ko", 8.0, 3)
    assert {e.name for e in copies} == {"copy A to A_tile", "copy B to B_tile"}
    for name in ("copy A to A_tile", "copy B to B_tile"):
        mine = sorted((e for e in copies if e.name == name), key=lambda e: e.start)
        assert [e.step for e in mine] == list(range(8))
        assert [e.slot for e in mine] == [k % 3 for k in range(8)]
        assert all(e.span is not None and "T.copy(" in e.span.source_line() for e in mine)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_nothing_is_used_before_it_is_there(arch: str) -> None:
    """Products of a step begin after its bytes came; a stage is filled again only when it was given back; a wait ends when its data are there."""
    _, t = product(arch, 3)
    for step in t.steps:
        there = max(e.end for e in of(t, "flight") if e.step == step)
        products = [e for e in of(t, "compute") if e.step == step and e.name.startswith("acc")]
        assert products and min(e.start for e in products) >= there
    assert all(max(e.end for e in of(t, "flight") if e.step == w.step) <= w.end + 1e-12 for w in of(t, "wait") if "copy A" in w.why)
    for slot in range(3):
        for name in ("copy A to A_tile", "copy B to B_tile"):
            starts = sorted(e.start for e in of(t, "copy") if e.slot == slot and e.name == name)
            ends = sorted(e.end for e in of(t, "held") if e.slot == slot and e.name == name)
            assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_more_stages_take_no_longer(arch: str) -> None:
    serial, deep = product(arch, 1)[1], product(arch, 4)[1]
    assert serial.seconds > product(arch, 3)[1].seconds >= 0.99 * deep.seconds  # copies that go ahead of others may come in their way
    assert serial.bound == "exposed copies" and serial.steady_wait > 0.3 * serial.steady_seconds
    assert deep.bound == "compute" and deep.steady_wait < 0.02 * deep.steady_seconds
    waits = [sum(e.seconds for e in of(t, "wait") if e.step > 1) for t in (serial, deep)]
    assert waits[1] < 0.1 * waits[0]


def test_without_stages_the_threads_copy_and_wait() -> None:
    t = product("sm_80", 0)[1]
    assert t.stages == 0 and {e.slot for e in of(t, "copy")} == {-1}
    assert any("global memory" in e.why for e in of(t, "wait"))
    last = max(e.end for e in of(t, "compute") if e.step == 0)
    assert min(e.start for e in of(t, "copy") if e.step == 1) >= last, "nothing runs ahead"


def test_a_producer_and_two_consumers() -> None:
    """Two groups take turns at the tensor cores, which never rest: a step of 128x256x64 takes the 1024 clocks that its FLOP need."""
    _, t = product("sm_90a", 4, n=512, threads=256, block=256)
    assert t.lanes[:2] == ("copy", "producer") and {"consumer 0", "consumer 1", "consumer 1: tensor cores", "store"} <= set(t.lanes)
    clock = find_machine("h200").gpu.tensor_clock.value * 1e6  # type: ignore[union-attr]  # a GPU
    assert t.steady_seconds * clock == pytest.approx(1024, rel=0.02)
    assert not of(t, "wait", "producer") and of(t, "idle", "producer"), "to wait for a free stage costs nothing"
    first, second = (sorted(of(t, "compute", f"consumer {i}: tensor"), key=lambda e: e.start) for i in (0, 1))
    turns = [e.lane for e in sorted([*first, *second], key=lambda e: e.start)]
    assert len(first) == len(second) == 8 and all(a != b for a, b in zip(turns, turns[1:], strict=False)), "group after group"


LANES = {"sm_80": {"copy", "warps 0-3", "store"}, "sm_90a": {"copy", "producer", "consumer", "consumer: tensor cores", "store"}}


@pytest.mark.parametrize("arch", LANES)
def test_attention(arch: str) -> None:
    program = attention.program(1, 1, 256, 64, False, 64, 64, "float16", stages=2)
    kernel = tileworkbench.compile(program, out_idx=-1, target="interpret")
    t = kernel.timeline(*(halves(1, 1, 256, 64),) * 3, arch=arch)
    assert set(t.lanes) == LANES[arch] and t.loop == "step" and t.total_steps == 4
    for name, times in (("copy Q to q", 1), ("copy K to k", 4), ("copy V to v", 4)):
        assert len([e for e in of(t, "copy") if e.name == name]) == times
    exponentials = [e for e in of(t, "compute") if "special results" in e.why and e.name == "compute s"]
    assert len(exponentials) == 4 and all("special results of a warp" in e.why for e in exponentials)


def test_the_last_block_where_the_first_does_nothing() -> None:
    """Causal, first rows first: block 0 has one step, the last one all."""
    program = attention.program(1, 1, 256, 64, True, 64, 64, "float16", stages=2)
    kernel = tileworkbench.compile(program, out_idx=-1, target="emulate:sm_80")
    assert kernel.timeline(*(halves(1, 1, 256, 64),) * 3).total_steps == 4


def test_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, _ = product("sm_80", 3)
    monkeypatch.setattr(timelines, "MOST_FLOPS", 1e6)
    with pytest.raises(UnsupportedError, match=r"gemm: the emulator would run 0\.0168 GFLOP for a timeline; at most 0\.001 GFLOP"):
        kernel.timeline(halves(M, K), halves(K, N))


def test_a_picture_of_it_cuts_steps_out() -> None:
    t = product("sm_90a", 4, n=512, threads=256, block=256)[1]
    short = t.cut(3)
    assert short.steps == (0, 1, 2) and short.total_steps == 8
    gone = t.shown_seconds - short.shown_seconds
    assert gone == pytest.approx(5 * t.steady_seconds, rel=0.1)
    assert sum(e.amount for e in of(short, "store")) == sum(e.amount for e in of(t, "store")) and of(short, "store")[0].step == OUTSIDE

"""Work and bytes by loop step: over all steps of all blocks every number is the report's."""

from __future__ import annotations

from functools import cache

import pytest

import tileworkbench.model.step_flows as step_flows
import tileworkbench.model.steps as steps_module
from tileworkbench.base.machine import find_machine
from tileworkbench.kernels import attention, gemm, softmax
from tileworkbench.model.report import Report, report
from tileworkbench.model.steps import loop_steps
from tileworkbench.runtime.kernel import JITKernel

KERNELS = {
    "gemm": lambda: gemm.gemm(256, 192, 320),
    "softmax": lambda: softmax.softmax(128, 512),
    "attention": lambda: attention.attention(1, 2, 256, 32),
    "causal": lambda: attention.attention(1, 2, 256, 32, causal=True),
}


@cache
def made(name: str) -> tuple[JITKernel, Report]:
    kernel = KERNELS[name]()
    return kernel, report(kernel.ir, find_machine("reference"), {}, threads=2)


@pytest.mark.parametrize("name", KERNELS)
def test_steps_of_all_blocks_sum_to_the_report(name: str) -> None:
    kernel, r = made(name)
    steps = loop_steps(kernel.ir, r)
    assert not steps.sampled
    assert sum(s.flops for s in steps.steps) == pytest.approx(r.counts.total_flops)
    for level in r.levels:
        assert steps.total(level.name) == pytest.approx(level.bytes), level.name
        assert steps.so_far(level.name)[-1] == pytest.approx(level.bytes), level.name
    for m in r.counts.by_buffer():
        assert sum(s.asked.get(m.buffer, 0) for s in steps.steps) == pytest.approx(m.bytes), m.buffer


@pytest.mark.parametrize("name", KERNELS)
def test_steps_sum_to_a_gpu_s_report_too(name: str) -> None:
    kernel, _ = made(name)
    r = report(kernel.ir, find_machine("h200"), {})
    steps = loop_steps(kernel.ir, r)
    assert sum(s.flops for s in steps.steps) == pytest.approx(r.counts.total_flops)
    assert [level.name for level in r.levels] == ["shared", "L2", "DRAM"]
    for level in r.levels:
        assert steps.total(level.name) == pytest.approx(level.bytes), level.name


@pytest.mark.parametrize("name", KERNELS)
def test_blocks_one_by_one_ask_what_all_ask_together(name: str) -> None:
    kernel, r = made(name)
    together = loop_steps(kernel.ir, r)
    alone = [loop_steps(kernel.ir, r, block=b) for b in range(together.blocks)]
    assert sum(s.asked_bytes for one in alone for s in one.steps) == pytest.approx(r.counts.asked_bytes)
    assert sum(s.flops for one in alone for s in one.steps) == pytest.approx(r.counts.total_flops)
    with pytest.raises(IndexError, match=f"blocks 0 to {together.blocks - 1}, not {together.blocks}"):
        loop_steps(kernel.ir, r, block=together.blocks)


def test_steps_are_named_by_their_loop_and_stand_in_program_order() -> None:
    kernel, r = made("gemm")
    names = [s.name for s in loop_steps(kernel.ir, r).steps]
    assert names[0] == "before the loop" and names[-1] == "after the loop"
    assert names[1:-1] == [f"ko = {i}" for i in range(len(names) - 2)]


def test_causal_steps_shrink_as_fewer_blocks_take_part() -> None:
    """Of the last step only the last query block's work is left."""
    kernel, r = made("causal")
    flops = [s.flops for s in loop_steps(kernel.ir, r).steps if s.loops]
    assert flops == sorted(flops, reverse=True) and flops[0] > flops[-1]


def test_where_blocks_are_left_out_the_sums_still_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, r = made("causal")
    monkeypatch.setattr(steps_module, "MAX_BLOCKS", 3)
    steps = loop_steps(kernel.ir, r)
    assert steps.sampled
    assert sum(s.asked_bytes for s in steps.steps) == pytest.approx(r.counts.asked_bytes)
    assert sum(s.flops for s in steps.steps) == pytest.approx(r.counts.total_flops)
    for level in r.levels:
        assert steps.total(level.name) == pytest.approx(level.bytes)


def test_many_steps_are_taken_together_at_the_outer_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, r = made("gemm")
    monkeypatch.setattr(step_flows, "MAX_STEPS", 2)
    assert sum(s.asked_bytes for s in loop_steps(kernel.ir, r).steps) == pytest.approx(r.counts.asked_bytes)


def test_a_repeated_launch_that_stays_in_the_cache_moves_nothing_at_dram() -> None:
    kernel, _ = made("gemm")
    warm = report(kernel.ir, find_machine("reference"), {}, threads=2, seconds=[1e-3])
    assert warm.traffic.stays_in_cache
    assert loop_steps(kernel.ir, warm).total("DRAM") == 0

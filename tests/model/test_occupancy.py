"""How many blocks fit, what limits them, what admits one more, and what a refusal says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from model.hand import causal, gemm

from tileworkbench.base.dtypes import FLOAT16
from tileworkbench.base.machine import PRESETS, find_machine
from tileworkbench.ir.stmt import Kernel, PipelinedFor
from tileworkbench.model.occupancy import Occupancy, most_registers, occupancy
from tileworkbench.model.report import report

H200 = find_machine("h200")


def tile(bm: int, bn: int, bk: int, *, stages: int = 2, threads: int = 128) -> Kernel:
    kernel = gemm(1024, 1024, 1024, bm, bn, bk, FLOAT16)
    launch = kernel.launches[0]
    body = tuple(replace(s, num_stages=stages) if isinstance(s, PipelinedFor) else s for s in launch.body)
    return replace(kernel, body=(replace(launch, body=body, threads=(threads,)),))


def fit(*sizes: int, machine: str = "h200", registers: int | None = None, **options: Any) -> Occupancy:
    return occupancy(tile(*sizes, **options), find_machine(machine), registers=registers)


def test_shared_memory_is_needed_once_for_each_stage() -> None:
    o = fit(128, 128, 64, stages=3, machine="a100")
    assert o.shared_bytes == 3 * (128 * 64 + 64 * 128) * 2
    assert [(n.buffer, n.copies) for n in o.needs] == [("A_s", 3), ("B_s", 3), ("acc", 1)]
    assert fit(128, 128, 64, stages=0, machine="a100").shared_bytes == (128 * 64 + 64 * 128) * 2


def test_shared_memory_limits_and_says_what_one_more_block_takes() -> None:
    """96 KiB, 64 KiB that results pass through and 1 KiB of the system's in 228 KiB. Two have (228 - 2) / 2 = 113 KiB each. A block has 4 warps more,
    which start copies."""
    o = fit(128, 128, 64, stages=3, registers=80)
    assert (o.blocks, o.limiter, o.warps, o.max_warps) == (1, "shared memory", 8, 64)
    assert o.next_step == "-47 KiB shared -> 2 blocks"
    assert o.sentence == "1 block on an SM (8 of 64 warps, 12 %): shared memory limits; -47 KiB shared -> 2 blocks"
    assert fit(128, 128, 64, stages=0, registers=80).warps == 3 * 4, "nothing is copied ahead, so nobody starts copies"


def test_registers_limit_and_the_next_step_is_true() -> None:
    """72 registers: 9 units of 256 a warp, 4 warps a block, 65536 in all: 7 blocks. With 64 there are 8. Where 4 more start copies, 3 and 4."""
    o = fit(64, 64, 32, machine="a100")
    assert (o.registers, o.blocks, o.limiter) == (64 * 64 // 128 + 40, 7, "registers")
    assert o.next_step == "-8 registers a thread -> 8 blocks"
    assert fit(64, 64, 32, registers=64, machine="a100").blocks == 8
    assert fit(64, 64, 32, registers=65, machine="a100").blocks == 7
    assert (fit(64, 64, 32).blocks, fit(64, 64, 32, registers=64).blocks) == (3, 4)
    assert not fit(64, 64, 32, registers=64).is_estimated


@pytest.mark.parametrize("name", [n for n, m in PRESETS.items() if m.is_gpu])
@pytest.mark.parametrize("sizes", [(64, 64, 32), (128, 64, 32), (32, 32, 32)])
def test_following_the_shared_step_admits_one_more(name: str, sizes: tuple[int, int, int]) -> None:
    gpu = PRESETS[name].gpu
    assert gpu is not None
    o = occupancy(tile(*sizes), PRESETS[name], registers=32)
    if not o.next_step.startswith("-") or "shared" not in o.next_step:
        return
    left = gpu.shared_per_sm.bytes // (o.blocks + 1) // gpu.shared_unit.count * gpu.shared_unit.count - gpu.shared_reserved.count
    assert (gpu.shared_per_sm.bytes // (left + gpu.shared_reserved.count)) >= o.blocks + 1
    assert (gpu.shared_per_sm.bytes // (o.shared_bytes + gpu.shared_reserved.count)) == o.blocks


def test_a_block_that_asks_for_too_much_is_refused_with_the_sum_and_a_way_out() -> None:
    o = occupancy(tile(128, 128, 128, stages=4), H200, schedule={"block_M": 128, "stages": 4})
    assert not o.is_legal and o.blocks == 0
    assert o.refusal == (
        "A_s (128x128 f16 x 4 stages = 128 KiB) + B_s (128x128 f16 x 4 stages = 128 KiB) = 256 KiB > 227 KiB per block on sm_90; stages=3 fits"
    )
    assert fit(128, 128, 128, stages=3).is_legal


def test_a_tunable_of_its_own_value_is_named() -> None:
    """Without stages one extent is halved, and the one with a name comes first; what is promised holds."""
    big = occupancy(tile(128, 128, 512, stages=1), H200, schedule={"block_M": 128, "block_N": 128, "block_K": 512})
    assert big.refusals[0].fits == "block_K=256 fits"
    assert fit(128, 128, 256, stages=1).is_legal
    assert occupancy(tile(128, 128, 512, stages=1), H200).refusals[0].fits == "tiles of 256 instead of 512 fit"


def test_fragments_that_do_not_fit_ask_for_more_threads() -> None:
    o = fit(256, 128, 32)
    assert [x.limit for x in o.refusals] == ["registers"]
    assert o.refusal.startswith("about 296 registers a thread > 255 on sm_90: acc (256x128 f32 = 128 KiB) over 128 threads would spill; ")
    assert o.refusals[0].fits == "threads=256 fits"
    assert fit(256, 128, 32, threads=256).is_legal


def test_too_many_threads_are_refused() -> None:
    assert fit(64, 64, 32, threads=2048).refusals[0].limit == "threads"


def test_a_thread_gets_its_part_of_the_register_file() -> None:
    gpu = H200.gpu
    assert gpu is not None
    assert [most_registers(gpu, n) for n in (128, 256, 384, 512, 1024)] == [255, 255, 168, 128, 64]


def test_gauges_of_a_gpu_and_of_a_cpu() -> None:
    shared, registers, threads = fit(128, 128, 64, stages=3).gauges
    assert str(shared) == "shared memory 160 KiB of 227 KiB (70 %)"
    assert (registers.used, registers.capacity) == (168, 255) and threads.share == 0.125
    o = occupancy(tile(128, 128, 64, stages=3), find_machine("reference"))
    assert [g.name for g in o.gauges] == ["L1", "L2", "L3"]
    assert o.gauges[0].used == 2 * 128 * 64 * 2 + 128 * 128 * 4, "stages share one buffer on a CPU"
    assert o.sentence == "the tiles of a block take 96 KiB, more than L1 has: they stay in L2 (5 % of 2 MiB)"
    assert o.is_legal and o.share == 1


def test_an_old_gpu_has_less() -> None:
    assert fit(128, 128, 64, stages=3, machine="t4").refusals[0].fits == "num_stages=2 fits"


def test_row_values_are_held_by_a_quad() -> None:
    """128 maxima over 128 threads: each thread has its rows' four times over."""
    assert occupancy(causal(1024, 64, 128), H200).registers == 128 + 4 + 40


def test_data_is_plain_and_a_report_carries_it() -> None:
    o = fit(128, 128, 64, stages=3)
    assert o.data["share"] == 0.125 and o.data["needs"][0]["buffer"] == "A_s" and o.data["gauges"][0]["share"] == pytest.approx(160 / 227)
    r = report(tile(128, 128, 128, stages=4), H200, {})
    assert r.verdict.startswith("does not fit: A_s (128x128 f16 x 4 stages = 128 KiB)")
    assert r.edit == "num_stages=3 fits"
    assert report(tile(128, 128, 64), H200, {}, registers=250).facts["registers"] == (250, "")
    assert "fit, estimated from the tiles: 1 block on" in str(report(tile(128, 128, 64, stages=3), H200, {}))

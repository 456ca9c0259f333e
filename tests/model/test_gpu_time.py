"""The predicted time of a GPU: bars that add up, each for its own cause."""

from __future__ import annotations

from dataclasses import replace

import pytest
from model.hand import gemm, rows

from tileworkbench.base.dtypes import FLOAT16
from tileworkbench.base.machine import PRESETS, find_machine
from tileworkbench.ir.stmt import Kernel, PipelinedFor
from tileworkbench.kernels import attention
from tileworkbench.kernels import gemm as library
from tileworkbench.model.report import Report, report
from tileworkbench.model.units import unit_seconds

H200 = find_machine("h200")
GPUS = [name for name, machine in PRESETS.items() if machine.is_gpu]


def made(n: int, bm: int, bn: int, bk: int, *, stages: int = 3, threads: int = 128, k: int = 0) -> Kernel:
    kernel = gemm(n, n, k or n, bm, bn, bk, FLOAT16)
    launch = kernel.launches[0]
    body = tuple(replace(s, num_stages=stages) if isinstance(s, PipelinedFor) else s for s in launch.body)
    return replace(kernel, body=(replace(launch, body=body, threads=(threads,)),))


def bars(r: Report) -> dict[str, float]:
    return {b.name: b.seconds for b in r.waterfall.bars}


@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize("kernel", [made(1024, 64, 64, 32), made(4096, 128, 128, 32, stages=2), rows(8192, 4096, 4)], ids=["small", "large", "rows"])
def test_a_prediction_adds_up_and_lies_below_every_roof(name: str, kernel: Kernel) -> None:
    r = report(kernel, PRESETS[name], {})
    assert r.predicted.value == pytest.approx(r.waterfall.roof.seconds + sum(bars(r).values()))
    assert r.waterfall.roof.name == r.bound
    assert max(r.shares.values()) <= 1
    assert all(b.seconds > 0 and b.why for b in r.waterfall.bars)
    assert bars(r)["launch"] == pytest.approx(3e-6)


@pytest.mark.parametrize(("n", "measured"), [(2048, 600e12), (4096, 656e12), (8192, 672e12), (16384, 666e12)])
def test_products_reach_what_was_measured(n: int, measured: float) -> None:
    """The vendor's bfloat16 products on an H200, November 2026, back to back with other kernels, at the clock that the power limit allows."""
    r = report(made(n, 128, 256, 64, stages=4, threads=256), H200, {})
    assert bars(r)["sustained clock"] > 0.2 * r.waterfall.roof.seconds
    assert r.rate.value == pytest.approx(measured, rel=0.15)


ATTENTION = [
    (4, 16, 4096, 128, False, 623e12), (4, 16, 4096, 128, True, 595e12), (1, 16, 16384, 128, False, 633e12), (16, 16, 1024, 128, False, 583e12),
    (4, 32, 4096, 64, False, 502e12), (1, 32, 16384, 64, True, 509e12), (1, 8, 16384, 256, False, 744e12),
]  # fmt: skip


@pytest.mark.parametrize(("batch", "heads", "seq", "dim", "causal", "measured"), ATTENTION)
def test_attention_reaches_what_was_measured(batch: int, heads: int, seq: int, dim: int, causal: bool, measured: float) -> None:
    """The library's on an H200, November 2026 (the mean of two runs of `bench gpu`): clocks rise as the matrix units wait for exponentials."""
    s = attention.gpu_schedule(seq, dim, "float16", "sm_90a", causal)
    kernel = attention.program(batch, heads, seq, dim, causal, s.block_m, s.block_n, "float16", 0, s.stages, s.threads).kernel
    useful = attention.flops(batch, heads, seq, dim, causal=causal)
    r = report(kernel, H200, {}, useful_flops=useful, registers=168 if s.threads == 256 else 128)
    assert useful / r.predicted.value == pytest.approx(measured, rel=0.12)
    assert "units in turn" in bars(r), "one warp group's exponentials are not hidden whole by the other's products"


@pytest.mark.parametrize(
    ("tile", "stages", "threads", "registers", "measured"),
    [
        ((128, 256, 64), 3, 256, 168, 232e-6), ((128, 256, 64), 2, 256, 168, 290e-6), ((128, 128, 64), 3, 256, 168, 287e-6),
        ((128, 128, 64), 1, 256, 168, 600e-6), ((64, 64, 64), 4, 128, 58, 385e-6), ((128, 128, 32), 3, 128, 154, 427e-6),
    ],
)  # fmt: skip
def test_products_with_few_stages_wait_for_copies(
    tile: tuple[int, int, int], stages: int, threads: int, registers: int, measured: float
) -> None:  # fmt: skip
    """4096 x 4096 x 4096 of float16 on an H200, December 2026, in panels of 8."""
    kernel = library.program(4096, 4096, 4096, *tile, stages, "float16", "float16", False, "float32", threads, 8).kernel
    assert report(kernel, H200, {}, registers=registers).predicted.value == pytest.approx(measured, rel=0.18)


@pytest.mark.parametrize(("dim", "keys", "measured"), [(128, 64, 1438e-6), (128, 128, 1264e-6), (64, 128, 1712e-6)])
def test_one_warp_group_waits_for_its_products(dim: int, keys: int, measured: float) -> None:
    """Attention of 64 queries a block on an H200, December 2026: with the warps that start copies one block fills an SM's registers."""
    kernel = attention.program(4, 2048 // dim, 4096, dim, False, 64, keys, "float16", 0, 2, 128).kernel
    r = report(kernel, H200, {}, registers={(128, 64): 138, (128, 128): 186, (64, 128): 154}[dim, keys])
    assert r.occupancy is not None and r.occupancy.blocks == 1
    assert r.predicted.value == pytest.approx(measured, rel=0.2)


def test_large_copies_reach_what_was_measured() -> None:
    r = report(rows(65536, 4096, 4), H200, {})
    assert r.bound == "DRAM" and r.levels[-1].bytes / r.predicted.value == pytest.approx(4.3e12, rel=0.03)


def test_a_half_empty_gpu_pays_for_idle_multiprocessors() -> None:
    """64 blocks on 132 multiprocessors: compute takes 132 / 64 of its least time, and a wave that is full takes none."""
    r = report(made(1024, 128, 128, 64, stages=2), find_machine("rtx-4090"), {})
    assert bars(r)["tail wave"] == pytest.approx(r.waterfall.roof.seconds * (128 / 64 - 1), rel=0.01)
    assert "64 blocks on 128 SMs: 1 round" in next(b.why for b in r.waterfall.bars if b.name == "tail wave")
    assert "tail wave" not in bars(report(made(2048, 128, 128, 64, stages=2), find_machine("rtx-4090"), {})), "256 blocks are two full rounds"


def test_masked_lanes_are_the_part_of_the_tiles_outside() -> None:
    """520 rows and columns in tiles of 128: five for four and a bit, in both directions."""
    r = report(gemm(520, 520, 512, 128, 128, 32), find_machine("rtx-3090"), {})
    useful = (520 / 640) ** 2
    assert r.bound == "compute"
    assert bars(r)["masked lanes"] == pytest.approx(r.compute_seconds * (1 - useful), rel=0.01)
    assert r.waterfall.roof.seconds == pytest.approx(r.compute_seconds * useful, rel=0.01)
    told = report(gemm(512, 512, 512, 128, 128, 32), find_machine("rtx-3090"), {}, useful_flops=512**3)
    assert bars(told)["masked lanes"] == pytest.approx(told.compute_seconds / 2), "the author's own count comes first"


def test_copies_without_stages_wait_in_turn() -> None:
    sync, ahead = (report(made(1024, 128, 128, 32, stages=n), H200, {}) for n in (0, 3))
    assert bars(sync)["copies in turn"] > bars(ahead).get("exposed latency", 0.0)
    assert sync.predicted.value > 1.2 * ahead.predicted.value
    bar = next(b for b in sync.waterfall.bars if b.name == "copies in turn")
    assert bar.edit == "num_stages=2" and "nothing is copied ahead" in bar.why
    old = report(made(1024, 128, 64, 32, stages=3), find_machine("t4"), {})
    assert "no asynchronous copies" in next((b.edit for b in old.waterfall.bars if b.name == "copies in turn"), "no asynchronous copies")


def test_more_blocks_at_once_hide_latency() -> None:
    few, many = (report(made(2048, 64, 64, 32, stages=0), H200, {}, registers=n) for n in (240, 64))
    assert few.occupancy is not None and many.occupancy is not None and few.occupancy.blocks < many.occupancy.blocks
    assert few.predicted.value > many.predicted.value


def test_units_of_a_gpu_work_side_by_side_and_flop_are_told_apart() -> None:
    r = report(made(1024, 64, 64, 32), H200, {})
    assert r.flops_by_unit == {("tensor", "float16>float32"): 2 * 1024**3}
    soft = report(rows(8192, 4096, 4), H200, {})
    n = 8192 * 4096
    assert soft.flops_by_unit == {("fma", "float32"): n, ("sfu", "exp"): n, ("sfu", "div"): n}
    seconds = unit_seconds(soft.counts, H200, 132)
    rate = H200.special_rate()
    assert rate is not None
    assert seconds["sfu"] == pytest.approx(2 * n / (rate.value * 1e9)), "an exponential and a reciprocal each"
    assert soft.compute_seconds == max(seconds.values())


def test_an_empty_grid_takes_no_time() -> None:
    r = report(gemm(0, 64, 64, 64, 64, 64), H200, {})
    assert r.verdict == "nothing runs: the grid is empty" and r.edit == ""
    assert r.predicted.value == 0


def test_a_repeated_launch_finds_its_data_in_l2() -> None:
    r = report(made(1024, 64, 64, 32), H200, {}, seconds=[12e-6])
    assert {x.name: x.bytes for x in r.levels}["DRAM"] == 0
    assert {x.name: x.cold_bytes for x in r.levels}["DRAM"] == r.counts.compulsory_bytes
    assert "repeated launches move nothing at DRAM" in str(r)

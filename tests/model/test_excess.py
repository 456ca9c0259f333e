"""Conflicts and sectors that an emulated run saw, as bars of a launch that is larger."""

from __future__ import annotations

import numpy as np
import pytest
from model.hand import rows

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.machine import find_machine
from tileworkbench.model.excess import excess_of
from tileworkbench.model.report import Report, report
from tileworkbench.runtime.kernel import JITKernel

H200 = find_machine("h200")


def transpose(n: int, tile: int = 64) -> JITKernel:
    """Through a tile without padding, whose columns lie in one bank."""

    @T.prim_func
    def naive(X: T.Tensor((n, n), "float32"), Y: T.Tensor((n, n), "float32")):
        with T.Kernel(n // tile, n // tile, threads=128) as (bx, by):
            S = T.alloc_shared((tile, tile), "float32")
            T.copy(X[by * tile, bx * tile], S)
            for i, j in T.Parallel(tile, tile):
                Y[bx * tile + i, by * tile + j] = S[j, i]

    return tileworkbench.compile(naive, target="interpret")


def strided(n: int) -> JITKernel:
    """Lanes side by side take elements a row apart: a sector each."""

    @T.prim_func
    def columns(X: T.Tensor((n, n), "float32"), Y: T.Tensor((n, n), "float32")):
        with T.Kernel(n // 32, n // 32, threads=128) as (bx, by):
            for i, j in T.Parallel(32, 32):
                Y[bx * 32 + i, by * 32 + j] = X[by * 32 + j, bx * 32 + i]

    return tileworkbench.compile(columns, target="interpret")


def counted(kernel: JITKernel, n: int):
    zeros = np.zeros((n, n), np.float32)
    return kernel.count(zeros, zeros.copy(), arch="sm_80")


def bars(r: Report) -> dict[str, float]:
    return {b.name: b.seconds for b in r.waterfall.bars}


def test_a_small_run_stands_for_a_large_launch() -> None:
    """Each of 8192 x 8192 elements is stored by a warp whose 32 lanes meet in some banks; the emulator's four blocks say how often."""
    few = counted(transpose(128), 128)
    r = transpose(8192).report(H200, emulated=few)
    assert r.excess is not None and r.excess.scale == pytest.approx(8192**2 / 128**2)
    extra = few.total.shared_load_wavefronts - few.total.shared_load_ideal
    assert extra > 0 and r.excess.wavefronts == pytest.approx(extra * r.excess.scale)
    assert r.excess.sectors == 0 and "test_excess.py" in str(r.excess.worst_wavefronts)
    plain = transpose(8192).report(H200)
    assert "excess wavefronts" not in bars(plain)
    assert r.predicted.value - plain.predicted.value == pytest.approx(bars(r)["excess wavefronts"], rel=0.1)
    shared = (r.traffic.bytes("shared") + r.excess.shared_bytes) / (H200.bandwidth("shared").value * 1e9)
    assert r.predicted.value > shared > r.waterfall.roof.seconds, "they take longer than DRAM does"
    bar = next(b for b in r.waterfall.bars if b.name == "excess wavefronts")
    assert bar.view == "layout" and bar.why.endswith("emulated") and "different banks" in bar.edit


def test_sectors_of_which_one_element_is_wanted() -> None:
    few = counted(strided(64), 64)
    r = strided(4096).report(H200, emulated=few)
    moved = few.total.global_load_sectors + few.total.global_store_sectors
    assert r.excess is not None and r.excess.sectors == pytest.approx((moved - 2 * 64 * 64 * 4 / 32) * 64**2)
    assert r.excess.sectors > r.excess.ideal_sectors and "test_excess.py" in str(r.excess.worst_sectors)
    assert bars(r)["extra sectors"] > 0 and r.predicted.value > strided(4096).report(H200).predicted.value


def test_what_hides_behind_something_slower_adds_no_bar() -> None:
    lines = {None: {"shared_load_wavefronts": 12, "shared_load_ideal": 10, "tma_load_bytes": 1024}}
    r = report(rows(8192, 4096, 4), H200, {}, emulated=lines)
    assert r.excess is not None and r.excess.wavefronts > 0 and "excess wavefronts" not in bars(r)
    assert excess_of({}, 5.0).wavefronts == 0


def test_a_request_needs_a_sector_and_a_broadcast_no_more() -> None:
    one_lane = {None: {"global_loads": 10, "global_load_sectors": 10, "global_load_bytes": 40}}
    broadcast = {None: {"global_loads": 10, "global_load_sectors": 10, "global_load_bytes": 1280}}
    assert excess_of(one_lane, 0.0).sectors == excess_of(broadcast, 0.0).sectors == 0

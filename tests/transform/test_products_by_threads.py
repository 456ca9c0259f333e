"""Products without a matrix unit: right for any size, and each factor is read once for a square of results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileworkbench.language as T
from tileworkbench.emulator import RunResult
from tileworkbench.layout.fragments import micro_tiles
from tileworkbench.runtime import toolchain
from tileworkbench.runtime.options import Options
from tileworkbench.runtime.target_emulate import EmulateTarget

pytestmark = pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")


def multiplied(m: int, n: int, k: int, threads: int, ta: bool = False, tb: bool = False, dtype: str = "float32", held: bool = True) -> RunResult:
    """C = 2 A @ B in two steps, the first of which clears, checked against float64."""

    @T.prim_func
    def mm(A: T.Tensor((k, m) if ta else (m, k), dtype), B: T.Tensor((n, k) if tb else (k, n), dtype), C: T.Tensor((m, n), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=threads):
            A_s = T.alloc_shared((k, m) if ta else (m, k), dtype)
            B_s = T.alloc_shared((n, k) if tb else (k, n), dtype)
            acc = T.alloc_fragment((m, n), "float32") if held else T.alloc_shared((m, n), "float32")
            T.copy(A, A_s)
            T.copy(B, B_s)
            for s in T.serial(2):
                T.gemm(A_s, B_s, acc, transpose_A=ta, transpose_B=tb, clear_accum=s == 0)
            T.copy(acc, C)

    rng = np.random.default_rng(m * n)
    a, b = (rng.standard_normal(s).astype(dtype) for s in ((k, m) if ta else (m, k), (n, k) if tb else (k, n)))
    c = np.full((m, n), 7, np.float32)
    made = EmulateTarget().compile(mm.kernel, Options(arch="sm_80"))
    (kernel,) = made.made.kernels
    arrays: list[Any] = [a, b, c]
    result = made.program[kernel.name].run((1, 1, 1), kernel.block, arrays, shared_bytes=kernel.shared_bytes, count=True, sanitize=True)
    assert [str(f) for f in result.findings] == []
    x, y = (a.T if ta else a).astype(np.float64), (b.T if tb else b).astype(np.float64)
    np.testing.assert_allclose(c, 2 * x @ y, rtol=0, atol=float(4 * k * 2.0**-23 * (abs(x) @ abs(y)).max()))
    assert result.counters.total.mma == 0
    return result


@pytest.mark.parametrize(
    ("m", "n", "k", "threads"),
    [(64, 64, 16, 128), (20, 24, 8, 128), (1, 64, 16, 32), (3, 5, 7, 64), (48, 80, 12, 96), (17, 33, 5, 128), (8, 8, 4, 1)],
)
def test_any_size(m: int, n: int, k: int, threads: int) -> None:
    multiplied(m, n, k, threads)


@pytest.mark.parametrize(("ta", "tb", "held"), [(True, False, True), (False, True, False), (True, True, True)])
def test_transposed_and_in_shared_memory(ta: bool, tb: bool, held: bool) -> None:
    multiplied(32, 24, 12, 64, ta, tb, held=held)


def test_halves_that_no_instruction_takes() -> None:
    multiplied(20, 24, 10, 64, dtype="float16")


def test_factors_are_read_once() -> None:
    steps, warps = 2 * 8, 2
    counted = {turned: multiplied(64, 64, 8, 64, turned, turned).counters.total.shared_loads for turned in (False, True)}
    assert counted[False] == steps * warps * (8 / 4 + 2), "eight rows, four steps at once, and eight columns in two accesses"
    assert counted[True] == steps * warps * (8 + 8 / 4), "rows one by one, and each column in accesses of four steps"
    assert multiplied(64, 64, 7, 64).counters.total.shared_loads == 2 * 7 * warps * (8 + 2), "no whole number of steps"


@pytest.mark.parametrize("threads", [1, 32, 96, 128, 256])
@pytest.mark.parametrize("shape", [(64, 64), (1, 64), (64, 1), (20, 24), (17, 33), (128, 16)])
def test_micro_tiles_hold_everything_once_or_evenly(shape: tuple[int, int], threads: int) -> None:
    tile = micro_tiles(shape, threads)
    assert tile.is_whole
    assert all(len(owners) == tile.copies for owners in tile.owners().values())


def test_micro_tiles_are_about_square() -> None:
    tile = micro_tiles((128, 128), 256)
    assert (tile.drop(1).registers, tile.drop(0).registers, tile.vector) == (8, 8, 4)
    assert micro_tiles((64, 64), 128).drop(1) == micro_tiles((64, 128), 128).drop(1), "rows of tiles side by side lie alike"

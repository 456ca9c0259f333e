"""Tiles that share bytes: which ones, and that their uses stay apart."""

# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileworkbench.language as T
from tileworkbench.analysis.liveness import lives
from tileworkbench.codegen.cuda_source import Pointer
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Kernel, Launch
from tileworkbench.runtime import emulating
from tileworkbench.runtime.options import Options
from tileworkbench.runtime.target_emulate import Emulated, EmulateTarget
from tileworkbench.transform.share_tiles import share_tiles


def compiled(program: PrimFunc) -> Emulated:
    return EmulateTarget().compile(program.kernel, Options(arch="sm_80"))


def run(made: Emulated, grid: int, **arrays: Any) -> list[str]:
    """Change the arrays in place; the faults that the sanitizer finds."""
    (kernel,) = made.made.kernels
    args = [arrays[p.name] for p in kernel.params if isinstance(p, Pointer)]
    return [str(f) for f in made.program[kernel.name].run(grid, kernel.block, args, shared_bytes=kernel.shared_bytes, sanitize=True).findings]


def places(made: Emulated) -> dict[str, tuple[int, int]]:
    """Tile -> where it begins and ends, as share_tiles says."""
    (record,) = [r for r in made.passes if r.name == "share_tiles"]
    return {p.buffer.name: (p.offset, p.end) for launch in record.after.launches for p in launch.places}


def random(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype("float16")


def staged(tiles: int) -> PrimFunc:
    """Products of `tiles` tiles a block, whose results go through a tile."""

    @T.prim_func
    def staged_gemm(A: T.Tensor((64 * tiles, 128), "float16"), B: T.Tensor((128, 32), "float16"), C: T.Tensor((64 * tiles, 32), "float16")):  # type: ignore[valid-type]
        with T.Kernel(2, threads=64) as block:
            a, b = T.alloc_shared((32, 16), "float16"), T.alloc_shared((16, 32), "float16")
            out, acc = T.alloc_shared((32, 32), "float16"), T.alloc_fragment((32, 32), "float32")
            for t in T.serial(tiles):
                T.clear(acc)
                for k in T.Pipelined(8, num_stages=3):
                    T.copy(A[(t * 2 + block) * 32, k * 16], a)
                    T.copy(B[k * 16, 0], b)
                    T.gemm(a, b, acc)
                for i, j in T.Parallel(32, 32):
                    out[i, j] = acc[i, j] + acc[i, j]
                T.copy(out, C[(t * 2 + block) * 32, 0])

    return staged_gemm


@pytest.mark.parametrize("tiles", [1, 3])
def test_a_staging_tile_lies_where_the_factors_were(tiles: int) -> None:
    made = compiled(staged(tiles))
    (kernel,) = made.made.kernels
    assert kernel.shared_bytes == 3 * (1024 + 1024)  # and not 8192
    at = places(made)
    assert at["a"][1] <= at["b"][0] or at["b"][1] <= at["a"][0]
    (said,) = [r.text for record in made.passes for r in record.remarks]
    assert said == "tiles that are not needed at one time share 2048 of 8192 bytes of shared memory"
    a, b, c = random(0, 64 * tiles, 128), random(1, 128, 32), np.zeros((64 * tiles, 32), np.float16)
    assert run(made, 2, A=a, B=b, C=c) == []
    np.testing.assert_allclose(c, 2 * (a.astype(np.float64) @ b), atol=0.1)


def test_without_the_barriers_the_sanitizer_finds_the_shared_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled(staged(3))
    head, middle, rest = made.source.partition("out[")
    faulty = head.rpartition("twb_sync();")[0] + head.rpartition("twb_sync();")[2] + middle + rest
    assert faulty != made.source
    monkeypatch.setattr(Emulated, "program", emulating.load(faulty, "sm_80"))
    a, b, c = random(0, 192, 128), random(1, 128, 32), np.zeros((192, 32), np.float16)
    assert any("race" in f for f in run(made, 2, A=a, B=b, C=c))


def shared_kernel(program: PrimFunc) -> tuple[Kernel, Launch]:
    kernel = share_tiles(program.kernel)
    return kernel, kernel.launches[0]


def test_what_stays_from_turn_to_turn_is_needed_all_the_time() -> None:
    @T.prim_func
    def keeps(A: T.Tensor((64, 16), "float32"), C: T.Tensor((16, 16), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32):
            kept, fresh = T.alloc_shared((16, 16), "float32"), T.alloc_shared((16, 16), "float32")
            other, after = T.alloc_shared((16, 16), "float32"), T.alloc_shared((16, 16), "float32")
            for t in T.serial(2):
                for k in T.serial(2):
                    T.copy(A[k * 16, 0], fresh)
                    for i, j in T.Parallel(16, 16):
                        kept[i, j] = fresh[i, j]
                for k in T.serial(2):
                    T.copy(A[k * 16, 0], other)
                    for i, j in T.Parallel(16, 16):
                        if i > 8:
                            kept[i, j] += other[i, j]
            T.copy(kept, after)
            T.copy(after, C)

    launch = keeps.kernel.launches[0]
    found = {b.name: life for b, life in lives(launch).items()}
    assert not found["fresh"].meets(found["other"]) and not found["other"].meets(found["after"])
    assert all(found["kept"].meets(found[name]) for name in ("fresh", "other", "after"))
    made = compiled(keeps)
    at = places(made)
    assert at["fresh"] == at["other"] == at["after"] and at["kept"][0] != at["fresh"][0]
    a, c = random(0, 64, 16).astype(np.float32), np.zeros((16, 16), np.float32)
    assert run(made, 1, A=a, C=c) == []
    want = a[16:32].copy()
    want[9:] += a[9:16] + a[25:32]
    np.testing.assert_allclose(c, want, atol=1e-5)


def test_tiles_of_one_innermost_loop_and_tiles_that_save_nothing_stay_apart() -> None:
    @T.prim_func
    def turns(A: T.Tensor((64, 16), "float32"), C: T.Tensor((64, 16), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32):
            x, y = T.alloc_shared((16, 16), "float32"), T.alloc_shared((16, 16), "float32")
            for k in T.serial(4):
                T.copy(A[k * 16, 0], x)
                T.copy(x, C[k * 16, 0])
                T.copy(A[k * 16, 0], y)
                T.copy(y, C[k * 16, 0])

    kernel = turns.kernel
    assert share_tiles(kernel) is kernel
    assert not any(launch.places for launch in (n for n in walk(kernel) if isinstance(n, Launch)))


def test_small_tiles_need_not_share() -> None:
    @T.prim_func
    def small(A: T.Tensor((16, 16), "float32"), C: T.Tensor((16, 16), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            x, y, z = (T.alloc_shared((16, 16), "float32") for _ in range(3))
            T.copy(A, x)
            T.copy(x, y)
            T.copy(y, z)
            T.copy(z, C)

    kernel = small.kernel
    assert share_tiles(kernel) is kernel  # 48 bytes a thread


def test_what_is_shared_already_stays() -> None:
    made = compiled(staged(1))
    (record,) = [r for r in made.passes if r.name == "share_tiles"]
    assert record.after is not record.before and share_tiles(record.after) is record.after

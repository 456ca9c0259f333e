"""Blocks of clusters: numbers, the sanitizer, other targets, the text for a GPU, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileworkbench as twb
import tileworkbench.language as T
from tests.gpu import cluster_programs as programs
from tileworkbench.base.errors import ArgumentError, UnsupportedError
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.interpret import run as interpret
from tileworkbench.runtime import nvrtc
from tileworkbench.runtime.cubin import read_cubin
from tileworkbench.runtime.target_cuda import translate_gpu

F16, F32 = "float16", "float32"


def run(program: PrimFunc, *arrays: np.ndarray[Any, Any]) -> Any:
    """Change `arrays` in place; the sanitizer finds nothing."""
    kernel = twb.compile(program, target="emulate:sm_90a")
    found = kernel.sanitize(*arrays)
    assert not found.findings, found.findings[0]
    kernel(*arrays)
    return kernel


def random(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


# ---------------------------------------------------------------------------------------------- numbers
@pytest.mark.parametrize("shape", [(4, 1, 1), (2, 2, 1), (1, 4, 2), (2, 1, 2)], ids=str)
def test_ranks_run_along_x_first(shape: tuple[int, int, int]) -> None:
    x, y, z = shape
    found = np.full((2, 4, 4), -1, np.int32)
    run(programs.ranks(*shape), found)
    bz, by, bx = np.indices(found.shape)
    np.testing.assert_array_equal(found, bx % x + x * (by % y) + x * y * (bz % z))


HANDED_ON = {
    "one run": ((128,), 128, "twb_cluster_push(", 1), "a run a row": ((4, 32), 64, "twb_cluster_push(", 4),
    "planes": ((2, 4, 16), 32, "twb_cluster_push(", 8), "odd": ((127,), 127, "twb_cluster_write(", 1),
    "odd rows": ((4, 31), 64, "twb_cluster_write(", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", HANDED_ON)
def test_a_tile_goes_to_another_block(name: str) -> None:
    shape, wide, word, times = HANDED_ON[name]
    a = np.random.default_rng(1).random(shape, np.float32)
    b = np.zeros_like(a)
    text = run(programs.handed_on(shape, wide), a, b).source
    np.testing.assert_array_equal(b, a)
    assert text.count(word) == times
    assert ("twb_mbarrier_wait_cluster" in text) == ("twb_mbarrier_release_at" in text) == ("write" in word), "threads' writes are shown, once"


def test_a_tile_goes_to_another_block_that_meets_this_one() -> None:
    a, b = np.arange(96, dtype=np.float32), np.zeros(96, np.float32)
    assert "twb_cluster_write(" in run(programs.handed_on((96,), 96, with_barrier=False), a, b).source
    np.testing.assert_array_equal(b, a)


def test_blocks_count_at_each_others_barriers() -> None:
    found = np.zeros(4, np.int32)
    text = run(programs.counted_there(3), found).source
    np.testing.assert_array_equal(found, [1, 2, 1, 2])
    assert text.count("twb_cluster_sync();") == 2, "where barriers are there, and before a block leaves"


@pytest.mark.parametrize(("mask", "turns"), [(0b0011, 1), (0b1111, 3), (0b1010, 2)])
def test_what_one_block_reads_goes_to_many(mask: int, turns: int) -> None:
    a, b = random(2, turns, 24, 256), np.zeros((turns, 24, 256), np.float16)
    run(programs.to_many(24, 256, mask, turns), a, b)
    first = (mask & -mask).bit_length() - 1
    for rank in range(4):
        source = first if mask >> rank & 1 else rank
        np.testing.assert_array_equal(b[..., 64 * rank : 64 * rank + 64], a[..., 64 * source : 64 * source + 64])


@pytest.mark.parametrize(("m", "n", "k", "stages"), [(64, 128, 320, 2), (72, 200, 136, 3)])
def test_a_product_whose_rows_are_loaded_once_for_two_blocks(m: int, n: int, k: int, stages: int) -> None:
    a, b, c = random(3, m, k), random(4, k, n), np.zeros((m, n), np.float32)
    run(programs.shared_rows(m, n, k, stages=stages), a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-3, rtol=1e-4)


# ---------------------------------------------------------------------------------------------- faults that only a run shows
def test_blocks_that_wait_for_one_another_are_named() -> None:
    kernel = twb.compile(programs.counted_there(1, arrivals=257), target="emulate:sm_90a")
    found = kernel.sanitize(np.zeros(4, np.int32)).findings[0]
    assert found.kind == "deadlock" and "mbarrier_wait_parity" in found.line.text
    for rank in (0, 1):
        assert f"block ({rank}, 0, 0), rank {rank} of its cluster, warp 0: all lanes wait at mbarrier" in found.text


def test_a_consumer_that_tells_its_own_block_alone() -> None:
    kernel = twb.compile(programs.shared_rows(64, 128, 320, releases=1), target="emulate:sm_90a")
    arrays = random(5, 64, 320), random(6, 320, 128), np.zeros((64, 128), np.float32)
    assert any(f.kind in ("deadlock", "mbarrier") for f in kernel.sanitize(*arrays).findings)


def test_a_cluster_of_which_one_block_does_not_come() -> None:
    @T.prim_func
    def alone(A: T.Tensor((2,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            if bx == 0:
                T.cluster_sync()
                T.cluster_sync()
            A[bx] = 1

    assert not twb.compile(alone, target="emulate:sm_90a").sanitize(np.zeros(2, np.int32)).findings, "a block that has ended keeps nobody waiting"


def test_a_grid_that_clusters_do_not_divide_is_not_launched() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def grid(A: T.Tensor((n,), F32)):  # type: ignore[valid-type]
        with T.Kernel(n, threads=32, cluster_dims=2) as bx:
            A[bx] = 1

    kernel = twb.compile(grid, target="emulate:sm_90a")
    kernel(found := np.zeros(4, np.float32))
    assert found.all()
    with pytest.raises(ArgumentError, match=r"grid: a grid of \(3, 1, 1\) blocks cannot be cut into clusters of \(2, 1, 1\)"):
        kernel(np.zeros(3, np.float32))


# ---------------------------------------------------------------------------------------------- a hint elsewhere
def plain(blocks: int) -> PrimFunc:
    @T.prim_func
    def plain(A: T.Tensor((blocks,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(blocks, threads=32, cluster_dims=2) as bx:
            A[bx] = T.block_rank_in_cluster() + 1

    return plain


@pytest.mark.parametrize("target", ["c", "interpret", "emulate:sm_80", "emulate:sm_90a"])
def test_a_launch_without_words_of_clusters_runs_anywhere(target: str) -> None:
    found = np.zeros(6, np.int32)
    if target == "interpret":
        interpret(plain(6).kernel, [found], {}, {})
    else:
        kernel = twb.compile(plain(6), target=target)
        kernel(found)
        assert any("clusters of 2 blocks need sm_90" in r.text for record in kernel.passes for r in record.remarks) == ("90" not in target)
    np.testing.assert_array_equal(found, [1, 2] * 3)


def test_a_grid_that_clusters_do_not_divide() -> None:
    with pytest.raises(UnsupportedError, match=r"kernel plain: its grid has 5 blocks in x, which clusters of \(2, 1, 1\) do not divide") as caught:
        twb.compile(plain(5), target="emulate:sm_90a")
    assert caught.value.span is not None and caught.value.hint
    twb.compile(plain(5), target="emulate:sm_80")


# ---------------------------------------------------------------------------------------------- the text for a GPU
COMPILED: dict[str, Callable[[], PrimFunc]] = {
    "ranks": lambda: programs.ranks(2, 2), "push": lambda: programs.handed_on((4, 32), 64), "write": lambda: programs.handed_on((127,), 127),
    "barriers": lambda: programs.counted_there(3), "many": lambda: programs.to_many(24, 256, 0b0011),
    "rows": lambda: programs.shared_rows(128, 128, 512),
}  # fmt: skip


@pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="NVRTC is not installed")
@pytest.mark.parametrize("name", COMPILED)
def test_the_text_compiles_without_a_word(name: str) -> None:
    source = translate_gpu(COMPILED[name]().kernel, "sm_90a")[0]
    made = nvrtc.compile_text(source.text, "sm_90a", source.flags, source.lines)
    (facts,) = read_cubin(made.cubin, made.log)
    assert not made.warnings and not facts.spills
    assert facts.cluster == source.kernels[0].cluster != (1, 1, 1)


# ---------------------------------------------------------------------------------------------- on a GPU
ON_A_GPU: dict[str, tuple[PrimFunc, Callable[[], tuple[np.ndarray[Any, Any], ...]]]] = {
    "ranks": (programs.ranks(2, 2), lambda: (np.zeros((2, 4, 4), np.int32),)),
    "push": (programs.handed_on((4, 32), 64), lambda: (np.arange(128, dtype=np.float32).reshape(4, 32), np.zeros((4, 32), np.float32))),
    "write": (programs.handed_on((127,), 127), lambda: (np.arange(127, dtype=np.float32), np.zeros(127, np.float32))),
    "meet": (programs.handed_on((96,), 96, with_barrier=False), lambda: (np.arange(96, dtype=np.float32), np.zeros(96, np.float32))),
    "barriers": (programs.counted_there(1000), lambda: (np.zeros(4, np.int32),)),
    "many": (programs.to_many(24, 256, 0b1010, 5), lambda: (random(2, 5, 24, 256), np.zeros((5, 24, 256), np.float16))),
    "rows": (programs.shared_rows(200, 384, 1032), lambda: (random(3, 200, 1032), random(4, 1032, 384), np.zeros((200, 384), np.float32))),
}  # fmt: skip


@pytest.mark.cuda
@pytest.mark.parametrize("name", ON_A_GPU)
def test_a_gpu_does_the_same(name: str) -> None:
    cupy = pytest.importorskip("cupy")
    if int(cupy.cuda.Device().compute_capability) != 90:
        pytest.skip("needs sm_90")
    program, make = ON_A_GPU[name]
    wanted = make()
    twb.compile(program, target="emulate:sm_90a")(*wanted)
    kernel = twb.compile(program, target="cuda")
    for _ in range(3):
        found = [cupy.asarray(a) for a in make()]
        kernel(*found)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(cupy.asnumpy(a).astype(np.float64), b.astype(np.float64), atol=1e-3, rtol=1e-4)

"""Results that the tensor copy engine brings to memory (sm_90a): right at ragged edges, without bank conflicts, nothing for the sanitizer."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import Golden

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.dtypes import DType
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.node import walk
from tileworkbench.ir.send import SendTile
from tileworkbench.runtime import nvrtc, toolchain
from tileworkbench.runtime.kernel import JITKernel
from tileworkbench.runtime.translate_cuda import translate_cuda, translate_gpu
from tileworkbench.transform.cuda_lowering import cuda_steps

pytestmark = pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")
EPS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-20, "int32": 0.0}


def product(
    m: int, n: int, k: int, block: tuple[int, int, int], threads: int = 256, dtype: str = "float16", out: str = "float16", stages: int = 2,
    through: str = "", splits: int = 1, op: str = "", middle: str = "",
) -> PrimFunc:  # fmt: skip
    """C = A @ B^T. `through`: "tile" copies the result to a shared tile first. `op`: combine it atomically, over `splits` parts of k."""
    block_m, block_n, block_k = block
    sums = "int32" if dtype == "int8" else "float32"

    @T.prim_func
    def mm(A: T.Tensor((m, k), dtype), B: T.Tensor((n, k), dtype), C: T.Tensor((m, n), out)):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), splits, threads=threads) as (bx, by, bz):
            a, b = T.alloc_shared((block_m, block_k), dtype), T.alloc_shared((block_n, block_k), dtype)
            acc = T.alloc_fragment((block_m, block_n), sums)
            T.clear(acc)
            for step in T.Pipelined(T.ceildiv(k, block_k * splits), num_stages=stages):
                at = (step * splits + bz) * block_k
                T.copy(A[by * block_m, at], a)
                T.copy(B[bx * block_n, at], b)
                T.gemm(a, b, acc, transpose_B=True)
            result = acc
            if middle:
                result = T.alloc_fragment((block_m, block_n), middle)
                T.copy(acc, result)
            if through:
                tile = T.alloc_shared((block_m, block_n), out)
                T.copy(result, tile)
                result = tile
            if op == "add":
                T.atomic_add(C[by * block_m, bx * block_n], result, use_tma=True)
            elif op == "max":
                T.atomic_max(C[by * block_m, bx * block_n], result)
            else:
                T.copy(result, C[by * block_m, bx * block_n])

    made: PrimFunc = mm
    return made


def numbers(seed: int, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    rng, kind = np.random.default_rng(seed), DType(dtype)
    return (rng.integers(-50, 50, shape) if kind.is_int else rng.standard_normal(shape)).astype(kind.to_numpy())


def clean(kernel: JITKernel, *args: Any) -> None:
    found = kernel.sanitize(*args, arch="sm_90a")
    assert found.is_clean, str(found)


def check(program: PrimFunc, m: int, n: int, k: int, dtype: str = "float16", out: str = "float16", op: str = "") -> JITKernel:
    kernel = tileworkbench.compile(program, target="emulate:sm_90a")
    a, b = numbers(1, (m, k), dtype), numbers(2, (n, k), dtype)
    c = numbers(3, (m, n), out) if op else np.full((m, n), -7, DType(out).to_numpy())
    want = a.astype(np.float64) @ b.astype(np.float64).T
    want = want + c.astype(np.float64) if op == "add" else np.maximum(want, c.astype(np.float64)) if op == "max" else want
    clean(kernel, a, b, c.copy())
    kernel(a, b, c)
    bound = 1e-6 + np.abs(want) * 4 * EPS[out] + np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)).T * (4 * EPS[out] if op else 2.0**-18)
    assert np.all(np.abs(c.astype(np.float64) - want) <= bound)
    return kernel


def sends(program: PrimFunc) -> tuple[list[SendTile], str]:
    """What is sent, and the remarks that say why not."""
    kernel = program.kernel
    for step in cuda_steps(90):
        kernel = step.run(kernel)
        if step.name == "send_tiles":
            break
    launch = kernel.launches[0]
    return [n for n in walk(launch) if isinstance(n, SendTile)], "\n".join(r.text for r in launch.remarks)


# ---------------------------------------------------------------------------------------------- results through a stage
@pytest.mark.parametrize(
    ("dtype", "out", "block", "threads", "middle"),
    [("float16", "float16", (128, 96, 32), 256, ""), ("float16", "bfloat16", (64, 128, 32), 128, ""),
     ("float16", "float32", (128, 64, 32), 128, ""), ("int8", "int32", (192, 64, 32), 384, ""),
     ("bfloat16", "float16", (64, 16, 32), 128, "float16"), ("float16", "float16", (256, 128, 32), 256, "")],
)  # fmt: skip
def test_types_and_tiles_at_ragged_edges(dtype: str, out: str, block: tuple[int, int, int], threads: int, middle: str) -> None:
    """Also rows of 32 and 64 bytes, several blocks of rows in a warp group, a result that is converted in registers."""
    m, n, k = block[0] + 40, 2 * block[1] + 8, 72 if dtype != "int8" else 80
    kernel = check(product(m, n, k, block, threads, dtype, out, middle=middle), m, n, k, dtype, out)
    assert "twb_tma_store_2d" in kernel.source and ("twb_stmatrix_x4" in kernel.source) == (DType(out).bits == 16)


def test_the_authors_tile_becomes_the_stage() -> None:
    program = product(200, 328, 72, (128, 128, 32), through="tile")
    kernel = check(program, 200, 328, 72)
    (send,), _ = sends(program)
    assert send.stage is not None and send.stage.name == "tile" and send.src.buffer.scope == "fragment"
    assert "twb_tma_store_2d" in kernel.source and "twb_stmatrix_x4" in kernel.source


def test_a_stage_takes_what_is_left_of_shared_memory() -> None:
    """Not more: with 4 stages of 48 KiB two pieces of four, in turns; with a little more, none; blocks of a multiprocessor stay as many."""
    (send,), _ = sends(product(4096, 4096, 4096, (128, 256, 64), stages=4))
    assert send.stage is not None and send.stage.static_shape() == (2, 2, 64, 64) and send.is_repeated
    (send,), _ = sends(product(4096, 4096, 4096, (128, 128, 64), stages=4))
    assert send.stage is not None and send.stage.static_shape() == (2, 2, 64, 64)
    found, why = sends(product(4096, 4096, 4096, (128, 128, 64), stages=7))
    assert not found and "its pieces take 16384 bytes" in why
    assert not sends(product(64, 64, 64, (64, 64, 64), 128, stages=0))[1]


@pytest.mark.parametrize(
    ("m", "n", "k", "block", "threads", "out", "stages", "rounds"),
    [(264, 1280, 64, (128, 256, 64), 256, "float16", 4, 1), (264, 768, 64, (128, 256, 64), 256, "float32", 4, 2),
     (200, 200, 32, (192, 32, 32), 384, "float16", 2, 1), (520, 200, 16, (256, 64, 16), 256, "bfloat16", 2, 1)],
)  # fmt: skip
def test_a_thread_of_its_own_stores(m: int, n: int, k: int, block: tuple[int, int, int], threads: int, out: str, stages: int, rounds: int) -> None:
    """In blocks that stay and do several tiles each: warp groups use the stage in turns, also several times for one tile."""
    program = product(m, n, k, block, threads, out=out, stages=stages)
    kernel = check(program, m, n, k, out=out)
    uses = threads // 128 * rounds
    assert f"stage_free + {uses - 1}, 1)" in kernel.source and f"stage_free + {2 * uses}, 1)" not in kernel.source
    storer = kernel.source.partition(f"thread == {threads + 32}")[2]
    assert "twb_tma_store_2d" in storer and "twb_bar_sync" not in kernel.source


def test_a_stage_in_turns_is_right() -> None:
    """A stage of two slots for four pieces, in a block that does not stay: each warp group stores for itself."""
    program = product(72, 1024, 128, (64, 256, 64), 128, stages=5)
    kernel = check(program, 72, 1024, 128)
    assert "twb_bulk_wait_read<1>" in kernel.source and "twb_blocks_x()" not in kernel.source


def test_rows_that_are_known_at_the_call() -> None:
    """Blocks that stay, in panels of a grid of unknown size: nothing begins before the array."""
    rows = T.dynamic("rows")

    @T.prim_func
    def mm(A: T.Tensor((rows, 64), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((rows, 128), "float16")):
        with T.Kernel(2, T.ceildiv(rows, 128), threads=256) as (bx, by):
            T.use_swizzle(2)
            a, b, acc = T.alloc_shared((128, 32), "float16"), T.alloc_shared((64, 32), "float16"), T.alloc_fragment((128, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 128, k * 32], a)
                T.copy(B[bx * 64, k * 32], b)
                T.gemm(a, b, acc, transpose_B=True)
            T.copy(acc, C[by * 128, bx * 64])

    kernel = tileworkbench.compile(mm, target="emulate:sm_90a")
    for m in (0, 1, 300, 384):
        a, b, c = numbers(1, (m, 64), "float16"), numbers(2, (128, 64), "float16"), np.zeros((m, 128), np.float16)
        kernel(a, b, c)
        np.testing.assert_allclose(c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64).T, atol=0.03, rtol=2e-3)
    assert "twb_tma_store_2d" in kernel.source and "block += twb_blocks_x()" in kernel.source


def test_counters_of_the_stores() -> None:
    """C is written once, in whole boxes, and every matrix that is stored takes as many wavefronts as its bytes need."""
    m, n, k = 128, 256, 64
    kernel = tileworkbench.compile(product(m, n, k, (128, 128, 32)), target="emulate:sm_90a")
    a, b, c = numbers(1, (m, k), "float16"), numbers(2, (n, k), "float16"), np.zeros((m, n), np.float16)
    found = kernel.count(a, b, c, arch="sm_90a").total
    assert found.tma_store_bytes == 2 * m * n and found.global_store_sectors == 0
    assert found.matrix_stores == m * n // 256
    assert found.shared_store_wavefronts == found.shared_store_ideal == 2 * m * n // 128


# ---------------------------------------------------------------------------------------------- from where it lies
def turned(rows: int, columns: int, again: bool = False) -> PrimFunc:
    @T.prim_func
    def both(X: T.Tensor((rows, columns), "float32"), Y: T.Tensor((rows, columns), "float32"), Z: T.Tensor((rows, columns), "float16")):
        with T.Kernel(T.ceildiv(columns, 64), T.ceildiv(rows, 32), threads=128) as (bx, by):
            tile, small = T.alloc_shared((32, 64), "float32"), T.alloc_shared((32, 64), "float16")
            for i, j in T.Parallel(32, 64):
                tile[i, j] = X[by * 32 + i, bx * 64 + j] * 2
            T.copy(tile, Y[by * 32, bx * 64])
            for i, j in T.Parallel(32, 64):
                small[i, j] = tile[i, 63 - j]
            T.copy(small, Z[by * 32, bx * 64])
            if again:  # the engine has read the tile before it is written again
                for i, j in T.Parallel(32, 64):
                    small[i, j] = tile[i, j] + 1

    made: PrimFunc = both
    return made


@pytest.mark.parametrize("again", [False, True])
def test_tiles_in_shared_memory_are_sent_from_there(again: bool) -> None:
    rows, columns = 72, 136
    kernel = tileworkbench.compile(turned(rows, columns, again), target="emulate:sm_90a")
    x, y, z = numbers(1, (rows, columns), "float32"), np.zeros((rows, columns), np.float32), np.zeros((rows, columns), np.float16)
    clean(kernel, x, y.copy(), z.copy())
    kernel(x, y, z)
    np.testing.assert_array_equal(y, x * 2)
    want = np.concatenate([np.pad(x * 2, ((0, 0), (0, 56)))[:, i : i + 64][:, ::-1] for i in (0, 64, 128)], axis=1)[:, :columns]
    np.testing.assert_array_equal(z, want.astype(np.float16))
    assert kernel.source.count("twb_tma_store_2d") == 2 and kernel.source.count("twb_bulk_wait_read<0>") == 1 + again


# ---------------------------------------------------------------------------------------------- sums in memory
@pytest.mark.parametrize(
    ("dtype", "out", "op", "through"),
    [("float16", "float32", "add", ""), ("float16", "float32", "add", "tile"), ("float16", "float16", "add", ""), ("int8", "int32", "max", "")],
)
def test_sums_in_memory(dtype: str, out: str, op: str, through: str) -> None:
    m, n, k, splits = 136, 72, 128, 1 if op == "max" else 2
    program = product(m, n, k, (128, 64, 32), 256, dtype, out, through=through, splits=splits, op=op)
    kernel = check(program, m, n, k, dtype, out, op)
    assert f"twb_tma_reduce_{op}_2d" in kernel.source and "twb_atomic" not in kernel.source


def test_a_tile_is_added_again_and_again_in_a_loop() -> None:
    @T.prim_func
    def added(X: T.Tensor((256, 64), "float32"), S: T.Tensor((64, 64), "float32")):
        with T.Kernel(2, threads=128) as bx:
            tile = T.alloc_shared((64, 64), "float32")
            for step in T.serial(2):
                for i, j in T.Parallel(64, 64):
                    tile[i, j] = X[(bx * 2 + step) * 64 + i, j]
                T.atomic_add(S[0, 0], tile)

    kernel = tileworkbench.compile(added, target="emulate:sm_90a")
    x, s = numbers(1, (256, 64), "float32"), np.ones((64, 64), np.float32)
    clean(kernel, x, s.copy())
    kernel(x, s)
    np.testing.assert_allclose(s, 1 + x.reshape(4, 64, 64).astype(np.float64).sum(0), rtol=1e-5, atol=1e-5)
    assert "twb_tma_reduce_add_2d" in kernel.source


# ---------------------------------------------------------------------------------------------- what the threads do themselves
def _before_the_array(C: Any, D: Any, acc: Any, n: Any) -> None:
    T.copy(acc, C[n - 32, 0])


def _in_a_loop(C: Any, D: Any, acc: Any, n: Any) -> None:
    for step in T.serial(n):
        T.copy(acc, C[step * 8, 0])


def _read_later(C: Any, D: Any, acc: Any, n: Any) -> None:
    T.copy(acc, C[0, 0])
    for i, j in T.Parallel(64, 64):
        acc[i, j] = D[i, j] + C[i, j]
    T.copy(acc, D[64, 0])


def _perhaps_one_array(C: Any, D: Any, acc: Any, n: Any) -> None:
    T.copy(acc, C[0, 0])
    T.copy(acc, D[32, 0])


def _old_values(C: Any, D: Any, acc: Any, n: Any) -> None:
    T.atomic_add(C[0, 0], acc, memory_order="release")


@pytest.mark.parametrize(
    ("body", "why"),
    [(_before_the_array, "may begin before its array"), (_in_a_loop, "again and again"), (_read_later, "in this launch"),
     (_perhaps_one_array, "may be D"), (_old_values, "")],
)  # fmt: skip
def test_what_the_threads_store_themselves(body: Any, why: str) -> None:
    """Where the engine's writes would have to be ordered; results are the interpreter's."""

    @T.prim_func
    def steps(A: T.Tensor((64, 64), "float16"), C: T.Tensor((128, 64), "float32"), D: T.Tensor((128, 64), "float32"), n: T.int32):
        with T.Kernel(1, threads=128):
            a, acc = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.gemm(a, a, acc, clear_accum=True)
            body(C, D, acc, n)

    found, said = sends(steps)
    assert why in said and not found
    results = []
    for target in ("emulate:sm_90a", "interpret"):
        kernel = tileworkbench.compile(steps, target=target)
        a, c, d = numbers(1, (64, 64), "float16"), numbers(2, (128, 64), "float32"), numbers(3, (128, 64), "float32")
        kernel(a, c, d, 3)
        results.append((c, d))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_sums_that_do_not_lie_in_registers() -> None:
    """Found out when threads get their cells: a single one is asked for, so the tile is in shared memory, and the threads store it."""

    @T.prim_func
    def asked(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32"), D: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128):
            a, acc = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.clear(acc)
            T.gemm(a, a, acc)
            T.copy(acc, C)
            D[0] = acc[3, 5]

    assert len(sends(asked)[0]) == 1
    kernel = tileworkbench.compile(asked, target="emulate:sm_90a")
    a, c, d = numbers(1, (64, 64), "float16"), np.zeros((64, 64), np.float32), np.zeros(1, np.float32)
    clean(kernel, a, c, d)
    kernel(a, c, d)
    want = a.astype(np.float64) @ a.astype(np.float64)
    np.testing.assert_allclose(c, want, atol=1e-3)
    assert d[0] == c[3, 5] and "tma_store" not in kernel.source and "stage" not in kernel.source


# ---------------------------------------------------------------------------------------------- text
def test_text_of_a_stage_in_turns(golden: Golden) -> None:
    golden(translate_cuda(product(512, 512, 256, (64, 256, 64), 128, stages=5).kernel, "sm_90a")[0].text, "turns.cu")


@pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="needs NVRTC")
@pytest.mark.parametrize(("out", "op"), [("float16", ""), ("float32", "add")])
def test_nothing_is_serialised(out: str, op: str) -> None:
    source, _ = translate_gpu(product(1024, 1024, 1024, (128, 256, 64), out=out, op=op, stages=3).kernel, "sm_90a")
    made = nvrtc.compile_text(source.text, "sm_90a", source.flags, source.lines)
    assert "C751" not in made.log and "0 bytes spill stores" in made.log

"""Launches with a producer, products by warp groups, blocks that stay (sm_90a): the same numbers for every trip count, nothing for the sanitizer."""

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
from tileworkbench.ir.device import Specialised
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Gemm, Kernel
from tileworkbench.runtime import nvrtc, toolchain
from tileworkbench.runtime.kernel import JITKernel
from tileworkbench.runtime.translate_cuda import translate_cuda, translate_gpu
from tileworkbench.transform.cuda_lowering import cuda_steps

pytestmark = pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")
ROUND = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-23}


def product(
    m: int = 128, n: int = 64, k: int = 128, block: tuple[int, int, int] = (128, 64, 32), stages: int = 3, threads: int = 256, ta: bool = False,
    tb: bool = False, dtype: str = "float16", out: str = "float32", sums: str = "", panel: int = 0,
) -> PrimFunc:  # fmt: skip
    block_m, block_n, block_k = block
    sums = sums or ("int32" if dtype == "int8" else "float32")

    @T.prim_func
    def mm(A: T.Tensor((k, m) if ta else (m, k), dtype), B: T.Tensor((n, k) if tb else (k, n), dtype), C: T.Tensor((m, n), out)):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=threads) as (bx, by):
            if panel:
                T.use_swizzle(panel)
            a = T.alloc_shared((block_k, block_m) if ta else (block_m, block_k), dtype)
            b = T.alloc_shared((block_n, block_k) if tb else (block_k, block_n), dtype)
            acc = T.alloc_fragment((block_m, block_n), sums)
            T.clear(acc)
            for step in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages):
                if ta:
                    T.copy(A[step * block_k, by * block_m], a)
                else:
                    T.copy(A[by * block_m, step * block_k], a)
                if tb:
                    T.copy(B[bx * block_n, step * block_k], b)
                else:
                    T.copy(B[step * block_k, bx * block_n], b)
                T.gemm(a, b, acc, transpose_A=ta, transpose_B=tb)
            T.copy(acc, C[by * block_m, bx * block_n])

    result: PrimFunc = mm
    return result


def numbers(seed: int, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    rng, kind = np.random.default_rng(seed), DType(dtype)
    if kind.is_int:
        return rng.integers(-100, 100, shape).astype(kind.to_numpy())
    return rng.standard_normal(shape).astype(kind.to_numpy())


# what instructions lose, of the sizes of products: sums of 128 of float8 in 14 bits (several times what is usual), 13 bits of float32 in each factor
LOST = {"float8_e4m3fn": 2.0**-11, "tfloat32": 2.0**-9}


def clean(kernel: JITKernel, *args: Any) -> None:
    found = kernel.sanitize(*args, arch="sm_90a")
    assert found.is_clean, str(found)


def check(program: PrimFunc, m: int, n: int, k: int, dtype: str = "float16", out: str = "float32", ta: bool = False, tb: bool = False) -> JITKernel:
    kernel = tileworkbench.compile(program, target="emulate:sm_90a")
    a, b = numbers(1, (k, m) if ta else (m, k), dtype), numbers(2, (n, k) if tb else (k, n), dtype)
    c = np.full((m, n), -7, DType(out).to_numpy())
    kernel(a, b, c)
    left, right = a.astype(np.float64), b.astype(np.float64)
    left, right = (left.T if ta else left), (right.T if tb else right)
    size = np.abs(left) @ np.abs(right)
    bound = size * (k * ROUND["float32"] + LOST.get(dtype, 0.0)) + np.abs(left @ right) * 2 * ROUND.get(out, 0.0) + 1e-6
    assert np.all(np.abs(c.astype(np.float64) - left @ right) <= bound)
    clean(kernel, a, b, c)
    return kernel


def after(program: PrimFunc, name: str) -> Kernel:
    """The kernel as the pass `name` leaves it."""
    kernel = program.kernel
    for step in cuda_steps(90):
        kernel = step.run(kernel)
        if step.name == name:
            return kernel
    raise ValueError(name)


def is_specialised(program: PrimFunc) -> bool:
    return any(isinstance(n, Specialised) for n in walk(after(program, "specialise_warps")))


# ---------------------------------------------------------------------------------------------- numbers
@pytest.mark.parametrize(("stages", "k"), [(1, 0), (1, 96), (2, 16), (2, 200), (4, 32), (4, 200)])
def test_every_trip_count(stages: int, k: int) -> None:
    kernel = check(product(k=k, stages=stages), 128, 64, k)
    assert "twb_tma_load_2d" in kernel.source and "twb_wgmma_m64n64k16" in kernel.source


@pytest.mark.parametrize(("ta", "tb"), [(False, True), (True, False), (True, True)])
def test_factors_stored_the_other_way(ta: bool, tb: bool) -> None:
    check(product(ta=ta, tb=tb), 128, 64, 128, ta=ta, tb=tb)


@pytest.mark.parametrize(
    ("dtype", "out", "sums", "block", "threads"),
    [("bfloat16", "bfloat16", "", (64, 128, 64), 128), ("float16", "float16", "float16", (64, 32, 64), 128),
     ("int8", "int32", "", (128, 64, 64), 256), ("float8_e4m3fn", "float32", "", (64, 64, 64), 128), ("tfloat32", "float32", "", (128, 40, 32), 256),
     ("float16", "float16", "", (192, 24, 48), 384), ("float16", "float32", "", (256, 256, 16), 256)],
)  # fmt: skip
def test_types_and_tiles(dtype: str, out: str, sums: str, block: tuple[int, int, int], threads: int) -> None:
    m, n, k = block[0], 2 * block[1], 2 * block[2]
    program = product(m, n, k, block, 2, threads, tb=DType(dtype).bits != 16, dtype=dtype, out=out, sums=sums)
    if sums == "float16":  # sums of few significant bits
        kernel = tileworkbench.compile(program, target="emulate:sm_90a")
        a, b, c = numbers(1, (m, k), dtype), numbers(2, (k, n), dtype), np.zeros((m, n), np.float16)
        kernel(a, b, c)
        np.testing.assert_allclose(c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64), atol=k * ROUND["float16"] * 8)
        clean(kernel, a, b, c)
        return
    source = check(program, m, n, k, dtype, out, tb=DType(dtype).bits != 16).source
    assert "twb_wgmma_m64" in source or block[2] == 48  # rows that no form cuts


@pytest.mark.parametrize("panel", [0, 2, 3])
def test_blocks_that_stay_do_the_whole_grid(panel: int) -> None:
    """35 blocks on the emulator's four multiprocessors, with ragged edges, in panels that do not divide the rows."""
    kernel = check(product(600, 456, 72, (128, 96, 32), 2, panel=panel), 600, 456, 72)
    assert "block += twb_blocks_x()" in kernel.source


def test_an_array_that_begins_anywhere() -> None:
    """No tensor copies then: the same numbers."""
    kernel = tileworkbench.compile(product(), target="emulate:sm_90a")
    room = np.zeros(128 * 128 + 8, np.float16)
    start = (2 - room.ctypes.data // 2) % 8
    a = room[start : start + 128 * 128].reshape(128, 128)
    a[:] = numbers(1, (128, 128), "float16")
    b, c = numbers(2, (128, 64), "float16"), np.zeros((128, 64), np.float32)
    kernel(a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-3)


def attention(heads: int, seq: int, dim: int, block_m: int, block_n: int, causal: bool, threads: int = 128) -> PrimFunc:
    shape, scale = (heads, seq, dim), 1.4426950408889634 / dim**0.5

    @T.prim_func
    def attend(Q: T.Tensor(shape, "float16"), K: T.Tensor(shape, "float16"), V: T.Tensor(shape, "float16"), O: T.Tensor(shape, "float16")):
        with T.Kernel(T.ceildiv(seq, block_m), heads, threads=threads) as (bx, h):
            q, k, v = (T.alloc_shared((rows, dim), "float16") for rows in (block_m, block_n, block_n))
            s, p = T.alloc_fragment((block_m, block_n), "float32"), T.alloc_fragment((block_m, block_n), "float16")
            out = T.alloc_fragment((block_m, dim), "float32")
            top, old, here, total = (T.alloc_fragment((block_m,), "float32") for _ in range(4))
            T.copy(Q[h, bx * block_m : (bx + 1) * block_m, :], q)
            T.clear(out)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            end = T.min(seq, (bx + 1) * block_m) if causal else seq
            for i in T.Pipelined(T.ceildiv(end, block_n), num_stages=2):
                T.copy(K[h, i * block_n : (i + 1) * block_n, :], k)
                T.copy(V[h, i * block_n : (i + 1) * block_n, :], v)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for r, c in T.Parallel(block_m, block_n):
                    limit = T.min(seq, bx * block_m + r + 1) if causal else seq
                    s[r, c] = T.if_then_else(i * block_n + c < limit, s[r, c] * scale, -T.infinity("float32"))
                T.copy(top, old)
                T.reduce_max(s, top, dim=1, clear=False)
                for r, c in T.Parallel(block_m, block_n):
                    s[r, c] = T.exp2(s[r, c] - top[r])
                T.reduce_sum(s, here, dim=1)
                for r in T.Parallel(block_m):
                    total[r] = total[r] * T.exp2(old[r] - top[r]) + here[r]
                for r, c in T.Parallel(block_m, dim):
                    out[r, c] = out[r, c] * T.exp2(old[r] - top[r])
                T.copy(s, p)
                T.gemm(p, v, out)
            for r, c in T.Parallel(block_m, dim):
                out[r, c] = out[r, c] / total[r]
            T.copy(out, O[h, bx * block_m : (bx + 1) * block_m, :])

    result: PrimFunc = attend
    return result


@pytest.mark.parametrize(("causal", "threads", "block_m"), [(False, 256, 128), (True, 128, 64)])
def test_attention_keeps_its_scores_in_registers(causal: bool, threads: int, block_m: int) -> None:
    heads, seq, dim = 5, 200, 64
    kernel = tileworkbench.compile(attention(heads, seq, dim, block_m, 64, causal, threads), target="emulate:sm_90a")
    q, k, v = (numbers(i, (heads, seq, dim), "float16") for i in range(3))
    o = np.zeros_like(q)
    kernel(q, k, v, o)
    s = np.einsum("hsd,htd->hst", q.astype(np.float64), k.astype(np.float64)) / dim**0.5
    s = np.where(np.tril(np.ones((seq, seq), bool)) | (not causal), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    want = np.einsum("hst,htd->hsd", p / p.sum(-1, keepdims=True), v.astype(np.float64))
    np.testing.assert_allclose(o.astype(np.float64), want, atol=8 * ROUND["float16"])
    assert "twb_wgmma_rs_m64n64k16" in kernel.source and "float s_r[32]" in kernel.source
    clean(kernel, q, k, v, o)


# ---------------------------------------------------------------------------------------------- what may run ahead
def test_conditions_and_loops_that_anybody_knows() -> None:
    """A tile that only some steps load, in loops within loops, by tables that are only read."""

    @T.prim_func
    def picked(A: T.Tensor((256, 64), "float16"), wanted: T.Tensor((4,), "int32"), n: T.int32, C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for again in T.serial(n):
                for i in T.Pipelined(4, num_stages=2):
                    if wanted[i] > again:
                        row = wanted[i] * 32
                        T.copy(A[row, 0], a)
                        T.gemm(a, a, acc)
            T.copy(acc, C)

    kernel = tileworkbench.compile(picked, target="emulate:sm_90a")
    a, wanted = numbers(1, (256, 64), "float16"), np.array([3, 0, 6, 1], np.int32)
    for n in (0, 1, 3):
        c = np.zeros((64, 64), np.float32)
        kernel(a, wanted, n, c)
        tiles = [a[32 * w : 32 * w + 64].astype(np.float64) for again in range(n) for w in wanted if w > again]
        np.testing.assert_allclose(c, sum((t @ t for t in tiles), np.zeros((64, 64))), atol=1e-3)
        clean(kernel, a, wanted, n, c)
    assert "twb_tma_load_2d" in kernel.source


def _written(A: Any, C: Any, a: Any, k: Any, m: Any) -> None:
    T.copy(A[k * 64, 0], a)
    for i, j in T.Parallel(64, 64):
        A[k * 64 + i, j] = a[i, j]


def _stored_before(A: Any, C: Any, a: Any, k: Any, m: Any) -> None:
    T.copy(A[k * 64, 0], a)
    T.copy(a, C[k * 64, 0])


def _twice(A: Any, C: Any, a: Any, k: Any, m: Any) -> None:
    T.copy(A[k * 64, 0], a)
    T.copy(A[0, 0], a)


def _computed(A: Any, C: Any, a: Any, k: Any, m: Any) -> None:
    T.copy(A[m[0] * 64, 0], a)
    m[0] = 1


@pytest.mark.parametrize(
    ("body", "why"),
    [(_written, ""), (_stored_before, ""), (_twice, "filled twice"), (_computed, "depends on what the block computes")],
)
def test_what_the_threads_copy_themselves(body: Any, why: str) -> None:
    """Refusals leave a loop as it was; its result is that of the interpreter."""

    @T.prim_func
    def steps(A: T.Tensor((256, 64), "float16"), C: T.Tensor((256, 64), "float16"), S: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            m = T.alloc_local((1,), "int32")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            m[0] = 0
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 64, 0], b)
                body(A, C, a, k, m)
                T.gemm(a, b, acc)
            T.copy(acc, S)

    found = []
    for target in ("emulate:sm_90a", "interpret"):
        kernel = tileworkbench.compile(steps, target=target)
        a, c, s = numbers(1, (256, 64), "float16"), np.zeros((256, 64), np.float16), np.zeros((64, 64), np.float32)
        kernel(a, c, s)
        found.append((a, c, s))
        if target != "interpret":
            clean(kernel, *(x.copy() for x in (a, c, s)))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), atol=1e-3)
    launch = after(steps, "specialise_warps").launches[0]
    said = [r.text for r in launch.remarks]
    assert is_specialised(steps) == bool(why), "without a copy that may run ahead there is no producer"
    assert len(said) == ("filled twice" in why) + bool(why) and all(why in text for text in said)


def test_launches_that_stay_as_they_are() -> None:
    """Too few threads for a warp group, no loop that runs ahead, an older architecture."""
    assert is_specialised(product())
    assert not is_specialised(product(block=(64, 64, 32), threads=64))
    assert not is_specialised(product(stages=0))
    kernel = product().kernel
    specialise = next(s for s in cuda_steps(80) if s.name == "specialise_warps")
    assert specialise.run(kernel) is kernel


def test_blocks_of_uneven_work_are_dealt_out_by_the_hardware() -> None:
    assert "twb_blocks_x" not in translate_cuda(attention(2, 256, 64, 128, 64, True, 256).kernel, "sm_90a")[0].text
    assert "twb_blocks_x" in translate_cuda(attention(2, 256, 64, 128, 64, False, 256).kernel, "sm_90a")[0].text


def test_products_run_on_only_in_loops_that_only_multiply() -> None:
    assert any(isinstance(n, Gemm) and n.is_async for n in walk(after(product(), "overlap_products")))
    assert not any(isinstance(n, Gemm) and n.is_async for n in walk(after(attention(1, 256, 64, 128, 64, False, 256), "overlap_products")))


# ---------------------------------------------------------------------------------------------- text
def test_text_of_a_product(golden: Golden) -> None:
    source, _ = translate_cuda(product(512, 512, 256, (128, 128, 64), 3, panel=4, tb=True, out="float16").kernel, "sm_90a")
    golden(source.text, "gemm.cu")
    assert source.kernels[0].is_programmatic  # it waits by itself for the kernel ahead of it
    assert not translate_cuda(product().kernel, "sm_80")[0].kernels[0].is_programmatic


@pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="needs NVRTC")
@pytest.mark.parametrize("block", [(128, 256, 64), (256, 128, 64), (128, 128, 64)])
def test_nothing_is_serialised(block: tuple[int, int, int]) -> None:
    """The compiler lets products run on: it says so where it does not (C751x)."""
    for out in ("float16", "float32"):
        source, _ = translate_gpu(product(1024, 1024, 1024, block, 3, 256, out=out, panel=4).kernel, "sm_90a")
        made = nvrtc.compile_text(source.text, "sm_90a", source.flags, source.lines)
        assert "C751" not in made.log and "0 bytes spill stores" in made.log

"""Kernels that read thread indices and also speak of whole tiles; what threads exchange."""

from __future__ import annotations

import numpy as np
import pytest
from gpu.programs import made, run

import tileworkbench.language as T
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Collective, ParallelFor
from tileworkbench.transform.cuda_lowering import cuda_steps
from tileworkbench.transform.insert_barriers import insert_barriers
from tileworkbench.transform.lowering import run_steps
from tileworkbench.transform.own_tiles import own_tiles
from tileworkbench.transform.spread_together import spread_together


def numbers(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def test_tile_operations_between_statements_of_threads() -> None:
    @T.prim_func
    def mixed(A: T.Tensor((32, 16), "float16"), B: T.Tensor((16, 32), "float16"), R: T.Tensor((32,), "float32"), C: T.Tensor((64,), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            a, b = T.alloc_shared((32, 16), "float16"), T.alloc_shared((16, 32), "float16")
            c, rows = T.alloc_fragment((32, 32), "float32"), T.alloc_fragment((32,), "float32")
            turned = T.alloc_shared((64,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            a[tx % 32, tx // 32] = a[tx % 32, tx // 32] * T.cast(2, "float16")
            T.clear(c)
            T.gemm(a, b, c)
            T.reduce_max(c, rows, dim=1)
            turned[63 - tx] = T.cast(tx, "float32")
            for i in T.Parallel(32):
                turned[i] = turned[i] + rows[i]
            C[tx] = turned[tx] + c[tx % 32, 3]
            T.copy(rows, R)

    a, b = numbers(0, 32, 16, dtype="float16"), numbers(1, 16, 32, dtype="float16")
    r, c = np.zeros(32, np.float32), np.zeros(64, np.float32)
    run(mixed, a, b, r, c)
    scaled = a.astype(np.float64)
    scaled[:, :2] *= 2
    product = scaled @ b.astype(np.float64)
    assert np.array_equal(r, product.max(1))
    assert np.array_equal(c, 63 - np.arange(64) + np.append(product.max(1), np.zeros(32)) + np.tile(product[:, 3], 2))


def test_a_loop_with_a_tile_operation_and_threads_exchanges_through_memory() -> None:
    @T.prim_func
    def steps(X: T.Tensor((4, 64), "int32"), N: T.Tensor((1,), "int32"), Y: T.Tensor((64,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            total = T.alloc_var("int32", init=0)
            for k in T.serial(N[0]):
                T.copy(X[k, :], s)
                total = total + s[63 - tx]
                if k % 2 == 1:
                    T.fill(s, 7)
                total = total + s[(tx + 1) % 64]
            Y[tx] = total

    x = numbers(2, 4, 64, dtype="int32")
    for turns in (0, 1, 4):
        y = np.full(64, -1, np.int32)
        run(steps, x, np.array([turns], np.int32), y)
        second = [np.full(64, 7) if k % 2 else np.roll(x[k], -1) for k in range(turns)]
        assert np.array_equal(y, sum((x[k][::-1] + second[k] for k in range(turns)), np.zeros(64)))


def test_each_threads_own_tile_operations() -> None:
    @T.prim_func
    def own(X: T.Tensor((64, 4), "float32"), Y: T.Tensor((64,), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            mine, s = T.alloc_local((4,), "float32"), T.alloc_shared((64, 4), "float32")
            for i in T.serial(4):
                s[tx, i] = X[tx, i]
            T.copy(s[63 - tx, :], mine)  # what another thread wrote: a barrier goes in front
            Y[tx] = mine[0] + mine[3]

    x, y = numbers(3, 64, 4), np.zeros(64, np.float32)
    run(own, x, y)
    assert np.array_equal(y, (x[:, 0] + x[:, 3])[::-1])


def test_own_arrays_of_a_block_whose_threads_are_not_visible() -> None:
    @T.prim_func
    def same(X: T.Tensor((4,), "float32"), Y: T.Tensor((64,), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            mine, start = T.alloc_local((4,), "float32"), T.alloc_local((4,), "float32")
            T.fill(start, 3.0)
            T.copy(X, mine)
            for i in T.Parallel(64):
                Y[i] = mine[2] + start[3]

    x, y = numbers(4, 4), np.zeros(64, np.float32)
    run(same, x, y)
    assert (y == x[2] + 3).all()


@pytest.mark.parametrize("threads", [64, 50, 7])
def test_what_threads_find_out_together(threads: int) -> None:
    @T.prim_func
    def found(X: T.Tensor((threads,), "int32"), Y: T.Tensor((6, threads), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding()
            Y[0, tx] = T.warp_reduce_sum(X[tx])
            Y[1, tx] = T.warp_reduce_max(X[tx])
            Y[2, tx] = T.syncthreads_count(X[tx] > 0)
            Y[3, tx] = T.cast(T.syncthreads_or(X[tx] == 4), "int32")
            Y[4, tx] = T.shfl_sync(X[tx], tx % 40)  # a lane out of reach gives the own value
            Y[5, tx] = T.shfl_xor(X[tx], 24, width=16)

    x, y = numbers(5, threads, dtype="int32"), np.zeros((6, threads), np.int32)
    run(found, x, y)
    warps = [x[w : w + 32] for w in range(0, threads, 32)]
    assert np.array_equal(y[0], np.concatenate([np.full(len(w), w.sum()) for w in warps]))
    assert np.array_equal(y[1], np.concatenate([np.full(len(w), w.max()) for w in warps]))
    assert (y[2] == (x > 0).sum()).all() and (y[3] == (x == 4).any()).all()
    t = np.arange(threads)
    asked = np.where((t % 40 < 32) & (t // 32 * 32 + t % 40 < threads), t // 32 * 32 + t % 40, t)
    assert np.array_equal(y[4], x[np.minimum(asked, threads - 1)])
    assert np.array_equal(y[5], x)


def test_a_shuffle_is_no_barrier() -> None:
    @T.prim_func
    def meets(X: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            s[tx] = X[tx]
            other = T.shfl_down(X[tx], 1)
            Y[tx] = s[63 - tx] + other

    x, y = numbers(6, 64, dtype="int32"), np.zeros(64, np.int32)
    run(meets, x, y)
    t = np.arange(64)
    assert np.array_equal(y, x[::-1] + x[np.where(t % 32 < 31, np.minimum(t + 1, 63), t)])
    assert made(meets).source.count("twb_sync()") == 1


def test_what_a_block_of_one_warp_finds_out_is_a_barrier() -> None:
    @T.prim_func
    def one(X: T.Tensor((32,), "int32"), Y: T.Tensor((32,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((32,), "int32")
            s[tx] = X[tx]
            count = T.syncthreads_count(X[tx] > 0)
            Y[tx] = s[31 - tx] + count

    x, y = numbers(7, 32, dtype="int32"), np.zeros(32, np.int32)
    run(one, x, y)
    assert np.array_equal(y, x[::-1] + (x > 0).sum())


def test_passes_leave_other_kernels_alone() -> None:
    @T.prim_func
    def plain(X: T.Tensor((64,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            X[tx] = X[tx] + 1

    kernel = plain.kernel
    assert own_tiles(kernel) is kernel and spread_together(kernel) is kernel and insert_barriers(kernel) is kernel
    assert not any(isinstance(n, (ParallelFor, Collective)) for n in walk(run_steps(kernel, cuda_steps(80))))


def test_what_an_iteration_reads_back_where_threads_hold_copies() -> None:
    @T.prim_func
    def back(X: T.Tensor((16,), "int32"), Y: T.Tensor((16,), "int32"), Z: T.Tensor((16,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            s, f = T.alloc_shared((16,), "int32"), T.alloc_fragment((16,), "int32")
            T.copy(X, s)
            for i in T.Parallel(16):
                s[i] = s[i] + 1
                if s[i] > 0:
                    s[i] = s[i] * 10
                f[i] = s[i]
            T.copy(f, Y)
            T.copy(s, Z)

    x, y, z = numbers(8, 16, dtype="int32"), np.zeros(16, np.int32), np.zeros(16, np.int32)
    run(back, x, y, z)
    want = np.where(x + 1 > 0, (x + 1) * 10, x + 1)
    assert np.array_equal(y, want) and np.array_equal(z, want)


def test_ends_of_loops_that_bind_less_tightly_than_a_comparison() -> None:
    @T.prim_func
    def ends(X: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            total = T.alloc_var("int32", init=0)
            for k in T.serial(T.if_then_else(X[tx] > 0, tx % 4, 7)):
                total = total + k + 1
            for _ in T.serial(tx & 5):
                total = total + 100
            Y[tx] = total

    x, y = numbers(9, 64, dtype="int32"), np.zeros(64, np.int32)
    run(ends, x, y)
    i = np.arange(64)
    count = np.where(x > 0, i % 4, 7)
    assert np.array_equal(y, count * (count + 1) // 2 + 100 * (i & 5))

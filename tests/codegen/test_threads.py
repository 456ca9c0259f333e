"""Kernels that read thread indices, synchronise, shuffle and vote: the C target against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from codegen.c_runner import source_of
from codegen.differ import agree, random_array

import tileworkbench.language as T
from tileworkbench.ir.stmt import Kernel

N = 256


def of(function) -> Kernel:
    return function.kernel


def outputs(count: int, dtype=np.float32) -> list[np.ndarray]:
    return [np.full(N, 7, dtype) for _ in range(count)]


def test_exchange_through_shared_memory() -> None:
    @T.prim_func
    def reverse(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding(0)
            s = T.alloc_shared((128,), "float32")
            s[tx] = A[bx * 128 + tx]
            T.sync_threads()
            B[bx * 128 + tx] = s[127 - tx]

    a = random_array((N,), "float32")
    out = agree(of(reverse), [a, *outputs(1)])
    np.testing.assert_array_equal(out[1], np.concatenate([a[:128][::-1], a[128:][::-1]]))
    text = source_of(of(reverse)).text
    assert text.count("#pragma omp simd") == 2


def test_barriers_that_the_author_left_out() -> None:
    """Data that passes between threads is ordered also without a barrier, within an iteration and from one to the next."""

    @T.prim_func
    def rotate(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding(0)
            s = T.alloc_shared((128,), "float32")
            s[tx] = A[bx * 128 + tx]
            for r in T.serial(5):
                x = s[(tx + 1) % 128]
                s[tx] = x + 1.0
            B[bx * 128 + tx] = s[127 - tx]

    a = random_array((N,), "float32")
    out = agree(of(rotate), [a, *outputs(1)])
    want = np.stack([np.roll(half, -5) + 5 for half in a.reshape(2, 128)])[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(out[1], want)


def test_own_elements_need_no_barrier() -> None:
    @T.prim_func
    def own(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding(0)
            s = T.alloc_shared((128, 2), "float32")
            i = bx * 128 + tx
            s[tx, 0] = A[i]
            s[tx, 1] = s[tx, 0] * 2.0
            B[i] = s[tx, 1]
            B[i] = B[i] + s[tx, 0]

    agree(of(own), [random_array((N,), "float32"), *outputs(1)])
    assert source_of(of(own)).text.count("for (int32_t tx") == 1


def test_tree_reduction_in_shared_memory() -> None:
    @T.prim_func
    def tree(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding(0)
            s = T.alloc_shared((128,), "float32")
            s[tx] = A[bx * 128 + tx]
            T.sync_threads()
            for r in T.serial(7):
                if tx < (64 >> r):
                    s[tx] += s[tx + (64 >> r)]
                T.sync_threads()
            if tx == 0:
                B[bx] = s[0]

    a = random_array((N,), "float32")
    out = agree(of(tree), [a, *outputs(1)])
    np.testing.assert_array_equal(out[1][:2], a.reshape(2, 128).sum(1))


def test_shuffles() -> None:
    @T.prim_func
    def shuffles(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32"), D: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding(0)
            i = bx * 128 + tx
            v = T.alloc_var("float32")
            v = A[i]
            for r in range(5):
                v = v + T.shfl_xor(v, 1 << r)
            B[i] = v
            C[i] = T.shfl_up(A[i], 3) + T.shfl_down(A[i], 5, 16)
            D[i] = T.shfl_sync(A[i], (tx * 7) % 40, 8)

    a = random_array((N,), "float32")
    out = agree(of(shuffles), [a, *outputs(3)])
    np.testing.assert_array_equal(out[1], np.repeat(a.reshape(-1, 32).sum(1), 32))


def test_votes_and_folds() -> None:
    @T.prim_func
    def votes(A: T.Tensor((N,), "float32"), B: T.Tensor((N, 6), "int32"), C: T.Tensor((N,), "uint32"), D: T.Tensor((N, 2), "float32")):
        with T.Kernel(2, threads=120) as bx:
            tx = T.get_thread_binding(0)
            i = bx * 120 + tx
            p = A[i] > 10.0
            B[i, 0] = T.syncthreads_count(p)
            B[i, 1] = T.cast(T.any_sync(p), "int32")
            B[i, 2] = T.cast(T.all_sync(A[i] > -49.0), "int32")
            B[i, 3] = T.cast(T.syncthreads_or(A[i] > 49.0), "int32")
            C[i] = T.ballot(p)
            D[i, 0] = T.warp_reduce_sum(A[i])
            D[i, 1] = T.warp_reduce_max(A[i])

    arrays = [random_array((N,), "float32"), np.zeros((N, 6), np.int32), np.zeros(N, np.uint32), np.zeros((N, 2), np.float32)]
    agree(of(votes), arrays)


def test_divergent_control_flow_with_barriers_inside() -> None:
    """Branches and loops that some threads take, with collectives in them; break and continue of single threads; a while of different lengths."""

    @T.prim_func
    def divergent(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((N,), "int32")):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding(0)
            s = T.alloc_shared((128,), "float32")
            acc = T.alloc_var("float32", init=0.0)
            n = T.alloc_var("int32", init=0)
            s[tx] = A[bx * 128 + tx]
            T.sync_threads()
            if tx < 40:
                x = T.warp_reduce_sum(s[tx])
                acc = x
                T.sync_warp()
            else:
                acc = s[tx - 1]
            for k in T.serial(tx % 5):
                T.sync_warp()
                if k == 3:
                    break
                if k == 1:
                    continue
                acc = acc + 1.0
            n = tx
            while n > 0:
                n = n // 2
                T.sync_warp()
                acc = acc + 10.0
            B[bx * 128 + tx] = acc
            C[bx * 128 + tx] = n

    agree(of(divergent), [random_array((N,), "float32"), *outputs(1), *outputs(1, np.int32)])


def test_a_uniform_loop_that_single_threads_leave() -> None:
    @T.prim_func
    def leaving(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding(0)
            acc = T.alloc_var("float32", init=0.0)
            for k in T.serial(6):
                if tx % 7 == k:
                    break
                acc = acc + T.shfl_sync(A[bx * 128 + tx], tx % 32)  # of itself: what a thread that left would send is anyone's guess
            B[bx * 128 + tx] = acc

    agree(of(leaving), [random_array((N,), "float32"), *outputs(1)])


@pytest.mark.parametrize("with_barrier", [False, True])
def test_threads_that_return_early(with_barrier: bool) -> None:
    @T.prim_func
    def early(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), n: T.int32):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding(0)
            i = bx * 128 + tx
            if i >= n:
                T.thread_return()
            B[i] = A[i] * 2.0
            for k in T.serial(4):
                if A[i] > k * 10:
                    T.thread_return()
                B[i] = B[i] + 1.0
            if with_barrier:
                T.sync_threads()
                B[i] = B[i] + 100.0

    agree(of(early), [random_array((N,), "float32"), *outputs(1)], scalars={"n": 200})


def test_arrays_of_each_thread() -> None:
    """Local arrays live in an iteration or across barriers; tile operations on them run in each thread."""

    @T.prim_func
    def local(A: T.Tensor((N, 4), "float32"), B: T.Tensor((N, 4), "float32")):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding(0)
            mine = T.alloc_local((4,), "float32")
            other = T.alloc_local((4,), "float32")
            s = T.alloc_shared((128, 4), "float32")
            T.copy(A[bx * 128 + tx, 0:4], mine)
            T.fill(other, 2.0)
            for i in T.serial(4):
                s[tx, i] = mine[3 - i] * other[i]
            T.sync_threads()
            for i in T.vectorized(4):
                mine[i] = mine[i] + s[(tx + 1) % 128, i]
            T.copy(mine, B[bx * 128 + tx, 0:4])

    agree(of(local), [random_array((N, 4), "float32"), np.zeros((N, 4), np.float32)])


def test_tile_operations_between_threads_statements() -> None:
    """Copies and parallel loops run once per block; what all threads compute alike runs once too; two thread dims."""

    @T.prim_func
    def mixed(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=(32, 4)) as bx:
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            f = T.alloc_fragment((128,), "float32")
            s = T.alloc_shared((128,), "float32")
            count = T.alloc_var("int32", init=0)
            T.copy(A[bx * 128 : (bx + 1) * 128], f)
            for i in T.Parallel(128):
                s[i] = f[i] * 2.0
            for k in T.serial(3):
                count = count + 1
                T.sync_threads()
            B[bx * 128 + ty * 32 + tx] = s[(ty * 32 + tx + count) % 128]

    a = random_array((N,), "float32")
    out = agree(of(mixed), [a, *outputs(1)])
    np.testing.assert_array_equal(out[1], np.stack([np.roll(h, -3) * 2 for h in a.reshape(2, 128)]).reshape(-1))


def test_atomics_of_threads() -> None:
    @T.prim_func
    def slots(C: T.Tensor((2,), "int32"), S: T.Tensor((N,), "int32")):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding(0)
            c = T.alloc_shared((1,), "int32")
            if tx == 0:
                c[0] = 0
            T.sync_threads()
            old = T.atomic_add(c[0], 1, return_prev=True)
            T.sync_threads()
            S[bx * 128 + old] = c[0]
            T.atomic_add(C[bx], 2)

    out = agree(of(slots), [np.zeros(2, np.int32), *outputs(1, np.int32)], threads=2)
    np.testing.assert_array_equal(out[0], [256, 256])
    assert (out[1] == 128).all()


def test_grid_barriers() -> None:
    """Blocks meet; tiles, thread variables and index arithmetic live on; also in a loop."""

    @T.prim_func
    def together(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), W: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding(0)
            f = T.alloc_fragment((128,), "float32")
            v = T.alloc_var("float32", init=0.0)
            i = bx * 128 + tx
            T.copy(A[bx * 128 : bx * 128 + 128], f)
            v = A[i]
            W[i] = v * 2.0
            T.sync_grid()
            for k in T.serial(3):
                B[i] = W[(i + 128) % N] + f[tx] + v
                T.sync_grid()
                W[i] = B[(i + 64) % N]
                T.sync_grid()

    agree(of(together), [random_array((N,), "float32"), *outputs(2)], threads=2)

"""Words of threads computed: atomics, shuffles, votes, assertions on the interpreter and on the C target, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from frontend.running import floats, rng, usable_targets

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import DeviceAssertError


# ---------------------------------------------------------------------------------------------- atomics
def test_atomics_on_elements(run):
    @T.prim_func
    def kernel(X: T.Tensor((256,), "int32"), C: T.Tensor((6, 8), "int32"), S: T.Tensor((256,), "int32")):
        with T.Kernel(4) as bx:
            for i in T.Parallel(64):
                v = X[bx * 64 + i]
                T.atomic_add(C[0, v % 8], v)
                T.atomic_max(C[1, v % 8], v)
                T.atomic_min(C[2, v % 8], v)
                T.atomic_or(C[3, v % 8], v)
                T.atomic_and(C[4, v % 8], v)
                T.atomic_xor(C[5, v % 8], v)
                S[bx * 64 + i] = T.atomic_add(C[0, 9], 1, return_prev=True)  # outside C: skipped, gives the safe value

    x = rng.integers(0, 1 << 16, 256).astype(np.int32)
    c = np.zeros((6, 8), np.int32)
    c[2], c[4] = 1 << 20, -1
    s = run(kernel, x, c, np.ones(256, np.int32))
    groups = [x[x % 8 == b] for b in range(8)]
    folds = [np.add, np.maximum, np.minimum, np.bitwise_or, np.bitwise_and, np.bitwise_xor]
    starts = [0, 0, 1 << 20, 0, -1, 0]
    expected = [[f.reduce(g, initial=start) for g in groups] for f, start in zip(folds, starts, strict=True)]
    assert np.array_equal(c, np.array(expected, np.int32)) and not s.any()


def test_atomics_on_tiles_and_lanes(run):
    @T.prim_func
    def kernel(X: T.Tensor((64, 32), "float32"), C: T.Tensor((40, 32), "float32"), D: T.Tensor((32,), "float32")):
        with T.Kernel(4) as bx:
            F = T.alloc_fragment((16, 32), "float32")
            T.copy(X[bx * 16, 0], F)
            T.atomic_add(C[(bx % 2) * 32, 0], F)
            for i in T.Parallel(8):
                T.atomic_addx4(D[i * 4], F[0, i * 4])

    x = rng.integers(-8, 8, (64, 32)).astype(np.float32)
    c, d = np.zeros((40, 32), np.float32), np.zeros(32, np.float32)
    run(kernel, x, c, d)
    expected = np.zeros((48, 32), np.float32)
    expected[:16] = x[:16] + x[32:48]
    expected[32:] = x[16:32] + x[48:]
    assert np.array_equal(c, expected[:40]) and np.array_equal(d, x[::16].sum(0))


def test_atomic_exchange_load_and_store(run):
    @T.prim_func
    def kernel(C: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            T.atomic_store(C[0], 5)
            old = T.atomic_exch(C[0], 6, return_prev=True)
            C[1] = old
            C[2] = T.atomic_load(C[0], "acquire")

    assert run(kernel, np.array([1, 2, 3, 4], np.int32)).tolist() == [6, 5, 6, 4]


# ---------------------------------------------------------------------------------------------- threads
def test_shuffles_and_votes(run):
    @T.prim_func
    def kernel(X: T.Tensor((64,), "float32"), Y: T.Tensor((9, 64), "float32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            v = X[t]
            Y[0, t] = T.shfl_xor(v, 5)
            Y[1, t] = T.shfl_down(v, 3)
            Y[2, t] = T.shfl_up(v, 3, width=16)
            Y[3, t] = T.shfl_sync(v, 7)
            Y[4, t] = T.warp_reduce_sum(v)
            Y[5, t] = T.cast(T.any_sync(v > 62), "float32") + 2 * T.cast(T.all_sync(v < 32), "float32")
            Y[6, t] = T.cast(T.ballot_sync(v < 2), "float32")
            Y[7, t] = T.syncthreads_count(v > 40)
            Y[8, t] = T.get_lane_idx() + 100 * T.get_warp_idx()

    x = np.arange(64, dtype=np.float32)
    lane, warp = np.arange(64) % 32, np.arange(64) // 32
    y = run(kernel, x, np.zeros((9, 64), np.float32))
    expected = [
        x[np.arange(64) ^ 5], np.where(lane + 3 < 32, x + 3, x), np.where(np.arange(64) % 16 >= 3, x - 3, x), x[warp * 32 + 7],
        np.where(warp == 0, x[:32].sum(), x[32:].sum()), np.where(warp == 1, 1.0, 2.0), np.where(warp == 0, 3.0, 0.0), np.full(64, 23.0),
        lane + 100.0 * warp,
    ]  # fmt: skip
    assert np.array_equal(y, np.array(expected, np.float32))


def test_allreduce_over_one_axis_of_the_block(run):
    @T.prim_func
    def kernel(X: T.Tensor((4, 16), "float32"), Y: T.Tensor((2, 16), "float32")):
        with T.Kernel(1, threads=(16, 4)):
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            out = T.alloc_local((1,), "float32")
            with T.attr(T.comm_reducer(lambda a, b: a + b, [T.float32(0)]), "reduce_scope", T.reinterpret(T.uint64(0), dtype="handle")):
                T.evaluate(T.tvm_thread_allreduce(T.uint32(1), X[ty, tx], ty < 3, out[0], ty, dtype="handle"))
            if ty == 0:
                Y[0, tx] = out[0]
            with T.attr(T.comm_reducer(lambda a, b: T.max(a, b), [T.min_value("float32")]), "reduce_scope", 0):
                T.tvm_thread_allreduce(T.uint32(1), X[ty, tx], True, out[0], tx, ty)
            if ty == 1:
                Y[1, tx] = out[0]

    x = rng.integers(-9, 9, (4, 16)).astype(np.float32)
    y = run(kernel, x, np.zeros((2, 16), np.float32))
    assert np.array_equal(y[0], x[:3].sum(0)) and np.array_equal(y[1], np.full(16, x.max()))


def test_threads_talk_through_shared_memory(run):
    @T.prim_func
    def kernel(X: T.Tensor((3, 64), "int32"), Y: T.Tensor((3, 64), "int32")):
        with T.Kernel(3, threads=64) as bx:
            t = T.get_thread_binding()
            S = T.alloc_shared((64,), "int32")
            S[t] = X[bx, t]
            T.sync_threads()
            Y[bx, t] = S[63 - t]

    x = rng.integers(0, 99, (3, 64)).astype(np.int32)
    assert np.array_equal(run(kernel, x, np.zeros((3, 64), np.int32)), x[:, ::-1])


# ---------------------------------------------------------------------------------------------- effects
def test_a_failed_assertion_reaches_the_caller(run):
    @T.prim_func
    def kernel(X: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            T.device_assert(X[0] < 5, "X[0] must be below 5")

    run(kernel, np.zeros(8, np.int32))
    with pytest.raises(DeviceAssertError) as caught:
        run(kernel, np.full(8, 9, np.int32))
    assert "X[0] must be below 5" in str(caught.value) and "test_thread_words_run.py" in str(caught.value)


def test_call_extern_on_the_c_target():
    if "c" not in usable_targets():
        pytest.skip("no C compiler here")

    @T.prim_func
    def kernel(X: T.Tensor((8,), "float32"), Y: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.import_source("static float twice(float x) { return x + x; }\nstatic int set(float *p, int n) { p[n] = 42; return 0; }\n")
            for i in T.serial(8):
                Y[i] = T.call_extern("float32", "twice", X[i])
            T.call_extern("handle", "set", T.access_ptr(Y, "w"), 3)

    x = floats(8)
    y = np.zeros(8, np.float32)
    tileworkbench.compile(kernel, target="c")(x, y)
    expected = x + x
    expected[3] = 42
    assert np.array_equal(y, expected)

"""Words on tiles computed: copies, reductions, scans, views on the interpreter and on the C target, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from frontend.running import floats, rng
from hypothesis import given, settings
from hypothesis import strategies as st

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.dtypes import FLOAT32


def test_copies_guard_both_ends(run):
    @T.prim_func
    def kernel(X: T.Tensor((50,), "float32"), Y: T.Tensor((2, 40), "float32")):
        with T.Kernel(1):
            S = T.alloc_shared((64,), "float32")
            T.annotate_safe_value({X: 7})
            T.copy(X[-8:], S[0:8])
            for k in T.serial(2):
                T.copy(X[k * 64 - 16], S)
                T.copy(S, Y[k, 0])

    x = np.arange(50, dtype=np.float32)
    y = run(kernel, x, np.full((2, 40), -1, np.float32))
    assert np.array_equal(y[0], [*[7.0] * 16, *range(24)])
    assert np.array_equal(y[1], [48, 49, *[7.0] * 38])


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_copies_between_any_two_places(data):
    """A tile of any shape from anywhere (also outside) to anywhere, on the interpreter: what is outside reads 0 and is not written."""
    whole = st.tuples(st.integers(1, 9), st.integers(1, 9))
    (M, N), (H, W), tile = data.draw(whole), data.draw(whole), data.draw(whole)
    at, to = data.draw(st.tuples(*[st.integers(-10, 10)] * 2)), data.draw(st.tuples(*[st.integers(-10, 10)] * 2))
    h, w = tile

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((H, W), "float32"), P: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            S = T.alloc_shared((h, w), "float32")
            T.copy(X[P[0] : P[0] + h, P[1] : P[1] + w], S)
            T.copy(S, Y[P[2], P[3]])

    x, y = floats(M, N), np.full((H, W), -1, np.float32)
    expected = y.copy()
    tileworkbench.compile(kernel, target="interpret")(x, y, np.array([*at, *to], np.int32))
    for i in range(h):
        for j in range(w):
            r, c, u, v = at[0] + i, at[1] + j, to[0] + i, to[1] + j
            if 0 <= u < H and 0 <= v < W:
                expected[u, v] = x[r, c] if 0 <= r < M and 0 <= c < N else 0
    assert np.array_equal(y, expected)


@pytest.mark.parametrize("op", ["sum", "abssum", "max", "min", "absmax"])
@pytest.mark.parametrize("dim", [0, 1])
def test_float_reductions(run, op, dim):
    @T.prim_func
    def kernel(X: T.Tensor((24, 40), "float32"), Y: T.Tensor((40,) if dim == 0 else (24,), "float32")):
        with T.Kernel(1):
            F = T.alloc_fragment((24, 40), "float32")
            V = T.alloc_fragment((40,) if dim == 0 else (24,), "float32")
            T.copy(X, F)
            T.fill(V, 0.25)
            T.reduce(F, V, op, dim, op in ("abssum", "absmax"))
            T.copy(V, Y)

    x = floats(24, 40)
    y = run(kernel, x, np.zeros(40 if dim == 0 else 24, np.float32))
    a = x.astype(np.float64)
    expected = {
        "sum": a.sum(dim) + 0.25, "abssum": np.abs(a).sum(dim), "max": np.maximum(a.max(dim), 0.25), "min": np.minimum(a.min(dim), 0.25),
        "absmax": np.abs(a).max(dim),
    }[op]  # fmt: skip
    np.testing.assert_allclose(y, expected, rtol=40 * FLOAT32.unit_roundoff, atol=40 * FLOAT32.unit_roundoff)


def test_bitwise_reductions(run):
    @T.prim_func
    def kernel(X: T.Tensor((16, 8), "int32"), Y: T.Tensor((3, 16), "int32")):
        with T.Kernel(1):
            F = T.alloc_fragment((16, 8), "int32")
            V = T.alloc_fragment((16,), "int32")
            T.copy(X, F)
            T.reduce_bitand(F, V)
            T.copy(V, Y[0, 0])
            T.reduce_bitor(F, V)
            T.copy(V, Y[1, 0])
            T.reduce_bitxor(F, V)
            T.copy(V, Y[2, 0])

    x = rng.integers(0, 1 << 30, (16, 8)).astype(np.int32)
    y = run(kernel, x, np.zeros((3, 16), np.int32))
    assert np.array_equal(y, [np.bitwise_and.reduce(x, 1), np.bitwise_or.reduce(x, 1), np.bitwise_xor.reduce(x, 1)])


def test_scans(run):
    @T.prim_func
    def kernel(X: T.Tensor((16, 24), "float32"), Y: T.Tensor((4, 16, 24), "float32")):
        with T.Kernel(1):
            F = T.alloc_fragment((16, 24), "float32")
            S = T.alloc_shared((16, 24), "float32")
            T.copy(X, F)
            T.cumsum(F, S, dim=0)
            T.copy(S, Y[0, 0, 0])
            T.cumsum(F, S, dim=1, reverse=True)
            T.copy(S, Y[1, 0, 0])
            T.cummax(F, S, dim=-1)
            T.copy(S, Y[2, 0, 0])
            T.cumsum(F, dim=1)
            T.copy(F, Y[3, 0, 0])

    x = floats(16, 24)
    y = run(kernel, x, np.zeros((4, 16, 24), np.float32))
    a = x.astype(np.float64)
    expected = [a.cumsum(0), a[:, ::-1].cumsum(1)[:, ::-1], np.maximum.accumulate(a, 1), a.cumsum(1)]
    np.testing.assert_allclose(y, expected, atol=24 * 4 * FLOAT32.unit_roundoff)


def test_views_share_storage(run):
    @T.prim_func
    def kernel(X: T.Tensor((8, 16), "float32"), Y: T.Tensor((128,), "int32"), Z: T.Tensor((16, 8), "float32")):
        with T.Kernel(1):
            S = T.alloc_shared((8, 16), "float32")
            bits = T.view(S, (128,), "int32")
            flat = T.reshape(Z, (128,))
            T.copy(X, S)
            for i in T.Parallel(128):
                Y[i] = bits[i]
            for i in T.Parallel(128):
                bits[i] = 0
            T.copy(T.reshape(S, (128,)), flat)

    x, y = floats(8, 16), np.zeros(128, np.int32)
    z = run(kernel, x, y, np.ones((16, 8), np.float32))
    assert np.array_equal(y, x.ravel().view(np.int32)) and not z.any()


def test_transpose_and_slices(run):
    @T.prim_func
    def kernel(X: T.Tensor((16, 24), "float32"), Y: T.Tensor((24, 16), "float32"), Z: T.Tensor((4, 24), "float32")):
        with T.Kernel(1):
            S = T.alloc_shared((16, 24), "float32")
            R = T.alloc_shared((24, 16), "float32")
            T.copy(X, S)
            T.transpose(S, R)
            T.copy(R, Y)
            S[0:2, :] = S[2:4, :]
            S[2, 3:9] = -1
            T.copy(S[0:4, :], Z)

    x, y = floats(16, 24), np.zeros((24, 16), np.float32)
    z = run(kernel, x, y, np.zeros((4, 24), np.float32))
    expected = x[[2, 3, 2, 3]].copy()
    expected[2, 3:9] = -1
    assert np.array_equal(y, x.T) and np.array_equal(z, expected)


@pytest.mark.parametrize(("stride", "dilation", "pad"), [(1, 1, 1), (2, 1, 0), (1, 2, 2)])
def test_im2col(run, stride, dilation, pad):
    N, H, W, C, K = 2, 9, 10, 4, 3
    OH, OW = ((size + 2 * pad - dilation * (K - 1) - 1) // stride + 1 for size in (H, W))
    M = N * OH * OW

    @T.prim_func
    def kernel(X: T.Tensor((N, H, W, C), "float16"), Y: T.Tensor((M, 48), "float16")):
        with T.Kernel(T.ceildiv(M, 32), 3) as (by, bk):
            S = T.alloc_shared((32, 16), "float16")
            T.im2col(X, S, by, bk, K, stride, dilation, pad)
            T.copy(S, Y[by * 32, bk * 16])

    x = floats(N, H, W, C, dtype=np.float16)
    y = run(kernel, x, np.ones((M, 48), np.float16))
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    taps = [
        padded[:, i * dilation : i * dilation + stride * OH : stride, j * dilation : j * dilation + stride * OW : stride][:, :OH, :OW]
        for i in range(K)
        for j in range(K)
    ]
    assert np.array_equal(y[:, :36], np.stack(taps, 3).reshape(M, 36)) and not y[:, 36:].any()


def test_reducers_and_votes(run):
    @T.prim_func
    def kernel(X: T.Tensor((32, 64), "float32"), Y: T.Tensor((3, 32), "float32"), N: T.Tensor((3,), "int32")):
        with T.Kernel(1):
            F = T.alloc_fragment((32, 64), "float32")
            T.copy(X, F)
            total = T.alloc_reducer((32,), "float32")
            high = T.alloc_reducer((32,), "float32", "max")
            low = T.alloc_reducer((32,), "float32", "min")
            T.reducer_init(total)
            T.reducer_init(high)
            T.reducer_init(low, 0)
            for i, j in T.Parallel(32, 64):
                total[i] += F[i, j]
                T.reducer_update(high[i], F[i, j])
                low[i] = T.min(low[i], F[i, j])
            T.finalize_reducer(total, Y[0, :])
            T.finalize_reducer(high)
            T.copy(high, Y[1, :])
            T.finalize_reducer(low, Y[2, 0])
            N[0] = T.cast(T.any_of(F), "int32")
            N[1] = T.cast(T.all_of(X[0:2, 3:8]), "int32")
            N[2] = T.cast(T.all_of(X), "int32")

    x, y = floats(32, 64), np.zeros((3, 32), np.float32)
    x[9, 9] = 0
    n = run(kernel, x, y, np.full(3, -1, np.int32))
    np.testing.assert_allclose(y[0], x.sum(1, dtype=np.float64), atol=64 * 4 * FLOAT32.unit_roundoff)
    assert np.array_equal(y[1], x.max(1)) and np.array_equal(y[2], np.minimum(x.min(1), 0)) and n.tolist() == [1, 1, 0]

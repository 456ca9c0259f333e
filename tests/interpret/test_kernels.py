"""Kernels written in the language, run by the interpreter, against NumPy in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileworkbench.language as T
from tileworkbench.base.dtypes import DType
from tileworkbench.base.errors import DeviceAssertError
from tileworkbench.interpret import TraceOptions, run

EPS = DType("float32").unit_roundoff


def rng(seed=0):
    return np.random.default_rng(seed)


def floats(*shape, seed=0, dtype=np.float32):
    return rng(seed).standard_normal(shape).astype(dtype)


def call(prim, *arrays, **more):
    """Run in place and return the last array."""
    run(prim.kernel, list(arrays), **more)
    return arrays[-1]


# ---------------------------------------------------------------------------------------------- dense algebra
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 70), st.booleans(), st.sampled_from([1, 8, 16]))
def test_gemm_with_epilogue(m, n, k, transposed, tile):
    @T.prim_func
    def gemm(A: T.Tensor((m, k), "float16"), B: T.Tensor((n, k) if transposed else (k, n), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, 16), threads=64) as (bx, by):
            a = T.alloc_shared((16, 8), "float16")
            b = T.alloc_shared((tile, 8) if transposed else (8, tile), "float16")
            c = T.alloc_fragment((16, tile), "float32")
            T.clear(c)
            for ko in T.Pipelined(T.ceildiv(k, 8), num_stages=2):
                T.copy(A[by * 16, ko * 8], a)
                if transposed:
                    T.copy(B[bx * tile, ko * 8], b)
                else:
                    T.copy(B[ko * 8, bx * tile], b)
                T.gemm(a, b, c, transpose_B=transposed)
            for i, j in T.Parallel(16, tile):
                c[i, j] = T.max(c[i, j], 0)
            T.copy(c, C[by * 16, bx * tile])

    a, b = floats(m, k, dtype=np.float16), floats(k, n, seed=1, dtype=np.float16)
    got = call(gemm, a, (b.T.copy() if transposed else b), np.full((m, n), np.nan, np.float32))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = (k + 2) * EPS * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    assert (np.abs(got - np.maximum(exact, 0)) <= bound).all()


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 40), st.integers(1, 100))
def test_dynamic_softmax(rows, cols):
    m, n = T.dynamic("m, n")

    @T.prim_func
    def softmax(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(m, 4), threads=32) as bx:
            x = T.alloc_fragment((4, 128), "float32")
            top, total = T.alloc_fragment((4,), "float32"), T.alloc_fragment((4,), "float32")
            for i, j in T.Parallel(4, 128):
                x[i, j] = T.if_then_else(j < n, X[bx * 4 + i, j], -T.infinity("float32"))
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(4, 128):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(4, 128):
                x[i, j] /= total[i]
            T.copy(x, Y[bx * 4, 0])

    x = floats(rows, cols) * 10
    got = call(softmax, x, np.full((rows, cols), 7, np.float32))
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), rtol=(np.abs(x).max() * 2 + cols + 8) * EPS, atol=1e-30)


def attention(seq, seq_kv, dim, block, causal):
    scale = 1.4426950408889634 / dim**0.5

    @T.prim_func
    def flash(
        Q: T.Tensor((seq, dim), "float32"),
        K: T.Tensor((seq_kv, dim), "float32"),
        V: T.Tensor((seq_kv, dim), "float32"),
        O: T.Tensor((seq, dim), "float32"),
    ):
        with T.Kernel(T.ceildiv(seq, block), threads=128) as bx:
            q, k, v = (T.alloc_shared((block, dim), "float32") for _ in range(3))
            s = T.alloc_fragment((block, block), "float32")
            o = T.alloc_fragment((block, dim), "float32")
            m, before, rescale, total, part = (T.alloc_fragment((block,), "float32") for _ in range(5))
            T.copy(Q[bx * block : (bx + 1) * block, :], q)
            T.clear(o)
            T.clear(total)
            T.fill(m, -T.infinity("float32"))
            trips = T.min(T.ceildiv((bx + 1) * block, block), T.ceildiv(seq_kv, block)) if causal else T.ceildiv(seq_kv, block)
            for t in T.Pipelined(trips, num_stages=1):
                T.copy(K[t * block : (t + 1) * block, :], k)
                for i, j in T.Parallel(block, block):
                    hidden = t * block + j >= seq_kv
                    if causal:
                        hidden = T.Or(hidden, bx * block + i < t * block + j)
                    s[i, j] = T.if_then_else(hidden, -T.infinity("float32"), 0)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, before)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(block):
                    rescale[i] = T.exp2((before[i] - m[i]) * scale)
                for i, j in T.Parallel(block, block):
                    s[i, j] = T.exp2((s[i, j] - m[i]) * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(block):
                    total[i] = total[i] * rescale[i] + part[i]
                for i, j in T.Parallel(block, dim):
                    o[i, j] *= rescale[i]
                T.copy(V[t * block : (t + 1) * block, :], v)
                T.gemm(s, v, o)
            for i, j in T.Parallel(block, dim):
                o[i, j] /= total[i]
            T.copy(o, O[bx * block : (bx + 1) * block, :])

    return flash


@pytest.mark.parametrize(("seq", "seq_kv", "causal"), [(32, 32, False), (37, 50, False), (37, 37, True), (16, 5, False)])
def test_flash_attention_and_its_steps(seq, seq_kv, causal):
    dim, block = 16, 16
    q, k, v = floats(seq, dim), floats(seq_kv, dim, seed=1), floats(seq_kv, dim, seed=2)
    got = np.zeros((seq, dim), np.float32)
    trace = run(attention(seq, seq_kv, dim, block, causal).kernel, [q, k, v, got], trace=TraceOptions(values=True, blocks={(0,)}))
    s = q.astype(np.float64) @ k.T.astype(np.float64) / dim**0.5
    if causal:
        s[np.arange(seq)[:, None] < np.arange(seq_kv)] = -np.inf
    p = np.exp(s - s.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    np.testing.assert_allclose(got, p @ v, rtol=0, atol=(seq_kv + dim + 20) * 4 * EPS)
    maxima = [step.writes[0].after for step in trace if step.kind == "reduce" and step.stmt.op == "max"]
    assert len(maxima) == (1 if causal else -(-seq_kv // block))
    assert all((a <= b).all() for a, b in zip(maxima, maxima[1:]))


def test_layernorm_in_float16():
    rows, cols = 6, 50

    @T.prim_func
    def layernorm(X: T.Tensor((rows, cols), "float16"), G: T.Tensor((cols,), "float32"), Y: T.Tensor((rows, cols), "float16")):
        with T.Kernel(T.ceildiv(rows, 4), threads=128) as bx:
            x = T.alloc_fragment((4, cols), "float32")
            square = T.alloc_fragment((4, cols), "float32")
            mean, variance = T.alloc_fragment((4,), "float32"), T.alloc_fragment((4,), "float32")
            T.copy(X[bx * 4, 0], x)
            T.reduce_sum(x, mean, dim=-1)
            for i, j in T.Parallel(4, cols):
                square[i, j] = (x[i, j] - mean[i] / cols) * (x[i, j] - mean[i] / cols)
            T.reduce_sum(square, variance, dim=-1)
            for i, j in T.Parallel(4, cols):
                x[i, j] = (x[i, j] - mean[i] / cols) * T.rsqrt(variance[i] / cols + 1e-5) * G[j]
            T.copy(x, Y[bx * 4, 0])

    x, g = floats(rows, cols, dtype=np.float16), floats(cols, seed=1)
    got = call(layernorm, x, g, np.zeros((rows, cols), np.float16)).astype(np.float64)
    d = x.astype(np.float64)
    want = (d - d.mean(1, keepdims=True)) / np.sqrt(d.var(1, keepdims=True) + 1e-5) * g
    np.testing.assert_allclose(got, want, rtol=2 * DType("float16").unit_roundoff, atol=100 * EPS)


# ---------------------------------------------------------------------------------------------- threads
def test_gemv_with_shuffles():
    n, k, threads = 10, 200, 64

    @T.prim_func
    def gemv(W: T.Tensor((n, k), "float32"), X: T.Tensor((k,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(n, threads=threads) as bx:
            tx = T.get_thread_binding(0)
            acc = T.alloc_local((1,), "float32")
            parts = T.alloc_shared((threads // 32,), "float32")
            T.clear(acc)
            for step in T.serial(T.ceildiv(k, threads)):
                acc[0] += W[bx, step * threads + tx] * X[step * threads + tx]
            whole = T.warp_reduce_sum(acc[0])
            if tx % 32 == 0:
                parts[tx // 32] = whole
            T.sync_threads()
            if tx == 0:
                Y[bx] = parts[0] + parts[1]

    w, x = floats(n, k), floats(k, seed=1)
    got = call(gemv, w, x, np.zeros(n, np.float32))
    assert (np.abs(got - w.astype(np.float64) @ x) <= (k + 4) * EPS * (np.abs(w) @ np.abs(x))).all()


def test_histogram_in_shared_memory():
    n, bins, threads = 1000, 16, 128

    @T.prim_func
    def histogram(X: T.Tensor((n,), "int32"), H: T.Tensor((bins,), "int32")):
        with T.Kernel(4, threads=threads) as bx:
            tx = T.get_thread_binding(0)
            local = T.alloc_shared((bins,), "int32")
            T.clear(local)
            T.sync_threads()
            at = T.alloc_var("int32")
            at = bx * threads + tx
            while at < n:
                T.atomic_add(local[X[at] % bins], 1)
                at = at + 4 * threads
            T.sync_threads()
            if tx < bins:
                T.atomic_add(H[tx], local[tx])

    x = rng(3).integers(-50, 50, n).astype(np.int32)
    np.testing.assert_array_equal(call(histogram, x, np.zeros(bins, np.int32)), np.bincount(x % bins, minlength=bins))


def test_bitonic_sort_per_block():
    n = 64

    @T.prim_func
    def sort(X: T.Tensor((3, n), "float32")):
        with T.Kernel(3, threads=n) as bx:
            tx = T.get_thread_binding(0)
            s = T.alloc_shared((n,), "float32")
            s[tx] = X[bx, tx]
            T.sync_threads()
            for a in range(6):
                for b in range(6):
                    if b <= a:
                        other = tx ^ (1 << (a - b))
                        if other > tx:
                            low = T.min(s[tx], s[other])
                            high = T.max(s[tx], s[other])
                            up = (tx & (2 << a)) == 0
                            s[tx] = T.if_then_else(up, low, high)
                            s[other] = T.if_then_else(up, high, low)
                        T.sync_threads()
            X[bx, tx] = s[tx]

    x = floats(3, n)
    np.testing.assert_array_equal(call(sort, x.copy()), np.sort(x, 1))


# ---------------------------------------------------------------------------------------------- the rest of the language
def test_dequantised_weights():
    n, k = 6, 32

    @T.prim_func
    def dequant(W: T.Tensor((n, k // 2), "uint8"), S: T.Tensor((n,), "float16"), Y: T.Tensor((n, k), "float16")):
        with T.Kernel(1, threads=32):
            w = T.alloc_shared((n, k // 2), "uint8")
            y = T.alloc_fragment((n, k), "float16")
            T.copy(W, w)
            for i, j in T.Parallel(n, k):
                nibble = T.cast((w[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & 15, "int8")
                y[i, j] = T.cast(T.if_then_else(nibble >= 8, nibble - 16, nibble), "float16") * S[i]
            T.copy(y, Y)

    codes = rng(1).integers(-8, 8, (n, k))
    packed = ((codes[:, ::2] & 15) | ((codes[:, 1::2] & 15) << 4)).astype(np.uint8)
    s = floats(n, dtype=np.float16)
    np.testing.assert_array_equal(call(dequant, packed, s, np.zeros((n, k), np.float16)), codes.astype(np.float16) * s[:, None])


def test_per_row_quantisation_to_float8():
    m, n = 5, 40

    @T.prim_func
    def quantise(X: T.Tensor((m, n), "bfloat16"), Y: T.Tensor((m, n), "float8_e4m3fn"), S: T.Tensor((m,), "float32")):
        with T.Kernel(m, threads=32) as bx:
            x = T.alloc_fragment((1, n), "float32")
            top = T.alloc_fragment((1,), "float32")
            T.copy(X[bx, 0], x)
            T.reduce_absmax(x, top, dim=1)
            for j in T.Parallel(n):
                Y[bx, j] = T.clamp(x[0, j] * (448.0 / top[0]), -448.0, 448.0)
            S[bx] = top[0] / 448.0

    x = floats(m, n).astype(ml_dtypes.bfloat16)
    y, s = np.zeros((m, n), ml_dtypes.float8_e4m3fn), np.zeros(m, np.float32)
    call(quantise, x, y, s)
    wide = x.astype(np.float32)
    top = np.abs(wide).max(1)
    np.testing.assert_array_equal(s, top / np.float32(448))
    np.testing.assert_array_equal(y.astype(np.float32), (wide * (np.float32(448) / top)[:, None]).astype(ml_dtypes.float8_e4m3fn).astype(np.float32))


def test_split_k_through_a_workspace():
    n, k, splits = 40, 96, 3

    @T.prim_func
    def split(A: T.Tensor((n, k), "float32"), B: T.Tensor((k, n), "float32"), C: T.Tensor((n, n), "float32")):
        with T.Kernel(T.ceildiv(n, 16), T.ceildiv(n, 16), splits, threads=64) as (bx, by, bz):
            a, b = T.alloc_shared((16, 16), "float32"), T.alloc_shared((16, 16), "float32")
            c = T.alloc_fragment((16, 16), "float32")
            T.clear(c)
            for ko in range(k // splits // 16):
                T.copy(A[by * 16, bz * (k // splits) + ko * 16], a)
                T.copy(B[bz * (k // splits) + ko * 16, bx * 16], b)
                T.gemm(a, b, c)
            T.atomic_add(C[by * 16, bx * 16], c)

    a, b = floats(n, k), floats(k, n, seed=1)
    got = call(split, a, b, np.zeros((n, n), np.float32))
    assert (np.abs(got - a.astype(np.float64) @ b) <= (k + splits) * EPS * (np.abs(a) @ np.abs(b))).all()


def test_a_device_assertion_points_at_its_line():
    @T.prim_func
    def checked(X: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(8):
                T.device_assert(X[i] >= 0, "negative input")

    call(checked, np.ones(8, np.float32))
    with pytest.raises(DeviceAssertError, match="negative input") as caught:
        call(checked, -np.ones(8, np.float32))
    assert "T.device_assert" in str(caught.value)


def test_counts_point_at_source_lines():
    @T.prim_func
    def double(X: T.Tensor((100,), "float32"), Y: T.Tensor((100,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            x = T.alloc_fragment((32,), "float32")
            T.copy(X[bx * 32], x)
            for i in T.Parallel(32):
                x[i] = x[i] * 2
            T.copy(x, Y[bx * 32])

    first = double.kernel.launches[0].body[0].span.line
    trace = run(double.kernel, [floats(100), np.zeros(100, np.float32)], trace=True)
    assert {line: n for (_, line), n in trace.by_line("global").items()} == {first: 400, first + 3: 400}
    assert {line: n for (_, line), n in trace.by_line("chip").items()} == {first: 512, first + 2: 1024, first + 3: 512}

"""The words computed: small kernels on the interpreter and on the C target, against NumPy."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.dtypes import FLOAT32
from tileworkbench.base.errors import DeviceAssertError
from tileworkbench.runtime.targets import get_target

TARGETS = ["interpret", "c"]
rng = np.random.default_rng(5)


@pytest.fixture(params=TARGETS)
def run(request):
    """`run(kernel, *arrays)` runs a prim_func in place and gives back the last array."""
    if request.param == "c" and "c" not in usable_targets():
        pytest.skip("no C compiler here")

    def call(kernel, *arrays):
        tileworkbench.compile(kernel, target=request.param)(*arrays)
        return arrays[-1]

    return call


def usable_targets() -> list[str]:
    return [name for name in TARGETS if not get_target(name).usable()]


def floats(*shape, scale=1.0, dtype=np.float32):
    return (rng.standard_normal(shape) * scale).astype(dtype)


# ---------------------------------------------------------------------------------------------- functions
POSITIVE = ("log", "log2", "log10", "sqrt", "rsqrt")
FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: 10.0**x, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "atanh": np.arctanh, "erf": np.vectorize(math.erf),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "nearbyint": np.rint, "abs": np.abs,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "fast_rcp": lambda x: 1 / x,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_operand(run, name):
    function = getattr(T, name)

    @T.prim_func
    def kernel(X: T.Tensor((96,), "float32"), Y: T.Tensor((96,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(96):
                Y[i] = function(X[i])

    x = rng.uniform(-0.9, 0.9, 96).astype(np.float32)
    x = np.abs(x) + 0.05 if name in POSITIVE else x * 4 if name in ("floor", "ceil", "trunc", "nearbyint", "round") else x
    x = x.astype(np.float32)
    expected = FUNCTIONS[name](x.astype(np.float64))
    y = run(kernel, x, np.zeros(96, np.float32))
    np.testing.assert_allclose(y, expected, rtol=8 * FLOAT32.unit_roundoff, atol=2 * FLOAT32.unit_roundoff)


def test_functions_of_two_operands(run):
    @T.prim_func
    def kernel(X: T.Tensor((64,), "float32"), Z: T.Tensor((64,), "float32"), Y: T.Tensor((8, 64), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                Y[0, i] = T.max(X[i], Z[i])
                Y[1, i] = T.min(X[i], Z[i])
                Y[2, i] = T.pow(T.abs(X[i]), Z[i])
                Y[3, i] = T.atan2(X[i], Z[i])
                Y[4, i] = T.fmod(X[i], Z[i])
                Y[5, i] = T.copysign(X[i], Z[i])
                Y[6, i] = T.hypot(X[i], Z[i])
                Y[7, i] = T.clamp(X[i], -0.5, 0.5) + X[i] % 0.75

    x, z = floats(64), floats(64)
    x[3] = np.nan
    a, b = x.astype(np.float64), z.astype(np.float64)
    y = run(kernel, x, z, np.zeros((8, 64), np.float32))
    rows = [np.fmax(a, b), np.fmin(a, b), np.abs(a) ** b, np.arctan2(a, b), np.fmod(a, b), np.copysign(a, b), np.hypot(a, b)]
    np.testing.assert_allclose(y[:7], rows, rtol=1e-5, atol=1e-6)
    keep = np.arange(64) != 3
    np.testing.assert_allclose(y[7][keep], (np.clip(a, -0.5, 0.5) + a % 0.75)[keep], rtol=1e-5, atol=1e-6)


def test_integer_arithmetic(run):
    @T.prim_func
    def kernel(X: T.Tensor((64,), "int32"), Z: T.Tensor((64,), "int32"), Y: T.Tensor((12, 64), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                Y[0, i] = X[i] // Z[i]
                Y[1, i] = X[i] % Z[i]
                Y[2, i] = T.truncdiv(X[i], Z[i])
                Y[3, i] = T.truncmod(X[i], Z[i])
                Y[4, i] = T.ceildiv(X[i], Z[i])
                Y[5, i] = X[i] ^ Z[i]
                Y[6, i] = (X[i] & Z[i]) | 1
                Y[7, i] = X[i] << 3
                Y[8, i] = X[i] >> 2
                Y[9, i] = T.popcount(X[i]) + T.clz(X[i])
                Y[10, i] = ~X[i]
                Y[11, i] = X[i] ** 3 + T.cast(X[i] < Z[i], "int32")

    x, z = rng.integers(-100, 100, 64).astype(np.int32), rng.integers(1, 9, 64).astype(np.int32) * rng.choice([-1, 1], 64).astype(np.int32)
    a, b = x.astype(np.int64), z.astype(np.int64)
    trunc = np.trunc(a / b).astype(np.int64)
    bits = [int(v) & 0xFFFFFFFF for v in a]
    rows = [a // b, a % b, trunc, a - trunc * b, -(-a // b), a ^ b, (a & b) | 1, a << 3, a >> 2,
            [v.bit_count() + 32 - v.bit_length() for v in bits], ~a, a**3 + (a < b)]  # fmt: skip
    assert np.array_equal(run(kernel, x, z, np.zeros((12, 64), np.int32)), np.array(rows, np.int32))


def test_conversions_and_bits(run):
    @T.prim_func
    def kernel(
        X: T.Tensor((64,), "float32"),
        H: T.Tensor((64,), "float16"),
        B: T.Tensor((64,), "bfloat16"),
        I: T.Tensor((64,), "int32"),
        U: T.Tensor((64,), "uint8"),
    ):
        with T.Kernel(1):
            for i in T.Parallel(64):
                H[i] = T.cast(X[i], "float16")
                B[i] = T.bfloat16(X[i])
                I[i] = T.reinterpret(X[i], "int32")
                U[i] = T.cast(X[i], "uint8")

    x = floats(64, scale=200)
    h, b = np.zeros(64, np.float16), np.zeros(64, ml_dtypes.bfloat16)
    i, u = np.zeros(64, np.int32), np.zeros(64, np.uint8)
    run(kernel, x, h, b, i, u)
    assert np.array_equal(h, x.astype(np.float16)) and np.array_equal(b, x.astype(ml_dtypes.bfloat16))
    assert np.array_equal(i, x.view(np.int32)) and np.array_equal(u, np.clip(np.trunc(x), 0, 255).astype(np.uint8))


# ---------------------------------------------------------------------------------------------- tiles
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
    assert "X[0] must be below 5" in str(caught.value) and "test_words_run.py" in str(caught.value)


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

"""Functions, arithmetic and conversions computed: small kernels on the interpreter and on the C target, against NumPy."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from frontend.running import floats, rng

import tileworkbench.language as T
from tileworkbench.base.dtypes import FLOAT32

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

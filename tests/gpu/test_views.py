"""Views of arrays, tiles, fragments and threads' own arrays: another shape or type over the same bytes."""

from __future__ import annotations

import numpy as np
from gpu.programs import run

import tileworkbench.language as T


def test_views_of_tiles_and_arrays() -> None:
    @T.prim_func
    def viewed(X: T.Tensor((8, 16), "float32"), Y: T.Tensor((128,), "int32"), Z: T.Tensor((16, 8), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((8, 16), "float32")
            f = T.alloc_fragment((8, 16), "float32")
            flat, bits = T.reshape(s, (128,)), T.view(s, (128,), "int32")
            T.copy(X, s)
            for i in T.Parallel(64):
                flat[i + 64] = flat[i]
            T.copy(bits, Y)
            T.copy(s, f)
            turned = T.reshape(f, (16, 8))  # a fragment with a view lies in shared memory
            for i, j in T.Parallel(16, 8):
                turned[i, j] = turned[i, j] * 2.0
            wide = T.reshape(Z, (8, 16))
            T.copy(f, wide)

    x = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    y, z = np.zeros(128, np.int32), np.zeros((16, 8), np.float32)
    text = run(viewed, x, y, z).source
    half = np.concatenate([x.reshape(-1)[:64]] * 2)
    assert np.array_equal(y, half.view(np.int32))
    assert np.array_equal(z.reshape(-1), half * 2)
    assert "const auto s_view = twb_cast<float>(s);" in text or "twb_cast<int32_t>(s);" in text


def test_views_of_a_threads_own_array() -> None:
    @T.prim_func
    def bits(X: T.Tensor((64, 4), "float32"), Y: T.Tensor((64,), "uint32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            mine = T.alloc_local((4,), "float32")
            words = T.view(mine, (4,), "uint32")
            square = T.reshape(mine, (2, 2))
            for i in T.serial(4):
                mine[i] = X[tx, i]
            square[1, 0] = square[0, 1] + 1.0
            Y[tx] = words[2] ^ words[3]

    x = np.random.default_rng(1).standard_normal((64, 4)).astype(np.float32)
    y = np.zeros(64, np.uint32)
    text = run(bits, x, y).source
    mine = x.copy()
    mine[:, 2] = mine[:, 1] + np.float32(1)
    assert np.array_equal(y, mine.view(np.uint32)[:, 2] ^ mine.view(np.uint32)[:, 3])
    assert "alignas(16) float mine[4];" in text


def test_a_product_into_a_view_of_a_fragment() -> None:
    @T.prim_func
    def product(A: T.Tensor((32, 16), "float16"), B: T.Tensor((16, 32), "float16"), C: T.Tensor((1, 32, 32), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((32, 16), "float16"), T.alloc_shared((16, 32), "float16")
            c = T.alloc_fragment((1, 32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, T.reshape(c, (32, 32)))
            T.copy(c, C)

    a, b = (np.random.default_rng(s).integers(-3, 4, n).astype(np.float16) for s, n in ((2, (32, 16)), (3, (16, 32))))
    c = np.zeros((1, 32, 32), np.float32)
    run(product, a, b, c)
    assert np.array_equal(c[0], a.astype(np.float64) @ b.astype(np.float64))


def test_a_loop_that_does_not_run_holds_no_barrier() -> None:
    @T.prim_func
    def maybe(X: T.Tensor((64,), "int32"), N: T.Tensor((1,), "int32"), Y: T.Tensor((64,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            s, t = T.alloc_shared((64,), "int32"), T.alloc_shared((64,), "int32")
            T.clear(t)
            T.copy(X, s)
            for _ in T.serial(N[0]):
                for i in T.Parallel(64):
                    t[i] = t[i] + s[63 - i]
            for i in T.Parallel(64):
                Y[i] = s[63 - i] + t[63 - i]

    x = np.arange(64, dtype=np.int32)
    for turns in (0, 2):
        y = np.zeros(64, np.int32)
        run(maybe, x, np.array([turns], np.int32), y)
        assert np.array_equal(y, x[::-1] + turns * x)

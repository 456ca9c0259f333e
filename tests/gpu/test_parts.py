"""Loops over a part of a tile in registers, or over more than it has."""

from __future__ import annotations

import numpy as np
import pytest
from gpu.programs import run

import tileworkbench.language as T


@pytest.mark.parametrize("size", [(7, 5), (5, 7), (6, 6), (1, 7), (7, 7)], ids=str)
@pytest.mark.parametrize("threads", [32, 128])
def test_a_loop_over_a_part_of_a_fragment(size: tuple[int, int], threads: int) -> None:
    rows, cols = size

    @T.prim_func
    def partly(X: T.Tensor((7, 7), "int16"), Y: T.Tensor((7, 7), "int16")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=threads):
            t = T.alloc_fragment((7, 7), "int16")
            T.copy(X, t)
            for i, j in T.Parallel(rows, cols):
                t[i, j] = t[i, j] + T.int16(100)
            T.copy(t, Y)

    x, y = np.arange(49, dtype=np.int16).reshape(7, 7), np.zeros((7, 7), np.int16)
    run(partly, x, y)
    want = x.copy()
    want[:rows, :cols] += 100
    assert np.array_equal(y, want)


def test_a_loop_beyond_a_fragment() -> None:
    """Rows that the tile does not have are left out, and columns that the loop does not have stay."""

    @T.prim_func
    def beyond(X: T.Tensor((7, 7), "int16"), Y: T.Tensor((7, 7), "int16")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=128):
            t = T.alloc_fragment((7, 7), "int16")
            T.copy(X, t)
            for i, j in T.Parallel(8, 5):
                t[i, j] = T.int16(2)
            T.copy(t, Y)

    x, y = np.arange(49, dtype=np.int16).reshape(7, 7), np.zeros((7, 7), np.int16)
    run(beyond, x, y)
    want = x.copy()
    want[:, :5] = 2
    assert np.array_equal(y, want)


def test_columns_of_a_product() -> None:
    """A tile that a matrix unit leaves, of which a loop changes some columns."""

    @T.prim_func
    def some(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((64, 64), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            for i, j in T.Parallel(64, 20):
                c[i, j] = c[i, j] * 2.0
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (64, 32)).astype(np.float16), rng.integers(-4, 5, (32, 64)).astype(np.float16)
    c = np.zeros((64, 64), np.float32)
    run(some, a, b, c)
    want = a.astype(np.float32) @ b.astype(np.float32)
    want[:, :20] *= 2
    assert np.array_equal(c, want)

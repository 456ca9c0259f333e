"""Atomics of every type, on the block's own memory too, and with a memory order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu.programs import made, run

import tileworkbench.language as T
from tileworkbench.transform.order_atomics import order_atomics


def test_counts_in_shared_memory_are_atomic() -> None:
    @T.prim_func
    def histogram(X: T.Tensor((256,), "int32"), Y: T.Tensor((8,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((8,), "int32")
            T.clear(s)
            for i in T.Parallel(256):
                T.atomic_add(s[X[i]], 1)
            T.copy(s, Y)

    x, y = np.random.default_rng(0).integers(0, 8, 256).astype(np.int32), np.zeros(8, np.int32)
    assert "twb_atomic_add_i32(s +" in run(histogram, x, y).source
    assert np.array_equal(y, np.bincount(x, minlength=8))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float64"])
def test_every_type(dtype: str) -> None:
    @T.prim_func
    def updates(X: T.Tensor((64,), dtype), Y: T.Tensor((5,), dtype)):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                T.atomic_add(Y[0], X[i])
                T.atomic_max(Y[1], X[i])
                T.atomic_min(Y[2], X[i])
            T.atomic_store(Y[3], X[5])
            Y[4] = T.atomic_load(Y[3])

    x = np.random.default_rng(1).integers(0, 3, 64).astype(dtype)
    y = np.ones(5, dtype)
    run(updates, x, y)
    assert y.tolist() == [x.sum() + 1 if dtype != "int8" else (int(x.sum()) + 129) % 256 - 128, x.max(), x.min(), x[5], x[5]]


def test_a_number_takes_the_place_of_a_nan() -> None:
    @T.prim_func
    def extremes(X: T.Tensor((32,), "float32"), Y: T.Tensor((2,), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                T.atomic_max(Y[0], X[i])
                T.atomic_min(Y[1], X[i])

    x, y = np.arange(32, dtype=np.float32), np.full(2, np.nan, np.float32)
    x[3] = np.nan
    run(extremes, x, y)
    assert y.tolist() == [31, 0]


def released(order: str) -> Any:
    @T.prim_func
    def program(X: T.Tensor((64,), "float32"), W: T.Tensor((64,), "float32"), F: T.Tensor((2,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            T.copy(X, W)
            T.atomic_add(F[0], 1, memory_order=order)
            F[1] = T.cast(W[5], "int32")

    return program


def test_an_order_puts_fences_and_the_block_comes_together() -> None:
    x, w, f = np.arange(64, dtype=np.float32), np.zeros(64, np.float32), np.zeros(2, np.int32)
    text = run(released("release"), x, w, f).source
    assert f.tolist() == [1, 5]
    before, after = text.split("twb_atomic_add_i32")
    assert "twb_fence_gpu();\n  twb_sync();\n" in before and "twb_fence_gpu" not in after
    assert made(released("acq_rel")).source.count("twb_fence_gpu();") == 2
    kernel = released("relaxed").kernel
    assert order_atomics(kernel) is kernel and "twb_fence_gpu" not in made(released("relaxed")).source

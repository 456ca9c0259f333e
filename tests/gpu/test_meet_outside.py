"""Barriers and operations of the block in branches that only some threads take."""

from __future__ import annotations

import numpy as np
import pytest
from gpu.programs import made, run

import tileworkbench.language as T
from tileworkbench.base.errors import UnsupportedError
from tileworkbench.transform.meet_outside import meet_outside


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.int32)


def test_a_tree_of_sums() -> None:
    """The barrier between reading s[tx + width] and writing s[tx] is put into the branch, and comes out of it."""

    @T.prim_func
    def tree(X: T.Tensor((128,), "int32"), Y: T.Tensor((1,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "int32")
            s[tx] = X[tx]
            for k in T.serial(7):
                if tx < (64 >> k):
                    s[tx] = s[tx] + s[tx + (64 >> k)]
            if tx == 0:
                Y[0] = s[0]

    x, y = numbers(0, 128), np.zeros(1, np.int32)
    run(tree, x, y)
    assert y[0] == x.sum()


def test_both_sides_of_a_branch_meet() -> None:
    @T.prim_func
    def sides(X: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            T.fill(s, 5)
            if tx < 20:
                x = X[tx] * 2
                s[tx] = x
                T.sync_threads()
                for k in T.serial(2):
                    if tx > 3:
                        s[tx] = s[tx] + s[tx - 1]
                        T.sync_threads()
                Y[tx] = s[19 - tx] + x
            else:
                T.copy(X, s)
                Y[tx] = s[tx] + T.syncthreads_count(X[tx] > 0)

    x, y = numbers(1, 64), np.zeros(64, np.int32)
    text = run(sides, x, y).source
    s = np.full(64, 5)
    s[:20] = 2 * x[:20]
    for _ in range(2):
        s[4:20] += s[3:19]
    assert np.array_equal(y[:20], s[:20][::-1] + 2 * x[:20])
    assert np.array_equal(y[20:], x[20:] + (x[20:] > 0).sum())
    assert all(line.startswith(("  twb_sync", "    twb_sync")) for line in text.splitlines() if "twb_sync()" in line)


def test_threads_that_return_before_the_others_meet() -> None:
    @T.prim_func
    def plain(X: T.Tensor((100,), "int32"), Y: T.Tensor((100,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(2, threads=64) as bx:
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            i = bx * 64 + tx
            if i >= 100:
                T.thread_return()
            s[tx] = X[i]
            Y[i] = s[tx // 2]

    x, y = numbers(2, 100), np.zeros(100, np.int32)
    text = run(plain, x, y).source
    i = np.arange(100)
    assert np.array_equal(y, x[i // 64 * 64 + i % 64 // 2])
    assert "return;" not in text


def test_a_loop_that_threads_leave_at_different_times_is_refused() -> None:
    @T.prim_func
    def apart(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float32")
            for _ in T.serial(tx):
                T.copy(X, s)
            Y[tx] = s[tx]

    with pytest.raises(UnsupportedError, match="meet in a loop which they leave at different times") as caught:
        made(apart)
    assert "T.copy(X, s)" in str(caught.value)


def test_branches_that_all_threads_take_stay() -> None:
    @T.prim_func
    def uniform(X: T.Tensor((64,), "int32"), N: T.Tensor((1,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            if N[0] > 3:
                s[tx] = X[tx]
                T.sync_threads()
                X[tx] = s[63 - tx]

    assert meet_outside(uniform.kernel) is uniform.kernel


def test_an_operation_after_some_threads_have_left_is_refused() -> None:
    @T.prim_func
    def left(X: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            for k in T.serial(3):
                if X[tx] > k:
                    T.thread_return()
                Y[tx] = k
            T.fill(Y, 7)

    with pytest.raises(UnsupportedError, match="after some of its threads may have left") as caught:
        made(left)
    assert "T.fill(Y, 7)" in str(caught.value)


def test_blocks_that_leave_as_a_whole() -> None:
    @T.prim_func
    def some(X: T.Tensor((64,), "int32"), Y: T.Tensor((4, 64), "int32")):  # type: ignore[valid-type]
        with T.Kernel(4, threads=64) as bx:
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            if bx > 1:
                T.thread_return()
            T.copy(X, s)
            Y[bx, tx] = s[63 - tx]

    x, y = numbers(3, 64), np.zeros((4, 64), np.int32)
    run(some, x, y)
    assert np.array_equal(y, np.stack([x[::-1], x[::-1], x * 0, x * 0]))

"""`T.sync_grid`: a launch ends there, and what must live on gets memory."""

from __future__ import annotations

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import UnsupportedError
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.interpret import run as interpret
from tileworkbench.transform.keep_values import keep_values
from tileworkbench.transform.split_grid_syncs import split_grid_syncs


def run(program: PrimFunc, *arrays: np.ndarray) -> None:
    """Change `arrays` in the emulator, and see that the interpreter leaves the same."""
    theirs = [a.copy() for a in arrays]
    tileworkbench.compile(program, target="emulate:sm_80")(*arrays)
    interpret(program.kernel, theirs, {}, {})
    for mine, other in zip(arrays, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_tiles_live_across() -> None:
    @T.prim_func
    def turns(X: T.Tensor((4, 64), "int32"), Y: T.Tensor((4, 64), "int32")):  # type: ignore[valid-type]
        with T.Kernel(4, threads=64) as bx:
            s, f = T.alloc_shared((64,), "int32"), T.alloc_fragment((64,), "int32")
            T.copy(X[bx, :], s)
            T.copy(X[bx, :], f)
            first = X[bx, 0]
            for _ in T.serial(3):
                for i in T.Parallel(64):
                    Y[bx, i] = s[i] + 1
                T.sync_grid()
                for i in T.Parallel(64):
                    s[i] = s[i] + Y[(bx + 1) % 4, i] + f[i]
                T.sync_grid()
            for i in T.Parallel(64):
                Y[bx, i] = s[i] + first

    x = np.random.default_rng(0).integers(-9, 9, (4, 64)).astype(np.int32)
    y, s = np.zeros((4, 64), np.int32), x.copy()
    run(turns, x, y)
    for _ in range(3):
        s = s + np.roll(s + 1, -1, 0) + x
    assert np.array_equal(y, s + x[:, :1])


def test_what_threads_hold_lives_across() -> None:
    @T.prim_func
    def holds(X: T.Tensor((2, 3, 32), "float32"), Y: T.Tensor((2, 3, 32), "float32")):  # type: ignore[valid-type]
        with T.Kernel(2, 3, threads=32) as (bx, by):
            tx = T.get_thread_binding()
            mine, total = T.alloc_local((2,), "float32"), T.alloc_var("float32", init=0.0)
            x = X[bx, by, tx]
            above = T.shfl_down(x, 1)
            twice = x * 2.0
            mine[1] = x + 1.0
            total = total + x
            Y[bx, by, tx] = x
            T.sync_grid()
            other = Y[1 - bx, (by + 1) % 3, 31 - tx]
            T.sync_grid()
            Y[bx, by, tx] = total + mine[1] + other + above + twice

    x = np.random.default_rng(1).integers(-9, 9, (2, 3, 32)).astype(np.float32)
    y = np.zeros_like(x)
    run(holds, x, y)
    above = np.concatenate([x[..., 1:], x[..., -1:]], -1)
    assert np.array_equal(y, x * 4 + 1 + np.roll(x[::-1], -1, 1)[..., ::-1] + above)


def test_a_barrier_that_depends_on_the_block_is_refused() -> None:
    @T.prim_func
    def some(Y: T.Tensor((4,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(4, threads=32) as bx:
            if bx > 1:
                T.sync_grid()
            Y[bx] = 1

    with pytest.raises(UnsupportedError, match="barrier of the grid in control flow that depends on the block") as caught:
        tileworkbench.compile(some, target="emulate:sm_80")
    assert "if bx > 1:" in str(caught.value)


def test_kernels_without_such_barriers_stay() -> None:
    @T.prim_func
    def plain(Y: T.Tensor((4,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(4, threads=32) as bx:
            Y[bx] = 1

    assert keep_values(plain.kernel) is plain.kernel and split_grid_syncs(plain.kernel) is plain.kernel

"""Watching launches: each one is told once, on the short way too, and nothing stays behind."""

from __future__ import annotations

import numpy as np
import pytest

import tileworkbench as tilelang
import tileworkbench.language as T
from tileworkbench.runtime.observing import WATCH, observe
from tileworkbench.runtime.targets import get_target

TARGETS = [
    pytest.param(name, marks=pytest.mark.skipif(bool(get_target(name).usable()), reason=get_target(name).usable())) for name in ("c", "interpret")
]


def made(target: str):
    @tilelang.jit(target=target)
    def double(A):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        B = T.empty((N,), "float32")
        with T.Kernel(1, threads=32) as bx:
            for i in T.Parallel(64):
                B[i] = A[i] * 2
        return B

    return double


@pytest.mark.parametrize("target", TARGETS)
def test_every_launch_is_told(target):
    double = made(target)
    A = np.arange(64, dtype="float32")
    for _ in range(4):
        double(A)  # the short way is prepared by now
    kernel = double.compile(A)
    told = []
    with observe(lambda *launch: told.append(launch)):
        np.testing.assert_array_equal(double(A), 2 * A)
        np.testing.assert_array_equal(kernel(A), 2 * A)
    assert [k.name for k, _, _ in told] == ["double", "double"]
    assert all(seconds > 0 for _, _, seconds in told)
    call = told[0][1]
    np.testing.assert_array_equal(call.tensors[1].array, 2 * A)
    double(A)
    assert len(told) == 2


@pytest.mark.parametrize("target", TARGETS)
def test_without_a_launch_outputs_hold_nothing_that_looks_like_a_result(target):
    double = made(target)
    with observe(lambda *launch: None, launch=False):
        assert np.isnan(double(np.ones(64, "float32"))).all()
    np.testing.assert_array_equal(double(np.ones(64, "float32")), np.full(64, 2.0))


def test_an_error_ends_the_watch():
    with pytest.raises(ZeroDivisionError):
        with observe(lambda *launch: None):
            raise ZeroDivisionError
    assert WATCH.seen is None and WATCH.may_launch

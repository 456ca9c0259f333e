"""Comparing with a reference: a correct result passes for every float type, and one wrong element is found and named."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tileworkbench.notebook.reference import compare

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn], ids=str)
def test_rounding_alone_is_accepted(dtype):
    a, b = (RNG.standard_normal((64, 96)).astype(dtype) for _ in range(2))
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    got = exact.astype(dtype)
    result = compare("C", got, exact, epsilon=float(ml_dtypes.finfo(dtype).eps), length=96)
    assert result.holds, str(result)


def test_one_wrong_element_is_named():
    want = RNG.standard_normal((8, 16)).astype(np.float32)
    got = want.copy()
    got[3, 5] += 0.25
    result = compare("C", got, want, epsilon=float(np.finfo(np.float32).eps), length=16)
    assert not result.holds
    assert result.where == (3, 5)
    assert result.box == ((3, 4), (5, 6))
    assert "C[3, 5] is" in str(result) and "1 of 128 elements are wrong, all within C[3:4, 5:6]" in str(result)


def test_nan_and_infinity():
    want = np.array([np.nan, np.inf, 1.0, 2.0])
    assert compare("C", want.copy(), want, epsilon=1e-16, length=1).holds
    got = np.array([0.0, 3.0, np.nan, np.inf])
    result = compare("C", got, want, epsilon=1e-16, length=1)
    assert result.wrong == 4
    assert result.worst == np.inf


def test_integers_must_be_equal():
    want = np.arange(6)
    assert compare("C", want, want, epsilon=0.0, length=1000).holds
    assert compare("C", want + [0, 0, 0, 1, 0, 0], want, epsilon=0.0, length=1000).wrong == 1


def test_a_given_tolerance_is_used():
    want = np.ones(4)
    assert compare("C", want * 1.09, want, epsilon=0.0, length=1, tolerance=0.1).holds
    assert not compare("C", want * 1.11, want, epsilon=0.0, length=1, tolerance=0.1).holds


def test_shapes_must_agree_and_empty_arrays_do():
    with pytest.raises(ValueError, match=r"C has shape \(2,\), the reference \(3,\)"):
        compare("C", np.zeros(2), np.zeros(3), epsilon=0.0, length=1)
    assert compare("C", np.zeros((0, 3)), np.zeros((0, 3)), epsilon=0.0, length=1).holds

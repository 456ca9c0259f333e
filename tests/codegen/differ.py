"""Run a kernel through the C target and through the interpreter and compare every array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from codegen.c_runner import Compiled

from tileworkbench.base.dtypes import DType
from tileworkbench.interpret import run as interpret
from tileworkbench.ir.stmt import Kernel


def agree(kernel: Kernel, arrays: Sequence[np.ndarray], rtol: float = 0.0, atol: float = 0.0, threads: int = 1, **how) -> list[np.ndarray]:
    """Both targets on copies of `arrays`; returns what the C target left in them."""
    mine, theirs = [a.copy() for a in arrays], [a.copy() for a in arrays]
    assert Compiled(kernel)(*mine, threads=threads, **how) == 0
    interpret(kernel, theirs, **{k: v for k, v in how.items() if k in ("dims", "scalars")})
    for n, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        same(a, b, rtol, atol, f"array {n}")
    return mine


def same(a: np.ndarray, b: np.ndarray, rtol: float, atol: float, what: str) -> None:
    if a.dtype.kind in "fV":
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True, err_msg=what)
    else:
        np.testing.assert_array_equal(a, b, err_msg=what)


def random_array(shape: Sequence[int], dtype: str | DType, seed: int = 0) -> np.ndarray:
    """Small numbers of any dtype, exact in float16."""
    rng, dtype = np.random.default_rng(seed), DType(dtype)
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    low, high = (max(int(dtype.min), -50), min(int(dtype.max), 50)) if dtype.is_int else (-50, 50)
    return rng.integers(low, high, shape, endpoint=True).astype(dtype.to_numpy())

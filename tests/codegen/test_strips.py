"""Sixteen rows that are reduced together give what each gives alone: every length, strides, NaN and infinities."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from codegen.c_harness import COMPILERS, MARCHES, build

from tileworkbench.codegen import clib

EXACT = {"sum": np.sum, "max": np.fmax.reduce, "min": np.fmin.reduce}


def call(lib: ctypes.CDLL, op: str, x: np.ndarray, length: int) -> np.ndarray:
    out = np.full(16, 7, np.float32)
    strides = ctypes.c_int64(x.shape[1]), ctypes.c_int64(length)
    getattr(lib, f"twb_rows_{op}_f32_")(ctypes.c_void_p(x.ctypes.data), *strides, ctypes.c_void_p(out.ctypes.data))
    return out


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("isa", MARCHES, ids=lambda isa: isa.name)
def test_sixteen_rows_of_every_length(compiler, isa) -> None:
    names = [f"twb_rows_{op}_f32" for op in EXACT]
    text = clib.library(names) + "".join(f"void {n}_(const float *x, int64_t ld, int64_t n, float *out) {{ {n}(x, ld, n, out); }}\n" for n in names)
    lib = build(text, isa, compiler)
    rng = np.random.default_rng(3)
    for length in [*range(1, 70), 127, 128, 500]:
        plain = rng.standard_normal((16, length + 3)).astype(np.float32)
        holes = np.where(rng.random(plain.shape) < 0.3, np.float32(np.nan), plain)
        holes[5] = np.nan  # one row without a number
        low = np.where(rng.random(plain.shape) < 0.5, -np.float32(np.inf), plain)
        low[11], low[12] = -np.inf, np.inf
        for x in (plain, holes, low):
            for op, exact in EXACT.items():
                with np.errstate(all="ignore"):
                    rows = x[:, :length].astype(np.float64)
                    want, size = exact(rows, axis=1), np.abs(rows).sum(axis=1)
                    error = np.abs(call(lib, op, x, length) - want)
                    same = (call(lib, op, x, length) == want) | np.isnan(want) & np.isnan(call(lib, op, x, length))
                assert (same | (error <= length * 2.0**-24 * size)).all(), (op, length)

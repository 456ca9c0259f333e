"""C functions of the author's, and names that C++ keeps for itself."""

from __future__ import annotations

import numpy as np
import pytest
from gpu.programs import made, run

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import TileError
from tileworkbench.device import from_text, library
from tileworkbench.runtime.nvrtc import compile_text

SOURCE = "static float twice(float x) { return 2 * x; }\nstatic int bump(float *p, int *q) { *p += 1; return *q; }"


def test_functions_of_the_author() -> None:
    @T.prim_func
    def calls(X: T.Tensor((8,), "float32"), Y: T.Tensor((8,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32):
            T.import_source(SOURCE)
            s, counts = T.alloc_shared((8,), "float32"), T.alloc_shared((1,), "int32")
            for i in T.Parallel(8):
                s[i] = T.call_extern("float32", "twice", X[i])
            counts[0] = 7
            Y[1] = T.call_extern("int32", "bump", T.address_of(s[2]), T.address_of(counts[0]))
            T.copy(s, X)

    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.int32)
    kernel = tileworkbench.compile(calls, target="emulate:sm_80")
    kernel(x, y)
    assert x.tolist() == [0, 2, 5, 6, 8, 10, 12, 14] and y[1] == 7
    source = made(calls).made
    lines = source.text.splitlines()
    assert lines[:2] == SOURCE.splitlines() and all("twice" in lines[n - 1] or n > 2 for n in source.lines)
    try:
        compile_text(library(from_text(source.text), "sm_80", "gpu") + source.text, "sm_80", source.flags)
    except TileError as error:
        if "pip install" not in str(error):
            raise
        pytest.skip("needs NVRTC")


def test_names_of_c_plus_plus() -> None:
    @T.prim_func
    def private(new: T.Tensor((8,), "int32"), template: T.Tensor((8,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32) as blockIdx:
            this = T.alloc_shared((8,), "int32")
            for operator in T.Parallel(8):
                this[operator] = new[operator] + T.cast(blockIdx, "int32")
            T.copy(this, template)

    x, y = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    run(private, x, y)
    assert np.array_equal(x, y)

"""Reductions over the threads of a block: within warps by shuffles, then one value of each warp through a tile."""

from __future__ import annotations

import numpy as np
import pytest
from gpu.programs import made, run

import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc


def program(rows: int, cols: int, threads: int, op: str = "sum", dtype: str = "int32") -> PrimFunc:
    @T.prim_func
    def reduce(X: T.Tensor((rows, cols), dtype), Y: T.Tensor((rows,), dtype)):
        with T.Kernel(1, threads=threads) as bx:
            x = T.alloc_fragment((rows, cols), dtype)
            y = T.alloc_fragment((rows,), dtype)
            T.copy(X, x)
            if op == "sum":
                T.reduce_sum(x, y, dim=1)
            else:
                T.reduce_max(x, y, dim=1)
            T.copy(y, Y)

    result: PrimFunc = reduce
    return result


@pytest.mark.parametrize("op", ["sum", "max"])
@pytest.mark.parametrize(
    ("rows", "cols", "threads"),
    [
        (1, 1024, 256), (1, 1000, 256), (1, 40, 64), (1, 120, 32), (3, 96, 96), (2, 2048, 1024), (4, 64, 128), (5, 24, 64), (1, 250, 256),
        (2, 7, 64), (1, 100, 48), (3, 260, 160),
    ],
)  # fmt: skip
def test_sums_and_maxima(rows: int, cols: int, threads: int, op: str) -> None:
    """Rows that warps share evenly, unevenly, with threads to spare and with copies; the sanitizer watches the tile."""
    x = np.random.default_rng(rows * cols).integers(-1000, 1000, (rows, cols), dtype=np.int32)
    y = np.zeros(rows, np.int32)
    run(program(rows, cols, threads, op), x, y)
    assert np.array_equal(y, x.sum(axis=1) if op == "sum" else x.max(axis=1))


def test_rows_of_nan_keep_it_and_others_do_not() -> None:
    x = np.full((2, 1024), np.nan, np.float32)
    x[1, 777] = 3.0
    y = np.zeros(2, np.float32)
    run(program(2, 1024, 256, "max", "float32"), x, y)
    assert np.isnan(y[0]) and y[1] == 3.0


@pytest.mark.parametrize(
    ("cols", "threads", "shuffles"), [(1024, 256, 5 + 3), (4096, 1024, 5 + 5), (1000, 256, 5 + 3), (128, 32, 5), (256, 64, 5 + 1)]
)
def test_no_thread_walks_over_all_others(cols: int, threads: int, shuffles: int) -> None:
    """There are log2 of the threads steps."""
    text = made(program(1, cols, threads)).source
    body = text[text.index("__global__") :]
    assert body.count("twb_shfl_xor(") == shuffles
    assert "turn" not in body

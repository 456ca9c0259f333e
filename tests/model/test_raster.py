"""The order in which blocks start: what the compiler's pass makes of the same hint."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileworkbench.language as T
from tileworkbench.analysis.fragments import numbers
from tileworkbench.base.machine import find_machine
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Launch, Let
from tileworkbench.kernels import gemm
from tileworkbench.model.raster import coordinates
from tileworkbench.model.report import report
from tileworkbench.transform.raster_blocks import raster_blocks

H200 = find_machine("h200")


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5), st.booleans())
def test_panels_are_those_of_the_compiler(columns: int, rows: int, height: int, by_columns: bool) -> None:
    order = "column" if by_columns else "row"

    @T.prim_func
    def walker(C: T.Tensor((rows, columns), "float32")):
        with T.Kernel(columns, rows, threads=32) as (bx, by):
            T.use_swizzle(height, order=order)
            C[by, bx] = 1.0

    launch = next(n for n in walk(raster_blocks(walker.kernel)) if isinstance(n, Launch))
    known = {launch.block_vars[0].name: np.arange(columns * rows)}
    for let in (n for n in walk(launch) if isinstance(n, Let)):
        value = numbers(let.value, known)
        assert value is not None
        known[let.var.name] = value
    got = coordinates(np.arange(columns * rows), (columns, rows), dict(walker.kernel.launches[0].hints)["use_swizzle"])
    bx, by = walker.kernel.launches[0].block_vars
    assert got[0].tolist() == np.broadcast_to(known[bx.name], columns * rows).tolist()
    assert got[1].tolist() == np.broadcast_to(known[by.name], columns * rows).tolist()


def test_grids_without_panels_start_x_first() -> None:
    assert [a.tolist() for a in coordinates(np.arange(6), (3, 2))] == [[0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1]]
    assert [a.tolist() for a in coordinates(np.arange(8), (2, 2, 2), "2")] == [[0, 0, 1, 1, 0, 0, 1, 1], [0, 1, 0, 1, 0, 1, 0, 1], [0] * 4 + [1] * 4]


@pytest.mark.parametrize(("panel", "least", "most"), [(0, 12e9, 16e9), (8, 2e9, 4e9)])
def test_panels_save_bytes_of_wide_products(panel: int, least: float, most: float) -> None:
    """4096 x 28672 x 8192: without panels each row of blocks reads all 470 MB of B again."""
    kernel = gemm.program(4096, 28672, 8192, 128, 256, 64, 4, "float16", "float16", False, "float32", 256, panel).kernel
    level = next(x for x in report(kernel, H200, {}, registers=168).levels if x.name == "DRAM")
    assert least < level.cold_bytes < most

"""Which launches get threads: by their work where it can be counted, by a comparison in the text where their size is not known, always elsewhere."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
import pytest
from codegen.c_runner import build

import tileworkbench
import tileworkbench.language as T
from tileworkbench.analysis.work import work_ns
from tileworkbench.codegen.openmp import emit
from tileworkbench.ir.lowered import Grid
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Kernel
from tileworkbench.kernels import attention, elementwise, gemm, softmax
from tileworkbench.transform.lowering import lower
from tileworkbench.transform.weigh_launches import WORTH_NS, weigh_launches


def lowered(program: Any) -> Kernel:
    return lower(tileworkbench.compile(program, target="interpret").ir)


def grid_of(program: Any) -> Grid:
    (grid,) = (n for n in walk(lowered(program)) if isinstance(n, Grid))
    return grid


def blocks(count: Any) -> Any:
    """`count` blocks of 64 elements each."""

    @T.prim_func
    def fill(A: T.Tensor((count * 64,), "float32")):
        with T.Kernel(count) as bx:
            for i in T.Parallel(64):
                A[bx * 64 + i] = 1.0

    return fill


def walks(count: int) -> Any:
    """Blocks whose loop ends where the data says."""

    @T.prim_func
    def until(N: T.Tensor((count,), "int32"), A: T.Tensor((count,), "int32")):
        with T.Kernel(count) as bx:
            for i in T.serial(N[bx]):
                A[bx] = A[bx] + i

    return until


@pytest.mark.parametrize(
    ("program", "enough"),
    [
        (gemm.program(1024, 1024, 1024, 256, 256, 256, 2, "float32", "float32", False), 0),
        (gemm.program(64, 64, 64, 32, 32, 32, 2, "float32", "float32", False), None),
        (softmax.program(4096, 1024, 8, "float32"), 0),
        (softmax.program(16, 64, 1, "float32"), None),
        (elementwise.add_program(1 << 22, 1 << 16, "float32"), 0),
        (elementwise.add_program(1 << 12, 1 << 10, "float32"), None),
        (attention.program(1, 8, 512, 64, True, 64, 64, "float32"), 0),
        (walks(4), 0),
    ],
    ids=("gemm", "small gemm", "softmax", "small softmax", "add", "small add", "causal", "unknown"),
)
def test_small_launches_stay_on_one_thread(program: Any, enough: int | None) -> None:
    assert grid_of(program).enough_blocks == enough


def test_the_pass_is_done_after_one_run() -> None:
    for program in (blocks(4), blocks(1 << 20), blocks(T.dynamic("n"))):
        kernel = lowered(program)
        assert weigh_launches(kernel) is kernel


def test_the_text_has_a_region_where_it_pays() -> None:
    small, large, either = (emit(lowered(blocks(n))).text for n in (4, 1 << 20, T.dynamic("n")))
    assert "omp parallel" not in small and "twb_pin" not in small
    assert re.search(r"#pragma omp parallel num_threads\(threads\) if \(threads > 1\)\n *\{\n *twb_pin\(\);\n *#pragma omp for schedule", large)
    found = re.search(r"if \(threads > 1 && n >= (\d+)\)", either)
    assert found is not None
    each = work_ns(grid_of(blocks(4)).body)
    assert each is not None and (int(found[1]) - 1) * each < WORTH_NS <= int(found[1]) * each


@pytest.mark.parametrize("count", [0, 1, 7, 20000])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_block_runs_once_whatever_the_number(count: int, threads: int) -> None:
    """On both sides of the comparison, and for no block at all."""
    source = emit(lowered(blocks(T.dynamic("n"))))
    function = build(source.text, source.entry, source.flags)
    out = np.zeros(count * 64 + 64, np.float32)
    slots = np.array([out.ctypes.data, count], np.int64)
    assert function(ctypes.c_void_p(slots.ctypes.data), threads) == 0
    assert (out[: count * 64] == 1).all() and (out[count * 64 :] == 0).all()


def test_work_grows_with_the_loops_and_with_the_functions() -> None:
    def work(program: Any) -> float:
        found = work_ns(grid_of(program).body)
        assert found is not None
        return found

    add, gelu = (work(make(1 << 14, 1 << 10, "float32")) for make in (elementwise.add_program, elementwise.gelu_program))
    assert 50 < add < gelu < 20_000
    assert work(elementwise.add_program(1 << 14, 1 << 11, "float32")) == pytest.approx(2 * add)
    assert work_ns(grid_of(walks(4)).body) is None

"""Arrays whose rows begin anywhere go to memory where they do not, if blocks read them often: the same numbers, and only then."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.lowered import AllocateGlobal
from tileworkbench.ir.stmt import Kernel
from tileworkbench.runtime import toolchain
from tileworkbench.transform import pad_rows as padding
from tileworkbench.transform.cuda_lowering import cuda_steps


def product(
    m: Any, n: int, k: int, block: tuple[int, int, int] = (64, 64, 64), is_nt: bool = False, in_place: bool = False, below: int = 1
) -> PrimFunc:  # fmt: skip
    block_m, block_n, block_k = block

    @T.prim_func
    def mm(A: T.Tensor((m, k), "float16"), B: T.Tensor((n, k) if is_nt else (k, n), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=128, cluster_dims=(1, below, 1) if below > 1 else None) as (bx, by):
            a = T.alloc_shared((block_m, block_k), "float16")
            b = T.alloc_shared((block_n, block_k) if is_nt else (block_k, block_n), "float16")
            acc = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(acc)
            for step in T.Pipelined(T.ceildiv(k, block_k), num_stages=2):
                T.copy(A[by * block_m, step * block_k], a)
                if is_nt:
                    T.copy(B[bx * block_n, step * block_k], b)
                else:
                    T.copy(B[step * block_k, bx * block_n], b)
                T.gemm(a, b, acc, transpose_B=is_nt)
            if in_place:
                A[by * block_m, 0] = T.float16(0)
            T.copy(acc, C[by * block_m, bx * block_n])

    result: PrimFunc = mm
    return result


def step(program: PrimFunc, arch: int = 90) -> tuple[Kernel, Kernel]:
    """The kernel before and after the pass."""
    kernel = program.kernel
    for each in cuda_steps(arch):
        before, kernel = kernel, each.run(kernel)
        if each.name == "pad_rows":
            return before, kernel
    raise AssertionError("there is no such pass")


def copied(program: PrimFunc, arch: int = 90) -> list[str]:
    before, after = step(program, arch)
    if before is after:
        return []
    return [launch.body[0].body[0].buffer.name for launch in after.launches[:-1]]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("program", "want"),
    [(product(2049, 2049, 2049), ["A_rows", "B_rows"]), (product(2049, 2052, 2048), ["B_rows"]),
     (product(2049, 2049, 2049, is_nt=True), ["A_rows", "B_rows"]), (product(2048, 2048, 2048), []),
     (product(2049, 192, 2049), []), (product(2049, 129, 129), []), (product(64, 65537, 2049), []),
     (product(65, 65, 65), []),
     (product(T.dynamic("m"), 2049, 2049), []), (product(2049, 2048, 2049, in_place=True), []), (product(2049, 2048, 2049, block=(64, 64, 40)), [])],
)  # fmt: skip
def test_which_arrays_are_copied_first(program: PrimFunc, want: list[str]) -> None:
    assert copied(program) == want


@pytest.mark.parametrize(
    ("program", "want"),
    [(product(1000, 3000, 5000, block=(128, 192, 64)), ["A_rows"]), (product(1000, 3008, 5000, block=(128, 192, 64)), []),
     (product(1000, 3072, 5120, block=(128, 192, 64)), []), (product(1000, 3000, 5000, block=(128, 192, 64), below=2), ["A_rows"]),
     (product(3000, 1000, 5000), ["A_rows", "B_rows"]), (product(4096, 4096, 4104, block=(128, 256, 64)), []),
     (product(128, 3000, 5000, block=(128, 192, 64)), [])],
)  # fmt: skip
def test_rows_that_straddle_lines(program: PrimFunc, want: list[str]) -> None:
    """They are copied where blocks wait for the lines, not where the matrix units are busy anyway; what a cluster shares it asks for once."""
    assert copied(program) == want


def test_copies_have_rows_of_whole_lines() -> None:
    _, after = step(product(2049, 2049, 2049))
    assert [str(n.buffer.shape[1].value) for n in after.body if isinstance(n, AllocateGlobal)] == ["2112", "2112"]  # type: ignore[attr-defined]


def test_only_where_there_is_an_engine() -> None:
    assert copied(product(2049, 2049, 2049), arch=80) == []


@pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")
@pytest.mark.parametrize(("m", "n", "k", "is_nt"), [(131, 107, 203, False), (70, 139, 67, True)])
def test_the_same_numbers(m: int, n: int, k: int, is_nt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that no other test compiles: what is compiled is kept."""
    monkeypatch.setattr(padding, "LEAST_READS", 0)
    monkeypatch.setattr(padding, "LEAST_BYTES", 0)
    kernel = tileworkbench.compile(product(m, n, k, is_nt=is_nt), target="emulate:sm_90a")
    assert (
        kernel.source.count("__global__") == 3 and "twb_tma_load_2d" in kernel.source and sum("is copied first" in x for x in kernel.facts.notes) == 2
    )
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((n, k) if is_nt else (k, n)).astype(np.float16)
    c = np.full((m, n), np.nan, np.float32)
    kernel(a, b, c)
    left, right = a.astype(np.float64), (b.T if is_nt else b).astype(np.float64)
    assert np.all(np.abs(c - left @ right) <= k * 2.0**-23 * (np.abs(left) @ np.abs(right)))
    found = kernel.sanitize(a, b, c, arch="sm_90a")
    assert found.is_clean, str(found)

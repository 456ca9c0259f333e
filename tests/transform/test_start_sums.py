"""Products that begin their sums themselves: no fill is left where nothing sees it, and every fill where something does."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Fill, Gemm, Kernel
from tileworkbench.runtime import toolchain
from tileworkbench.transform.cuda_lowering import cuda_steps

M, N, DEPTH = 128, 64, 64


def product(turns: Any = 3, how: str = "", start: float = 0.0, dtype: str = "float16", threads: int = 256) -> PrimFunc:
    """How: what else touches the sums, or how they are made."""

    @T.prim_func
    def mm(A: T.Tensor((M, 4 * DEPTH), dtype), B: T.Tensor((N, 4 * DEPTH), dtype), C: T.Tensor((2 * M, N), "float32"), t: T.int32):
        with T.Kernel(2, threads=threads) as bx:
            a, b = T.alloc_shared((M, DEPTH), dtype), T.alloc_shared((N, DEPTH), dtype)
            acc = T.alloc_fragment((M, N), "float32")
            T.fill(acc, start)
            if how == "before":
                for i, j in T.Parallel(M, N):
                    acc[i, j] = acc[i, j] + 1.0
            if how == "once":
                T.copy(A[0, 0], a)
                T.copy(B[0, 0], b)
                T.gemm(a, b, acc, transpose_B=True)
            else:
                for step in T.Pipelined(t if turns is None else turns, num_stages=2):
                    T.copy(A[0, step * DEPTH], a)
                    T.copy(B[0, step * DEPTH], b)
                    if how == "scaled":
                        for i, j in T.Parallel(M, N):
                            acc[i, j] = acc[i, j] * 0.5
                    T.gemm(a, b, acc, transpose_B=True)
                    if how == "after":
                        for i, j in T.Parallel(M, N):
                            acc[i, j] = acc[i, j] * 0.5
            T.copy(acc, C[bx * M, 0])

    result: PrimFunc = mm
    return result


def made(program: PrimFunc, arch: int = 90) -> Kernel:
    kernel = program.kernel
    for step in cuda_steps(arch):
        kernel = step.run(kernel)
        if step.name == "start_sums":
            return kernel
    raise AssertionError("there is no such pass")


def fills(kernel: Kernel) -> int:
    return sum(isinstance(n, Fill) for n in walk(kernel))


@pytest.mark.parametrize(
    ("program", "want"),
    [(product(), 0), (product(threads=128), 0),
     (product(how="after"), 0), (product(how="once"), 0), (product(0), 1), (product(None), 1), (product(how="before"), 1),
     (product(how="scaled"), 1), (product(start=1.0), 1), (product(4, dtype="float8_e4m3fn"), 1), (product(2, dtype="float8_e4m3fn"), 0)],
)  # fmt: skip
def test_which_fills_are_left(program: PrimFunc, want: int) -> None:
    assert fills(made(program)) == want
    assert fills(made(program, 80)) == 1


@pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")
@pytest.mark.parametrize(("turns", "how"), [(3, ""), (3, "after"), (1, "once")])
def test_numbers(turns: int, how: str) -> None:
    """Two blocks by threads that stay: the second begins anew."""
    program = product(turns, how)
    kernel = tileworkbench.compile(program, target="emulate:sm_90a")
    rng = np.random.default_rng(turns)
    a, b = rng.standard_normal((M, 4 * DEPTH)).astype(np.float16), rng.standard_normal((N, 4 * DEPTH)).astype(np.float16)
    c = np.full((2 * M, N), np.nan, np.float32)
    kernel(a, b, c, 0)
    want = np.zeros((M, N))
    for k in range(0, turns * DEPTH, DEPTH):
        want = (want + a[:, k : k + DEPTH].astype(np.float64) @ b[:, k : k + DEPTH].astype(np.float64).T) * (0.5 if how == "after" else 1.0)
    np.testing.assert_allclose(c, np.concatenate([want, want]), atol=1e-3)
    assert [n.clear for n in walk(made(program)) if isinstance(n, Gemm)][0].dtype.is_bool
    found = kernel.sanitize(a, b, c, 0, arch="sm_90a")
    assert found.is_clean, str(found)

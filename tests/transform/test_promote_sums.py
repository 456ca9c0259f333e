"""Long sums of float8 leave the matrix unit in pieces: what the emulated unit loses is kept, and only where there is something to lose."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Gemm
from tileworkbench.runtime import toolchain
from tileworkbench.transform.cuda_lowering import cuda_steps

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
FAST = "tl.fast_accumulate"


def product(
    k: int, block: tuple[int, int, int] = (64, 32, 128), threads: int = 128, dtype: str = "float8_e4m3fn", annotated: bool = False,
    anew: bool = False, when: bool = False,
) -> PrimFunc:  # fmt: skip
    """One block. `anew`: the sums begin anew in each turn; `when`: the first product clears them instead of a fill."""
    m, n, depth = block
    sums = "float32" if dtype != "int8" else "int32"

    @T.prim_func
    def mm(A: T.Tensor((m, k), dtype), B: T.Tensor((n, k), dtype), C: T.Tensor((m, n), sums)):
        with T.Kernel(1, threads=threads) as _:
            if annotated:
                T.annotate_pass_configs({FAST: True})
            a, b, acc = T.alloc_shared((m, depth), dtype), T.alloc_shared((n, depth), dtype), T.alloc_fragment((m, n), sums)
            if not when:
                T.clear(acc)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=2):
                T.copy(A[0, step * depth], a)
                T.copy(B[0, step * depth], b)
                if anew:
                    T.clear(acc)
                T.gemm(a, b, acc, transpose_B=True, clear_accum=step == 0 if when else False)
            T.copy(acc, C)

    result: PrimFunc = mm
    return result


def apart(program: PrimFunc) -> list[tuple[int, int]]:
    kernel = program.kernel
    for step in cuda_steps(90):
        kernel = step.run(kernel)
        if step.name == "promote_sums":
            return [n.apart for n in walk(kernel) if isinstance(n, Gemm)]
    raise AssertionError("there is no such pass")


@pytest.mark.parametrize(
    ("program", "want"),
    [(product(256), (128, 32)), (product(128), (0, 0)), (product(256, (64, 32, 32)), (128, 32)), (product(512, anew=True), (0, 0)),
     (product(512, (64, 32, 256), anew=True), (128, 32)), (product(512, dtype="int8"), (0, 0)), (product(512, dtype="float16"), (0, 0)),
     (product(512, annotated=True), (0, 0)), (product(512, (128, 256, 128), 256), (128, 128)), (product(512, (256, 128, 128), 256), (128, 128)),
     (product(512, (128, 192, 128), 256), (128, 192))],
)  # fmt: skip
def test_which_sums_are_made_of_pieces(program: PrimFunc, want: tuple[int, int]) -> None:
    assert apart(program) == [want]


def error(program: PrimFunc, m: int, n: int, k: int, dtype: type = E4M3, configs: dict[str, bool] | None = None) -> float:
    """How far the result is from the right one, in sizes of it."""
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((n, k)).astype(dtype)
    c = np.full((m, n), np.nan, np.float32)
    kernel = tileworkbench.compile(program, target="emulate:sm_90a", pass_configs=configs or {})
    assert not kernel.ignored_configs
    kernel(a, b, c)
    want = a.astype(np.float64) @ b.astype(np.float64).T
    return float(np.linalg.norm(c - want) / np.linalg.norm(want))


@pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")
def test_pieces_keep_what_the_unit_loses() -> None:
    """A float32 sum is off by 1e-7 of its size; one of 4096 products in 14 bits by 1.4e-3, as on an H200; one in pieces of 128 by 1.3e-4."""
    k, block = 4096, (64, 32, 128)
    whole, pieces = error(product(k, block), 64, 32, k, configs={FAST: True}), error(product(k, block), 64, 32, k)
    assert 8e-4 < whole < 4e-3 and pieces < 2e-4


@pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")
@pytest.mark.parametrize(
    ("k", "block", "threads", "dtype", "when"),
    [(1024, (128, 256, 128), 256, E4M3, False), (512, (128, 32, 256), 128, E5M2, True), (200, (64, 24, 64), 128, E4M3, True)], ids=str,
)  # fmt: skip
def test_numbers_in_pieces(k: int, block: tuple[int, int, int], threads: int, dtype: type, when: bool) -> None:
    program = product(k, block, threads, "float8_e4m3fn" if dtype is E4M3 else "float8_e5m2", when=when)
    assert apart(program)[0][0] == 128
    assert error(program, block[0], block[1], k, dtype) < 2e-4

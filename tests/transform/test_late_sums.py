"""Sums of rows that threads join behind a loop, and multiplications by 1 that a warp skips: the same numbers, and only where nobody sees a part."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
from __future__ import annotations

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Reduce
from tileworkbench.runtime import toolchain
from tileworkbench.transform.cuda_lowering import cuda_steps

pytestmark = pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")
ROWS, COLUMNS, DEPTH, TURNS = 64, 32, 32, 3


def sums(start: float = 0.0, seen: bool = False, power: bool = True) -> PrimFunc:
    """S: rows of X Y^T, added up tile by tile; what there is from `start` on is multiplied by 2^F (by F, without `power`) before. O: by F, from 1 on.

    `seen`: the total so far is stored at each turn.
    """

    @T.prim_func
    def total_of(
        X: T.Tensor((ROWS, DEPTH), "float16"), Y: T.Tensor((TURNS * COLUMNS, DEPTH), "float16"), F: T.Tensor((TURNS, ROWS), "float32"),
        S: T.Tensor((ROWS,), "float32"), O: T.Tensor((ROWS, COLUMNS), "float32"), L: T.Tensor((TURNS, ROWS), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((ROWS, DEPTH), "float16")
            y = T.alloc_shared((COLUMNS, DEPTH), "float16")
            s = T.alloc_fragment((ROWS, COLUMNS), "float32")
            o = T.alloc_fragment((ROWS, COLUMNS), "float32")
            here = T.alloc_fragment((ROWS,), "float32")
            f = T.alloc_fragment((ROWS,), "float32")
            fade = T.alloc_fragment((ROWS,), "float32")
            total = T.alloc_fragment((ROWS,), "float32")
            T.copy(X, x)
            T.fill(total, start)
            T.clear(s)
            for i, j in T.Parallel(ROWS, COLUMNS):
                o[i, j] = s[i, j] + 1.0  # lies as the product does
            for k in T.serial(TURNS):
                T.copy(Y[k * COLUMNS, 0], y)
                T.gemm(x, y, s, transpose_B=True, clear_accum=True)
                T.reduce_sum(s, here, dim=1)
                for i in T.Parallel(ROWS):
                    f[i] = F[k, i]
                for i in T.Parallel(ROWS):
                    fade[i] = T.exp2(f[i]) if power else f[i]
                for i in T.Parallel(ROWS):
                    total[i] = total[i] * fade[i] + here[i]
                if seen:
                    T.copy(total, L[k, :])
                for i, j in T.Parallel(ROWS, COLUMNS):
                    o[i, j] = o[i, j] * f[i]
            T.copy(total, S)
            T.copy(o, O)

    result: PrimFunc = total_of
    return result


def shares(program: PrimFunc, arch: int) -> list[str]:
    kernel = program.kernel
    for step in cuda_steps(arch):
        kernel = step.run(kernel)
        if step.name == "late_sums":
            break
    return [n.share for n in walk(kernel) if isinstance(n, Reduce)]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("start", "seen", "power", "late"),
    [(0.0, False, True, ["own", "join"]), (1.0, False, True, [""]), (0.0, True, True, [""]), (0.0, False, False, [""])],
)
def test_sums_of_rows(start: float, seen: bool, power: bool, late: list[str], arch: str) -> None:
    """Some warps have factors of 1 only, some have one other, infinite ones and NaN among them."""
    program = sums(start, seen, power)
    assert shares(program, 80 if arch == "sm_80" else 90) == late
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((ROWS, DEPTH)).astype(np.float16), rng.standard_normal((TURNS * COLUMNS, DEPTH)).astype(np.float16)
    f = np.ones((TURNS, ROWS), np.float32)
    f[1, 5], f[2, 20], f[1, 40], f[0, 63] = 0.5, -0.25, -np.inf, np.nan
    out, rest, log = np.full(ROWS, -7, np.float32), np.zeros((ROWS, COLUMNS), np.float32), np.zeros((TURNS, ROWS), np.float32)
    kernel = tileworkbench.compile(program, target=f"emulate:{arch}")
    kernel(x, y, f, out, rest, log)
    parts = (x.astype(np.float64) @ y.astype(np.float64).T).reshape(ROWS, TURNS, COLUMNS)
    want = np.full(ROWS, start)
    for k in range(TURNS):
        want = want * (np.exp2(f[k]) if power else f[k]) + parts[:, k].sum(axis=1)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(rest, np.repeat(f.prod(axis=0)[:, None], COLUMNS, 1))
    assert kernel.source.count("twb_any(") == 1
    found = kernel.sanitize(x, y, f, out, rest, log, arch=arch)
    assert found.is_clean, str(found)

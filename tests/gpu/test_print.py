"""`T.print`: once per block, or per thread where threads are used; the same text as the interpreter's."""

from __future__ import annotations

import numpy as np
import pytest
from gpu.programs import made

import tileworkbench
import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.interpret import run as interpret


def printed(program: PrimFunc, capsys: pytest.CaptureFixture[str], *arrays: np.ndarray) -> str:
    """What the user sees, which is what the interpreter prints."""
    tileworkbench.compile(program, target="emulate:sm_80")(*[a.copy() for a in arrays])
    out = capsys.readouterr().out
    interpret(program.kernel, [a.copy() for a in arrays], {}, {})
    assert out == capsys.readouterr().out
    return out


def test_values_and_tiles_once_per_block(capsys: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def shows(X: T.Tensor((2, 2), "float16")):  # type: ignore[valid-type]
        with T.Kernel(2, threads=64) as bx:
            s, f = T.alloc_shared((2, 2), "int4"), T.alloc_fragment((2,), "float16")
            for i in T.Parallel(2):
                f[i] = X[bx, i] * 2.0
            for i, j in T.Parallel(2, 2):
                s[i, j] = T.cast(i * 2 - j, "int4")
            T.print(f, msg="100%")
            T.print(s)
            T.print(bx, msg="block")

    out = printed(shows, capsys, np.array([[1, 2.25], [3, 4]], np.float16))
    ones = "s [0, 0] = 0\ns [0, 1] = -1\ns [1, 0] = 2\ns [1, 1] = 1\n"
    assert out == f"100% [0] = 2.000000\n100% [1] = 4.500000\n{ones}block 0\n100% [0] = 6.000000\n100% [1] = 8.000000\n{ones}block 1\n"


def test_values_of_every_thread(capsys: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def counts(X: T.Tensor((4,), "bfloat16")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=4):
            tx = T.get_thread_binding()
            if tx != 2:
                T.print(X[tx], msg="x" * 1200)

    out = printed(counts, capsys, np.array([1, 2, 3, -0.5]).astype(tileworkbench.language.dtype("bfloat16").to_numpy()))
    assert out == "".join(f"{'x' * 1200} {v:f}\n" for v in (1, 2, -0.5))


def test_iterations_print_once_where_threads_hold_copies(capsys: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def row(X: T.Tensor((4,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            for i in T.Parallel(4):
                T.print(X[i], msg="x")

    assert printed(row, capsys, np.arange(4, dtype=np.int32)) == "x 0\nx 1\nx 2\nx 3\n"
    assert 'twb_print("x %lld\\n", (long long)' in made(row).source

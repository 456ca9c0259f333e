"""Sums of squares by a call, rows asked for ahead, long rows in pieces past the caches: which loops, and the numbers."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from codegen.c_harness import MARCHES, build
from codegen.c_runner import Compiled, source_of
from codegen.differ import agree, random_array
from codegen.ir_kit import Var, add, at, block, ix, kernel, mul, op, put, tensor, tile, whole

from tileworkbench.base.cpu import Isa
from tileworkbench.codegen import clib
from tileworkbench.ir.stmt import Copy, Kernel, ParallelFor, Reduce
from tileworkbench.kernels import norms, softmax
from tileworkbench.transform import stream_stores
from tileworkbench.transform.fetch_rows import fetch_rows
from tileworkbench.transform.lowering import C_STEPS, run_steps
from tileworkbench.transform.sum_squares import sum_squares

_P, _L = ctypes.c_void_p, ctypes.c_int64
BX, I, J = Var("bx"), Var("i"), Var("j")


@pytest.mark.parametrize("isa", MARCHES, ids=lambda i: i.name)
@pytest.mark.parametrize("count", [0, 1, 15, 16, 63, 64, 100, 200])
def test_squares_on_every_instruction_set(count: int, isa: Isa) -> None:
    """Both functions, from rows that begin anywhere; numbers that float32 adds exactly."""
    text = clib.library(["twb_row_squares_f32", "twb_row_squares_fetch_f32"]) + (
        "float go(const float *x, int64_t n, float *y) { *y = twb_row_squares_f32(x, n, 3); return twb_row_squares_fetch_f32(x, n, 3, y); }"
    )
    go, other, x = build(text, isa).go, np.zeros(300, np.float32), random_array((201,), "float32")[1:]
    go.restype = ctypes.c_float
    found = go(x.ctypes.data_as(_P), _L(count), other.ctypes.data_as(_P))
    assert found == other[0] == ((x[:count] - 3) ** 2).sum()


def squared(cols: int, value) -> Kernel:
    """Z[i] = the sum over j of value(x[i, j], m[i], x[i, cols - 1 - j])."""
    a, z, m, x, q = tensor("A", (4, cols)), tensor("Z", (4,)), tile("m", (4,)), tile("x", (4, cols)), tile("q", (4, cols))
    body = [
        Copy(whole(a), whole(x)),
        Reduce("max", whole(x), whole(m), 1),
        ParallelFor((I, J), (ix(4), ix(cols)), (put(q, I, J, value(at(x, I, J), at(m, I), at(x, I, op("sub", cols - 1, J)))),)),
        Reduce("sum", whole(q), whole(m), 1),
        Copy(whole(m), whole(z)),
    ]
    return kernel("squared", (a, z), [block((1,), (BX,), body, (m, x, q))])


VALUES = {
    "x * x": (lambda x, m, r: mul(x, x), True),
    "(x - m) * (x - m)": (lambda x, m, r: mul(op("sub", x, m), op("sub", x, m)), True),
    "(m - x) * (m - x)": (lambda x, m, r: mul(op("sub", m, x), op("sub", m, x)), False),
    "(x - m) * x": (lambda x, m, r: mul(op("sub", x, m), x), False),
    "(x - r) * (x - r)": (lambda x, m, r: mul(op("sub", x, r), op("sub", x, r)), False),
    "r * r": (lambda x, m, r: mul(r, r), False),
    "x * x + x": (lambda x, m, r: add(mul(x, x), x), False),
}


@pytest.mark.parametrize("cols", [1, 63, 64, 100, 256])
@pytest.mark.parametrize("what", VALUES)
def test_a_sum_of_squares_is_a_call(what: str, cols: int) -> None:
    value, is_call = VALUES[what]
    kern = squared(cols, value)
    assert ("twb_row_squares_f32(" in source_of(kern).text) == (is_call and cols >= 64)
    lowered = run_steps(kern, C_STEPS[: [s.name for s in C_STEPS].index("sum_squares") + 1])
    assert sum_squares(lowered) is lowered
    agree(kern, [random_array((4, cols), "float32"), np.zeros(4, np.float32)], rtol=1e-5)


def normed(rows: int, cols: int, dtype: str = "float32") -> Kernel:
    return norms.layernorm_program(rows, cols, 4, dtype, 1e-5).kernel


def given(rows: int, cols: int, dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.standard_normal(shape).astype(random_array((1,), dtype).dtype) for shape in ((rows, cols), (cols,), (cols,), (rows, cols))]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", [(8, 1024), (8, 512), (10, 1024), (3, 640), (8, 500), (8, 256), (1, 1024)])
@pytest.mark.parametrize("large", [1, 1 << 40], ids=["past the caches", "through them"])
def test_long_rows(size: tuple[int, int], dtype: str, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even and ragged numbers of rows and columns."""
    monkeypatch.setattr(stream_stores, "_LARGE", large)
    kern = normed(*size, dtype)
    text = source_of(kern).text
    assert ("twb_stream_end();" in text) == (large == 1 and size[1] % 128 == 0)
    if size[0] % 4 == 0 and dtype == "float32":  # of the others, no row is done at once
        is_asked = size[1] == 1024
        assert ("twb_fetch_f32(&X" in text) == is_asked
        assert ("twb_row_squares_fetch_f32(&X" in text) == (is_asked and large > 1)
    lowered = run_steps(kern, C_STEPS[: [s.name for s in C_STEPS].index("fetch_rows") + 1])
    assert fetch_rows(lowered) is lowered
    arrays = given(*size, dtype)
    agree(kern, arrays, rtol=2e-5 if dtype == "float32" else 0.02, atol=1e-5 if dtype == "float32" else 0.02, threads=2)


@pytest.mark.parametrize("large", [1, 1 << 40], ids=["past the caches", "through them"])
def test_in_place(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result in the place of what it is made of, at every place in a line."""
    monkeypatch.setattr(stream_stores, "_LARGE", large)
    soft = softmax.program(8, 1024, 4, "float32").kernel
    x, w, b, y = given(8, 1024)
    for kern, more in ((normed(8, 1024), (w, b)), (soft, ())):
        run = Compiled(kern)
        assert ("twb_stream_32(&Y" in run.source.text) == (large == 1) and ("float *const x = " in run.source.text) == (large == 1 and not more)
        assert run(x, *more, y) == 0
        for start in range(0, 17, 3):
            room = np.zeros(8 * 1024 + 40, np.float32)
            mine = room[start : start + 8 * 1024].reshape(8, 1024)
            mine[:] = x
            assert run(mine, *more, mine) == 0
            np.testing.assert_array_equal(mine, y)
            assert not room[:start].any() and not room[start + 8 * 1024 :].any()

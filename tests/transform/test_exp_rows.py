"""Rows of powers of two become calls, whose results are those of the loop bit by bit."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from codegen.c_harness import MARCHES, build
from codegen.c_runner import source_of
from codegen.differ import agree, random_array
from codegen.ir_kit import F32, Unary, Var, add, at, block, const, ix, kernel, mul, op, put, tensor, tile, whole

from tileworkbench.base.cpu import Isa
from tileworkbench.codegen import clib
from tileworkbench.ir.expr import Expr
from tileworkbench.ir.stmt import Copy, Kernel, ParallelFor
from tileworkbench.kernels import attention
from tileworkbench.transform.exp_rows import EXP2_ROW

_P, _L, _F = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
BX, I, J = Var("bx"), Var("i"), Var("j")


def powers(scaled: str, cols: int = 48, shift: int = 0) -> Kernel:
    """Y[i, j] = exp2 of what `scaled` says of X[i, j + shift], in a tile, in place."""
    x, y, m = tensor("X", (5, cols)), tensor("Y", (5, cols)), tensor("M", (5,))
    t, top = tile("t", (5, cols + shift)), tile("top", (5,))
    element, row, c = at(t, I, add(J, shift)), at(top, I), const(0.75, F32)
    forms: dict[str, Expr] = {
        "plain": element,
        "scaled": mul(element, c),
        "then less": op("sub", mul(element, c), row),
        "less before": mul(op("sub", element, row), c),
        "by column": mul(element, op("add", element, c)),
    }
    body = [
        Copy(whole(m), whole(top)),
        ParallelFor((I, J), (ix(5), ix(cols)), (put(t, I, add(J, shift), at(x, I, J)),)),
        ParallelFor((I, J), (ix(5), ix(cols)), (put(t, I, J, Unary("exp2", forms[scaled])),)),
        ParallelFor((I, J), (ix(5), ix(cols)), (put(y, I, J, at(t, I, J)),)),
    ]
    return kernel("powers", (x, m, y), [block((1,), (BX,), body, (t, top))])


@pytest.mark.parametrize(
    ("kern", "is_called"),
    [
        (powers("plain"), True), (powers("scaled"), True), (powers("then less"), True), (powers("less before", 37), True),
        (powers("by column"), False), (powers("scaled", 16), False),
    ],
    ids=["plain", "scaled", "then less", "less before", "by column", "short"],
)  # fmt: skip
def test_a_row_of_powers_is_a_call(kern: Kernel, is_called: bool) -> None:
    assert (f"{EXP2_ROW}(&" in source_of(kern).text) == is_called
    agree(kern, [random_array([int(d.value) for d in p.buffer.shape], "float32", n) for n, p in enumerate(kern.params)], rtol=1e-5, atol=1e-30)


def test_attention_calls_it() -> None:
    assert f"{EXP2_ROW}(&s[" in source_of(attention.program(1, 1, 256, 64, False, 64, 64, "float32").kernel).text


@pytest.mark.parametrize("isa", MARCHES, ids=lambda i: i.name)
def test_the_call_is_the_loop(isa: Isa) -> None:
    """Bit by bit, in place and not, at the ends of the range, for every length of a tail; nothing else is written."""
    loop = '_Pragma("omp simd") for (int64_t i = 0; i < n; i++) d[i] = twb_exp2_f32((s[i] - b) * c - a);'
    arguments = "float *d, const float *s, int64_t n, float b, float c, float a"
    text = clib.library([EXP2_ROW, "twb_exp2_f32"]) + (
        f"void loop({arguments}) {{ {loop} }}\nvoid go({arguments}) {{ {EXP2_ROW}(d, s, n, b, c, a); }}\n"
        f"void plain(float *d, const float *s, int64_t n) {{ {EXP2_ROW}(d, s, n, 0.0f, 1.0f, 0.0f); }}"
    )
    made = build(text, isa)
    edges = [0.0, -0.0, 1.0, -126.0, -125.99999, -126.00001, -126.5, -150.0, 127.99999, 128.0, 129.0, 1e30, -1e30, np.inf, -np.inf, np.nan]
    values = np.array(edges + list(np.linspace(-130, 130, 1000)), np.float32)
    assert len(values) % 16
    for low, factor, high in ((0.0, 1.0, 0.0), (0.25, 1.5, 3.0)):
        out, want = np.full(len(values) + 1, 7, np.float32), np.full(len(values) + 1, 7, np.float32)
        for name, d in (("go", out), ("loop", want)):
            getattr(made, name)(d.ctypes.data_as(_P), values.ctypes.data_as(_P), _L(len(values)), _F(low), _F(factor), _F(high))
        np.testing.assert_array_equal(out, want)
        assert out[-1] == 7
    for count in range(40):
        place = values[:count].copy()
        made.plain(place.ctypes.data_as(_P), place.ctypes.data_as(_P), _L(count))
        out = np.zeros(count, np.float32)
        made.loop(out.ctypes.data_as(_P), values.ctypes.data_as(_P), _L(count), _F(0), _F(1), _F(0))
        np.testing.assert_array_equal(place, out)

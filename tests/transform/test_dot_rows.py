"""Sums of bfloat16 rows times a float32 row: the library's function for four and eight rows, and which loops become a call of it."""

from __future__ import annotations

import ctypes
import re

import ml_dtypes
import numpy as np
import pytest
from codegen.c_harness import COMPILERS, MARCHES, build
from codegen.c_runner import source_of
from codegen.differ import agree, random_array
from codegen.ir_kit import Var, add, at, block, ix, kernel, mul, op, put, tensor, tile, whole

from tileworkbench.analysis.work import work_ns
from tileworkbench.base.dtypes import FLOAT32, INT32, DType
from tileworkbench.codegen import clib
from tileworkbench.ir.build import ZERO, cast, index
from tileworkbench.ir.expr import Buffer
from tileworkbench.ir.lowered import Address, LibraryCall
from tileworkbench.ir.stmt import Copy, Evaluate, Kernel, ParallelFor, Reduce
from tileworkbench.kernels import linear
from tileworkbench.transform.dot_rows import dot_rows
from tileworkbench.transform.jam_rows import jam_rows
from tileworkbench.transform.lowering import C_STEPS, run_steps

BF16 = np.dtype(ml_dtypes.bfloat16)
BX, I, J = Var("bx"), Var("i"), Var("j")


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("isa", MARCHES, ids=lambda isa: isa.name)
def test_rows_of_every_length(compiler: str, isa) -> None:
    """Numbers that float32 adds exactly, rows that begin anywhere, and NaN wherever no row is."""
    calls = [f"twb_dots_bf16_{rows}" for rows in (4, 8)]
    text = clib.library(calls) + "".join(
        f"void go_{name[-1]}(const uint16_t *w, int64_t ld, const float *x, int64_t n, float *out) {{ {name}(w, ld, x, n, out); }}\n"
        for name in calls
    )
    lib = build(text, isa, compiler)
    for length in [*range(70), 127, 128, 300]:
        for rows in (4, 8):
            w = np.full((rows, length + 3), np.nan, BF16)
            w[:, 1 : length + 1] = random_array((rows, length), "bfloat16", length)
            x, out = np.full(length + 2, np.nan, np.float32), np.full(rows + 1, 7, np.float32)
            x[1 : length + 1] = random_array((length,), "float32", 1)
            place = [ctypes.c_void_p(a.ctypes.data + start) for a, start in ((w, 2), (x, 4), (out, 0))]
            getattr(lib, f"go_{rows}")(place[0], ctypes.c_int64(length + 3), place[1], ctypes.c_int64(length), place[2])
            want = w[:, 1 : length + 1].astype(np.float64) @ x[1 : length + 1].astype(np.float64)
            np.testing.assert_array_equal(out, [*want, 7], err_msg=f"{rows} rows of {length}")


def test_special_values_go_their_way() -> None:
    """Infinities, NaN and denormal numbers at both halves of a word."""
    lib = build(clib.library(["twb_dots_bf16_4"]) + "void go(const uint16_t *w, const float *x, float *out) { twb_dots_bf16_4(w, 32, x, 32, out); }")
    w, x, out = np.zeros((4, 32), BF16), np.ones(32, np.float32), np.zeros(4, np.float32)
    w[0, 3], w[1, 4], w[2, 5:7], w[3, 6:8] = np.inf, -np.inf, (np.inf, -np.inf), 2.0**-130
    lib.go(*(ctypes.c_void_p(a.ctypes.data) for a in (w, x, out)))
    np.testing.assert_array_equal(out, [np.inf, -np.inf, np.nan, 2.0**-129])


def called(kern: Kernel) -> list[str]:
    """The rows of each call in the text; the pass finds nothing more in what it leaves."""
    first = run_steps(kern, C_STEPS[: [s.name for s in C_STEPS].index("jam_rows") + 1])
    assert jam_rows(first) is first
    lowered = dot_rows(first)
    assert dot_rows(lowered) is lowered
    return re.findall(r"(?<!void )twb_dots_bf16_(\d)\(", source_of(kern).text)


@pytest.mark.parametrize(
    ("n", "k", "block_n", "block_k", "rows"),
    [(64, 256, 16, 256, ["8"]), (12, 128, 4, 128, ["4"]), (24, 200, 8, 100, ["8"]), (64, 1030, 32, 1030, ["8"]), (24, 600, 12, 600, []),
     (16, 65, 16, 65, ["8"]), (1, 7, 1, 7, []), (14, 128, 14, 128, []),
     (37, 100, 8, 64, []), (8, 63, 8, 63, [])],
)  # fmt: skip
def test_gemv(n: int, k: int, block_n: int, block_k: int, rows: list[str]) -> None:
    """Whole, ragged and tiny sizes. Few or masked elements, and other numbers of rows, are left to the compiler."""
    kern = linear.gemv_program(n, k, block_n, block_k, "bfloat16").kernel
    assert called(kern) == rows
    agree(kern, [random_array((k,), "bfloat16"), random_array((n, k), "bfloat16", 1), np.zeros(n, BF16)], rtol=2.0**-7, threads=2)


def test_rows_that_are_asked_for_go_on_where_they_end() -> None:
    """Of 64 rows those 8 apart are taken together, one turn after the other; of float32 neighbours."""
    narrow, wide = (source_of(linear.gemv_program(64, 1024, 64, 1024, dtype).kernel).text for dtype in ("bfloat16", "float32"))
    assert "i < 8; ++i" in narrow and re.search(r"twb_dots_bf16_8\(&W\[[^]]*\], 8192,", narrow) and "y[i + 56] = y[i + 56] + sum_7;" in narrow
    assert "i < 64; i += 16" in wide and "y[i + 15] = y[i + 15] + sum_15;" in wide


def product(value, kind: str = "bfloat16", row=I, rows: int = 8) -> Kernel:
    """Y[i] = the sum over j of value(W[row, j], x[j], x[127 - j], v[j]), for eight rows of 128 out of `rows`."""
    w, x, v, y = tensor("W", (rows, 128), kind), tensor("X", (128,)), tensor("V", (128,)), tensor("Y", (8,))
    s, t, m, z = tile("s", (128,)), tile("t", (128,)), tile("m", (8, 128)), tile("z", (8,))
    inside = put(m, I, J, value(cast(at(w, row, J), FLOAT32), at(s, J), at(s, op("sub", 127, J)), at(t, J)))
    body = [
        Copy(whole(x), whole(s)),
        Copy(whole(v), whole(t)),
        ParallelFor((I, J), (ix(8), ix(128)), (inside,)),
        Reduce("sum", whole(m), whole(z), 1),
        Copy(whole(z), whole(y)),
    ]
    return kernel("product", (w, x, v, y), [block((1,), (BX,), body, (s, t, m, z))])


def test_rows_that_lie_unequally_far_apart_are_no_call() -> None:
    """0 and 1 are neighbours, and so are 1 and 2, but not 2 and 4: what the first two say does not hold for the others."""
    kern = product(lambda w, x, r, v: mul(w, x), row=add(I, op("floordiv", I, 3)), rows=12)
    assert called(kern) == []
    given = [random_array((12, 128), "bfloat16"), random_array((128,), "float32", 1), random_array((128,), "float32", 2), np.zeros(8, np.float32)]
    agree(kern, given, rtol=1e-5)


VALUES = {
    "w * x": (lambda w, x, r, v: mul(w, x), "bfloat16", ["8"]),
    "x * w": (lambda w, x, r, v: mul(x, w), "bfloat16", ["8"]),
    "w * x, float16": (lambda w, x, r, v: mul(w, x), "float16", []),
    "w * x backwards": (lambda w, x, r, v: mul(w, r), "bfloat16", []),
    "w * w": (lambda w, x, r, v: mul(w, w), "bfloat16", []),
    "w * x + v": (lambda w, x, r, v: add(mul(w, x), v), "bfloat16", []),
    "w + x": (lambda w, x, r, v: add(w, x), "bfloat16", []),
}


@pytest.mark.parametrize("what", VALUES)
def test_only_products_of_two_rows(what: str) -> None:
    value, kind, rows = VALUES[what]
    kern = product(value, kind)
    assert called(kern) == rows
    given = [random_array((8, 128), kind), random_array((128,), "float32", 1), random_array((128,), "float32", 2), np.zeros(8, np.float32)]
    agree(kern, given, rtol=1e-6)


def test_a_call_is_weighed_by_its_elements() -> None:
    """Sixteen bits of each from memory, however far the rows lie apart."""
    w, x, out = Buffer("w", (index(1 << 20),), DType("bfloat16"), "global"), Buffer("x", (index(4096),), FLOAT32), Buffer("o", (index(8),), FLOAT32)

    def took(count: int, apart: int) -> float:
        args = (Address(w, ZERO), index(apart), Address(x, ZERO), index(count), Address(out, ZERO))
        found = work_ns((Evaluate(LibraryCall("twb_dots_bf16_8", args, INT32)),))
        assert found is not None
        return found

    assert took(4096, 1 << 16) == took(4096, 4096) == 2 * took(2048, 4096) > 8 * 4096 * 2 / 20

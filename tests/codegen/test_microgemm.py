"""The micro-kernel against float64 products: every edge, type, transposition and instruction set; nothing outside the tile is touched."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace

import numpy as np
import pytest
from codegen.c_harness import COMPILERS, HOST, ISAS, build
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tileworkbench.base.cpu import AMX, AVX2, AVX512, GENERIC, NEON
from tileworkbench.base.dtypes import DType
from tileworkbench.codegen import clib
from tileworkbench.codegen.gemm_plan import GemmSpec, plan_gemm
from tileworkbench.codegen.microgemm import gemm_name, gemm_needs, gemm_scratch_bytes, gemm_text

F32, F64, F16, BF16, I32 = (DType(n) for n in ("float32", "float64", "float16", "bfloat16", "int32"))
TYPES = [  # (a, b, c): the usual ones, mixed ones, and those that take another path
    (F32, F32, F32), (F16, F16, F32), (BF16, BF16, F32), (F16, F16, F16), (BF16, BF16, BF16), (F64, F64, F64), (DType("int8"), DType("int8"), I32),
    (DType("uint8"), DType("int8"), I32), (DType("float8_e4m3fn"), DType("float8_e5m2"), F32), (F16, F32, F32), (F32, BF16, F32), (I32, I32, I32),
    (DType("int8"), DType("int8"), DType("int64")), (DType("int16"), DType("int8"), I32), (F32, F32, F64), (F64, F64, F32), (F32, F32, F16),
    (DType("uint8"), DType("uint8"), DType("uint32")), (DType("int8"), F16, F32), (DType("int8"), DType("int8"), DType("int8")),
]  # fmt: skip
GUARD = 64  # elements in front of and behind every operand


def specs() -> st.SearchStrategy[GemmSpec]:
    size = st.one_of(st.integers(1, 40), st.sampled_from([1, 8, 16, 17, 48, 63, 64, 65, 80, 96, 128]))
    depth = st.one_of(st.integers(1, 70), st.sampled_from([256, 300, 513, 600]))

    def build_spec(m, n, k, types, pads, trans_a, trans_b, isa):
        lda, ldb, ldc = (m if trans_a else k) + pads[0], (k if trans_b else n) + pads[1], n + pads[2]
        return GemmSpec(m, n, k, *types, lda, ldb, ldc, trans_a, trans_b, isa)

    pads = st.tuples(*[st.sampled_from([0, 0, 3, 16])] * 3)
    return st.builds(build_spec, size, size, depth, st.sampled_from(TYPES), pads, st.booleans(), st.booleans(), st.sampled_from(ISAS))


def guarded(values: np.ndarray, ld: int) -> tuple[np.ndarray, np.ndarray]:
    """(whole, tile): a tile of row stride `ld` inside a larger array of poison: NaN, or the largest integer."""
    kind = values.dtype
    poison = np.iinfo(kind).max if kind.kind in "iu" else np.nan
    whole = np.full(2 * GUARD + values.shape[0] * ld, poison, kind)
    rows = whole[GUARD : GUARD + values.shape[0] * ld].reshape(values.shape[0], ld)
    rows[:, : values.shape[1]] = values
    return whole, rows[:, : values.shape[1]]


def run(spec: GemmSpec, a: np.ndarray, b: np.ndarray, c: np.ndarray, *, clear: bool, compiler: str = COMPILERS[0]) -> np.ndarray:
    """c after the product; fails if anything beside c's elements changed."""
    entry = f"void run(const void *a, const void *b, void *c, int clear, char *s) {{ {gemm_name(spec)}(a, b, c, clear, s); }}\n"
    lib = build(clib.library(gemm_needs(spec)) + gemm_text(spec) + entry, spec.isa, compiler)
    (whole_a, _), (whole_b, _), (whole_c, tile) = guarded(a, spec.lda), guarded(b, spec.ldb), guarded(c, spec.ldc)
    before = whole_c.copy()
    room = np.full(gemm_scratch_bytes(spec) + 192, 0x5A, np.uint8)
    start = -room.ctypes.data % 64 + 64
    at = lambda x: ctypes.c_void_p(x.ctypes.data + GUARD * x.itemsize)
    lib.run(at(whole_a), at(whole_b), at(whole_c), ctypes.c_int(clear), ctypes.c_void_p(room.ctypes.data + start))
    assert (room[:start] == 0x5A).all() and (room[start + gemm_scratch_bytes(spec) :] == 0x5A).all()
    result = tile.copy()
    tile[...] = before[GUARD : before.size - GUARD].reshape(spec.m, spec.ldc)[:, : spec.n]
    assert whole_c.tobytes() == before.tobytes()  # all but the tile itself
    return result


def operands(spec: GemmSpec, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)

    def make(rows: int, cols: int, dtype: DType) -> np.ndarray:
        if dtype.is_int:
            info = np.iinfo(str(dtype))
            return rng.integers(max(info.min, -1000), min(info.max, 1000), (rows, cols), endpoint=True).astype(str(dtype))
        return rng.standard_normal((rows, cols)).astype(dtype.to_numpy())

    a = make(spec.k, spec.m, spec.a) if spec.trans_a else make(spec.m, spec.k, spec.a)
    b = make(spec.n, spec.k, spec.b) if spec.trans_b else make(spec.k, spec.n, spec.b)
    return a, b, make(spec.m, spec.n, spec.c)


def check(spec: GemmSpec, seed: int, *, clear: bool, compiler: str = COMPILERS[0]) -> None:
    a, b, c = operands(spec, seed)
    got = run(spec, a, b, c, clear=clear, compiler=compiler)
    wide = np.int64 if spec.c.is_int else np.float64
    x, y, old = (v.astype(wide) for v in (a.T if spec.trans_a else a, b.T if spec.trans_b else b, np.zeros_like(c) if clear else c))
    want = x @ y + old
    if spec.c.is_int:
        assert np.array_equal(got, want.astype(got.dtype))
        return
    # each of k products and sums rounds once in the accumulator's type, operands wider than it once more, and the result once in c's
    size = np.abs(x) @ np.abs(y) + np.abs(old)
    tolerance = (spec.k + 3) * spec.acc.unit_roundoff * size + spec.c.unit_roundoff * np.abs(want) + 2.0**-24 * (spec.c == "float16")
    assert (np.abs(got.astype(np.float64) - want) <= tolerance).all()


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(spec=specs(), clear=st.booleans(), seed=st.integers(0, 99))
@example(spec=GemmSpec(1, 1, 1, F32, F32, F32, 1, 1, 1, isa=HOST), clear=True, seed=0)
@example(spec=GemmSpec(64, 61, 600, DType("uint8"), DType("uint8"), I32, 600, 61, 61, isa=HOST), clear=False, seed=1)
def test_any_product(spec, clear, seed):
    check(spec, seed, clear=clear)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("isa", ISAS, ids=lambda i: i.name)
@pytest.mark.parametrize(
    ("types", "layout"),
    [(TYPES[0], "nn"), (TYPES[0], "tt"), (TYPES[1], "nt"), (TYPES[4], "tn"), (TYPES[5], "nt"), (TYPES[6], "nt"), (TYPES[8], "nn")],
    ids=str,
)
def test_common_tiles_with_every_compiler(types, layout, isa, compiler):
    trans_a, trans_b = layout[0] == "t", layout[1] == "t"
    m, n, k = 37, 70, 33
    check(GemmSpec(m, n, k, *types, m if trans_a else k, k if trans_b else n, n, trans_a, trans_b, isa), 3, clear=False, compiler=compiler)


@pytest.mark.parametrize("k", [511, 1500])  # one visit of c if it were float32, and several
@pytest.mark.parametrize("types", [(DType("uint8"), DType("uint8"), I32), (DType("int8"), DType("int8"), I32)], ids=str)
def test_integer_sums_are_exact_at_their_extremes(types, k):
    spec = GemmSpec(5, 20, k, *types, k, 20, 20, isa=HOST)
    low = np.iinfo(str(types[0])).min or np.iinfo(str(types[0])).max
    a, b = np.full((5, k), low, str(types[0])), np.full((k, 20), low, str(types[1]))
    a[:, ::7] = 1
    want = a.astype(np.int64) @ b.astype(np.int64)
    assert np.array_equal(run(spec, a, b, np.zeros((5, 20), np.int32), clear=True), want)


def test_nan_and_infinity_pass_through():
    spec = GemmSpec(3, 17, 4, F16, F16, F32, 4, 17, 17, isa=HOST)
    a, b = np.ones((3, 4), np.float16), np.ones((4, 17), np.float16)
    a[0, 1], b[2, 16] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float32) @ b.astype(np.float32)
    assert np.array_equal(run(spec, a, b, np.zeros((3, 17), np.float32), clear=True), want, equal_nan=True)


# ---------------------------------------------------------------------------------------------- the matrix unit
I8, U8 = DType("int8"), DType("uint8")
MATRIX_TYPES = [
    (BF16, BF16, F32), (BF16, BF16, BF16), (I8, I8, I32), (U8, I8, I32), (I8, U8, I32), (U8, U8, DType("uint32")), (I8, I8, DType("int16"))
]  # fmt: skip


@pytest.mark.skipif(not (HOST.has("amx_bf16") and HOST.has("amx_int8")), reason="this processor or its system has no AMX")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    size=st.tuples(*[st.one_of(st.integers(1, 70), st.sampled_from([16, 32, 64, 96, 128, 256]))] * 3),
    types=st.sampled_from(MATRIX_TYPES), pads=st.tuples(*[st.sampled_from([0, 0, 3, 16])] * 3),
    trans_a=st.booleans(), trans_b=st.booleans(), clear=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_product_of_the_matrix_unit(size, types, pads, trans_a, trans_b, clear, seed):
    """Whole tiles and ragged edges in all three directions, strides, transpositions, and results that are widened."""
    m, n, k = size
    strides = (m if trans_a else k) + pads[0], (k if trans_b else n) + pads[1], n + pads[2]
    spec = GemmSpec(m, n, k, *types, *strides, trans_a, trans_b, HOST)
    assert spec.kernel == ("amx" if m * n >= 64 else "fma")
    check(spec, seed, clear=clear)


@pytest.mark.skipif(not (HOST.has("amx_bf16") and HOST.has("amx_int8")), reason="this processor or its system has no AMX")
@pytest.mark.parametrize("types", [(BF16, BF16, F32), (BF16, BF16, BF16), (I8, I8, I32)], ids=str)
@pytest.mark.parametrize("size", [(64, 256, 128), (80, 208, 64), (41, 200, 70)], ids=str)
@pytest.mark.parametrize("pad", [0, 1, 64])
def test_rows_that_begin_anywhere_in_a_cache_line(types, size, pad):
    """Factors from global memory, whose panels are packed where they do not begin at a line."""
    m, n, k = size
    spec = GemmSpec(m, n, k, *types, k + pad, n, n, isa=HOST, far_a=True, far_b=True)
    assert f"{gemm_name(spec)}_rows(" in gemm_text(spec) and ("(uint64_t)at % 64" in gemm_text(spec)) == (pad != 1 and size[2] != 70)
    for seed in range(4):  # each has arrays of its own, which begin somewhere
        check(spec, seed, clear=seed % 2 == 0)


def test_only_a_machine_that_has_it_gets_the_matrix_unit():
    kinds = {
        (BF16, BF16, F32): "amx",
        (F16, F16, F32): "fma",
        (F32, F32, F32): "fma",
        (DType("int8"), DType("int8"), I32): "amx",
        (BF16, F32, F32): "fma",
    }
    for types, kernel in kinds.items():
        spec = GemmSpec(32, 32, 32, *types, 32, 32, 32, isa=AMX)
        assert spec.kernel == kernel
        assert replace(spec, isa=AVX512).kernel == "fma"
    assert GemmSpec(1, 32, 32, BF16, BF16, F32, 32, 32, 32, isa=AMX).kernel == "fma"


def test_golden_text_of_the_matrix_unit(golden):
    golden(gemm_text(GemmSpec(40, 40, 32, BF16, BF16, F32, 32, 40, 40, isa=AMX)), "bf16_amx.c")


# ---------------------------------------------------------------------------------------------- plan and text
@settings(max_examples=300, deadline=None)
@given(m=st.integers(1, 300), n=st.integers(1, 300), isa=st.sampled_from([AVX512, AVX2, NEON, GENERIC]), kind=st.sampled_from([F32, F64, F16]))
def test_plan_covers_the_tile_once_and_fits_the_registers(m, n, isa, kind):
    spec = GemmSpec(m, n, 64, kind, kind, kind, 64, n, n, isa=isa)
    plan = plan_gemm(spec)
    rows = [i for run_ in plan.panels for q in range(run_.count) for i in range(run_.first + q * run_.size, run_.first + (q + 1) * run_.size)]
    columns = [i for run_ in plan.strips for q in range(run_.count) for i in range(run_.first + q * run_.size, run_.first + (q + 1) * run_.size)]
    assert rows == list(range(m)) and columns == list(range(-(-n // plan.lanes)))
    assert max(p.size for p in plan.panels) * max(s.size for s in plan.strips) + max(s.size for s in plan.strips) + 1 <= isa.registers
    assert len({p.size for p in plan.panels}) <= 2 and 0 < plan.tail <= plan.lanes


def test_square_float32_tiles_use_six_rows_by_four_vectors():
    """The shape that was fastest of seven with a busy neighbour on the core; 24 accumulators, b read in place."""
    plan = plan_gemm(GemmSpec(128, 128, 128, F32, F32, F32, 128, 128, 128))
    assert {s.size for s in plan.strips} == {4} and max(p.size for p in plan.panels) == 6 and not plan.pack_b


def test_specs_that_differ_have_names_that_differ():
    base = GemmSpec(64, 64, 64, F32, F32, F32, 64, 64, 64)
    others = [
        replace(base, m=32),
        replace(base, a=F16),
        replace(base, ldb=80),
        replace(base, trans_a=True),
        replace(base, trans_b=True),
        replace(base, trans_a=True, trans_b=True),
    ]
    assert len({gemm_name(s) for s in [base, *others]}) == 7


def test_packed_integers_are_refused():
    with pytest.raises(ValueError, match="unpacked"):
        plan_gemm(GemmSpec(8, 8, 8, DType("int4"), DType("int8"), I32, 8, 8, 8))


def test_text_stays_small_and_needs_no_header():
    text = gemm_text(GemmSpec(128, 128, 128, F32, F32, F32, 128, 128, 128))
    assert len(text) < 21000 and "#include" not in text and len(re.findall(r"^static", text, re.MULTILINE)) == 3


def test_two_products_share_a_file():
    first, second = GemmSpec(8, 24, 8, F16, F16, F32, 8, 24, 24, isa=HOST), GemmSpec(9, 24, 8, F16, F16, F32, 8, 8, 24, False, True, HOST)
    build(clib.library([*gemm_needs(first), *gemm_needs(second)]) + gemm_text(first, second) + "void none(void) {}\n", HOST)


def test_golden_text(golden):
    spec = GemmSpec(12, 40, 16, F16, F16, F32, 16, 16, 40, False, True, AVX512)
    golden(clib.library(gemm_needs(spec)) + gemm_text(spec), "f16_transposed.c")

"""Whole-tile operations of the interpreter against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from handmade import BX, K, box, buf, copy, kernel, launch, mul, num, one_block, op, outputs, shared, whole, zeros
from hypothesis import given, settings
from hypothesis import strategies as st

from tileworkbench.base.dtypes import BOOL, DType
from tileworkbench.ir.expr import Const, Var
from tileworkbench.ir.stmt import Fill, For, Gemm, Kernel, PipelinedFor, Reduce, Scan


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# ---------------------------------------------------------------------------------------------- copy and fill
@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 9),
    cols=st.integers(1, 9),
    tile=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    start=st.tuples(st.integers(-8, 12), st.integers(-8, 12)),
    safe=st.sampled_from([None, 7.0]),
)
def test_copy_guards_both_directions(rows, cols, tile, start, safe):
    a, out = buf("a", rows, cols, safe_value=safe), buf("out", rows, cols)
    t = shared("t", *tile)
    region = [(s, e) for s, e in zip(start, tile)]
    k = one_block([a, out], copy(box(a, *region), t), copy(t, box(out, *region)), allocs=(t,))
    x = rng().standard_normal((rows, cols)).astype(np.float32)
    got = outputs(k, x, np.full((rows, cols), 99, np.float32))
    want = np.full((rows, cols), 99, np.float32)
    for i, j in itertools.product(range(rows), range(cols)):
        if start[0] <= i < start[0] + tile[0] and start[1] <= j < start[1] + tile[1]:
            want[i, j] = x[i, j]
    np.testing.assert_array_equal(got, want)


def test_copy_reads_the_safe_value_outside():
    a, out, t = buf("a", 5, safe_value=-3.0), buf("out", 8), shared("t", 8)
    k = one_block([a, out], copy(box(a, (-2, 8)), t), copy(t, out), allocs=(t,))
    got = outputs(k, np.arange(1, 6, dtype=np.float32), zeros(8))
    np.testing.assert_array_equal(got, [-3, -3, 1, 2, 3, 4, 5, -3])


def test_copy_pairs_the_long_dims():
    a, out, t = buf("a", 2, 3, 4, 5), buf("out", 4, 5), shared("t", 4, 1, 5)
    k = one_block([a, out], copy(box(a, 1, 2, (0, 4), (0, 5)), t), copy(t, out), allocs=(t,))
    x = rng().standard_normal((2, 3, 4, 5)).astype(np.float32)
    np.testing.assert_array_equal(outputs(k, x, zeros(4, 5)), x[1, 2])


def test_copy_casts():
    a, out, t = buf("a", 4), buf("out", 4, dtype="int8"), shared("t", 4, dtype="float16")
    k = one_block([a, out], copy(a, t), copy(t, out), allocs=(t,))
    np.testing.assert_array_equal(outputs(k, np.array([1.5, -2.7, 300, 1e9], np.float32), zeros(4, dtype="int8")), [1, -2, 127, 127])


def test_copy_within_one_buffer_reads_before_it_writes():
    out, t = buf("out", 8), shared("t", 8)
    k = one_block([out], copy(out, t), copy(box(t, (0, 7)), box(t, (1, 7))), copy(t, out), allocs=(t,))
    np.testing.assert_array_equal(outputs(k, np.arange(8, dtype=np.float32)), [0, 0, 1, 2, 3, 4, 5, 6])


def test_copy_of_an_empty_or_wholly_outside_region_does_nothing():
    a, out, t, n = buf("a", Var("n")), buf("out", 4), shared("t", 4), Var("n")
    body = (copy(box(a, (100, 4)), t), copy(t, box(out, (-50, 4))), copy(t, box(out, (4, 4))))
    k = kernel([a, out], launch(1, body, (t,)), dims=(n,))
    for size in (0, 3):
        np.testing.assert_array_equal(outputs(k, np.ones(size, np.float32), np.full(4, 5, np.float32)), 5)


def test_copy_with_a_run_time_extent():
    n = Var("n")
    a, out = buf("a", n), buf("out", n)
    k = kernel([a, out], launch(1, (copy(box(a, (0, n)), box(out, (0, n))),)), dims=(n,))
    for size in (0, 1, 7):
        x = rng().standard_normal(size).astype(np.float32)
        np.testing.assert_array_equal(outputs(k, x, zeros(size)), x)


def test_fill_part_of_a_tile():
    out, t = buf("out", 3, 4), shared("t", 3, 4)
    k = one_block([out], Fill(whole(t), num(1)), Fill(box(t, (1, 5), (2, 1)), num(-2)), copy(t, out), allocs=(t,))
    want = np.ones((3, 4))
    want[1:, 2] = -2
    np.testing.assert_array_equal(outputs(k, zeros(3, 4)), want)


def test_new_tiles_are_zero_in_every_block():
    out, t = buf("out", 3), shared("t", 1)
    k = kernel([out], launch(3, (copy(t, box(out, (BX, 1))), Fill(whole(t), num(9))), (t,)))
    np.testing.assert_array_equal(outputs(k, np.full(3, 5, np.float32)), 0)


# ---------------------------------------------------------------------------------------------- gemm
def one_gemm(m: int, n: int, k: int, dtypes: tuple[str, str, str], trans: tuple[bool, bool] = (False, False), clear: bool = False) -> Kernel:
    shape_a, shape_b = (k, m) if trans[0] else (m, k), (n, k) if trans[1] else (k, n)
    a, b, c = (buf(x, *s, dtype=d) for x, s, d in zip("abc", (shape_a, shape_b, (m, n)), dtypes))
    ta, tb, tc = (shared(f"t{x}", *s, dtype=d) for x, s, d in zip("abc", (shape_a, shape_b, (m, n)), dtypes))
    body = (copy(a, ta), copy(b, tb), copy(c, tc), Gemm(whole(ta), whole(tb), whole(tc), *trans, Const(clear, BOOL)), copy(tc, c))
    return one_block([a, b, c], *body, allocs=(ta, tb, tc))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20), st.booleans(), st.booleans(), st.booleans())
def test_gemm_shapes(m, n, k, trans_a, trans_b, clear):
    a, b, c = rng(m).standard_normal((m, k)), rng(n).standard_normal((k, n)), rng(k).standard_normal((m, n))
    a, b, c = (x.astype(np.float32) for x in (a, b, c))
    program = one_gemm(m, n, k, ("float32",) * 3, (trans_a, trans_b), clear)
    got = outputs(program, (a.T if trans_a else a).copy(), (b.T if trans_b else b).copy(), c.copy())
    want = a.astype(np.float64) @ b.astype(np.float64) + (0 if clear else c)
    bound = (k + 2) * DType("float32").unit_roundoff * (np.abs(a) @ np.abs(b) + np.abs(c))
    assert (np.abs(got - want) <= bound).all()


@pytest.mark.parametrize(
    "dtypes",
    [
        ("float16", "float16", "float32"),
        ("bfloat16", "bfloat16", "float32"),
        ("float8_e4m3fn", "float8_e5m2", "float32"),
        ("float16", "float16", "float16"),
        ("float64", "float64", "float64"),
    ],
)
def test_gemm_float_dtypes(dtypes):
    k = 33
    a, b = (rng(i).standard_normal(s).astype(DType(d).to_numpy()) for i, s, d in ((1, (8, k), dtypes[0]), (2, (k, 9), dtypes[1])))
    got = outputs(one_gemm(8, 9, k, dtypes), a, b, zeros(8, 9, dtype=dtypes[2])).astype(np.float64)
    a, b = a.astype(np.float64), b.astype(np.float64)
    roundoff = (k + 1) * max(DType("float64" if dtypes[2] == "float64" else "float32").unit_roundoff, 0)
    bound = roundoff * (np.abs(a) @ np.abs(b)) + DType(dtypes[2]).unit_roundoff * np.abs(a @ b) * 1.01
    assert (np.abs(got - a @ b) <= bound).all()


@pytest.mark.parametrize(
    ("dtypes", "low", "high"),
    [
        (("int8", "int8", "int32"), -128, 128),
        (("uint8", "int8", "int32"), 0, 128),
        (("int32", "int32", "int32"), -(2**31), 2**31),
        (("int4", "int4", "int32"), -8, 8),
        (("int64", "int64", "int64"), -(2**62), 2**62),
    ],
)
def test_gemm_integers_are_exact_and_wrap(dtypes, low, high):
    a, b = (rng(i).integers(low, high, s).astype(DType(d).to_numpy()) for i, s, d in ((1, (5, 40), dtypes[0]), (2, (40, 6), dtypes[1])))
    got = outputs(one_gemm(5, 6, 40, dtypes), a, b, zeros(5, 6, dtype=dtypes[2]))
    exact = a.astype(object) @ b.astype(object)
    bits = DType(dtypes[2]).bits
    want = [[(int(x) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for x in row] for row in exact]
    np.testing.assert_array_equal(got, np.array(want, np.int64))


def test_gemm_of_slices_with_leading_dims():
    a, b, c = buf("a", 2, 6, 5), buf("b", 3, 5, 4), buf("c", 6, 4)
    ta, tb, tc = shared("ta", 2, 6, 5), shared("tb", 3, 5, 4), shared("tc", 2, 6, 4)
    product = Gemm(box(ta, 1, (0, 6), (0, 5)), box(tb, 2, (0, 5), (0, 4)), box(tc, 1, (0, 6), (0, 4)))
    k = one_block([a, b, c], copy(a, ta), copy(b, tb), product, copy(box(tc, 1, (0, 6), (0, 4)), c), allocs=(ta, tb, tc))
    x, y = rng(1).standard_normal((2, 6, 5)).astype(np.float32), rng(2).standard_normal((3, 5, 4)).astype(np.float32)
    np.testing.assert_allclose(outputs(k, x, y, zeros(6, 4)), x[1].astype(np.float64) @ y[2], rtol=0, atol=20 * DType("float32").unit_roundoff)


def test_gemm_clear_may_depend_on_the_loop():
    a, b, c = buf("a", 4, 8), buf("b", 8, 4), buf("c", 4, 4)
    ta, tb, tc = shared("ta", 4, 4), shared("tb", 4, 4), shared("tc", 4, 4)
    body = (
        copy(box(a, (0, 4), (mul(K, 4), 4)), ta),
        copy(box(b, (mul(K, 4), 4), (0, 4)), tb),
        Gemm(whole(ta), whole(tb), whole(tc), clear=op("eq", K, 0)),
    )
    k = one_block([a, b, c], Fill(whole(tc), num(77)), PipelinedFor(K, Const(0), Const(2), body, 2), copy(tc, c), allocs=(ta, tb, tc))
    x, y = rng(1).integers(-4, 4, (4, 8)).astype(np.float32), rng(2).integers(-4, 4, (8, 4)).astype(np.float32)
    np.testing.assert_array_equal(outputs(k, x, y, zeros(4, 4)), x @ y)


# ---------------------------------------------------------------------------------------------- reduce and scan
NUMPY = {
    "sum": np.sum, "abssum": lambda x, axis: np.abs(x).sum(axis), "max": np.max, "min": np.min, "absmax": lambda x, axis: np.abs(x).max(axis),
    "bitand": np.bitwise_and.reduce, "bitor": np.bitwise_or.reduce, "bitxor": np.bitwise_xor.reduce,
    "any": lambda x, axis: (x != 0).any(axis), "all": lambda x, axis: (x != 0).all(axis),
}  # fmt: skip


def one_reduce(name: str, shape: tuple[int, ...], dim: int, source: str, target: str, keep: bool = False, **more) -> Kernel:
    rest = tuple(1 if keep and d == dim else e for d, e in enumerate(shape) if keep or d != dim)
    a, out = buf("a", *shape, dtype=source), buf("out", *rest, dtype=target)
    ta, to = shared("ta", *shape, dtype=source), shared("to", *rest, dtype=target)
    return one_block([a, out], copy(a, ta), copy(out, to), Reduce(name, whole(ta), whole(to), dim, **more), copy(to, out), allocs=(ta, to))


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("keep", [False, True])
def test_reduce_integers(name, dim, keep):
    shape = (3, 4, 5)
    x = rng(dim).integers(-9, 9, shape).astype(np.int32)
    want = NUMPY[name](x, axis=dim).astype(np.int32)
    got = outputs(
        one_reduce(name, shape, dim, "int32", "int32", keep), x, np.full(np.expand_dims(want, dim).shape if keep else want.shape, 50, np.int32)
    )
    np.testing.assert_array_equal(got.reshape(want.shape), want)


@pytest.mark.parametrize(
    ("name", "old", "want"),
    [
        ("sum", 100, 110),
        ("abssum", 100, 110),
        ("max", 3, 4),
        ("max", 9, 9),
        ("min", 0, 0),
        ("min", 5, 1),
        ("absmax", 9, 9),
        ("bitor", 8, 15),
        ("bitand", 5, 0),
        ("bitxor", 1, 5),
        ("any", 0, 1),
        ("all", 0, 0),
        ("all", 7, 1),
    ],
)
def test_reduce_without_clear_takes_the_old_value_once(name, old, want):
    k = one_reduce(name, (1, 4), 1, "int32", "int32", clear=False)
    np.testing.assert_array_equal(outputs(k, np.array([[1, 2, 3, 4]], np.int32), np.array([old], np.int32)), [want])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_max_and_min_ignore_nan(dtype):
    x = np.array([[1, np.nan, 3], [np.nan, np.nan, np.nan], [np.nan, -5, -np.inf]]).astype(DType(dtype).to_numpy())
    for name, want in (("max", [3, np.nan, -5]), ("min", [1, np.nan, -np.inf]), ("absmax", [3, np.nan, np.inf])):
        got = outputs(one_reduce(name, (3, 3), 1, dtype, dtype), x, zeros(3, dtype=dtype)).astype(np.float64)
        np.testing.assert_array_equal(got, want)
        kept = outputs(one_reduce(name, (3, 3), 1, dtype, dtype, nan_propagate=True), x, zeros(3, dtype=dtype)).astype(np.float64)
        assert np.isnan(kept).all()
    old = outputs(one_reduce("max", (3, 3), 1, dtype, dtype, clear=False), x, np.array([0, 2, np.nan]).astype(DType(dtype).to_numpy()))
    np.testing.assert_array_equal(old.astype(np.float64), [3, 2, -5])


def test_sums_of_narrow_floats_run_in_float32():
    x = np.full((1, 4096), 1.0, np.float16)
    assert outputs(one_reduce("sum", (1, 4096), 1, "float16", "float16"), x, zeros(1, dtype="float16"))[0] == 4096  # in float16 it would stop at 2048
    assert (
        outputs(one_reduce("sum", (1, 600), 1, "bfloat16", "bfloat16"), np.ones((1, 600), DType("bfloat16").to_numpy()), zeros(1, dtype="bfloat16"))[
            0
        ]
        == 600
    )
    assert outputs(one_reduce("sum", (1, 4096), 1, "float16", "float32"), x, zeros(1))[0] == 4096


def test_integer_sums_run_in_the_target_dtype():
    x = np.full((1, 300), 127, np.int8)
    assert outputs(one_reduce("sum", (1, 300), 1, "int8", "int32"), x, zeros(1, dtype="int32"))[0] == 300 * 127
    assert outputs(one_reduce("sum", (1, 300), 1, "int8", "int8"), x, zeros(1, dtype="int8"))[0] == np.int64(300 * 127).astype(np.int8)


def test_bool_any_and_all():
    x = np.array([[True, False], [False, False], [True, True]])
    np.testing.assert_array_equal(outputs(one_reduce("any", (3, 2), 1, "bool", "bool"), x, zeros(3, dtype="bool")), [True, False, True])
    np.testing.assert_array_equal(outputs(one_reduce("all", (3, 2), 1, "bool", "bool"), x, zeros(3, dtype="bool")), [False, False, True])


@pytest.mark.parametrize(
    ("name", "dtype", "want"),
    [
        ("sum", "float32", 0),
        ("max", "float32", -np.inf),
        ("min", "float32", np.inf),
        ("max", "int8", -128),
        ("min", "int8", 127),
        ("absmax", "float32", 0),
        ("bitand", "int32", -1),
        ("bitor", "int32", 0),
        ("all", "int32", 1),
        ("any", "int32", 0),
        ("max", "float8_e4m3fn", -448),
    ],
)
def test_a_reduction_of_nothing_gives_the_identity(name, dtype, want):
    n = Var("n")
    a, out = buf("a", 2, n, dtype=dtype), buf("out", 2, dtype=dtype)
    k = kernel([a, out], launch(1, (Reduce(name, whole(a), whole(out), 1),)), dims=(n,))
    np.testing.assert_array_equal(outputs(k, zeros(2, 0, dtype=dtype), np.ones(2, DType(dtype).to_numpy())).astype(np.float64), [want, want])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["sum", "max", "min"]), st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_scan(name, shape, data):
    dim, reverse, in_place = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.booleans()), data.draw(st.booleans())
    a, out = buf("a", *shape, dtype="int32"), buf("out", *shape, dtype="int32")
    t, u = shared("t", *shape, dtype="int32"), shared("u", *shape, dtype="int32")
    into = t if in_place else u
    k = one_block([a, out], copy(a, t), Scan(name, whole(t), whole(into), dim, reverse), copy(into, out), allocs=(t, u))
    x = rng(len(shape)).integers(-9, 9, shape).astype(np.int32)
    fold = {"sum": np.add, "max": np.maximum, "min": np.minimum}[name]
    want = np.flip(fold.accumulate(np.flip(x, dim), axis=dim), dim) if reverse else fold.accumulate(x, axis=dim)
    np.testing.assert_array_equal(outputs(k, x, zeros(*shape, dtype="int32")), want)


def test_narrow_scans_run_in_float32():
    t = shared("t", 4096, dtype="float16")
    out = buf("out", 4096, dtype="float16")
    k = one_block([out], copy(out, t), Scan("sum", whole(t), whole(t)), copy(t, out), allocs=(t,))
    np.testing.assert_array_equal(outputs(k, np.ones(4096, np.float16)), np.arange(1, 4097).astype(np.float16))


# ---------------------------------------------------------------------------------------------- together
def gemm_kernel(n: int = 256, tile: int = 64, stages: int = 2) -> Kernel:
    """C = A @ B over square tiles."""
    by = Var("by")
    a, b, c = buf("A", n, n), buf("B", n, n), buf("C", n, n)
    ta, tb, tc = shared("ta", tile, tile), shared("tb", tile, tile), buf("tc", tile, tile, scope="fragment")
    step = (
        copy(box(a, (mul(by, tile), tile), (mul(K, tile), tile)), ta),
        copy(box(b, (mul(K, tile), tile), (mul(BX, tile), tile)), tb),
        Gemm(whole(ta), whole(tb), whole(tc)),
    )
    blocks = -(-n // tile)
    loop = PipelinedFor(K, Const(0), Const(blocks), step, stages)
    body = (Fill(whole(tc), num(0)), loop, copy(tc, box(c, (mul(by, tile), tile), (mul(BX, tile), tile))))
    return kernel([a, b, c], launch((blocks, blocks), body, (ta, tb, tc)), name="gemm")


@pytest.mark.parametrize(("n", "tile"), [(256, 64), (100, 32), (5, 8), (1, 16)])
def test_tiled_gemm(n, tile):
    a, b = rng(1).standard_normal((n, n)).astype(np.float32), rng(2).standard_normal((n, n)).astype(np.float32)
    got = outputs(gemm_kernel(n, tile), a, b, np.full((n, n), 9, np.float32))
    bound = (n + 2) * DType("float32").unit_roundoff * (np.abs(a) @ np.abs(b))
    assert (np.abs(got - a.astype(np.float64) @ b) <= bound).all()


def test_loops_over_tiles_carry_state():
    """A running maximum over column blocks, as in an online softmax."""
    a, out = buf("a", 4, 12), buf("out", 4)
    t, m = shared("t", 4, 4), buf("m", 4, scope="fragment")
    body = (copy(box(a, (0, 4), (mul(K, 4), 4)), t), Reduce("max", whole(t), whole(m), 1, clear=False))
    k = one_block([a, out], Fill(whole(m), num(-np.inf)), For(K, Const(0), Const(3), body), copy(m, out), allocs=(t, m))
    x = rng(5).standard_normal((4, 12)).astype(np.float32)
    np.testing.assert_array_equal(outputs(k, x, zeros(4)), x.max(1))


def test_an_old_value_joins_a_narrow_sum_before_it_is_rounded():
    x = np.ones((1, 2049), np.float16)
    got = outputs(one_reduce("sum", (1, 2049), 1, "float16", "float16", clear=False), x, np.ones(1, np.float16))
    assert got[0] == 2050  # 2049 alone rounds to 2048, and 2049 is no float16


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int4"])
def test_max_and_min_of_small_types(dtype):
    x = np.array([[0, 1, 1], [0, 0, 0], [1, 1, 1]], np.int8).astype(DType(dtype).to_numpy())
    np.testing.assert_array_equal(outputs(one_reduce("max", (3, 3), 1, dtype, dtype), x, zeros(3, dtype=dtype)), x.max(1))
    np.testing.assert_array_equal(outputs(one_reduce("min", (3, 3), 1, dtype, dtype), x, zeros(3, dtype=dtype)), x.min(1))

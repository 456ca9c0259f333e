"""Copies, fills, matrix products and whole kernels of tile operations in the interpreter, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from handmade import BX, K, box, buf, copy, kernel, launch, mul, num, one_block, op, outputs, shared, whole, zeros
from hypothesis import given, settings
from hypothesis import strategies as st

from tileworkbench.base.dtypes import BOOL, DType
from tileworkbench.interpret import run
from tileworkbench.ir.expr import Const, Var
from tileworkbench.ir.stmt import Atomic, Fill, For, Gemm, Kernel, PipelinedFor, Reduce, Scan


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


@pytest.mark.parametrize("size", [0, 3, -2])
def test_operations_on_regions_of_run_time_extent(size):
    """An extent of zero or less is nothing: a product of nothing is zero, a reduction of nothing the identity, the rest touches nothing."""
    m = Var("m")
    a, b, c, s = buf("a", 2, 3), buf("b", 3, 2), buf("c", 2, 2), buf("s", 2)
    rows, columns = box(a, (0, 2), (0, m)), box(b, (0, m), (0, 2))
    body = (
        Gemm(rows, columns, whole(c), clear=Const(True, BOOL)),
        Reduce("sum", rows, whole(s), 1),
        Scan("sum", rows, rows, 1),
        Fill(box(b, (0, m), (0, 1)), num(7)),
        copy(box(b, (0, m), (0, 1)), box(b, (0, m), (1, 1))),
        Atomic("add", box(b, (0, m), (0, 2)), box(b, (0, m), (0, 2))),
    )
    k = kernel([a, b, c, s, m], launch(1, body))
    x, y = rng(1).integers(-4, 4, (2, 3)).astype(np.float32), rng(2).integers(-4, 4, (3, 2)).astype(np.float32)
    arrays = [x.copy(), y.copy(), np.ones((2, 2), np.float32), np.ones(2, np.float32)]
    run(k, arrays, scalars={"m": size})
    full = size == 3
    np.testing.assert_array_equal(arrays[2], x @ y if full else 0)
    np.testing.assert_array_equal(arrays[3], x.sum(1) if full else 0)
    np.testing.assert_array_equal(arrays[0], x.cumsum(1) if full else x)
    np.testing.assert_array_equal(arrays[1], np.full((3, 2), 14) if full else y)


def test_results_may_lie_in_their_own_operands():
    """Everything is read before anything is written."""
    t, out = shared("t", 4, 4), buf("out", 4, 4)
    x = rng(3).integers(-3, 3, (4, 4)).astype(np.float32)
    square = one_block([out], copy(out, t), Gemm(whole(t), whole(t), whole(t), clear=Const(True, BOOL)), copy(t, out), allocs=(t,))
    np.testing.assert_array_equal(outputs(square, x.copy()), x @ x)
    summed = one_block([out], copy(out, t), Reduce("sum", whole(t), box(t, (0, 4), 1), 1), copy(t, out), allocs=(t,))
    want = x.copy()
    want[:, 1] = x.sum(1)
    np.testing.assert_array_equal(outputs(summed, x.copy()), want)
    shifted = one_block([out], copy(out, t), Scan("sum", box(t, (0, 3), (0, 4)), box(t, (1, 3), (0, 4)), 0), copy(t, out), allocs=(t,))
    want = x.copy()
    want[1:] = x[:3].cumsum(0)
    np.testing.assert_array_equal(outputs(shifted, x.copy()), want)
    back = one_block([out], copy(out, t), copy(box(t, (0, 4), (1, 3)), box(t, (0, 4), (0, 3))), copy(t, out), allocs=(t,))
    want = x.copy()
    want[:, :3] = x[:, 1:]
    np.testing.assert_array_equal(outputs(back, x.copy()), want)


@pytest.mark.parametrize(("start", "stop"), [(3, 0), (0, 0), (-3, -1), (-1, 1)])
def test_pipelined_loops_with_odd_ranges(start, stop):
    out, t = buf("out", 8), shared("t", 1)
    step = (copy(box(out, (op("add", K, 3), 1)), t), Fill(box(out, (op("add", K, 3), 1)), num(5)))
    got = outputs(one_block([out], PipelinedFor(K, Const(start), Const(stop), step, 3), allocs=(t,)), zeros(8))
    assert list(np.flatnonzero(got)) == [k + 3 for k in range(start, stop)]

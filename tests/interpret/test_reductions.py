"""Reductions and scans of the interpreter against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from handmade import buf, copy, kernel, launch, one_block, outputs, shared, whole, zeros
from hypothesis import given, settings
from hypothesis import strategies as st

from tileworkbench.base.dtypes import DType
from tileworkbench.ir.expr import Var
from tileworkbench.ir.stmt import Kernel, Reduce, Scan


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


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
        ("max", "float8_e5m2", -np.inf),
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


def test_an_old_value_joins_a_narrow_sum_before_it_is_rounded():
    x = np.ones((1, 2049), np.float16)
    got = outputs(one_reduce("sum", (1, 2049), 1, "float16", "float16", clear=False), x, np.ones(1, np.float16))
    assert got[0] == 2050  # 2049 alone rounds to 2048, and 2049 is no float16


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int4"])
def test_max_and_min_of_small_types(dtype):
    x = np.array([[0, 1, 1], [0, 0, 0], [1, 1, 1]], np.int8).astype(DType(dtype).to_numpy())
    np.testing.assert_array_equal(outputs(one_reduce("max", (3, 3), 1, dtype, dtype), x, zeros(3, dtype=dtype)), x.max(1))
    np.testing.assert_array_equal(outputs(one_reduce("min", (3, 3), 1, dtype, dtype), x, zeros(3, dtype=dtype)), x.min(1))

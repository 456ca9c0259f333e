"""Reductions, scans, products and atomics of tiles, against the interpreter and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from codegen.c_runner import source_of
from codegen.differ import agree, random_array
from codegen.ir_kit import BOOL, F16, F32, I32, Cast, Var, add, at, block, box, const, ix, kernel, mul, op, put, tensor, tile, whole

from tileworkbench.base.dtypes import DType
from tileworkbench.ir.expr import Const
from tileworkbench.ir.stmt import Atomic, Copy, Fill, For, Gemm, Kernel, ParallelFor, Reduce, Scan

FLOAT_OPS = ("sum", "abssum", "max", "min", "absmax")
INT_OPS = (*FLOAT_OPS, "bitand", "bitor", "bitxor")


def reduced(shape: tuple[int, ...], ops: tuple[str, ...], source: str, target: str, clear=True, keep=False, nan=False) -> Kernel:
    """Every op over every dim of one tile, into an output each."""
    x, xs = tensor("X", shape, source), tile("xs", shape, source)
    body, outs, tiles = [Copy(whole(x), whole(xs))], [], [xs]
    for name in ops:
        for dim in range(len(shape)):
            rest = tuple(1 if d == dim else e for d, e in enumerate(shape)) if keep else shape[:dim] + shape[dim + 1 :]
            out, acc = tensor(f"out_{name}_{dim}", rest, target), tile(f"acc_{name}_{dim}", rest, target, "fragment")
            body += [Copy(whole(out), whole(acc)), Reduce(name, whole(xs), whole(acc), dim, clear, nan), Copy(whole(acc), whole(out))]
            outs.append(out)
            tiles.append(acc)
    return kernel("reduced", [x, *outs], [block((1,), (Var("bx"),), body, tiles)])


def arrays_for(k: Kernel, seed: int = 0) -> list[np.ndarray]:
    return [random_array(p.buffer.static_shape(), p.buffer.type, seed + n) for n, p in enumerate(k.params)]


@pytest.mark.parametrize("shape", [(5, 37), (64, 128), (6, 10, 12), (3, 1)], ids=str)
@pytest.mark.parametrize(("clear", "keep"), [(True, False), (False, True)])
def test_float32_reductions(shape: tuple[int, ...], clear: bool, keep: bool) -> None:
    k = reduced(shape, FLOAT_OPS, "float32", "float32", clear, keep)
    agree(k, arrays_for(k), rtol=1e-6 * max(shape))


@pytest.mark.parametrize(("source", "target"), [("float16", "float16"), ("float16", "float32"), ("bfloat16", "float32"), ("float64", "float64")])
def test_other_float_reductions(source: str, target: str) -> None:
    k = reduced((7, 20), FLOAT_OPS, source, target)
    agree(k, arrays_for(k), rtol=2 * DType(target).unit_roundoff * 20)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32"])
def test_integer_reductions(dtype: str) -> None:
    k = reduced((7, 20), INT_OPS, dtype, dtype, clear=False)
    agree(k, arrays_for(k))


def test_bool_reductions() -> None:
    for source in ("bool", "int32"):
        k = reduced((5, 9), ("any", "all"), source, "bool")
        agree(k, arrays_for(k))


@pytest.mark.parametrize("nan", [False, True])
def test_nan_in_reductions(nan: bool) -> None:
    """Ignored, unless asked for; a row of only NaN gives NaN, a row of -inf gives -inf."""
    k = reduced((6, 20), ("max", "min", "absmax"), "float32", "float32", nan=nan)
    arrays = arrays_for(k)
    arrays[0][1] = np.nan
    arrays[0][2, 3] = np.nan
    arrays[0][3] = -np.inf
    arrays[0][4] = np.inf
    out = agree(k, arrays)
    assert np.isnan(out[2][1])
    assert np.isnan(out[2][2]) == nan
    assert out[2][3] == -np.inf


def test_reductions_of_regions_of_anything() -> None:
    """A part of a tile, a global buffer, a region that sticks out, a strided view of rows."""
    x, y = tensor("X", (10, 12)), tensor("Y", (4,))
    xs, ys = tile("xs", (10, 12)), tile("ys", (4,))
    body = [
        Copy(whole(x), whole(xs)),
        Fill(whole(ys), const(0, F32)),
        Reduce("sum", box(xs, (2, 3), (4, 5)), whole(ys), 1),
        Reduce("max", box(x, (8, 0), (4, 12)), whole(ys), 1, clear=False),
        Reduce("sum", box(x, (0, 8), (12, 4)), box(y, (0,), (4,)), 0, clear=False),
        ParallelFor((Var("i"),), (ix(4),), (put(y, Var("i"), add(at(y, Var("i")), at(ys, Var("i")))),)),
    ]
    k = kernel("parts", [x, y], [block((1,), (Var("bx"),), body, [xs, ys])])
    agree(k, arrays_for(k), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "float64"])
def test_scans(dtype: str) -> None:
    x = tensor("X", (5, 6, 7), dtype)
    body, outs, tiles = [], [], []
    for name in ("sum", "max", "min"):
        for dim in range(3):
            for reverse in (False, True):
                n = f"{name}_{dim}_{int(reverse)}"
                s, out = tile(f"s_{n}", (5, 6, 7), dtype), tensor(f"out_{n}", (5, 6, 7), dtype)
                body += [Copy(whole(x), whole(s)), Scan(name, whole(s), whole(s), dim, reverse), Copy(whole(s), whole(out))]
                outs.append(out)
                tiles.append(s)
    k = kernel("scans", [x, *outs], [block((1,), (Var("bx"),), body, tiles)])
    agree(k, arrays_for(k), rtol=8 * DType(dtype).unit_roundoff, atol=64 * DType(dtype).unit_roundoff)


def product(m: int, n: int, k: int, ab: str = "float32", c: str = "float32", ta: bool = False, tb: bool = False, clear=None) -> Kernel:
    a, b, out = tensor("A", (k, m) if ta else (m, k), ab), tensor("B", (n, k) if tb else (k, n), ab), tensor("C", (m, n), c)
    sa, sb, acc = tile("sa", a.static_shape(), ab), tile("sb", b.static_shape(), ab), tile("acc", (m, n), c, "fragment")
    body = [Copy(whole(a), whole(sa)), Copy(whole(b), whole(sb)), Copy(whole(out), whole(acc))]
    body += [Gemm(whole(sa), whole(sb), whole(acc), ta, tb, *(() if clear is None else (clear,))), Copy(whole(acc), whole(out))]
    return kernel("product", [a, b, out], [block((1,), (Var("bx"),), body, [sa, sb, acc])])


@pytest.mark.parametrize(("ta", "tb"), [(False, False), (True, False), (False, True), (True, True)])
def test_products(ta: bool, tb: bool) -> None:
    for m, n, k in ((64, 64, 32), (7, 20, 5), (1, 1, 1), (33, 17, 64)):
        kern = product(m, n, k, ta=ta, tb=tb, clear=None if m != 7 else Const(True, BOOL))
        agree(kern, arrays_for(kern), rtol=1e-6 * k, atol=1e-2)


@pytest.mark.parametrize("pair", ["float16 float32", "bfloat16 float32", "int8 int32", "float16 float16", "float64 float64", "int32 int32"])
def test_product_dtypes(pair: str) -> None:
    ab, c = pair.split()
    kern = product(12, 20, 8, ab, c)
    arrays = [np.clip(a.astype(np.float64), -9, 9).astype(a.dtype) for a in arrays_for(kern)]
    agree(kern, arrays, rtol=16 * DType(c).unit_roundoff)


def test_product_of_global_and_ragged_operands() -> None:
    """Operands that the micro-kernel cannot read in place are brought into tiles; `clear` may depend on the loop."""
    a, b, out = tensor("A", (10, 30)), tensor("B", (2, 30, 9)), tensor("C", (12, 12))
    acc, k = tile("acc", (16, 16), "float32", "fragment"), Var("k")
    body = [
        For(k, ix(0), ix(4), (Gemm(box(a, (0, mul(k, 8)), (16, 8)), box(b, (1, mul(k, 8), 0), (1, 8, 16)), whole(acc), clear=op("eq", k, 0)),)),
        Copy(whole(acc), box(out, (0, 0), (16, 16))),
    ]
    kern = kernel("ragged", [a, b, out], [block((1,), (Var("bx"),), body, [acc])])
    agree(kern, arrays_for(kern), rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_atomics(threads: int) -> None:
    """Elements and whole tiles, global and on chip, from many blocks; old values come back."""
    data, bins, sums = tensor("D", (16, 64), "int32"), tensor("bins", (7,), "int32"), tensor("S", (64,))
    most, slots, cell = tensor("most", (7,)), tensor("slots", (16,), "int32"), tensor("cell", (1,), "float16")
    bx, i, j = Var("bx"), Var("i"), Var("j")
    local, old = tile("local", (1,), "int32"), Var("old", I32)
    t = tile("t", (64,))
    bin_of = Cast(op("floormod", at(data, bx, i), 7), DType("int64"))
    body = [
        ParallelFor((i,), (ix(64),), (
            Atomic("add", box(bins, (bin_of,), (1,)), const(1, I32)),
            Atomic("max", box(most, (bin_of,), (1,)), Cast(at(data, bx, i), F32)),
        )),
        Atomic("add", box(slots, (0,), (1,)), const(1, I32), old),
        put(slots, add(1, Cast(op("floormod", old, 15), DType("int64"))), const(1, I32)),
        ParallelFor((j,), (ix(64),), (put(t, j, Cast(at(data, bx, j), F32)),)),
        Atomic("add", box(sums, (3,), (64,)), whole(t)),
        Fill(whole(local), const(0, I32)),
        Atomic("add", box(local, (0,), (1,)), const(5, I32)),
        Atomic("max", box(cell, (0,), (1,)), Cast(at(local, 0), F16)),
    ]  # fmt: skip
    kern = kernel("atomics", [data, bins, sums, most, slots, cell], [block((16,), (bx,), body, [local, t])])
    arrays = arrays_for(kern)
    arrays[4][:] = 0
    out = agree(kern, arrays, threads=threads)
    np.testing.assert_array_equal(out[1] - arrays[1], np.bincount(arrays[0].ravel() % 7, minlength=7))
    assert out[5][0] == max(arrays[5][0], 5)


def test_a_row_reduction_is_one_call() -> None:
    k = reduced((64, 128), ("max", "sum"), "float32", "float32")
    text = source_of(k).text
    assert "twb_row_max_f32(&xs[i * 128], 128)" in text
    assert "twb_row_sum_f32(&xs[i * 128], 128)" in text

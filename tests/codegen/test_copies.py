"""Copies and fills: every edge, order, type and stride, against the interpreter and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from codegen.c_runner import Compiled, source_of
from codegen.differ import agree, random_array
from codegen.ir_kit import F32, Var, add, at, block, box, const, ix, kernel, mul, op, put, tensor, tile, whole

from tileworkbench.base.dtypes import DType
from tileworkbench.base.errors import TileBoundsError
from tileworkbench.ir.expr import Const
from tileworkbench.ir.stmt import Copy, Fill, For, Kernel


def moved(copies: list[tuple], allocs=(), grid=(1,), tensors=(), **kw) -> Kernel:
    return kernel("moved", tensors, [block(grid, [Var("bx"), Var("by")][: len(grid)], copies, allocs)], **kw)


@pytest.mark.parametrize("seed", range(6))
def test_random_regions(seed: int) -> None:
    """Ten random copies global -> tile -> global with starts that may be outside on either side, of any dtype pair."""
    rng = np.random.default_rng(seed)
    dtypes = ["float32", "float16", "int32", "int8", "bool", "float64", "bfloat16", "uint16"]
    body, tensors, tiles, arrays = [], [], [], []
    for n in range(10):
        rank = int(rng.integers(1, 4))
        shape, extents = rng.integers(1, 12, rank), rng.integers(1, 9, rank)
        starts = [int(rng.integers(-6, s + 3)) for s in shape]
        kinds = rng.choice(dtypes, 3)
        source = tensor(f"A{n}", shape.tolist(), kinds[0], safe_value=int(rng.integers(0, 2)))
        middle = tile(f"t{n}", extents.tolist(), kinds[1])
        target = tensor(f"B{n}", shape.tolist(), kinds[2])
        back = [int(rng.integers(-6, s + 3)) for s in shape]
        body += [Copy(box(source, starts, extents.tolist()), whole(middle)), Copy(whole(middle), box(target, back, extents.tolist()))]
        tensors += [source, target]
        tiles.append(middle)
        arrays += [random_array(shape, kinds[0], seed + n), random_array(shape, kinds[2], 99)]
    agree(moved(body, tiles, tensors=tensors), arrays)


def test_variable_starts_are_clipped_once_per_row() -> None:
    """Blocks at the ragged edge: the loops end early, and no element is tested."""
    a, b, t = tensor("A", (100, 70)), tensor("B", (100, 70)), tile("t", (32, 16))
    bx, by = Var("bx"), Var("by")
    body = [Copy(box(a, (mul(by, 32), mul(bx, 16)), (32, 16)), whole(t)), Copy(whole(t), box(b, (mul(by, 32), mul(bx, 16)), (32, 16)))]
    k = moved(body, [t], (5, 4), [a, b])
    x = random_array((100, 70), "float32")
    out = agree(k, [x, np.zeros_like(x)])
    np.testing.assert_array_equal(out[1], x)
    text = source_of(k).text
    assert "memcpy" in text
    assert " ? t[" not in text


def test_divisible_copies_have_no_tests() -> None:
    a, b, t = tensor("A", (128, 64)), tensor("B", (128, 64)), tile("t", (32, 16))
    bx, by = Var("bx"), Var("by")
    body = [Copy(box(a, (mul(by, 32), mul(bx, 16)), (32, 16)), whole(t)), Copy(whole(t), box(b, (mul(by, 32), mul(bx, 16)), (32, 16)))]
    text = source_of(moved(body, [t], (4, 4), [a, b])).text
    block_text = text[text.index("static void moved_block") :]
    assert "min" not in block_text
    assert "?" not in block_text


def test_whole_tiles_are_one_run() -> None:
    a, t, u = tensor("A", (4, 8, 16)), tile("t", (4, 8, 16)), tile("u", (4, 8, 16), "float16")
    body = [Copy(whole(a), whole(t)), Copy(whole(t), whole(u)), Copy(whole(u), whole(a))]
    k = moved(body, [t, u], tensors=[a])
    agree(k, [random_array((4, 8, 16), "float32")])
    text = source_of(k).text
    assert "512 * sizeof(float)" in text
    assert "twb_copy_f32_to_f16(t, u, 512);" in text and "twb_copy_f16_to_f32(u, A, 512);" in text


def test_a_column_becomes_a_row() -> None:
    """Extents of 1 are skipped when dims are paired; strides differ."""
    a, b, t = tensor("A", (6, 5, 7)), tensor("B", (3, 7)), tile("t", (7, 1))
    body = [Copy(box(a, (2, 3, 0), (1, 1, 7)), whole(t)), Copy(whole(t), box(b, (1, 0), (1, 7)))]
    x = random_array((6, 5, 7), "float32")
    out = agree(moved(body, [t], tensors=[a, b]), [x, np.zeros((3, 7), np.float32)])
    np.testing.assert_array_equal(out[1][1], x[2, 3])


def test_strided_tensors() -> None:
    """Rows of a larger array, and a transposed one."""
    a = tensor("A", (6, 5), strides=(Const(8), Const(1)))
    at_ = tensor("AT", (5, 6), strides=(Const(1), Const(8)))
    b, t = tensor("B", (5, 6)), tile("t", (6, 5))
    store = np.arange(48, dtype=np.float32).reshape(6, 8)
    body = [Copy(whole(a), whole(t)), Copy(whole(at_), whole(b))]
    k = moved(body, [t], tensors=[a, at_, b])
    out = [store.copy(), store.copy(), np.zeros((5, 6), np.float32)]
    assert Compiled(k)(*out) == 0
    np.testing.assert_array_equal(out[2], store[:, :5].T)


def test_overlapping_copy_goes_through_a_tile() -> None:
    a, t = tensor("A", (10,), "int32"), tile("t", (10,), "int32")
    body = [Copy(whole(a), whole(t)), Copy(box(t, (0,), (8,)), box(t, (2,), (8,))), Copy(whole(t), whole(a))]
    out = agree(moved(body, [t], tensors=[a]), [np.arange(10, dtype=np.int32)])
    np.testing.assert_array_equal(out[0], [0, 1, 0, 1, 2, 3, 4, 5, 6, 7])


@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_packed_nibbles(kind: str) -> None:
    """4-bit elements lie two to a byte; odd starts and lengths work."""
    a, b, t = tensor("A", (5, 7), "int8"), tensor("B", (5, 7), "int8"), tile("t", (5, 7), kind)
    body = [Copy(whole(a), whole(t)), Copy(box(t, (1, 2), (3, 5)), box(b, (0, 1), (3, 5)))]
    x = np.random.default_rng(0).integers(0, 7, (5, 7)).astype(np.int8)
    out = agree(moved(body, [t], tensors=[a, b]), [x, np.zeros((5, 7), np.int8)])
    np.testing.assert_array_equal(out[1][:3, 1:6], x[1:4, 2:7])


def test_fill_clips_and_evaluates_once() -> None:
    a, t = tensor("A", (10, 10)), tile("t", (4, 6))
    bx = Var("bx")
    body = [Fill(box(a, (op("sub", mul(bx, 6), 3), 7), (5, 6)), at(a, 0, 0)), Fill(whole(t), const(2.5, F32))]
    body.append(Fill(box(t, (1, 1), (2, 3)), const(0.5, F32)))
    body.append(Copy(whole(t), box(a, (4, 0), (4, 6))))
    k = moved(body, [t], (1,), [a])
    agree(k, [random_array((10, 10), "float32")])


def test_dynamic_dims_and_zero_sizes() -> None:
    """One compilation serves every size, also none at all."""
    m, n = Var("m"), Var("n")
    a, b, t = tensor("A", (m, n)), tensor("B", (m, n)), tile("t", (8, 8))
    bx, by, k = Var("bx"), Var("by"), Var("k")
    body = [
        For(k, ix(0), op("floordiv", add(n, 7), 8), (
            Copy(box(a, (mul(by, 8), mul(k, 8)), (8, 8)), whole(t)),
            Copy(whole(t), box(b, (mul(by, 8), mul(k, 8)), (8, 8))),
        )),
    ]  # fmt: skip
    kern = kernel("sized", [a, b], [block((1, op("floordiv", add(m, 7), 8)), (bx, by), body, [t])], dims=(m, n))
    for rows, columns in ((8, 8), (5, 13), (17, 1), (0, 4), (3, 0), (0, 0)):
        x = random_array((rows, columns), "float32")
        out = agree(kern, [x, np.zeros_like(x)], dims={"m": rows, "n": columns}, threads=2)
        np.testing.assert_array_equal(out[1], x)


def test_symbolic_extents() -> None:
    """A region of a global buffer may have an extent that only the call knows."""
    n = Var("n")
    a, b = tensor("A", (n, 6), "int32"), tensor("B", (n, 6), "int32")
    body = [Copy(box(a, (1, 0), (op("sub", n, 1), 6)), box(b, (0, 0), (op("sub", n, 1), 6)))]
    kern = kernel("shift", [a, b], [block((1,), (Var("bx"),), body)], dims=(n,))
    for rows in (1, 2, 9):
        x = random_array((rows, 6), "int32")
        out = agree(kern, [x, np.zeros_like(x)], dims={"n": rows})
        np.testing.assert_array_equal(out[1][:-1], x[1:])


def test_conversions_of_every_storage_type() -> None:
    kinds = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float64", "int8", "uint8", "int64", "bool"]
    body, tensors, tiles, arrays = [], [], [], []
    for n, kind in enumerate(kinds):
        source, middle, target = tensor(f"A{n}", (37,), "float32"), tile(f"t{n}", (37,), kind), tensor(f"B{n}", (37,), "float32")
        body += [Copy(whole(source), whole(middle)), Copy(whole(middle), whole(target))]
        tensors += [source, target]
        tiles.append(middle)
        x = (np.random.default_rng(n).standard_normal(37) * 30).astype(np.float32)
        arrays += [x, np.zeros(37, np.float32)]
    assert DType("bool").is_bool
    agree(moved(body, tiles, tensors=tensors), arrays)


def test_store_into_a_tile_at_a_proved_fault_is_an_error() -> None:
    t = tile("t", (8,))
    with pytest.raises(TileBoundsError, match="outside t"):
        source_of(moved([put(t, 9, 1.0)], [t]))

"""Storage of the interpreter: dtypes, 4-bit packing, views, strides, workspaces."""

from __future__ import annotations

import numpy as np
import pytest
from handmade import BX, TX, I, J, add, at, box, buf, cast, copy, kernel, launch, mul, one_block, op, outputs, par, put, select, shared, whole, zeros

from tileworkbench.base.dtypes import DType
from tileworkbench.base.errors import InternalError, UnsupportedError
from tileworkbench.ir.expr import Buffer, Const, Var
from tileworkbench.ir.stmt import Atomic, Fill, For, If, ScalarParam, TensorParam

NAMES = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "int64", "uint16", "uint64", "bool", "int4", "uint4"]


def random(shape, dtype, seed=0):
    dtype = DType(dtype)
    r = np.random.default_rng(seed)
    if dtype.is_float:
        return r.standard_normal(shape).astype(dtype.to_numpy())
    low, high = (0, 2) if dtype.is_bool else (max(dtype.min, -100), min(dtype.max, 100) + 1)
    return r.integers(low, high, shape).astype(np.int8 if dtype.bits == 4 else dtype.to_numpy()).astype(dtype.to_numpy())


@pytest.mark.parametrize("dtype", NAMES)
def test_every_dtype_survives_a_trip(dtype):
    """Global to tile, element by element to another tile, and back, at an odd number of elements."""
    a, out = buf("a", 3, 5, dtype=dtype), buf("out", 3, 5, dtype=dtype)
    s, t = shared("s", 3, 5, dtype=dtype), shared("t", 3, 5, dtype=dtype)
    k = one_block([a, out], copy(a, s), par((I, J), (3, 5), put(t, (I, J), at(s, I, J))), copy(t, out), allocs=(s, t))
    x = random((3, 5), dtype)
    np.testing.assert_array_equal(outputs(k, x, np.zeros_like(x)), x)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_packed_bytes_hold_the_low_half_first(dtype):
    a, out = buf("a", 2, 4, dtype=dtype), buf("out", 2, 4, dtype="int32")
    k = one_block([a, out], par((I, J), (2, 4), put(out, (I, J), cast(at(a, I, J), "int32"))))
    packed = np.array([[0x21, 0x9F], [0x08, 0x70]], np.uint8)
    want = np.array([[1, 2, 15, 9], [8, 0, 0, 7]])
    np.testing.assert_array_equal(outputs(k, packed, zeros(2, 4, dtype="int32")), want if dtype == "uint4" else (want ^ 8) - 8)


def test_packed_outputs_are_written_in_place():
    out = buf("out", 2, 4, dtype="uint4")
    k = one_block([out], par((I, J), (2, 4), If(op("ne", J, 1), (put(out, (I, J), cast(add(I, J), "uint4")),))))
    packed = np.full((2, 2), 0xAA, np.uint8)
    outputs(k, packed)
    np.testing.assert_array_equal(packed, [[0xA0, 0x32], [0xA1, 0x43]])


def test_uint8_seen_as_int4():
    """A view shares storage in both directions."""
    a, out = buf("a", 4, dtype="uint8"), buf("out", 8, dtype="int32")
    t = shared("t", 4, dtype="uint8")
    nibbles = Buffer("nibbles", (Const(8),), DType("int4"), "shared", view_of=t)
    body = (copy(a, t), par(I, 8, put(out, I, cast(at(nibbles, I), "int32"))), Fill(box(nibbles, (2, 3)), Const(-1, DType("int4"))), copy(t, a))
    x = np.array([0x21, 0x43, 0xFE, 0x80], np.uint8)
    got = outputs(one_block([a, out], *body, allocs=(t, nibbles)), x, zeros(8, dtype="int32"))
    np.testing.assert_array_equal(got, [1, 2, 3, 4, -2, -1, 0, -8])
    np.testing.assert_array_equal(x, [0x21, 0xFF, 0xFF, 0x80])


def test_reshaped_and_retyped_views_on_chip():
    a, out = buf("a", 4, 6), buf("out", 8, 3)
    t = shared("t", 4, 6)
    flat = Buffer("flat", (Const(8), Const(3)), DType("float32"), "shared", view_of=t)
    bits = Buffer("bits", (Const(24),), DType("int32"), "shared", view_of=flat)
    half = Buffer("half", (Const(4), Const(3)), DType("float32"), "shared", view_of=t, offset=Const(12))
    body = (copy(a, t), put(bits, 5, 0x3F800000), Fill(box(half, 3, (0, 3)), Const(7.0, DType("float32"))), copy(flat, out))
    x = random((4, 6), "float32")
    want = x.reshape(8, 3).copy()
    want[1, 2], want[7] = 1.0, 7.0
    np.testing.assert_array_equal(outputs(one_block([a, out], *body, allocs=(t, flat, bits, half)), x, zeros(8, 3)), want)


def test_views_of_arguments_with_run_time_shape_and_offset():
    n = Var("n")
    a, out = buf("a", n), buf("out", n, dtype="int32")
    bits = Buffer("bits", (n,), DType("int32"), view_of=a)
    tail = Buffer("tail", (op("sub", n, 2),), DType("float32"), view_of=a, offset=Const(2))
    block = Buffer("block", (Const(2),), DType("float32"), view_of=a, offset=mul(BX, 2))
    body = (par(I, n, put(out, I, at(bits, I))), put(tail, 0, 5), put(block, 1, 9))
    x = random(6, "float32")
    before = x.copy()
    got = outputs(kernel([a, out], launch(1, body), dims=(n,)), x, zeros(6, dtype="int32"))
    np.testing.assert_array_equal(got, before.view(np.int32))
    assert x[2] == 5
    assert x[1] == 9
    np.testing.assert_array_equal(x[[0, 3, 4, 5]], before[[0, 3, 4, 5]])


def test_views_of_thread_local_arrays():
    """Each thread writes bytes and reads them as one word."""
    out = buf("out", 8, dtype="uint32")
    r = buf("r", 4, dtype="uint8", scope="local")
    word = Buffer("word", (Const(1),), DType("uint32"), "local", view_of=r)
    nibble = Buffer("nibble", (Const(8),), DType("uint4"), "local", view_of=r)
    body = (
        Fill(whole(r), Const(0, DType("uint8"))),
        put(r, 1, cast(TX, "uint8")),
        put(r, op("floormod", TX, 4), 0xFF),
        put(nibble, op("floormod", TX, 8), 3),
        put(out, TX, at(word, 0)),
    )
    got = outputs(one_block([out], *body, allocs=(r, word, nibble), threads=8, used=True), zeros(8, dtype="uint32"))
    want = []
    for t in range(8):
        data = bytearray(4)
        data[1] = t
        data[t % 4] = 0xFF
        place, shift = (t % 8) // 2, 4 * (t % 2)
        data[place] = (data[place] & ~(15 << shift)) | (3 << shift)
        want.append(int.from_bytes(data, "little"))
    np.testing.assert_array_equal(got, want)


def test_iteration_private_views_in_parallel_loops():
    out = buf("out", 6, dtype="int32")
    v = buf("v", 1, scope="local")
    bits = Buffer("bits", (Const(1),), DType("int32"), "local", view_of=v)
    k = one_block(
        [out],
        put(v, 0, 2.0),
        put(out, 1, at(bits, 0)),
        par(I, 6, put(v, 0, cast(I, "float32")), put(out, I, at(bits, 0))),
        put(out, 0, at(bits, 0)),
        allocs=(v, bits),
    )
    want = np.arange(6, dtype=np.float32).view(np.int32)
    want[0] = np.float32(2).view(np.int32)
    np.testing.assert_array_equal(outputs(k, zeros(6, dtype="int32")), want)


def test_a_view_larger_than_its_storage_is_a_fault_of_ours():
    t = shared("t", 4)
    big = Buffer("big", (Const(5),), DType("float32"), "shared", view_of=t)
    with pytest.raises(InternalError, match="larger than the storage"):
        outputs(one_block([buf("out", 1)], Fill(whole(big), Const(0.0, DType("float32"))), allocs=(t, big)), zeros(1))


def test_strided_tensors():
    n = Var("n")
    a = buf("a", 4, 5, strides=(n, Const(2)))
    out = buf("out", 4, 5)
    memory = random((4, 12), "float32")
    x = memory[:, 1:11:2]
    k = kernel([a, out], launch(1, (copy(a, out), par((I, J), (4, 5), put(a, (I, J), mul(at(a, I, J), 2))))), dims=(n,))
    before = memory.copy()
    np.testing.assert_array_equal(outputs(k, x, zeros(4, 5)), before[:, 1:11:2])
    np.testing.assert_array_equal(memory[:, 1:11:2], 2 * before[:, 1:11:2])
    np.testing.assert_array_equal(memory[:, ::2], before[:, ::2])


def test_a_retyped_view_of_a_strided_tensor_is_refused():
    a, out = buf("a", 4, 5, strides=(Const(10), Const(2))), buf("out", 20, dtype="int32")
    bits = Buffer("bits", (Const(20),), DType("int32"), view_of=a)
    with pytest.raises(UnsupportedError, match="not contiguous"):
        outputs(one_block([a, out], copy(bits, out)), np.zeros((4, 10), np.float32)[:, ::2], zeros(20, dtype="int32"))


def test_padded_tiles():
    """Strides on chip leave the padding alone."""
    a, out = buf("a", 3, 4), buf("out", 3, 4)
    t = shared("t", 3, 4)
    padded = Buffer("padded", t.shape, t.type, "shared", strides=(Const(7), Const(1)))
    x = random((3, 4), "float32")
    np.testing.assert_array_equal(outputs(one_block([a, out], copy(a, padded), copy(padded, out), allocs=(padded,)), x, zeros(3, 4)), x)


def test_workspaces_pass_data_between_launches():
    n = Var("n")
    a, out, w = buf("a", n), buf("out", n), buf("w", n, 2)
    first = launch(n, (put(w, (BX, 0), at(a, BX)), put(w, (BX, 1), mul(at(a, BX), at(a, BX)))))
    second = launch(n, (put(out, BX, add(at(w, op("sub", op("sub", n, 1), BX), 0), at(w, BX, 1))),))
    x = random(5, "float32")
    np.testing.assert_array_equal(outputs(kernel([a, out], first, second, dims=(n,), workspaces=(w,)), x, zeros(5)), x[::-1] + x * x)


def test_scalars_and_dims():
    n, s, h = Var("n"), Var("s", DType("float32")), Var("h", DType("float16"))
    out = buf("out", n)
    body = (par(I, n, put(out, I, add(s, cast(h, "float32")))),)
    k = kernel([out, s, ScalarParam(h, 0.1)], launch(1, body), dims=(n,))
    for arguments in ({"scalars": {"s": 2}}, {"scalars": {"s": 2, "h": 0.1}, "dims": {"n": 3}}):
        np.testing.assert_array_equal(outputs(k, zeros(3), **arguments), np.float32(2) + np.float32(np.float16(0.1)))
    with pytest.raises(InternalError, match="no value for the scalar s"):
        outputs(k, zeros(3))
    with pytest.raises(InternalError, match="takes 1 arrays"):
        outputs(k, zeros(3), zeros(3), scalars={"s": 1})


def test_arrays_of_one_width_are_reinterpreted():
    """A framework without bfloat16 in NumPy hands over the bits."""
    a, out = buf("a", 4, dtype="bfloat16"), buf("out", 4)
    k = one_block([TensorParam(a), out], par(I, 4, put(out, I, cast(at(a, I), "float32"))))
    x = np.array([1.5, -2, 0.25, 8], np.float32)
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    np.testing.assert_array_equal(outputs(k, bits, zeros(4)), x)
    with pytest.raises(InternalError, match="the array is float64"):
        outputs(k, np.zeros(4), zeros(4))


# ---------------------------------------------------------------------------------------------- atomics
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float16", "bfloat16", "uint8", "float64"])
@pytest.mark.parametrize("name", ["add", "max", "min"])
def test_atomics_under_contention(name, dtype):
    x, bins = random(200, dtype, 1), np.random.default_rng(2).integers(-1, 8, 200).astype(np.int32)
    if DType(dtype).is_float:
        x = (x.astype(np.float32) * 4).round().astype(x.dtype)  # sums that no order rounds
    a, b, out = buf("a", 200, dtype=dtype), buf("b", 200, dtype="int32"), buf("out", 7, dtype=dtype)
    body = par(I, 200, Atomic(name, box(out, at(b, I)), at(a, I)))
    start = random(7, "int8", 3).astype(np.int32).clip(0).astype(x.dtype)
    want = start.astype(np.float64)
    for value, place in zip(x.astype(np.float64), bins):
        if 0 <= place < 7:
            want[place] = {"add": want[place] + value, "max": max(want[place], value), "min": min(want[place], value)}[name]
    got = outputs(one_block([a, b, out], body), x, bins, start.copy())
    if dtype == "uint8":
        want = want % 256
    np.testing.assert_array_equal(got.astype(np.float64), want)


@pytest.mark.parametrize(("name", "fold"), [("or", np.bitwise_or), ("and", np.bitwise_and), ("xor", np.bitwise_xor)])
def test_bitwise_atomics(name, fold):
    x = random(64, "int32", 4)
    a, out = buf("a", 64, dtype="int32"), buf("out", 2, dtype="int32")
    got = outputs(one_block([a, out], par(I, 64, Atomic(name, box(out, op("floormod", I, 2)), at(a, I)))), x, np.array([5, 12], np.int32))
    np.testing.assert_array_equal(got, [fold.reduce(x[::2], initial=5), fold.reduce(x[1::2], initial=12)])


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
def test_previous_values_follow_some_order(dtype):
    """A counter hands out every slot once, also to lanes that share a block and skip some."""
    out, c = buf("out", 300, dtype=dtype), buf("c", 3, dtype=dtype)
    slot = Var("slot", DType(dtype))
    take = Atomic("add", box(c, op("floormod", I, 3)), Const(1, DType(dtype)) if dtype != "float32" else Const(1.0, DType(dtype)), slot)
    body = par(I, 100, If(op("ne", op("floormod", I, 5), 0), (take, put(out, add(I, mul(BX, 100)), slot))))
    got_c = np.zeros(3, DType(dtype).to_numpy())
    got = outputs(kernel([c, out], launch(3, (body,))), got_c, np.full(300, 250, DType(dtype).to_numpy()))
    for r in range(3):
        mine = [int(got[b * 100 + i]) for b in range(3) for i in range(100) if i % 5 and i % 3 == r]
        assert sorted(mine) == list(range(len(mine)))
        assert got_c[r] == len(mine)


@pytest.mark.parametrize("name", ["max", "exch", "min", "xor"])
def test_previous_values_of_other_operations(name):
    x = random(50, "int32", 5)
    a, c, out, old = buf("a", 50, dtype="int32"), buf("c", 1, dtype="int32"), buf("out", 50, dtype="int32"), Var("old", DType("int32"))
    cell = np.array([3], np.int32)
    got = outputs(one_block([a, c, out], par(I, 50, Atomic(name, box(c, 0), at(a, I), old), put(out, I, old))), x, cell, zeros(50, dtype="int32"))
    now = 3
    for i in range(50):
        assert got[i] == now
        now = {"max": max(now, x[i]), "min": min(now, x[i]), "exch": x[i], "xor": now ^ x[i]}[name]
    assert cell[0] == now


def test_atomic_load_store_and_out_of_bounds():
    c, out, v = buf("c", 4, dtype="int32", safe_value=-9), buf("out", 8, dtype="int32"), Var("v", DType("int32"))
    read = par(I, 8, Atomic("load", box(c, op("sub", I, 2)), None, v), put(out, I, v))
    write = par(I, 8, Atomic("store", box(c, op("sub", I, 2)), cast(I, "int32")))
    cells = np.array([1, 2, 3, 4], np.int32)
    got = outputs(one_block([c, out], read, write), cells, zeros(8, dtype="int32"))
    np.testing.assert_array_equal(got, [-9, -9, 1, 2, 3, 4, -9, -9])
    np.testing.assert_array_equal(cells, [2, 3, 4, 5])


def test_atomic_of_one_value_in_a_block():
    c, out, v = buf("c", 1), buf("out", 4), Var("v", DType("float32"))
    body = (Atomic("add", box(c, 0), cast(add(BX, 1), "float32"), v), put(out, BX, v))
    cell = zeros(1)
    got = outputs(kernel([c, out], launch(4, body)), cell, zeros(4))
    assert sorted([*np.diff(np.sort(got)), cell[0] - got.max()]) == [1, 2, 3, 4]


def test_atomic_tiles_convert_and_guard():
    a, c, t = buf("a", 4, 4, dtype="float16"), buf("c", 3, 4), shared("t", 4, 4, dtype="float16")
    k = kernel([a, c], launch(3, (copy(a, t), Atomic("add", box(c, (1, 4), (0, 4)), whole(t))), (t,)))
    x, cells = random((4, 4), "float16"), np.ones((3, 4), np.float32)
    outputs(k, x, cells)
    want = np.ones((3, 4))
    for _ in range(3):
        want[1:] = (want[1:].astype(np.float32) + x[:2].astype(np.float32)).astype(np.float32)
    np.testing.assert_array_equal(cells, want)


def test_atomics_of_threads():
    out, n = buf("out", 3, dtype="int32"), Var("old", DType("int32"))
    slots = buf("slots", 96, dtype="int32")
    body = (
        If(
            op("lt", op("floormod", TX, 4), 3),
            (Atomic("add", box(out, op("floormod", TX, 4)), select(op("lt", TX, 48), Const(1, n.type), Const(2, n.type)), n), put(slots, TX, n)),
        ),
    )
    got_out, got_slots = zeros(3, dtype="int32"), np.full(96, -1, np.int32)
    outputs(one_block([out, slots], *body, threads=96, used=True), got_out, got_slots)
    np.testing.assert_array_equal(got_out, [12 + 24] * 3)
    for r in range(3):
        assert [got_slots[t] for t in range(r, 96, 4)] == [*range(12), *range(12, 36, 2)]
    assert (got_slots[3::4] == -1).all()


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int32", "int4"])
def test_indices_of_any_integer_dtype(dtype):
    a, p, out = buf("a", 300), buf("p", 6, dtype=dtype), buf("out", 6)
    x, order = random(300, "float32"), np.array([3, 7, 0, 5, 5, 1]).astype(DType(dtype).to_numpy())
    k = one_block([a, p, out], par(I, 6, Atomic("add", box(out, at(p, I)), at(a, at(p, I)))))
    want = np.zeros(6, np.float32)
    for at_ in order.astype(int):
        if at_ < 6:
            want[at_] += x[at_]
    np.testing.assert_array_equal(outputs(k, x, order, zeros(6)), want)
    single = one_block([a, p, out], put(out, at(p, 2), at(a, at(p, 1))))
    np.testing.assert_array_equal(outputs(single, x, order, zeros(6)), [x[7], 0, 0, 0, 0, 0])


def test_loop_variables_may_have_other_dtypes_than_index():
    """Arithmetic on a narrow loop variable wraps in its dtype."""
    small, lane = Var("small", DType("int8")), Var("lane", DType("uint8"))
    out = buf("out", 4, 2, dtype="int32")
    body = For(small, Const(0), Const(4), (put(out, (small, 0), cast(mul(small, 100), "int32")),))
    lanes = par(lane, 4, put(out, (lane, 1), cast(op("sub", lane, 1), "int32")))
    got = outputs(one_block([out], body, lanes), zeros(4, 2, dtype="int32"))
    np.testing.assert_array_equal(got, [[0, 255], [100, 0], [-56, 1], [44, 2]])

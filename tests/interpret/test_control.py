"""Control flow of the interpreter: of a whole block and of parallel iterations."""

from __future__ import annotations

import numpy as np
import pytest
from handmade import (
    BX,
    TX,
    I,
    J,
    K,
    add,
    at,
    buf,
    cast,
    kernel,
    launch,
    mul,
    num,
    one_block,
    op,
    outputs,
    par,
    put,
    select,
    shared,
    whole,
    zeros,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tileworkbench.base.dtypes import FLOAT32, INT32
from tileworkbench.base.errors import DeviceAssertError, UnsupportedError
from tileworkbench.ir.expr import AddressOf, CallExtern, Const, Var
from tileworkbench.ir.stmt import (
    Assert,
    Break,
    Continue,
    Evaluate,
    Fill,
    For,
    If,
    Let,
    PipelinedFor,
    Print,
    Return,
    Sync,
    While,
)

X = Var("x")
ONE = num(1, "int32")


def bump(buffer, index, by=1):
    """`buffer[index] += by`."""
    return put(buffer, index, add(at(buffer, index), by))


# ---------------------------------------------------------------------------------------------- the block
@pytest.mark.parametrize(("start", "stop", "step"), [(0, 5, 1), (5, 0, 1), (0, 0, 1), (-3, 4, 2), (4, -3, -2), (0, 5, -1), (10, -1, -5), (-7, -2, 3)])
def test_for(start, stop, step):
    out = buf("out", 12, dtype="int64")
    n = buf("n", 1, scope="var", dtype="int64")
    loop = For(K, Const(start), Const(stop), (put(out, at(n, 0), K), bump(n, 0)), step)
    got = outputs(one_block([out], put(n, 0, 0), loop, put(out, 11, at(n, 0)), allocs=(n,)), np.full(12, 99, np.int64))
    want = list(range(start, stop, step))
    np.testing.assert_array_equal(got, want + [99] * (11 - len(want)) + [len(want)])


def test_bounds_are_evaluated_once():
    out, n = buf("out", 1, dtype="int64"), buf("n", 1, scope="var", dtype="int64")
    loop = For(K, Const(0), at(n, 0), (put(n, 0, 100), bump(out, 0)))
    assert outputs(one_block([out], put(n, 0, 3), loop, allocs=(n,)), np.zeros(1, np.int64))[0] == 3


def test_a_let_keeps_its_value():
    """An immutable value is that of the moment, not a name for an expression."""
    out, t, n = buf("out", 4), shared("t", 4), buf("n", 1, scope="var")
    v = Var("v", FLOAT32)
    scalar = (put(n, 0, 1), Let(v, at(n, 0)), put(n, 0, 2), put(out, 0, v))
    assert outputs(one_block([out], *scalar, allocs=(n,)), zeros(4))[0] == 1
    w = Var("w", FLOAT32)
    lanes = par(I, 4, Let(w, at(t, I)), put(t, I, 5), put(out, I, w))
    np.testing.assert_array_equal(outputs(one_block([out], Fill(whole(t), num(3)), lanes, allocs=(t,)), zeros(4)), 3)


def test_nested_loops_break_and_continue():
    out = buf("out", 3, dtype="int64")
    inner = For(J, Const(0), Const(10), (If(op("eq", J, 2), (Continue(),)), If(op("gt", J, add(K, 2)), (Break(),)), bump(out, K)))
    outer = For(
        K, Const(0), Const(10), (If(op("ge", K, 3), (Break(),)), inner, If(op("eq", K, 1), (Continue(), bump(out, 0, 100))), bump(out, K, 10))
    )
    want = np.zeros(3, np.int64)
    for k in range(10):
        if k >= 3:
            break
        for j in range(10):
            if j == 2:
                continue
            if j > k + 2:
                break
            want[k] += 1
        if k == 1:
            continue
        want[k] += 10
    np.testing.assert_array_equal(outputs(one_block([out], outer), np.zeros(3, np.int64)), want)


def test_break_leaves_a_pipelined_loop():
    out = buf("out", 1, dtype="int64")
    loop = PipelinedFor(K, Const(0), Const(10), (If(op("eq", K, 4), (Break(),)), bump(out, 0)), 2)
    assert outputs(one_block([out], loop), np.zeros(1, np.int64))[0] == 4


def test_while():
    out, n = buf("out", 1, dtype="int64"), buf("n", 1, scope="var", dtype="int64")
    loop = While(op("lt", at(n, 0), 50), (bump(n, 0, 7), If(op("eq", op("floormod", at(n, 0), 2), 0), (Continue(),)), bump(out, 0)))
    assert outputs(one_block([out], put(n, 0, 0), loop, allocs=(n,)), np.zeros(1, np.int64))[0] == sum(n % 2 for n in range(7, 57, 7))
    never = While(op("lt", at(n, 0), 0), (bump(out, 0),))
    assert outputs(one_block([out], put(n, 0, 0), never, allocs=(n,)), np.zeros(1, np.int64))[0] == 0


def test_return_ends_the_block_and_no_other():
    out = buf("out", 4, dtype="int64")
    body = (put(out, BX, 1), For(K, Const(0), Const(9), (If(op("eq", op("floormod", BX, 2), 0), (Return(),)),)), put(out, BX, 2))
    np.testing.assert_array_equal(outputs(kernel([out], launch(4, body)), np.zeros(4, np.int64)), [1, 2, 1, 2])


def test_grids_of_three_dims():
    by, bz = Var("by"), Var("bz")
    out = buf("out", 2, 3, 4, dtype="int64")
    body = (put(out, (bz, by, BX), add(BX, add(mul(by, 10), mul(bz, 100)))),)
    got = outputs(kernel([out], launch((4, 3, 2), body)), np.zeros((2, 3, 4), np.int64))
    np.testing.assert_array_equal(got, np.add.outer(np.arange(2) * 100, np.add.outer(np.arange(3) * 10, np.arange(4))))


def test_an_empty_grid_does_nothing():
    n = Var("n")
    a, out = buf("a", n), buf("out", 1)
    k = kernel([a, out], launch(n, (put(out, 0, 1),)), dims=(n,))
    assert outputs(k, zeros(0), zeros(1))[0] == 0
    assert outputs(k, zeros(2), zeros(1))[0] == 1


def test_host_level_control_flow():
    """Launches see what earlier ones wrote, under host loops, conditions and lets."""
    out, s = buf("out", 4, dtype="int64"), Var("s")
    step = launch(4, (bump(out, BX, mul(K, s)),))
    body = (Let(X, add(s, 1)), For(K, Const(0), X, (If(op("ne", K, 2), (step,)),)))
    got = outputs(kernel([out, s], *body), np.zeros(4, np.int64), scalars={"s": 3})
    np.testing.assert_array_equal(got, (0 + 1 + 3) * 3)


# ---------------------------------------------------------------------------------------------- parallel iterations
def test_parallel_under_if_else():
    a, out = buf("a", 4, 5), buf("out", 4, 5)
    body = If(op("lt", at(a, I, J), 0), (put(out, (I, J), mul(at(a, I, J), -1)),), (put(out, (I, J), add(at(a, I, J), 10)),))
    x = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
    got = outputs(one_block([a, out], par((I, J), (4, 5), body)), x, zeros(4, 5))
    np.testing.assert_array_equal(got, np.where(x < 0, -x, x + np.float32(10)))


def test_parallel_with_a_condition_on_one_axis():
    out = buf("out", 4, 5)
    k = one_block([out], par((I, J), (4, 5), If(op("lt", J, 2), (put(out, (I, J), 1),), (If(op("eq", I, 3), (put(out, (I, J), 2),)),))))
    want = np.zeros((4, 5))
    want[:, :2] = 1
    want[3, 2:] = 2
    np.testing.assert_array_equal(outputs(k, zeros(4, 5)), want)


def test_parallel_inner_loop_with_bounds_that_differ():
    """Lower-triangular sums: iteration i runs j in range(i)."""
    a, out, s = buf("a", 6, 6), buf("out", 6), buf("s", 1, scope="var")
    body = (put(s, 0, 0), For(J, Const(0), I, (put(s, 0, add(at(s, 0), at(a, I, J))),)), put(out, I, at(s, 0)))
    x = np.random.default_rng(1).integers(-9, 9, (6, 6)).astype(np.float32)
    got = outputs(one_block([a, out], par(I, 6, *body), allocs=(s,)), x, zeros(6))
    np.testing.assert_array_equal(got, np.tril(x, -1).sum(1))


def test_parallel_inner_loop_breaks_per_iteration():
    """The first position of each value in a row, by searching."""
    a, out = buf("a", 5, 8, dtype="int32"), buf("out", 5, dtype="int64")
    search = For(J, Const(0), Const(8), (If(op("eq", at(a, I, J), 3), (put(out, I, J), Break())),))
    x = np.random.default_rng(2).integers(0, 5, (5, 8)).astype(np.int32)
    x[4] = 0
    got = outputs(one_block([a, out], par(I, 5, search)), x, np.full(5, -1, np.int64))
    np.testing.assert_array_equal(got, [list(row).index(3) if 3 in row else -1 for row in x])


def test_parallel_gathers_permute_and_repeat():
    a, out, p = buf("a", 4, 6), buf("out", 6, 4), buf("p", 6, dtype="int32")
    x, order = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32), np.array([3, -1, 0, 5, 6, 3], np.int32)
    body = put(out, (J, I), at(a, I, at(p, J)))
    got = outputs(one_block([a, p, out], par((I, J), (4, 6), body)), x, order, zeros(6, 4))
    want = np.where((order >= 0) & (order < 6), x[:, order.clip(0, 5)], 0).T
    np.testing.assert_array_equal(got, want)


@settings(max_examples=20, deadline=None)
@given(st.permutations([0, 1, 2]), st.permutations([0, 1, 2]), st.integers(0, 2))
def test_parallel_accesses_in_any_order_of_the_axes(source, target, missing):
    """out[permuted] = a[permuted], and without one axis, over a box of three different extents."""
    names, extents = (I, J, K), (2, 3, 4)
    used = [axis for axis in source if axis != missing]
    a, out = buf("a", *(extents[s] for s in used)), buf("out", *(extents[t] for t in target))
    body = put(out, tuple(names[t] for t in target), at(a, *(names[s] for s in used)))
    x = np.random.default_rng(0).standard_normal(tuple(extents[s] for s in used)).astype(np.float32)
    ordered = np.expand_dims(x if used == sorted(used) else x.T, missing)
    want = np.broadcast_to(ordered, extents).transpose(target)
    np.testing.assert_array_equal(outputs(one_block([a, out], par(names, extents, body)), x, zeros(*(extents[t] for t in target))), want)


def test_parallel_transposed_and_diagonal_accesses():
    a, out, d = buf("a", 5, 5), buf("out", 5, 5), buf("d", 5)
    x = np.random.default_rng(4).standard_normal((5, 5)).astype(np.float32)
    k = one_block([a, out, d], par((I, J), (5, 5), put(out, (J, I), at(a, I, J))), par(I, 5, put(d, I, at(a, I, I))))
    got_t, got_d = zeros(5, 5), zeros(5)
    outputs(k, x, got_t, got_d)
    np.testing.assert_array_equal(got_t, x.T)
    np.testing.assert_array_equal(got_d, np.diag(x))


def test_many_iterations_that_write_one_element_leave_one_of_the_values():
    out = buf("out", 3)
    got = outputs(one_block([out], par((I, J), (3, 4), put(out, I, add(mul(cast(I, "float32"), 10), cast(J, "float32"))))), zeros(3))
    assert all(v in [10 * i + j for j in range(4)] for i, v in enumerate(got))


def test_a_thread_local_buffer_belongs_to_the_iteration():
    out, v, w = buf("out", 8), buf("v", 1, scope="var"), buf("w", 2, scope="local")
    body = (
        put(v, 0, cast(I, "float32")),
        put(w, op("floormod", I, 2), at(v, 0)),
        If(op("gt", I, 3), (put(v, 0, 0),)),
        put(out, I, add(at(v, 0), at(w, 1))),
    )
    k = one_block([out], put(v, 0, 42), par(I, 8, *body), put(out, 0, at(v, 0)), allocs=(v, w))
    want = [i * (i <= 3) + i * (i % 2) for i in range(8)]
    np.testing.assert_array_equal(outputs(k, zeros(8)), [42, *want[1:]])


@pytest.mark.parametrize("extent", [0, -4])
def test_parallel_loops_without_iterations(extent):
    out, n = buf("out", 2), Var("n")
    k = kernel([out, n], launch(1, (par((I, J), (2, n), put(out, I, 1)), For(K, n, Const(0), (), 1))))
    np.testing.assert_array_equal(outputs(k, zeros(2), scalars={"n": extent}), 0)


def test_lazy_select_guards_a_load():
    a, out, n = buf("a", 4), buf("out", 4), shared("n", 4)
    value = select(op("and", op("ge", add(I, -1), 0), op("lt", I, 9)), at(a, add(I, -1)), num(-1))
    np.testing.assert_array_equal(
        outputs(one_block([a, out], par(I, 4, put(out, I, value)), allocs=(n,)), np.arange(4, dtype=np.float32), zeros(4)), [-1, 0, 1, 2]
    )


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(-4, 6), st.integers(-4, 6), st.integers(-2, 2), st.booleans())
def test_guarded_element_accesses(rows, cols, di, dj, scale, masked):
    """out[i + di, j * scale] = a[i + di, j + dj]: slices where all is inside, gathers with the safe value elsewhere."""
    a, out = buf("a", 4, 4, safe_value=5.0), buf("out", 4, 4)
    write = put(out, (add(I, di), mul(J, scale)), at(a, add(I, di), add(J, dj)))
    body = If(op("ne", I, J), (write,)) if masked else write
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    got = outputs(one_block([a, out], par((I, J), (rows, cols), body)), x, np.full((4, 4), -1, np.float32))
    possible = [[{-1.0} if True else set() for _ in range(4)] for _ in range(4)]
    for i in range(rows):
        for j in range(cols):
            if (masked and i == j) or not (0 <= i + di < 4 and 0 <= j * scale < 4):
                continue
            value = x[i + di, j + dj] if 0 <= j + dj < 4 else 5.0
            cell = possible[i + di][j * scale]
            cell.discard(-1.0)
            cell.add(float(value))
    assert all(float(got[i, j]) in possible[i][j] for i in range(4) for j in range(4))


# ---------------------------------------------------------------------------------------------- the rest
def test_assert():
    out = buf("out", 4)
    outputs(one_block([out], par(I, 4, Assert(op("lt", I, 4), "never"))), zeros(4))
    with pytest.raises(DeviceAssertError, match="i is 3"):
        outputs(one_block([out], par(I, 4, If(op("gt", I, 1), (Assert(op("ne", I, 3), "i is 3"),)))), zeros(4))
    with pytest.raises(DeviceAssertError, match="does not hold"):
        outputs(one_block([out], Assert(op("lt", at(out, 0), 0))), zeros(4))


def test_print(capsys):
    out, t = buf("out", 2, dtype="int32"), shared("t", 2)
    k = kernel([out], launch(2, (Print("block", (BX, num(1.5))), Fill(whole(t), num(2)), Print("t", (), t)), (t,)))
    outputs(k, zeros(2, dtype="int32"))
    assert (
        capsys.readouterr().out == "block 0 1.500000\nt [0] = 2.000000\nt [1] = 2.000000\n" + "block 1 1.500000\nt [0] = 2.000000\nt [1] = 2.000000\n"
    )
    threads = one_block([out], If(op("ge", TX, 2), (Print("", (TX,)),)), threads=4, used=True)
    outputs(threads, zeros(2, dtype="int32"))
    assert capsys.readouterr().out == "2\n3\n"


@pytest.mark.parametrize("call", [CallExtern("f", (), INT32), AddressOf(buf("out", 1), (Const(0),))])
def test_what_needs_a_compiler_is_refused(call):
    with pytest.raises(UnsupportedError, match="target='c'"):
        outputs(one_block([buf("out", 1)], Evaluate(call)), zeros(1))


def test_grid_barriers_keep_blocks_in_step():
    """Block b reads what block b + 1 wrote before the barrier, three times."""
    a, out = buf("a", 5, dtype="int64"), buf("out", 5, dtype="int64")
    round_ = (put(a, BX, add(BX, K)), Sync("grid"), put(out, BX, at(a, op("floormod", add(BX, 1), 5))), Sync("grid"))
    k = kernel([a, out], launch(5, (If(op("eq", BX, 9), (Return(),)), For(K, Const(0), Const(3), round_))))
    np.testing.assert_array_equal(outputs(k, np.zeros(5, np.int64), np.zeros(5, np.int64)), (np.arange(5) + 1) % 5 + 2)


def test_a_block_that_fails_at_a_grid_barrier_reports_it():
    out = buf("out", 3)
    k = kernel([out], launch(3, (Sync("grid"), Assert(op("ne", BX, 1), "block 1"))))
    with pytest.raises(DeviceAssertError, match="block 1"):
        outputs(k, zeros(3))

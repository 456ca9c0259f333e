"""Thread kernels of the interpreter: divergent control flow, private buffers, tile operations among threads, collectives."""

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
    box,
    buf,
    cast,
    copy,
    kernel,
    launch,
    mul,
    num,
    one_block,
    op,
    outputs,
    par,
    put,
    shared,
    whole,
    zeros,
)

from tileworkbench.ir.expr import Const, Var
from tileworkbench.ir.stmt import (
    Atomic,
    Break,
    Collective,
    Continue,
    Fill,
    For,
    Gemm,
    If,
    Let,
    Reduce,
    Return,
    Scan,
    Store,
    Sync,
    While,
)

X = Var("x")
ONE = num(1, "int32")


def bump(buffer, index, by=1):
    """`buffer[index] += by`."""
    return put(buffer, index, add(at(buffer, index), by))


# ---------------------------------------------------------------------------------------------- threads
def threads(params, *body, n=64, allocs=(), grid=1):
    return kernel(params, launch(grid, body, allocs, n, used=True))


def test_thread_indices_x_fastest():
    ty, tz = Var("ty"), Var("tz")
    out = buf("out", 2, 3, 4, dtype="int64")
    k = threads([out], put(out, (tz, ty, TX), add(TX, add(mul(ty, 10), mul(tz, 100)))), n=(4, 3, 2))
    got = outputs(k, np.zeros((2, 3, 4), np.int64))
    np.testing.assert_array_equal(got, np.add.outer(np.arange(2) * 100, np.add.outer(np.arange(3) * 10, np.arange(4))))


@pytest.mark.parametrize("n", [(1,), (1, 1, 1), (1, 5, 1), (3, 1, 2)])
def test_thread_axes_of_one(n):
    lanes = [Var(v) for v in ("tx", "ty", "tz")][: len(n)]
    out = buf("out", *reversed(n), dtype="int64")
    k = threads([out], put(out, tuple(reversed(lanes)), 1), n=n)
    np.testing.assert_array_equal(outputs(k, np.zeros(tuple(reversed(n)), np.int64)), 1)


def test_collatz_per_thread():
    """While loops of different lengths, with a break, in lockstep."""
    out, n, steps = buf("out", 64, dtype="int64"), buf("n", 1, dtype="int64", scope="var"), buf("steps", 1, dtype="int64", scope="var")
    odd = op("eq", op("floormod", at(n, 0), 2), 1)
    body = (
        If(op("ge", at(steps, 0), 100), (Break(),)),
        bump(steps, 0),
        If(odd, (put(n, 0, add(mul(at(n, 0), 3), 1)), Continue()), ()),
        put(n, 0, op("floordiv", at(n, 0), 2)),
    )
    k = threads([out], put(n, 0, add(TX, 1)), put(steps, 0, 0), While(op("gt", at(n, 0), 1), body), put(out, TX, at(steps, 0)), allocs=(n, steps))

    def length(x):
        count = 0
        while x > 1 and count < 100:
            x, count = (3 * x + 1 if x % 2 else x // 2), count + 1
        return count

    np.testing.assert_array_equal(outputs(k, np.zeros(64, np.int64)), [length(i + 1) for i in range(64)])


def test_break_inside_nested_loops_of_threads():
    out = buf("out", 32, dtype="int64")
    count = buf("count", 1, dtype="int64", scope="var")
    inner = For(
        J, Const(0), Const(6), (If(op("eq", op("floormod", add(J, TX), 4), 3), (Break(),)), If(op("eq", J, 1), (Continue(),)), bump(count, 0))
    )
    outer = For(K, op("floormod", TX, 3), op("floordiv", TX, 2), (inner, If(op("gt", at(count, 0), 10), (Break(),)), bump(count, 0, 1)), 2)
    k = threads([out], put(count, 0, 0), outer, put(out, TX, at(count, 0)), n=32, allocs=(count,))

    def thread(tx):
        count = 0
        for _ in range(tx % 3, tx // 2, 2):
            for j in range(6):
                if (j + tx) % 4 == 3:
                    break
                if j == 1:
                    continue
                count += 1
            if count > 10:
                break
            count += 1
        return count

    np.testing.assert_array_equal(outputs(k, np.zeros(32, np.int64)), [thread(t) for t in range(32)])


def test_return_takes_single_threads_out():
    out = buf("out", 16, dtype="int64")
    loop = For(K, Const(0), Const(4), (If(op("eq", K, op("floordiv", TX, 4)), (Return(),)), bump(out, TX)))
    k = threads([out], loop, bump(out, TX, 100), n=16)
    np.testing.assert_array_equal(outputs(k, np.zeros(16, np.int64)), np.arange(16) // 4)
    early = threads([out], If(op("lt", TX, 5), (Return(),)), put(out, TX, 1), n=16)
    np.testing.assert_array_equal(outputs(early, np.zeros(16, np.int64)), [0] * 5 + [1] * 11)


def test_block_reduction_through_shared_memory():
    """The classic halving tree with barriers."""
    n = 128
    a, out, t = buf("a", n), buf("out", 1), shared("t", n)
    body = [put(t, TX, at(a, TX)), Sync()]
    for half in (64, 32, 16, 8, 4, 2, 1):
        body += [If(op("lt", TX, half), (put(t, TX, add(at(t, TX), at(t, add(TX, half)))),)), Sync()]
    x = np.random.default_rng(0).integers(-9, 9, n).astype(np.float32)
    got = outputs(threads([a, out], *body, If(op("eq", TX, 0), (put(out, 0, at(t, 0)),)), n=n, allocs=(t,)), x, zeros(1))
    assert got[0] == x.sum()


def test_local_arrays_differ_between_threads():
    a, out, r = buf("a", 8, 4), buf("out", 8, 4), buf("r", 4, scope="local")
    load = For(K, Const(0), Const(4), (put(r, K, at(a, TX, K)),), kind="vectorized")
    flip = For(J, Const(0), Const(4), (put(out, (TX, J), at(r, op("floormod", add(TX, op("sub", 3, J)), 4))),))
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    got = outputs(threads([a, out], load, flip, n=8, allocs=(r,)), x, zeros(8, 4))
    np.testing.assert_array_equal(got, [[x[t, (t + 3 - j) % 4] for j in range(4)] for t in range(8)])


def test_tile_operations_on_local_buffers_run_in_each_thread():
    a, out, r, s = buf("a", 8, 4), buf("out", 8, 4), buf("r", 4, scope="local"), buf("s", 1, scope="local")
    body = (
        Fill(whole(r), num(1)),
        If(op("lt", TX, 6), (copy(box(a, TX, (0, 4)), r), Scan("sum", whole(r), whole(r)))),
        Reduce("max", whole(r), whole(s), 0),
        copy(r, box(out, TX, (0, 4))),
        put(out, (TX, 0), at(s, 0)),
    )
    x = np.random.default_rng(0).integers(0, 9, (8, 4)).astype(np.float32)
    want = np.ones((8, 4), np.float32)
    want[:6] = x[:6].cumsum(1)
    want[:, 0] = want.max(1)
    np.testing.assert_array_equal(outputs(threads([a, out], *body, n=8, allocs=(r, s)), x, zeros(8, 4)), want)


def test_tile_operations_with_starts_that_differ_run_in_each_thread():
    a, out, t = buf("a", 8, 4, safe_value=-1.0), buf("out", 8, 4), shared("t", 8, 4)
    body = (copy(box(a, add(TX, 2), (-1, 4)), box(t, TX, (0, 4))), Sync(), copy(t, out))
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    got = outputs(threads([a, out], *body, n=8, allocs=(t,)), x, zeros(8, 4))
    want = np.full((8, 4), -1, np.float32)
    want[:6, 1:] = x[2:, :3]
    np.testing.assert_array_equal(got, want)


def test_tile_operations_of_the_block_run_once():
    """A gemm inside a thread kernel adds once, also when its slice follows a mutable counter that all threads share."""
    a, c = buf("a", 3, 4, 4), buf("c", 4, 4)
    ta, tc, n = shared("ta", 4, 4), shared("tc", 4, 4), buf("n", 1, dtype="int64", scope="var")
    step = (copy(box(a, at(n, 0), (0, 4), (0, 4)), ta), Gemm(whole(ta), whole(ta), whole(tc)), bump(n, 0))
    k = threads([a, c], put(n, 0, 0), While(op("lt", at(n, 0), 3), step), If(op("lt", TX, 1), (copy(tc, c),)), n=32, allocs=(ta, tc, n))
    x = np.random.default_rng(0).integers(-4, 4, (3, 4, 4)).astype(np.float32)
    np.testing.assert_array_equal(outputs(k, x, zeros(4, 4)), (x @ x).sum(0))


def test_parallel_loops_in_thread_kernels():
    """Once per block on shared values; once per thread on values of the thread; the space is then iterations x threads."""
    out, v = buf("out", 6, dtype="int32"), buf("v", 1, dtype="int32", scope="var")
    shared_value = (put(v, 0, 3), par(I, 6, Atomic("add", box(out, I), at(v, 0))))
    np.testing.assert_array_equal(outputs(threads([out], *shared_value, n=32, allocs=(v,)), zeros(6, dtype="int32")), 3)
    own_value = (put(v, 0, cast(TX, "int32")), par(I, 6, Atomic("add", box(out, I), at(v, 0))))
    np.testing.assert_array_equal(outputs(threads([out], *own_value, n=32, allocs=(v,)), zeros(6, dtype="int32")), sum(range(32)))
    own_index = (Let(X, mul(TX, 2)), par(I, 2, put(out, add(X, I), cast(TX, "int32"))))
    np.testing.assert_array_equal(outputs(threads([out], *own_index, n=3), zeros(6, dtype="int32")), [0, 0, 1, 1, 2, 2])
    masked = If(op("eq", TX, 1), (Let(X, mul(TX, 2)), par(I, 2, put(out, add(X, I), 7))))
    np.testing.assert_array_equal(outputs(threads([out], masked, n=3), zeros(6, dtype="int32")), [0, 0, 7, 7, 0, 0])


def test_blocks_of_threads():
    a, out = buf("a", 100), buf("out", 100)
    body = (Let(X, add(mul(BX, 32), TX)), If(op("lt", X, 100), (put(out, X, mul(at(a, X), 2)),)))
    x = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    np.testing.assert_array_equal(outputs(threads([a, out], *body, n=32, grid=4), x, zeros(100)), 2 * x)
    unguarded = (put(out, add(mul(BX, 32), TX), mul(at(a, add(mul(BX, 32), TX)), 2)),)
    np.testing.assert_array_equal(outputs(threads([a, out], *unguarded, n=32, grid=4), x, zeros(100)), 2 * x)


def test_shared_stores_by_all_threads_leave_one_value():
    out = buf("out", 1, dtype="int64")
    assert outputs(threads([out], put(out, 0, 5), n=32), np.zeros(1, np.int64))[0] == 5
    assert 0 <= outputs(threads([out], put(out, 0, TX), n=32), np.full(1, -1, np.int64))[0] < 32
    some = If(op("eq", op("floormod", TX, 3), 1), (put(out, 0, add(TX, 100)),))
    assert outputs(threads([out], some, n=32), np.full(1, -1, np.int64))[0] in range(101, 132, 3)


def test_conditions_and_bounds_do_not_follow_what_the_body_writes():
    """The lanes of a branch are chosen once, and so are the bounds of a loop, also where they are loaded from memory that changes."""
    out, flag, n = buf("out", 8, dtype="int64"), shared("flag", 8, dtype="bool"), shared("n", 8, dtype="int64")
    first = put(flag, I, op("lt", I, 3))
    toggled = If(at(flag, I), (put(flag, I, False), bump(out, I, 1), bump(out, I, 10)), (bump(out, I, 100),))
    k = one_block([out], par(I, 8, first), par(I, 8, toggled), allocs=(flag, n))
    np.testing.assert_array_equal(outputs(k, np.zeros(8, np.int64)), [11] * 3 + [100] * 5)
    loop = For(J, Const(0), at(n, I), (put(n, I, 50), bump(out, I)))
    k = one_block([out], par(I, 8, put(n, I, I)), par(I, 8, loop), allocs=(flag, n))
    np.testing.assert_array_equal(outputs(k, np.zeros(8, np.int64)), range(8))
    m = buf("m", 1, dtype="int64", scope="var")
    loop = For(J, at(m, 0), Const(8), (put(m, 0, 50), bump(out, TX, J)))
    k = threads([out], put(m, 0, TX), loop, n=8, allocs=(m,))
    np.testing.assert_array_equal(outputs(k, np.zeros(8, np.int64)), [sum(range(t, 8)) for t in range(8)])


# ---------------------------------------------------------------------------------------------- collectives
def collective(name, n, args, dtype, active=None, width=32):
    out = buf("out", n, dtype=dtype)
    r = Var("r", out.dtype)
    body = (Collective(name, r, args, width), Store(out, (TX,), r))
    return outputs(
        threads([out], If(active, body) if active is not None else Let(X, Const(0)), *(() if active is not None else body), n=n),
        np.full(n, -1, np.int64).astype(out.dtype.to_numpy()),
    )


LANE = np.arange(64)


@pytest.mark.parametrize("width", [32, 8])
def test_shuffles(width):
    value = cast(mul(TX, 3), "int32")
    lane, base = LANE % width, LANE - LANE % width

    def where(target):
        return np.where((target >= 0) & (target < width), 3 * (base + target), 3 * LANE)

    np.testing.assert_array_equal(collective("shfl", 64, (value, Const(5)), "int32", width=width), where(np.full(64, 5)))
    np.testing.assert_array_equal(collective("shfl", 64, (value, Const(40)), "int32", width=width), 3 * LANE)
    np.testing.assert_array_equal(collective("shfl", 64, (value, op("floormod", mul(TX, 7), width)), "int32", width=width), where((LANE * 7) % width))
    np.testing.assert_array_equal(collective("shfl_xor", 64, (value, Const(4)), "int32", width=width), where(lane ^ 4))
    np.testing.assert_array_equal(collective("shfl_up", 64, (value, Const(3)), "int32", width=width), where(lane - 3))
    np.testing.assert_array_equal(collective("shfl_down", 64, (value, Const(3)), "int32", width=width), where(lane + 3))


def test_votes_and_folds():
    even = op("eq", op("floormod", TX, 2), 0)
    value = cast(TX, "int32")
    halves = LANE // 32
    np.testing.assert_array_equal(collective("ballot", 64, (even,), "uint32"), 0x55555555)
    np.testing.assert_array_equal(collective("any", 64, (op("eq", TX, 40),), "bool"), halves == 1)
    np.testing.assert_array_equal(collective("all", 64, (op("ne", TX, 40),), "bool"), halves == 0)
    np.testing.assert_array_equal(collective("warp_sum", 64, (value,), "int32"), np.where(halves == 0, sum(range(32)), sum(range(32, 64))))
    np.testing.assert_array_equal(collective("warp_max", 64, (value,), "int32"), halves * 32 + 31)
    np.testing.assert_array_equal(collective("warp_min", 64, (value,), "int32"), halves * 32)
    np.testing.assert_array_equal(collective("warp_bitor", 64, (value,), "int32"), np.where(halves == 0, 31, 63))
    np.testing.assert_array_equal(collective("warp_bitand", 64, (value,), "int32"), np.where(halves == 0, 0, 32))
    np.testing.assert_array_equal(collective("block_sum", 64, (value,), "int32"), sum(range(64)))
    np.testing.assert_array_equal(collective("block_count", 64, (even,), "int32"), 32)
    np.testing.assert_array_equal(collective("block_any", 64, (op("eq", TX, 3),), "bool"), True)
    np.testing.assert_array_equal(collective("block_all", 64, (op("ne", TX, 3),), "bool"), False)


def test_collectives_leave_inactive_threads_out():
    some = op("lt", TX, 40)
    value = cast(TX, "int32")
    np.testing.assert_array_equal(collective("ballot", 64, (op("ge", TX, 0),), "uint32", some)[:40], [0xFFFFFFFF] * 32 + [0xFF] * 8)
    np.testing.assert_array_equal(collective("all", 64, (op("lt", TX, 40),), "bool", some)[:40], True)
    np.testing.assert_array_equal(collective("block_max", 64, (value,), "int32", some), [39] * 40 + [-1] * 24)
    np.testing.assert_array_equal(collective("warp_sum", 20, (value,), "int32"), sum(range(20)))  # fewer threads than a warp has
    np.testing.assert_allclose(collective("block_sum", 20, (cast(TX, "float16"),), "float16"), 190)


def test_a_tile_that_every_thread_writes_to_one_place_leaves_one_of_theirs():
    out, r = buf("out", 4), buf("r", 4, scope="local")
    body = (Fill(whole(r), cast(TX, "float32")), If(op("ge", TX, 3), (copy(r, out),)))
    got = outputs(threads([out], *body, n=8, allocs=(r,)), np.full(4, -1, np.float32))
    assert set(got) <= {3, 4, 5, 6, 7}


def test_while_inside_a_parallel_loop_inside_threads():
    """Iterations times threads, each with its own trip count; the loop starts from a value of the thread."""
    out, n = buf("out", 8, 4, dtype="int64"), buf("n", 1, dtype="int64", scope="var")
    climb = While(op("lt", at(n, 0), 10), (If(op("eq", at(n, 0), 7), (Break(),)), bump(n, 0, add(I, 1))))
    k = threads([out], put(n, 0, TX), par(I, 4, climb, put(out, (TX, I), at(n, 0))), put(out, (TX, 0), at(n, 0)), n=8, allocs=(n,))

    def end(t, i):
        while t < 10 and t != 7:
            t += i + 1
        return t

    want = np.array([[end(t, i) for i in range(4)] for t in range(8)])
    want[:, 0] = range(8)  # what an iteration leaves in a buffer of the thread is lost
    np.testing.assert_array_equal(outputs(k, np.zeros((8, 4), np.int64)), want)

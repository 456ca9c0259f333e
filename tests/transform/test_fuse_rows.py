"""Loops over the same rows become one, sums are taken on the way; and the cases where an order must stay."""

from __future__ import annotations

import numpy as np
import pytest
from codegen.c_runner import source_of
from codegen.differ import agree, random_array
from codegen.ir_kit import F32, Cast, Select, Unary, Var, add, at, block, box, const, ix, kernel, lt, mul, op, put, tensor, tile, whole

from tileworkbench.ir.lowered import Loop, SetElement
from tileworkbench.ir.node import walk
from tileworkbench.ir.printer import print_kernel
from tileworkbench.ir.stmt import Continue, Copy, For, If, Kernel, ParallelFor, Reduce, Stmt
from tileworkbench.transform.fuse_rows import fuse_rows
from tileworkbench.transform.jam_rows import jam_rows
from tileworkbench.transform.join_sums import join_sums
from tileworkbench.transform.lowering import C_STEPS, run_steps

ROWS, COLS = 8, 64
BX, I, J = Var("bx"), Var("i"), Var("j")
X, Y, R = tensor("X", (ROWS, COLS)), tensor("Y", (ROWS, COLS)), tensor("R", (ROWS,))
s, t, u = (tile(n, (ROWS, COLS)) for n in "stu")
top, total, fade = (tile(n, (ROWS,)) for n in ("top", "total", "fade"))
GET = Copy(whole(X), whole(s))
OUT = Copy(whole(t), whole(Y))
_count = 0


def over(make, sizes=(ROWS, COLS)) -> ParallelFor:
    """A parallel loop over fresh variables."""
    global _count
    _count += 1
    loop_vars = tuple(Var(f"v{_count}_{d}") for d in range(len(sizes)))
    return ParallelFor(loop_vars, tuple(ix(n) for n in sizes), tuple(make(*loop_vars)))


def program(body: list[Stmt], params=(X, Y, R), allocs=(s, t, u, top, total, fade)) -> Kernel:
    return kernel("k", params, [block((1,), (BX,), body, allocs)])


def before_fusing(kern: Kernel) -> Kernel:
    names = [step.name for step in C_STEPS]
    return run_steps(kern, C_STEPS[: names.index("fuse_rows")])


def row_loops(kern: Kernel) -> tuple[int, int]:
    """Serial loops over the rows before and after, at the level of the block."""
    first = before_fusing(kern)
    after = fuse_rows(first)
    assert fuse_rows(after) is after

    def count(k: Kernel) -> int:
        return sum(isinstance(n, Loop) and not n.simd for n in k.launches[0].body)

    return count(first), count(after)


def check(kern: Kernel, loops: tuple[int, int], rtol: float = 1e-5) -> None:
    assert row_loops(kern) == loops, print_kernel(fuse_rows(before_fusing(kern)))
    arrays = [random_array(tuple(int(d.value) for d in p.buffer.shape), p.buffer.type, n) for n, p in enumerate(kern.params)]
    agree(kern, arrays, rtol=rtol, atol=1e-3)


def changed(source, target, make) -> ParallelFor:
    return over(lambda i, j: [put(target, i, j, make(at(source, i, j), i))])


def softmax(scalar) -> list[Stmt]:
    """Rows of `s`, with a scalar step in between."""
    return [
        GET,
        changed(s, s, lambda v, i: mul(v, 0.125)),
        Reduce("max", whole(s), whole(top), 1),
        changed(s, t, lambda v, i: Unary("exp2", op("sub", v, at(top, i)))),
        Reduce("sum", whole(t), whole(total), 1),
        over(lambda i: [put(total, i, scalar(at(total, i)))], (ROWS,)),
        changed(t, t, lambda v, i: mul(v, at(total, i))),
        OUT,
    ]


def test_a_row_goes_through_everything() -> None:
    wide = tensor("XW", (2, 1024)), tensor("YW", (2, 1024))
    big = [tile(n, (2, 1024)) for n in ("bs", "bt")]
    m, z = tile("m", (2,)), tile("z", (2,))
    body = [
        Copy(whole(wide[0]), whole(big[0])),
        Reduce("max", whole(big[0]), whole(m), 1),
        over(lambda i, j: [put(big[1], i, j, Unary("exp2", op("sub", at(big[0], i, j), at(m, i))))], (2, 1024)),
        Reduce("sum", whole(big[1]), whole(z), 1),
        over(lambda i: [put(z, i, op("div", const(1.0, F32), at(z, i)))], (2,)),
        over(lambda i, j: [put(big[1], i, j, mul(at(big[1], i, j), at(z, i)))], (2, 1024)),
        Copy(whole(big[1]), whole(wide[1])),
    ]
    kern = program(body, wide, (*big, m, z))
    check(kern, (4, 1))
    text = source_of(kern).text
    assert "reduction(+:sum)" in text and "row_sum" not in text


def test_a_scalar_of_each_row_stays_a_vector_where_the_row_is_short() -> None:
    """The division of 8 rows at once is worth more than keeping a row of 64 elements near."""
    kern = program(softmax(lambda v: op("div", const(1.0, F32), v)))
    check(kern, (5, 2))


def test_a_cheap_scalar_is_done_row_by_row() -> None:
    check(program(softmax(lambda v: mul(v, 0.5))), (5, 1))


def test_what_nobody_waits_for_goes_behind_or_in_front() -> None:
    """As in attention: the old maximum is kept first, the factor of the old sum is made later."""
    body = [
        GET,
        over(lambda i: [put(top, i, const(1.0, F32))], (ROWS,)),
        If(lt(BX, 1), (changed(s, s, lambda v, i: mul(v, 0.125)),)),
        Copy(whole(top), whole(fade)),
        Reduce("max", whole(s), whole(top), 1, clear=False),
        over(lambda i: [put(fade, i, Unary("exp2", op("sub", at(fade, i), at(top, i))))], (ROWS,)),
        changed(s, t, lambda v, i: Unary("exp2", op("sub", v, at(top, i)))),
        Reduce("sum", whole(t), whole(total), 1),
        over(lambda i: [put(R, i, op("add", at(total, i), at(fade, i)))], (ROWS,)),
        OUT,
    ]
    kern = program(body)
    after = fuse_rows(before_fusing(kern)).launches[0].body
    assert sum(isinstance(n, Loop) and not n.simd for n in after) == 1, print_kernel(fuse_rows(before_fusing(kern)))
    agree(kern, [random_array((ROWS, COLS), "float32", n) for n in range(2)] + [random_array((ROWS,), "float32")], rtol=1e-5, atol=1e-3)


# ---------------------------------------------------------------------------------------------- hazards
@pytest.mark.parametrize("shift", [1, -1])
def test_a_row_that_reads_its_neighbour_comes_later(shift: int) -> None:
    def neighbour(i):
        return op("floormod", add(i, shift % ROWS), ROWS)

    body = [GET, changed(s, s, lambda v, i: mul(v, 2.0)), over(lambda i, j: [put(t, i, j, add(at(s, neighbour(i), j), at(s, i, j)))]), OUT]
    kern = program(body)
    before, after = row_loops(kern)
    assert before == after == 2
    check(kern, (2, 2))


def test_a_row_that_writes_into_the_next_comes_later() -> None:
    """Elements [i * 64 + 8, i * 64 + 72): longer than the row's own stretch."""
    long, flat = tile("long", (ROWS * COLS + 8,)), tensor("F", (ROWS * COLS + 8,))
    body = [
        Copy(whole(flat), whole(long)),
        over(lambda i, j: [put(long, add(mul(i, COLS), j), mul(at(long, add(mul(i, COLS), j)), 2.0))]),
        over(lambda i, j: [put(t, i, j, at(long, add(add(mul(i, COLS), j), 8)))]),
        OUT,
    ]
    kern = program(body, (flat, Y), (long, t))
    assert row_loops(kern)[1] == 2
    agree(kern, [random_array((ROWS * COLS + 8,), "float32"), random_array((ROWS, COLS), "float32")])


def test_a_scalar_that_all_rows_share_keeps_the_order() -> None:
    """The first loop's last row decides what the second one reads."""
    one = tile("one", (1,))
    body = [
        GET,
        For(I, ix(0), ix(ROWS), (put(one, 0, at(s, I, 3)), over(lambda j: [put(s, I, j, mul(at(s, I, j), 2.0))], (COLS,)))),
        over(lambda i, j: [put(t, i, j, add(at(s, i, j), at(one, 0)))]),
        OUT,
    ]
    kern = program(body, allocs=(s, t, one))
    assert row_loops(kern)[1] == 2
    agree(kern, [random_array((ROWS, COLS), "float32", n) for n in range(2)] + [random_array((ROWS,), "float32")])


def test_different_numbers_of_rows_stay_apart() -> None:
    body = [GET, changed(s, s, lambda v, i: mul(v, 2.0)), over(lambda i, j: [put(s, i, j, add(at(s, i, j), 1.0))], (ROWS - 1, COLS))]
    kern = program([*body, changed(s, t, lambda v, i: v), OUT])
    assert row_loops(kern)[1] > 1
    agree(kern, [random_array((ROWS, COLS), "float32", n) for n in range(2)] + [random_array((ROWS,), "float32")])


def test_a_loop_does_not_pass_what_it_depends_on() -> None:
    """Between the two loops over `s` a product-like statement rewrites it as a whole."""
    body = [
        GET, changed(s, s, lambda v, i: mul(v, 2.0)),
        over(lambda j, i: [put(s, i, j, add(at(s, i, j), at(X, 0, 0)))], (COLS, ROWS)),
        Copy(box(s, (0, 0), (ROWS // 2, COLS)), box(s, (ROWS // 2, 0), (ROWS // 2, COLS))),
        changed(s, t, lambda v, i: add(v, 1.0)), OUT,
    ]  # fmt: skip
    kern = program(body)
    agree(kern, [random_array((ROWS, COLS), "float32", n) for n in range(2)] + [random_array((ROWS,), "float32")])


def test_zero_trips_around() -> None:
    body = [GET, For(Var("k"), ix(0), ix(0), (changed(s, s, lambda v, i: mul(v, 2.0)), Reduce("sum", whole(s), whole(top), 1)))]
    kern = program([*body, changed(s, t, lambda v, i: v), OUT])
    agree(kern, [random_array((ROWS, COLS), "float32", n) for n in range(2)] + [random_array((ROWS,), "float32")])


# ---------------------------------------------------------------------------------------------- sums
def summed(make, op_name: str = "sum", more=()) -> Kernel:
    body = [GET, changed(s, t, make), Reduce(op_name, whole(t), whole(total), 1), *more, Copy(whole(total), whole(R))]
    return program(body)


@pytest.mark.parametrize("op_name", ["sum", "abssum"])
def test_a_row_that_is_only_summed_is_not_stored(op_name: str) -> None:
    kern = summed(lambda v, i: mul(v, v), op_name)
    lowered = join_sums(fuse_rows(before_fusing(kern)))
    assert join_sums(lowered) is lowered
    assert not any(isinstance(n, SetElement) and n.buffer == t for n in walk(lowered))
    check(kern, row_loops(kern))


def test_a_row_that_is_read_later_is_stored_too() -> None:
    kern = summed(lambda v, i: mul(v, v), more=[changed(t, s, lambda v, i: add(v, 1.0)), Copy(whole(s), whole(Y))])
    lowered = join_sums(fuse_rows(before_fusing(kern)))
    assert any(isinstance(n, SetElement) and n.buffer in (t, Y) for n in walk(lowered)) and any(
        isinstance(n, Loop) and n.reductions for n in walk(lowered)
    )
    check(kern, row_loops(kern))


def test_a_maximum_is_not_taken_on_the_way() -> None:
    """The language's max ignores NaN, OpenMP's does not."""
    kern = summed(lambda v, i: Select(lt(v, 0.0), const(float("nan"), F32), v), "max")
    assert not any(isinstance(n, Loop) and n.reductions for n in walk(join_sums(fuse_rows(before_fusing(kern)))))
    check(kern, row_loops(kern))


def test_a_sum_of_another_stretch_is_its_own() -> None:
    part = Reduce("sum", box(t, (0, 0), (ROWS, COLS // 2)), whole(total), 1)
    kern = program([GET, changed(s, t, lambda v, i: mul(v, v)), part, Copy(whole(total), whole(R)), OUT])
    assert not any(isinstance(n, Loop) and n.reductions for n in walk(join_sums(fuse_rows(before_fusing(kern)))))
    check(kern, row_loops(kern))


def test_a_loop_of_one_iteration_is_its_body() -> None:
    one, y1, x1 = tile("one", (1, COLS)), tensor("Y1", (1, COLS)), tensor("X1", (1, COLS))
    m = tile("m", (1,))
    body = [
        Copy(whole(x1), whole(one)), Reduce("max", whole(one), whole(m), 1),
        over(lambda i, j: [put(one, i, j, op("sub", at(one, i, j), at(m, i)))], (1, COLS)), Copy(whole(one), whole(y1)),
    ]  # fmt: skip
    kern = program(body, (x1, y1), (one, m))
    after = fuse_rows(before_fusing(kern)).launches[0].body
    assert not any(isinstance(n, Loop) and not n.simd for n in after)
    out = agree(kern, [random_array((1, COLS), "float32"), np.zeros((1, COLS), np.float32)])
    assert out[1].max() == 0


# ---------------------------------------------------------------------------------------------- sums side by side
@pytest.mark.parametrize(
    ("rows", "step", "dtype"),
    [(16, 16, "float32"), (24, 12, "float32"), (7, 7, "float32"), (17, 1, "float32"), (1, 1, "float32"), (16, 8, "bfloat16")],
)
def test_sums_of_several_rows_are_taken_at_once(rows: int, step: int, dtype: str) -> None:
    """Fewer of narrow elements, whose cache lines have to last for several steps."""
    w, x, y = tensor("W", (rows, 40), dtype), tensor("V", (40,)), tensor("Z", (rows,))
    p, z = tile("p", (rows, 40)), tile("z", (rows,))
    body = [
        over(lambda i: [put(z, i, const(1.0, F32))], (rows,)),
        over(lambda i, j: [put(p, i, j, mul(Cast(at(w, i, j), F32), at(x, j)))], (rows, 40)),
        Reduce("sum", whole(p), whole(z), 1, clear=False),
        Copy(whole(z), whole(y)),
    ]
    kern = program(body, (w, x, y), (p, z))
    after = jam_rows(join_sums(fuse_rows(before_fusing(kern))))
    assert jam_rows(after) is after
    sums = [n for n in walk(after) if isinstance(n, Loop) and n.reductions]
    assert [len(n.reductions) for n in sums] == [step]
    agree(kern, [random_array((rows, 40), dtype), random_array((40,), "float32", 1), random_array((rows,), "float32", 2)], rtol=1e-6)


def test_sums_that_wait_for_the_row_before_are_taken_in_turn() -> None:
    """Each row is scaled by the sum of the one before it."""
    p, z = tile("p", (ROWS, COLS)), tile("z", (ROWS + 1,))
    v = Var("v")
    body = [
        over(lambda i: [put(z, i, const(1.0, F32))], (ROWS + 1,)),
        For(v, ix(0), ix(ROWS), (
            over(lambda j: [put(p, v, j, mul(at(X, v, j), at(z, v)))], (COLS,)),
            Reduce("sum", box(p, (v, 0), (1, COLS)), box(z, (add(v, 1),), (1,)), 1),
            over(lambda j: [put(z, add(v, 1), mul(at(z, add(v, 1)), 0.01))], (1,)),
        )),
        over(lambda i: [put(R, i, at(z, add(i, 1)))], (ROWS,)),
    ]  # fmt: skip
    kern = program(body, (X, R), (p, z))
    agree(kern, [random_array((ROWS, COLS), "float32"), random_array((ROWS,), "float32")], rtol=1e-5)
    assert all(len(n.reductions) < 2 for n in walk(jam_rows(join_sums(fuse_rows(before_fusing(kern))))) if isinstance(n, Loop))


def test_a_single_iteration_that_may_end_early_stays_a_loop() -> None:
    """`continue` needs its loop, even one of a single iteration."""
    n = Var("n")
    loop = Loop(n, ix(0), ix(1), (If(lt(BX, ix(3)), (Continue(),), ()), SetElement(R, n, const(1.0))))
    kern = kernel("k", [R], [block((8,), (BX,), [loop], ())])
    assert fuse_rows(kern) is kern
    opened = fuse_rows(kernel("k", [R], [block((8,), (BX,), [Loop(n, ix(0), ix(1), loop.body[1:])], ())]))
    assert not any(isinstance(node, Loop) for node in walk(opened))

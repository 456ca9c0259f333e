"""In a strip, loops that only compute become one and rows are reduced together; what rows share, or wait for, keeps its order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from codegen.c_runner import source_of
from codegen.differ import agree, random_array
from codegen.ir_kit import F32, Unary, Var, add, at, block, const, ix, kernel, mul, op, put, tensor, tile, whole

from tileworkbench.analysis.rows import STRIP
from tileworkbench.base.dtypes import INDEX, INT32
from tileworkbench.ir.build import cast
from tileworkbench.ir.expr import Buffer, CallExtern, Expr
from tileworkbench.ir.lowered import Address, Declare, Element, LibraryCall, Loop, SetElement
from tileworkbench.ir.node import walk
from tileworkbench.ir.printer import print_kernel
from tileworkbench.ir.stmt import Copy, Evaluate, Fill, For, Kernel, ParallelFor, Reduce, Stmt
from tileworkbench.transform.fold_rows import fold_rows
from tileworkbench.transform.join_rows import join_rows
from tileworkbench.transform.lowering import C_STEPS, run_steps

ROWS, COLS = 32, 48
BX, STEP = Var("bx"), Var("step")
X, Y, R = tensor("X", (ROWS, COLS)), tensor("Y", (ROWS, COLS)), tensor("R", (ROWS,))
s, t, u = (tile(n, (ROWS, COLS)) for n in "stu")
top, here, other = (tile(n, (ROWS,)) for n in ("top", "here", "other"))
GET, OUT = Copy(whole(X), whole(s)), Copy(whole(t), whole(Y))
_count = 0


def over(make, sizes=(ROWS, COLS)) -> ParallelFor:
    """A parallel loop over fresh variables."""
    global _count
    _count += 1
    loop_vars = tuple(Var(f"v{_count}_{d}") for d in range(len(sizes)))
    return ParallelFor(loop_vars, tuple(ix(n) for n in sizes), tuple(make(*loop_vars)))


def changed(source, target, make) -> ParallelFor:
    return over(lambda i, j: [put(target, i, j, make(at(source, i, j), i))])


def scalars(target, make) -> ParallelFor:
    return over(lambda i: [put(target, i, make(i))], (ROWS,))


def program(body: list[Stmt]) -> Kernel:
    start = [Fill(whole(b), const(1.0, F32)) for b in (t, u, top, here, other)]
    return kernel("k", (X, Y, R), [block((1,), (BX,), [*start, *body], (s, t, u, top, here, other))])


def before(kern: Kernel, name: str) -> Kernel:
    return run_steps(kern, C_STEPS[: [step.name for step in C_STEPS].index(name)])


def shape(kern: Kernel) -> list[int]:
    """For each loop from row to row in a strip, in order: the vector loops in it."""
    first = before(kern, "join_rows")
    after = join_rows(first)
    assert join_rows(after) is after
    strips = [n for n in walk(after) if isinstance(n, Loop) and n.var.hint == "strip"]
    assert strips, print_kernel(after)
    return [sum(isinstance(b, Loop) and b.simd for b in n.body) for strip in strips for n in strip.body if isinstance(n, Loop) and not n.simd]


def calls(kern: Kernel) -> list[str]:
    """The row functions that are called in the end."""
    first = before(kern, "fold_rows")
    after = fold_rows(first)
    assert fold_rows(after) is after
    return [n.name.removeprefix("twb_") for n in walk(after) if isinstance(n, LibraryCall) and "row" in n.name]


def same(kern: Kernel, special: float | None = None) -> None:
    arrays = [random_array(tuple(int(d.value) for d in p.buffer.shape), "float32", n) / np.float32(16) for n, p in enumerate(kern.params)]
    if special is not None:
        arrays[0][3, 5] = arrays[0][ROWS - 1] = special
    agree(kern, arrays, rtol=1e-5, atol=1e-3)


def half(v: Expr) -> Expr:
    return mul(v, 0.5)


# ---------------------------------------------------------------------------------------------- join_rows
def test_loops_that_compute_become_one_around_a_sum() -> None:
    """As in attention: the sum of what the first loop makes stands between it and the one that joins it."""
    body = [
        GET,
        Reduce("max", whole(s), whole(top), 1),
        changed(s, s, lambda v, i: Unary("exp2", op("sub", v, at(top, i)))),
        Reduce("sum", whole(s), whole(here), 1),
        scalars(other, lambda i: add(mul(at(other, i), at(top, i)), at(here, i))),
        changed(t, t, lambda v, i: mul(v, at(top, i))),
        OUT,
        Copy(whole(other), whole(R)),
    ]
    kern = program(body)
    assert shape(kern) == [0, 2, 0]
    assert calls(kern) == ["rows_max_f32", "rows_sum_f32"]
    same(kern)
    same(kern, float("-inf"))
    same(kern, float("nan"))


def test_a_loop_that_needs_a_scalar_made_in_between_stays_behind() -> None:
    body = [
        GET,
        changed(s, u, lambda v, i: half(v)),
        Reduce("sum", whole(u), whole(here), 1),
        changed(u, t, lambda v, i: mul(v, at(here, i))),
        OUT,
    ]
    kern = program(body)
    assert shape(kern) == [1, 0, 1]
    same(kern)


def test_a_loop_does_not_pass_what_reads_its_tile_before() -> None:
    """The sum is of `u` as it was; the last loop changes it."""
    body = [
        GET,
        changed(s, t, lambda v, i: half(v)),
        Reduce("sum", whole(u), whole(here), 1),
        changed(t, u, lambda v, i: half(v)),
        changed(u, t, lambda v, i: add(v, at(here, i))),
        OUT,
    ]
    kern = program(body)
    assert shape(kern) == [1, 0, 2]
    same(kern)


def row_loop(target: Buffer, to: Callable[[Expr], Expr], value: Callable[[Expr, Expr], Expr], rows: int = STRIP) -> Loop:
    """for i in 0..rows: for j in 0..48 simd: target[to(i) * 48 + j] = value(i, j)"""
    global _count
    _count += 1
    i, j = Var(f"i{_count}"), Var(f"j{_count}", INT32)
    store = SetElement(target, add(mul(to(i), COLS), cast(j, INDEX)), value(i, cast(j, INDEX)))
    return Loop(i, ix(0), ix(rows), (Loop(j, const(0, INT32), const(COLS, INT32), (store,), simd=True),))


def element(source: Buffer, row: Expr, j: Expr) -> Element:
    return Element(source, add(mul(row, COLS), j))


def joins(*body: Stmt) -> bool:
    kern = kernel("k", (X, Y, R), [block((1,), (BX,), body, (s, t, u, top, here, other))])
    return join_rows(kern) is not kern


def test_rows_must_keep_to_themselves_to_join() -> None:
    first = row_loop(u, lambda i: i, lambda i, j: element(s, i, j))
    assert joins(first, row_loop(t, lambda i: i, lambda i, j: element(u, i, j)))
    assert not joins(first, row_loop(t, lambda i: i, lambda i, j: element(u, add(i, 1), j)))  # not made yet
    assert not joins(first, row_loop(s, lambda i: add(i, 1), lambda i, j: const(0.0, F32)))  # the first still reads it
    assert not joins(first, row_loop(u, lambda i: add(i, 1), lambda i, j: const(0.0, F32)))  # which of both is the last
    assert not joins(first, row_loop(t, lambda i: i, lambda i, j: element(u, i, j), rows=15))


def test_a_loop_joins_past_what_it_may_change_places_with() -> None:
    first, last = row_loop(u, lambda i: i, lambda i, j: element(s, i, j)), row_loop(t, lambda i: i, lambda i, j: Element(top, i))
    assert joins(first, SetElement(here, ix(0), const(1.0, F32)), last)
    assert not joins(first, SetElement(top, ix(0), const(1.0, F32)), last)
    assert not joins(first, Evaluate(CallExtern("f", (), INT32)), last)


# ---------------------------------------------------------------------------------------------- fold_rows
@pytest.mark.parametrize(
    ("name", "folded"), [("max", "rows_max_f32"), ("min", "rows_min_f32"), ("sum", "rows_sum_f32"), ("absmax", "row_absmax_f32")]
)
@pytest.mark.parametrize("clear", [True, False], ids=["fresh", "on"])
def test_reductions_of_a_strip_are_one_call(name: str, folded: str, clear: bool) -> None:
    body = [GET, Reduce(name, whole(s), whole(top), 1, clear=clear), changed(s, t, lambda v, i: add(v, at(top, i))), OUT]
    kern = program(body)
    assert calls(kern) == [folded]
    assert folded.startswith("row_") or f"[strip * {16 * COLS}], {COLS}, {COLS}, row_{name});" in source_of(kern).text
    for special in (None, float("nan"), float("-inf"), float("inf")):
        same(kern, special)


def folds(target: Buffer, to: Callable[[Expr], Expr], value: Callable[[Expr, Expr], Expr] = lambda found, i: found, count: int = COLS) -> bool:
    """Whether the pass takes for i in 0..16: target[to(i)] = value(max(&s[i * 48], count), i)."""
    i = Var("i")
    call = LibraryCall("twb_row_max_f32", (Address(s, mul(i, COLS)), ix(count)), F32)
    loop = Loop(i, ix(0), ix(STRIP), (SetElement(target, to(i), value(call, i)),))
    kern = kernel("k", (X, Y, R), [block((1,), (BX,), (loop,), (s, t, u, top, here, other))])
    return fold_rows(kern) is not kern


def test_rows_that_see_each_others_results_are_reduced_one_by_one() -> None:
    def plus(source: Buffer, at: Callable[[Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
        return lambda found, i: add(found, Element(source, at(i)))

    assert folds(top, lambda i: i) and folds(top, lambda i: add(i, 3))
    assert folds(top, lambda i: i, plus(top, lambda i: i)) and folds(top, lambda i: i, plus(here, lambda i: op("sub", 15, i)))
    assert not folds(top, lambda i: i, plus(top, lambda i: add(i, 1)))
    assert not folds(top, lambda i: ix(0), plus(top, lambda i: ix(0)))  # all rows in one place
    assert not folds(top, lambda i: op("sub", 15, i))
    assert not folds(s, lambda i: i)  # the first row gets results while others are read
    assert not folds(top, lambda i: i, lambda found, i: add(found, CallExtern("f", (), F32)))
    assert not folds(top, lambda i: i, lambda found, i: add(found, found))


def test_a_walk_that_never_runs_leaves_everything() -> None:
    step = [Reduce("max", whole(s), whole(top), 1, clear=False), changed(s, t, lambda v, i: add(v, at(top, i)))]
    kern = program([GET, For(STEP, ix(0), op("sub", BX, BX), tuple(step)), OUT, Copy(whole(top), whole(R))])
    same(kern)


def test_the_result_of_a_row_may_be_read_by_the_next_statement_only_in_its_row() -> None:
    """`top` of the strip's other rows is not there yet in the old order, and is now: nothing may read it meanwhile."""
    body = [
        GET,
        Reduce("max", whole(s), whole(top), 1, clear=False),
        scalars(here, lambda i: at(top, op("sub", ROWS - 1, i))),
        changed(s, t, lambda v, i: add(v, at(here, i))),
        changed(t, t, lambda v, i: half(v)),
        OUT,
    ]
    kern = program(body)
    same(kern)


def test_a_loop_does_not_pass_the_place_where_its_scalar_is_made() -> None:
    """A scan in rows of a strip keeps a running scalar: its loop may not join one in front of the declaration."""
    running = Buffer("running", (ix(1),), F32, "var")
    i, j = Var("i"), Var("j")
    first = Loop(i, ix(0), ix(STRIP), (SetElement(s, i, mul(Element(s, i), 2.0)),))
    step = SetElement(running, ix(0), add(Element(running, ix(0)), Element(t, j)))
    second = Loop(j, ix(0), ix(STRIP), (step, SetElement(t, j, Element(running, ix(0)))))
    kern = kernel("k", (X,), [block((1,), (BX,), [first, Declare(running, const(0.0, F32)), second], (s, t))])
    assert join_rows(kern) is kern
    joined = join_rows(kernel("k", (X,), [block((1,), (BX,), [first, Loop(j, ix(0), ix(STRIP), (SetElement(t, j, Element(t, j)),))], (s, t))]))
    assert sum(isinstance(n, Loop) for n in walk(joined)) == 1  # without the scalar they do

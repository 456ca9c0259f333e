"""Tiles that only carry elements: what is read and written in place, and the cases that must keep their tile."""

from __future__ import annotations

import numpy as np
import pytest
from codegen.c_runner import Compiled
from codegen.differ import agree, random_array
from codegen.ir_kit import F32, Cast, Var, add, at, block, box, const, ix, kernel, mul, op, put, tensor, tile, whole

from tileworkbench.interpret import run as interpret
from tileworkbench.ir.node import walk
from tileworkbench.ir.printer import print_kernel
from tileworkbench.ir.stmt import Copy, Fill, For, If, Kernel, Let, ParallelFor, Reduce, Return, Store
from tileworkbench.ir.verify import verify
from tileworkbench.transform.forward_copies import forward_copies

BX, I, J, I2, J2, K = (Var(n) for n in ("bx", "i", "j", "i2", "j2", "k"))
ROWS, COLS, BLOCK = 16, 48, 4
X, Y = tensor("X", (ROWS, COLS)), tensor("Y", (ROWS, COLS))
x, t = tile("x", (BLOCK, COLS)), tile("t", (BLOCK, COLS))
top = tile("top", (BLOCK,))
LOAD = Copy(box(X, (mul(BX, BLOCK), 0), (BLOCK, COLS)), whole(x))
STORE = Copy(whole(x), box(Y, (mul(BX, BLOCK), 0), (BLOCK, COLS)))


def over(body, i=I, j=J, sizes=(BLOCK, COLS)) -> ParallelFor:
    return ParallelFor((i, j), tuple(ix(s) for s in sizes), tuple(body))


def program(body, allocs=(x, t, top), params=(X, Y), grid=ROWS // BLOCK) -> Kernel:
    return kernel("k", params, [block((grid,), (BX,), body, allocs)])


def copies(kern: Kernel) -> int:
    """Copies left after the pass, which leaves valid IR and has nothing to do the second time."""
    after = forward_copies(kern)
    verify(after, "tile")
    assert forward_copies(after) is after
    return sum(isinstance(n, Copy) for n in walk(after))


def check(kern: Kernel, left: int, shapes=None, rtol: float = 1e-6) -> None:
    """`left` copies stay, and both targets agree."""
    assert copies(kern) == left, print_kernel(forward_copies(kern))
    agree(kern, [random_array(tuple(int(d.value) for d in p.buffer.shape), p.buffer.type, n) for n, p in enumerate(kern.params)], rtol=rtol)


def in_place(kern: Kernel) -> None:
    """The same array as every argument: as the interpreter does it."""
    mine = random_array((ROWS, COLS), "float32", 3)
    theirs = mine.copy()
    assert Compiled(kern)(*[mine] * len(kern.params)) == 0
    interpret(kern, [theirs] * len(kern.params))
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def scaled(target=x, source=x, by: float = 2.0, i=I, j=J) -> ParallelFor:
    return over([put(target, i, j, mul(at(source, i, j), by))], i, j)


def test_a_tile_that_is_read_changed_and_written_is_nowhere() -> None:
    kern = program([LOAD, scaled(), STORE])
    assert copies(kern) == 0
    loop = next(n for n in walk(forward_copies(kern)) if isinstance(n, ParallelFor))
    store = loop.body[0]
    assert isinstance(store, Store) and store.buffer == Y and not any(n == x for n in walk(loop))
    check(kern, 0)
    in_place(kern)


def test_a_block_of_one_row_is_read_in_place() -> None:
    """`bx` and `bx + i` are one row where i has one value, so X may be Y."""
    row = tile("row", (1, COLS))
    body = [
        Copy(box(X, (BX, 0), (1, COLS)), whole(row)),
        over([put(Y, add(BX, I), J, mul(at(row, I, J), 3.0))], sizes=(1, COLS)),
    ]
    kern = program(body, (row,), grid=ROWS)
    check(kern, 0)
    in_place(kern)


def test_versions_between_source_and_destination_are_in_the_destination() -> None:
    """As a softmax: reduced, changed, reduced, changed, stored."""
    body = [
        LOAD, Reduce("max", whole(x), whole(top), 1),
        over([put(x, I, J, op("sub", at(x, I, J), at(top, I)))]),
        Reduce("sum", whole(x), whole(top), 1),
        over([put(x, I2, J2, mul(at(x, I2, J2), at(top, I2)))], I2, J2),
        STORE,
    ]  # fmt: skip
    kern = program(body)
    check(kern, 0, rtol=1e-5)
    assert not any(n == x for n in walk(forward_copies(kern).body[0].body[0]))
    in_place(kern)


def test_a_value_read_after_its_store_is_kept() -> None:
    """The second store reads what the first has just written, in its own type."""
    narrow, out = tile("narrow", (BLOCK, COLS), "float16"), tensor("H", (ROWS, COLS), "float32")
    body = [
        over([put(narrow, I, J, Cast(mul(at(X, add(mul(BX, BLOCK), I), J), 0.3), narrow.type)), put(t, I, J, Cast(at(narrow, I, J), F32))]),
        Copy(whole(narrow), box(out, (mul(BX, BLOCK), 0), (BLOCK, COLS))),
        Copy(whole(t), box(Y, (mul(BX, BLOCK), 0), (BLOCK, COLS))),
    ]
    kern = program(body, (narrow, t), (X, out, Y))
    assert copies(kern) < 2
    agree(kern, [random_array((ROWS, COLS), "float32", n) for n in range(3)])


@pytest.mark.parametrize("shape", [(COLS,), (1, COLS)])
def test_a_reader_of_another_argument_stops_it_only_if_that_may_be_the_same_array(shape: tuple[int, ...]) -> None:
    """Y of one row may be W; Y of many rows is larger."""
    w = tensor("W", shape)
    one = tile("one", (1, COLS))
    y = tensor("Y1", (1, COLS))
    read = at(w, J) if len(shape) == 1 else at(w, 0, J)
    back = at(w, op("sub", COLS - 1, J)) if len(shape) == 1 else at(w, 0, op("sub", COLS - 1, J))
    body = [over([put(one, I, J, op("add", read, back))], sizes=(1, COLS)), Copy(whole(one), whole(y))]
    assert copies(program(body, (one,), (w, y), 1)) == 1
    mine = random_array((COLS,), "float32")
    theirs = mine.copy()
    kern = program(body, (one,), (w, y), 1)
    assert Compiled(kern)(mine, mine) == 0
    interpret(kern, [theirs.reshape(shape), theirs.reshape(1, COLS)])
    np.testing.assert_array_equal(mine, theirs)
    many = [over([put(x, I, J, mul(at(X, add(mul(BX, BLOCK), I), J), read))]), STORE]
    check(program(many, (x,), (X, Y, w)), 0)


# ---------------------------------------------------------------------------------------------- hazards
def test_a_source_that_is_written_later_is_copied_first() -> None:
    row = add(mul(BX, BLOCK), I2)
    body = [LOAD, over([put(X, row, J2, const(7.0, F32))], I2, J2), scaled(), STORE]
    check(program(body), 1)


def test_an_argument_that_may_be_the_source_and_is_written_between() -> None:
    row = add(mul(BX, BLOCK), I2)
    body = [LOAD, over([put(Y, row, J2, const(7.0, F32))], I2, J2), over([put(t, I, J, at(x, I, op("sub", COLS - 1, J)))])]
    body += [Copy(whole(t), box(Y, (mul(BX, BLOCK), 0), (BLOCK, COLS)))]
    kern = program(body)
    check(kern, 1)
    in_place(kern)


def test_one_array_read_at_another_place_than_it_is_written() -> None:
    """Turned round within the row: reading in place would see what other iterations have written."""
    kern = program([LOAD, over([put(t, I, J, at(x, I, op("sub", COLS - 1, J)))]), Copy(whole(t), STORE.dst)])
    assert copies(kern) >= 1
    check(kern, copies(kern))
    in_place(kern)


def test_a_tile_read_in_the_next_iteration_stays() -> None:
    k0, k1 = (mul(K, BLOCK), 0), (BLOCK, COLS)
    walk_ = For(K, ix(0), ix(4), (
        over([put(t, I, J, op("add", at(t, I, J), at(x, I, J)))]),
        Copy(box(X, k0, k1), whole(x)),
    ))  # fmt: skip
    body = [Fill(whole(x), const(1.0, F32)), Fill(whole(t), const(0.0, F32)), walk_, Copy(whole(t), box(Y, (0, 0), (BLOCK, COLS)))]
    kern = program(body, grid=1)
    assert any(isinstance(n, Copy) and n.dst.buffer == x for n in walk(forward_copies(kern)))
    agree(kern, [random_array((ROWS, COLS), "float32", n) for n in range(2)], rtol=1e-6)


def test_a_tile_read_after_the_loop_stays() -> None:
    """Trip counts of zero too: then it is what was there before."""
    for stop in (0, 3):
        loop = For(K, ix(0), ix(stop), (Copy(box(X, (mul(K, BLOCK), 0), (BLOCK, COLS)), whole(x)), scaled(t, x, 2.0, I2, J2)))
        body = [
            Fill(whole(x), const(1.0, F32)),
            Fill(whole(t), const(3.0, F32)),
            loop,
            over([put(x, I, J, op("add", at(x, I, J), at(t, I, J)))]),
            STORE,
        ]
        kern = program(body, grid=1)
        assert any(isinstance(n, Copy) and n.dst.buffer == x for n in walk(forward_copies(kern)))
        agree(kern, [random_array((ROWS, COLS), "float32", n) for n in range(2)], rtol=1e-6)


def test_a_tile_of_a_loop_that_nobody_reads_later_goes() -> None:
    loop = For(K, ix(0), ix(3), (
        Copy(box(X, (mul(K, BLOCK), 0), (BLOCK, COLS)), whole(x)),
        over([put(t, I, J, op("add", at(t, I, J), at(x, I, J)))]),
    ))  # fmt: skip
    body = [Fill(whole(t), const(0.0, F32)), loop, Copy(whole(t), box(Y, (0, 0), (BLOCK, COLS)))]
    check(program(body, grid=1), 1)  # t is made by a loop around, and is copied out


def test_ragged_regions_keep_their_copies() -> None:
    a, b = tensor("A", (ROWS - 3, COLS - 5)), tensor("B", (ROWS - 3, COLS - 5))
    body = [Copy(box(a, (mul(BX, BLOCK), 0), (BLOCK, COLS)), whole(x)), scaled(), Copy(whole(x), box(b, (mul(BX, BLOCK), 0), (BLOCK, COLS)))]
    check(program(body, params=(a, b)), 2)


def test_a_tile_read_along_columns_is_worth_its_copy() -> None:
    small, turned = tile("small", (16, 16)), tile("turned", (16, 16))
    a, b = tensor("A", (32, 32)), tensor("B", (32, 32))
    body = [
        Copy(box(a, (mul(BX, 16), 0), (16, 16)), whole(small)),
        over([put(turned, I, J, at(small, J, I))], sizes=(16, 16)),
        Copy(whole(turned), box(b, (0, mul(BX, 16)), (16, 16))),
    ]
    check(program(body, (small, turned), (a, b), 2), 1)


def test_a_read_outside_the_tile_gives_its_safe_value() -> None:
    """Beside the tile is not beside its source."""
    body = [LOAD, over([put(t, I, J, at(x, I, add(J, 1)))]), Copy(whole(t), STORE.dst)]
    kern = program(body)
    assert any(isinstance(n, Copy) and n.dst.buffer == x for n in walk(forward_copies(kern)))
    agree(kern, [random_array((ROWS, COLS), "float32", n) for n in range(2)])


def test_a_store_under_a_condition_covers_nothing() -> None:
    body = [LOAD, over([If(op("lt", J, 9), (put(x, I, J, const(5.0, F32)),))]), STORE]
    check(program(body), 2)


def test_a_block_that_may_leave_before_the_copy_has_written_nothing() -> None:
    body = [LOAD, scaled(), If(op("eq", BX, 1), (Return(),)), STORE]
    kern = program(body)
    assert any(isinstance(n, Copy) and n.dst.buffer == Y for n in walk(forward_copies(kern)))
    agree(kern, [random_array((ROWS, COLS), "float32", n) for n in range(2)])


def test_starts_that_memory_says_are_read_once() -> None:
    where = tensor("N", (8,), "int64")
    body = [Copy(box(X, (at(where, BX), 0), (BLOCK, COLS)), whole(x)), scaled(), STORE]
    kern = program(body, params=(X, Y, where))
    assert any(isinstance(n, Copy) and n.dst.buffer == x for n in walk(forward_copies(kern)))


def test_conversions_are_done_at_the_read_if_there_are_few() -> None:
    half = tensor("H", (ROWS, COLS), "float16")
    load = Copy(box(half, (mul(BX, BLOCK), 0), (BLOCK, COLS)), whole(x))
    check(program([load, scaled(), STORE], params=(half, Y)), 0)
    again = [load, *(over([put(t, Var(f"a{n}"), Var(f"b{n}"), at(x, Var(f"a{n}"), Var(f"b{n}")))], Var(f"a{n}"), Var(f"b{n}")) for n in range(3))]
    check(program([*again, Copy(whole(t), STORE.dst)], params=(half, Y)), 1)


def test_a_pinned_let_between_is_no_obstacle() -> None:
    n = Var("n")
    check(
        program([Let(n, mul(BX, BLOCK)), Copy(box(X, (n, 0), (BLOCK, COLS)), whole(x)), scaled(), Copy(whole(x), box(Y, (n, 0), (BLOCK, COLS)))]), 0
    )

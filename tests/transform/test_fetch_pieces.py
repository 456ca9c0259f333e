"""What a loop reads a line at a time is asked for ahead, and only that."""

from __future__ import annotations

import pytest
from codegen.c_runner import source_of
from codegen.differ import agree, random_array
from codegen.ir_kit import F32, Var, add, at, block, const, ix, kernel, mul, put, tensor, tile

from tileworkbench.base.dtypes import INDEX, INT32
from tileworkbench.ir.build import cast
from tileworkbench.ir.expr import Buffer, Expr
from tileworkbench.ir.lowered import Address, Element, LibraryCall, Loop, SetElement
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Evaluate, For, Kernel, Let, ParallelFor, Stmt
from tileworkbench.transform.fetch_pieces import fetch_pieces

BX, G, J = Var("bx"), Var("g"), Var("j", INT32)
W, Y, S = tensor("W", (8, 1024)), tensor("Y", (8, 1024)), tile("s", (16,))


def asked(
    offset: Expr, count: int = 16, turns: int = 64, source: Buffer = W, before: tuple[Stmt, ...] = (), inside: tuple[Stmt, ...] = (), step: int = 1
) -> list[Expr]:
    """Where the pass asks in for g in 0..turns: for j in 0..count simd: s[j] = s[j] + source[offset]."""
    store = SetElement(S, ix(0), add(Element(S, ix(0)), Element(source, offset)))
    inner = Loop(J, const(0, INT32), const(count, INT32), (*inside, store), simd=True)
    kern = kernel("k", (W, Y), [block((1,), (BX,), (Loop(G, ix(0), ix(turns), (*before, inner), step=step),), (S,))])
    after = fetch_pieces(kern)
    assert fetch_pieces(kern) == after
    asks = [n.value.args[0] for n in walk(after) if isinstance(n, Evaluate) and isinstance(n.value, LibraryCall) and n.value.name == "twb_ask_ahead"]
    assert asks or after is kern
    assert all(isinstance(a, Address) and a.buffer == source for a in asks)
    return [a.offset for a in asks]


def walked(count: int = 16) -> Expr:
    return add(mul(G, count), cast(J, INDEX))


def test_a_stretch_that_goes_on_is_asked_for_a_kilobyte_ahead() -> None:
    assert asked(walked()) == [add(mul(G, 16), 256)]
    assert asked(add(G, cast(J, INDEX)), step=16, turns=1024) == [add(G, 256)]


@pytest.mark.parametrize("count", [8, 128], ids=["half a line", "many lines"])
def test_pieces_of_other_sizes_are_not(count: int) -> None:
    assert asked(walked(count), count) == []


def test_rows_apart_short_stretches_and_tiles_are_not() -> None:
    assert asked(add(mul(G, 1024), cast(J, INDEX))) == []
    assert asked(add(mul(cast(J, INDEX), 16), mul(G, 16))) == []
    assert asked(walked(), turns=16) == []
    assert asked(walked(), source=tile("t", (1024,))) == []


def test_a_place_that_is_only_known_inside_the_loop_is_not_asked_for() -> None:
    at_row = Var("r")
    place = add(mul(at_row, 1024), walked())
    assert asked(place, inside=(Let(at_row, cast(Element(S, ix(0)), INDEX)),)) == []
    assert len(asked(place, before=(Let(at_row, BX),))) == 1


def test_nothing_changes_at_the_end_of_an_array() -> None:
    """The last turns ask for what lies behind the array."""
    i, j = Var("i"), Var("jj")
    body: list[Stmt] = [
        ParallelFor((i,), (ix(16),), (put(S, i, const(0.0, F32)),)),
        For(G, ix(0), ix(64), (ParallelFor((j,), (ix(16),), (put(S, j, add(at(S, j), mul(at(W, 7, add(mul(G, 16), j)), 2.0))),)),)),
        ParallelFor((Var("q"),), (ix(16),), (put(Y, 0, Var("q"), at(S, Var("q"))),)),
    ]
    kern: Kernel = kernel("k", (W, Y), [block((1,), (BX,), body, (S,))])
    assert "twb_ask_ahead(&W[" in source_of(kern).text
    agree(kern, [random_array((8, 1024), "float32", n) for n in range(2)], rtol=1e-5)


def test_a_loop_without_a_body_stays() -> None:
    kern = kernel("k", (W, Y), [block((1,), (BX,), (Loop(G, ix(0), ix(64), ()),), (S,))])
    assert fetch_pieces(kern) is kern

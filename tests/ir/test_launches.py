"""Finding launches and statements without looking at everything: launches stand in what the host decides, statements in no expression."""

from __future__ import annotations

from handmade import BX, I, add, at, buf, kernel, launch, num, put

from tileworkbench.ir.bodies import statements
from tileworkbench.ir.expr import Binary, Const
from tileworkbench.ir.launches import rewrite_launches
from tileworkbench.ir.node import replace, walk
from tileworkbench.ir.stmt import For, If, Launch, Stmt

A = buf("a", 8, 8)
FIRST, SECOND = (launch(blocks, (put(A, (BX, BX), add(at(A, BX, BX), 1.0)),)) for blocks in (2, 3))
BRANCH = If(Binary("lt", num(1), num(2)), (SECOND,))
PROGRAM = replace(kernel([A], FIRST), body=(FIRST, For(I, num(0), num(4), (BRANCH,))))


def test_launches_in_branches_and_loops_of_the_host_are_seen_in_order():
    seen = []
    assert rewrite_launches(PROGRAM, lambda node: seen.append(node) or node) is PROGRAM
    assert seen == [FIRST, SECOND]
    assert seen == [n for n in walk(PROGRAM) if isinstance(n, Launch)]


def test_a_launch_may_become_several_or_none():
    twice = rewrite_launches(PROGRAM, lambda node: (node, node) if node is SECOND else ())
    assert [n for n in walk(twice) if isinstance(n, Launch)] == [SECOND, SECOND]
    assert len(twice.body) == 1


def test_other_parts_keep_identity():
    new = rewrite_launches(PROGRAM, lambda node: replace(node, grid=(Const(9),)) if node is SECOND else node)
    assert new.body[0] is FIRST
    assert new.params is PROGRAM.params
    assert new.body[1].body[0].then[0].grid == (Const(9),)


def test_statements_are_those_that_a_walk_meets():
    seen = list(statements(PROGRAM))
    assert [type(n).__name__ for n in seen] == ["Launch", "Store", "For", "If", "Launch", "Store"]
    assert seen == [n for n in walk(PROGRAM) if isinstance(n, Stmt)]
    assert list(statements(FIRST.body[0])) == [FIRST.body[0]]

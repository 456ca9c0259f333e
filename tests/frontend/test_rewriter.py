"""Rewriting keeps the meaning of plain Python: without kernel values the new function does what the old one did."""

from __future__ import annotations

import pytest

from tileworkbench.frontend.builder import Builder, building
from tileworkbench.frontend.compiled import kernel_function
from tileworkbench.frontend.scopes import MAYBE, NEVER, SURELY, find_scopes
from tileworkbench.frontend.source import source_of


def loops(n):
    total, seen = 0, []
    for i in range(n):
        if i == 1:
            continue
        if i > 5:
            break
        seen.append(i)
        total += i
    else:
        seen.append("else")
    while total > 3:
        total -= 3
        if total == 5:
            break
    else:
        seen.append("done")
    return total, seen


def nested(n):
    def inner(k, *rest, scale=2, **more):
        if k == 0:
            return (), rest, more
        value = k * scale * n
        return value, inner(k - 1, value, scale=scale + 1, **more)

    return inner(n, scale=3, tag="x")


def logic(n):
    a = n and n - 1 or "none"
    b = not n
    c = 0 < n < 5 <= n + 4 != 7
    d = [x if x % 2 else -x for x in range(n) if x > 0 and x != 3]
    e = {k: v * 2 for k, v in zip("abc", d, strict=False)} or None
    return a, b, c, d, e, (None if n is None else n in d)


def targets(n):
    (a, b), *rest = (n, n + 1), n + 2, n + 3
    c = d = [a]
    c[0], b = b, c[0]
    d += [5]
    table = {"x": {"y": 1}}
    table["x"]["y"] += n
    value: int = 3
    value **= 2
    value //= 2
    text = f"{a!r:>4}{b}"
    return a, b, rest, c, d, c is d, table, value, text, max(a, b), min([a, b]), abs(-n), int("7"), sum(rest), any(rest), round(2.5), float(n)


class Box:
    count = 0


def objects(n):
    box = Box()
    box.count = n
    box.count += 2
    with open("/dev/null") as f:
        read = f.read()
    assert box.count == n + 2, "never"
    f = lambda x, y=n: x + y if x else y  # a lambda on purpose
    return box.count, read, f(0), f(3), sorted([3, 1, 2], key=lambda v: -v)


def late(n):
    if n > 2:
        found = n
    for found in [found, 7] if n > 2 else [8]:  # on purpose
        pass
    return found


@pytest.mark.parametrize("n", [0, 1, 3, 7])
@pytest.mark.parametrize("function", [loops, nested, logic, targets, objects, late])
def test_the_same_result(function, n):
    with building(Builder("test")):
        assert kernel_function(function)(n) == function(n)


def test_the_same_errors():
    def unbound(n):
        if n:
            value = 1
        return value

    def raises(n):
        raise KeyError(n)

    for function, kind in ((unbound, UnboundLocalError), (raises, KeyError)):
        with building(Builder("test")), pytest.raises(kind):
            kernel_function(function)(0)


def test_defaults_names_and_closures_are_kept():
    outside = 3

    def f(a, b=outside, *, c=4):
        return a, b, c, outside

    new = kernel_function(f)
    assert (new.__name__, new.__qualname__, new.__defaults__, new.__kwdefaults__) == ("f", f.__qualname__, (3,), {"c": 4})
    outside = 5
    with building(Builder("test")):
        assert new(1) == (1, 3, 4, 5)


def test_scopes():
    def f(n):
        a = 1
        for i in n:
            b = a
            a = b + i
            c = i
        if n:
            d = c
        return a, d

    tree = source_of(f).take_tree()
    scopes = find_scopes(tree)
    before = {(node.id, node.lineno - tree.lineno): state for node, state in scopes.before.items()}
    assert before == {("a", 1): NEVER, ("i", 2): MAYBE, ("b", 3): MAYBE, ("a", 4): SURELY, ("c", 5): MAYBE, ("d", 7): NEVER}
    escapes = {node.id: [(type(e.construct).__name__, e.is_new) for e in found] for node, found in scopes.escapes.items()}
    assert escapes == {"a": [("For", False)], "c": [("For", True)], "d": [("If", True)]}

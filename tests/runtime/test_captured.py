"""Closures and globals are part of what a kernel is remembered by: redefining one never runs stale code, and restoring it finds the old kernel."""

from __future__ import annotations

import enum
import linecache
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tileworkbench.runtime.captured import Captured
from tileworkbench.runtime.freezing import frozen

COUNT = 0
X = np.arange(4, dtype=np.float32)


def cell(text: str, space: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run text as a notebook cell in a namespace."""
    global COUNT
    COUNT += 1
    label = f"<captured {COUNT}>"  # a name that no other test gives its cells
    linecache.cache[label] = (len(text), None, text.splitlines(keepends=True), label)
    space = {"__name__": "__main__"} if space is None else space
    exec(compile(text, label, "exec"), space)
    return space


HEAD = """
import tileworkbench
import tileworkbench.language as T
"""
EAGER = (
    HEAD
    + """
{before}
@tileworkbench.jit(target="interpret")
def f(A):
    A: T.Tensor((4,), T.float32)
    B = T.empty((4,), T.float32)
    with T.Kernel(1, threads=1):
        for i in T.Parallel(4):
            B[i] = {expression}
    return B
"""
)


def eager(expression: str, before: str) -> dict[str, Any]:
    return cell(EAGER.format(expression=expression, before=before))


CHANGES = [
    ("A[i] * FACTOR", "FACTOR = 2", "FACTOR = 5", 2, 5),
    ("A[i] * FACTOR", "FACTOR = 2", "FACTOR = 2.5", 2, 2.5),
    ("helper(A[i])", "def helper(x): return x * 2", "def helper(x): return x * 5", 2, 5),
    ("helper(A[i])", "K = 2\ndef helper(x): return x * K", "K = 5", 2, 5),
    ("outer(A[i])", "def inner(x): return x * 2\ndef outer(x): return inner(x)", "def inner(x): return x * 5", 2, 5),
    ("double(A, i)", "@T.macro\ndef double(A, i): return A[i] * 2.0", "@T.macro\ndef double(A, i): return A[i] * 5.0", 2, 5),
    ("double(A, i)", "K = 2.0\n@T.macro\ndef double(A, i): return A[i] * K", "K = 5.0", 2, 5),
    ("A[i] * table['k']", "table = {'k': 2}", "table['k'] = 5", 2, 5),
    ("A[i] * items[0]", "items = [2]", "items[0] = 5", 2, 5),
    ("A[i] * config.k", "class Config: pass\nconfig = Config(); config.k = 2", "config.k = 5", 2, 5),
    ("A[i] * config.inner.k", "class Config: pass\nconfig = Config(); config.inner = Config(); config.inner.k = 2", "config.inner.k = 5", 2, 5),
    ("A[i] * mod.k", "import types\nmod = types.ModuleType('mod'); mod.k = 2", "mod.k = 5", 2, 5),
    ("mod.h(A[i])", "import types\nmod = types.ModuleType('mod'); mod.h = lambda x: x * 2", "mod.h = lambda x: x * 5", 2, 5),
    ("Config.scale(A[i])", "k = 2\nclass Config:\n  @staticmethod\n  def scale(x): return x * k", "k = 5", 2, 5),
    ("config.scale(A[i])", "k = 2\nclass Config:\n  def scale(self, x): return x * k\nconfig = Config()", "k = 5", 2, 5),
    ("A[i] * weights[1]", "import numpy as np\nweights = np.array([0, 2])", "weights[1] = 5", 2, 5),
    ("A[i] * max(2, 1)", "", "max = lambda a, b: a * 2 + b", 2, 5),
    ("partial(A[i])", "import functools\ndef h(k, x): return x * k\npartial = functools.partial(h, 2)", "partial = functools.partial(h, 5)", 2, 5),
]


@pytest.mark.parametrize(("expression", "before", "change", "first", "second"), CHANGES, ids=[f"{c[0]} / {c[2]}"[:60] for c in CHANGES])
def test_change_is_seen(expression: str, before: str, change: str, first: float, second: float) -> None:
    space = eager(expression, before)
    for _ in range(3):
        np.testing.assert_array_equal(space["f"](X), X * first)
    cell(HEAD + change, space)
    for _ in range(3):
        np.testing.assert_array_equal(space["f"](X), X * second)


def test_annotation_only_name() -> None:
    """Python compiles no code for the annotation of a local variable, but the kernel means it."""
    space = cell(
        HEAD
        + """
N = 4
@tileworkbench.jit(target="interpret")
def f(A):
    A: T.Tensor((N,), T.float32)
    B = T.empty((4,), T.float32)
    with T.Kernel(1, threads=1):
        for i in T.Parallel(4):
            B[i] = A[i]
    return B
"""
    )
    space["f"](X)
    cell("N = 3", space)
    with pytest.raises(ValueError, match=r"expected shape \(3,\), got \(4,\)"):
        space["f"](X)


def test_lazy_closure() -> None:
    space = cell(
        HEAD
        + """
def outer():
    k = 2
    @tileworkbench.jit(target="interpret", out_idx=-1)
    def make():
        @T.prim_func
        def scale(A: T.Tensor((4,), T.float32), B: T.Tensor((4,), T.float32)):
            with T.Kernel(1, threads=1):
                for i in T.Parallel(4):
                    B[i] = A[i] * k
        return scale
    def change(v):
        nonlocal k
        k = v
    return make, change
make, change = outer()
"""
    )
    first = space["make"]()
    assert space["make"]() is first
    space["change"](5)
    np.testing.assert_array_equal(space["make"]()(X), X * 5)
    space["change"](2)
    assert space["make"]() is first


def test_rerun_cell_is_a_new_function() -> None:
    space = eager("A[i] * 2", "")
    np.testing.assert_array_equal(space["f"](X), X * 2)
    cell(EAGER.format(expression="A[i] * 3", before=""), space)
    np.testing.assert_array_equal(space["f"](X), X * 3)


def test_equal_number_is_the_same() -> None:
    space: dict[str, Any] = {"k": 1 << 40}
    exec("def f(): return k", space)
    captured = Captured(space["f"])
    key = captured.key()
    space["k"] = (1 << 39) * 2
    assert captured.is_same()
    space["k"] = float(1 << 40)
    assert not captured.is_same()
    assert captured.key() != key
    space["k"] = 1 << 40
    assert captured.key() == key
    del space["k"]
    assert not captured.is_same()
    assert captured.key() != key


class Colour(enum.Enum):
    RED = 1


@dataclass
class Point:
    x: int
    y: Any


@pytest.mark.parametrize(
    ("a", "b"),
    [(1, 1.0), (1, True), (0.0, -0.0), ("1", 1), ([1], (1,)), ({1: 2}, {1: 3}), ({1}, {2}), (Point(1, [2]), Point(1, [3])), (np.zeros(2), np.ones(2)),
     (np.zeros(2), np.zeros(2, np.int64)), (np.float32(1), np.float64(1)), (None, 0), (Colour.RED, 1), ((1, (2, 3)), (1, (2, 4))), ([], {})],
)  # fmt: skip
def test_frozen_tells_apart(a: Any, b: Any) -> None:
    assert frozen(a) != frozen(b)
    hash(frozen(a))
    hash(frozen(b))


@pytest.mark.parametrize("value", [1, 2.5, "x", [1, {2: (3,)}], {"a": {1, 2}}, Point(1, [2]), np.arange(3), Colour.RED, float("nan")])
def test_frozen_is_stable(value: Any) -> None:
    import copy

    assert frozen(value) == frozen(copy.deepcopy(value))


def test_itself_inside_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    hash(frozen(loop))

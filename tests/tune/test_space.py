"""Tunables, spaces, and why a schedule is not allowed."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tileworkbench.language as T
from tileworkbench.base.errors import TileTypeError, TileValueError
from tileworkbench.tune.schedule import Schedule
from tileworkbench.tune.space import Constraint, Space, Tunable, powers

SPACE = Space.of(block_M=[64, 32, 128], stages=range(1, 4), policy=T.GemmWarpPolicy, swizzle=[False, True])


@pytest.mark.parametrize(
    ("values", "kind", "steps"),
    [
        ([64, 32, 128, 64], "power", (32, 64, 128)),
        (range(1, 4), "int", (1, 2, 3)),
        ([1, 2, 4], "int", (1, 2, 4)),
        ([8, 24], "int", (8, 24)),
        ([0.5, 0.25], "float", (0.25, 0.5)),
        ([True, False], "bool", (True, False)),
        (["b", "a"], "enum", ("b", "a")),
        (T.GemmWarpPolicy, "enum", tuple(T.GemmWarpPolicy)),
        ([1, None], "enum", (1, None)),
        ([True, 2], "enum", (True, 2)),
    ],
)
def test_kinds(values: Any, kind: str, steps: tuple[Any, ...]) -> None:
    tunable = Tunable.of("x", values)
    assert (tunable.kind, tunable.values) == (kind, steps)


def test_what_is_no_tunable() -> None:
    with pytest.raises(TileTypeError, match="x: expected a list of values or a range, got 3\n  hint: x=\\[3\\] has one step"):
        Tunable.of("x", 3)
    with pytest.raises(TileTypeError, match="got 'ab'"):
        Tunable.of("x", "ab")
    with pytest.raises(TileValueError, match="x has no values to choose from"):
        Tunable.of("x", [])


def test_steps_of_a_tunable() -> None:
    block = SPACE.tunable("block_M")
    assert (block.around(64), block.around(32), block.index(100), block.label(0)) == ((32, 128), (64,), 2, "32")
    policy = SPACE.tunable("policy")
    assert policy.around(T.GemmWarpPolicy.Square) == (T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.FullCol)
    with pytest.raises(TileValueError, match="policy cannot be 9\n  hint: its values are Square, FullRow, FullCol"):
        policy.index(9)
    with pytest.raises(KeyError, match="there is no tunable 'block', only block_M, stages, policy, swizzle"):
        SPACE.tunable("block")


@given(st.integers(1, 300), st.integers(1, 600))
def test_powers(low: int, high: int) -> None:
    assert powers(low, high) == tuple(1 << i for i in range(12) if low <= 1 << i <= high)


def test_enumerates() -> None:
    assert len(SPACE) == SPACE.size == 3 * 3 * 3 * 2 == len(set(SPACE))
    first = next(iter(SPACE))
    assert first == Schedule(block_M=32, stages=1, policy=T.GemmWarpPolicy.Square, swizzle=False)
    assert first in SPACE
    assert Schedule(block_M=48, stages=1, policy=T.GemmWarpPolicy.Square, swizzle=False) not in SPACE
    assert not Space.of()


def test_constraints() -> None:
    def ring(block_M: int, stages: int) -> bool:
        """the ring is larger than the cache"""
        return block_M * stages <= 128

    space = SPACE.where(ring).where(lambda schedule: not schedule["swizzle"], "swizzles are off")
    assert len(space) == 6 * 3
    assert space.size == len(SPACE)
    large = Schedule(block_M=128, stages=2, policy=T.GemmWarpPolicy.Square, swizzle=True)
    assert space.why_not(large) == "the ring is larger than the cache"
    assert space.why_not(large.replace(stages=1)) == "swizzles are off"
    assert space.why_not(large.replace(stages=1, swizzle=False)) == ""
    assert space.why_not(large.replace(block_M=48)) == "block_M=48 is no step of block_M: 32, 64, 128"
    assert space.why_not({"block_M": 32}) == "stages is not given"
    with pytest.raises(TileValueError, match="a constraint speaks of block, which is no tunable"):
        list(SPACE.where(lambda block: True))
    assert Constraint.of(lambda block_M: True).reason == "breaks a constraint of the space"


def test_checks_are_asked_last_and_not_while_iterating() -> None:
    asked: list[Schedule] = []

    def compiles(schedule: Schedule) -> str:
        asked.append(schedule)
        return "does not compile" if schedule["stages"] == 3 else ""

    space = SPACE.where(lambda stages: stages > 1, "too few").checked(compiles)
    some = next(iter(space))
    assert not asked
    assert space.why_not(some) == ""
    assert space.why_not(some.replace(stages=3)) == "does not compile"
    assert space.why_not(some.replace(stages=1)) == "too few"
    assert len(asked) == 2


def test_moving_about() -> None:
    space = SPACE.where(lambda block_M, stages: block_M * stages <= 128, "")
    at = Schedule(block_M=64, stages=2, policy=T.GemmWarpPolicy.Square, swizzle=False)
    near = {str(s - at) for s in space.neighbours(at)}
    assert near == {"block_M 64 -> 32", "stages 2 -> 1", "policy Square -> FullRow", "policy Square -> FullCol", "swizzle False -> True"}
    assert [s["block_M"] for s in space.steps(at, "block_M")] == [32, 64, 128]
    assert space.nearest(at) == at
    assert space.nearest({"block_M": 128, "stages": 3, "policy": 9})["block_M"] * space.nearest({"block_M": 128, "stages": 3})["stages"] <= 128
    assert space.nearest({"block_M": 90, "stages": 1})["block_M"] == 64
    with pytest.raises(TileValueError, match="the constraints allow no schedule at all"):
        SPACE.where(lambda stages: False).nearest({})
    assert space.sample(5, seed=1) == space.sample(5, seed=1) != space.sample(5, seed=2)
    assert len(space.sample(10_000)) == len(space)


def test_a_list_of_configurations() -> None:
    space = Space.of_configs([{"a": 1, "b": 2}, {"b": 4, "a": 3}, {"a": 1, "b": 2}])
    assert list(space) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert [str(t) for t in space.tunables] == ["a: 1, 3", "b: 2, 4"]
    assert space.neighbours({"a": 1, "b": 2}) == []
    assert len(space.where(lambda a: a > 1)) == 1
    with pytest.raises(TileValueError, match="the configurations name different tunables: a and b"):
        Space.of_configs([{"a": 1}, {"b": 1}])
    assert len(Space.of_configs([])) == 0


class Mode(Enum):
    one = 1
    two = 2


def test_guessing_from_a_function() -> None:
    def kernel(
        M,
        A,
        block_M=64,
        stages=2,
        swizzle=False,
        policy=T.GemmWarpPolicy.Square,
        dtype="float16",
        vector: Literal[1, 2, 4] = 1,
        mode: Mode = Mode.one,
        eps=1e-5,
    ):
        pass

    space = Space.of_function(kernel, block_N=[8], eps=None)
    assert str(space).splitlines() == [
        "block_M: 16, 32, 64, 128, 256", "stages: 1, 2, 3, 4", "swizzle: False, True", "policy: Square, FullRow, FullCol", "vector: 1, 2, 4",
        "mode: one, two", "block_N: 8",
    ]  # fmt: skip
    assert Space.of_function(kernel, stages=[3], block_M=None).names[0] == "stages"

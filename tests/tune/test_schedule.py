"""Schedules as values: printing, differences, JSON both ways."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import TileTypeError, TileValueError
from tileworkbench.tune.schedule import Schedule

NAMES = st.text("abcdefghij_MNK", min_size=1, max_size=8)
PLAIN: st.SearchStrategy[Any] = st.one_of(
    st.integers(), st.floats(allow_nan=False), st.booleans(), st.none(), st.text(max_size=8), st.sampled_from(T.GemmWarpPolicy),
    st.sampled_from([T.float16, T.bfloat16, T.int4]),
)  # fmt: skip
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)
SCHEDULES = st.dictionaries(NAMES, VALUES, max_size=5).map(Schedule)


def _typed(value: Any) -> Any:
    return [_typed(v) for v in value] if isinstance(value, tuple) else (type(value), value, math.copysign(1, value) if type(value) is float else 0)


@given(SCHEDULES)
def test_json_round_trip(schedule: Schedule) -> None:
    for text in (schedule.to_json(), schedule.key):
        again = Schedule.from_json(text)
        assert again == schedule
        assert {k: _typed(v) for k, v in again.items()} == {k: _typed(v) for k, v in schedule.items()}, "the types too"
    assert list(Schedule.from_json(schedule.to_json())) == list(schedule), "the order of the names is kept"
    again = pickle.loads(pickle.dumps(schedule))
    assert (again, hash(again), str(again)) == (schedule, hash(schedule), str(schedule))


@given(SCHEDULES, SCHEDULES)
def test_a_difference_leads_from_one_to_the_other(old: Schedule, new: Schedule) -> None:
    change = new - old
    assert change.apply(old) == new
    assert bool(change) == (new != old)
    assert (old.key == new.key) <= (old == new)


def test_prints() -> None:
    schedule = Schedule(block_M=128, policy=T.GemmWarpPolicy.FullRow, dtype=T.float16, swizzle=True)
    assert str(schedule) == "block_M=128, policy=FullRow, dtype=float16, swizzle=True"
    assert str(Schedule()) == "no tunables"
    assert repr(Schedule(a=1, b="x")) == "Schedule(a=1, b='x')"
    assert str(schedule.replace(block_M=64, stages=2) - schedule) == "block_M 128 -> 64, + stages=2"
    assert str(Schedule(a=1) - schedule) == "+ a=1, - block_M, - policy, - dtype, - swizzle"
    assert str(schedule - schedule) == "no change"


def test_is_a_frozen_mapping() -> None:
    schedule = tileworkbench.Schedule({"a": 1}, b=2)
    assert dict(**schedule) == {"a": 1, "b": 2}
    assert schedule == {"b": 2, "a": 1}
    assert schedule != {"a": 1}
    assert len({schedule, Schedule(b=2, a=1), Schedule(a=1)}) == 2
    with pytest.raises(AttributeError, match=r"a schedule is frozen; use .replace\(a=...\)"):
        schedule.a = 3
    assert Schedule(a=np.int64(3), b=[1, 2])["b"] == (1, 2)
    assert type(Schedule(a=np.int64(3))["a"]) is int


def test_what_cannot_be_a_value() -> None:
    with pytest.raises(TileTypeError, match="^type error: a=.* cannot be part of a schedule\n  hint: use numbers, strings"):
        Schedule(a=np.zeros(3))


def test_saves_and_loads(tmp_path: Path) -> None:
    schedule = Schedule(block_M=128, stages=2)
    assert Schedule.load(schedule.save(tmp_path / "best.json")) == schedule
    assert Schedule.from_json('{"block_M": 128, "stages": 2}') == schedule, "a plain object, written by hand"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a schedule: Expecting property name"),
        ("[1]", "not a schedule: expected a JSON object"),
        ('{"format": "tileworkbench schedule 9"}', "its format is 'tileworkbench schedule 9'"),
        ('{"a": {"enum": "Colour", "name": "Red"}}', "Colour.Red is no value that this version knows"),
        ('{"a": {"b": 1}}', "is no value of a schedule"),
    ],
)
def test_what_is_not_a_schedule(text: str, said: str) -> None:
    with pytest.raises(TileValueError) as caught:
        Schedule.from_json(text)
    assert said in str(caught.value)


def test_the_key_is_one_line_in_order() -> None:
    assert Schedule(b=1, a=True).key == '{"a":true,"b":1}' == json.dumps({"a": True, "b": 1}, separators=(",", ":"))

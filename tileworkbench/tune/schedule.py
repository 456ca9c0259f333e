"""A schedule: the build-time choices of a kernel (tile sizes, stages, threads, policy, ...) as one small frozen value.

The algorithm is the kernel function; a schedule says how it is cut up. One kernel, many schedules.

>>> small = Schedule(block_M=64, num_stages=2)
>>> print(small)
block_M=64, num_stages=2
>>> large = small.replace(block_M=128)
>>> print(large - small)
block_M 64 -> 128
>>> Schedule.from_json(large.to_json()) == large
True
>>> small == {"num_stages": 2, "block_M": 64}, {small: "the small one"}[Schedule(num_stages=2, block_M=64)]
(True, 'the small one')
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.dtypes import DType
from ..base.errors import TileTypeError, TileValueError
from ..language.tile import GemmWarpPolicy

FORMAT = "tileworkbench schedule 1"
_MISSING = object()
_ENUMS: dict[str, type[enum.Enum]] = {"GemmWarpPolicy": GemmWarpPolicy}


class Schedule(Mapping[str, Any]):
    """Tunable -> value, frozen; a mapping, so `matmul(M, N, K, **schedule)` builds the kernel.

    Values are numbers, strings, booleans, None, dtypes, enums of the language, and tuples of these. Two schedules (or a schedule and a dict) are
    equal when they name the same values, in any order.

    Raises: TileTypeError for a value that cannot be part of a schedule, such as an array or a function.
    """

    __slots__ = ("_hash", "_values")
    _values: dict[str, Any]
    _hash: int

    def __init__(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        merged = {str(k): _plain(str(k), v) for k, v in {**(values or {}), **more}.items()}
        object.__setattr__(self, "_values", merged)
        object.__setattr__(self, "_hash", hash(frozenset(merged.items())))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a schedule is frozen; use .replace({name}=...)")

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            return self._values == dict(other)
        return NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return Schedule, (self._values,)

    def __str__(self) -> str:
        return ", ".join(f"{name}={text_of(value)}" for name, value in self._values.items()) or "no tunables"

    def __repr__(self) -> str:
        return f"Schedule({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    # ------------------------------------------------------------------ other schedules
    def replace(self, **changes: Any) -> Schedule:
        """This schedule with some values changed or added."""
        return Schedule({**self._values, **changes})

    def diff(self, old: Mapping[str, Any]) -> Difference:
        """What changed from `old` to this schedule; empty (and false) when nothing did."""
        names = dict.fromkeys([*self._values, *old])
        pairs = ((name, old.get(name, _MISSING), self._values.get(name, _MISSING)) for name in names)
        return Difference(tuple(Change(name, a, b) for name, a, b in pairs if a is _MISSING or b is _MISSING or a != b))

    def __sub__(self, old: Mapping[str, Any]) -> Difference:
        """`new - old`: what changed."""
        return self.diff(old)

    # ------------------------------------------------------------------ text
    @property
    def key(self) -> str:
        """One line of JSON with the names in order: equal for equal schedules, for file names and databases."""
        return json.dumps({k: _encode(self._values[k]) for k in sorted(self._values)}, separators=(",", ":"))

    def to_json(self) -> str:
        """A JSON text that `from_json` reads back."""
        return json.dumps({"format": FORMAT, "schedule": {k: _encode(v) for k, v in self._values.items()}}, indent=1)

    @staticmethod
    def from_json(text: str) -> Schedule:
        """The schedule of a text that `to_json` or `key` made, or of any flat JSON object. Raises TileValueError for anything else."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise TileValueError(f"not a schedule: {error}") from None
        if not isinstance(data, dict):
            raise TileValueError("not a schedule: expected a JSON object")
        if "format" in data and data["format"] != FORMAT:
            raise TileValueError(f"not a schedule that this version reads: its format is {data['format']!r}", hint=f"expected {FORMAT!r}")
        values = data["schedule"] if "format" in data and isinstance(data.get("schedule"), dict) else data
        return Schedule({k: _decode(v) for k, v in values.items()})

    def save(self, path: str | Path) -> Path:
        """Write `to_json()` to a file; returns its path."""
        place = Path(path)
        place.write_text(self.to_json() + "\n", encoding="utf-8")
        return place

    @staticmethod
    def load(path: str | Path) -> Schedule:
        """The schedule of a file that `save` wrote. Raises OSError or TileValueError."""
        return Schedule.from_json(Path(path).read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Change:
    """One tunable that differs. `before` or `after` is missing (`is_added`, `is_removed`) when only one of the schedules names it."""

    name: str
    before: Any
    after: Any

    @property
    def is_added(self) -> bool:
        return self.before is _MISSING

    @property
    def is_removed(self) -> bool:
        return self.after is _MISSING

    def __str__(self) -> str:
        if self.is_added:
            return f"+ {self.name}={text_of(self.after)}"
        if self.is_removed:
            return f"- {self.name}"
        return f"{self.name} {text_of(self.before)} -> {text_of(self.after)}"


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed between two schedules; prints on one line, false if nothing did."""

    changes: tuple[Change, ...]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def __str__(self) -> str:
        return ", ".join(map(str, self.changes)) or "no change"

    def apply(self, old: Mapping[str, Any]) -> Schedule:
        """`old` with these changes made."""
        gone = {c.name for c in self.changes if c.is_removed}
        kept = {k: v for k, v in old.items() if k not in gone}
        return Schedule({**kept, **{c.name: c.after for c in self.changes if not c.is_removed}})


def text_of(value: Any) -> str:
    """A value as a person writes it: 128, FullRow, float16, True.

    >>> text_of(GemmWarpPolicy.FullRow), text_of(0.5), text_of((1, 2))
    ('FullRow', '0.5', '(1, 2)')
    """
    if isinstance(value, enum.Enum):
        return value.name
    return str(value)


# ------------------------------------------------------------------------------------------- values
def _plain(name: str, value: Any) -> Any:
    """`value` as a hashable one of the kinds that a schedule may hold."""
    if isinstance(value, (bool, int, float, str, enum.Enum)) or value is None:
        return value
    if isinstance(value, np.generic):
        return _plain(name, value.item())
    if isinstance(value, (list, tuple)):
        return tuple(_plain(name, v) for v in value)
    if isinstance(value, Mapping):
        return tuple(sorted((str(k), _plain(name, v)) for k, v in value.items()))
    raise TileTypeError(f"{name}={value!r} cannot be part of a schedule", hint="use numbers, strings, booleans, dtypes, enums, or tuples of these")


def _encode(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return {"enum": type(value).__name__, "name": value.name}
    if isinstance(value, DType):
        return {"dtype": str(value)}
    if isinstance(value, tuple):
        return {"tuple": [_encode(v) for v in value]}
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"float": repr(value)}
    return value


def _decode(value: Any) -> Any:
    match value:
        case {"enum": str(kind), "name": str(name)}:
            known = _ENUMS.get(kind)
            if known is None or name not in known.__members__:
                raise TileValueError(f"{kind}.{name} is no value that this version knows")
            return known[name]
        case {"dtype": str(name)}:
            return DType(name)
        case {"tuple": list(items)}:
            return tuple(_decode(v) for v in items)
        case {"float": str(text)}:
            return float(text)
        case list():
            return tuple(_decode(v) for v in value)
        case dict():
            raise TileValueError(f"{value} is no value of a schedule")
        case _:
            return value

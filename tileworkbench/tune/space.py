"""What may be chosen: the tunables of a kernel with their steps, the combinations of them, and why some are not allowed.

>>> space = Space.of(block_M=[32, 64, 128], num_stages=range(1, 4), swizzle=[False, True])
>>> print(space)
block_M: 32, 64, 128
num_stages: 1, 2, 3
swizzle: False, True
>>> len(space), space.tunable("block_M").kind
(18, 'power')
>>> small = space.where(lambda block_M, num_stages: block_M * num_stages <= 128, "the ring would hold more than 128 rows")
>>> len(small), small.why_not(Schedule(block_M=128, num_stages=2, swizzle=False))
(12, 'the ring would hold more than 128 rows')
"""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import prod
from typing import Any, Literal, get_args, get_origin

from ..base.errors import TileTypeError, TileValueError
from .schedule import Schedule, text_of

Kind = Literal["power", "int", "float", "bool", "enum"]
Why = Callable[[Schedule], str]
NEAREST_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class Tunable:
    """One build-time argument and the steps it may take, in order.

    `kind`: "power" (powers of two), "int", "float", "bool", or "enum" (anything else: strings, policies, dtypes). The first three have an order.
    """

    name: str
    values: tuple[Any, ...]
    kind: Kind

    @staticmethod
    def of(name: str, values: Any) -> Tunable:
        """A tunable from a list, a range, an enum class, or a Tunable of any name. Raises TileValueError if it holds nothing."""
        if isinstance(values, Tunable):
            return replace(values, name=name)
        if isinstance(values, type) and issubclass(values, Enum):
            values = list(values)
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise TileTypeError(f"{name}: expected a list of values or a range, got {values!r}", hint=f"{name}=[{values!r}] has one step")
        steps = tuple(dict.fromkeys(Schedule({name: v})[name] for v in values))
        if not steps:
            raise TileValueError(f"{name} has no values to choose from")
        kind = _kind_of(steps)
        return Tunable(name, steps if kind in ("enum", "bool") else tuple(sorted(steps)), kind)

    @property
    def is_ordered(self) -> bool:
        return self.kind in ("power", "int", "float")

    def label(self, index: int) -> str:
        """The text of one step."""
        return text_of(self.values[index])

    def index(self, value: Any) -> int:
        """The step of `value`; of the nearest one for a number that is no step. Raises TileValueError if it is neither."""
        if value in self.values:
            return self.values.index(value)
        if self.is_ordered and isinstance(value, (int, float)) and not isinstance(value, bool):
            return min(range(len(self.values)), key=lambda i: abs(self.values[i] - value))
        raise TileValueError(f"{self.name} cannot be {text_of(value)}", hint=f"its values are {', '.join(map(text_of, self.values))}")

    def around(self, value: Any) -> tuple[Any, ...]:
        """The steps next to `value`: one down and one up; for a tunable without order all others."""
        at = self.index(value)
        if not self.is_ordered:
            return tuple(v for i, v in enumerate(self.values) if i != at)
        return tuple(self.values[i] for i in (at - 1, at + 1) if 0 <= i < len(self.values))

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(map(text_of, self.values))}"


def powers(low: int, high: int) -> tuple[int, ...]:
    """The powers of two from `low` to `high`, both included: `block_M=powers(16, 256)`.

    >>> powers(16, 128)
    (16, 32, 64, 128)
    """
    return tuple(1 << i for i in range(max(low, 1).bit_length() - (low & (low - 1) == 0), high.bit_length()) if low <= 1 << i <= high)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rule that schedules must keep: `holds(schedule)`, and what is said where it does not."""

    holds: Callable[[Schedule], bool]
    reason: str

    @staticmethod
    def of(rule: Callable[..., Any], reason: str = "") -> Constraint:
        """A rule given as a function of the schedule, or of some tunables by name (`lambda block_M, block_N: block_M >= block_N`)."""
        names = list(inspect.signature(rule).parameters)
        takes_schedule = len(names) == 1 and names[0] in ("schedule", "s", "config", "_")
        text = reason or (inspect.getdoc(rule) or "").split("\n")[0] or "breaks a constraint of the space"

        def holds(schedule: Schedule) -> bool:
            if takes_schedule:
                return bool(rule(schedule))
            missing = [n for n in names if n not in schedule]
            if missing:
                raise TileValueError(f"a constraint speaks of {missing[0]}, which is no tunable", hint=f"the tunables are {', '.join(schedule)}")
            return bool(rule(*(schedule[n] for n in names)))

        return Constraint(holds, text)


@dataclass(frozen=True, slots=True)
class Space:
    """Tunables and the rules between them. Iterating gives every schedule that the constraints allow, in grid order.

    `checks` are slower questions (does it compile, does it fit the machine): functions that return the reason why not, or "". They are asked by
    `why_not`, never by iterating. `listed` holds the schedules of a space that was given as a list instead of as a grid.
    """

    tunables: tuple[Tunable, ...]
    constraints: tuple[Constraint, ...] = ()
    checks: tuple[Why, ...] = field(default=(), compare=False)
    listed: tuple[Schedule, ...] = ()

    # ------------------------------------------------------------------ making one
    @staticmethod
    def of(**steps: Any) -> Space:
        """A grid: `Space.of(block_M=[32, 64], stages=range(1, 4), policy=T.GemmWarpPolicy)`."""
        return Space(tuple(Tunable.of(name, values) for name, values in steps.items()))

    @staticmethod
    def of_configs(configs: Iterable[Mapping[str, Any]]) -> Space:
        """The space that a list of configurations spans; iterating gives these and no others. Raises TileValueError if their tunables differ."""
        schedules = tuple(dict.fromkeys(Schedule(c) for c in configs))
        names = list(schedules[0]) if schedules else []
        for schedule in schedules:
            if set(schedule) != set(names):
                raise TileValueError(f"the configurations name different tunables: {', '.join(names)} and {', '.join(schedule)}")
        return Space(tuple(Tunable.of(n, [s[n] for s in schedules]) for n in names), listed=schedules)

    @staticmethod
    def of_function(function: Callable[..., Any], **steps: Any) -> Space:
        """The tunables that a kernel function shows by its defaults and annotations; `steps` add to them or replace them (None drops one).

        A default of 16 or more that is a power of two gives powers from a quarter to four times it; a smaller number the numbers 1 to twice it; a
        boolean both values; `Literal[...]` or an enum as annotation or default its members.
        """
        plain = getattr(function, "function", function)
        found = {p.name: guess for p in inspect.signature(plain).parameters.values() if (guess := _guess(p, plain)) is not None}
        merged = {**found, **steps}
        return Space.of(**{name: values for name, values in merged.items() if values is not None})

    def where(self, rule: Callable[..., Any], reason: str = "") -> Space:
        """This space with one more constraint (see `Constraint.of`)."""
        return replace(self, constraints=(*self.constraints, Constraint.of(rule, reason)))

    def checked(self, why_not: Why) -> Space:
        """This space with one more question for `why_not`, asked when the constraints hold."""
        return replace(self, checks=(*self.checks, why_not))

    # ------------------------------------------------------------------ looking
    def tunable(self, name: str) -> Tunable:
        """The tunable called `name`; raises KeyError with the names there are."""
        for tunable in self.tunables:
            if tunable.name == name:
                return tunable
        raise KeyError(f"there is no tunable {name!r}, only {', '.join(self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(t.name for t in self.tunables)

    @property
    def size(self) -> int:
        """How many schedules there are, allowed or not."""
        return len(self.listed) if self.listed else prod(len(t.values) for t in self.tunables) if self.tunables else 0

    def grid(self) -> Iterator[Schedule]:
        """Every schedule, allowed or not."""
        if self.listed or not self.tunables:
            yield from self.listed
            return
        for values in itertools.product(*(t.values for t in self.tunables)):
            yield Schedule(dict(zip(self.names, values, strict=True)))

    def __iter__(self) -> Iterator[Schedule]:
        return (s for s in self.grid() if not self.broken(s))

    def __len__(self) -> int:
        """How many schedules the constraints allow."""
        return self.size if not self.constraints else sum(1 for _ in self)

    def __bool__(self) -> bool:
        return any(True for _ in self)

    def __contains__(self, schedule: object) -> bool:
        return isinstance(schedule, Mapping) and not self.broken(Schedule(schedule))

    def __str__(self) -> str:
        return "\n".join(map(str, self.tunables)) or "no tunables"

    # ------------------------------------------------------------------ legality
    def broken(self, schedule: Mapping[str, Any]) -> str:
        """Why the steps and constraints forbid `schedule`, or ""; quick."""
        chosen = Schedule(schedule)
        for tunable in self.tunables:
            if tunable.name not in chosen:
                return f"{tunable.name} is not given"
            if chosen[tunable.name] not in tunable.values:
                return f"{tunable.name}={text_of(chosen[tunable.name])} is no step of {tunable}"
        return next((c.reason for c in self.constraints if not c.holds(chosen)), "")

    def why_not(self, schedule: Mapping[str, Any]) -> str:
        """Why `schedule` cannot be built, in one line, or "". Asks the `checks` too: some of them compile."""
        chosen = Schedule(schedule)
        return self.broken(chosen) or next((why for check in self.checks if (why := check(chosen))), "")

    # ------------------------------------------------------------------ moving about
    def neighbours(self, schedule: Mapping[str, Any]) -> list[Schedule]:
        """The allowed schedules that differ from `schedule` in one tunable by one step."""
        chosen = Schedule(schedule)
        near = [chosen.replace(**{t.name: v}) for t in self.tunables for v in t.around(chosen[t.name])]
        return [s for s in near if not self.broken(s) and (not self.listed or s in self.listed)]

    def steps(self, schedule: Mapping[str, Any], name: str) -> list[Schedule]:
        """`schedule` with each step of the tunable `name` in turn: what a slider offers."""
        chosen = Schedule(schedule)
        return [chosen.replace(**{name: v}) for v in self.tunable(name).values]

    def nearest(self, schedule: Mapping[str, Any]) -> Schedule:
        """The allowed schedule with the fewest steps between it and `schedule` (missing or unknown values: no preference). Raises TileValueError."""
        wanted = {t.name: t.index(schedule[t.name]) for t in self.tunables if t.name in schedule and (t.is_ordered or schedule[t.name] in t.values)}

        def distance(candidate: Schedule) -> int:
            return sum(abs(self.tunable(name).index(candidate[name]) - at) for name, at in wanted.items())

        best = min(itertools.islice(self, NEAREST_LIMIT), key=distance, default=None)
        if best is None:
            raise TileValueError("the constraints allow no schedule at all")
        return best

    def sample(self, count: int, seed: int = 0) -> list[Schedule]:
        """`count` allowed schedules in random order (all of them if there are fewer), the same for the same seed."""
        everything: Sequence[Schedule] = list(self)
        return random.Random(seed).sample(everything, min(count, len(everything)))


# ------------------------------------------------------------------------------------------- guessing
def _kind_of(values: Sequence[Any]) -> Kind:
    if all(isinstance(v, bool) for v in values):
        return "bool"
    if any(isinstance(v, (bool, Enum)) or not isinstance(v, (int, float)) for v in values):
        return "enum"
    if all(isinstance(v, int) for v in values):
        return "power" if len(values) > 1 and all(v > 0 and v & (v - 1) == 0 for v in values) and max(values) > 4 else "int"
    return "float"


def _guess(parameter: inspect.Parameter, function: Any) -> Any:
    """Steps for one parameter, or None if nothing says what it may be."""
    default, note = parameter.default, parameter.annotation
    if isinstance(note, str):
        note = getattr(function, "__globals__", {}).get(note, note) if not note.startswith("Literal") else _literal(note, function)
    if get_origin(note) is Literal:
        return list(get_args(note))
    if isinstance(note, type) and issubclass(note, Enum):
        return list(note)
    if isinstance(default, bool):
        return [False, True]
    if isinstance(default, Enum):
        return list(type(default))
    if not isinstance(default, int) or default < 1:
        return None
    if default >= 16 and default & (default - 1) == 0:
        return powers(max(default // 4, 8), default * 4)
    return range(1, 2 * default + 1) if default < 16 else None


def _literal(note: str, function: Any) -> Any:
    """A `Literal[...]` that is a string because its module postpones annotations."""
    try:
        return eval(note, {**getattr(function, "__globals__", {}), "Literal": Literal})  # the author's own annotation
    except Exception:  # it names something that exists only while type checking: nothing is guessed from it
        return None

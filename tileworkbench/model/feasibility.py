"""Two tunables of a kernel as the axes of a map: which positions are legal, what forbids the others, and what the legal ones are predicted to cost.

    found = feasibility(build, Axis("block_m", (32, 64, 128)), Axis("block_n", (32, 64, 128)), machine=find_machine("h200"))
    found.at(128, 128).limit          # None, or Limit("shared memory", "288 KiB of shared memory, 227 KiB fit on ...")
    found.best                        # the legal position of least predicted time
    found = found.with_measured({"block_m": 64, "block_n": 64}, seconds=1.2e-3)

`build` turns a candidate (all tunables by name) into a kernel's tile IR. A position that it refuses is marked with the reason, and the rest lives on.
A map is a value: `judge` fills one position at a time, so that a search or a slider can draw the map while it grows.

>>> m = FeasibilityMap("k", "a machine", Axis("bm", (32, 64)), Axis("bn", (16,)))
>>> m = m.with_position(Position(32, 16, seconds=2e-3)).with_position(Position(64, 16, Limit("shared memory", "96 KiB of 64 KiB")))
>>> m.at(64, 16).limit.name, m.best.x, m.at(64, 16).is_legal
('shared memory', 32, False)
>>> m.with_measured({"bm": 32, "bn": 16}, seconds=3e-3).best_measured.seconds
0.003
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..base.errors import TileError
from ..base.machine import Machine
from ..ir.stmt import Kernel
from .limits import Limit, limit_of
from .occupancy import occupancy
from .report import Report, report

Build = Callable[[Mapping[str, Any]], "Kernel | Report"]
Rule = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Axis:
    """A tunable and the values that it may take, in order."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """One candidate: what forbids it (`limit`), or its predicted seconds and predicted bytes by level. `note` says what is worth knowing."""

    x: Any
    y: Any
    limit: Limit | None = None
    seconds: float | None = None
    bytes: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def is_legal(self) -> bool:
        return self.limit is None


@dataclass(frozen=True, slots=True)
class Trial:
    """One candidate that ran: the measured seconds, or why there are none."""

    x: Any
    y: Any
    seconds: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class FeasibilityMap:
    """The map. Positions that nobody judged yet are absent from `positions`.

    `fixed` holds the other tunables; `metric` is "time" (predicted seconds) or the name of a level (predicted bytes there); `current` is the
    (x, y) in use; `trials` are runs, in the order in which they ended.
    """

    kernel: str
    machine: str
    x: Axis
    y: Axis
    fixed: Mapping[str, Any] = field(default_factory=dict)
    metric: str = "time"
    positions: tuple[Position, ...] = ()
    trials: tuple[Trial, ...] = ()
    current: tuple[Any, Any] | None = None

    @property
    def unit(self) -> str:
        """The unit of `value`: "s" or "B"."""
        return "s" if self.metric == "time" else "B"

    def at(self, x: Any, y: Any) -> Position | None:
        """The judged position (x, y), or None."""
        return next((p for p in self.positions if p.x == x and p.y == y), None)

    def candidate(self, x: Any, y: Any) -> dict[str, Any]:
        """All tunables at (x, y), by name."""
        return {**self.fixed, self.x.name: x, self.y.name: y}

    def value(self, position: Position) -> float | None:
        """What the contours show: predicted seconds, or bytes at the level of `metric`; None for a forbidden position."""
        if not position.is_legal:
            return None
        return position.seconds if self.metric == "time" else position.bytes.get(self.metric)

    @property
    def grid(self) -> tuple[tuple[float | None, ...], ...]:
        """Values, a row for each value of y."""
        known = {(p.x, p.y): self.value(p) for p in self.positions}
        return tuple(tuple(known.get((x, y)) for x in self.x.values) for y in self.y.values)

    @property
    def best(self) -> Position | None:
        """The legal position of least predicted value."""
        legal = [p for p in self.positions if self.value(p) is not None]
        return min(legal, key=lambda p: self.value(p) or 0.0, default=None)

    @property
    def best_measured(self) -> Trial | None:
        """The fastest run so far."""
        ran = [t for t in self.trials if t.seconds is not None]
        return min(ran, key=lambda t: t.seconds or 0.0, default=None)

    @property
    def limits(self) -> dict[str, tuple[Position, ...]]:
        """Forbidden positions by what forbids them, most first."""
        found: dict[str, list[Position]] = {}
        for p in self.positions:
            if p.limit is not None:
                found.setdefault(p.limit.name, []).append(p)
        return {name: tuple(found[name]) for name in sorted(found, key=lambda n: -len(found[n]))}

    def unjudged(self) -> Iterator[tuple[Any, Any]]:
        """Positions that nobody judged yet, those near `current` first."""
        known = {(p.x, p.y) for p in self.positions}
        cells = [(i, j) for j in range(len(self.y.values)) for i in range(len(self.x.values))]
        if self.current is not None and self.current[0] in self.x.values and self.current[1] in self.y.values:
            at = self.x.values.index(self.current[0]), self.y.values.index(self.current[1])
            cells.sort(key=lambda c: abs(c[0] - at[0]) + abs(c[1] - at[1]))
        return ((self.x.values[i], self.y.values[j]) for i, j in cells if (self.x.values[i], self.y.values[j]) not in known)

    def with_position(self, position: Position) -> FeasibilityMap:
        """The map with this position judged, in place of an older judgement."""
        others = tuple(p for p in self.positions if (p.x, p.y) != (position.x, position.y))
        return replace(self, positions=(*others, position))

    def with_measured(self, candidate: Mapping[str, Any], *, seconds: float | None = None, why: str = "") -> FeasibilityMap:
        """The map with one more run; the map itself where `candidate` lies on another plane (another value of a fixed tunable) or off the axes."""
        if any(name in candidate and candidate[name] != value for name, value in self.fixed.items()):
            return self
        if candidate.get(self.x.name) not in self.x.values or candidate.get(self.y.name) not in self.y.values:
            return self
        return replace(self, trials=(*self.trials, Trial(candidate[self.x.name], candidate[self.y.name], seconds, why)))

    def moved(self, candidate: Mapping[str, Any]) -> FeasibilityMap:
        """The map with `candidate` as the current position."""
        return replace(self, current=(candidate[self.x.name], candidate[self.y.name]))


def feasibility(
    build: Build,
    x: Axis,
    y: Axis,
    *,
    machine: Machine,
    fixed: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    threads: int = 1,
    metric: str = "time",
    rule: Rule | None = None,
    current: Mapping[str, Any] | None = None,
) -> FeasibilityMap:
    """Judge every position of two axes.

    Args:
        build: a candidate -> the kernel's tile IR, or a report on `machine`. What it raises forbids the position.
        fixed: the other tunables. dims: values of symbolic dims. threads: of a launch on a CPU.
        metric: "time", or the level whose predicted bytes the contours show ("DRAM").
        rule: a candidate -> why it is illegal, or "": a tunable's own rule, such as "block_m does not divide m".
    Raises: nothing that `build` raises; KeyError if `current` lacks an axis.
    """
    found = empty_map(x, y, machine=machine, fixed=fixed, metric=metric, current=current)
    for at in found.unjudged():
        candidate = found.candidate(*at)
        name, position = judge(build, found, candidate, machine=machine, dims=dims, threads=threads, rule=rule)
        found = replace(found.with_position(position), kernel=name or found.kernel)
    return found


def empty_map(
    x: Axis, y: Axis, *, machine: Machine, fixed: Mapping[str, Any] | None = None, metric: str = "time", current: Mapping[str, Any] | None = None
) -> FeasibilityMap:
    """A map without judgements, for callers that fill it one position at a time."""
    rest = {name: value for name, value in (fixed or {}).items() if name not in (x.name, y.name)}
    at = (current[x.name], current[y.name]) if current is not None else None
    return FeasibilityMap("", machine.name, x, y, rest, metric, current=at)


def judge(
    build: Build,
    on: FeasibilityMap,
    candidate: Mapping[str, Any],
    *,
    machine: Machine,
    dims: Mapping[str, int] | None = None,
    threads: int = 1,
    rule: Rule | None = None,
) -> tuple[str, Position]:
    """The kernel's name ("" if it was not built) and the judgement of one candidate."""
    x, y = candidate[on.x.name], candidate[on.y.name]
    if rule is not None and (why := rule(candidate)):
        return "", Position(x, y, Limit("rule", why))
    note = ""
    try:
        made = build(candidate)
        if isinstance(made, Kernel):
            limit = limit_of(made, machine, candidate)
            if limit is not None:
                return made.name, Position(x, y, limit)
            note = occupancy(made, machine).sentence
            made = report(made, machine, dict(dims or {}), threads=threads)
    except Exception as error:  # whatever a user's factory raises forbids this position, and the map says so
        return "", Position(x, y, Limit("does not compile", _reason(error)))
    return made.kernel, Position(x, y, None, made.predicted.value, {level.name: level.bytes for level in made.levels}, note)


def _reason(error: Exception) -> str:
    """The first line of what went wrong."""
    text = error.message if isinstance(error, TileError) else str(error)
    first = next((line.strip() for line in str(text).splitlines() if line.strip()), "")
    return first if isinstance(error, TileError) else f"{type(error).__name__}: {first}" if first else type(error).__name__

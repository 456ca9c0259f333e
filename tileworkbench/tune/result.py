"""What a search found, as a value: the best schedule and its kernel, a table of all candidates, and the data of the feasibility map."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from ..base.errors import TileValueError
from ..base.machine import Machine
from ..model.feasibility import Axis, FeasibilityMap, feasibility
from ..model.values import show
from ..runtime import kernel as kernels
from ..runtime.arguments import bind
from ..runtime.kernel import JITKernel
from ..runtime.measure import measure as this_machine
from .candidate import Candidate, best_of, counted
from .problem import Problem
from .schedule import Schedule
from .space import Space
from .table import table

SHOWN = 20


@dataclass(frozen=True)
class TuningResult:
    """The candidates of a search in the order in which they finished. Prints as a table, fastest first.

    `machine` is the model's (None: nothing was predicted); `reference_ms` the median time of the reference function, if it was timed;
    `is_complete` is False after `stop()`, a limit or a time limit.
    """

    problem: Problem = field(repr=False)
    space: Space = field(repr=False)
    candidates: tuple[Candidate, ...] = field(repr=False)
    machine: Machine | None = field(default=None, repr=False)
    seconds: float = 0.0
    reference_ms: float | None = None
    is_complete: bool = True

    @property
    def winner(self) -> Candidate:
        """The fastest candidate, or the one predicted to be if none ran. Raises TileValueError with every reason if there is none."""
        found = best_of(self.candidates)
        if found is None:
            raise TileValueError(no_winner(self.candidates))
        return found

    @property
    def best(self) -> Schedule:
        """The schedule of the winner."""
        return self.winner.schedule

    @cached_property
    def kernel(self) -> JITKernel:
        """The winner, compiled; its `config`, `latency` and `ref_latency` are set. Raises TileValueError if there is none."""
        winner = self.winner
        made = self.problem.compile(winner.schedule)
        made.tuning = kernels.TuningResult(winner.schedule, winner.median_ms, self.reference_ms)
        return made

    @property
    def ran(self) -> tuple[Candidate, ...]:
        """Those that were timed, fastest first; of a search that only predicted, those with a prediction."""
        timed = [c for c in self.candidates if c.ran]
        return tuple(sorted(timed, key=lambda c: c.judged_ms or 0.0)) or tuple(
            sorted((c for c in self.candidates if c.status == "predicted"), key=lambda c: c.predicted_ms or 0.0)
        )

    @property
    def failures(self) -> tuple[Candidate, ...]:
        """Those that failed, with their reasons."""
        return tuple(c for c in self.candidates if c.has_failed)

    def feasibility(self, x: str = "", y: str = "", *, machine: Machine | None = None, metric: str = "time") -> FeasibilityMap:
        """The map of two tunables (default: the first two): what forbids each position, its prediction, and every trial on it.

        The other tunables are those of the winner. Raises TileValueError if there are not two tunables; KeyError for an unknown one.
        """
        names = self.space.names
        if len(names) < 2:
            raise TileValueError("a map needs two tunables", hint=f"this search has {len(names)}")
        x = x or next(n for n in names if n != y)
        y = y or next(n for n in names if n != x)
        fixed = best_of(self.candidates) or next(iter(self.candidates), None)
        current = fixed.schedule if fixed is not None else next(iter(self.space.grid()))
        problem, signature = self.problem, self.problem.trace(current)[1]
        dims = bind(signature, problem.given, {}).dims if signature.dims and problem.given is not None else {}
        found = feasibility(
            lambda schedule: problem.trace(Schedule(schedule))[0],
            Axis(x, self.space.tunable(x).values),
            Axis(y, self.space.tunable(y).values),
            machine=machine or self.machine or this_machine(),
            fixed=current,
            dims=dims,
            threads=problem.threads(current),
            metric=metric,
            rule=self.space.broken,
            current=current,
        )
        for c in self.candidates:
            if c.ran:
                found = found.with_measured(c.schedule, seconds=(c.judged_ms or 0.0) / 1e3)
            elif c.has_failed and c.status not in ("does not compile", "does not fit"):
                found = found.with_measured(c.schedule, why=f"{c.status}: {c.first_line}")
        return found

    def to_json(self) -> str:
        """The candidates with all their times, and the winner."""
        found = best_of(self.candidates)
        rows = [
            {"schedule": json.loads(c.schedule.key), "status": c.status, "reason": c.reason, "times_ms": list(c.times_ms), "median_ms": c.median_ms,
             "predicted_ms": c.predicted_ms, "bound": c.bound, "is_reused": c.is_reused, "is_checked": c.is_checked, "date": c.date}
            for c in self.candidates
        ]  # fmt: skip
        best = json.loads(found.schedule.key) if found is not None else None
        return json.dumps({"kernel": self.problem.name, "best": best, "seconds": self.seconds, "candidates": rows}, indent=1)

    def __str__(self) -> str:
        return "\n".join([self._head(), "", *self._timed(), *self._failed()]).rstrip()

    def _head(self) -> str:
        counts = Counter(c.status for c in self.candidates)
        reused = sum(c.is_reused for c in self.candidates)
        said = ", ".join([counted(status, n) for status, n in counts.items()] + ([f"{reused} from the store"] if reused else []))
        whole = "" if self.is_complete else ", not finished"
        unchecked = any(c.ran and not c.is_checked for c in self.candidates)
        notes = "\nno reference was given: the results were not checked" if unchecked else ""
        return f"{self.problem.name}: {len(self.candidates)} of {self.space.size} schedules ({said}{whole}) in {self.seconds:.1f} s{notes}"

    def _timed(self) -> list[str]:
        ran = self.ran
        if not ran:
            return []
        least = _time_of(ran[0])
        rows = [
            (*(_cell(c, n) for n in self.space.names), str(c.measured or c.predicted), f"{_time_of(c) / least:.2f}x" if least else "",
             f"{c.measured.spread:.0%}" if c.measured else "", str(c.predicted or ""), c.bound, c.origin)
            for c in ran[:SHOWN]
        ]  # fmt: skip
        heads = (*self.space.names, "time", "slower", "spread", "predicted", "bound", "")
        keep = [i for i, head in enumerate(heads) if any(row[i] for row in rows) and not (head == "predicted" and not ran[0].ran)]
        text = table([heads[i] for i in keep], [[row[i] for i in keep] for row in rows], right=("slower", "spread", *self.space.names))
        more = [f"and {len(ran) - SHOWN} slower ones"] if len(ran) > SHOWN else []
        reference = [f"the reference takes {show(self.reference_ms / 1e3, 's')}"] if self.reference_ms else []
        return [text, *more, *reference]

    def _failed(self) -> list[str]:
        """The failures, those of one reason on one line."""
        groups: dict[str, list[Candidate]] = {}
        for c in self.failures:
            groups.setdefault(f"{c.status}: {c.first_line}", []).append(c)
        more = {reason: f" (and {len(found) - 1} more)" if len(found) > 1 else "" for reason, found in groups.items()}
        return [f"{found[0].schedule}{more[reason]}: {reason}" for reason, found in groups.items()]


def no_winner(candidates: tuple[Candidate, ...]) -> str:
    """Why a search has no best candidate: each reason on a line."""
    failed = [c for c in candidates if c.has_failed]
    if not failed:
        return "there is no configuration to try" if not candidates else "nothing has run yet"
    return f"no configuration works ({len(candidates)} tried):\n" + "\n".join(f"  {c.schedule}: {c.status}: {c.reason}" for c in failed)


def _time_of(candidate: Candidate) -> float:
    return candidate.judged_ms or candidate.predicted_ms or 0.0


def _cell(candidate: Candidate, name: str) -> str:
    return str(Schedule({name: candidate.schedule[name]})).partition("=")[2] if name in candidate.schedule else ""

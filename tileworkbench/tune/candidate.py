"""One schedule of a search and what became of it.

>>> made = Candidate(Schedule(block_M=64), "ran", times_ms=(1.2, 1.1, 1.3))
>>> print(made)
block_M=64: 1.2 ms (median of 3, best 1.1 ms)
>>> print(Candidate(Schedule(block_M=0), "does not compile", "value error: extent 0"))
block_M=0: does not compile: value error: extent 0
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ..model.values import Measured, Predicted
from .schedule import Schedule

Status = Literal[
    "waiting",  # not tried yet
    "predicted",  # the model knows it; nothing was run, since the machine is not here
    "ran",  # it ran, its result was right as far as it was checked, and it was timed
    "does not fit",  # a block of it needs more than the machine has
    "does not compile",  # the frontend, the passes or the compiler refuse it
    "wrong result",  # it differs from the reference
    "raised",  # it refused the arguments, an assertion did not hold, or Python raised
    "crashed",  # its process died
    "timed out",  # its process was killed
    "slower",  # given up after three runs, since it was much slower than the best
    "stopped",  # the search was stopped while it ran
]
FAILED: frozenset[Status] = frozenset(("does not fit", "does not compile", "wrong result", "raised", "crashed", "timed out"))


_COUNTED: dict[Status, tuple[str, str]] = {
    "does not fit": ("does not fit", "do not fit"),
    "does not compile": ("does not compile", "do not compile"),
    "wrong result": ("gives a wrong result", "give wrong results"),
    "slower": ("was given up as slower", "were given up as slower"),
}


def counted(status: Status, count: int) -> str:
    """How many candidates have a status, in words.

    >>> counted("ran", 3), counted("does not compile", 2), counted("wrong result", 1)
    ('3 ran', '2 do not compile', '1 gives a wrong result')
    """
    one, many = _COUNTED.get(status, (status, status))
    return f"{count} {one if count == 1 else many}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule with its measured times in milliseconds, or the reason why there are none.

    `predicted_ms` and `bound` are the model's; `code` stands for the emitted text, `checked_by` for the reference that the result agrees with ("":
    it was compared with none); `is_reused` says that the times are from the store, measured on `date` (ISO);
    `same_as` is another schedule that gave the very same code, and so the same outcome.
    """

    schedule: Schedule
    status: Status = "waiting"
    reason: str = ""
    times_ms: tuple[float, ...] = ()
    predicted_ms: float | None = None
    bound: str = ""
    code: str = ""
    checked_by: str = ""
    is_reused: bool = False
    date: str = ""
    same_as: Schedule | None = None

    @property
    def ran(self) -> bool:
        return self.status == "ran" and bool(self.times_ms)

    @property
    def has_failed(self) -> bool:
        """Whether the schedule itself is at fault; waiting, stopped and slower candidates are not."""
        return self.status in FAILED

    @property
    def is_checked(self) -> bool:
        return bool(self.checked_by)

    @property
    def measured(self) -> Measured | None:
        """The measured time in seconds with its spread, if it ran."""
        return Measured.of([t / 1e3 for t in self.times_ms]) if self.ran else None

    @property
    def predicted(self) -> Predicted | None:
        """The model's time in seconds, if it made one."""
        return Predicted(self.predicted_ms / 1e3, "s") if self.predicted_ms is not None else None

    @property
    def median_ms(self) -> float | None:
        return self.measured.value * 1e3 if self.measured is not None else None

    @property
    def judged_ms(self) -> float | None:
        """The time that candidates are ranked by: the median, or the best run where runs differ so much that something else was running."""
        found = self.measured
        return None if found is None else (found.best if found.is_unstable else found.value) * 1e3

    @property
    def config(self) -> Schedule:
        """TileLang's name for the schedule."""
        return self.schedule

    @property
    def latency(self) -> float | None:
        """TileLang's name for `median_ms`."""
        return self.median_ms

    @property
    def first_line(self) -> str:
        """The first line of the reason, without the place: what a tooltip or a table shows."""
        return re.sub(r"^\S+:\d+:\d+: ", "", next((line.strip() for line in self.reason.splitlines() if line.strip()), ""))

    def __str__(self) -> str:
        time = self.measured or (self.predicted if self.status == "predicted" else None)
        said = str(time) if time is not None else f"{self.status}: {self.first_line}" if self.reason else self.status
        return f"{self.schedule}: {said}{f', {self.origin}' if self.origin else ''}"

    @property
    def origin(self) -> str:
        """Where the outcome is from, if not from a run of its own: "from the store (2026-01-31)", "same code as block_M=64"."""
        if self.same_as is not None:
            return f"same code as {self.same_as}"
        return f"from the store ({self.date[:10]})" if self.is_reused else ""


def best_of(candidates: Iterable[Candidate]) -> Candidate | None:
    """The one with the least time (`judged_ms`); where nothing ran, the one with the least predicted time; None if there is neither."""
    known = list(candidates)
    ran = [(c.judged_ms or 0.0, i) for i, c in enumerate(known) if c.ran]
    guessed = [(c.predicted_ms, i) for i, c in enumerate(known) if c.status == "predicted" and c.predicted_ms is not None]
    return known[min(ran or guessed)[1]] if ran or guessed else None

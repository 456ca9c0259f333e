"""What a workbench ran: one numbered line for each run, and what to make of a run that came out otherwise than predicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..model.kinds import kernel_kind
from ..model.report import ABOVE, LATENCY, Report, percent
from ..model.values import Measured, Predicted, show
from ..runtime.scorecard import scorecard
from ..tune.schedule import Schedule
from ..views.view import View, escape, table, text_table
from .reference import Comparison

USUAL_ERROR = 0.25  # of a predicted time, as a share of the measured one, where no scorecard says otherwise
LEAST_ERROR = 0.1
ENOUGH_SCORES = 10


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its schedule, the report with its measurement, and what its outputs were compared with; or the `reason` why it gave nothing.

    `source` is the text that ran, `compile_ms` how long making it took. `usual_error` is the model's, as a share of the measured time.
    """

    number: int
    schedule: Schedule
    report: Report | None = None
    reason: str = ""
    checks: tuple[Comparison, ...] = ()
    compile_ms: float = 0.0
    source: str = ""
    usual_error: float = USUAL_ERROR

    @property
    def measured(self) -> Measured | None:
        return self.report.measured if self.report is not None else None

    @property
    def predicted(self) -> Predicted | None:
        return self.report.predicted if self.report is not None else None

    @property
    def seconds(self) -> float | None:
        """The measured time: the median, or the best where runs differ so much that something else was running."""
        return self.report.judged_seconds if self.report is not None and self.measured is not None else None

    @property
    def is_right(self) -> bool:
        """Whether it ran, and nothing that was compared differs."""
        return self.measured is not None and all(c.holds for c in self.checks)

    @property
    def ratio(self) -> float | None:
        """Measured over predicted time."""
        if self.seconds is None or self.predicted is None or not self.predicted.value:
            return None
        return self.seconds / self.predicted.value

    @property
    def is_surprise(self) -> bool:
        """Whether the prediction is off by more than the model usually is."""
        ratio = self.ratio
        return ratio is not None and abs(1 / ratio - 1) > self.usual_error

    @property
    def verdict(self) -> str:
        """One sentence: what bounds it, or why it gave nothing, or that its result is wrong."""
        if self.report is None or self.measured is None:
            return self.reason
        wrong = [c for c in self.checks if not c.holds]
        return f"WRONG: {wrong[0]}" if wrong else self.report.verdict

    @property
    def surprise(self) -> str:
        """What the difference between prediction and measurement may come from; "" where it is as usual."""
        if not self.is_surprise or self.report is None:
            return ""
        ratio = self.ratio or 1.0
        factor = f"{ratio:.3g} times the predicted time" if ratio > 1 else f"{1 / ratio:.3g} times faster than predicted"
        return f"{factor}, where the model is usually within {percent(self.usual_error)}. {' '.join(reasons(self.report))}"

    @property
    def row(self) -> list[str]:
        """The line of the log, as text."""
        ratio = f"{self.ratio:.2f}" if self.ratio is not None else "-"
        predicted = str(self.predicted) if self.predicted is not None else "-"
        measured = show(self.seconds, "s") if self.seconds is not None else "-"
        mark = " !" if self.is_surprise else ""
        return [str(self.number), str(self.schedule), predicted, measured, ratio + mark, self.verdict]


def usual_error(report: Report) -> float:
    """By what share of the measured time the model is off four times of five, for such kernels on that machine; a default where few were measured."""
    kind = kernel_kind(report.ir) if report.ir is not None else ""
    group = scorecard().group(kind, report.machine.name)
    if group is None or len(group.scores) < ENOUGH_SCORES:
        return USUAL_ERROR
    low, high = group.spread
    return max(LEAST_ERROR, abs(low - 1), abs(high - 1))


HEAD = ["run", "schedule", "predicted", "measured", "ratio", "verdict"]


def reasons(report: Report) -> tuple[str, ...]:
    """What may explain that `report.measured` is far from `report.predicted`, likeliest first; each a sentence."""
    measured = report.measured
    if measured is None:
        return ()
    found = []
    slower = report.judged_seconds > report.predicted.value
    if measured.is_unstable:
        found.append(f"The runs vary by {measured.variation}: something else used the machine.")
    if slower and max(report.shares.values()) < LATENCY:
        found.append("No roof is near, so it waits on latency, loop overhead or a tile that does not fill the vector unit.")
    if slower and measured.best and measured.best < measured.value / 1.3:
        found.append("The best run is much faster than the median.")
    if not slower and max(report.shares.values()) > ABOVE:
        found.append("It is above a roof, so some counted bytes did not move: a cache kept more than the model thinks, or the roof was measured low.")
    if not slower and report.traffic.stays_in_cache:
        found.append("The data stayed in a cache between the runs; a first run is slower.")
    if report.assumptions:
        found.append(f"The model assumed: {report.assumptions[0]}.")
    return tuple(found) or ("The model sees no reason; measure again to tell chance from a fault of the model.",)


@dataclass(frozen=True, slots=True)
class RunLog(View):
    """The runs in order; a view whose picture is its table."""

    runs: tuple[Run, ...] = ()
    title: str = "runs"

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __getitem__(self, number: int) -> Run:
        """The run of that number, counted from 1; from the end where negative. Raises IndexError if there is none."""
        if number < 0:
            return self.runs[number]
        found = [r for r in self.runs if r.number == number]
        if not found:
            raise IndexError(f"there is no run {number}; there are {len(self.runs)}")
        return found[0]

    @property
    def best(self) -> Run | None:
        """The fastest run with a right result."""
        return min((r for r in self.runs if r.is_right), key=lambda r: r.seconds or 0.0, default=None)

    @property
    def data(self) -> list[dict[str, Any]]:
        """One dict for each run, times in seconds."""
        return [
            {
                "run": r.number,
                "schedule": dict(r.schedule),
                "predicted": r.predicted.value if r.predicted else None,
                "measured": r.seconds,
                "median": r.measured.value if r.measured else None,
                "best": r.measured.best if r.measured else None,
                "ratio": r.ratio,
                "right": r.is_right,
                "verdict": r.verdict,
                "compile_ms": r.compile_ms,
            }
            for r in self.runs
        ]

    def __str__(self) -> str:
        if not self.runs:
            return "no run yet"
        return text_table(HEAD, [self._flagged(r) for r in self.runs], left=2)

    def html(self) -> str:
        if not self.runs:
            return "<div>no run yet</div>"
        return table(HEAD, [[escape(c) for c in self._flagged(r)] for r in self.runs], left=2, caption="runs")

    def _flagged(self, run: Run) -> list[str]:
        row = run.row
        return [row[0] + (" best" if run is self.best else ""), *row[1:]]

    def table(self) -> dict[str, Any]:
        """The log as a table for the browser."""
        return {"caption": "runs", "head": HEAD, "rows": [self._flagged(r) for r in self.runs], "left": 2}

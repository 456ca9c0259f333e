"""What a workbench knows and does, without a face: where it stands, what the model says, what ran, and the worker that finds out more.

Everything dear happens in the worker's thread; a caller reads what is known at any time. Whoever wants to hear of news registers a listener.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..base.errors import TileValueError
from ..base.machine import Machine
from ..model.values import show
from ..runtime.kernel import JITKernel
from ..runtime.scorecard import record as record_score
from ..tune.candidate import Candidate
from ..tune.problem import Problem, one_line
from ..tune.schedule import Schedule
from ..tune.space import Space
from ..tune.store import Store
from .judge import judge_outputs, references_of
from .measuring import Attempt, Prediction, predict, with_times
from .positions import Place, forbidden, nearest, place_of, schedule_at
from .reference import Comparison
from .runlog import Run, RunLog, usual_error
from .searching import Hunt, keep, recall
from .worker import Ticket, Worker

News = Literal["moved", "ghost", "stage", "truth", "failed", "refused", "table", "search"]
Listener = Callable[[News, Place], None]

HANG_S = 10.0  # a run may take this long, or HANG_TIMES its prediction, before it is taken to hang
HANG_TIMES = 50.0


@dataclass(slots=True)
class Settings:
    """`machine` is what predictions are about; `is_here` whether runs on this computer can be compared with them.

    `check` is an array, a tuple, or a function of the inputs; `limit_s` the longest predicted run that is not asked about first.
    """

    machine: Machine
    is_here: bool = True
    check: Any = None
    tolerance: float | None = None
    limit_s: float = 2.0
    hang_s: float = HANG_S
    store: Store | None = None


@dataclass(slots=True)
class Engine:
    """One problem in one space. `place` is where the sliders stand, `stage` what the worker does there ("", "predicting", "compiling", ...)."""

    problem: Problem
    space: Space
    settings: Settings
    place: Place
    stage: str = ""
    predictions: dict[Place, Prediction] = field(default_factory=dict)
    ghosts: dict[Place, Any] = field(default_factory=dict)  # what faces drew of predictions
    hunt: Hunt | None = None
    remembered: list[Candidate] = field(default_factory=list)  # what the store held when the workbench was opened
    errands: list[Callable[[], bool]] = field(default_factory=list)  # small things to do before more predictions; False: nothing is left
    chores: list[Callable[[], bool]] = field(default_factory=list)  # and after them
    latest: dict[Place, Run] = field(default_factory=dict)
    failures: dict[Place, str] = field(default_factory=dict)
    log: RunLog = field(default_factory=RunLog)
    listeners: list[Listener] = field(default_factory=list)
    worker: Worker = field(init=False)
    _ticket: Ticket | None = None
    _asked: Place | None = None
    _made_up: tuple[Any, ...] | None = None
    _references: list[Any] | None = None
    _model: threading.Lock = field(default_factory=threading.Lock)
    _told: int = 0
    _telling: threading.RLock = field(default_factory=threading.RLock)
    trouble: BaseException | None = None

    def __post_init__(self) -> None:
        self.worker = Worker(self._idle)
        if self.settings.store is not None and self.settings.is_here:
            self.remembered = recall(self.settings.store, self.problem)

    # ------------------------------------------------------------------------------------------ asking
    @property
    def schedule(self) -> Schedule:
        """Where the sliders stand."""
        return schedule_at(self.space, self.place)

    def move(self, values: Mapping[str, Any], *, anyway: bool = False, again: bool = False) -> Ticket:
        """Set some tunables and go there, as `go`. Raises TileValueError for a value that is no step."""
        place = place_of(self.space, values, self.place)
        ticket = self.go(place, anyway=anyway, again=again)
        self.tell("moved", place)
        return ticket

    def go(self, place: Place, *, anyway: bool = False, again: bool = False) -> Ticket:
        """Go to a position and ask for the truth there; whatever was asked before is dropped.

        Args:
            anyway: run it even if the prediction is longer than the limit. again: measure once more what was measured.
        """
        self.place = self._asked = place
        self._ticket = self.worker.ask(lambda ticket: self._attempt(ticket, place, anyway=anyway, again=again))
        return self._ticket

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the newest request; False if that took longer."""
        return self._ticket is None or self._ticket.wait(seconds)

    def prediction(self, place: Place) -> Prediction:
        """What the model says of a position, worked out now if it is not known."""
        found = self.predictions.get(place)
        if found is None:
            with self._model:
                found = self.predictions.get(place) or self._predict(place)
                self.predictions[place] = found
        return found

    def reason(self, place: Place) -> str:
        """Why a position cannot be, as far as is known: a rule, a limit of the machine, or what went wrong there; "" if nothing speaks against it."""
        known = self.predictions.get(place)
        why = known.reason if known is not None else forbidden(self.space, schedule_at(self.space, place))
        return why or self.failures.get(place, "")

    @property
    def is_asked(self) -> bool:
        """Whether the truth where the sliders stand was asked for."""
        return self._asked == self.place

    def why_no_truth(self, place: Place) -> str:
        """Why there is no run at a position, or why there will be none unless it is asked for; "" if nothing is amiss."""
        if why := self.reason(place):
            return why
        seconds = self.prediction(place).seconds or 0.0
        if not self.settings.is_here:
            return f"predicted for {self.settings.machine.name}, which is not this computer: nothing is measured"
        if place in self.latest:
            return self.latest[place].reason
        if seconds > self.settings.limit_s:
            return f"predicted to take {show(seconds, 's')}, longer than {self.settings.limit_s:g} s: not run unless asked for (anyway=True)"
        return ""

    @property
    def is_searching(self) -> bool:
        """Whether a search is running."""
        return self.hunt is not None and self.hunt.progress.is_running

    def search(self, *, timeout_s: float = 10.0, limit: int | None = None) -> Hunt:
        """Try every position that nothing forbids, those predicted to be fastest first. Raises TileValueError where nothing can be measured."""
        if not self.settings.is_here:
            raise TileValueError(f"nothing can be measured: {self.settings.machine.name} is not this computer")
        if self.hunt is not None and self.is_searching:
            return self.hunt
        places = [p for p in nearest(self.space, self.place) if not self.reason(p)]
        known = {p: found.seconds for p, found in list(self.predictions.items()) if found.seconds is not None}
        places.sort(key=lambda p: known.get(p, float("inf")))
        self.worker.drop()
        self.hunt = Hunt(
            self.problem, [schedule_at(self.space, p) for p in places[:limit]], reference=self.settings.check, store=self.settings.store,
            timeout_s=timeout_s, told=self._found, ended=self._searched,
        )  # fmt: skip
        return self.hunt

    def _found(self, candidate: Candidate) -> None:
        """A result of the search: a run of the log, or a position's reason. In the search's thread."""
        place = place_of(self.space, {name: candidate.schedule[name] for name in self.space.names})
        if candidate.has_failed:
            self.failures[place] = f"{candidate.status}: {candidate.first_line}"
        elif candidate.measured is not None and (report := self.prediction(place).report) is not None:
            seconds = [t / 1e3 for t in candidate.times_ms]
            self.record(place, Run(0, candidate.schedule, with_times(report, seconds), usual_error=usual_error(report)))
        self.tell("search", place)

    def _searched(self) -> None:
        self.tell("search", self.place)
        self.go(self.place)

    def close(self) -> None:
        """Stop the worker and a search; what is known stays."""
        if self.hunt is not None:
            self.hunt.stop()
        self.worker.close()
        self.listeners.clear()

    def tell(self, news: News, place: Place) -> None:
        """Let the listeners know, one piece of news at a time; what a listener raises is kept in `trouble` and stops nothing."""
        with self._telling:
            for listener in list(self.listeners):
                try:
                    listener(news, place)
                except Exception as error:  # a browser that went away must not stop the worker
                    self.trouble = error

    # ------------------------------------------------------------------------------------------ in the worker
    def _predict(self, place: Place) -> Prediction:
        schedule = schedule_at(self.space, place)
        if why := forbidden(self.space, schedule):
            return Prediction(reason=why, limit="rule")
        found = predict(self.problem, schedule, self.settings.machine)
        if not found.reason and (why := self.space.why_not(schedule)):
            return Prediction(reason=why, limit="rule")
        return found

    def _idle(self) -> bool:
        """An errand; else one more prediction, the nearest that is missing; else a chore. While a search measures, errands only."""
        if any(errand() for errand in self.errands):
            return True
        if self.is_searching:
            return False
        missing = next((p for p in nearest(self.space, self.place) if p not in self.predictions), None)
        if missing is not None:
            self.prediction(missing)
            self._told += 1
        if self._told and (missing is None or self._told >= 8):
            self._told = 0
            self.tell("table", self.place)
        return missing is not None or any(chore() for chore in self.chores)

    def _attempt(self, ticket: Ticket, place: Place, *, anyway: bool, again: bool) -> None:
        """An exception at one position is that position's reason; the others live on."""
        try:
            self._find_out(ticket, place, anyway=anyway, again=again)
        except Exception as error:
            if not ticket.is_abandoned:
                self._fail(place, one_line(error))

    def _find_out(self, ticket: Ticket, place: Place, *, anyway: bool, again: bool) -> None:
        """Ghost, then truth, for one position. Stops as soon as something newer was asked."""
        self.stage = "predicting"
        ghost = self.prediction(place)
        self.stage = ""
        if ticket.is_stale():
            return
        if again:
            self.failures.pop(place, None)
        self.tell("ghost", place)
        if self.reason(place) or ghost.report is None or not self.settings.is_here:
            return
        if place in self.latest and not again:
            self.tell("truth", place)
            return
        if self.is_searching:  # a run now would disturb the search, and the search it
            return
        if (ghost.seconds or 0.0) > self.settings.limit_s and not anyway:
            self.tell("refused", place)
            return
        if (made := self._run(ticket, place, ghost)) is not None and not ticket.is_stale():
            run, kernel, seconds = made
            self.record(place, run)
            self.tell("truth", place)
            self._keep(kernel, run, seconds)

    def _run(self, ticket: Ticket, place: Place, ghost: Prediction) -> tuple[Run, JITKernel, tuple[float, ...]] | None:
        """Compile, check and measure: the run, its kernel and its times; None if the result is no longer wanted."""
        schedule = schedule_at(self.space, place)
        report = ghost.report
        assert report is not None
        self._enter("compiling", place)
        kernel = self.problem.compile(schedule)
        if ticket.is_stale():
            return None
        facts = kernel.facts
        seconds: tuple[float, ...] = ()
        made: dict[str, Any] = {"compile_ms": facts.passes_ms + facts.compiler_ms, "source": kernel.source, "usual_error": usual_error(report)}
        self._enter("measuring", place)
        attempt = Attempt.of(kernel, self._arguments(kernel))
        patience = max(self.settings.hang_s, HANG_TIMES * (ghost.seconds or 0.0))
        with ticket.guard(patience, lambda: self._hangs(place, patience)):
            first = attempt.run()
        checks = self._compare(attempt)
        if kernel.is_timed:
            with ticket.guard(patience, lambda: self._hangs(place, patience)):
                seconds = attempt.times(first, ticket.is_stale)
        self.stage = ""
        if ticket.is_stale():
            return None
        why = "" if seconds else f"ran on target {kernel.target}, whose time says nothing about the machine"
        return Run(0, schedule, with_times(report, seconds) if seconds else report, why, checks, **made), kernel, seconds

    def _keep(self, kernel: JITKernel, run: Run, seconds: tuple[float, ...]) -> None:
        """Write a run to the store and to the scorecard; what goes wrong there concerns no position."""
        if run.report is None or not seconds:
            return
        try:
            if self.settings.store is not None:
                keep(self.settings.store, self.problem, kernel, run.report, seconds, is_checked=bool(run.checks))
            record_score(run.report)
        except Exception as error:
            self.trouble = error

    def record(self, place: Place, run: Run) -> None:
        """Give the run its number and keep it."""
        numbered = Run(len(self.log) + 1, *(getattr(run, name) for name in Run.__slots__[1:]))
        self.log = RunLog((*self.log.runs, numbered))
        self.latest[place] = numbered
        self.failures.pop(place, None)

    def _compare(self, attempt: Attempt) -> tuple[Comparison, ...]:
        if self.settings.check is None:
            return ()
        if self._references is None:
            self._references = references_of(self.settings.check, attempt.call)
        return judge_outputs(attempt, self._references, self.settings.tolerance)

    def _arguments(self, kernel: JITKernel) -> tuple[Any, ...]:
        """The arrays of every run: those given, or made up once."""
        if self._made_up is None:
            self._made_up = self.problem.arguments(kernel)
        return self._made_up

    def _enter(self, stage: str, place: Place) -> None:
        self.stage = stage
        self.tell("stage", place)

    def _hangs(self, place: Place, seconds: float) -> None:
        self._fail(place, f"did not end within {seconds:.3g} s, and cannot be stopped: it keeps its cores until the notebook's kernel is restarted")

    def _fail(self, place: Place, reason: str) -> None:
        self.stage = ""
        self.failures[place] = reason
        self.tell("failed", place)

"""Search and memory of a workbench: try every position in processes that can be killed, keep every result, and remember earlier ones.

Results go to the store as soon as they are there, the workbench's own runs too, so that an interrupted search, a restarted notebook and the next
session find them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..model.report import Report
from ..tune.candidate import Candidate
from ..tune.plan import Plan
from ..tune.problem import Problem
from ..tune.schedule import Schedule
from ..tune.search import Search, code_of, machine_name
from ..tune.store import Place as StorePlace
from ..tune.store import Store, now

TIMEOUT_S = 10.0


@dataclass(slots=True)
class Progress:
    """How far a search is. `best` is its fastest candidate, `failures` those that are at fault themselves, `why` what ended it before its time."""

    total: int
    done: int = 0
    is_running: bool = True
    best: Candidate | None = None
    failures: list[Candidate] = field(default_factory=list)
    reused: int = 0
    why: str = ""

    def __str__(self) -> str:
        state = "searching" if self.is_running else self.why or "searched"
        parts = [f"{state}: {self.done} of {self.total}"]
        if self.reused:
            parts.append(f"{self.reused} from the store")
        if self.failures:
            parts.append(f"{len(self.failures)} failed")
        if self.best is not None and self.best.measured is not None:
            parts.append(f"best {self.best}")
        return ", ".join(parts)


class Hunt:
    """One search in a thread of its own. `told(candidate)` hears each result, `ended()` the end; both in that thread."""

    def __init__(
        self,
        problem: Problem,
        schedules: Iterable[Schedule],
        *,
        reference: Any = None,
        store: Store | None = None,
        timeout_s: float = TIMEOUT_S,
        told: Callable[[Candidate], None] = lambda _: None,
        ended: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> None:
        found = list(schedules)
        self.progress = Progress(len(found))
        self._search = Search(problem, found, reference=reference, store=store, plan=Plan(timeout_s=timeout_s, **options))
        self._told, self._ended = told, ended
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tileworkbench search", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it now; a kernel that is running is killed, and what has finished stays."""
        self.progress.why = "stopped"
        self._search.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end; False if that took longer. An interrupt ends the waiting, not the search."""
        return self._over.wait(seconds)  # not join(): interrupted, it takes the thread for dead (Python 3.11)

    def _run(self) -> None:
        progress = self.progress
        try:
            for event in self._search:
                progress.best = event.best
                if event.kind == "started":
                    continue
                progress.done = event.done
                if event.kind == "finished":
                    progress.reused += event.candidate.is_reused
                    if event.candidate.has_failed:
                        progress.failures.append(event.candidate)
                self._told(event.candidate)
        except Exception as error:  # the reference, or arguments that cannot be made up
            progress.why = f"{type(error).__name__}: {error}"
        progress.is_running = False
        try:
            self._ended()
        finally:
            self._over.set()


def keep(store: Store, problem: Problem, kernel: Any, report: Report, seconds: Iterable[float], *, is_checked: bool) -> None:
    """Write a run of the workbench to the store, as a search would."""
    times = tuple(s * 1e3 for s in seconds)
    candidate = Candidate(
        Schedule(report.schedule),
        "ran",
        "",
        times,
        report.predicted.value * 1e3,
        report.bound,
        code_of(kernel),
        "workbench" if is_checked else "",
        date=now(),
    )
    store.put(StorePlace(problem.program, problem.name, machine_name(kernel.target), kernel.target), candidate)


def recall(store: Store, problem: Problem) -> list[Candidate]:
    """What the store holds of this problem on this machine."""
    return list(store.results(problem.program, machine=machine_name(problem.function.options.target)).candidates)

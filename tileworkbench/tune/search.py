"""The search: build candidates side by side, run them one at a time, each in a process that can be killed; keep every result.

    hunt = search(problem, space, reference=lambda a, b: a @ b, store=Store())
    for event in hunt:                       # runs while you iterate; stop iterating, or call hunt.stop() from anywhere, and it ends
        print(event.kind, event.candidate, event.best)
    hunt.best, hunt.candidates

Candidates are taken in waves: the compilers of a wave run side by side, then its kernels are timed with nothing of ours running next to them. At the
end the fastest few are timed again in turn, which settles ties. The executor decides where kernels run: the default runs them on this machine, one
at a time; a process pool or a Dask client's executor (`client.get_executor()`) elsewhere, `at_once` of them together. Wherever it is, each machine
times one kernel at a time, and a timeout kills. Schedules that give the very same code (on a CPU, pipeline stages often do) are run once.
"""

from __future__ import annotations

import queue
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from ..runtime.fork import available_cores
from ..runtime.kernel import JITKernel
from ..runtime.targets import is_by_hand
from .candidate import Candidate, best_of
from .naming import checked_by, code_of, machine_name
from .plan import Plan, with_options
from .problem import Searchable
from .sandbox import run_trial, stop_trials
from .schedule import Schedule
from .space import Space
from .store import Place, Store, now
from .trial import Expected, Inputs, Outcome, Trial, reason_of

Kind = Literal["predicted", "started", "finished", "settled"]
Check = Callable[[list[Any], list[Any], Expected | None], Any]  # returned, the arguments as the kernel left them, the reference's -> raises
FINALISTS = 4
TIE = 0.05  # candidates this close to the best are timed again


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened to `candidate`.

    kind: "predicted" (before a search in the model's order begins), "started" (it is being built), "finished" (it ran, failed, or was found in the
    store), or "settled" (timed again at the end). `done` of `total` candidates have finished; `best` is the fastest so far.
    """

    kind: Kind
    candidate: Candidate
    done: int
    total: int
    best: Candidate | None


class Search:
    """A search that runs while it is iterated. `candidates` holds what has finished, in that order; `stop()` ends it from any thread.

    `check` compares results in this process, in place of the comparison with the reference; it raises where they are wrong.

    Raises while iterating: what the reference raises; ArgumentError if the arguments cannot be made up.
    """

    def __init__(
        self,
        problem: Searchable,
        space: Space | Iterable[Schedule],
        *,
        reference: Any = None,
        store: Store | None = None,
        executor: Executor | None = None,
        plan: Plan = Plan(),
        check: Check | None = None,
    ) -> None:
        self.problem = problem
        self.space = space
        self.plan = plan
        self.store = store
        self.candidates: list[Candidate] = []
        self.total = 0
        self._reference = reference
        self._executor = executor
        self._check = check
        self._owner = uuid.uuid4().hex
        self._inputs: dict[Any, Inputs] = {}
        self._kernels: dict[Schedule, JITKernel] = {}
        self._program = ""
        self._stopping = threading.Event()
        self._checked_by = checked_by(reference, check, plan.settings)

    # ------------------------------------------------------------------ from outside
    @property
    def best(self) -> Candidate | None:
        """The fastest that has finished; of a search that runs nothing, the one predicted to be."""
        return best_of(self.candidates)

    @property
    def failures(self) -> tuple[Candidate, ...]:
        return tuple(c for c in self.candidates if c.has_failed)

    @property
    def is_stopped(self) -> bool:
        return self._stopping.is_set()

    def stop(self) -> None:
        """End the search now; a kernel that is running is killed. What has finished stays. May be called from any thread, and twice."""
        self._stopping.set()
        stop_trials(self._owner)

    def run(self) -> Search:
        """Iterate to the end; returns the search."""
        for _ in self:
            pass
        return self

    def __iter__(self) -> Iterator[Event]:
        """The events, as they happen. Leaving the loop stops the search."""
        own = ThreadPoolExecutor(1, "tune") if self._executor is None else None
        try:
            yield from self._events(self._executor or own)
        except BaseException:
            self.stop()
            raise
        finally:
            if own is not None:
                own.shutdown(wait=True, cancel_futures=True)

    # ------------------------------------------------------------------ the course of it
    def _events(self, executor: Executor | None) -> Iterator[Event]:
        schedules = self._schedules()
        self.total = len(schedules)
        if not self.plan.run or self.plan.order == "model":
            waiting: list[Candidate] = []
            for schedule in schedules:
                if self.is_stopped:
                    break
                waiting.append(self._predicted(schedule))
                yield self._event("predicted", waiting[-1]) if self.plan.run else self._finished(waiting[-1])
            waiting.sort(key=lambda c: c.predicted_ms if c.predicted_ms is not None else float("inf"))
        else:
            waiting = [Candidate(s) for s in schedules]
        if not self.plan.run:
            return
        waiting = waiting[: self.plan.limit]
        self.total = len(waiting)
        assert executor is not None
        began, unlucky, size = time.monotonic(), 0, self.plan.wave or 4 * available_cores()
        for at in range(0, len(waiting), size):
            late = self.plan.time_limit_s is not None and time.monotonic() - began > self.plan.time_limit_s
            if late or self.is_stopped or (self.plan.patience is not None and unlucky >= self.plan.patience):
                break
            for event in self._wave(waiting[at : at + size], executor):
                if event.kind == "finished":
                    unlucky = 0 if event.best is event.candidate else unlucky + 1
                yield event
        if not self.is_stopped:
            yield from self._settle(executor)

    def _wave(self, wave: Sequence[Candidate], executor: Executor) -> Iterator[Event]:
        for candidate in wave:
            yield self._event("started", candidate)
        with ThreadPoolExecutor(min(len(wave), available_cores())) as pool:
            built = list(pool.map(self._build, wave))
        ready: list[tuple[Candidate, JITKernel]] = []
        twins: list[tuple[Candidate, JITKernel]] = []
        codes = {c.code for c in self.candidates}
        for candidate, kernel in built:
            if kernel is not None and candidate.code in codes:
                twins.append((candidate, kernel))
                continue
            codes.add(candidate.code)
            known = self._stored(candidate, kernel) if kernel is not None else None
            if known is not None and kernel is not None:
                self._remember(known, kernel)
                yield self._finished(known)
            elif kernel is not None:
                ready.append((candidate, kernel))
            elif candidate.has_failed:
                self._keep(candidate)
                yield self._finished(candidate)
        yield from self._run_all(ready, executor)
        for candidate, kernel in twins:
            first = next((c for c in self.candidates if c.code == candidate.code), None)
            if first is not None:
                twin = _twin(candidate, first)
                self._keep(twin, kernel)
                yield self._finished(twin)

    def _run_all(self, ready: Sequence[tuple[Candidate, JITKernel]], executor: Executor) -> Iterator[Event]:
        """Submit at most `at_once` trials at a time; yield each as it ends."""
        ended: queue.SimpleQueue[tuple[Candidate, JITKernel, Future[Outcome]]] = queue.SimpleQueue()
        waiting, running = list(reversed(ready)), 0
        while waiting or running:
            while waiting and running < max(1, self.plan.at_once) and not self.is_stopped:
                candidate, kernel = waiting.pop()
                future = executor.submit(run_trial, self._trial(kernel))
                future.add_done_callback(partial(_tell, ended, candidate, kernel))
                running += 1
            if not running:
                return
            try:
                candidate, kernel, future = ended.get(timeout=0.1 if self.is_stopped else None)
            except queue.Empty:  # stopped, and the executor is elsewhere: what it still runs is not waited for
                return
            running -= 1
            outcome = self._outcome(future)
            if outcome.status != "stopped":
                judged = self._judged(candidate, outcome, kernel)
                self._keep(judged, kernel)
                self._remember(judged, kernel)
                yield self._finished(judged)

    def _settle(self, executor: Executor) -> Iterator[Event]:
        """Time the finalists again, in turn, if more than one is close to the best."""
        best = self.best
        if best is None or best.judged_ms is None:
            return
        limit = best.judged_ms * (1 + TIE)
        known = [c for c in self.candidates if c.ran and c.same_as is None and c.schedule in self._kernels and (c.judged_ms or 0.0) <= limit]
        close = sorted(known, key=lambda c: c.judged_ms or 0.0)[:FINALISTS]
        kernels = [self._kernels[c.schedule] for c in close]
        if len(close) < 2 or all(c.is_reused for c in close) or len({self._inputs_of(k).token for k in kernels}) > 1:
            return
        codes = Trial.of(kernels, self._inputs_of(kernels[0])).codes
        trial = replace(self._trial(kernels[0]), codes=codes, timeout_s=self.plan.timeout_s * len(close))
        outcome = self._outcome(executor.submit(run_trial, trial))
        for candidate, kernel, times in zip(close, kernels, outcome.all_times_ms, strict=False):
            again = replace(candidate, times_ms=times, is_reused=False, date=now())
            for i, c in enumerate(self.candidates):
                if c is candidate or c.same_as == candidate.schedule:
                    self.candidates[i] = again if c is candidate else _twin(c, again)
                    self._keep(self.candidates[i], kernel)
                    yield self._event("settled", self.candidates[i])

    # ------------------------------------------------------------------ steps
    def _schedules(self) -> list[Schedule]:
        """What to try, in order; the model's order needs all of them."""
        schedules = list(self.space)
        if self.plan.order == "random":
            random.Random(self.plan.seed).shuffle(schedules)
        return schedules if self.plan.order == "model" and self.plan.run else schedules[: self.plan.limit]

    def _predicted(self, schedule: Schedule) -> Candidate:
        """The candidate with what the model says of it. That it cannot be built is told by building it, if the search does."""
        machine = self.plan.machine
        if machine is None:
            return Candidate(schedule)
        try:
            why = self.problem.limit(schedule, machine)
            if why and not self.plan.run:
                return Candidate(schedule, "does not fit", why)
            made = self.problem.report(schedule, machine)
        except Exception as error:
            return Candidate(schedule) if self.plan.run else Candidate(schedule, "does not compile", reason_of(error))
        return Candidate(schedule, "waiting" if self.plan.run else "predicted", "", (), made.predicted.value * 1e3, made.bound)

    def _build(self, candidate: Candidate) -> tuple[Candidate, JITKernel | None]:
        if self.is_stopped:
            return replace(candidate, status="stopped"), None
        if candidate.predicted_ms is None and self.plan.order != "model":
            candidate = self._predicted(candidate.schedule)
        try:
            kernel = self.problem.compile(candidate.schedule)
        except Exception as error:  # a schedule may fail in any way; the search goes on and the reason is kept
            return replace(candidate, status="does not compile", reason=reason_of(error)), None
        return replace(candidate, code=code_of(kernel)), kernel

    def _stored(self, candidate: Candidate, kernel: JITKernel) -> Candidate | None:
        """An earlier time of the same code on this machine, if its result agreed with the same reference."""
        if self.store is None or not self.plan.reuse:
            return None
        found = self.store.find(self._place(kernel), candidate.schedule, candidate.code)
        if found is None or not found.ran or (self._checked_by and found.checked_by != self._checked_by):
            return None
        known = replace(found, schedule=candidate.schedule)
        return replace(known, predicted_ms=candidate.predicted_ms, bound=candidate.bound) if candidate.predicted_ms is not None else known

    def _trial(self, kernel: JITKernel) -> Trial:
        best, factor = self.best, self.plan.early_stop_factor
        limit = best.judged_ms * factor if best is not None and best.judged_ms is not None and factor is not None else None
        return Trial.of(
            kernel, self._inputs_of(kernel), settings=replace(self.plan.settings, stop_above_ms=limit), timeout_s=self.plan.timeout_s,
            is_isolated=self.plan.is_isolated and not is_by_hand(kernel.target), keep=self._check is not None, owner=self._owner,
        )  # fmt: skip

    def _inputs_of(self, kernel: JITKernel) -> Inputs:
        """The arguments for `kernel`: the same for all kernels that take the same shapes."""
        key = tuple((str(p.dtype), p.shape) for p in kernel.params if not p.is_output) if self.problem.given is None else None
        if key not in self._inputs:
            self._inputs[key] = Inputs.of(self.problem.arguments(kernel), self._reference)
        return self._inputs[key]

    def _outcome(self, future: Future[Outcome]) -> Outcome:
        try:
            return future.result()
        except Exception as error:  # the executor's own trouble: a pool that broke, a worker that was lost
            return Outcome("crashed", f"the executor lost it: {reason_of(error)}")

    def _judged(self, candidate: Candidate, outcome: Outcome, kernel: JITKernel) -> Candidate:
        status, reason = outcome.status, outcome.reason
        if self._check is not None and status == "ran":
            try:
                self._check(list(outcome.returned), list(outcome.arguments), self._inputs_of(kernel).load()[1])
            except Exception as error:
                status, reason = "wrong result", reason_of(error)
        return replace(candidate, status=status, reason=reason, times_ms=outcome.times_ms, checked_by=self._checked_by, date=now())

    def _finished(self, candidate: Candidate) -> Event:
        self.candidates.append(candidate)
        return self._event("finished", candidate)

    def _remember(self, candidate: Candidate, kernel: JITKernel) -> None:
        """Hold the kernels that may be finalists, and no others."""
        if not candidate.ran:
            return
        self._kernels[candidate.schedule] = kernel
        times = {c.schedule: c.judged_ms or 0.0 for c in (*self.candidates, candidate) if c.ran}
        limit = min(times.values()) * (1 + TIE)
        self._kernels = {s: k for s, k in self._kernels.items() if times.get(s, limit) <= limit}

    def _keep(self, candidate: Candidate, kernel: JITKernel | None = None) -> None:
        if self.store is not None and candidate.status not in ("stopped", "waiting", "slower"):
            self.store.put(self._place(kernel), candidate)

    def _place(self, kernel: JITKernel | None) -> Place:
        self._program = self._program or self.problem.program
        target = kernel.target if kernel is not None else ""
        return Place(self._program, self.problem.name, machine_name(target), target)

    def _event(self, kind: Kind, candidate: Candidate) -> Event:
        return Event(kind, candidate, len(self.candidates), self.total, self.best)


def search(problem: Searchable, space: Space | Iterable[Schedule], **options: Any) -> Search:
    """A search over `space`; the options are those of `Search`, and the fields of `Plan` and `Settings` by name.

    >>> search(problem, space, reference=numpy_matmul, order="random", rep_ms=20, timeout_s=5)      # doctest: +SKIP

    Raises: TileValueError for an option that none of them has.
    """
    own = {k: options.pop(k) for k in ("reference", "store", "executor", "check") if k in options}
    plan = options.pop("plan", Plan())
    return Search(problem, space, plan=with_options(plan, options), **own)


def _twin(candidate: Candidate, first: Candidate) -> Candidate:
    """`candidate` with the outcome of `first`, whose code it shares."""
    return replace(first, schedule=candidate.schedule, predicted_ms=candidate.predicted_ms, bound=candidate.bound, same_as=first.schedule)


def _tell(ended: queue.SimpleQueue[Any], candidate: Candidate, kernel: JITKernel, future: Future[Outcome]) -> None:
    ended.put((candidate, kernel, future))


__all__ = ["Event", "Search", "Searchable", "code_of", "machine_name", "search"]

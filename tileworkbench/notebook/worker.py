"""A thread that does the newest thing asked, and small things while nothing is asked.

A hand on a slider asks faster than a compiler answers, so only the newest request counts: one that waits is replaced, and one that runs learns from
its ticket that it is stale and may stop early. Between requests the worker does `idle` jobs, one small one at a time. A request that raises ends
alone; one that does not come back in time (a kernel that hangs cannot be stopped) is left behind with its thread, and a new thread goes on.

The thread lives while there is work: none waits for ever, and nothing is left when the worker is closed.

>>> worker, seen = Worker(), []
>>> worker.ask(lambda ticket: seen.append(ticket.number)).wait(5) and seen == [1]
True
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Job = Callable[["Ticket"], None]
Idle = Callable[[], bool]  # does one small thing; False: there is nothing to do


@dataclass(slots=True, eq=False)
class Ticket:
    """One request: its place in the order of all requests. `done` is set when it has ended, was replaced, or was left behind."""

    number: int
    worker: Worker
    done: threading.Event = field(default_factory=threading.Event)
    is_abandoned: bool = False

    def is_stale(self) -> bool:
        """Whether its result is no longer wanted: something newer was asked, the worker was closed, or it was left behind."""
        return self.is_abandoned or self.worker.newest != self.number

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended; False if that took longer."""
        return self.done.wait(seconds)

    @contextmanager
    def guard(self, seconds: float, late: Callable[[], None]) -> Iterator[None]:
        """If this block takes longer than `seconds`, call `late()` and go on with other requests in a new thread."""
        timer = threading.Timer(seconds, lambda: self.worker.abandon(self, late))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class Worker:
    """Runs jobs in one daemon thread. `failed(ticket, error)` is told what a job raised; it runs in that thread."""

    def __init__(self, idle: Idle | None = None, failed: Callable[[Ticket, BaseException], None] | None = None) -> None:
        self.newest = 0
        self._idle = idle
        self._failed = failed
        self._lock = threading.Condition()
        self._waiting: tuple[Ticket, Job] | None = None
        self._running: Ticket | None = None
        self._thread: threading.Thread | None = None
        self._may_idle = False
        self._fills = 0
        self._is_closed = False

    def ask(self, job: Job) -> Ticket:
        """Run `job` next, in place of a request that still waits. Raises RuntimeError after `close`."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the worker is closed")
            self.newest += 1
            ticket = Ticket(self.newest, self)
            if self._waiting is not None:
                self._waiting[0].done.set()
            self._waiting = (ticket, job)
            self._fill()
        return ticket

    def fill(self) -> None:
        """There are idle jobs to do again."""
        with self._lock:
            if not self._is_closed:
                self._fill()

    def drop(self) -> None:
        """Drop what waits, and let what runs find itself stale."""
        with self._lock:
            self.newest += 1
            if self._waiting is not None:
                self._waiting[0].done.set()
            self._waiting = None

    def close(self) -> None:
        """As `drop`, and do nothing any more."""
        with self._lock:
            self._is_closed = True
        self.drop()

    @property
    def is_busy(self) -> bool:
        """Whether something runs or waits, idle jobs included."""
        with self._lock:
            return self._thread is not None

    def wait_idle(self, seconds: float | None = None) -> bool:
        """Wait until nothing runs or waits, idle jobs included; False if that took longer."""
        with self._lock:
            return self._lock.wait_for(lambda: self._thread is None, seconds)

    def abandon(self, ticket: Ticket, late: Callable[[], None]) -> None:
        """Leave a running request behind, with its thread, and go on. `late` is called unless it ended in the meantime."""
        with self._lock:
            if self._running is not ticket:
                return
            ticket.is_abandoned = True
            self._running, self._thread = None, None
            if not self._is_closed:
                self._start()
        late()
        ticket.done.set()

    # ------------------------------------------------------------------------------------------ the thread
    def _fill(self) -> None:
        self._may_idle = True
        self._fills += 1
        self._start()

    def _start(self) -> None:
        """Under the lock: have a thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tileworkbench worker", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        me = threading.current_thread()
        while (task := self._next(me)) is not None:
            ticket, job = task
            if ticket is None:
                self._do_idle()
                continue
            try:
                job(ticket)
            except BaseException as error:  # whatever an author's code raises ends this request alone
                if self._failed is not None and not ticket.is_abandoned:
                    self._failed(ticket, error)
            with self._lock:
                if self._running is ticket:
                    self._running = None
            ticket.done.set()

    def _next(self, me: threading.Thread) -> tuple[Ticket | None, Job] | None:
        """The next thing for this thread: a request, or (None, _) for an idle job; None to end, because all is done or another thread took over."""
        with self._lock:
            if self._thread is not me:
                return None
            if self._waiting is not None:
                task, self._waiting = self._waiting, None
                self._running = task[0]
                return task
            if self._may_idle and self._idle is not None and not self._is_closed:
                return None, _nothing
            self._thread = None
            self._lock.notify_all()
            return None

    def _do_idle(self) -> None:
        assert self._idle is not None
        fills = self._fills
        try:
            more = self._idle()
        except Exception:
            more = False  # an idle job reports its own failures; one that cannot must not stop the requests
        with self._lock:
            if not more and fills == self._fills:
                self._may_idle = False


def _nothing(_: Ticket) -> None:
    """Stands where a request would."""

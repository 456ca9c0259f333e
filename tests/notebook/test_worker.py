"""The worker: newest wins, failures end alone, what hangs is left behind, nothing remains."""

from __future__ import annotations

import threading
import time

import pytest

from tileworkbench.notebook.worker import Ticket, Worker


def test_a_request_that_waits_is_replaced_by_a_newer_one():
    worker, ran, began, gate = Worker(), [], threading.Event(), threading.Event()
    first = worker.ask(lambda _: (began.set(), gate.wait(5)))
    assert began.wait(5)  # it runs; only what waits is replaced
    tickets = [worker.ask(lambda t: ran.append(t.number)) for _ in range(20)]
    gate.set()
    assert tickets[-1].wait(5)
    assert first.done.is_set()
    assert worker.wait_idle(5)
    assert ran == [tickets[-1].number]
    assert all(t.done.is_set() for t in tickets), "a replaced request must not leave anyone waiting"


def test_what_runs_learns_that_it_is_stale():
    worker, seen, started, gate = Worker(), [], threading.Event(), threading.Event()

    def old(ticket: Ticket) -> None:
        seen.append(ticket.is_stale())
        started.set()
        gate.wait(5)
        seen.append(ticket.is_stale())

    worker.ask(old)
    assert started.wait(5)
    newer = worker.ask(lambda _: None)
    gate.set()
    assert newer.wait(5)
    assert seen == [False, True]


def test_an_exception_ends_its_request_alone():
    failed: list[str] = []
    worker = Worker(failed=lambda _, error: failed.append(str(error)))
    assert worker.ask(lambda _: 1 / 0).wait(5)
    ran: list[int] = []
    assert worker.ask(lambda t: ran.append(t.number)).wait(5)
    assert failed == ["division by zero"]
    assert ran == [2]


def test_a_request_that_hangs_is_left_behind():
    worker, late, gate, ran = Worker(), threading.Event(), threading.Event(), []

    def hang(ticket: Ticket) -> None:
        with ticket.guard(0.05, late.set):
            gate.wait(10)
        ran.append(("hung", ticket.is_stale()))

    hung = worker.ask(hang)
    assert late.wait(5)
    assert hung.wait(5), "whoever waits for it is freed"
    assert worker.ask(lambda _: ran.append("next")).wait(5)
    assert ran == ["next"], "the next request runs while the first still hangs"
    gate.set()
    for _ in range(200):
        if len(ran) == 2:
            break
        time.sleep(0.01)
    assert ran[1] == ("hung", True), "what comes back late knows that nobody wants it"


def test_a_guard_that_is_not_needed_calls_nothing():
    worker, late = Worker(), []

    def quick(ticket: Ticket) -> None:
        with ticket.guard(0.05, lambda: late.append(1)):
            pass

    assert worker.ask(quick).wait(5)
    time.sleep(0.12)
    assert late == []


def test_idle_jobs_give_way_to_a_request():
    left, order = [6], []

    def idle() -> bool:
        if not left[0]:
            return False
        left[0] -= 1
        order.append("idle")
        time.sleep(0.02)
        return True

    worker = Worker(idle)
    worker.fill()
    time.sleep(0.03)
    assert worker.ask(lambda _: order.append("asked")).wait(5)
    assert worker.wait_idle(5)
    assert order.count("idle") == 6
    assert order.index("asked") < 5


def test_closing_drops_what_waits_and_leaves_no_thread():
    worker, began, gate, ran = Worker(lambda: True), threading.Event(), threading.Event(), []
    worker.ask(lambda _: (began.set(), gate.wait(5)))
    assert began.wait(5)  # else the next one takes its place, as it should
    waiting = worker.ask(lambda _: ran.append(1))
    worker.close()
    gate.set()
    assert worker.wait_idle(5)
    assert waiting.done.is_set()
    assert ran == []
    assert not worker.is_busy
    with pytest.raises(RuntimeError, match="closed"):
        worker.ask(lambda _: None)

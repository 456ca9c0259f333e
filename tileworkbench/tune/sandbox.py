"""A process of its own for trials, so that a kernel that hangs can be killed and one that crashes takes nothing with it.

The process is started once and serves one trial after another; after a crash, a kill or a wrong result it is replaced. It ends by itself when the
process that started it does, even in the middle of a kernel, and after a minute without work.
It is an ordinary child, not a fork: OpenMP does not survive one (see `runtime.fork`).

On any executor `run_trial` is the function to submit: it needs nothing but its argument. Trials of one machine take turns, whichever processes ask.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..base.errors import TileRuntimeError
from ..runtime.fork import fork_safe_lock
from ..runtime.storage import cache_folder
from .trial import Outcome, Trial, build_all, execute, reason_of

START_TIMEOUT_S = 120.0
BUILD_TIMEOUT_S = 600.0
TURN_TIMEOUT_S = 600.0
IDLE_S = 60.0
MAX_IDLE = 1

_idle: list[Sandbox] = []
_busy: dict[str, set[Sandbox]] = {}  # owner of the trial -> where it runs
_stopped: set[str] = set()
_lock = fork_safe_lock()


class Died(Exception):
    """The process of a trial is gone; the message says how it ended."""


class TooLong(Exception):
    """The process did not answer in time."""


def run_trial(trial: Trial) -> Outcome:
    """Build, check and time the kernel of `trial`; raises nothing that the kernel causes."""
    if trial.owner in _stopped:
        return Outcome("stopped", "the search was stopped")
    if not trial.is_isolated:
        kernels = build_all(trial)
        if isinstance(kernels, Outcome):
            return kernels
        with machines_turn():
            return execute(trial, kernels, *trial.inputs.load())
    outcome, was_fresh = _isolated(trial)
    if outcome.status == "crashed" and not was_fresh:  # an earlier kernel may have damaged the process: once more, in a new one
        outcome, _ = _isolated(trial)
    return outcome


def _isolated(trial: Trial) -> tuple[Outcome, bool]:
    box = _take(trial.owner)
    was_fresh, outcome = box.trials == 0, Outcome("stopped", "the search was stopped")
    try:
        outcome = box.run(trial)
    except TooLong:
        outcome = Outcome("timed out", f"killed after {trial.timeout_s:g} s")
    except Died as error:
        outcome = Outcome("stopped", "the search was stopped") if trial.owner in _stopped else Outcome("crashed", str(error))
    finally:
        _give_back(box, trial.owner, is_sound=outcome.status in ("ran", "slower", "does not compile", "raised"))
    return outcome, was_fresh


def stop_trials(owner: str) -> None:
    """Kill what runs for `owner` in this process, and start nothing more for it."""
    with _lock:
        _stopped.add(owner)
        boxes = list(_busy.get(owner, ()))
    for box in boxes:
        box.kill()


@contextlib.contextmanager
def machines_turn() -> Iterator[None]:
    """One measurement at a time on this machine, across processes. A lock that cannot be had only costs accuracy."""
    lock = None
    try:
        folder = cache_folder() / "locks"
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = FileLock(folder / "measure.lock", timeout=TURN_TIMEOUT_S)
        lock.acquire()
    except (OSError, NotImplementedError, Timeout):
        lock = None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


# ------------------------------------------------------------------------------------------- this side
class Sandbox:
    """The process, seen from here. One trial at a time."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        package = str(Path(__file__).resolve().parents[2])
        text = f"import sys; sys.path.insert(0, {package!r}); from tileworkbench.tune.sandbox import serve; serve({theirs.fileno()})"
        try:
            self.errors = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
            nowhere, command = subprocess.DEVNULL, [sys.executable, "-c", text]
            self.process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=nowhere, stdout=nowhere, stderr=self.errors, start_new_session=True
            )
        finally:
            theirs.close()
        self.pipe: Connection[Any, Any] = Connection(ours.detach())
        self.owner_pid = os.getpid()
        self.inputs = ""
        self.trials = 0
        self.since = time.monotonic()

    def run(self, trial: Trial) -> Outcome:
        """Run `trial` there. Raises TooLong or Died; the process is useless then."""
        if not self.trials:
            self._answer(START_TIMEOUT_S)
        self.trials += 1
        light = replace(trial, inputs=replace(trial.inputs, data=b""))
        self._send((trial.inputs if trial.inputs.token != self.inputs else None, light))
        self.inputs = trial.inputs.token
        built = self._answer(BUILD_TIMEOUT_S)
        if isinstance(built, Outcome):
            return built
        with machines_turn():
            self._send("go")
            outcome: Outcome = self._answer(trial.timeout_s)
        return outcome

    def _send(self, message: Any) -> None:
        try:
            self.pipe.send_bytes(pickle.dumps(message, protocol=5))
        except OSError:
            raise Died(self._end()) from None

    def _answer(self, seconds: float) -> Any:
        try:
            if not self.pipe.poll(seconds):
                raise TooLong
            return pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            raise Died(self._end()) from None

    def _end(self) -> str:
        """How the process ended, with the last thing that it said."""
        try:
            code = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        how = f"ended its process with exit code {code}"
        if code < 0:
            how = f"crashed with signal {-code}"
            with contextlib.suppress(ValueError):
                how += f" ({signal.Signals(-code).name}{', perhaps out of memory' if -code == signal.SIGKILL else ''})"
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - 4096))
        said = [line.strip() for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]
        return f"{how}: {said[-1][:200]}" if said else how

    def is_usable(self) -> bool:
        """Whether it belongs to this process, lives, and will not end of idleness in a moment."""
        return self.owner_pid == os.getpid() and self.process.poll() is None and time.monotonic() - self.since < IDLE_S / 2

    def kill(self) -> None:
        """End the process, whatever it does."""
        with contextlib.suppress(OSError):
            self.process.kill()

    def close(self) -> None:
        """End the process and forget it."""
        if self.owner_pid != os.getpid():  # a forked child closes its copy only
            self.pipe.close()
            return
        self.kill()
        self.process.wait()
        self.pipe.close()
        self.errors.close()


def _take(owner: str) -> Sandbox:
    """An idle sandbox, or a new one. Raises TileRuntimeError if no process can be started."""
    with _lock:
        box = _idle.pop() if _idle else None
    while box is not None and not box.is_usable():
        box.close()
        with _lock:
            box = _idle.pop() if _idle else None
    try:
        box = box or Sandbox()
    except OSError as error:
        raise TileRuntimeError(f"cannot start a process for the candidate: {error.strerror}") from None
    with _lock:
        _busy.setdefault(owner, set()).add(box)
    if owner in _stopped:
        box.kill()
    return box


def _give_back(box: Sandbox, owner: str, *, is_sound: bool) -> None:
    box.since = time.monotonic()
    with _lock:
        _busy.get(owner, set()).discard(box)
        if not _busy.get(owner):
            _busy.pop(owner, None)
        keep = is_sound and len(_idle) < MAX_IDLE and box.is_usable()
        if keep:
            _idle.append(box)
    if not keep:
        box.close()


@atexit.register
def close_idle() -> None:
    """End the processes that wait for work."""
    with _lock:
        boxes, _idle[:] = list(_idle), []
    for box in boxes:
        box.close()


# ------------------------------------------------------------------------------------------- the other side
def serve(fd: int) -> None:
    """Run trials until the connection closes. A thread listens, so that the end of the owner ends a hanging kernel too."""
    pipe: Connection[Any, Any] = Connection(fd)
    messages: queue.Queue[Any] = queue.Queue()

    def listen() -> None:
        while True:
            try:
                messages.put(pickle.loads(pipe.recv_bytes()))
            except (EOFError, OSError):
                os._exit(0)
            except Exception as error:  # the arguments need a package that is not here
                messages.put(error)

    def answer(value: Any) -> None:
        try:
            pipe.send_bytes(pickle.dumps(value, protocol=5))
        except OSError:
            os._exit(0)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=listen, daemon=True).start()
    answer("ready")
    held: tuple[Any, Any] | Outcome = ((), None)
    while True:
        try:
            message = messages.get(timeout=IDLE_S)
        except queue.Empty:
            os._exit(0)
        if isinstance(message, Exception):
            answer(Outcome("raised", f"the trial cannot be read in its process: {reason_of(message)}"))
            continue
        inputs, trial = message
        built = build_all(trial)
        if inputs is not None:
            try:
                held = inputs.load()
            except Exception as error:
                held = Outcome("raised", f"the arguments cannot be read in the trial's process: {reason_of(error)}")
        if isinstance(built, Outcome) or isinstance(held, Outcome):
            answer(built if isinstance(built, Outcome) else held)
            continue
        answer("built")
        messages.get()
        answer(execute(trial, built, *held))

"""The worker as this process sees it: started, asked with a time limit, ended, and started again after a fault."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

from ...base.errors import UnsupportedError
from .problems import PROBLEMS
from .result import FAILED, Result

START_S = 180.0  # PyTorch, the driver and the GPU's first context
PLAY_S = 60.0  # a problem, its compiler included
COMMAND = (sys.executable, "-m", "tileworkbench.bench.gpu.worker")


class Helper:
    """A worker that is there when it is needed. `about` tells which GPU and libraries it found, once it has started."""

    def __init__(self, command: Sequence[str] = COMMAND, start_s: float = START_S, play_s: float = PLAY_S) -> None:
        self.command, self.start_s, self.play_s = list(command), start_s, play_s
        self.about: dict[str, Any] = {}
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()
        self._listener: threading.Thread | None = None

    def play(self, number: int) -> Result:
        """The result of problem `number`, whatever happens on the way. Raises UnsupportedError if there is no GPU to work on."""
        self._start()
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(f"{number}\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it is gone: there will be no answer
        told = self._answer(self.play_s)
        if told is None:
            return Result(PROBLEMS[number], FAILED, self._end(f"no answer within {self.play_s:g} s"))
        if told.pop("broken", False):
            self._end("")
        return Result.from_data(PROBLEMS[number], told)

    def _start(self) -> None:
        if self._process is not None:
            return
        self._answers = queue.Queue()
        self._process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._listener = threading.Thread(target=_listen, args=(self._process, self._answers), daemon=True)
        self._listener.start()
        told = self._answer(self.start_s)
        if told is None or "absent" in told:
            why = self._end("no answer from the process that works on the GPU")
            raise UnsupportedError(
                f"bench gpu: {told['absent'] if told else why}", hint="it needs an NVIDIA GPU, its driver, and PyTorch built for it"
            )
        self.about = told

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        try:
            told = self._answers.get(timeout=seconds)
            if not told and self._listener is not None:
                self._listener.join()
            found: dict[str, Any] = json.loads(told)
            return found
        except (queue.Empty, ValueError):
            return None

    def _end(self, why: str) -> str:
        """End the worker. Returns why it gave no answer: what it died of, else `why`."""
        process, self._process = self._process, None
        if process is None:
            return why
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that has closed its output is about to end
            process.wait(10.0 if self._listener is not None and not self._listener.is_alive() else 0.0)
        died = process.poll()
        process.kill()
        process.wait()
        if self._listener is not None:
            self._listener.join()  # the output has ended with the process
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # what was written last and never read
                assert stream is not None
                stream.close()
        return why if died is None else f"its process ended with status {died}"

    def close(self) -> None:
        """End the worker."""
        self._end("")


def _listen(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        answers.put(line)
    answers.put("")  # the end of the output

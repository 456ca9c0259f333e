"""The process of one contestant: reads a command a line, answers with a JSON line.

`prepare N FILE` makes problem N ready, tries every way that the contestant has and keeps the fastest; its result goes to FILE. `sample` does the work
for a few milliseconds and gives the seconds of one run on the wall and of the processor, and the speed of the core right after. A process of its own,
because two OpenMP or BLAS pools in one process slow each other down.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np

from .clock import speed
from .contestants import CONTESTANTS
from .entry import Run
from .problems import PROBLEMS

SAMPLE_S = 0.03
TRIES = 5  # times that each way is tried
TRY_S = 0.01


class Worker:
    """Holds what is ready to run."""

    def __init__(self, name: str) -> None:
        self.make = CONTESTANTS[name]
        self.run: Run | None = None
        self.calls = 1

    def prepare(self, number: int, file: str) -> dict[str, Any]:
        """Make problem `number` ready, write its result to `file`, and settle for the fastest way."""
        self.run = None  # frees the arrays of the problem before
        entry = self.make(PROBLEMS[number])
        if entry is None:
            return {"absent": True}
        seconds = self._try(entry.ways)
        way = min(seconds, key=lambda name: seconds[name])
        self.run = entry.ways[way]
        self.run()
        np.save(file, entry.result())
        self.calls = max(1, round(SAMPLE_S / max(seconds[way], 1e-7)))
        return {"version": entry.version, "schedule": entry.schedule, "calls": self.calls, "way": way, "seconds": seconds[way]}

    def sample(self) -> dict[str, float]:
        """Seconds of one run, on the wall and of all processors together; FLOP/s of the core's clock."""
        if self.calls > 1:
            self._timed(1)  # the others had the caches
        wall, cpu = self._timed(self.calls)
        return {"wall": wall / self.calls, "cpu": cpu / self.calls, "clock": speed()}

    def _try(self, ways: dict[str, Run]) -> dict[str, float]:
        """The best seconds of one run of each way; they take turns, so that no moment is against one of them."""
        seconds = dict.fromkeys(ways, float("inf"))
        for turn in range(TRIES + 1):
            for name, run in ways.items():
                self.run = run
                calls = max(1, round(TRY_S / max(seconds[name], 1e-7))) if turn > 1 else 1
                took = self._timed(calls)[0] / calls
                if turn:  # the first one may build something
                    seconds[name] = min(seconds[name], took)
        return seconds

    def _timed(self, calls: int) -> tuple[float, float]:
        assert self.run is not None
        run = self.run
        cpu, start = time.process_time(), time.perf_counter()
        for _ in range(calls):
            run()
        return time.perf_counter() - start, time.process_time() - cpu


def main(name: str) -> None:
    """Answer commands until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    worker = Worker(name)
    for line in sys.stdin:
        words = line.split(maxsplit=2)
        try:
            answer = worker.sample() if words[0] == "sample" else worker.prepare(int(words[1]), words[2].strip())
        except Exception as error:  # a contestant that cannot is reported, and the others go on
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])

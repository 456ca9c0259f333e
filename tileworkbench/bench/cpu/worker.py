"""The process of one contestant: reads a command a line, answers with a JSON line.

`prepare N` makes problem N ready and gives its result's file; `sample` does the work for a few milliseconds and gives the seconds of one run on the
wall, and of the processor. A process of its own, because two OpenMP or BLAS pools in one process slow each other down.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from .contestants import CONTESTANTS, Entry
from .problems import PROBLEMS

SAMPLE_S = 0.03


class Worker:
    """Holds what is ready to run."""

    def __init__(self, name: str) -> None:
        self.make = CONTESTANTS[name]
        self.entry: Entry | None = None
        self.calls = 1

    def prepare(self, number: int, file: str) -> dict[str, Any]:
        """Make problem `number` ready, run it once and write its result to `file`."""
        self.entry = self.make(PROBLEMS[number])
        if self.entry is None:
            return {"absent": True}
        self.entry.run()
        np.save(file, self.entry.result())
        seconds = min(self._timed(1)[0] for _ in range(3))
        self.calls = max(1, round(SAMPLE_S / max(seconds, 1e-7)))
        return {"version": self.entry.version, "schedule": self.entry.schedule, "calls": self.calls}

    def sample(self) -> dict[str, float]:
        """Seconds of one run, on the wall and of all processors together."""
        wall, cpu = self._timed(self.calls)
        return {"wall": wall / self.calls, "cpu": cpu / self.calls}

    def _timed(self, calls: int) -> tuple[float, float]:
        assert self.entry is not None
        run = self.entry.run
        cpu, start = time.process_time(), time.perf_counter()
        for _ in range(calls):
            run()
        return time.perf_counter() - start, time.process_time() - cpu


def main(name: str) -> None:
    """Answer commands until the input ends."""
    worker = Worker(name)
    for line in sys.stdin:
        words = line.split(maxsplit=2)
        try:
            answer = worker.sample() if words[0] == "sample" else worker.prepare(int(words[1]), words[2].strip())
        except Exception as error:  # a contestant that cannot is reported, and the others go on
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])

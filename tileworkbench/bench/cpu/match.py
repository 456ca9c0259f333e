"""Contestants take turns on one problem; what counts is the median of the samples that nothing else disturbed.

In every round each contestant runs once, in changing order. A sample is dropped where its process got less processor time than it asked for, or where
the core ran clearly below the clock that it has in calm: what a neighbour on the core leaves is no machine to compare on. More rounds follow while
too few are left; if calm does not come, a contestant's usual clock is the measure. Where no sample is left at all, one thread's processor time stands
in for the clock's, and of several threads the fastest sample counts; the table marks it.

The rounds are cut into sittings, each with fresh processes: the pages of a process's scratch lie well or badly in the second cache for as long as it
lives (seen: 165 or 110 GFLOP/s of one text), and a median over one process would be that process's luck.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from .problems import PROBLEMS, Problem
from .result import Result

BUSY_SHARE = {1: 0.97}  # of wall time that a sample's process must have had a processor, by threads; more threads wait at barriers
BUSY_SHARE_MANY = 0.85
CLOCK_SHARE = 0.93  # of the calm clock that a sample must have run at
CALM = 0.1  # the calm clock: so many of all samples ran faster
NAMES = ("ours", "numpy", "torch", "tilelang", "copy")
BUILT_IN = ("ours", "copy")
FAR = 4.0  # a contestant that is slower than ours by this factor
FEW = 3  # plays so many rounds only
MORE = 3  # times as many rounds, at most, where too few samples are clean
REST_S = 0.05  # before a turn of several threads: the pool of the contestant before spins for up to 30 ms until its threads sleep
SITTINGS = 3  # of the planned rounds
ENOUGH = 3  # as many clean samples as one in so many rounds gives
# freed memory stays with the process, in huge pages: a function that returns a new array does not pay for new pages at every call
KEEP_MEMORY = {
    "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "THP_MEM_ALLOC_ENABLE": "1",
}  # fmt: skip
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "TILEWORKBENCH_NUM_THREADS")


class Contestant:
    """A worker process that answers one command at a time."""

    def __init__(self, name: str, threads: int) -> None:
        self.name, self.threads = name, threads
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        environment = {**os.environ, **dict.fromkeys(THREADS, str(self.threads)), **KEEP_MEMORY}
        command = [sys.executable, "-m", "tileworkbench.bench.cpu.worker", self.name]
        return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def restart(self) -> None:
        """Go on in a new process, which has nothing prepared."""
        self.__exit__(None, None, None)
        self.process = self._start()

    def ask(self, command: str) -> dict[str, Any]:
        """Send a command and wait for its answer; a process that died answers with an error."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
            answer: dict[str, Any] = json.loads(self.process.stdout.readline() or '{"error": "the process ended"}')
            return answer
        except (OSError, ValueError) as error:
            return {"error": str(error)}

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()


def installed(names: Sequence[str] = NAMES) -> list[str]:
    """The contestants that this machine has."""
    return [n for n in names if n in BUILT_IN or importlib.util.find_spec(n) is not None]


def play(number: int, contestants: Sequence[Contestant], rounds: int) -> Result:
    """Let them take turns on problem `number`."""
    problem = PROBLEMS[number]
    ready: list[Contestant] = []
    told: dict[str, dict[str, Any]] = {}
    errors: dict[str, str] = {}
    outputs: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for contestant in contestants:
            file = Path(folder) / f"{contestant.name}.npy"
            answer = contestant.ask(f"prepare {number} {file}")
            if "error" in answer:
                errors[contestant.name] = answer["error"]
            elif "absent" not in answer:
                ready.append(contestant)
                told[contestant.name] = answer
                outputs[contestant.name] = np.load(file)
    samples: dict[str, list[dict[str, float]]] = {c.name: [] for c in ready}
    far = FAR * told["ours"]["seconds"] if "ours" in told else float("inf")
    for turn in range(MORE * rounds):
        if turn >= rounds and all(len(found) * ENOUGH >= rounds for n, found in in_calm(samples, problem.threads).items() if len(samples[n]) > FEW):
            break
        if turn == FEW:
            ready = [c for c in ready if told[c.name]["seconds"] <= far]
        if turn and turn % max(rounds // SITTINGS, FEW) == 0:
            seat_again(number, ready)
        for contestant in ready[turn % len(ready) :] + ready[: turn % len(ready)]:
            time.sleep(REST_S if problem.threads > 1 else 0.0)
            took = contestant.ask("sample")
            if "error" in took:
                errors[contestant.name] = took["error"]
            else:
                samples[contestant.name].append(took)
    return judge(problem, samples, told, errors, difference(outputs))


def seat_again(number: int, contestants: Sequence[Contestant]) -> None:
    """The next sitting: new processes with problem `number` prepared. One that cannot says so at its next sample."""
    for contestant in contestants:
        contestant.restart()
    with tempfile.TemporaryDirectory() as folder:
        for contestant in contestants:
            contestant.ask(f"prepare {number} {Path(folder) / 'again.npy'}")


def judge(
    problem: Problem, samples: dict[str, list[dict[str, float]]], told: dict[str, dict[str, Any]], errors: dict[str, str], difference: float
) -> Result:
    """The result of samples ("wall", "cpu" and "clock" each) of what the contestants told of themselves."""
    clean = in_calm(samples, problem.threads)
    if not all(len(found) >= ENOUGH for found in clean.values()):
        clean = {name: undisturbed(found, problem.threads, _usual(found)) for name, found in samples.items()}
    if all(clean.values()):
        seconds = {name: statistics.median(s["wall"] for s in found) for name, found in clean.items()}
    elif problem.threads > 1:
        seconds = {name: min(s["wall"] for s in found) for name, found in samples.items() if found}
    else:
        seconds = {name: statistics.median(s["cpu"] for s in found) for name, found in samples.items() if found}
    clocks = {name: statistics.median(s["clock"] for s in (clean[name] or found)) for name, found in samples.items() if found}
    names = {name: " ".join(filter(None, (answer["version"], f"({answer['way']})" if answer["way"] else ""))) for name, answer in told.items()}
    schedule = told.get("ours", {}).get("schedule", "")
    return Result(problem, seconds, {n: len(s) for n, s in clean.items()}, names, clocks, schedule, errors, difference)


def in_calm(samples: Mapping[str, Sequence[dict[str, float]]], threads: int) -> dict[str, list[dict[str, float]]]:
    """Of each contestant the samples that had their processors, at the clock of the match's calm moments."""
    clocks = sorted((s["clock"] for found in samples.values() for s in found), reverse=True)
    calm = clocks[int(len(clocks) * CALM)] if clocks else 0.0
    return {name: undisturbed(found, threads, calm) for name, found in samples.items()}


def _usual(samples: Sequence[dict[str, float]]) -> float:
    return statistics.median(s["clock"] for s in samples) if samples else 0.0


def undisturbed(samples: Sequence[dict[str, float]], threads: int, clock: float) -> list[dict[str, float]]:
    """The samples that had their processors, at `clock` or near it."""
    share = BUSY_SHARE.get(threads, BUSY_SHARE_MANY) * threads
    return [s for s in samples if s["cpu"] >= share * s["wall"] and s["clock"] >= CLOCK_SHARE * clock]


def difference(outputs: dict[str, Any]) -> float:
    """The largest difference between our result and a peer's, over the largest value: beside the dtype's own roundoff it shows a wrong answer."""
    peer = next((v for k, v in outputs.items() if k not in BUILT_IN), None)
    if "ours" not in outputs or peer is None:
        return 0.0
    size = float(np.abs(peer).max()) or 1.0
    return float(np.abs(outputs["ours"] - peer).max()) / size

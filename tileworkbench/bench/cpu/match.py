"""Contestants take turns on one problem; what counts is the median of the samples that nothing else disturbed.

In every round each contestant runs once, in changing order. A sample is dropped where its process got less processor time than it asked for; where
none is left, one thread's processor time stands in for the clock's, and the table marks it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from .problems import PROBLEMS, Problem

BUSY_SHARE = {1: 0.97}  # of wall time that a sample's process must have had a processor, by threads; more threads wait at barriers
BUSY_SHARE_MANY = 0.85
NAMES = ("ours", "numpy", "torch")


@dataclass(frozen=True, slots=True)
class Result:
    """One line: medians of clean samples in seconds by contestant, and what could not run."""

    problem: Problem
    seconds: dict[str, float]
    clean: dict[str, int]  # samples that count
    versions: dict[str, str]
    schedule: str = ""
    errors: dict[str, str] = field(default_factory=dict)
    difference: float = 0.0

    @property
    def best_peer(self) -> str:
        """The fastest contestant but us; "" where none ran."""
        peers = {k: v for k, v in self.seconds.items() if k != "ours"}
        return min(peers, key=lambda k: peers[k], default="")

    @property
    def ratio(self) -> float | None:
        """The best peer's time over ours; None where one is missing."""
        if "ours" not in self.seconds or not self.best_peer:
            return None
        return self.seconds[self.best_peer] / self.seconds["ours"]

    def as_json(self) -> dict[str, Any]:
        """The record that `--json` keeps."""
        p = self.problem
        return {
            "group": p.group, "shape": list(p.shape), "dtype": p.dtype, "threads": p.threads, "causal": p.is_causal, "seconds": self.seconds,
            "clean_samples": self.clean, "best_peer": self.best_peer, "ratio": self.ratio, "floor": p.floor, "schedule": self.schedule,
            "versions": self.versions, "errors": self.errors, "difference": self.difference,
        }  # fmt: skip


class Contestant:
    """A worker process that answers one command at a time."""

    def __init__(self, name: str, threads: int) -> None:
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "TILEWORKBENCH_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, str(threads))}
        command = [sys.executable, "-m", "tileworkbench.bench.cpu.worker", name]
        self.name = name
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

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
    return [n for n in names if n == "ours" or importlib.util.find_spec(n) is not None]


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
    samples: dict[str, list[float]] = {c.name: [] for c in ready}
    spent: dict[str, list[float]] = {c.name: [] for c in ready}
    share = BUSY_SHARE.get(problem.threads, BUSY_SHARE_MANY) * problem.threads
    for turn in range(rounds):
        for contestant in ready[turn % len(ready) :] + ready[: turn % len(ready)]:
            took = contestant.ask("sample")
            if "error" in took:
                errors[contestant.name] = took["error"]
                continue
            spent[contestant.name].append(took["cpu"])
            if took["cpu"] >= share * took["wall"]:
                samples[contestant.name].append(took["wall"])
    is_fair = all(samples.values()) or problem.threads > 1  # else compare processor time with processor time
    counted = samples if is_fair else spent
    seconds = {name: statistics.median(found) for name, found in counted.items() if found}
    versions = {name: answer["version"] for name, answer in told.items()}
    schedule = told.get("ours", {}).get("schedule", "")
    return Result(
        problem, seconds, {n: len(s) for n, s in samples.items()}, versions, schedule, errors=errors, difference=_difference(outputs, problem)
    )


def _difference(outputs: dict[str, Any], problem: Problem) -> float:
    """The largest difference between our result and a peer's, over the largest value: beside the dtype's own roundoff it shows a wrong answer."""
    if "ours" not in outputs or len(outputs) < 2:
        return 0.0
    peer = next(v for k, v in outputs.items() if k != "ours")
    size = float(np.abs(peer).max()) or 1.0
    return float(np.abs(outputs["ours"] - peer).max()) / size

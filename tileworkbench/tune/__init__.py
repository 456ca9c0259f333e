"""Schedules and their search.

A schedule is a value: `Schedule(block_M=128, num_stages=2)`. A `Space` says which there are. A search builds them, runs each in a process of its own
that can be killed, checks it, times it, and keeps the result in a store that later sessions reuse.

    result = tune(matmul, (A, B), M=1024, N=1024, K=1024, block_M=[32, 64, 128], num_stages=[1, 2, 3], reference=lambda a, b: a @ b)
    print(result)                      # a table, fastest first, failures with their reasons
    C = result.kernel(A, B)            # the best, compiled
    result.best                        # Schedule(block_M=64, num_stages=2)

The parts, each of use alone:

    Schedule(block_M=64, ...)                                   # print, new - old, replace, to_json, save, load, key
    Space.of(block_M=[32, 64], stages=range(1, 4))              # iterate, len, where(rule, reason), why_not, neighbours, steps, nearest, sample
    Space.of_function(matmul)                                   # guessed from defaults and annotations
    Problem.of(matmul, args=(A, B), fixed={"M": 1024, ...})     # compile(s), trace(s), report(s, machine), why_not(s), arguments(s), program
    tune.search.search(problem, space, reference=..., rep_ms=20, store=Store())      # a Search: iterate its Events, stop() from any thread
    Search(problem, space, reference=..., plan=Plan(...))       # the same with its options as a value; best, candidates, failures
    Store(), Store(path)                                        # put, results(program=...), best(program), export_json
    Inputs.of((A, B), reference)                                # the arguments and what is expected, to send to processes
    run_trial(Trial.of(kernel, inputs, timeout_s=5))            # an Outcome: one kernel checked and timed in a process that can be killed
    Candidate                                                   # schedule, status, reason, times_ms, median_ms, predicted_ms
    result.feasibility("block_M", "num_stages")                 # a model.feasibility.FeasibilityMap with every trial on it
"""

from __future__ import annotations

from .candidate import Candidate, best_of
from .plan import Plan
from .problem import Problem
from .result import TuningResult
from .sandbox import machines_turn, run_trial, stop_trials
from .schedule import Change, Difference, Schedule
from .search import Event, Search
from .space import Constraint, Space, Tunable, powers
from .store import Place, Results, Store
from .trial import Inputs, Outcome, Settings, Trial
from .tuner import tune

__all__ = [
    "Candidate", "Change", "Constraint", "Difference", "Event", "Inputs", "Outcome", "Place", "Plan", "Problem", "Results", "Schedule",
    "Search", "Settings", "Space", "Store", "Trial", "Tunable", "TuningResult",
    "best_of", "machines_turn", "powers", "run_trial", "stop_trials", "tune",
]  # fmt: skip

"""A kernel to turn, and workbenches of it whose predictions are about a preset, so that no test depends on this machine's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.machine import find_machine
from tileworkbench.notebook.engine import Engine, Settings
from tileworkbench.notebook.workbench import Workbench, beginning
from tileworkbench.runtime.targets import get_target
from tileworkbench.tune.problem import Problem
from tileworkbench.tune.space import Space
from tileworkbench.tune.store import Store

HAS_COMPILER = not get_target("c").usable()
N = 4096


@tileworkbench.jit
def scale(A, block=256, factor=2):
    n = T.const("n")
    A: T.Tensor((n,), T.float32)
    B = T.empty((n,), T.float32)
    assert block != 96, "96 is no block"
    with T.Kernel(T.ceildiv(n, block)) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * factor
    return B


@tileworkbench.jit(out_idx=-1)
def make_add(n, block=128, lanes=1):
    @T.prim_func
    def add(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32), C: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return add


@tileworkbench.jit
def bump(A, block=256):
    """Writes its argument."""
    n = T.const("n")
    A: T.Tensor((n,), T.float32)
    with T.Kernel(T.ceildiv(n, block)) as bx:
        for i in T.Parallel(block):
            A[bx * block + i] = A[bx * block + i] + 1.0


def array() -> np.ndarray[Any, Any]:
    return np.arange(N, dtype=np.float32)


def bench(kernel: Any = scale, args: Any = None, *, fixed: Any = None, store: Store | None = None, cell: str = "", **steps: Any) -> Workbench:
    """A workbench whose model is about the reference machine and whose runs are taken here. `settings_*` keywords go to Settings."""
    asked = {k.removeprefix("settings_"): steps.pop(k) for k in list(steps) if k.startswith("settings_")}
    settings = Settings(find_machine("reference"), store=store, **asked)
    problem = Problem.of(kernel, (array(),) if args is None else args or None, fixed or {})
    space = Space.of(**(steps or {"block": [64, 96, 128, 256, 512]}))
    return Workbench(Engine(problem, space, settings, beginning(problem, space, None)), cell)


class Heard:
    """A browser that keeps what it is told."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    def last(self, part: str) -> Any:
        """The newest value of a part, such as "state"."""
        return next(m[part] for m in reversed(self.messages) if part in m)

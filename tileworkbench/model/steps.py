"""Work and bytes by loop step: what each iteration of a kernel's tile loop computes, asks for, and moves at every level.

A step is one iteration of the serial loops around a tile operation, such as k = 3, of one block or of all blocks together; what stands outside the
loops is a step of its own. FLOP and asked bytes are counted as `counts` counts them. Bytes below L1 are those of the report's traffic, each flow
split over the steps by what one core's caches do in a run of its first blocks. Over all steps of all blocks every number sums to the report's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from ..ir.stmt import Kernel
from .report import Report
from .space import Array
from .step_flows import StepTable, level_weights, split_flows
from .step_walk import Label, Loops, StepCounter

MAX_BLOCKS = 256  # more than this: every n-th block stands for its neighbours


@dataclass(frozen=True, slots=True)
class LoopStep:
    """One step. `loops` are the values of the loops' variables, () outside of loops; `asked` bytes by buffer; `levels` modelled bytes by level."""

    loops: Loops
    name: str
    flops: float
    asked: Mapping[str, float]
    levels: Mapping[str, float]

    @property
    def asked_bytes(self) -> float:
        return sum(self.asked.values())


@dataclass(frozen=True, slots=True)
class LoopSteps:
    """The steps of a launch in program order; `block` is the block they are of, None for all together. `sampled` says that blocks were left out."""

    kernel: str
    block: int | None
    blocks: int
    level_names: tuple[str, ...]
    steps: tuple[LoopStep, ...]
    sampled: bool = False

    def total(self, level: str) -> float:
        """Bytes of all steps at a level; at the first level they are those asked."""
        return sum(s.levels[level] for s in self.steps)

    def so_far(self, level: str) -> tuple[float, ...]:
        """Bytes at a level from the first step to each one."""
        return tuple(accumulate(s.levels[level] for s in self.steps))


def loop_steps(
    kernel: Kernel, report: Report, *, block: int | None = None, scalars: Mapping[str, Any] | None = None, arrays: Mapping[str, Array] | None = None
) -> LoopSteps:
    """Split `report`, a report of `kernel` (tile IR), over the steps of its loops.

    Args:
        block: number of one block in launch order, of each launch that has so many; None: all blocks together.
        scalars, arrays: as for the report.
    Raises: IndexError if no launch has that block.
    """
    known = (kernel, report.dims, scalars, arrays)
    sizes: list[int] = []

    def pick(n: int) -> Array:
        sizes.append(n)
        if block is not None:
            return np.asarray([block] if 0 <= block < n else [], dtype=np.int64)
        return np.arange(n) if n <= MAX_BLOCKS else np.linspace(0, n - 1, MAX_BLOCKS).astype(np.int64)

    counter = StepCounter(*known)
    counter.blocks = pick
    counter.run()
    largest = max(sizes, default=1)
    if block is not None and sizes and not 0 <= block < largest:
        raise IndexError(f"{kernel.name} has blocks 0 to {largest - 1}, not {block}")
    names = tuple(level.name for level in report.levels)
    table = StepTable(counter.amounts)
    scale = table.scales(report) if block is None else {}
    flows = split_flows(report, level_weights(known, report, block), table, block)
    labels = sorted({label for _, label in (*table.at, *flows)})
    steps = []
    for label in labels:
        asked: dict[str, float] = {}
        flops = 0.0
        for (kind, key, line), amount in table.of(label):
            amount *= scale.get((kind, key, line), 1.0)
            if kind == "flop":
                flops += amount
            else:
                asked[key] = asked.get(key, 0.0) + amount
        levels = {name: flows.get((name, label), 0.0) for name in names}
        if not report.machine.is_gpu:  # what tile operations ask is what L1 delivers; a GPU's report says what of it reaches shared memory
            levels[names[0]] = sum(asked.values())
        steps.append(LoopStep(label[1], _name(label, labels), flops, asked, levels))
    return LoopSteps(kernel.name, block, largest, names, tuple(steps), block is None and largest > MAX_BLOCKS)


def _name(label: Label, labels: Iterable[Label]) -> str:
    """What a reader calls a step: "k = 3", or where it stands beside the loops."""
    done, loops = label
    if loops:
        return ", ".join(f"{name} = {value}" for name, value in loops)
    inside = [d for d, values in labels if values]
    if not inside:
        return "the block"
    return "before the loop" if done <= min(inside) else "after the loop" if done > max(inside) else "between loops"

"""What one step of emitted code costs on a machine: measured where `Machine.measure()` timed it, else assumed from peaks and bandwidths.

The assumptions are cycles of a wide out-of-order core, counted from the instructions that the library emits; a cycle comes from the float32 peak.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..base.hardware import Machine
from .values import show

# cycles of a vector (of an element of it for what stands in _EACH)
_CYCLES = {
    "fma": 0.55, "stream": 0.58, "kernel": 25.0, "turn": 3.0, "widen": 1.5, "narrow": 2.0, "pass": 2.0, "fill": 1.2, "exp": 9.0, "log": 22.0,
    "div": 10.0, "reduce": 1.0,
}  # fmt: skip
_WHOLE = {"kernel": 25.0, "reduce.row": 10.0, "call": 3000.0, "fork": 6000.0, "block": 150.0}
_PER_VECTOR = ("fma", "stream")
WORDS = {
    "fma": "multiply-adds of vectors", "stream": "multiply-adds of vectors from L2", "kernel": "micro-kernel starts", "turn": "elements transposed",
    "widen": "elements widened", "narrow": "elements narrowed", "pass": "elements passed over", "fill": "elements cleared", "exp": "exponentials",
    "log": "logarithms", "div": "divisions", "reduce": "elements reduced", "reduce.row": "rows reduced",
}  # fmt: skip
RUN_BYTES = (128, 2048, 16384)  # lengths of copied pieces that are timed


@dataclass(frozen=True, slots=True)
class CpuCosts:
    """Costs in nanoseconds by name, for a core among `threads` that work. `assumed` names those that were not measured."""

    ns: dict[str, float]
    assumed: tuple[str, ...]
    streams: dict[str, float]  # ns of a byte that is read from a level, beyond what the level above takes
    above: dict[str, str]  # level -> the next nearer one
    nearest: str = "L1"

    def of(self, name: str, run: float = 0.0) -> float:
        """The cost called `name`; "copy" is a byte copied within L1, in pieces of `run` bytes."""
        return self._copied("load", self.nearest, run) if name == "copy" else self.ns.get(name, 0.0)

    def extra(self, way: str, level: str, run: float) -> float:
        """Nanoseconds that a byte, copied in pieces of `run`, takes more from ("load") or to ("store") `level` than from the level above it."""
        return max(0.0, self._copied(way, level, run) - self._copied(way, self.above[level], run))

    def _copied(self, way: str, level: str, run: float) -> float:
        """Between the lengths that were timed it varies with the logarithm of the length."""
        way = "load" if level == self.nearest else way
        known = [(math.log(size), self.ns[f"{way}.{level}.{size}"]) for size in RUN_BYTES if f"{way}.{level}.{size}" in self.ns]
        at = math.log(max(run, 1.0)) if run else known[len(known) // 2][0]
        return float(np.interp(at, [x for x, _ in known], [y for _, y in known]))

    def stream(self, level: str) -> float:
        """Nanoseconds that a byte takes more when it is read in order from `level`."""
        return self.streams[level]

    def words(self, name: str, amount: float) -> str:
        """An amount of steps and what one costs, for people.

        >>> CpuCosts({"exp": 0.25}, (), {}, {}).words("exp", 2e6)
        '2 M exponentials at 0.25 ns'
        """
        cost = f" at {self.ns[name]:.2g} ns" if name in self.ns else ""
        what = f"{show(amount, 'B')} copied" if name == "copy" else f"{show(amount, '').strip()} {WORDS.get(name, name)}"
        return f"{what}{cost}{' (assumed)' if name in self.assumed else ''}"


def cpu_costs(machine: Machine, threads: int = 1) -> CpuCosts:
    """The costs of `machine` for one of `threads` busy cores: steps slow down as the peak of a core does, bytes as its share of each bandwidth."""
    measured = {c.name: c.value.value for c in machine.costs}
    ns = {**_assumed(machine), **measured}
    threads = max(1, min(threads, machine.cores))
    slower = machine.peak("float32").value * threads / machine.peak("float32", threads).value
    names = [level.name for level in machine.levels if level.core is not None]
    shared = {name: machine.bandwidth(name).value * threads / machine.bandwidth(name, threads).value for name in names}
    for name in ns:
        way, level = name.split(".")[:2] if name.count(".") == 2 else ("", "")
        if way in ("load", "store") and level in shared:
            ns[name] *= shared[level]
        elif name not in ("fork", "block", "call"):
            ns[name] *= slower
    streams = {}
    for above, level in zip(names, names[1:], strict=False):
        streams[level] = max(0.0, shared[level] / machine.bandwidth(level).value - shared[above] / machine.bandwidth(above).value)
    return CpuCosts(ns, tuple(n for n in ns if n not in measured), streams, dict(zip(names[1:], names, strict=False)), names[0])


def _assumed(machine: Machine) -> dict[str, float]:
    lanes = {"avx512": 16, "avx2": 8}.get(machine.isa, 4)
    cycle = 4 * lanes / machine.peak("float32").value  # two multiply-adds of a vector, each of two operations
    ns = {name: cycles * cycle / (1 if name in _PER_VECTOR else lanes) for name, cycles in _CYCLES.items()}
    ns |= {name: cycles * cycle for name, cycles in _WHOLE.items()}
    names = [level.name for level in machine.levels if level.core is not None]
    near = 3 / machine.bandwidth(names[0]).value
    for size in RUN_BYTES:
        ns[f"load.{names[0]}.{size}"] = near + 4 * cycle / size
        for name in names[1:]:
            byte = 1 / machine.bandwidth(name).value
            ns[f"load.{name}.{size}"] = near + 4 * cycle / size + 1.2 * byte
            ns[f"store.{name}.{size}"] = near + 4 * cycle / size + 2.2 * byte  # fetched first, written back later
    return ns

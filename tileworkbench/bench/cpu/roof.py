"""How fast this machine could solve a problem at best: the textbook's operations at the peak of their dtype, or the unavoidable bytes, if slower.

Bytes stream from the smallest cache level that holds all of the problem's arrays, at the level's measured read rate (a write counts as a read).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...base.machine import Machine
from .problems import Problem

SUMMED_IN = {"bfloat16": "bfloat16>float32", "int8": "int8>int32"}
IN_VECTORS = ("add", "gelu", "softmax", "layernorm", "rmsnorm", "transpose", "gemv", "w4")


@dataclass(frozen=True, slots=True)
class Roof:
    """The least seconds that this machine allows, and what sets them: "compute", or the level that the bytes come from."""

    seconds: float
    bound: str


def roof_of(p: Problem, machine: Machine) -> Roof:
    """The roof over a problem on its number of threads."""
    level = next((x for x in machine.caches if x.capacity is not None and p.bytes <= x.capacity.bytes), machine.levels[-1])
    move = p.bytes / (1e9 * machine.bandwidth(level.name, p.threads).value)
    dtype = p.dtype if p.kind in IN_VECTORS else SUMMED_IN.get(p.dtype, p.dtype)
    work = p.flops / (1e9 * machine.peak(dtype, p.threads).value)
    return Roof(work, "compute") if work > move else Roof(move, level.name)

"""How fast a GPU could solve a problem at best: the textbook's operations at the vendor's peak, or the unavoidable bytes at memory's, if slower."""

from __future__ import annotations

from ...base.machine import Machine
from .problems import SUMMED_IN, Problem


def roof_seconds(p: Problem, machine: Machine | None) -> float | None:
    """The least seconds; None for a GPU that is not known."""
    if machine is None:
        return None
    move = p.bytes / (1e9 * machine.bandwidth("DRAM").value)
    if not p.flops:
        return move
    peak = machine.peak(f"{p.dtype}>{SUMMED_IN.get(p.dtype, 'float32')}", unit="tensor")
    return max(move, p.flops / (1e9 * peak.value))

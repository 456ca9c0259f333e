"""Keeps predicted bytes in order: no level moves more of a buffer than the level above it, which it feeds."""

from __future__ import annotations

from dataclasses import replace

from ..base.hardware import Machine
from .traffic import Flow, Traffic


def bounded(traffic: Traffic, machine: Machine) -> Traffic:
    """`traffic` with each buffer's bytes at L3 and DRAM cut to those of the level above.

    Private and shared caches are sampled in different ways (windows of blocks, granules by hash), and blocks of several cores interleave only in the
    shared one, so the estimates can cross by a little although no byte that DRAM delivers can have missed L3 alone.
    """
    names = [level.name for level in machine.levels if level.core is not None][1:]
    flows = list(traffic.flows)
    for above, level in zip(names, names[1:], strict=False):
        most, mine = _sums(flows, above), _sums(flows, level)
        flows = [_cut(f, most, mine) if f.level == level else f for f in flows]
    return replace(traffic, flows=tuple(flows))


def _sums(flows: list[Flow], level: str) -> dict[str, float]:
    out: dict[str, float] = {}
    for f in flows:
        if f.level == level:
            out[f.buffer] = out.get(f.buffer, 0.0) + f.bytes
    return out


def _cut(flow: Flow, most: dict[str, float], mine: dict[str, float]) -> Flow:
    share = min(1.0, most.get(flow.buffer, 0.0) / mine[flow.buffer]) if mine[flow.buffer] else 1.0
    if share == 1.0:
        return flow
    return replace(flow, read_bytes=flow.read_bytes * share, write_bytes=flow.write_bytes * share, allocate_bytes=flow.allocate_bytes * share)

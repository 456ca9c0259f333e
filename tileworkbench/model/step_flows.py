"""Splits a report's bytes over loop steps, as one core's caches do in a run of some of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .accesses import Boxes, Trace
from .granules import granule_trace
from .report import Report
from .reuse import cache_run, reuse_distances
from .space import Array
from .step_walk import ELSEWHERE, Label, Line, StepTracer, What

MAX_STEPS = 256  # more than this: inner loops are taken together
TRACED = 12_000  # accesses of one core that run through the caches, from RUNS runs of RUN blocks
RUNS, RUN = 3, 6


@dataclass(slots=True)
class StepTable:
    """Counted amounts; labels of too many loops are cut to the outer ones."""

    amounts: Mapping[tuple[What, Label], float]
    depth: int = 9
    at: dict[tuple[What, Label], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        labels = {label for _, label in self.amounts}
        while self.depth > 1 and len({(done, loops[: self.depth]) for done, loops in labels}) > MAX_STEPS:
            self.depth = min(self.depth, max((len(loops) for _, loops in labels), default=1)) - 1
        for (what, label), amount in self.amounts.items():
            slot = (what, self.cut(label))
            self.at[slot] = self.at.get(slot, 0.0) + amount

    def cut(self, label: Label) -> Label:
        return label[0], label[1][: self.depth]

    def of(self, label: Label) -> Iterable[tuple[What, float]]:
        return ((what, amount) for (what, here), amount in self.at.items() if here == label)

    def scales(self, report: Report) -> dict[What, float]:
        """What each counted amount is to be multiplied with, so that all together are the report's: 1 unless blocks were left out."""
        found: dict[What, float] = {}
        for (what, _), amount in self.at.items():
            found[what] = found.get(what, 0.0) + amount
        flops = sum(v for (kind, _, _), v in found.items() if kind == "flop")
        wanted: dict[tuple[str, Line], float] = {}
        for m in report.counts.asked:
            slot = (m.buffer, (m.span.file, m.span.line) if m.span else None)
            wanted[slot] = wanted.get(slot, 0.0) + m.bytes
        out: dict[What, float] = {}
        for (kind, key, line), amount in found.items():
            total = report.counts.total_flops * amount / flops if kind == "flop" and flops else wanted.get((key, line), amount)
            out[(kind, key, line)] = total / amount if amount else 1.0
        return out


Weights = dict[tuple[str, str, Line], dict[Label, float]]  # by level, buffer and line: how many bytes each step moves in the run that was traced


def split_flows(report: Report, weights: Weights, table: StepTable, block: int | None) -> dict[tuple[str, Label], float]:
    """Bytes by level and step. For all blocks they are the report's flows, split as in the traced run, or by bytes asked where that shows none."""
    out: dict[tuple[str, Label], float] = {}

    def add(level: str, label: Label, amount: float) -> None:
        slot = (level, table.cut(label))
        out[slot] = out.get(slot, 0.0) + amount

    if block is not None and weights:
        for (level, _, _), shares in weights.items():
            for label, amount in shares.items():
                add(level, label, amount)
        return out
    asked: dict[tuple[str, Line], dict[Label, float]] = {}
    for ((kind, key, line), label), amount in table.at.items():
        if kind == "asked":
            asked.setdefault((key, line), {})[label] = amount
    whole = {(m.buffer, (m.span.file, m.span.line) if m.span else None): m.bytes for m in report.counts.asked}
    cold = {level.name: sum(f.bytes for f in report.traffic.flows if f.level == level.name) for level in report.levels}
    warm = {level.name: level.bytes / cold[level.name] if cold[level.name] else 0.0 for level in report.levels}
    for flow in report.traffic.flows:
        line = (flow.span.file, flow.span.line) if flow.span is not None else None
        shares = asked.get((flow.buffer, line), {})
        total = sum(shares.values()) if block is None else float(whole.get((flow.buffer, line), 0))
        traced: Mapping[Label, float] = weights.get((flow.level, flow.buffer, line), {})
        if block is None and any(traced.values()):
            shares, total = dict(traced), sum(traced.values())
        for label, share in shares.items():
            add(flow.level, label, flow.bytes * warm.get(flow.level, 1.0) * share / total if total else 0.0)
    return out


def level_weights(known: tuple[Any, ...], report: Report, block: int | None) -> Weights:
    """What one core's caches do, step by step, in a run of its first blocks; or, for one block, in that block after those that came before it."""
    out: Weights = {}
    if report.machine.is_gpu:
        return out
    names = [level.name for level in report.machine.levels if level.name != "registers"]
    caches = [(level, report.machine.level(name)) for level, name in zip(names[1:], names, strict=False)]
    for is_shared in (False, True):
        borders = [(level, cache.capacity.bytes) for level, cache in caches if cache.is_shared == is_shared and cache.capacity is not None]
        if not borders:
            continue
        tracer = StepTracer(*known)
        tracer.on_chip, tracer.last_only = not is_shared, block is not None
        tracer.blocks = _core_blocks(block, report.threads)
        stream = tracer.run()
        trace, labels = _by_label(tracer, stream.table[:TRACED], stream.row[:TRACED])
        _run_caches(trace, labels, borders, report.machine.line_bytes, out)
    return out


def _core_blocks(block: int | None, threads: int) -> Callable[[int], Array]:
    """A few runs of blocks of the core that has block 0, spread over the launch; or one block, after a few that its core ran before it."""

    def pick(n: int) -> Array:
        if block is not None:
            return np.arange(block % threads, min(block, n - 1) + 1, threads)[-RUN:]
        own = np.arange(0, n, threads)
        if len(own) <= RUNS * RUN:
            return own
        return np.concatenate([own[start : start + RUN] for start in np.linspace(0, len(own) - RUN, RUNS).astype(int)])

    return pick


def _by_label(tracer: StepTracer, tables: Array, rows: Array) -> tuple[Trace, list[Label]]:
    """The trace with each table split by label, and the label of each table."""
    names = list(tracer.codes)
    boxes: list[Boxes] = []
    labels: list[Label] = []
    new_table, new_row = np.zeros_like(tables), np.zeros_like(rows)
    for table, (box, codes) in enumerate(zip(tracer.tables, tracer.steps, strict=True)):
        mine = tables == table
        for code in np.unique(codes):
            members = np.flatnonzero(codes == code)
            here = mine & (codes[np.minimum(rows, len(codes) - 1)] == code)
            new_table[here] = len(boxes)
            new_row[here] = np.searchsorted(members, rows[here])
            boxes.append(replace(box, starts=box.starts[members], stops=box.stops[members], asked=box.asked[members]))
            labels.append(names[code])
    return Trace(tuple(boxes), new_table, new_row, ()), labels


def _run_caches(trace: Trace, labels: list[Label], borders: list[tuple[str, int]], line_bytes: int, out: Weights) -> None:
    """Run the accesses through caches, each (level below, bytes), and add what each table reads from that level and writes back to it."""
    if not len(trace):
        return
    accesses = granule_trace(trace, line_bytes)
    distances = reuse_distances(accesses.granule, accesses.nbytes)
    for level, capacity in borders:
        run = cache_run(accesses.granule, accesses.nbytes, accesses.is_write, distances, capacity, accesses.keeps)
        moved = accesses.nbytes * ((run.fetched & ~accesses.is_write) + run.written_back.astype(float))
        sums = np.bincount(accesses.table, weights=moved, minlength=len(labels))
        for boxes, label, amount in zip(trace.boxes, labels, sums, strict=True):
            if amount and label != ELSEWHERE:
                line = (boxes.span.file, boxes.span.line) if boxes.span is not None else None
                slot = out.setdefault((level, boxes.buffer.root.name, line), {})
                slot[label] = slot.get(label, 0.0) + float(amount)

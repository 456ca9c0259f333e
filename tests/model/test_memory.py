"""Places and links of the memory hierarchy: their bytes are the report's, hits are what is not asked of the next level."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import tileworkbench as tilelang
import tileworkbench.language as T
from tileworkbench.base.machine import find_machine
from tileworkbench.kernels import gemm
from tileworkbench.model.counters import Counters
from tileworkbench.model.memory import Link, memory_chart
from tileworkbench.model.report import Report, report


@cache
def made(machine: str) -> Report:
    return report(gemm.gemm(256, 256, 256).ir, find_machine(machine), {})


@pytest.mark.parametrize("machine", ["reference", "laptop", "h200", "rtx-4090"])
def test_links_are_the_report_s_levels(machine: str) -> None:
    r = made(machine)
    chart = memory_chart(r)
    assert [x.level for x in chart.links] == [x.name for x in r.levels]
    for link, level in zip(chart.links, r.levels, strict=True):
        assert link.bytes == pytest.approx(level.bytes) and link.busy == r.shares[level.name] and link.roof == level.roof
        assert (link.once_bytes, link.worst_bytes, link.cold_bytes) == (level.compulsory_bytes, level.worst_bytes, level.cold_bytes)
        assert sum(s.bytes for s in link.shares) == pytest.approx(link.bytes) or not link.bytes
    assert [p.name for p in chart.places] == ["registers", *(x.level for x in chart.links)]
    assert chart.arrays_bytes + chart.tiles_bytes == r.counts.asked_bytes and chart.arrays_bytes == r.counts.global_bytes


def test_hit_rates_follow_from_the_links() -> None:
    chart = memory_chart(made("reference"))
    for place, link, below in zip(chart.places[1:], chart.links, chart.links[1:], strict=False):
        expected = None if not link.bytes else max(0.0, 1 - below.bytes / link.bytes)
        assert place.hit_rate == expected, place.name
    assert chart.places[-1].hit_rate is None


def test_scratch_memory_neither_hits_nor_misses() -> None:
    assert next(p for p in memory_chart(made("h200")).places if p.name == "shared").hit_rate is None


def test_counters_are_held_against_what_is_read() -> None:
    def link(misses: float) -> Link:
        return memory_chart(replace(made("laptop"), counters=Counters({"L1D misses": misses}))).link("L2")

    lines = link(1.0).read_bytes / 64
    assert link(lines).counted_bytes == pytest.approx(link(lines).read_bytes)
    assert not link(lines).is_off and not link(lines * 1.05).is_off and link(lines * 1.3).is_off
    assert memory_chart(made("laptop")).link("L2").counted_bytes is None


@tilelang.jit(target="interpret")
def split_sum(X, parts=8):
    N = T.const("N")
    X: T.Tensor((N,), "float32")
    total = T.empty((N // parts,), "float32")
    with T.Kernel(parts, threads=32) as bx:
        x = T.alloc_fragment((N // parts,), "float32")
        T.copy(X[bx * (N // parts)], x)
        T.atomic_add(total[0], x)
    return total


def test_atomic_updates_are_told_apart_from_plain_reads_and_writes() -> None:
    """Each of 8 blocks reads and writes 64 floats of the sum."""
    kernel = split_sum.compile(X=np.zeros(512, np.float32))
    chart = memory_chart(kernel.report(find_machine("reference"), args=(np.zeros(512, np.float32),)))
    first = chart.link("L1")
    assert first.atomic_bytes == 2 * 8 * 64 * 4 and first.bytes > first.atomic_bytes
    assert {s.buffer for s in first.shares if s.is_atomic} == {"total"}
    assert memory_chart(made("reference")).link("L1").atomic_bytes == 0

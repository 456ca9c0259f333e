"""Predicted traffic against a line-by-line cache, and against sums that can be done by hand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model.hand import brute, buffer, c, causal, gemm, line, region, rows

from tileworkbench.base.dtypes import FLOAT32, INT32
from tileworkbench.base.machine import REFERENCE_CPU, Level, Machine, Quantity
from tileworkbench.ir.expr import Binary, Load, Var
from tileworkbench.ir.stmt import Copy, Kernel, Launch, TensorParam, whole
from tileworkbench.model.counts import count
from tileworkbench.model.reuse import reuse_distances
from tileworkbench.model.traffic import predict_traffic


def tiny(l1: int, l2: int, l3: int) -> Machine:
    """The reference machine with small caches, in bytes."""
    size = {"L1": l1, "L2": l2, "L3": l3}

    def shrink(level: Level) -> Level:
        return replace(level, capacity=Quantity(size[level.name], "B")) if level.name in size else level

    return replace(REFERENCE_CPU, levels=tuple(shrink(x) for x in REFERENCE_CPU.levels))


@cache
def line_accesses(name: str) -> list[tuple[bool, bool, tuple[str, int]]]:
    """Every access of a kernel of KERNELS, in order: (is a write, is to a tile, line of 64 bytes); repeats in a row count once."""
    kernel = KERNELS[name]
    buffers = {b.name: b for b in [p.buffer for p in kernel.params] + [a for launch in kernel.launches for a in launch.allocs]}
    out: list[tuple[bool, bool, tuple[str, int]]] = []
    for kind, buf, index in brute(kernel).accesses:
        b = buffers[buf]
        flat = sum(i * int(np.prod(b.static_shape()[d + 1 :])) for d, i in enumerate(index))
        entry = (kind == "w", b.is_on_chip, (buf, int(flat * b.type.nbytes) // 64))
        if not out or out[-1] != entry:
            out.append(entry)
    return out


def lines_moved(name: str, capacity: int, on_chip: bool) -> tuple[int, int, int]:
    """Bytes (read, written back, allocated) of a fully associative cache of 64-byte lines, access by access; scratch tiles are warm and stay."""
    lines: OrderedDict[tuple[str, int], tuple[bool, bool]] = OrderedDict()  # line -> (dirty, of a tile)
    seen: set[tuple[str, int]] = set()
    moved = {"read": 0, "back": 0, "allocate": 0}
    for is_write, is_tile, at in line_accesses(name):
        if is_tile and not on_chip:
            continue
        if at not in lines and not (is_tile and at not in seen):
            moved["allocate" if is_write else "read"] += 64
        seen.add(at)
        lines[at] = (lines.get(at, (False, False))[0] or is_write, is_tile)
        lines.move_to_end(at)
        if len(lines) * 64 > capacity:
            moved["back"] += 64 * lines.popitem(last=False)[1][0]
    moved["back"] += 64 * sum(dirty for dirty, is_tile in lines.values() if not is_tile)
    return moved["read"], moved["back"], moved["allocate"]


KERNELS = {
    "square": gemm(48, 48, 48, 16, 16, 16),
    "wide": gemm(32, 64, 32, 16, 32, 16),
    "deep": gemm(32, 32, 96, 32, 16, 32),
    "ragged": gemm(40, 48, 48, 32, 32, 32),
    "causal": causal(48, 16, 16),
    "ragged causal": causal(41, 16, 16),
    "rows": rows(13, 48, 4),
}


def levels(kernel: Kernel, capacities: tuple[int, int, int]) -> Iterator[tuple[str, int, bool]]:
    """(level, bytes of the cache in front of it, whether tiles go through it): the shared cache keeps the tiles aside."""
    tiles = sum(b.static_bytes() for b in kernel.launches[0].allocs)
    yield from (("L2", capacities[0], True), ("L3", capacities[1], True), ("DRAM", capacities[2] - tiles, False))


@pytest.mark.parametrize("name", ["square", "wide", "deep"])
@pytest.mark.parametrize("capacities", [(2048, 8192, 32768), (4096, 16384, 65536), (1024, 65536, 262144)], ids=str)
def test_traffic_is_that_of_a_cache_of_lines(name: str, capacities: tuple[int, int, int]) -> None:
    """Tiles of whole lines: granules move exactly the bytes that lines do, but for a tile that is half in the cache when all ends."""
    kernel = KERNELS[name]
    got = predict_traffic(kernel, count(kernel, {}), tiny(*capacities), {})
    for level, capacity, on_chip in levels(kernel, capacities):
        flows = [f for f in got.flows if f.level == level]
        read, back, allocate = lines_moved(name, capacity, on_chip)
        assert (sum(f.read_bytes for f in flows), sum(f.allocate_bytes for f in flows)) == (read, allocate), level
        assert sum(f.write_bytes for f in flows) == pytest.approx(back, abs=2048 if on_chip else 0), level


@pytest.mark.parametrize("name", ["ragged", "causal", "ragged causal", "rows"])
def test_ragged_kernels_come_close(name: str) -> None:
    """Edges cut tiles and lines: within a quarter."""
    kernel, capacities = KERNELS[name], (2048, 16384, 65536)
    got = predict_traffic(kernel, count(kernel, {}), tiny(*capacities), {})
    for level, capacity, on_chip in levels(kernel, capacities):
        read, back, _ = lines_moved(name, capacity, on_chip)
        assert got.bytes(level) == pytest.approx(read + back, rel=0.25), level


def test_never_less_than_compulsory_and_falling_with_depth() -> None:
    kernel = gemm(256, 256, 256, 32, 32, 32)
    counts = count(kernel, {})
    got = predict_traffic(kernel, counts, REFERENCE_CPU, {})
    moved = [got.bytes(name) for name in ("L2", "L3", "DRAM")]
    assert moved == sorted(moved, reverse=True)
    assert moved[-1] == counts.compulsory_bytes
    assert got.bytes("DRAM", warm=True) == 0, "the second launch finds its data in L3"


def test_a_larger_tile_moves_less() -> None:
    """The lesson of tiling: bytes at L3 fall as the tile grows."""
    moved = []
    for tile in (16, 32, 64):
        kernel = gemm(512, 512, 512, tile, tile, tile)
        moved.append(predict_traffic(kernel, count(kernel, {}), tiny(16 << 10, 512 << 10, 1 << 20), {}).bytes("L3"))
    assert moved[0] > 1.8 * moved[1] > 3.2 * moved[2]


def test_sampling_agrees_with_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the accesses gives the same bytes within a few percent."""
    kernel = gemm(768, 768, 768, 32, 32, 32)
    machine, counts = tiny(16 << 10, 256 << 10, 1 << 20), count(gemm(768, 768, 768, 32, 32, 32), {})
    monkeypatch.setattr("tileworkbench.model.traffic.EXACT_CAP", 10**9)
    whole = predict_traffic(kernel, counts, machine, {})
    monkeypatch.setattr("tileworkbench.model.traffic.EXACT_CAP", 12_000)
    sampled = predict_traffic(kernel, counts, machine, {})
    assert sampled.sampled < 0.15
    assert any("sample" in str(a) for a in sampled.assumptions)
    for level, tolerance in (("L2", 0.02), ("L3", 0.1), ("DRAM", 0.1)):
        assert sampled.bytes(level) == pytest.approx(whole.bytes(level), rel=tolerance), level


def test_two_threads_split_the_private_caches() -> None:
    """All cores together ask what one would; shared levels see every block once."""
    kernel = rows(64, 256, 4)
    counts = count(kernel, {})
    one, two = (predict_traffic(kernel, counts, REFERENCE_CPU, {}, threads=t) for t in (1, 2))
    assert one.bytes("L2") == two.bytes("L2") == counts.compulsory_bytes
    assert one.bytes("DRAM") == two.bytes("DRAM") == counts.compulsory_bytes


def test_a_gather_is_spread_at_random_and_said() -> None:
    table, a, s, bx = buffer("table", (64,), INT32), buffer("A", (1000, 16)), buffer("s", (16,), FLOAT32, "shared"), Var("bx")
    copy = Copy(region(a, (Load(table, (bx,)), c(0)), (1, 16)), region(s, (c(0),), (16,)), span=line(3))
    kernel = Kernel("k", (TensorParam(table), TensorParam(a)), (), (), (Launch((c(64),), (bx,), (1,), (), (s,), (copy,)),))
    got = predict_traffic(kernel, count(kernel, {}), REFERENCE_CPU, {})
    assert [str(x) for x in got.assumptions] == ["hand.py:3:5: accesses of A at an index that depends on data are spread at random"]
    assert 0.9 * 64 * 64 <= got.bytes("DRAM") <= 64 * 64
    told = predict_traffic(kernel, count(kernel, {}, arrays={"table": np.full(64, 7)}), REFERENCE_CPU, {}, arrays={"table": np.full(64, 7)})
    assert told.bytes("DRAM") == 64


def test_gaps_are_taken_as_one_piece_and_said() -> None:
    a, s, bx = buffer("A", (64, 512)), buffer("s", (64,), FLOAT32, "shared"), Var("bx")
    copy = Copy(region(a, (c(0), Binary("mul", bx, c(16))), (64, 1)), region(s, (c(0),), (64,)), span=line(1))
    kernel = Kernel("k", (TensorParam(a),), (), (), (Launch((c(32),), (bx,), (1,), (), (s,), (copy, Copy(whole(s), whole(s)))),))
    assert predict_traffic(kernel, count(kernel, {}), REFERENCE_CPU, {}).bytes("DRAM") == 64 * 512 * 4, "a column costs a line for each element"


@given(st.lists(st.integers(0, 12), max_size=60), st.lists(st.integers(1, 9), min_size=13, max_size=13))
def test_reuse_distances_are_those_of_a_list(order: list[int], sizes: list[int]) -> None:
    got = reuse_distances(np.asarray(order, dtype=np.int64), np.asarray([sizes[g] for g in order], dtype=np.float64))
    for i, g in enumerate(order):
        earlier = [k for k in range(i) if order[k] == g]
        want = sum(sizes[x] for x in set(order[earlier[-1] : i])) if earlier else np.inf
        assert got[i] == want

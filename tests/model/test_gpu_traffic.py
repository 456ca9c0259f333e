"""Bytes at the levels of a GPU, against formulas and against a cache run by hand."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import pytest
from model.hand import gemm, rows

from tileworkbench.base.dtypes import FLOAT16
from tileworkbench.base.machine import PRESETS, Machine, Quantity, find_machine
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.stmt import Gemm, Kernel
from tileworkbench.kernels import attention
from tileworkbench.kernels import gemm as products
from tileworkbench.model import gpu_traffic as module
from tileworkbench.model.counts import count
from tileworkbench.model.gpu_traffic import gpu_traffic, operand_reads, warp_grid
from tileworkbench.model.report import report
from tileworkbench.model.traffic import Traffic

H200 = find_machine("h200")
GPUS = [name for name, machine in PRESETS.items() if machine.is_gpu]


def with_l2(kib: float, machine: Machine = H200) -> Machine:
    return replace(machine, levels=tuple(replace(x, capacity=Quantity(kib, "KiB")) if x.name == "L2" else x for x in machine.levels))


def traffic(kernel: Kernel, machine: Machine = H200, in_flight: int = 264) -> Traffic:
    return gpu_traffic(kernel, count(kernel, {}), machine, {}, lambda launch: in_flight)


def by_buffer(found: Traffic, level: str) -> dict[str, float]:
    out: dict[str, float] = {}
    for f in found.flows:
        if f.level == level:
            out[f.buffer] = out.get(f.buffer, 0.0) + f.bytes
    return out


def test_blocks_ask_l2_for_their_tiles() -> None:
    """A once for each column of tiles, B once for each row, C once."""
    found = by_buffer(traffic(gemm(512, 768, 256, 64, 128, 32, FLOAT16)), "L2")
    assert found == pytest.approx({"A": 6 * 512 * 256 * 2, "B": 8 * 256 * 768 * 2, "C": 512 * 768 * 4})


def test_what_fits_in_l2_is_fetched_once() -> None:
    found = traffic(gemm(512, 512, 512, 64, 64, 64, FLOAT16))
    assert by_buffer(found, "DRAM") == pytest.approx({"A": 512 * 512 * 2, "B": 512 * 512 * 2, "C": 512 * 512 * 4})
    assert found.stays_in_cache and found.bytes("DRAM", warm=True) == 0


def test_a_ragged_edge_moves_only_what_is_inside() -> None:
    found = by_buffer(traffic(gemm(100, 100, 100, 64, 64, 64)), "DRAM")
    assert found == pytest.approx({"A": 100 * 100 * 4, "B": 100 * 100 * 4, "C": 100 * 100 * 4})


def lru(n: int, tile: int, in_flight: int, capacity: int) -> int:
    """Bytes that an L2 of whole float16 tiles fetches and writes back for C = A @ B: blocks of a wave in lockstep, x first."""
    tiles, size = n // tile, tile * tile * 2
    cache: OrderedDict[tuple[str, int, int], tuple[int, bool]] = OrderedDict()
    moved = 0

    def touch(key: tuple[str, int, int], nbytes: int, write: bool) -> None:
        nonlocal moved
        if key in cache:
            cache.move_to_end(key)
            cache[key] = (nbytes, cache[key][1] or write)
        else:
            moved += 0 if write else nbytes
            cache[key] = (nbytes, write)
        while sum(b for b, _ in cache.values()) > capacity:
            _, (nbytes, dirty) = cache.popitem(last=False)
            moved += nbytes if dirty else 0

    blocks = [(by, bx) for by in range(tiles) for bx in range(tiles)]
    for start in range(0, len(blocks), in_flight):
        wave = blocks[start : start + in_flight]
        for ko in range(tiles):
            for which in (0, 1):
                for by, bx in wave:
                    touch(("A", by, ko) if which == 0 else ("B", ko, bx), size, False)
        for by, bx in wave:
            touch(("C", by, bx), 2 * size, True)
    return moved + sum(b for b, dirty in cache.values() if dirty)


@pytest.mark.parametrize(("in_flight", "kib"), [(8, 64), (8, 200), (16, 64), (24, 128), (64, 96), (64, 300)])
def test_dram_is_what_a_cache_run_by_hand_misses(in_flight: int, kib: int) -> None:
    found = traffic(gemm(512, 512, 512, 64, 64, 64, FLOAT16), with_l2(kib), in_flight)
    assert found.bytes("DRAM") == pytest.approx(lru(512, 64, in_flight, kib << 10), rel=0.05)


@pytest.mark.parametrize("kib", [256, 1024, 4096])
def test_a_sample_is_near_the_whole(monkeypatch: pytest.MonkeyPatch, kib: int) -> None:
    kernel = gemm(2048, 2048, 2048, 64, 64, 32, FLOAT16)
    sampled = traffic(kernel, with_l2(kib), 132)
    monkeypatch.setattr(module, "TRACE_CAP", 1 << 30)
    monkeypatch.setattr(module, "EXACT_CAP", 40_000)
    whole = traffic(kernel, with_l2(kib), 132)
    assert sampled.bytes("L2") == pytest.approx(whole.bytes("L2"))
    assert sampled.bytes("DRAM") == pytest.approx(whole.bytes("DRAM"), rel=0.25)


COUNTED = [
    (products.program(4096, 4096, 4096, 64, 128, 64, 4, "float16", "float16", False, "float32", 128, 0), 90, 298.7),  # 38 MB between two uses
    (products.program(4096, 4096, 4096, 64, 64, 64, 4, "float16", "float16", False, "float32", 128, 8), 58, 279.2),
    (products.program(4096, 4096, 4096, 128, 256, 64, 4, "float16", "float16", False, "float32", 256, 8), 168, 185.2),
    (attention.program(1, 16, 16384, 128, False, 128, 128, "float16", 0, 2, 256), 168, 202.4),  # keys of a head stay while its queries pass
    (attention.program(4, 16, 4096, 128, False, 64, 64, "float16", 0, 2, 128), 138, 201.4),
]


@pytest.mark.parametrize(("program", "registers", "counted"), COUNTED)
def test_dram_is_read_as_counters_saw_it(program: PrimFunc, registers: int, counted: float) -> None:
    """MB that Nsight Compute counted on an H200, December 2026: data that all SMs read finds half of L2; samples stand for what is left out."""
    flows = report(program.kernel, H200, {}, registers=registers).traffic.flows
    assert sum(f.read_bytes for f in flows if f.level == "DRAM") == pytest.approx(counted * 1e6, rel=0.1)


@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize("kernel", [gemm(1000, 1100, 300, 128, 64, 32, FLOAT16), rows(8192, 4096, 4)], ids=["gemm", "rows"])
def test_no_level_moves_less_than_once_or_more_than_the_level_above(name: str, kernel: Kernel) -> None:
    r = report(kernel, PRESETS[name], {})
    needed = r.counts.compulsory_bytes
    by_name = {level.name: level for level in r.levels}
    assert needed * 0.999 <= by_name["DRAM"].cold_bytes <= by_name["L2"].cold_bytes * 1.001
    for use in r.by_buffer():
        assert use.bytes["DRAM"] <= use.bytes["L2"] * 1.001 or not use.bytes["L2"]
    for level in r.levels:
        assert level.cold_bytes <= level.worst_bytes * 1.001


def test_operands_are_read_by_every_warp_that_needs_them() -> None:
    t4 = find_machine("t4")
    product = next(s for s in gemm(128, 256, 64, 128, 256, 64, FLOAT16).launches[0].body[1].body if isinstance(s, Gemm))  # type: ignore[attr-defined]
    assert operand_reads(product, 4, H200) == (1, 2), "64 rows by 256 columns an instruction: B for each half of the rows"
    assert operand_reads(product, 4, t4) == (2, 2), "a square of 2 x 2 warps"
    assert operand_reads(product, 8, t4) == (4, 2), "2 x 4 warps: tiles of 64 x 64"
    f32 = next(s for s in gemm(128, 256, 64, 128, 256, 64).launches[0].body[1].body if isinstance(s, Gemm))  # type: ignore[attr-defined]
    assert operand_reads(f32, 4, H200) == (2, 2), "no warp-group instruction multiplies full float32"
    assert warp_grid(128, 128, 4, "full_col") == (1, 4)


def test_shared_bytes_are_counted_and_products_read_more() -> None:
    """Each of 64 blocks x 8 steps writes both tiles and reads them; the H200 reads B of a 64-row tile once, so nothing is multiplied."""
    found = by_buffer(traffic(gemm(512, 512, 512, 64, 64, 64, FLOAT16)), "shared")
    tile = 64 * 64 * 2
    assert found == {"A_s": 64 * 8 * 2 * tile, "B_s": 64 * 8 * 2 * tile}
    wide = by_buffer(traffic(gemm(512, 512, 512, 128, 64, 64, FLOAT16)), "shared")
    assert wide["B_s"] == 32 * 8 * tile * (1 + 2), "128 rows: B is read by both halves"

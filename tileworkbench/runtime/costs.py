"""Times single steps of emitted code on one core: the unit costs that the CPU time model adds up.

Every cost is in nanoseconds: of a vector multiply-add inside a micro-kernel ("fma"), of starting one ("kernel"), of an element in a pass over a tile
("pass") and of what exp or a division add to it ("exp", "div", ...), of a byte that is copied from or to a memory level in pieces of so many bytes
("load.L3.128", "store.DRAM.2048", ...), of a parallel region ("fork") and of one block in it ("block").
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterator, Sequence

from ..base.cpu import Isa
from ..base.machine import Cost, Level, Quantity
from .cost_probes import PASSES, ROW, TILE, gemm_bytes, gemm_specs
from .loader import Entry
from .short_runs import RUNS, call, rounds

VERSION = "3"  # another set of probes, or another meaning of one: records of older versions are measured again
TURNS = 3  # each probe runs in so many turns, so that one disturbance does not spoil it
TYPICAL, FAR = 0.1, 0.25  # of all runs of a probe the share that was faster than the one that counts: the fastest were lucky, slow ones disturbed
RUN_S = 0.001
RUN_BYTES = (128, 2048, 16384)  # of the pieces that are copied: short rows, long rows, and what the C library copies in another way
STRIDE = 4096 + 256  # bytes between rows of the copied matrix; pieces longer than that lie behind one another
TILE_BYTES = 16384
FAR_BYTES = 64 << 20  # a larger working set needs no warming up
PANEL_ROWS = 6  # of the micro-kernel that the products in L1 are cut for, on the widest instruction set

Find = Callable[[str], Entry]


def measure_costs(find: Find, isa: Isa, memory: int, size: int, levels: Sequence[Level], threads: int) -> tuple[Cost, ...]:
    """Time every step. `find` loads a probe by name; `memory` is the address of `size` bytes of float32 ones, aligned to a page."""
    samples: dict[str, list[float]] = {}
    for _ in range(TURNS):
        for name, ns in _timings(find, isa, memory, size, levels, threads):
            samples.setdefault(name, []).extend(ns)
    raw = {name: sorted(ns)[int(_quantile(name) * len(ns))] for name, ns in samples.items()}
    source = "timed: steps of emitted code"
    return tuple(Cost(name, Quantity(float(f"{max(ns, 0.0):.4g}"), "ns", source, True)) for name, ns in _costs_of(raw, isa).items())


# ---------------------------------------------------------------------------------------------- the clock
def _quantile(name: str) -> float:
    """Runs far out in memory differ by what a shared cache happens to hold; of parallel regions only the fastest had all cores."""
    return 0.0 if name.startswith("fork") else FAR if name.startswith(("load.L3", "load.DRAM", "store.L3", "store.DRAM")) else TYPICAL


def _timings(
    find: Find, isa: Isa, memory: int, size: int, levels: Sequence[Level], threads: int
) -> Iterator[tuple[str, list[float]]]:  # fmt: skip
    """(name, nanoseconds of each run) of every probe once."""
    specs = gemm_specs(isa)
    assert max(map(gemm_bytes, specs.values())) < 1 << 22
    for name in specs:
        yield f"gemm.{name}", _time(find(f"twb_cost_gemm_{name}"), memory)
    for name in (*PASSES, "fill", "widen", "narrow"):
        yield name, _time(find(f"twb_cost_{name}"), memory)
    for row in (ROW // 8, ROW):
        yield f"sums.{row}", _time(find("twb_cost_sums"), memory, row)
    for row in RUN_BYTES:
        yield f"load.{levels[1].name}.{row}", _near(find("twb_cost_load"), memory, row)
        for level, above in zip(levels[2:], levels[1:], strict=False):  # each with the cache in front of it
            for way in ("load", "store"):
                span = _span(level, above, size) // (2 if way == "store" else 1)
                yield f"{way}.{level.name}.{row}", _far(find(f"twb_cost_{way}"), memory, span, row)
    region = find("twb_cost_fork")
    yield "call", _each(lambda: call(region, 1, 0, 0), 20 * RUNS, 1, time.perf_counter)
    if threads > 1:
        yield "fork", _region(region, threads, threads)
        yield "forks", _region(region, threads, 64 * threads)


def _each(work: Callable[[], None], runs: int, items: float, clock: Callable[[], float] = time.thread_time) -> list[float]:
    """Nanoseconds of an item in each run, in processor time of this thread: what other programs take does not count."""
    out = []
    for _ in range(runs):
        begin = clock()
        work()
        out.append((clock() - begin) / items * 1e9)
    return out


def _time(entry: Entry, *args: int) -> list[float]:
    """Nanoseconds of one round."""
    work = lambda n: call(entry, 1, n, *args)
    count = rounds(work, 1, RUN_S)
    return _each(functools.partial(work, count), RUNS, count)


def _near(entry: Entry, memory: int, row: int) -> list[float]:
    """Nanoseconds of a byte that is copied within L1, in rows."""
    count, rows = 16, max(1, 8192 // row)
    return _each(lambda: call(entry, 1, 8 * count, memory, memory + TILE_BYTES, row, row, rows, count), 2 * RUNS, 8 * count * rows * row)


def _span(level: Level, above: Level, size: int) -> int:
    """Bytes to walk over so that `level` delivers them: well beyond the cache above, well inside the level itself."""
    least = 2 * above.capacity.bytes if above.capacity is not None and not above.is_shared else size
    most = level.capacity.bytes // 2 if level.capacity is not None else size
    return min(max(least, min(4 * least, most)), size - (1 << 22))


def _far(entry: Entry, memory: int, span: int, row: int) -> list[float]:
    """Nanoseconds of a byte in a walk over `span` bytes in rows, tile after tile, in short runs that each go on where the last one ended."""
    tile, source, rows = memory, memory + (1 << 20), TILE_BYTES // row
    side, stride = (1, row) if row > STRIDE else (4096 // row, STRIDE)
    tiles = span // (stride * rows) * side
    count = max(side, min(tiles, (2 << 20) // TILE_BYTES // side * side))
    places = [start // side * rows * stride for start in range(0, tiles - count + 1, count)] or [0]
    turn = itertools.cycle(places)

    def run() -> None:
        call(entry, 1, count, tile, source + next(turn), row, stride, rows, side, span // 4096 * 4096)

    for _ in places if span < FAR_BYTES else ():  # a first walk brings the set into its cache
        run()
    return _each(run, max(RUNS, len(places)), count * TILE_BYTES)


def _region(entry: Entry, threads: int, blocks: int) -> list[float]:
    """Nanoseconds of a parallel region of so many empty blocks."""
    work = lambda count: call(entry, threads, count, blocks)
    count = min(100, rounds(work, 1, RUN_S, time.perf_counter))
    return _each(functools.partial(work, count), RUNS, count, time.perf_counter)


# ---------------------------------------------------------------------------------------------- from times to costs
def _costs_of(raw: dict[str, float], isa: Isa) -> dict[str, float]:
    """Nanoseconds by cost name, from those of whole probes."""
    return {**_kernel_costs(raw, isa), **_pass_costs(raw), **_copy_costs(raw), **_region_costs(raw)}


def _kernel_costs(raw: dict[str, float], isa: Isa) -> dict[str, float]:
    """A product takes `kernel` for each micro-kernel call and `fma` for each vector multiply-add; two depths tell them apart."""
    specs = gemm_specs(isa)
    deep, shallow = specs["deep"], specs["shallow"]
    vectors = deep.m * deep.n // (isa.vector_bytes // 4)
    fma = (raw["gemm.deep"] - raw["gemm.shallow"]) / (vectors * (deep.k - shallow.k))
    calls = deep.m / PANEL_ROWS
    return {
        "fma": fma,
        "kernel": (raw["gemm.shallow"] - vectors * shallow.k * fma) / calls,
        "stream": raw["gemm.streamed"] / (specs["streamed"].m * specs["streamed"].n * specs["streamed"].k / (isa.vector_bytes // 4)),
        "turn": (raw["gemm.turned"] - raw["gemm.deep"]) / (deep.n * deep.k),
    }


def _pass_costs(raw: dict[str, float]) -> dict[str, float]:
    plain = raw["pass"] / TILE
    out = {name: raw[name] / TILE for name in ("pass", "fill", "widen", "narrow")}
    out |= {name: raw[name] / TILE - plain for name in ("exp", "log", "div")}
    short, long = raw[f"sums.{ROW // 8}"], raw[f"sums.{ROW}"]
    rows = 2 * TILE / ROW  # a sum and a maximum of each
    per_row = max(0.0, (short - long) / (7 * rows))
    return {**out, "reduce": (long - rows * per_row) / (2 * TILE), "reduce.row": per_row}


def _copy_costs(raw: dict[str, float]) -> dict[str, float]:
    """What storing adds to loading the same bytes: the two share the way to memory."""
    loads = {name: ns for name, ns in raw.items() if name.startswith("load.")}
    return loads | {name: ns - raw[name.replace("store", "load")] for name, ns in raw.items() if name.startswith("store.")}


def _region_costs(raw: dict[str, float]) -> dict[str, float]:
    fork = raw.get("fork", 0.0)
    block = max(0.0, (raw["forks"] - fork) / 63) if "forks" in raw else 0.0
    return {"call": raw["call"], "fork": fork, "block": block}

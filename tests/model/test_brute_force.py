"""Modelled bytes at each level against plain caches: every cache line of every tile operation of an interpreted run, one after the other.

The simulator shares nothing with the model but the kernel: operations come from a traced run of the interpreter; caches are ordered dictionaries in a
row, so that L2 sees what L1 misses and writes back, and so on. The model simulates each level on all accesses and cuts buffers into granules, so
the two differ a little where a level barely holds what is used again. `NEAR` says by how much; where every tile is made of whole lines and each
level clearly holds a tile or clearly does not, nothing differs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product

import numpy as np
import pytest

import tileworkbench.language as T
from tileworkbench.base.machine import REFERENCE_CPU, Level, Machine, Quantity
from tileworkbench.interpret import run
from tileworkbench.interpret.trace import Operand
from tileworkbench.ir.expr import Buffer
from tileworkbench.ir.stmt import Gemm, Kernel, TensorParam
from tileworkbench.kernels import attention, gemm
from tileworkbench.model.counts import count
from tileworkbench.model.traffic import Flow, Traffic, inclusive, predict_traffic

# mypy: disable-error-code="valid-type"
LINE = 64
NEAR = 0.08
F32 = "float32"


# ------------------------------------------------------------------------------------------- the plain caches
@dataclass
class Cache:
    """Least recently used, write-back, write-allocate. `below` is asked for what is not here; None: memory, which counts what reaches it."""

    lines: float
    below: Cache | None = None
    held: OrderedDict[int, bool] = field(default_factory=OrderedDict)  # line -> dirty, the oldest first
    reads: int = 0  # lines fetched for a read
    allocations: int = 0  # lines fetched because a write missed them
    writes: int = 0  # lines written back to the level below

    def access(self, line: int, *, write: bool, is_new: bool) -> None:
        """`is_new`: nothing was ever in that line, so there is nothing to fetch (a core's own tile memory)."""
        if not is_new:
            self.fetch(line, for_write=write)
        self.hold(line, dirty=write)

    def fetch(self, line: int, *, for_write: bool) -> None:
        if line in self.held:
            return
        self.reads += not for_write
        self.allocations += for_write
        if self.below is not None:
            self.below.fetch(line, for_write=for_write)
            self.below.hold(line, dirty=False)

    def hold(self, line: int, *, dirty: bool) -> None:
        self.held[line] = self.held.get(line, False) or dirty
        self.held.move_to_end(line)
        if len(self.held) > self.lines:
            old, was_dirty = self.held.popitem(last=False)
            if was_dirty:
                self.write_back(old)

    def write_back(self, line: int) -> None:
        self.writes += 1
        if self.below is not None:
            self.below.hold(line, dirty=True)

    def finish(self, scratch: set[int]) -> None:
        """Results go to memory; what is left in a core's tile memory stays where it is."""
        for line, dirty in list(self.held.items()):
            if dirty and line not in scratch:
                self.write_back(line)

    @property
    def bytes(self) -> int:
        return (self.reads + self.writes) * LINE


class Memory:
    """Where each buffer lies, in lines."""

    def __init__(self) -> None:
        self.at: dict[str, int] = {}
        self.end = 0
        self.scratch: set[int] = set()

    def lines(self, buffer: Buffer, starts: tuple[int, ...], extents: tuple[int, ...]) -> Iterator[int]:
        """The lines of a region inside the buffer, row after row."""
        shape = buffer.static_shape()
        if buffer.name not in self.at:
            self.at[buffer.name] = self.end
            size = -(-int(np.prod(shape)) * int(buffer.type.nbytes) // LINE)
            if buffer.is_on_chip:
                self.scratch |= set(range(self.end, self.end + size))
            self.end += size
        low = [max(s, 0) for s in starts]
        high = [min(s + e, n) for s, e, n in zip(starts, extents, shape, strict=True)]
        for row in product(*(range(a, b) for a, b in zip(low[:-1], high[:-1], strict=True))):
            flat = 0
            for index, size in zip((*row, low[-1]), shape, strict=True):
                flat = flat * size + index
            first, last = flat * int(buffer.type.nbytes), (flat + high[-1] - low[-1]) * int(buffer.type.nbytes) - 1
            if last >= first:
                yield from range(self.at[buffer.name] + first // LINE, self.at[buffer.name] + last // LINE + 1)


@cache
def accesses(name: str) -> tuple[list[tuple[int, bool]], frozenset[int]]:
    """Every line access of a run of KERNELS[name], in order (line, is a write), and the lines of tile memory."""
    kernel = KERNELS[name]
    arrays = [np.ones(p.buffer.static_shape(), p.buffer.dtype.to_numpy()) for p in kernel.params if isinstance(p, TensorParam)]
    trace = run(kernel, arrays, trace=True)
    assert trace is not None
    memory = Memory()
    out: list[tuple[int, bool]] = []
    for step in trace:
        reads = list(step.reads)
        if isinstance(step.stmt, Gemm):  # c is read unless it is cleared
            reads = [*step.reads, *(w for w in step.writes if not step.stmt.clear.value and w.buffer not in [r.buffer for r in step.reads])]
        for operands, write in ((reads, False), (step.writes, True)):
            for operand in operands:
                out += [(at, write) for at in memory.lines(operand.buffer, *box(operand))]
    return out, frozenset(memory.scratch)


def box(operand: Operand) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = operand.buffer.static_shape()
    return (operand.starts, operand.extents) if operand.extents else ((0,) * len(shape), shape)


def simulate(name: str, capacities: tuple[int, int, int]) -> dict[str, Cache]:
    """The caches after the run, by the level that they ask: what L1 misses is asked of L2."""
    order, scratch = accesses(name)
    l3 = Cache(capacities[2] / LINE)
    l2 = Cache(capacities[1] / LINE, l3)
    l1 = Cache(capacities[0] / LINE, l2)
    seen: set[int] = set()
    for line, write in order:
        l1.access(line, write=write, is_new=line in scratch and line not in seen)
        seen.add(line)
    for level in (l1, l2, l3):
        level.finish(set(scratch))
    return {"L2": l1, "L3": l2, "DRAM": l3}


def tiny(capacities: tuple[int, int, int]) -> Machine:
    size = dict(zip(("L1", "L2", "L3"), capacities, strict=True))

    def shrink(level: Level) -> Level:
        return replace(level, capacity=Quantity(size[level.name], "B")) if level.name in size else level

    return replace(REFERENCE_CPU, levels=tuple(shrink(x) for x in REFERENCE_CPU.levels))


# ------------------------------------------------------------------------------------------- the kernels
def copy_kernel(m: int, n: int, bm: int, bn: int) -> Kernel:
    @T.prim_func
    def copy(X: T.Tensor((m, n), F32), Y: T.Tensor((m, n), F32)):  # type: ignore[no-untyped-def]
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm)) as (bx, by):
            x = T.alloc_shared((bm, bn), F32)
            T.copy(X[by * bm, bx * bn], x)
            T.copy(x, Y[by * bm, bx * bn])

    return copy.kernel


def transpose_kernel(n: int, b: int) -> Kernel:
    @T.prim_func
    def transpose(X: T.Tensor((n, n), F32), Y: T.Tensor((n, n), F32)):  # type: ignore[no-untyped-def]
        with T.Kernel(n // b, n // b) as (bx, by):
            x = T.alloc_shared((b, b), F32)
            y = T.alloc_shared((b, b), F32)
            T.copy(X[by * b, bx * b], x)
            for i, j in T.Parallel(b, b):
                y[i, j] = x[j, i]
            T.copy(y, Y[bx * b, by * b])

    return transpose.kernel


def softmax_kernel(rows: int, cols: int, block: int) -> Kernel:
    """With copies at both ends: a trace has the box of a copy, but not of the elements that a loop writes to memory."""

    @T.prim_func
    def rowwise(X: T.Tensor((rows, cols), F32), Y: T.Tensor((rows, cols), F32)):  # type: ignore[no-untyped-def]
        with T.Kernel(T.ceildiv(rows, block)) as bx:
            x = T.alloc_fragment((block, cols), F32)
            top = T.alloc_fragment((block,), F32)
            total = T.alloc_fragment((block,), F32)
            T.copy(X[bx * block, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(block, cols):
                x[i, j] = T.exp2(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(block, cols):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * block, 0])

    return rowwise.kernel


def windows_kernel(n: int, width: int, block: int) -> Kernel:
    """Like a convolution: every block reads a window that overlaps the next one's by `width - 1` rows, and takes `width` shifted products."""

    @T.prim_func
    def windows(X: T.Tensor((n + width - 1, 32), F32), W: T.Tensor((width, 32, 32), F32), Y: T.Tensor((n, 32), F32)):  # type: ignore[no-untyped-def]
        with T.Kernel(n // block) as bx:
            x = T.alloc_shared((block, 32), F32)
            w = T.alloc_shared((32, 32), F32)
            acc = T.alloc_fragment((block, 32), F32)
            T.clear(acc)
            for k in T.serial(width):
                T.copy(X[bx * block + k, 0], x)
                T.copy(W[k, 0:32, 0:32], w)
                T.gemm(x, w, acc)
            T.copy(acc, Y[bx * block, 0])

    return windows.kernel


KERNELS: dict[str, Kernel] = {
    "copy": copy_kernel(64, 128, 16, 32),
    "transpose": transpose_kernel(96, 16),
    "gemm 32x32x32": gemm.program(96, 96, 96, 32, 32, 32, 2, F32, F32, True).kernel,
    "gemm 16x48x32": gemm.program(96, 96, 96, 16, 48, 32, 2, F32, F32, False).kernel,
    "gemm 48x16x48": gemm.program(96, 96, 96, 48, 16, 48, 2, F32, F32, False).kernel,
    "softmax": softmax_kernel(48, 128, 4),
    "attention": attention.program(1, 2, 64, 32, False, 16, 32, F32).kernel,
    "attention, causal": attention.program(1, 2, 64, 32, True, 16, 16, F32).kernel,
    "windows": windows_kernel(128, 5, 16),
}
MACHINES = {"small": (2 << 10, 16 << 10, 64 << 10), "flat": (4 << 10, 48 << 10, 64 << 10), "large": (16 << 10, 64 << 10, 256 << 10)}
# A level holds what is used again but for less than a core's tile memory: the model counts those bytes there, plain caches keep them in L1.
EDGE = {("gemm 32x32x32", "flat"), *(("gemm 16x48x32", machine) for machine in MACHINES)}
CLEAR = [pair for pair in product(KERNELS, MACHINES) if pair not in EDGE]


def modelled(name: str, capacities: tuple[int, int, int]) -> Traffic:
    return predict_traffic(KERNELS[name], count(KERNELS[name], {}), tiny(capacities), {})


@pytest.mark.parametrize(("name", "machine"), CLEAR, ids=str)
def test_bytes_at_each_level(name: str, machine: str) -> None:
    got, want = modelled(name, MACHINES[machine]), simulate(name, MACHINES[machine])
    for level, found in want.items():
        assert got.bytes(level) == pytest.approx(found.bytes, rel=NEAR, abs=4 * LINE), level


@pytest.mark.parametrize(("name", "machine"), sorted(EDGE), ids=str)
def test_at_the_edge_the_truth_lies_within_the_tiles(name: str, machine: str) -> None:
    """There the modelled bytes lie between those of caches that are larger and smaller by the tile memory."""
    tiles = sum(b.static_bytes() for b in KERNELS[name].launches[0].allocs)
    got = modelled(name, MACHINES[machine])
    l1, l2, l3 = MACHINES[machine]
    least, most = simulate(name, (l1, l2 + tiles, l3 + tiles)), simulate(name, (l1, max(l2 - tiles, l1), l3 - tiles))
    for level in ("L3", "DRAM"):
        assert least[level].bytes <= got.bytes(level) <= most[level].bytes, level


@pytest.mark.parametrize("name", ["gemm 32x32x32", "transpose", "copy"])
@pytest.mark.parametrize("machine", ["small", "large"])
def test_whole_lines_move_exactly(name: str, machine: str) -> None:
    """Reads, writes and allocations, byte for byte, where tiles are whole lines and no level holds one by half."""
    got, want = modelled(name, MACHINES[machine]), simulate(name, MACHINES[machine])
    for level, found in want.items():
        flows = [f for f in got.flows if f.level == level]
        mine = [sum(getattr(f, part) for f in flows) for part in ("read_bytes", "write_bytes", "allocate_bytes")]
        assert mine == [found.reads * LINE, found.writes * LINE, found.allocations * LINE], level


def test_levels_of_like_capacity_never_move_more_below() -> None:
    """Each level is simulated apart; where they disagree the lower one is cut to what the upper asks of it, with a note."""
    flows = [
        Flow("L2", "x", 100.0, 50.0, 0.0),
        Flow("L3", "x", 80.0, 50.0, 0.0),
        Flow("DRAM", "x", 60.0, 50.0, 0.0),
        Flow("DRAM", "x", 60.0, 0.0, 0.0),
    ]
    kept, notes = inclusive(flows, ["L2", "L3", "DRAM"])
    assert [(f.read_bytes, f.write_bytes) for f in kept] == [(100, 50), (80, 50), (40, 50), (40, 0)]
    assert [str(n) for n in notes] == ["bytes of x at DRAM are at most those at L3, which a separate simulation found fewer"]
    for name, capacity in product(KERNELS, (8 << 10, 32 << 10, 128 << 10)):
        got = modelled(name, (4 << 10, capacity, capacity + (1 << 10)))
        assert got.bytes("DRAM") <= got.bytes("L3") * (1 + 1e-9), name

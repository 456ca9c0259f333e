"""How one tile product is cut for the vector registers: strips of columns, panels of rows, and which operands are packed.

A kernel of `rows` x `vectors` holds rows * vectors accumulators and, per step of k, loads `vectors` of b and broadcasts `rows`
values of a. The cut is the one with the least estimated cycles over the exact tile, so no shape needs a special case:

>>> plan = plan_gemm(GemmSpec(64, 64, 64, *[DType("float32")] * 3, 64, 64, 64))
>>> plan.strips, plan.pack_a, plan.pack_b
((Run(first=0, count=1, size=4),), False, False)
>>> plan_gemm(GemmSpec(7, 20, 64, *[DType("float32")] * 3, 64, 20, 20)).panels
(Run(first=0, count=1, size=7),)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..base.cpu import AVX512, Isa
from ..base.dtypes import DType
from .clib import suffix

# float32 sums for narrower floats, int32 for integers of up to 32 bits (they wrap, so signs do not matter)
_SUMS = {
    "f64": "float64", "f32": "float32", "f16": "float32", "bf16": "float32", "e4m3": "float32", "e5m2": "float32", "i64": "int64", "u64": "uint64",
    "u32": "uint32",
}  # fmt: skip
_SMALL_INTEGERS = ("i8", "u8")  # their products are summed in float32, exactly, up to 2**24
# what the matrix unit takes (types of a and b, and of the sum), by the processor's name for it
AMX_TYPES = {("bf16", "bf16", "float32"): "amx_bf16"} | {
    (a, b, c): "amx_int8" for a in _SMALL_INTEGERS for b in _SMALL_INTEGERS for c in ("int32", "uint32")
}
AMX_LEAST = 64  # results of a tile; for fewer, filling tiles with zeros costs more than it saves
K_BLOCK = 256  # a strip of 64 float32 columns by 256 is 64 KiB and streams from L2 faster than the FMAs use it
PACKED_BYTES = 1 << 20  # of b packed at once: half of an L2 of 2 MiB, which the panels of a and c stream through
K_MOST = 2048  # steps of k between two visits of c where all of b is packed
_MAX_VECTORS = 8
_FEW = 64  # rows done twice are at most one in so many,
_TWICE = 2  # or so many and at most one in half as many


@dataclass(frozen=True, slots=True)
class GemmSpec:
    """One tile product. `m`, `n`, `k` >= 1; `a`, `b`, `c` are dtypes; `lda`, `ldb`, `ldc` row strides in elements.

    a is (m, k), or (k, m) with `trans_a`; b is (k, n), or (n, k) with `trans_b`. `far_a`, `far_b`: read from global memory rather than a tile.
    """

    m: int
    n: int
    k: int
    a: DType
    b: DType
    c: DType
    lda: int
    ldb: int
    ldc: int
    trans_a: bool = False
    trans_b: bool = False
    isa: Isa = AVX512
    far_a: bool = False
    far_b: bool = False

    @property
    def kernel(self) -> str:
        """The family of micro-kernels: "amx" where the matrix unit takes the types, "fma" in vector registers elsewhere."""
        kinds = suffix(self.a), suffix(self.b), str(self.sum)
        takes = self.isa.has(AMX_TYPES[kinds]) if kinds in AMX_TYPES else False
        return "amx" if takes and self.m * self.n >= AMX_LEAST else "fma"

    @property
    def sum(self) -> DType:
        """The type in which c grows."""
        return DType(_SUMS.get(suffix(self.c), "int32"))

    @property
    def acc(self) -> DType:
        """The type of the accumulators and of packed operands: `sum`, or float32 where that is exact and faster than integers."""
        small = suffix(self.a) in _SMALL_INTEGERS and suffix(self.b) in _SMALL_INTEGERS
        return DType("float32") if small and self.sum in ("int32", "uint32") else self.sum


def gemm_name(spec: GemmSpec) -> str:
    """The C name of the product; specs that differ have names that differ (for one instruction set)."""
    types = "_".join(suffix(d) for d in (spec.a, spec.b, spec.c))
    layout = f"_{'nt'[spec.trans_a]}{'nt'[spec.trans_b]}" if spec.trans_a or spec.trans_b else ""
    far = "_far" + "a" * spec.far_a + "b" * spec.far_b if spec.far_a or spec.far_b else ""
    return f"twb_gemm_{spec.m}x{spec.n}x{spec.k}_{types}_{spec.lda}_{spec.ldb}_{spec.ldc}{layout}{far}"


@dataclass(frozen=True, slots=True)
class Run:
    """`count` pieces of `size` each, the first at `first`. Strips count vectors, panels count rows."""

    first: int
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """The cut of one product. Lengths and strides are elements of the accumulator's type; 0 where nothing is stored.

    `tail` is the number of columns in the last vector of the last strip. `pack_a`: a is converted into scratch first.
    `pack_b`: b is copied to strips of [k][columns], with `whole_b` all strips of a block of k before the first panel, else one strip at a time;
    `raw_ld` is the stride of the converted rows a transposed b is packed from. `widen_c`: c is held in the accumulator's type while it grows.
    `one_kernel`: the few panels that are a row shorter run in the kernel of the others, which does their last row twice: less text to compile.
    """

    lanes: int
    strips: tuple[Run, ...]
    panels: tuple[Run, ...]
    tail: int
    k_block: int
    pack_a: bool
    pack_b: bool
    whole_b: bool
    widen_c: bool
    one_kernel: bool
    lda: int
    raw_ld: int
    ldc: int
    a_length: int
    b_length: int
    raw_length: int
    c_length: int

    def kernel_rows(self, panels: Run) -> int:
        """Rows of the kernel that a run of panels calls."""
        return self.panels[0].size if self.one_kernel else panels.size


@cache
def plan_gemm(spec: GemmSpec) -> GemmPlan:
    """Choose the cut and the packing for `spec`. Raises: ValueError for packed 4-bit operands, which have no addressable elements."""
    if any(d.bits < 8 for d in (spec.a, spec.b, spec.c)):
        raise ValueError("4-bit operands must be unpacked to int8 first")
    lanes = _lanes(spec)
    columns = -(-spec.n // lanes)
    most = min((_cost(spec, columns, v), v) for v in range(1, min(_MAX_VECTORS, columns) + 1))[1]
    strips = _even_runs(columns, most)
    panels = _even_runs(spec.m, _most_rows(spec.isa, most))
    twice = panels[-1].count
    one_kernel = len(panels) == 2 and twice * (_FEW // 2 if twice <= _TWICE else _FEW) <= spec.m and spec.acc == spec.sum
    tail = spec.n - (columns - 1) * lanes
    pack_a = suffix(spec.a) != suffix(spec.acc)
    convert_b = suffix(spec.b) != suffix(spec.acc)
    pack_b = spec.trans_b or convert_b or tail != lanes or spec.far_b or _is_badly_strided(spec)
    k_block = _k_block(spec, columns * lanes, pack_b)
    whole_b = pack_b and columns * lanes * k_block * spec.acc.bits // 8 <= PACKED_BYTES
    widen_c = suffix(spec.c) != suffix(spec.sum)
    widest = max(s.size for s in strips) * lanes
    lda = _padded(spec.m if spec.trans_a else spec.k) if pack_a else spec.lda
    raw_ld = _padded(k_block) if convert_b and spec.trans_b else 0
    ldc = _padded(spec.n) if widen_c else spec.ldc
    return GemmPlan(
        lanes, strips, panels, tail, k_block, pack_a, pack_b, whole_b, widen_c, one_kernel, lda, raw_ld, ldc,
        a_length=lda * (spec.k if spec.trans_a else spec.m) if pack_a else 0,
        b_length=(columns * lanes if whole_b else widest) * k_block if pack_b else 0,
        raw_length=widest * raw_ld,
        c_length=ldc * spec.m if widen_c else 0,
    )  # fmt: skip


def _k_block(spec: GemmSpec, columns: int, pack_b: bool) -> int:
    """Steps of k between two visits of c: all of them, unless what is packed would outgrow L2 or a float32 sum of integers 2**24."""
    size = spec.acc.bits // 8
    if columns * spec.k * size <= PACKED_BYTES:
        most = K_MOST if pack_b else 2 * K_BLOCK
    else:
        most = 2 * K_BLOCK if columns * K_BLOCK * size > PACKED_BYTES else K_BLOCK
    if spec.acc != spec.sum:
        largest = max(-int(spec.a.min), int(spec.a.max)) * max(-int(spec.b.min), int(spec.b.max))
        most = min(most, 2**24 // largest // 64 * 64)
    return spec.k if spec.k <= most else min(most, K_BLOCK)


def _lanes(spec: GemmSpec) -> int:
    """Elements of one vector: a full register, or less when the whole tile is narrower."""
    lanes = spec.isa.vector_bytes * 8 // spec.acc.bits
    while lanes > 128 // spec.acc.bits and spec.n <= lanes // 2:
        lanes //= 2
    return lanes


def _most_rows(isa: Isa, vectors: int) -> int:
    """Rows that fit: the accumulators, the vectors of b and one broadcast, with one register to spare on small files."""
    return max(1, (isa.registers - vectors - 1 - (isa.registers < 32)) // vectors)


def _cost(spec: GemmSpec, columns: int, vectors: int) -> float:
    """Estimated cycles of the whole tile with strips of at most `vectors`.

    Two FMAs a cycle, an FMA latency of four, a small price for each load (a busy neighbour on the core makes it large), and a start and
    end that load and store the accumulators.
    """
    if _most_rows(spec.isa, vectors) * vectors + vectors + 1 > spec.isa.registers:
        return float("inf")
    total = 0.0
    for panel in _even_runs(spec.m, _most_rows(spec.isa, vectors)):
        for strip in _even_runs(columns, vectors):
            work = panel.size * strip.size
            step = max(work / 2, 4.0) + 0.15 * (panel.size + strip.size)
            total += panel.count * strip.count * (step * spec.k + work + 10)
    return total


def _even_runs(total: int, most: int) -> tuple[Run, ...]:
    """`total` cut into the fewest pieces of at most `most`, of two sizes that differ by one, the larger first."""
    pieces = -(-total // most)
    small, larger = divmod(total, pieces)
    runs = [Run(0, larger, small + 1)] if larger else []
    if pieces > larger:
        runs.append(Run(larger * (small + 1), pieces - larger, small))
    return tuple(runs)


def _is_badly_strided(spec: GemmSpec) -> bool:
    """True where rows of b fall into few sets of the L1 cache and each is used often enough to pay for a copy."""
    stride = spec.ldb * spec.acc.bits // 8
    return spec.m >= 32 and stride >= 4096 and stride % 1024 == 0


def _padded(length: int) -> int:
    """A row stride of whole cache lines, one line longer, so that rows do not share the low bits of their addresses."""
    return (length + 15) // 16 * 16 + 16

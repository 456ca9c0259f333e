"""What one block of a launch asks for: its tiles, in how many copies, and the registers of a thread; and what would fit where they do not.

>>> what_fits([Need("A_s", (128, 64), "float16", "shared", 16384, 1), Need("B_s", (64, 128), "float16", "shared", 16384, 1)], 20000, {"block_K": 64})
'block_K=32 fits'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.expr import Buffer
from ..ir.node import walk
from ..ir.stmt import Copy, Gemm, Launch, PipelinedFor

SHORT = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "tfloat32": "tf32"}
ALIGNMENT = 128  # bytes to which a shared tile is aligned; swizzled tiles ask for more, which moves nothing here
OVERHEAD = 40  # registers beside the fragments of a thread in a kernel with products: live fragments <= limit - 40 compile without spills on sm_90
SIMPLE = 24  # the same in a kernel without products: addresses, indices and operands; assumed
QUAD = 4  # threads that hold the same row of a product's tile, and so a copy of each row's scalar (PTX ISA, fragments of mma)


@dataclass(frozen=True, slots=True)
class Need:
    """A tile of a block: `bytes` of all its `copies`, one for each stage that fills it. scope: "shared", "fragment", "local" or "var"."""

    buffer: str
    shape: tuple[int, ...]
    dtype: str
    scope: str
    bytes: int
    copies: int = 1

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        times = f" x {self.copies} stages" if self.copies > 1 else ""
        return f"{self.buffer} ({shape} {SHORT.get(self.dtype, self.dtype)}{times} = {kib(self.bytes)})"


def needs_of(launch: Launch) -> tuple[Need, ...]:
    """The tiles of a block, views aside. A tile that a pipelined loop fills from memory exists once for each stage."""
    stages: dict[str, int] = {}
    for loop in (n for n in walk(launch) if isinstance(n, PipelinedFor)):
        for copy in (n for n in walk(loop) if isinstance(n, Copy)):
            if not copy.src.buffer.is_on_chip and copy.dst.buffer.scope == "shared":
                name = copy.dst.buffer.root.name
                stages[name] = max(stages.get(name, 1), loop.num_stages)
    out = []
    for buffer in launch.allocs:
        if buffer.view_of is None:
            copies = stages.get(buffer.name, 1)
            size = buffer.static_bytes()
            rounded = -(-size // ALIGNMENT) * ALIGNMENT if buffer.scope == "shared" else size
            out.append(Need(buffer.name, buffer.static_shape(), str(buffer.type), buffer.scope, rounded * copies, copies))
    return tuple(out)


def registers_of(launch: Launch, threads: int) -> int:
    """An estimate of the registers of a thread: its part of every fragment, its own arrays, and what addresses and operands take."""
    has_product = any(isinstance(n, Gemm) for n in walk(launch))
    words = sum(_words(b, threads, has_product) for b in launch.allocs if b.view_of is None)
    return words + (OVERHEAD if has_product else SIMPLE)


def _words(buffer: Buffer, threads: int, has_product: bool) -> int:
    size = buffer.static_bytes()
    if buffer.scope == "fragment":
        shared_by = QUAD if has_product and buffer.rank == 1 else 1
        return max(1, -(-size * shared_by // (4 * threads)))
    return -(-size // 4) if buffer.scope in ("local", "var") else 0


def what_fits(tiles: Sequence[Need], limit: int, schedule: Mapping[str, Any]) -> str:
    """The mildest change that brings shared tiles under `limit` bytes: fewer stages, or one tile extent halved; "" if none of these does."""
    if max((t.copies for t in tiles), default=1) > 1:
        for count in range(max(t.copies for t in tiles) - 1, 0, -1):
            if sum(t.bytes // t.copies * min(t.copies, count) for t in tiles) <= limit:
                name = next((k for k, v in schedule.items() if "stage" in k.lower() and v == max(t.copies for t in tiles)), "num_stages")
                return f"{name}={count} fits"
    for halvings in (1, 2, 3):
        for extent, name in _extents(tiles, schedule):
            if extent % (1 << halvings) == 0 and extent >> halvings >= 16:
                scaled = sum(t.bytes * _times(t, extent, halvings) for t in tiles)
                if scaled <= limit:
                    new = extent >> halvings
                    return f"{name}={new} fits" if name else f"tiles of {new} instead of {extent} fit"
    return ""


def _extents(tiles: Sequence[Need], schedule: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Extents of the tiles with the tunable of that value, named ones and those of most tiles first; two of one value are not told apart."""
    values = [d for t in tiles for d in dict.fromkeys(t.shape)]
    named = {v: [k for k, x in schedule.items() if x == v and type(x) is int] for v in values}
    order = sorted(dict.fromkeys(values), key=lambda v: (len(named[v]) != 1, -values.count(v), -v))
    for v in order:
        yield v, named[v][0] if len(named[v]) == 1 else ""


def _times(tile: Need, extent: int, halvings: int) -> float:
    return 0.5 ** (halvings * tile.shape.count(extent))


def kib(size: float) -> str:
    """Bytes in binary units, as capacities are written.

    >>> kib(232448), kib(100), kib(-6144), kib(3 << 20)
    ('227 KiB', '100 B', '-6 KiB', '3 MiB')
    """
    for factor, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if abs(size) >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size:g} B"

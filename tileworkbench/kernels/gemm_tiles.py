"""Which tile of C, which clusters and how many parts of k suit a product on a GPU: those that cost least by what is counted here.

Three things take time, and most of it passes side by side: the matrix units, the lines that blocks ask of L2, and what comes from memory. Large
tiles ask for few lines and leave multiprocessors idle in the last wave; a cluster of two asks once for what both need; parts of k fill the chip, and
have to be added up. Where no warp groups multiply (sm_80), only the matrix units count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..analysis import l2_lines
from .choice import has_wgmma, multiprocessors


@dataclass(frozen=True, slots=True)
class GpuTile:
    """A tile of C in units of work: `threads` compute it, at the share `rate` of what the largest tile reaches while its blocks fill the chip."""

    m: int
    n: int
    threads: int
    rate: float


@dataclass(frozen=True, slots=True)
class Product:
    """C (m, n) = A @ B along k; `size`: bytes of an element. `is_nt`: B is (n, k). `may_split`: whether k may have parts."""

    m: int
    n: int
    k: int
    size: int
    is_nt: bool = False
    may_split: bool = True

    @property
    def turns(self) -> int:
        """Of 128 bytes of a row along k."""
        return -(-self.k * self.size // LINE)

    @property
    def bytes(self) -> int:
        return self.size * (self.m * self.k + self.k * self.n + self.m * self.n)


@dataclass(frozen=True, slots=True)
class Choice:
    """A tile; blocks of a cluster along n and m; parts of k."""

    tile: GpuTile
    cluster_n: int = 1
    cluster_m: int = 1
    split_k: int = 1


# Rates: 128 x 256 and 128 x 128 measured on an H200 in November 2026 (with wgmma); the others by the bytes of shared memory that a product reads.
GROUP_TILES = (
    GpuTile(128, 256, 256, 1.0), GpuTile(128, 192, 256, 0.95), GpuTile(128, 128, 256, 0.92),
    GpuTile(64, 128, 128, 0.85), GpuTile(128, 64, 256, 0.8), GpuTile(64, 64, 128, 0.6),
)  # fmt: skip
WARP_TILES = (GpuTile(128, 128, 128, 1.0), GpuTile(64, 128, 128, 0.9), GpuTile(64, 64, 128, 0.75))
FLAT_TILES = (GpuTile(64, 64, 128, 1.0), GpuTile(32, 32, 128, 0.5))  # of multiply-adds

# Measured on an H200 (driver 580, CUDA 13.0), December 2026, beside cuBLAS in turns: `bench gpu --only awkward --only skinny` and variants of it.
LINE = l2_lines.LINE
CELLS_A_NS = 2048 * 1.4 / 64  # of C that a multiprocessor does a turn of 128 bytes for, at the clock in GHz that power leaves
BYTES_A_NS = 4300.0  # memory
JOINED_A_NS, JOIN_NS, PART_NS = 6000.0, 3000.0, 150.0  # bytes of parts, written and read; a second launch; each part
BESIDE, SAME_WAY = 0.98, 0.14  # of the shorter of work and copies passes beside the other; of lines and bytes of memory, which go one way, does not
CLUSTER, CLUSTER_NS = 1.01, 500.0  # blocks that go alike wait for one another, and start together
PARTS = (1, 2, 3, 4, 6, 8, 12, 16)
FEWEST_TURNS = 8  # of a part


def cheapest(p: Product, tiles: tuple[GpuTile, ...], arch: str, count: int) -> list[Choice]:
    """The `count` choices that cost least, the least first.

    >>> cheapest(Product(4096, 4096, 4096, 2), GROUP_TILES, "sm_90a", 1)[0].tile.n
    256
    >>> cheapest(Product(256, 256, 16384, 2), GROUP_TILES, "sm_90a", 1)[0].split_k > 4
    True
    """
    sms = multiprocessors(arch)
    if not has_wgmma(arch) or tiles is FLAT_TILES:
        return [Choice(t) for t in sorted(tiles, key=lambda t: -(-_blocks(p, t) // sms) * t.m * t.n / t.rate)[:count]]
    return sorted(_choices(p, tiles), key=lambda c: cost_ns(p, c, sms))[:count]


def _choices(p: Product, tiles: tuple[GpuTile, ...]) -> Iterator[Choice]:
    for tile in tiles:
        for parts in PARTS:
            if parts == 1 or p.may_split and p.turns >= FEWEST_TURNS * parts:
                yield Choice(tile, split_k=parts)
        if -(-p.n // tile.n) % 2 == 0:
            yield Choice(tile, cluster_n=2)
        if -(-p.m // tile.m) % 2 == 0:
            yield Choice(tile, cluster_m=2)


def cost_ns(p: Product, c: Choice, sms: int) -> float:
    """How long it takes, in ns."""
    blocks, turns = _blocks(p, c.tile) * c.split_k, -(-p.turns // c.split_k)
    units = -(-blocks // sms) * turns * c.tile.m * c.tile.n / c.tile.rate / CELLS_A_NS
    lines, copies = _lines(p, blocks * turns * c.tile.m / c.cluster_n, blocks * turns * c.tile.n / c.cluster_m, units)
    near, far = lines / l2_lines.LINES_A_NS, p.bytes / BYTES_A_NS
    came = max(near, far) + SAME_WAY * min(near, far)
    total = max(units, came) + (1 - BESIDE) * min(units, came) + copies
    if c.cluster_n * c.cluster_m > 1:
        total = total * CLUSTER + CLUSTER_NS
    if c.split_k > 1:
        total += JOIN_NS + PART_NS * c.split_k + 8 * c.split_k * p.m * p.n / JOINED_A_NS
    return total


def _lines(p: Product, left: float, right: float, units: float) -> tuple[float, float]:
    """Lines that are asked of L2 for so many pieces of rows of both factors, and what copies to whole lines take in ns (`transform/pad_rows`)."""
    factors = (left, p.m * p.k * p.size, p.k * p.size), (right, p.n * p.k * p.size, (p.k if p.is_nt else p.n) * p.size)
    cost = l2_lines.STRADDLING
    lines = sum(pieces * (cost if row % LINE and row % 16 == 0 else 1) for pieces, _, row in factors)
    copies = 0.0
    for pieces, whole, row in factors:
        if row % 16:
            copies += l2_lines.copy_ns(whole)
        elif row % LINE and l2_lines.pays(whole, pieces, lines, units):
            copies += l2_lines.copy_ns(whole)
            lines -= (cost - 1) * pieces
    return lines, copies


def _blocks(p: Product, tile: GpuTile) -> int:
    return -(-p.m // tile.m) * -(-p.n // tile.n)

"""Which tile of C, which clusters and how many parts of k suit a product on a GPU: those that cost least by what is counted here.

Three things take time, and most of it passes side by side: the matrix units, the lines that blocks ask of L2, and what comes from memory. Large
tiles ask for few lines and leave multiprocessors idle in the last wave; a cluster of two asks once for what both need; parts of k fill the chip, and
have to be added up. Where no warp groups multiply (sm_80), only the matrix units count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    """A tile; blocks of a cluster along n and m; parts of k. `is_read_once`: memory takes longer than the matrix units."""

    tile: GpuTile
    cluster_n: int = 1
    cluster_m: int = 1
    split_k: int = 1
    is_read_once: bool = False


# Rates: 128 x 256 and 128 x 128 measured on an H200 in November 2026 (with wgmma); the others by the bytes of shared memory that a product reads.
GROUP_TILES = (
    GpuTile(128, 256, 256, 1.0), GpuTile(128, 192, 256, 0.95), GpuTile(128, 128, 256, 0.92),
    GpuTile(64, 128, 128, 0.85), GpuTile(128, 64, 256, 0.8), GpuTile(64, 64, 128, 0.6),
)  # fmt: skip
WARP_TILES = (GpuTile(128, 128, 128, 1.0), GpuTile(64, 128, 128, 0.9), GpuTile(64, 64, 128, 0.75))
FLAT_TILES = (GpuTile(64, 64, 128, 1.0), GpuTile(32, 32, 128, 0.5))  # of multiply-adds

# Measured on an H200 (driver 580, CUDA 13.0), December 2026, beside cuBLAS in turns: `bench gpu --only awkward --only skinny` and variants of it.
LINE = 128  # bytes of L2; a row of a tile in one turn
CELLS_A_NS = 2048 * 1.4 / 64  # of C that a multiprocessor does a turn of 128 bytes for, at the clock in GHz that power leaves
LINES_A_NS = 81.0  # L2, for all: 1000 x 3000 x 5000 in four alignments
BYTES_A_NS = 4300.0  # memory
JOINED_A_NS, JOIN_NS = 3000.0, 3000.0  # bytes of parts, written and read; a second launch
COPIED_A_NS, COPY_NS = 2150.0, 2000.0  # bytes of a matrix that is copied to rows of whole lines (`transform/pad_rows.py`)
BESIDE = 0.9  # of what takes less time passes beside what takes most
CLUSTER, CLUSTER_NS = 1.05, 1500.0  # blocks that go alike wait for one another, and start together
PARTS = (1, 2, 3, 4, 6, 8, 12, 16)
FEWEST_TURNS = 8  # of a part


def choose(p: Product, tiles: tuple[GpuTile, ...], arch: str) -> Choice:
    """The choice that costs least.

    >>> choose(Product(4096, 4096, 4096, 2), GROUP_TILES, "sm_90a").tile.n
    256
    >>> choose(Product(256, 256, 16384, 2), GROUP_TILES, "sm_90a").split_k > 4
    True
    """
    sms = multiprocessors(arch)
    if not has_wgmma(arch) or tiles is FLAT_TILES:
        return Choice(min(tiles, key=lambda t: -(-_blocks(p, t) // sms) * t.m * t.n / t.rate))
    return min(_choices(p, tiles, sms), key=lambda c: cost_ns(p, c, sms))


def _choices(p: Product, tiles: tuple[GpuTile, ...], sms: int) -> Iterator[Choice]:
    is_read_once = p.bytes / BYTES_A_NS > p.m * p.n * p.turns / sms / CELLS_A_NS
    for tile in tiles:
        for parts in PARTS:
            if parts == 1 or p.may_split and p.turns >= FEWEST_TURNS * parts:
                yield Choice(tile, split_k=parts, is_read_once=is_read_once)
        if -(-p.n // tile.n) % 2 == 0:
            yield Choice(tile, cluster_n=2, is_read_once=is_read_once)
        if -(-p.m // tile.m) % 2 == 0:
            yield Choice(tile, cluster_m=2, is_read_once=is_read_once)


def cost_ns(p: Product, c: Choice, sms: int) -> float:
    """How long it takes, in ns."""
    blocks, turns = _blocks(p, c.tile) * c.split_k, -(-p.turns // c.split_k)
    waves = -(-blocks // sms)
    units = waves * turns * c.tile.m * c.tile.n / c.tile.rate / CELLS_A_NS
    left, left_ns = _lines(p.m * p.k * p.size, blocks * turns * c.tile.m / c.cluster_n, p.k * p.size)
    right, right_ns = _lines(p.n * p.k * p.size, blocks * turns * c.tile.n / c.cluster_m, (p.k if p.is_nt else p.n) * p.size)
    taken = units, (left + right) / LINES_A_NS, p.bytes / BYTES_A_NS
    total = max(taken) + (1 - BESIDE) * (sum(taken) - max(taken)) + left_ns + right_ns
    if c.cluster_n * c.cluster_m > 1:
        total = total * CLUSTER + CLUSTER_NS
    if c.split_k > 1:
        total += JOIN_NS + 8 * c.split_k * p.m * p.n / JOINED_A_NS
    return total


def _lines(matrix_bytes: int, pieces: float, row_bytes: int) -> tuple[float, float]:
    """Lines that are asked of L2 for so many pieces of a matrix's rows, and what a copy of the matrix to whole lines costs in ns, if there is one."""
    if row_bytes % LINE == 0:
        return pieces, 0.0
    copy = matrix_bytes / COPIED_A_NS + COPY_NS
    return (2 * pieces, 0.0) if row_bytes % 16 == 0 and pieces / LINES_A_NS <= 1.5 * copy else (pieces, copy)


def _blocks(p: Product, tile: GpuTile) -> int:
    return -(-p.m // tile.m) * -(-p.n // tile.n)

"""What an access costs where memory is cut into banks, sectors, lines and sets. Rule-based: counted by rules, not measured.

Shared memory of a GPU has 32 banks of 4 bytes; one *wavefront* serves each bank once. A warp's access is served in phases: all 32 threads for
accesses of up to 4 bytes, 16 threads for 8 bytes, 8 threads for 16 bytes. Within a phase, threads that want the same 4-byte word share it; two words
of one bank need two wavefronts. The ideal is one wavefront for each phase; *excess* is what comes on top, and is what profilers call conflicts.

Three examples. Each thread reads 16 bytes, one after the other: 4 phases, 4 wavefronts, nothing in excess.

>>> lanes = np.arange(32)
>>> wavefronts(lanes * 16, 16)
Wavefronts(total=4, ideal=4)

Each thread reads 4 bytes of a row of its own, rows 128 bytes apart: 32 words of bank 0.

>>> wavefronts(lanes * 128, 4)
Wavefronts(total=32, ideal=1)

One row has 132 bytes (padded by one word): all banks differ. And all threads reading one word is a broadcast.

>>> wavefronts(lanes * 132, 4), wavefronts(lanes * 0, 4)
(Wavefronts(total=1, ideal=1), Wavefronts(total=1, ideal=1))

Source: CUDA C++ Programming Guide, "Shared Memory" (32 banks of 4 bytes, broadcast); the phases of 8- and 16-byte accesses are the rule of thumb that
agrees with published counters. Newer chips pair some uniform accesses and may need fewer wavefronts than the rule says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .algebra import Array

BANKS = 32
BANK_BYTES = 4
WARP = 32
SECTOR_BYTES = 32
RULE = "rule-based: counted by the phase rule, not measured"


@dataclass(frozen=True, slots=True)
class Wavefronts:
    """Wavefronts of one or more accesses: `total` by the rule, `ideal` one for each phase that has a thread in it."""

    total: int
    ideal: int

    @property
    def excess(self) -> int:
        """Wavefronts that banks in conflict add."""
        return self.total - self.ideal

    def __add__(self, other: Wavefronts) -> Wavefronts:
        return Wavefronts(self.total + other.total, self.ideal + other.ideal)

    def times(self, count: int) -> Wavefronts:
        """The wavefronts of `count` such accesses."""
        return Wavefronts(self.total * count, self.ideal * count)


@dataclass(frozen=True, slots=True)
class Serving:
    """One word that one lane gets: in `wavefront`, from `bank`; `word` counts 4-byte words from address 0; `is_shared`: another lane gets it too."""

    wavefront: int
    lane: int
    bank: int
    word: int
    is_shared: bool


def phase_threads(width: int) -> int:
    """How many threads of a warp are served together, for accesses of `width` bytes each. Raises ValueError unless width is 1, 2, 4, 8 or 16."""
    if width not in (1, 2, 4, 8, 16):
        raise ValueError(f"an access is 1, 2, 4, 8 or 16 bytes wide, not {width}")
    return WARP if width <= 4 else WARP * 4 // width


def wavefronts(addresses: ArrayLike, width: int) -> Wavefronts:
    """Count the wavefronts of accesses of shared memory.

    Args:
        addresses: byte address of each thread, (warps, 32) or (32,); negative: the thread takes no part. Fewer than 32 threads are allowed.
        width: bytes of each thread's access.
    Raises: ValueError for a width that does not exist, or an address that is not a multiple of it (hardware faults there).
    """
    most = _bank_hits(_checked(addresses, width), width).max(axis=1)
    return Wavefronts(int(most.sum()), int((most > 0).sum()))


def _bank_hits(starts: Array, width: int) -> Array:
    """(phases, banks): how many different words of each bank are wanted in each phase."""
    count = max(width // BANK_BYTES, 1)
    phases = starts.reshape(-1, phase_threads(width))
    words = (phases // BANK_BYTES)[..., None] + np.arange(count)
    words = np.where(phases[..., None] >= 0, words, -1).reshape(len(phases), -1)
    words.sort(axis=1)
    is_new = words >= 0
    is_new[:, 1:] &= words[:, 1:] != words[:, :-1]
    place = np.arange(len(phases))[:, None] * BANKS + words % BANKS
    return np.bincount(place[is_new], minlength=len(phases) * BANKS).reshape(len(phases), BANKS)


def serve(addresses: ArrayLike, width: int) -> tuple[Serving, ...]:
    """Which lane gets which word in which wavefront, for one warp. The words of a bank are served in the order of the first lane that wants them.

    >>> [(s.wavefront, s.lane, s.bank) for s in serve([0, 128, 4, 0], 4)]
    [(0, 0, 0), (1, 1, 0), (0, 2, 1), (0, 3, 0)]
    """
    starts = np.asarray(addresses, dtype=np.int64).reshape(-1)
    if len(starts) > WARP:
        raise ValueError(f"serve shows one warp of {WARP} threads, got {len(starts)}")
    _checked(starts, width)
    group, count, first = phase_threads(width), max(width // BANK_BYTES, 1), 0
    out: list[Serving] = []
    for start in range(0, len(starts), group):
        lanes = [x for x in range(start, min(start + group, len(starts))) if starts[x] >= 0]
        wants = [(lane, int(starts[lane]) // BANK_BYTES + i) for lane in lanes for i in range(count)]
        order: dict[int, dict[int, int]] = {}
        for _, word in wants:
            of_bank = order.setdefault(word % BANKS, {})
            of_bank.setdefault(word, len(of_bank))
        asked = [word for _, word in wants]
        out += [Serving(first + order[w % BANKS][w], lane, w % BANKS, w, asked.count(w) > 1) for lane, w in wants]
        first += max((len(of_bank) for of_bank in order.values()), default=0)
    return tuple(out)


def _checked(addresses: ArrayLike, width: int) -> Array:
    """The addresses as whole warps, (warps, 32), -1 where no thread is. Raises ValueError for what hardware cannot do."""
    phase_threads(width)
    starts = np.atleast_2d(np.asarray(addresses, dtype=np.int64))
    if starts.shape[1] > WARP:
        raise ValueError(f"a warp has {WARP} threads, got addresses of {starts.shape[1]}")
    unaligned = starts[(starts >= 0) & (starts % width != 0)]
    if unaligned.size:
        raise ValueError(f"address {int(unaligned[0])} is not a multiple of {width}: hardware cannot do this access")
    return np.pad(starts, ((0, 0), (0, WARP - starts.shape[1])), constant_values=-1)


# ---------------------------------------------------------------------------------------------- global memory and caches
@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of memory (sectors or lines) that accesses touch. `moved`, `wanted` count bytes; `ideal` is the fewest pieces that hold them."""

    touched: int
    ideal: int
    piece_bytes: int
    wanted: int

    @property
    def moved(self) -> int:
        return self.touched * self.piece_bytes

    @property
    def wasted(self) -> int:
        """Bytes that come along and nobody asked for."""
        return self.moved - self.wanted


def pieces(addresses: ArrayLike, width: int, piece_bytes: int = SECTOR_BYTES) -> Pieces:
    """Sectors (or lines) of each row of `addresses` (one request a row), added up. A byte that two threads of a request want counts once.

    >>> pieces(np.arange(32) * 4, 4)                     # 128 bytes in a row: 4 sectors
    Pieces(touched=4, ideal=4, piece_bytes=32, wanted=128)
    >>> pieces(np.arange(32) * 64, 4).wasted             # every thread alone in its sector
    896
    """
    touched = ideal = wanted = 0
    for row in np.atleast_2d(np.asarray(addresses, dtype=np.int64)):
        starts = row[row >= 0]
        asked = np.unique(starts[:, None] + np.arange(width))
        touched += len(np.unique(asked // piece_bytes))
        ideal += -(-len(asked) // piece_bytes)
        wanted += len(asked)
    return Pieces(touched, ideal, piece_bytes, wanted)


@dataclass(frozen=True, slots=True)
class CacheShape:
    """A set-associative cache: an address belongs to set `address // line_bytes % sets`, which holds `ways` lines. `source` of the numbers."""

    name: str
    line_bytes: int
    sets: int
    ways: int
    source: str = ""

    @property
    def bytes(self) -> int:
        return self.line_bytes * self.sets * self.ways

    def lines(self, addresses: ArrayLike) -> Array:
        """The line of each address."""
        return np.asarray(addresses, dtype=np.int64) // self.line_bytes

    def set_of(self, addresses: ArrayLike) -> Array:
        """The set of each address."""
        return self.lines(addresses) % self.sets

    def crowded(self, addresses: ArrayLike) -> dict[int, int]:
        """Sets that these addresses need more lines of than there are ways: set -> lines. They cannot all stay.

        >>> l1 = l1_shape(48 * 1024)
        >>> l1.sets, l1.ways, l1.crowded(np.arange(16) * 4096)        # a column whose rows are 4 KiB apart
        (64, 12, {0: 16})
        """
        lines = np.unique(self.lines(addresses))
        counts = np.bincount(lines % self.sets, minlength=self.sets)
        return {int(s): int(counts[s]) for s in np.flatnonzero(counts > self.ways)}


def l1_shape(capacity: int, line_bytes: int = 64, page_bytes: int = 4096) -> CacheShape:
    """The L1 of a CPU with this capacity. Assumed: its sets are chosen by address bits within a page, so that sets * line = page; ways follow.

    That holds for the x86 cores since Nehalem and Zen (32 KiB: 8 ways, 48 KiB: 12 ways), and for Apple's with pages of 16 KiB and lines of 128 bytes.
    """
    sets = page_bytes // line_bytes
    return CacheShape(
        "L1", line_bytes, sets, max(capacity // page_bytes, 1), f"{capacity // 1024} KiB, sets x line = a page of {page_bytes // 1024} KiB"
    )


def false_sharing(addresses: ArrayLike, threads: ArrayLike, line_bytes: int = 64) -> tuple[int, ...]:
    """Lines that several threads write: they travel between cores at every write. `threads` says who writes each address.

    >>> false_sharing([0, 32, 64, 128], [0, 1, 1, 2])
    (0,)
    """
    lines = np.asarray(addresses, dtype=np.int64).ravel() // line_bytes
    pairs = np.unique(np.stack([lines, np.asarray(threads, dtype=np.int64).ravel()], axis=1), axis=0)
    found, counts = np.unique(pairs[:, 0], return_counts=True)
    return tuple(int(x) for x in found[counts > 1])

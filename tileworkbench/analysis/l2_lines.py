"""What rows of an array cost that begin at other multiples than of a line of L2: each piece of a tile then lies in two lines.

Measured on an H200 (driver 580, CUDA 13.0), December 2026: products of 1000 x 3000 x 5000 in tiles of 128 x 192 take 47 us with whole lines, 55 where
the rows of A straddle them, 62 for those of B and 80 for both; 1024 x 1024 x 8192 asks for 107 lines a ns. 4096 x 4096 x 4104, whose matrix units are
busy all the time, loses nothing by its rows, and 9 % by a copy.
"""

from __future__ import annotations

LINE = 128  # bytes
LINES_A_NS = 107.0  # that L2 serves all blocks together
STRADDLING = 2.7  # what a piece in two lines costs, in pieces that are a line
COPIED_A_NS, COPY_NS = 2150.0, 2000.0  # bytes of a copy, read and written at the speed of memory; and its launch
CLEARLY = 1.5


def straddles(row_bytes: int) -> bool:
    """Whether rows of so many bytes, one behind the other, begin elsewhere than at lines.

    >>> straddles(6000), straddles(6144)
    (True, False)
    """
    return row_bytes % LINE != 0


def copy_ns(array_bytes: int) -> float:
    """What it takes to copy an array to rows of whole lines, in ns."""
    return array_bytes / COPIED_A_NS + COPY_NS


def pays(array_bytes: int, pieces: float, lines: float, others_ns: float) -> bool:
    """Whether such a copy costs clearly less than what it saves: of `lines` that all blocks ask for, `pieces` straddle. `others_ns`: what else takes.

    >>> pays(10_000_000, 128 * 79 * 128, (128 + 96) * 2.7 * 79 * 128, 42e3), pays(33_600_000, 2**23, 2**24, 185e3)
    (True, False)
    """
    now, then = lines / LINES_A_NS, (lines - (STRADDLING - 1) * pieces) / LINES_A_NS
    return max(now, others_ns) - max(then, others_ns) > CLEARLY * copy_ns(array_bytes)

"""Fragments: tiles that the threads of a block hold in registers, as digits of the thread's and the register's number.

Write the number of a thread and of one of its registers in a mixed radix. Each digit moves the cell along one dim of the tile by a stride, or,
without a dim, moves nothing: threads that differ only there hold copies. The sum of the moves is the cell that this register of this thread holds;
where it lies outside the tile the register holds nothing. So one formula gives code its coordinates, and one table answers every question.

>>> rows = flat((4, 8), threads=16, vector=2)         # two neighbours a thread
>>> rows.cells()[:, 5, 1].tolist()                     # register 1 of thread 5
[1, 3]
>>> rows.drop(1).cells()[0].tolist()[:6]               # what a sum over the columns leaves: four threads hold each row's
[[0], [0], [0], [0], [1], [1]]
>>> mma_c(1, 1, 16, 8).owners()[8, 3].tolist(), int(mma_c(1, 1, 16, 8).register_of()[8, 3])
([1], 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np

from .algebra import Array

WARP = 32


@dataclass(frozen=True, slots=True)
class Digit:
    """`number // div % mod`, of the "thread" or the "register", moves `stride` cells along `dim`; nothing where `dim` is -1."""

    source: str
    div: int
    mod: int
    dim: int = -1
    stride: int = 0


@dataclass(frozen=True, slots=True)
class Fragment:
    """A tile of `shape` in `registers` registers of each of `threads` threads."""

    shape: tuple[int, ...]
    threads: int
    registers: int
    digits: tuple[Digit, ...]

    def cells(self) -> Array:
        """(rank, threads, registers): the coordinates of every register's cell; -1 in all dims where it holds none."""
        return _cells(self)

    def owners(self) -> dict[tuple[int, ...], Array]:
        """Cell -> the threads that hold it."""
        return _owners(self)

    def register_of(self) -> Array:
        """An array of the tile's shape: the register of each cell, the same in every thread that holds it. Raises ValueError where it is not."""
        found = np.full(self.shape, -1, dtype=np.int64)
        cells = self.cells()
        for register in range(self.registers):
            at = cells[:, :, register]
            at = at[:, at[0] >= 0]
            old = found[tuple(at)]
            if np.any((old >= 0) & (old != register)):
                raise ValueError("a cell lies in different registers of its threads")
            found[tuple(at)] = register
        return found

    @property
    def is_whole(self) -> bool:
        """Whether every cell is held."""
        cells = self.cells()
        seen = np.zeros(self.shape, dtype=bool)
        seen[tuple(cells[:, cells[0] >= 0])] = True
        return bool(seen.all())

    @property
    def copies(self) -> int:
        """How many threads hold each cell: those that differ in digits that move nothing."""
        return prod(d.mod for d in self.digits if d.source == "thread" and d.dim < 0)

    @property
    def vector(self) -> int:
        """How many registers, from any multiple of that on, hold neighbours along the last dim."""
        last = len(self.shape) - 1
        return next((d.mod for d in self.digits if (d.source, d.div, d.dim, d.stride) == ("register", 1, last, 1)), 1)

    def drop(self, dim: int) -> Fragment:
        """The tile without `dim`, such as a reduction along it leaves: each thread that held cells of a row holds the row's value, once."""
        kept = [d for d in self.digits if d.source == "register" and d.dim not in (dim, -1)]
        digits, div = [], 1
        for d in kept:
            digits.append(Digit("register", div, d.mod, d.dim - (d.dim > dim), d.stride))
            div *= d.mod
        for d in self.digits:
            if d.source == "thread":
                moves = d.dim not in (dim, -1)
                digits.append(Digit("thread", d.div, d.mod, d.dim - (d.dim > dim) if moves else -1, d.stride if moves else 0))
        shape = tuple(s for i, s in enumerate(self.shape) if i != dim)
        return Fragment(shape, self.threads, div, tuple(digits))


@cache
def _cells(fragment: Fragment) -> Array:
    thread, register = np.arange(fragment.threads)[:, None], np.arange(fragment.registers)[None, :]
    out = np.zeros((len(fragment.shape), fragment.threads, fragment.registers), dtype=np.int64)
    for d in fragment.digits:
        if d.dim >= 0:
            out[d.dim] += (thread if d.source == "thread" else register) // d.div % d.mod * d.stride
    outside = np.any(out >= np.array(fragment.shape)[:, None, None], axis=0)
    used = prod(d.mod for d in fragment.digits if d.source == "thread")
    outside |= thread >= used
    out[:, outside] = -1
    out.flags.writeable = False
    return out


@cache
def _owners(fragment: Fragment) -> dict[tuple[int, ...], Array]:
    found: dict[tuple[int, ...], set[int]] = {}
    cells = fragment.cells()
    for thread in range(fragment.threads):
        for register in range(fragment.registers):
            at = tuple(int(x) for x in cells[:, thread, register])
            if at[0] >= 0:
                found.setdefault(at, set()).add(thread)
    return {cell: np.array(sorted(threads), dtype=np.int64) for cell, threads in found.items()}


# ---------------------------------------------------------------------------------------------- the layouts that code wants
def flat(shape: Sequence[int], threads: int, vector: int = 1) -> Fragment:
    """Row after row: `vector` neighbours of the last dim to a thread, then the next thread, then the next row; rounds when the threads are used up.

    Where a row is not a whole number of vectors its last one is short; threads that do not fill a row stay idle.
    """
    digits: list[Digit] = [Digit("register", 1, vector, len(shape) - 1, 1)] if vector > 1 else []
    free, div, register = threads, 1, vector
    for dim in reversed(range(len(shape))):
        step = vector if dim == len(shape) - 1 else 1
        pieces = -(-shape[dim] // step)
        held = min(pieces, free)
        if held > 1:
            digits.append(Digit("thread", div, held, dim, step))
        rounds = -(-pieces // held)
        if rounds > 1:
            digits.append(Digit("register", register, rounds, dim, step * held))
        free, div, register = free // held, div * held, register * rounds
    return Fragment(tuple(shape), threads, register, (*digits, *_idle(threads, div)))


def micro_tiles(shape: tuple[int, int], threads: int) -> Fragment:
    """Threads side by side in a few rows, each with cells from as many rows as columns, about: what a product reads least for. Vectors of up to 4.

    Rows and columns that the threads cannot share evenly are short, as in `flat`. The columns of threads depend on the width only where it is small,
    so that tiles of equal height lie with equal rows.
    """
    m, n = shape
    vector = 4 if n % 4 == 0 else 1
    pieces = -(-n // vector)
    across = min(pieces, 16 if threads >= 128 else 8, threads)
    down = min(m, threads // across)
    if 2 * down * across <= threads:
        across = min(pieces, threads // down)
    digits = [Digit("register", 1, vector, 1, 1)] if vector > 1 else []
    digits += [Digit("thread", 1, across, 1, vector), Digit("thread", across, down, 0, 1)]
    further, rounds = -(-pieces // across), -(-m // down)
    digits += [Digit("register", vector, further, 1, vector * across)] if further > 1 else []
    digits += [Digit("register", vector * further, rounds, 0, down)] if rounds > 1 else []
    return Fragment(shape, threads, vector * further * rounds, (*digits, *_idle(threads, across * down)))


def mma_c(warps_m: int, warps_n: int, m: int, n: int) -> Fragment:
    """The accumulator of `mma.m16n8`, warps side by side: warp w has the rows of w % warps_m and the columns of w // warps_m, 16 x 8 cells at a time.

    `m` and `n` are the tile's; a warp's share is a multiple of 16 x 8. Source: PTX ISA, matrix fragments for mma.m16n8k16.
    """
    digits = [Digit("thread", 1, 4, 1, 2), Digit("thread", 4, 8, 0, 1), Digit("register", 1, 2, 1, 1), Digit("register", 2, 2, 0, 8)]
    rest = [(0, 16, m // warps_m), (1, 8, n // warps_n)]
    return _tiled(digits, 4, rest, (m, n), (warps_m, warps_n))


def mma_a(warps_m: int, warps_n: int, m: int, k: int, bits: int = 16, step: int = 0) -> Fragment:
    """The left operand of `mma.m16n8k(step)` in registers: words of 32 bits along k. Warps along n hold copies. `step`: 256 / bits, or half of it."""
    word = 32 // bits
    step = step or 8 * word
    inner = [Digit("register", 1, word, 1, 1)] if word > 1 else []
    lanes = [Digit("thread", 1, 4, 1, word), Digit("thread", 4, 8, 0, 1)]
    digits = [*lanes, *inner, Digit("register", word, 2, 0, 8)]
    if step > 4 * word:
        digits.append(Digit("register", 2 * word, 2, 1, 4 * word))
    return _tiled(digits, step // 2, [(0, 16, m // warps_m), (1, step, k)], (m, k), (warps_m, warps_n), along=(0, None))


def mma_b(warps_m: int, warps_n: int, n: int, k: int, bits: int = 16, step: int = 0) -> Fragment:
    """The right operand, a tile of (k, n), likewise. Warps along m hold copies."""
    word = 32 // bits
    step = step or 8 * word
    inner = [Digit("register", 1, word, 0, 1)] if word > 1 else []
    lanes = [Digit("thread", 1, 4, 0, word), Digit("thread", 4, 8, 1, 1)]
    digits = [*lanes, *inner]
    if step > 4 * word:
        digits.append(Digit("register", word, 2, 0, 4 * word))
    return _tiled(digits, step // 4, [(1, 8, n // warps_n), (0, step, k)], (k, n), (warps_m, warps_n), along=(None, 1))


def wgmma_c(groups: int, m: int, n: int) -> Fragment:
    """The accumulator of `wgmma.m64nN`: warps of a group below one another, groups below those; N is the whole width."""
    digits = [
        Digit("thread", 1, 4, 1, 2), Digit("thread", 4, 8, 0, 1), Digit("thread", 32, 4, 0, 16), Digit("register", 1, 2, 1, 1),
        Digit("register", 2, 2, 0, 8), Digit("register", 4, n // 8, 1, 8),
    ]  # fmt: skip
    blocks = m // 64 // groups
    if blocks > 1:
        digits.append(Digit("register", n // 2, blocks, 0, 64))
    if groups > 1:
        digits.append(Digit("thread", 128, groups, 0, 64 * blocks))
    return Fragment((m, n), 128 * groups, n // 2 * blocks, tuple(digits))


def wgmma_a(groups: int, m: int, k: int, bits: int = 16) -> Fragment:
    """The left operand of `wgmma.m64` in registers: each warp has the rows of its accumulator."""
    word = 32 // bits
    digits = [Digit("thread", 1, 4, 1, word), Digit("thread", 4, 8, 0, 1), Digit("thread", 32, 4, 0, 16)]
    digits += [Digit("register", 1, word, 1, 1)] if word > 1 else []
    digits += [Digit("register", word, 2, 0, 8), Digit("register", 2 * word, 2, 1, 4 * word)]
    registers, blocks, steps = 4 * word, m // 64 // groups, k // (8 * word)
    digits += [Digit("register", registers, steps, 1, 8 * word)] if steps > 1 else []
    digits += [Digit("register", registers * steps, blocks, 0, 64)] if blocks > 1 else []
    digits += [Digit("thread", 128, groups, 0, 64 * blocks)] if groups > 1 else []
    return Fragment((m, k), 128 * groups, registers * steps * blocks, tuple(digits))


def _tiled(
    digits: list[Digit],
    registers: int,
    rest: list[tuple[int, int, int]],
    shape: tuple[int, int],
    warps: tuple[int, int],
    along: tuple[int | None, int | None] = (0, 1),
) -> Fragment:
    """A warp's pieces repeated over its share (dim, cells of a piece, cells of the share), and the shares over the warps."""
    out = list(digits)
    for dim, piece, share in rest:
        if share % piece:
            raise ValueError(f"a warp's share of {share} is not a multiple of {piece}")
        if share > piece:
            out.append(Digit("register", registers, share // piece, dim, piece))
        registers *= share // piece
    div = WARP
    for count, moves in zip(warps, along, strict=True):
        if count > 1:
            out.append(Digit("thread", div, count) if moves is None else Digit("thread", div, count, moves, shape[moves] // count))
        div *= count
    return Fragment(shape, div, registers, tuple(out))


def _idle(threads: int, used: int) -> tuple[Digit, ...]:
    """Threads beyond the last round hold copies if they are whole sets of all that are used."""
    sets = threads // used
    return (Digit("thread", used, sets),) if sets > 1 else ()


def own_registers(loop: Fragment, tile: Fragment, indices: Array) -> Array | None:
    """The register of `tile` that every thread wants in each register (iteration) of `loop`, or None where a thread would want another's cell.

    `indices` (rank of the tile, threads, registers of the loop) are the cells wanted, -1 where an iteration does nothing. The answer has one number
    per iteration, -1 where no thread does anything: that it is the same in all threads is what makes it a register.
    """
    if any(np.any(at >= size) for at, size in zip(indices, tile.shape, strict=True)):
        return None
    held = _numbered(tile)
    busy = indices[0] >= 0
    wanted = np.where(busy, _number(indices, tile.shape), -1)
    steps, first = np.nonzero(busy.any(axis=0))[0], busy.argmax(axis=0)
    out = np.full(loop.registers, -1, dtype=np.int64)
    own = held[first[steps]][:, ::-1] == wanted[first[steps], steps][:, None]  # of the last register that holds a cell
    out[steps] = np.where(own.any(axis=1), tile.registers - 1 - own.argmax(axis=1), -1)
    if np.any(out[steps] < 0) or np.any((held[:, out[steps]] != wanted[:, steps]) & busy[:, steps]):
        return None
    return out


def holders(tile: Fragment) -> tuple[Array, Array]:
    """The first thread that holds each cell of the tile, and its register there; -1 where nobody does.

    >>> [x.tolist() for x in holders(flat((1, 4), threads=2, vector=2))]
    [[[0, 0, 1, 1]], [[0, 1, 0, 1]]]
    """
    cells = _numbered(tile)
    owner, slot = np.full((2, prod(tile.shape)), -1, dtype=np.int64)
    threads, registers = np.nonzero(cells >= 0)
    threads, registers = threads[::-1], registers[::-1]  # the first holder is written last
    owner[cells[threads, registers]] = threads
    slot[cells[threads, registers]] = registers
    return owner.reshape(tile.shape), slot.reshape(tile.shape)


@cache
def _numbered(tile: Fragment) -> Array:
    """(threads, registers): the cell of each register as one number, -1 for none."""
    cells = tile.cells()
    return np.where(cells[0] >= 0, _number(cells, tile.shape), -1)


def _number(cells: Array, shape: tuple[int, ...]) -> Array:
    out = np.zeros(cells.shape[1:], dtype=np.int64)
    for at, size in zip(cells, shape, strict=True):
        out = out * size + at
    return out


def steps_of(loop: Fragment, registers: Array) -> dict[Digit, int] | None:
    """`registers[register]` as a sum over the digits of the loop's register, each times its step, from registers[0] on; None if it is none."""
    digits = [d for d in loop.digits if d.source == "register" and d.mod > 1]
    asked = np.nonzero(registers >= 0)[0]
    numbers = np.arange(loop.registers)
    steps = {d: int(registers[d.div] - registers[0]) for d in digits}
    found = registers[0] + sum(numbers // d.div % d.mod * step for d, step in steps.items())
    return steps if np.array_equal(np.broadcast_to(found, numbers.shape)[asked], registers[asked]) else None


def is_formula(loop: Fragment, registers: Array) -> bool:
    """Whether `registers`, by number of the loop's register, is a formula of it."""
    return steps_of(loop, registers) is not None

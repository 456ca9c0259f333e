"""What a random program is made of: a `Case` with its own tensors and launches, and the `Maker` that draws its parts.

Numbers are small integers (exact in every type, and in every order of addition) unless a generator asks for others, so that targets can be
compared to the bit without tolerances.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileworkbench.base.dtypes import INDEX, DType
from tileworkbench.ir.expr import Buffer, Const, Expr, Var
from tileworkbench.ir.stmt import Launch, Stmt

GUARD = 128  # bytes in front of and behind every array, which no kernel may touch
FILL = 0xA5

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
NIBBLES = ("int4", "uint4")
ALL = (*FLOATS, *INTS, *NIBBLES, "bool")


@dataclass
class Case:
    """Launches (`body`, host level), the tensors they work on, and the values of symbolic dims and scalar parameters."""

    name: str
    tensors: list[tuple[Buffer, Array]] = field(default_factory=list)
    body: list[Stmt] = field(default_factory=list)
    dims: dict[Var, int] = field(default_factory=dict)
    scalars: dict[Var, Any] = field(default_factory=dict)
    workspaces: list[Buffer] = field(default_factory=list)
    rtol: float = 0.0
    atol: float = 0.0


class Array:
    """A host array in guarded memory: `array` is what the interpreter gets, `pointer` what C gets."""

    def __init__(self, shape: Sequence[int], dtype: DType, strides: Sequence[int] | None, values: np.ndarray) -> None:
        self.shape, self.dtype, self.strides = tuple(shape), dtype, strides
        if dtype.bits == 4:
            count = int(np.prod(shape, dtype=int))
            bits = np.zeros(-(-count // 2) * 2, np.uint8)
            bits[:count] = values.astype(np.int8).view(np.uint8).reshape(-1) & 15
            self.memory = self._guarded(len(bits) // 2, 1)
            self.array = self.memory[GUARD + 1 : len(self.memory) - GUARD]
            self.array[...] = bits[0::2] | bits[1::2] << 4
            return
        element = dtype.to_numpy()
        steps = strides if strides is not None else row_major(shape)
        span = 0 if 0 in self.shape else 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))
        self.memory = self._guarded(span * element.itemsize, element.itemsize)
        start = GUARD + element.itemsize  # aligned to an element and to nothing more
        flat = self.memory[start : start + span * element.itemsize].view(element)
        self.array = strided(flat, self.shape, tuple(s * element.itemsize for s in steps))
        self.array[...] = values

    def _guarded(self, nbytes: int, item: int) -> np.ndarray:
        whole = np.empty(nbytes + 2 * GUARD + item + 64, np.uint8)
        skip = -whole.ctypes.data % 64
        memory = whole[skip : skip + nbytes + 2 * GUARD + item]
        memory[...] = FILL
        return memory

    def copy(self) -> Array:
        other = Array.__new__(Array)
        other.shape, other.dtype, other.strides = self.shape, self.dtype, self.strides
        item = 1 if self.dtype.bits == 4 else self.array.itemsize
        other.memory = other._guarded(len(self.memory) - 2 * GUARD - item, item)
        other.memory[...] = self.memory
        start = GUARD + item
        if self.dtype.bits == 4:
            other.array = other.memory[start : len(other.memory) - GUARD]
        else:
            flat = other.memory[start : len(other.memory) - GUARD].view(self.array.dtype)
            other.array = strided(flat, self.shape, self.array.strides)
        return other

    @property
    def pointer(self) -> int:
        return int(self.memory.ctypes.data) + GUARD + (1 if self.dtype.bits == 4 else self.array.itemsize)

    def tight(self) -> np.ndarray:
        """A copy of the elements' memory without the guards."""
        return self.memory[self.pointer - int(self.memory.ctypes.data) : len(self.memory) - GUARD].copy()

    def values(self) -> np.ndarray:
        """The elements; 4-bit ones unpacked."""
        if self.dtype.bits != 4:
            return self.array
        halves = np.stack([self.array & 15, self.array >> 4], -1).reshape(-1)[: int(np.prod(self.shape, dtype=int))].reshape(self.shape)
        return halves if self.dtype.kind == "u" else (halves ^ 8).astype(np.int8) - 8

    def untouched(self) -> bool:
        """Whether every byte that belongs to no element is as it was."""
        inside = np.zeros(len(self.memory), bool)
        if self.dtype.bits == 4:
            inside[GUARD + 1 : len(self.memory) - GUARD] = True
        elif 0 not in self.shape:
            item = self.array.itemsize
            flat = inside[GUARD + item : len(self.memory) - GUARD]
            np.lib.stride_tricks.as_strided(flat, (*self.shape, item), (*self.array.strides, 1))[...] = True
        return bool((self.memory[~inside] == FILL).all())


def strided(flat: np.ndarray, shape: Sequence[int], steps: Sequence[int]) -> np.ndarray:
    """`flat` with a shape and strides in bytes; NumPy's own function does not know the types of ml_dtypes."""
    bits = flat.view(f"u{flat.itemsize}")
    return np.lib.stride_tricks.as_strided(bits, shape, steps).view(flat.dtype)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements."""
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step *= n
    return tuple(reversed(out))


def _asked(tile: Buffer) -> str:
    """A layout for some of the shared tiles, which only a GPU target follows: padding, an XOR of offsets, permuted rows. The name alone decides."""
    rng = random.Random(tile.name)
    if tile.scope != "shared" or tile.view_of is not None or tile.strides is not None or tile.type.bits < 8 or rng.random() < 0.6:
        return ""
    shape = tile.static_shape()
    count, rows = math.prod(shape), row_major(shape)
    kind = rng.choice(("padding", "xor", "rows"))
    if kind == "rows" or not count:
        return f"{tile.name} {rng.choice((128, 64, 32))}"
    if kind == "padding":
        return f"{tile.name} strides {' '.join(map(str, _padded(shape, rng.randint(1, 9))))}"
    base, bits = rng.randint(0, 3), rng.randint(1, 3)
    shift = bits + rng.randint(0, 3)
    if count % (1 << (base + bits)):
        return ""
    return f"{tile.name} strides {' '.join(map(str, rows))} xor {bits} {base} {shift}"


def _padded(shape: Sequence[int], more: int) -> list[int]:
    """Strides of rows that are `more` elements longer."""
    return [s // shape[-1] * (shape[-1] + more) if d < len(shape) - 1 else 1 for d, s in enumerate(row_major(shape))]


class Maker:
    """Draws names, shapes, numbers and buffers for one case."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self.rng, self.name = rng, name
        self.case = Case(name)
        self.count = 0
        self.numbers = np.random.default_rng(rng.getrandbits(32))

    # ------------------------------------------------------------------------------------------ choices
    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def pick(self, items: Sequence[Any]) -> Any:
        return items[self.rng.randrange(len(items))]

    def between(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    # ------------------------------------------------------------------------------------------ names
    def fresh(self, hint: str) -> str:
        self.count += 1
        return f"{self.name}_{hint}{self.count}"

    def var(self, hint: str, dtype: str | DType = INDEX) -> Var:
        return Var(self.fresh(hint), DType(dtype))

    def dim(self, value: int) -> Var:
        """A symbolic dim of this value."""
        var = self.var("n")
        self.case.dims[var] = value
        return var

    # ------------------------------------------------------------------------------------------ data
    def data(self, shape: Sequence[int], dtype: DType, high: int = 4) -> np.ndarray:
        """Integers in [-high, high], or what the dtype has of them."""
        if dtype.is_bool:
            return self.numbers.integers(0, 2, shape).astype(np.bool_)
        low = 0 if dtype.kind == "u" else -high
        return self.numbers.integers(low, high + 1, shape).astype(np.int8 if dtype.bits == 4 else dtype.to_numpy())

    def any_data(self, shape: Sequence[int], dtype: DType) -> np.ndarray:
        """Any numbers, with infinities and NaN."""
        if dtype.is_bool:
            return self.data(shape, dtype)
        if dtype.is_int:
            bits = self.numbers.integers(0, 256, (*shape, max(1, dtype.bits // 8)), dtype=np.uint8)
            if dtype.bits == 4:
                return bits[..., 0] & 15
            return bits.view(dtype.to_numpy())[..., 0]
        x = self.numbers.standard_normal(shape) * 10.0 ** self.numbers.integers(-8, 8, shape)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 448.0, 65504.0, 3e38, 1e-40, 127.5, 128.0, -129.0, 2.0**31, -(2.0**63), 0.5])
        with np.errstate(all="ignore"):
            return np.where(self.numbers.random(shape) < 0.3, self.numbers.choice(special, shape), x).astype(dtype.to_numpy())

    def tensor(
        self, shape: Sequence[int | Var], dtype: str, strides: Sequence[int] | None = None, values: np.ndarray | None = None, **more: Any
    ) -> Buffer:
        """A tensor parameter; symbolic dims take the values that `dim` gave them."""
        sizes = [self.case.dims[d] if isinstance(d, Var) else d for d in shape]
        kind = DType(dtype)
        steps = None if strides is None else tuple(Const(s) for s in strides)
        buffer = Buffer(self.fresh("A"), tuple(d if isinstance(d, Var) else Const(d) for d in shape), kind, "global", steps, **more)
        self.case.tensors.append((buffer, Array(sizes, kind, strides, self.data(sizes, kind) if values is None else values)))
        return buffer

    def tile(self, shape: Sequence[int], dtype: str, scope: str = "", **more: Any) -> Buffer:
        """An on-chip buffer."""
        return Buffer(self.fresh("t"), tuple(Const(d) for d in shape), DType(dtype), scope or self.pick(("shared", "fragment")), **more)

    def size_of(self, buffer: Buffer) -> list[int]:
        """Its shape as numbers."""
        return [self.case.dims[d] if isinstance(d, Var) else int(d.value) for d in buffer.shape]

    def launch(self, body: Sequence[Stmt], allocs: Sequence[Buffer] = (), grid: Sequence[tuple[Var, int | Expr]] = (), **more: Any) -> None:
        """Add a launch of a grid of (variable, extent)."""
        grid = grid or ((self.var("bx"), 1),)
        extents = tuple(Const(e) if isinstance(e, int) else e for _, e in grid)
        threads, lanes = more.pop("threads", (128,)), more.pop("lanes", ())
        hints = (("annotate_layout", ", ".join(filter(None, map(_asked, allocs)))),)
        self.case.body.append(Launch(extents, tuple(v for v, _ in grid), threads, tuple(lanes), tuple(allocs), tuple(body), bool(lanes), hints))

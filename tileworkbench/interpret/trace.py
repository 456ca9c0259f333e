"""What a traced run tells: every tile operation in order, and the bytes and operations it took.

>>> from tileworkbench.interpret import run                                                # doctest: +SKIP
>>> trace = run(kernel, [a, b, c], trace=TraceOptions(values=True, blocks={(0, 0)}))       # doctest: +SKIP
>>> for step in trace:                                                                     # doctest: +SKIP
...     print(step.kind, step.block, step.loops, step.writes[0].after)

Levels: "chip" are the bytes between registers and on-chip tiles ("shared" and "fragment" buffers), "global" those of tensors and workspaces.
Every access counts, also of an element that was read before; elements outside a buffer and inactive lanes move nothing; buffers of a single
thread ("local", "var") are registers and do not count. *Compulsory* bytes are what a perfect cache could not avoid: a global byte counts once as
read if it is read before the kernel wrote it, and once as written if it is ever written.
Operations are floating-point operations of expressions (one each, by dtype) and 2 M N K of a `Gemm`, under the dtype of its operand a.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.dtypes import DType
from ..base.span import Span
from ..ir.expr import Buffer
from ..ir.stmt import Stmt
from .memory import READ, WRITTEN, Storage

Array = np.ndarray[Any, Any]
Key = tuple[str, str, int, int]  # level, buffer, direction (READ or WRITTEN), id of a span


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """What to keep. `steps` records the tile operations, `values` also copies their tiles before and after; `blocks` limits both to some blocks.

    `observe`, if given, is called with each step as it ends and the recorder, which knows the bytes moved so far; the trace then keeps no steps,
    so that a long run can be summarised as it goes.
    """

    steps: bool = True
    values: bool = False
    blocks: Collection[tuple[int, ...]] | None = None
    observe: Callable[[TileStep, Recorder], None] | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """A region that a step reads or writes: `buffer[starts : starts + extents]`. `before` and `after` are copies of its elements, or None.

    In a parallel loop on-chip buffers show whole; of a global buffer the region is not known, so `starts` and `extents` are empty.
    """

    buffer: Buffer
    starts: tuple[int, ...]
    extents: tuple[int, ...]
    before: Array | None = None
    after: Array | None = None


@dataclass(frozen=True, slots=True)
class TileStep:
    """One tile operation, as it ran.

    kind: "copy", "fill", "gemm", "reduce", "scan", "atomic" or "parallel". `loops` holds (name, value) of the sequential loops around it,
    outermost first; `launch` counts the launches of the run.
    """

    number: int
    kind: str
    stmt: Stmt
    launch: int
    block: tuple[int, ...]
    loops: tuple[tuple[str, int], ...]
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]

    @property
    def span(self) -> Span | None:
        """Where the operation was written."""
        return self.stmt.span


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that one source line moved between one level and one buffer. direction: "read" or "write"."""

    level: str
    buffer: str
    direction: str
    span: Span | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Compulsory:
    """Bytes of a global buffer that had to be read, and written, at least once."""

    buffer: str
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True, slots=True)
class Trace:
    """The record of a run. Iterating gives the steps."""

    steps: tuple[TileStep, ...]
    traffic: tuple[Traffic, ...]
    compulsory: tuple[Compulsory, ...]
    operations: dict[DType, int]

    def __iter__(self) -> Iterator[TileStep]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def compulsory_bytes(self) -> int:
        """The least traffic with memory, in bytes."""
        return sum(c.read_bytes + c.written_bytes for c in self.compulsory)

    def bytes(self, level: str = "", buffer: str = "", direction: str = "") -> int:
        """The bytes of all rows that match; an empty argument matches everything."""
        return sum(
            t.bytes
            for t in self.traffic
            if level in ("", t.level) and buffer in ("", t.buffer) and direction in ("", t.direction)
        )  # fmt: skip

    def by_buffer(self, level: str) -> dict[str, int]:
        """Bytes at a level, by buffer, in the order of first use."""
        table: dict[str, int] = {}
        for row in self.traffic:
            if row.level == level:
                table[row.buffer] = table.get(row.buffer, 0) + row.bytes
        return table

    def by_line(self, level: str) -> dict[tuple[str, int], int]:
        """Bytes at a level, by (file, line); statements without a span count under ("", 0)."""
        table: dict[tuple[str, int], int] = {}
        for row in self.traffic:
            if row.level == level:
                line = ("", 0) if row.span is None else (row.span.file, row.span.line)
                table[line] = table.get(line, 0) + row.bytes
        return table


@dataclass(slots=True)
class Recorder:
    """Gathers a trace while a kernel runs."""

    options: TraceOptions
    span: Span | None = None
    launch: int = -1
    seen: int = 0  # steps so far
    steps: list[TileStep] = field(default_factory=list)
    counts: dict[DType, int] = field(default_factory=dict)
    bits: dict[Key, int] = field(default_factory=dict)
    spans: dict[int, Span | None] = field(default_factory=dict)
    globals: list[Storage] = field(default_factory=list)

    def access(self, storage: Storage, elements: int, bit: int) -> None:
        """`elements` of a buffer were read (bit READ) or written (WRITTEN)."""
        root = storage.buffer.root
        if root.scope in ("local", "var"):
            return
        key = ("chip" if root.is_on_chip else "global", root.name, bit, id(self.span))
        self.spans[key[3]] = self.span
        self.bits[key] = self.bits.get(key, 0) + elements * storage.dtype.bits

    def operations(self, dtype: DType, number: int) -> None:
        """`number` floating-point operations (or, in a gemm, integer ones) ran."""
        self.counts[dtype] = self.counts.get(dtype, 0) + number

    def wants(self, block: tuple[int, ...]) -> bool:
        """Whether the steps of this block are recorded."""
        return self.options.steps and (self.options.blocks is None or block in self.options.blocks)

    def add(self, step: TileStep) -> None:
        """A step has ended: hand it on, or keep it."""
        self.seen += 1
        if self.options.observe is not None:
            self.options.observe(step, self)
        else:
            self.steps.append(step)

    def moved(self) -> dict[tuple[str, str], int]:
        """Bytes so far, on chip and off, by (buffer, "read" or "write")."""
        bits: dict[tuple[str, str], int] = {}
        for (_, buffer, bit, _), n in self.bits.items():
            key = buffer, "read" if bit == READ else "write"
            bits[key] = bits.get(key, 0) + n
        return {key: (n + 7) // 8 for key, n in bits.items()}

    def touched(self) -> tuple[Compulsory, ...]:
        """The bytes of each global buffer that were read, and written, at least once so far. It looks at every byte's mark."""
        return tuple(_touched(s) for s in self.globals)

    def finish(self) -> Trace:
        """The trace so far."""
        rows: dict[tuple[str, str, str, Span | None], int] = {}
        for (level, buffer, bit, span), bits in self.bits.items():
            key = (level, buffer, "read" if bit == READ else "write", self.spans[span])
            rows[key] = rows.get(key, 0) + bits
        traffic = tuple(Traffic(*key, (bits + 7) // 8) for key, bits in rows.items())
        return Trace(tuple(self.steps), traffic, self.touched(), dict(self.counts))


def _touched(storage: Storage) -> Compulsory:
    if storage.shadow is None:
        return Compulsory(storage.buffer.name, 0, 0)
    marks = np.ascontiguousarray(storage.shadow.array).reshape(-1).view(np.uint8)
    return Compulsory(storage.buffer.name, int(np.count_nonzero(marks & READ)), int(np.count_nonzero(marks & WRITTEN)))

"""How the threads of a GPU's block touch each shared tile of a kernel: its copies, its parallel loops and the operands of its products.

Derived from the tile program, so it holds for a GPU that is not here and a target that has not compiled it: threads take a copy 16 bytes each, row
by row; iterations of a parallel loop are dealt in order, as wide as all accesses of the loop allow; products read 8- and 16-bit operands by
ldmatrix, wider ones a fragment register at a time. A compiled target that knows better answers `LayoutProvider.accesses` itself.

>>> from tileworkbench.kernels.gemm import Schedule, program
>>> tile = shared_tile(program(256, 256, 256, 128, 128, 64, 2, "float16", "float16", False), "A_tile")
>>> [(a.name, a.times) for a in tile.accesses]
[('T.copy writes', 4), ('T.gemm reads a', 4)]
>>> tile.find().best.layout.name
'128-byte swizzle'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..analysis.linear import linear
from ..base.span import Span
from ..ir.expr import Buffer, Const, Expr, Load, Var
from ..ir.node import Node, walk
from ..ir.stmt import (
    Atomic,
    Body,
    Copy,
    Fill,
    For,
    Gemm,
    If,
    Kernel,
    Launch,
    Let,
    ParallelFor,
    PipelinedFor,
    Reduce,
    Region,
    Scan,
    Stmt,
    Store,
    TensorParam,
    While,
)
from ..layout.access import Access, elementwise, lane_reads, ldmatrix, shared_copy
from ..layout.banks import Pieces, pieces
from ..layout.finder import Found, find_layouts
from ..layout.tile_layout import TileLayout
from ..layout.tile_layout import linear as row_major
from .space import Evaluator, Lanes

_MOST_ITERATIONS = 1 << 17


@dataclass(frozen=True, slots=True)
class AccessedTile:
    """A buffer as `rows` x `columns` (leading dims folded into rows) and who touches it how, in one block. `notes`: what could not be followed.

    `scope` is "shared", whose accesses cost wavefronts, or "global", whose accesses cost sectors. `layout`: how the tile does lie, where that is
    known; `kinds`: the kinds of layouts that what touches it can take, all if empty.
    """

    buffer: str
    rows: int
    columns: int
    bits: int
    accesses: tuple[Access, ...]
    notes: tuple[str, ...] = ()
    scope: str = "shared"
    span: Span | None = None
    layout: TileLayout | None = None
    kinds: tuple[str, ...] = ()

    @property
    def plain(self) -> TileLayout:
        """The tile row after row."""
        return row_major(self.rows, self.columns, bits=self.bits, name=self.buffer)

    @property
    def requests(self) -> tuple[tuple[Access, Pieces], ...]:
        """Each access with the 32-byte sectors of its requests, once: touched, the fewest possible, bytes wanted and wasted."""
        return tuple((a, pieces(*a.addresses(self.plain))) for a in self.accesses)

    def find(self, **options: Any) -> Found:
        """The layout that these accesses like best; options are those of `layout.finder.find_layouts`. ValueError for a global buffer."""
        if self.scope != "shared":
            raise ValueError(f"{self.buffer} is in {self.scope} memory, which has no banks")
        options = {"kinds": self.kinds, "span": self.span, "notes": self.notes, **options}
        return find_layouts(self.rows, self.columns, bits=self.bits, accesses=self.accesses, buffer=self.buffer, **options)

    def __str__(self) -> str:
        lines = [f"{self.buffer}: {self.rows} x {self.columns} of {self.bits} bits"]
        for a in self.accesses:
            if self.scope == "shared":
                cost = a.wavefronts(self.layout or self.plain)
                words = f"{cost.total} wavefronts, {cost.excess} in excess"
            else:
                found = pieces(*a.addresses(self.plain))
                words = f"{found.touched} sectors, ideal {found.ideal}, {found.wasted} bytes wasted"
            lines.append(f"  {a.name} x{a.times}: {words} ({a.why}){f' at {a.span.where}' if a.span else ''}")
        return "\n".join([*lines, *(f"  note: {n}" for n in self.notes)])


def program_of(kernel: Any) -> Kernel:
    """The tile program of a compiled kernel or of a `T.prim_func`; a tile program itself. Raises TypeError for something else."""
    for found in (kernel, getattr(kernel, "ir", None), getattr(kernel, "kernel", None)):
        if isinstance(found, Kernel):
            return found
    raise TypeError(f"needs a kernel or its tile program, got {type(kernel).__name__}")


def shared_tiles(kernel: Any, dims: Mapping[str, int] | None = None) -> tuple[AccessedTile, ...]:
    """Every shared tile of a kernel (a compiled one or its tile program), in the order of allocation. `dims` gives symbolic dims their values."""
    return tuple(tile for launch in program_of(kernel).launches for tile in _launch(launch, _on_chip(launch), dict(dims or {})))


def global_tiles(kernel: Any, dims: Mapping[str, int] | None = None) -> tuple[AccessedTile, ...]:
    """Every tensor argument and what the first block of each launch asks of it; those that a launch does not touch are left out.

    >>> from tileworkbench.kernels.gemm import program
    >>> a = global_tiles(program(256, 256, 256, 128, 128, 64, 2, "float16", "float16", False))[0]
    >>> [(access.name, sectors.touched, sectors.wasted) for access, sectors in a.requests]
    [('T.copy reads', 512, 0)]
    """
    program, known = program_of(kernel), dict(dims or {})
    params = [p.buffer for p in program.params if isinstance(p, TensorParam) and shape_of(p.buffer, known)]
    return tuple(tile for launch in program.launches for tile in _launch(launch, params, known) if tile.accesses or tile.notes)


def shared_tile(kernel: Any, buffer: str, dims: Mapping[str, int] | None = None) -> AccessedTile:
    """The shared tile called `buffer`. Raises: KeyError with the names there are."""
    found = {tile.buffer: tile for tile in shared_tiles(kernel, dims)}
    if buffer not in found:
        raise KeyError(f"no shared tile is called {buffer!r}; there are {', '.join(found) or 'none'}")
    return found[buffer]


def shape_of(buffer: Buffer, dims: Mapping[str, int] | None = None) -> tuple[int, ...]:
    """The shape with symbolic dims filled in; empty if one is unknown."""
    sizes = [int(d.value) if isinstance(d, Const) else (dims or {}).get(getattr(d, "name", ""), 0) for d in buffer.shape]
    return tuple(sizes) if all(sizes) else ()


def fold(shape: tuple[int, ...]) -> tuple[int, int]:
    """A shape as rows and columns: the last dim are the columns."""
    return int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]


def _on_chip(launch: Launch) -> list[Buffer]:
    return [b for b in launch.allocs if b.scope == "shared" and b.view_of is None and b.dtype.bits >= 8]


def _launch(launch: Launch, buffers: list[Buffer], dims: dict[str, int]) -> Iterator[AccessedTile]:
    start = Lanes.single({**dims, **{v.name: 0 for v in (*launch.block_vars, *launch.thread_vars)}})
    threads = int(np.prod(launch.threads)) if launch.threads else 128
    for buffer in buffers:
        reader = _Reader(buffer, shape_of(buffer, dims), threads)
        reader.body(launch.body, start, 1)
        notes = tuple(dict.fromkeys(reader.notes))
        scope = "global" if buffer.scope == "global" else "shared"
        yield AccessedTile(buffer.name, *fold(reader.shape), buffer.dtype.bits, tuple(reader.found), notes, scope, buffer.span)


class _Reader:
    """Gathers the accesses of one buffer in the first block. Loops are entered at their first iteration and counted as often as they run."""

    def __init__(self, buffer: Buffer, shape: tuple[int, ...], threads: int) -> None:
        self.buffer, self.shape, self.threads = buffer, shape, threads
        self.bits = buffer.dtype.bits
        self.evaluate = Evaluator()
        self.found: list[Access] = []
        self.notes: list[str] = []

    def body(self, body: Body, lanes: Lanes, times: int) -> None:
        for stmt in body:
            if isinstance(stmt, Let):
                lanes = lanes.bind(stmt.var.name, self.evaluate.bounds(stmt.value, lanes))
            self.stmt(stmt, lanes, times)

    def stmt(self, stmt: Stmt, lanes: Lanes, times: int) -> None:
        match stmt:
            case For(var, start, stop, body) | PipelinedFor(var, start, stop, body):
                step = stmt.step if isinstance(stmt, For) else 1
                first, end = self.value(start, lanes), self.value(stop, lanes)
                count = 1 if first is None or end is None else max(-(-(end - first) // step), 0)
                if first is None or end is None:
                    self.notes.append(f"the loop over {var.hint or var.name} depends on data; counted once")
                self.body(body, lanes.bind(var.name, (np.array([first or 0]),) * 2), times * count)
            case While(body=body):
                self.notes.append("a while loop is counted once")
                self.body(body, lanes, times)
            case If(then=then, other=other):
                self.body(then, lanes, times)
                self.body(other, lanes, times)
            case Copy(src, dst):
                self.box("T.copy reads", src, False, lanes, times, stmt)
                self.box("T.copy writes", dst, True, lanes, times, stmt)
            case Fill(dst):
                self.box("T.fill writes", dst, True, lanes, times, stmt)
            case Reduce(src=src, dst=dst) | Scan(src=src, dst=dst):
                self.box("reads of a reduction", src, False, lanes, times, stmt)
                self.box("writes of a reduction", dst, True, lanes, times, stmt)
            case Gemm():
                self.gemm(stmt, lanes, times)
            case ParallelFor():
                self.parallel(stmt, lanes, times)
            case _:
                if any(True for _ in _touches(stmt, self.buffer)):
                    self.notes.append(f"accesses of single elements ({type(stmt).__name__.lower()}) are left out")

    # ------------------------------------------------------------------ whole tiles
    def box(self, name: str, region: Region, is_write: bool, lanes: Lanes, times: int, stmt: Stmt) -> None:
        if (shape := self.box_of(region, lanes)) is None:
            return
        (rows, columns), origin = shape
        access = shared_copy(name, rows, columns, bits=self.bits, threads=self.threads, is_write=is_write, origin=origin)
        self.found.append(access.at(stmt.span, times))

    def box_of(self, region: Region, lanes: Lanes) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """(rows, columns) and the first cell of a region of this buffer; None, with a note, if it is of another or cannot be followed."""
        if region.buffer.name != self.buffer.name:
            if region.buffer.root.name == self.buffer.name:
                self.notes.append(f"accesses through the view {region.buffer.name} are left out")
            return None
        starts = [self.value(s, lanes) for s in region.starts]
        sizes = [int(e.value) for e in region.extents if isinstance(e, Const)]
        if None in starts or len(sizes) != len(region.extents):
            self.notes.append(f"a region of {self.buffer.name} depends on data and is left out")
            return None
        row, dims = 0, self.shape
        for start, dim in zip(starts[:-1], dims[:-1], strict=True):
            row = row * dim + int(start or 0)
        rows = int(np.prod(sizes[:-1], dtype=np.int64))
        return (rows, sizes[-1]), (row, int(starts[-1] or 0))

    def gemm(self, stmt: Gemm, lanes: Lanes, times: int) -> None:
        for name, region, k_in_columns in (("a", stmt.a, not stmt.trans_a), ("b", stmt.b, stmt.trans_b)):
            if (shape := self.box_of(region, lanes)) is None:
                continue
            access = _operand(f"T.gemm reads {name}", *shape[0], bits=self.bits, k_in_columns=k_in_columns, threads=self.threads)
            self.found.append(_moved(access, shape[1]).at(stmt.span, times))
        self.box("T.gemm updates c", stmt.c, True, lanes, times, stmt)

    # ------------------------------------------------------------------ parallel loops
    def parallel(self, loop: ParallelFor, lanes: Lanes, times: int) -> None:
        touches = [t for s in loop.body for t in _touches(s, self.buffer)]
        if not touches:
            return
        extents = [self.value(e, lanes) for e in loop.extents]
        total = int(np.prod([e or 0 for e in extents], dtype=np.int64))
        if None in extents or not 0 < total <= _MOST_ITERATIONS:
            self.notes.append(f"a parallel loop of {total} iterations is left out")
            return
        cells = _loop_vector(loop, int(extents[-1] or 1))
        number = np.arange(0, total, cells)
        inside = lanes.take(np.zeros(len(number), dtype=np.int64))
        for var, index in zip(loop.vars, np.unravel_index(number, [int(e or 1) for e in extents]), strict=True):
            inside = inside.bind(var.name, (index, index))
        for is_write, indices, node in sorted(dict.fromkeys(touches), key=lambda touch: touch[0]):  # reads come first
            found = [self.evaluate.bounds(i, inside) for i in indices]
            if any(f is None or f[0] is not f[1] for f in found):
                self.notes.append(f"an index of {self.buffer.name} depends on data and is left out")
                continue
            places = [inside.column(f[0]).astype(np.int64) for f in found if f is not None]
            row = np.zeros(len(number), dtype=np.int64)
            for place, dim in zip(places[:-1], self.shape[:-1], strict=True):
                row = row * dim + place
            inner = linear(indices[-1]).coefficient(loop.vars[-1]) == 1
            name = f"parallel {'writes' if is_write else 'reads'}"
            access = elementwise(name, row, places[-1], threads=self.threads, cells=cells if inner else 1, is_write=is_write)
            self.found.append(access.at(node.span or loop.span, times))

    def value(self, expr: Expr, lanes: Lanes) -> int | None:
        found = self.evaluate.bounds(expr, lanes)
        if found is None or not np.isfinite(found[1]).all():
            return None
        return int(np.max(found[0]))


Touch = tuple[bool, tuple[Expr, ...], Node]


def _touches(stmt: Stmt, buffer: Buffer) -> Iterator[Touch]:
    """Single elements of `buffer` that a statement reads or writes: (is a write, indices, node)."""
    for node in walk(stmt):
        match node:
            case Load(b, indices) if b.name == buffer.name:
                yield False, indices, node
            case Store(b, indices) if b.name == buffer.name:
                yield True, indices, node
            case Atomic(_, Region(b, indices, extents)) if b.name == buffer.name and all(isinstance(e, Const) and e.value == 1 for e in extents):
                yield True, indices, node
            case _:
                pass


def _loop_vector(loop: ParallelFor, extent: int) -> int:
    """Neighbouring iterations that a thread can do at once: all accesses that move with the innermost loop move by one element, 16 bytes at most."""
    var: Var = loop.vars[-1]
    widest = 8
    for stmt in loop.body:
        for node in walk(stmt):
            if not isinstance(node, (Load, Store)):
                continue
            moves = [linear(i).coefficient(var) for i in node.indices]
            hidden = any(var in [n for n in walk(a) if isinstance(n, Var)] for i in node.indices for a in linear(i).terms if not isinstance(a, Var))
            if hidden or any(moves[:-1]) or moves[-1] not in (0, 1):
                return 1
            widest = max(widest, node.buffer.dtype.bits)
    cells = 128 // widest
    while extent % cells:
        cells //= 2
    return max(cells, 1)


def _operand(name: str, rows: int, columns: int, *, bits: int, k_in_columns: bool, threads: int) -> Access:
    """The reads of one operand of a product; a tile that is not whole boxes is read like a copy."""
    try:
        if bits == 16 or (bits == 8 and k_in_columns):
            return ldmatrix(name, rows, columns, bits=bits, transposed=not k_in_columns)
        return lane_reads(name, rows, columns, along_rows=k_in_columns, cells=4 if bits == 8 else 1)
    except ValueError:
        return shared_copy(name, rows, columns, bits=bits, threads=threads, is_write=False)


def _moved(access: Access, origin: tuple[int, int]) -> Access:
    """The access with its cells shifted by `origin`."""
    if origin == (0, 0):
        return access
    rows, columns = access.rows.array(), access.columns.array()
    idle = rows < 0
    moved = (np.where(idle, -1, rows + origin[0]), np.where(idle, -1, columns + origin[1]))
    return Access.of(access.name, *moved, access.cells, is_write=access.is_write, times=access.times, why=access.why, is_rigid=access.is_rigid)

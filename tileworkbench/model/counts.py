"""What a kernel computes and which bytes its tile operations ask for, counted from tile IR with concrete dims.

- **FLOP**: additions, subtractions and multiplications of floats; a fused multiply-add counts 2, so a `Gemm` of (M, K) by (K, N) counts 2MNK.
  exp, division, min/max and the like are counted apart under `special`, never silently as 1. Masked work that runs is counted: these are
  executed operations, not the textbook's.
- **Bytes asked**: each tile operation reads and writes its operand regions once; an element-wise statement its loads and stores. Parts of a region
  outside a global buffer move nothing, nor do buffers of a single thread ("local", "var"). This is traffic between registers and L1.
- **Compulsory**: each byte of a global buffer that is read at least once, plus each that is written at least once. Bytes that the kernel wrote
  itself before it reads them are not counted as read.

>>> from tileworkbench.ir.expr import Buffer, Const, Var
>>> from tileworkbench.ir.stmt import Copy, Kernel, Launch, Region, TensorParam
>>> from tileworkbench.base.dtypes import FLOAT32
>>> a = Buffer("a", (Const(100),), FLOAT32); s = Buffer("s", (Const(64),), FLOAT32, "shared"); bx = Var("bx")
>>> from tileworkbench.ir.expr import Binary
>>> copy = Copy(Region(a, (Binary("mul", bx, Const(64)),), (Const(64),)), Region(s, (Const(0),), (Const(64),)))
>>> k = Kernel("k", (TensorParam(a),), (), (), (Launch((Const(2),), (bx,), (128,), (), (s,), (copy,)),))
>>> counted = count(k, {})
>>> [(x.buffer, x.read_bytes, x.write_bytes) for x in counted.by_buffer()], counted.compulsory_bytes
([('s', 0, 512), ('a', 400, 0)], 400)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.dtypes import DType
from ..base.span import Span
from ..ir.expr import Binary, Buffer, Expr, Load, Select, Unary
from ..ir.node import children, walk
from ..ir.stmt import Atomic, Copy, Fill, Gemm, If, Kernel, Let, Print, Reduce, Region, Scan, Stmt, Store
from .footprint import Footprint
from .shares import taken_share
from .space import Array, Lanes
from .walk import Assumption, Walk, root_name

REGISTERS = ("local", "var")  # buffers of a single thread: no memory moves
_FLOP = {"add", "sub", "mul"}
SPECIAL = {
    **dict.fromkeys(("exp", "exp2", "exp10", "expm1", "sigmoid"), "exp"), **dict.fromkeys(("log", "log2", "log10", "log1p"), "log"),
    **dict.fromkeys(("div", "fmod"), "div"), **dict.fromkeys(("sqrt", "rsqrt"), "sqrt"), **dict.fromkeys(("min", "max"), "min/max"),
    **dict.fromkeys(("pow", "atan2", "hypot", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh"), "other"),
    **dict.fromkeys(("tanh", "asinh", "acosh", "atanh", "erf"), "other"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes of one buffer that one source line (or, with `span` None, every line) reads and writes."""

    buffer: str
    scope: str
    read_bytes: int
    write_bytes: int
    span: Span | None = field(default=None, compare=False)

    @property
    def bytes(self) -> int:
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True)
class Counts:
    """Exact counts of one launch of a kernel, unless an assumption says otherwise.

    `flops` by dtype: "float32", or "float16>float32" for products of float16 summed in float32. `special` by kind: exp, log, div, sqrt,
    min/max, other. `asked` holds one entry for each buffer and source line, `compulsory` one for each global buffer.
    """

    flops: Mapping[str, int]
    special: Mapping[str, int]
    asked: tuple[Moved, ...]
    compulsory: tuple[Moved, ...]
    line_flops: Mapping[tuple[str, int], int] = field(default_factory=dict)  # by (file, line)
    assumptions: tuple[Assumption, ...] = ()
    gemm_flops: Mapping[str, int] = field(default_factory=dict)  # those of `flops` that are products of tiles

    @property
    def total_flops(self) -> int:
        return sum(self.flops.values())

    @property
    def asked_bytes(self) -> int:
        return sum(m.bytes for m in self.asked)

    @property
    def global_bytes(self) -> int:
        """Bytes that are asked of arguments and workspaces, not of on-chip tiles."""
        return sum(m.bytes for m in self.asked if m.scope == "global")

    @property
    def compulsory_bytes(self) -> int:
        return sum(m.bytes for m in self.compulsory)

    def by_buffer(self) -> tuple[Moved, ...]:
        """Bytes asked, all lines of a buffer together, most first."""
        return _grouped(self.asked, lambda m: m.buffer, keep_span=False)

    def by_line(self) -> tuple[Moved, ...]:
        """Bytes asked, one entry for each source line and buffer, in source order."""
        return tuple(sorted(self.asked, key=lambda m: (m.span.line if m.span else 0, m.buffer)))


def count(kernel: Kernel, dims: Mapping[str, int], scalars: Mapping[str, Any] | None = None, arrays: Mapping[str, Array] | None = None) -> Counts:
    """Count one launch of `kernel`.

    Args:
        dims: the value of each symbolic dim, by variable name.
        scalars: run-time scalars by variable name.
        arrays: contents of tensor arguments by buffer name; only bounds and conditions that are read from data need them.
    Raises: ValueError if a symbolic dim has no value.
    """
    counter = Counter(kernel, dims, scalars, arrays)
    counter.run()
    return counter.result()


@dataclass(frozen=True, slots=True)
class _Entry:
    """One fact, before it is summed: a kind ("flop", "special", "read", "write"), a key, an amount, and where it was."""

    kind: str
    key: str
    amount: float
    span: Span | None = None
    scope: str = ""


class Counter(Walk[None]):
    """The walk that counts; a subclass may keep apart what `_put` is given."""

    def __init__(self, kernel: Kernel, *known: Any) -> None:
        super().__init__(kernel, *known)
        self._entries: list[_Entry] = []
        self._now: Span | None = None
        self._touched: list[tuple[str, Buffer, tuple[Expr, ...], tuple[int, ...], Lanes]] = []

    # ------------------------------------------------------------------------------------------ the walk's hooks
    def join(self, parts: list[None], lanes: Lanes) -> None:
        return None

    def lift(self, part: None, parent: Array) -> None:
        return None

    def mark(self) -> tuple[int, int]:
        return len(self._entries), len(self._touched)

    def rollback(self, mark: tuple[int, int]) -> None:
        del self._entries[mark[0] :], self._touched[mark[1] :]

    def work(self, stmt: Stmt, lanes: Lanes) -> None:
        self._now = stmt.span
        match stmt:
            case Copy(src, dst):
                self._move("read", src, lanes, stmt)
                self._move("write", dst, lanes, stmt)
            case Fill(dst, value):
                self._expr(value, lanes, stmt)
                self._move("write", dst, lanes, stmt)
            case Gemm():
                self._gemm(stmt, lanes)
            case Reduce(op, src, dst):
                self._move("read", src, lanes, stmt)
                if not stmt.clear:
                    self._move("read", dst, lanes, stmt)
                self._move("write", dst, lanes, stmt)
                self._fold("add" if op in ("sum", "abssum") else "max", dst.buffer.dtype, self._elements(src, lanes), lanes)
            case Scan(op, src, dst):
                self._move("read", src, lanes, stmt)
                self._move("write", dst, lanes, stmt)
                self._fold("add" if op == "sum" else "max", dst.buffer.dtype, self._elements(src, lanes), lanes)
            case Atomic():
                self._atomic(stmt, lanes)
            case Store(buffer, indices, value):
                self._exprs((value, *indices), lanes, stmt)
                self._element("write", buffer, indices, lanes, stmt)
            case Let(_, value):
                self._expr(value, lanes, stmt)
            case If(cond):
                self._expr(cond, lanes, stmt)
            case Print(_, values, buffer):
                self._exprs(values, lanes, stmt)
            case _:
                self._exprs((c for c in children(stmt) if isinstance(c, Expr)), lanes, stmt)

    # ------------------------------------------------------------------------------------------ tile operations
    def _gemm(self, gemm: Gemm, lanes: Lanes) -> None:
        for region in (gemm.a, gemm.b):
            self._move("read", region, lanes, gemm)
        keeps = ~self.decide(gemm.clear, lanes, unknown=False, span=gemm.span)
        if keeps.any():
            self._move("read", gemm.c, lanes.take(keeps), gemm)
        self._move("write", gemm.c, lanes, gemm)
        a = self._extents(gemm.a)[-2:]
        depth = a[0] if gemm.trans_a else a[1]
        narrow, wide = gemm.a.buffer.dtype, gemm.c.buffer.dtype
        key = str(wide) if narrow == wide else f"{narrow}>{wide}"
        for kind in ("flop", "gemm"):
            self._put(kind, key, 2.0 * depth * self._elements(gemm.c, lanes), lanes)

    def _atomic(self, atomic: Atomic, lanes: Lanes) -> None:
        if isinstance(atomic.value, Region):
            self._move("read", atomic.value, lanes, atomic)
        elif atomic.value is not None:
            self._expr(atomic.value, lanes, atomic)
        if atomic.op != "store":
            self._move("read", atomic.dst, lanes, atomic)
        if atomic.op != "load":
            self._move("write", atomic.dst, lanes, atomic)
        if atomic.op in ("add", "max", "min"):
            self._fold(atomic.op, atomic.dst.buffer.dtype, self._elements(atomic.dst, lanes), lanes)

    def _extents(self, region: Region) -> tuple[int, ...]:
        return tuple(self._int(e) for e in region.extents)

    def _elements(self, region: Region, lanes: Lanes) -> float:
        return float(np.prod(self._extents(region), dtype=float))

    def _int(self, expr: Expr) -> int:
        """A dim or an extent, which varies with nothing but the kernel's arguments; the largest value if it does."""
        found = self.evaluate.bounds(expr, Lanes.single(self.known))
        return int(np.max(found[1])) if found is not None else 1

    def _move(self, kind: str, region: Region, lanes: Lanes, stmt: Stmt) -> None:
        """Count the bytes of a region that lie inside its buffer, and note what it touches."""
        extents = self._extents(region)
        inside = self._inside(region.buffer, region.starts, extents, lanes, stmt)
        self._bytes(kind, region.buffer, inside, lanes)
        if not region.buffer.is_on_chip:
            self._touched.append((kind, region.buffer, region.starts, extents, lanes))

    def _inside(self, buffer: Buffer, starts: tuple[Expr, ...], extents: tuple[int, ...], lanes: Lanes, stmt: Stmt) -> Array:
        """Per lane, how many elements of the box lie inside the buffer."""
        if buffer.is_on_chip:
            return np.full(lanes.size, float(np.prod(extents, dtype=float)))
        total = np.ones(lanes.size)
        for start, extent, dim in zip(starts, extents, buffer.shape, strict=True):
            found, size = self.evaluate.bounds(start, lanes), self._int(dim)
            if found is None:
                self.assume(f"an index of {buffer.name} that depends on data is counted as inside", stmt.span)
                total = total * min(extent, size)
                continue
            low, high = lanes.column(np.asarray(found[0], dtype=float)), lanes.column(np.asarray(found[1], dtype=float))
            mixed = (low != high) & ~((low >= 0) & (high + extent <= size)) & ~((high + extent <= 0) | (low >= size))
            if mixed.any():
                self.settle(mixed, (start,), lanes)
            covered = np.clip(np.minimum(low + extent, size) - np.maximum(low, 0), 0, None)
            total = total * np.where(low == high, covered, np.where((low >= 0) & (high + extent <= size), extent, 0))
        return total

    # ------------------------------------------------------------------------------------------ element-wise work
    def _element(self, kind: str, buffer: Buffer, indices: tuple[Expr, ...], lanes: Lanes, stmt: Stmt) -> None:
        if buffer.scope in REGISTERS:
            return
        ones = (1,) * len(indices)
        self._bytes(kind, buffer, self._inside(buffer, indices, ones, lanes, stmt), lanes)
        if not buffer.is_on_chip:
            self._touched.append((kind, buffer, indices, ones, lanes))

    def _exprs(self, exprs: Iterable[Expr], lanes: Lanes, stmt: Stmt) -> None:
        for expr in exprs:
            self._expr(expr, lanes, stmt)

    def _expr(self, expr: Expr, lanes: Lanes, stmt: Stmt) -> None:
        """Count what evaluating `expr` once on every point of `lanes` does; a lazy side only where it is evaluated."""
        match expr:
            case Select(cond, then, other):
                self._expr(cond, lanes, stmt)
                self._select(cond, then, other, lanes, stmt)
            case Binary("and" | "or" as op, a, b):
                self._expr(a, lanes, stmt)
                if _costs(b):
                    holds = self.decide(a, lanes, unknown=op == "and", span=stmt.span)
                    self._some(b, lanes, holds if op == "and" else ~holds, stmt)
            case Load(buffer, indices):
                self._exprs(indices, lanes, stmt)
                self._element("read", buffer, indices, lanes, stmt)
            case Binary(op, a, b):
                self._exprs((a, b), lanes, stmt)
                self._operation(op, expr.a.dtype, 1, lanes)
            case Unary(op, x):
                self._expr(x, lanes, stmt)
                self._operation(op, x.dtype, 1, lanes)
            case _:
                self._exprs((c for c in children(expr) if isinstance(c, Expr)), lanes, stmt)

    def _select(self, cond: Expr, then: Expr, other: Expr, lanes: Lanes, stmt: Stmt) -> None:
        """Each side as often as it is taken. Of a side that only touches tiles the innermost loop's share is enough: which iterations is all one."""
        share = taken_share(cond, self._frames[-1].name, lanes, self.evaluate) if self._frames and _stays_on_chip(then, other) else None
        if share is not None:
            self._expr(then, lanes.scaled(share), stmt)
            self._expr(other, lanes.scaled(1 - share), stmt)
            return
        taken = self.decide(cond, lanes, span=stmt.span) if _costs(then) or _costs(other) else np.ones(lanes.size, dtype=bool)
        self._some(then, lanes, taken, stmt)
        self._some(other, lanes, ~taken, stmt)

    def _some(self, expr: Expr, lanes: Lanes, where: Array, stmt: Stmt) -> None:
        if where.all():
            self._expr(expr, lanes, stmt)
        elif where.any():
            self._expr(expr, lanes.take(where), stmt)

    def _operation(self, op: str, dtype: DType, amount: float, lanes: Lanes) -> None:
        if not dtype.is_float:
            return
        if op in _FLOP:
            self._put("flop", str(dtype), amount, lanes)
        elif op in SPECIAL:
            self._put("special", SPECIAL[op], amount, lanes)

    def _fold(self, op: str, dtype: DType, amount: float, lanes: Lanes) -> None:
        self._operation(op, dtype, amount, lanes)

    # ------------------------------------------------------------------------------------------ sums
    def _put(self, kind: str, key: str, amount: Any, lanes: Lanes, scope: str = "") -> None:
        self._entries.append(_Entry(kind, key, float(np.sum(lanes.points * amount)), self._now, scope))

    def _bytes(self, kind: str, buffer: Buffer, elements: Array, lanes: Lanes) -> None:
        if buffer.scope not in REGISTERS:
            self._put(kind, root_name(buffer), elements * buffer.dtype.nbytes, lanes, buffer.scope)

    def result(self) -> Counts:
        sums: dict[str, dict[str, float]] = {"flop": {}, "special": {}, "gemm": {}}
        moved: dict[tuple[str, str, Any], list[Any]] = {}
        line_flops: dict[tuple[str, int], float] = {}
        for e in self._entries:
            line = (e.span.file, e.span.line) if e.span is not None else None
            if e.kind in sums:
                sums[e.kind][e.key] = sums[e.kind].get(e.key, 0.0) + e.amount
                if e.kind == "flop" and line is not None:
                    line_flops[line] = line_flops.get(line, 0.0) + e.amount
            else:
                slot = moved.setdefault((e.key, e.scope, line), [0.0, 0.0, e.span])
                slot[e.kind == "write"] += e.amount
        asked = tuple(Moved(name, scope, round(v[0]), round(v[1]), v[2]) for (name, scope, _), v in moved.items())
        compulsory = self._compulsory()
        flops, special, gemms = ({k: round(v) for k, v in sums[kind].items()} for kind in ("flop", "special", "gemm"))
        return Counts(flops, special, asked, compulsory, {k: round(v) for k, v in line_flops.items()}, tuple(self.assumptions), gemms)

    def _compulsory(self) -> tuple[Moved, ...]:
        prints: dict[str, tuple[Buffer, dict[str, Footprint]]] = {}
        first: dict[str, str] = {}
        for kind, buffer, starts, extents, lanes in self._touched:
            first.setdefault(buffer.name, kind)
            shape = tuple(self._int(d) for d in buffer.shape)
            _, sides = prints.setdefault(buffer.name, (buffer, {k: Footprint(shape, self.evaluate) for k in ("read", "write")}))
            sides[kind].add(starts, extents, lanes)
        out: dict[str, Moved] = {}
        for buffer, sides in prints.values():
            read, written = sides["read"].elements(), sides["write"].elements()
            if first[buffer.name] == "write" and written >= sides["read"].union_with(sides["write"]):
                read = 0  # the kernel's own results: a cache that is large enough never asks memory for them
            sizes = [round(n * buffer.dtype.nbytes) for n in (read, written)]
            if any(f.is_bound for f in sides.values()):
                self.assume(f"the bytes of {buffer.name} that are touched at least once are an upper bound: which ones depends on data")
            old = out.get(root_name(buffer), Moved(root_name(buffer), "global", 0, 0))
            out[old.buffer] = Moved(old.buffer, "global", old.read_bytes + sizes[0], old.write_bytes + sizes[1])
        return tuple(out.values())


def _costs(expr: Expr) -> bool:
    """Whether evaluating `expr` counts for anything: a load or arithmetic on floats."""
    if isinstance(expr, Load):
        return expr.buffer.scope not in REGISTERS
    if isinstance(expr, Binary | Unary) and (expr.op in _FLOP or expr.op in SPECIAL) and expr.dtype.is_float:
        return True
    return any(_costs(c) for c in children(expr) if isinstance(c, Expr))


def _stays_on_chip(*sides: Expr) -> bool:
    """Whether the sides of a choice load from tiles only and choose nothing themselves."""
    nodes = [n for side in sides for n in walk(side)]
    return all(n.buffer.is_on_chip for n in nodes if isinstance(n, Load)) and not any(isinstance(n, Select) for n in nodes)


def _grouped(entries: Iterable[Moved], key: Any, *, keep_span: bool) -> tuple[Moved, ...]:
    groups: dict[Any, Moved] = {}
    for m in entries:
        old = groups.get(key(m), Moved(m.buffer, m.scope, 0, 0, m.span if keep_span else None))
        groups[key(m)] = Moved(m.buffer, m.scope, old.read_bytes + m.read_bytes, old.write_bytes + m.write_bytes, old.span)
    return tuple(sorted(groups.values(), key=lambda m: -m.bytes))

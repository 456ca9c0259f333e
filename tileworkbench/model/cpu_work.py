"""What the C target makes a core do, as amounts of a few kinds of steps: multiply-adds of vectors, micro-kernel starts, bytes moved, elements passed.

Each tile statement is taken as the target emits it: a product by its plan (strips, panels, packing), a copy by its contiguous runs, an element-wise
loop by the operations of its body. The amounts are named like the machine's costs, so that amount x cost is nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..analysis.access import static_strides
from ..analysis.uses import uses
from ..base.cpu import AVX2, AVX512, GENERIC, NEON, Isa
from ..base.dtypes import FLOAT32, DType
from ..base.span import Span
from ..codegen.gemm_plan import GemmPlan, GemmSpec, plan_gemm
from ..ir.expr import Binary, Buffer, Cast, Const, Expr, Load, Select, Unary, Var
from ..ir.node import walk
from ..ir.stmt import Atomic, Copy, Fill, Gemm, Kernel, Launch, Let, ParallelFor, Reduce, Region, Scan, Stmt, Store
from ..transform.lowering import without_element_copies, without_operand_copies
from .counts import SPECIAL
from .space import Array, Lanes
from .walk import Walk

ISAS = {isa.name: isa for isa in (AVX512, AVX2, NEON, GENERIC)}
LATENCY = 8  # multiply-adds that one core can start while it waits for one: two units of four cycles
SCALAR = 2  # a scalar operation takes a cycle, a multiply-add of a vector half of one
COSTS_AS = {"exp": ("exp", 1.0), "log": ("log", 1.0), "div": ("div", 1.0), "sqrt": ("div", 1.3), "min/max": ("", 1.0), "other": ("log", 2.0)}


@dataclass(slots=True)
class Work:
    """What one statement does in a whole launch. `kind`: "copy", "fill", "product", "reduction", "pass", "scalar".

    `amounts`: by cost name. `padding`: the part of `amounts` that works on lanes or rows that nothing needs.
    """

    kind: str
    span: Span | None
    amounts: dict[str, float] = field(default_factory=dict)
    padding: dict[str, float] = field(default_factory=dict)
    run_bytes: float = 0.0  # of a copy: bytes that lie behind one another on both sides

    def add(self, name: str, amount: float, padding: float = 0.0) -> None:
        if amount:
            self.amounts[name] = self.amounts.get(name, 0.0) + amount
        if padding:
            self.padding[name] = self.padding.get(name, 0.0) + padding


@dataclass(frozen=True, slots=True)
class CpuWork:
    """All statements of a kernel, the blocks of its launches, and the parallel regions they run in. `gone`: tiles that the target does not make."""

    statements: tuple[Work, ...]
    blocks: float
    regions: int
    gone: frozenset[str] = frozenset()


def cpu_work(
    kernel: Kernel,
    dims: Mapping[str, int],
    isa_name: str,
    near_bytes: int = 32 << 10,
    scalars: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
) -> CpuWork:
    """The work of one launch, for the instruction set called `isa_name` ("avx512", "avx2", "neon", "generic") and an L1 of `near_bytes`."""
    rows = without_element_copies(kernel)
    worker = _Worker(without_operand_copies(rows), dims, scalars, arrays)
    worker.isa, worker.near_bytes = ISAS.get(isa_name, GENERIC), near_bytes
    worker.run()
    return replace(worker.result(), gone=frozenset(b.name for b in uses(kernel.body).buffers - uses(rows.body).buffers))


@dataclass(frozen=True, slots=True)
class _Entry:
    """One amount, before it is summed."""

    stmt: int
    kind: str
    span: Span | None
    name: str
    amount: float
    padding: float
    run_bytes: float


class _Worker(Walk[None]):
    isa: Isa
    near_bytes: int

    def __init__(self, *known: Any) -> None:
        super().__init__(*known)
        self._entries: list[_Entry] = []
        self._blocks: list[float] = []
        self._loops: list[ParallelFor] = []
        self._grid: Launch | None = None
        self._stmt: Stmt | None = None
        self._kind = ""

    def join(self, parts: list[None], lanes: Lanes) -> None:
        return None

    def lift(self, part: None, parent: Array) -> None:
        return None

    def mark(self) -> tuple[int, int]:
        return len(self._entries), len(self._blocks)

    def rollback(self, mark: tuple[int, int]) -> None:
        del self._entries[mark[0] :], self._blocks[mark[1] :]

    def _block(self, launch: Launch, lanes: Lanes) -> None:
        self._blocks.append(float(lanes.points.sum()))
        self._grid = launch
        super()._block(launch, lanes)

    def _statement(self, stmt: Stmt, lanes: Lanes) -> None:
        if not isinstance(stmt, ParallelFor):
            return super()._statement(stmt, lanes)
        self._loops.append(stmt)
        super()._statement(stmt, lanes)
        self._loops.pop()
        return None

    def result(self) -> CpuWork:
        works: dict[int, Work] = {}
        for e in self._entries:
            work = works.setdefault(e.stmt, Work(e.kind, e.span, run_bytes=e.run_bytes))
            work.add(e.name, e.amount, e.padding)
        return CpuWork(tuple(works.values()), sum(self._blocks), len(self.kernel.launches))

    # ------------------------------------------------------------------------------------------ statements
    def work(self, stmt: Stmt, lanes: Lanes) -> None:
        self._stmt = stmt
        runs = float(lanes.points.sum())
        match stmt:
            case Copy(src, dst):
                self._kind = "copy"
                self._copy(src, dst, runs)
            case Fill(dst):
                self._kind = "fill"
                self._put("fill", runs * self._elements(dst) * dst.buffer.dtype.nbytes / 4)
            case Gemm():
                self._kind = "product"
                self._gemm(stmt, runs)
            case Reduce(_, src, dst, dim):
                self._kind = "reduction"
                elements = runs * self._elements(src)
                if dim == len(src.extents) - 1:
                    self._put("reduce", elements * src.buffer.dtype.nbytes / 4)
                    self._put("reduce.row", elements / max(self._extents(src)[dim], 1))
                else:
                    self._put("pass", elements * src.buffer.dtype.nbytes / 4)
            case Scan(_, src):
                self._kind = "reduction"
                self._put("fma", LATENCY * runs * self._elements(src))
            case Atomic(_, dst):
                self._kind = "scalar"
                self._put("fma", 10 * LATENCY * runs * self._elements(dst))
            case Store(buffer, indices, value):
                self._store(buffer, indices, value, runs)
            case Let(_, value) if self._loops:
                self._kind = "pass"
                self._element(value, runs)
            case _:
                return

    def _put(self, name: str, amount: float, padding: float = 0.0, run_bytes: float = 0.0) -> None:
        stmt = self._stmt
        assert stmt is not None
        self._entries.append(_Entry(id(stmt), self._kind, stmt.span, name, amount, padding, run_bytes))

    def _copy(self, src: Region, dst: Region, runs: float) -> None:
        elements = runs * self._elements(dst)
        narrow, wide = sorted((src.buffer.dtype, dst.buffer.dtype), key=lambda d: d.bits)
        run = max(min(self._run(src), self._run(dst)), 1)
        if narrow == wide:
            self._put("copy", elements * narrow.nbytes, run_bytes=run * narrow.nbytes)
        else:
            self._put("widen" if src.buffer.dtype == narrow else "narrow", elements, run_bytes=run * narrow.nbytes)

    def _run(self, region: Region) -> float:
        """Contiguous elements of a region."""
        run = 1.0
        for extent, dim in zip(reversed(self._extents(region)), reversed(region.buffer.shape), strict=True):
            run *= extent
            if extent != self._int(dim):
                break
        return run

    def _store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Expr, runs: float) -> None:
        if not self._loops and self.threads == 1:
            self._kind = "scalar"
            self._put("fma", runs * SCALAR * (2 + sum(isinstance(n, Binary | Unary | Load) for n in walk(value))))
            return
        self._kind = "pass"
        self._element(value, runs, stores=buffer.dtype.nbytes)

    def _element(self, value: Expr, runs: float, stores: float = 0.0) -> None:
        """An element of a vector loop: a pass that loads, computes once and stores, and what the body does beyond that."""
        inner, length = self._innermost()
        lanes = self.isa.vector_bytes / 4
        wasted = (-length % lanes) * lanes / 4 / max(length, 1)  # elements beyond whole vectors run one by one
        nodes = list(walk(value))
        loads = [n for n in nodes if isinstance(n, Load) and any(isinstance(x, Var) and x.name == inner for i in n.indices for x in walk(i))]
        steps = sum(isinstance(n, Binary | Unary | Select | Cast) and n.dtype.is_float for n in nodes)
        width = max([n.dtype.nbytes for n in loads] + [stores, 0]) / 4
        if stores:
            self._put("pass", runs * width, runs * width * wasted)
        extra = max(0, steps - 1) + max(0, len(loads) - 1)
        self._put("fma", runs * extra / lanes, runs * extra / lanes * wasted)
        for node in nodes:
            if isinstance(node, Cast) and node.type.is_float and node.x.dtype.is_float and node.type.bits != node.x.dtype.bits:
                self._put("widen" if node.type.bits > node.x.dtype.bits else "narrow", runs, runs * wasted)
            kind = SPECIAL.get(node.op, "") if isinstance(node, Binary | Unary) and node.dtype.is_float else ""
            name, factor = COSTS_AS.get(kind, ("", 1.0))
            if name:
                self._put(name, factor * runs, factor * runs * wasted)

    def _innermost(self) -> tuple[str, float]:
        """The loop that becomes the vector loop, and its length: the last of a parallel nest, or the threads of a block."""
        if self._loops and self._loops[-1].vars:
            loop = self._loops[-1]
            return loop.vars[-1].name, float(self._int(loop.extents[-1]))
        if self._grid is not None and self._grid.thread_vars:
            return self._grid.thread_vars[0].name, float(self._grid.threads[0])
        return "", 1.0

    # ------------------------------------------------------------------------------------------ products
    def _gemm(self, gemm: Gemm, runs: float) -> None:
        m, n = self._extents(gemm.c)[-2:]
        k = self._extents(gemm.a)[-2 if gemm.trans_a else -1]
        a, b, c = (r.buffer.dtype if r.buffer.dtype.bits >= 8 else DType("int8") for r in (gemm.a, gemm.b, gemm.c))
        if min(m, n, k) < 1:
            return
        lda, ldb, ldc = (self._row_stride(r) for r in (gemm.a, gemm.b, gemm.c))
        far = (not r.buffer.is_on_chip for r in (gemm.a, gemm.b))
        spec = GemmSpec(m, n, k, a, b, c, lda, ldb, ldc, gemm.trans_a, gemm.trans_b, self.isa, *far)
        try:
            steps = tuple(product_steps(spec, plan_gemm(spec), self.near_bytes))
        except (KeyError, ValueError):  # a type that this target has no product for; another one may
            steps = (("fma", m * n * k / (self.isa.vector_bytes / 4), 0.0),)
        for name, amount, padding in steps:
            self._put(name, runs * amount, runs * padding, run_bytes=n * b.nbytes)

    def _row_stride(self, region: Region) -> int:
        steps = static_strides(region.buffer)
        return steps[-2] if steps is not None and len(steps) > 1 and steps[-1] == 1 else self._extents(region)[-1]

    # ------------------------------------------------------------------------------------------ sizes
    def _extents(self, region: Region) -> tuple[int, ...]:
        return tuple(self._int(e) for e in region.extents)

    def _elements(self, region: Region) -> float:
        return float(np.prod(self._extents(region), dtype=float))

    def _int(self, expr: Expr) -> int:
        if isinstance(expr, Const):
            return int(expr.value)
        found = self.evaluate.bounds(expr, Lanes.single(self.known))
        return int(np.max(found[1])) if found is not None else 1


def product_steps(spec: GemmSpec, plan: GemmPlan, near_bytes: int = 32 << 10) -> Iterable[tuple[str, float, float]]:
    """(cost name, amount, of which padding) of one tile product. A strip of b that does not stay in L1 beside its panel of a streams from L2."""
    wide = spec.acc.bits / 32
    blocks = -(-spec.k // plan.k_block)
    needed = spec.m * spec.n * spec.k / plan.lanes
    done = spent = starts = 0.0
    for panel in plan.panels:
        for strip in plan.strips:
            calls = panel.count * strip.count
            rows = plan.kernel_rows(panel)
            work = rows * strip.size
            starts += calls * blocks
            done += calls * work * spec.k
            spent += calls * max(work, rows + strip.size, LATENCY) * spec.k
    held = min(spec.k, plan.k_block) * (plan.strips[0].size * plan.lanes + plan.panels[0].size) * spec.acc.bits // 8
    yield ("stream" if held > near_bytes else "fma"), spent * _slower(spec.acc), (done - needed) * _slower(spec.acc)
    yield "kernel", starts, 0.0
    if plan.pack_a:
        yield "widen", float(spec.m * spec.k) * wide, 0.0
    if plan.pack_b:
        amount = float(spec.k * sum(s.count * s.size for s in plan.strips) * plan.lanes) * wide
        if spec.trans_b:
            yield "turn", amount, 0.0
        if plan.raw_ld or not spec.trans_b and spec.b != spec.acc:
            yield "widen", amount, 0.0
        elif not spec.trans_b:
            yield "copy", amount * 4, 0.0
    if plan.widen_c:
        yield "widen", float(spec.m * spec.n), 0.0
        yield "narrow", float(spec.m * spec.n), 0.0


def _slower(acc: DType) -> float:
    """Integer multiply and add are two or three instructions where floats have one."""
    return 1.0 if acc.is_float or acc == FLOAT32 else 4.0

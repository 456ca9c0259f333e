"""Loops for `Reduce` and `Scan` on tiles that are certainly inside their buffers.

A reduction over a contiguous dim is a call of a row function, or a vector loop with an OpenMP reduction; over another dim it adds whole rows
into the destination, so the vector runs along the row. max and min start from NaN where rows are added (the language's max ignores a NaN, so
the first number replaces it and a row of only NaN stays NaN).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..analysis.access import strides
from ..base.dtypes import BOOL, FLOAT32, INDEX, INT32, DType
from ..ir.build import ZERO, add, cast, index, mul
from ..ir.expr import Binary, Buffer, Const, Expr, Select, Unary, Var, const
from ..ir.lowered import Address, Declare, Element, LibraryCall, Loop, SetElement
from ..ir.stmt import Body, Reduce, Region, Scan, Stmt
from .copy_loops import base_offset, loop_var
from .names import Names

# how two partial results combine; abs is applied to each element before
_COMBINE = {
    "sum": "add", "abssum": "add", "max": "max", "absmax": "max", "min": "min", "bitand": "bitand", "bitor": "bitor", "bitxor": "bitxor",
    "any": "bitor", "all": "bitand",
}  # fmt: skip
_OPENMP = {"add": "+", "max": "max", "min": "min", "bitand": "&", "bitor": "|", "bitxor": "^"}
_ROW = {"sum", "abssum", "max", "absmax", "min"}  # reductions of a float32 row that the C library has


@dataclass(slots=True)
class _Axis:
    extent: int
    src_step: Expr
    dst_step: Expr


def reduce_loops(stmt: Reduce, names: Names) -> tuple[Body, tuple[Buffer, ...]]:
    """Statements that do what `stmt` does, and the tiles they need."""
    src, dst = stmt.src, stmt.dst
    kept, (count, step) = _axes(src, dst, stmt.dim)
    work = _work_type(stmt.op, dst.buffer.type)
    reduce = _Reducing(stmt, work, count, step, names, src.buffer, dst.buffer)
    if step == index(1) or not kept or kept[-1].src_step != index(1):
        return reduce.by_row(kept, base_offset(src), base_offset(dst)), ()
    return reduce.by_rows(kept, base_offset(src), base_offset(dst))


def _axes(src: Region, dst: Region, dim: int) -> tuple[list[_Axis], tuple[int, Expr]]:
    """The kept dims (extent 1 left out), paired with the destination's, and (extent, step) of the reduced one."""
    src_steps, dst_steps = strides(src.buffer), strides(dst.buffer)
    src_extents, dst_extents = src.static_extents(), dst.static_extents()
    mine = [d for d in range(len(src_extents)) if d != dim and src_extents[d] != 1]
    theirs = [d for d in range(len(dst_extents)) if dst_extents[d] != 1]
    return [_Axis(src_extents[s], src_steps[s], dst_steps[d]) for s, d in zip(mine, theirs, strict=True)], (src_extents[dim], src_steps[dim])


def _work_type(op: str, dtype: DType) -> DType:
    if op in ("any", "all"):
        return BOOL
    return FLOAT32 if dtype.is_float and dtype.bits < 32 or dtype == "tfloat32" else dtype


@dataclass(slots=True)
class _Reducing:
    stmt: Reduce
    work: DType
    count: int
    step: Expr
    names: Names
    src: Buffer
    dst: Buffer

    def by_row(self, kept: Sequence[_Axis], src_base: Expr, dst_base: Expr) -> Body:
        """One result at a time."""

        def leaf(offsets: tuple[Expr, Expr]) -> Body:
            src_at, dst_at = add(src_base, offsets[0]), add(dst_base, offsets[1])
            before, result = self.row_result(src_at)
            if not self.stmt.clear:
                result = self.combine(cast(Element(self.dst, dst_at), self.work), result)
            return (*before, SetElement(self.dst, dst_at, cast(result, self.dst.type)))

        return _nest(kept, leaf, self.names)

    def row_result(self, src_at: Expr) -> tuple[Body, Expr]:
        """The reduction of one row, as an expression after some statements."""
        op = self.stmt.op
        if self.src.type == FLOAT32 and self.work == FLOAT32 and op in _ROW and self.step == index(1):
            nan = "_nan" if self.stmt.nan_propagate and op not in ("sum", "abssum") else ""
            return (), LibraryCall(f"twb_row_{op}{nan}_f32", (Address(self.src, src_at), index(self.count)), FLOAT32)
        acc = self.names.scalar(op, self.work)
        var = loop_var(self.names, "k", self.count)
        value = self.element(add(src_at, mul(cast(var, INDEX), self.step)))
        update = SetElement(acc, ZERO, self.combine(Element(acc, ZERO), value))
        exact = self.combiner in ("max", "min") and self.work.is_float  # NaN rules: not what OpenMP's max does
        reductions = () if exact else ((_OPENMP[self.combiner], acc),)
        simd = bool(reductions) and self.src.type.bits >= 8 and self.work != BOOL
        start = identity(self.stmt.op, self.work, self.stmt.nan_propagate)
        loop = Loop(var, cast(ZERO, var.type), cast(index(self.count), var.type), (update,), simd=simd, reductions=reductions if simd else ())
        return (Declare(acc, start), loop), Element(acc, ZERO)

    def by_rows(self, kept: Sequence[_Axis], src_base: Expr, dst_base: Expr) -> tuple[Body, tuple[Buffer, ...]]:
        """All results of a contiguous row at a time: acc[j] = op(acc[j], src[k, j])."""
        *outer, inner = kept
        direct = self.dst.type == self.work and inner.dst_step == index(1)
        acc = self.dst if direct else self.names.tile(f"{self.dst.name}_acc", (index(inner.extent),), self.work, "fragment")
        start = identity(self.stmt.op, self.work, self.stmt.nan_propagate)

        def row(offsets: tuple[Expr, Expr]) -> Body:
            src_at, dst_at = add(src_base, offsets[0]), add(dst_base, offsets[1])
            acc_at = dst_at if direct else ZERO
            k = self.names.var("k")

            def step(j: Expr) -> Stmt:
                value = self.element(add(add(src_at, mul(k, self.step)), j))
                return SetElement(acc, add(acc_at, j), self.combine(Element(acc, add(acc_at, j), True), value))

            def begin(j: Expr) -> Stmt:
                old = cast(Element(self.dst, add(dst_at, mul(j, inner.dst_step)), True), self.work)
                return SetElement(acc, add(acc_at, j), start if self.stmt.clear else old)

            def finish(j: Expr) -> Stmt:
                return SetElement(self.dst, add(dst_at, mul(j, inner.dst_step)), cast(Element(acc, j, True), self.dst.type))

            body: list[Stmt] = []
            if self.stmt.clear or not direct:
                body.append(_vector(inner.extent, begin, self.names))
            body.append(Loop(k, ZERO, index(self.count), (_vector(inner.extent, step, self.names),)))
            if not direct:
                body.append(_vector(inner.extent, finish, self.names))
            return tuple(body)

        return _nest(outer, row, self.names), () if direct else (acc,)

    @property
    def combiner(self) -> str:
        return _COMBINE[self.stmt.op]

    def combine(self, a: Expr, b: Expr) -> Expr:
        return combine_step(self.stmt.op, a, b, self.stmt.nan_propagate)

    def element(self, offset: Expr) -> Expr:
        value = cast(Element(self.src, offset, True), self.work)
        return Unary("abs", value) if self.stmt.op in ("abssum", "absmax") else value


def combine_step(op: str, a: Expr, b: Expr, nan_propagate: bool) -> Expr:
    """Two partial results of the reduction or scan `op` as one."""
    combiner = _COMBINE[op]
    if nan_propagate and combiner in ("max", "min") and a.dtype.is_float:
        either = Binary("or", Unary("isnan", a), Unary("isnan", b))
        return Select(either, Binary("add", a, b), Binary(combiner, a, b))
    return Binary(combiner, a, b)


def identity(op: str, work: DType, nan_propagate: bool = False) -> Const:
    """What combines with x to x under the reduction or scan `op`: NaN for max and min of floats that ignore it, else an infinity."""
    match _COMBINE[op]:
        case "add" | "bitor" | "bitxor":
            return const(0, work)
        case "bitand":
            return const(True if work.is_bool else -1, work)
        case _ if work.is_float:
            infinity = float("-inf" if _COMBINE[op] == "max" else "inf")
            return const(infinity if nan_propagate else float("nan"), work)
        case "max":
            return const(int(work.min), work)
        case _:
            return const(int(work.max), work)


def _nest(axes: Sequence[_Axis], leaf: Callable[[tuple[Expr, Expr]], Body], names: Names) -> Body:
    """Loops over `axes` around leaf((source offset, destination offset))."""

    def level(depth: int, src_offset: Expr, dst_offset: Expr) -> Body:
        if depth == len(axes):
            return leaf((src_offset, dst_offset))
        axis = axes[depth]
        var = names.var("ijlmn"[min(depth, 4)])
        body = level(depth + 1, add(src_offset, mul(var, axis.src_step)), add(dst_offset, mul(var, axis.dst_step)))
        return (Loop(var, ZERO, index(axis.extent), body),)

    return level(0, ZERO, ZERO)


def _vector(extent: int, leaf: Callable[[Expr], Stmt], names: Names) -> Loop:
    var = loop_var(names, "j", extent)
    return Loop(var, cast(ZERO, var.type), cast(index(extent), var.type), (leaf(cast(var, INDEX)),), simd=var.type == INT32)


def scan_loops(stmt: Scan, names: Names) -> Body:
    """Statements that do what `stmt` does. A scan along a row carries a scalar; along another dim it adds row to row."""
    src, dst = stmt.src, stmt.dst
    src_steps, dst_steps = strides(src.buffer), strides(dst.buffer)
    extents = src.static_extents()
    axes = [_Axis(e, src_steps[d], dst_steps[d]) for d, e in enumerate(extents) if d != stmt.dim and e != 1]
    along = _Axis(extents[stmt.dim], src_steps[stmt.dim], dst_steps[stmt.dim])
    work = _work_type("sum", dst.buffer.type)
    scan = _Scanning(stmt, along, work, names, src.buffer, dst.buffer, base_offset(src), base_offset(dst))
    one = index(1)
    if axes and axes[-1].src_step == one and axes[-1].dst_step == one and work == dst.buffer.type:
        return scan.by_rows(axes)
    return scan.by_row(axes)


@dataclass(slots=True)
class _Scanning:
    stmt: Scan
    along: _Axis
    work: DType
    names: Names
    src: Buffer
    dst: Buffer
    src_base: Expr
    dst_base: Expr

    def by_row(self, axes: Sequence[_Axis]) -> Body:
        op = "add" if self.stmt.op == "sum" else self.stmt.op

        def leaf(offsets: tuple[Expr, Expr]) -> Body:
            acc = self.names.scalar("running", self.work)
            k = self.names.var("k")
            src_at = add(add(self.src_base, offsets[0]), mul(k, self.along.src_step))
            dst_at = add(add(self.dst_base, offsets[1]), mul(k, self.along.dst_step))
            update = SetElement(acc, ZERO, Binary(op, Element(acc, ZERO), cast(Element(self.src, src_at), self.work)))
            store = SetElement(self.dst, dst_at, cast(Element(acc, ZERO), self.dst.type))
            return (Declare(acc, identity(self.stmt.op, self.work)), self.loop(k, 0, (update, store)))

        return _nest(axes, leaf, self.names)

    def by_rows(self, axes: Sequence[_Axis]) -> Body:
        *outer, inner = axes
        op = "add" if self.stmt.op == "sum" else self.stmt.op

        def row(offsets: tuple[Expr, Expr]) -> Body:
            src_row, dst_row = add(self.src_base, offsets[0]), add(self.dst_base, offsets[1])
            k = self.names.var("k")
            first = index(self.along.extent - 1 if self.stmt.reverse else 0)
            before = add(k, index(1 if self.stmt.reverse else -1))

            def begin(j: Expr) -> Stmt:
                value = Element(self.src, add(add(src_row, mul(first, self.along.src_step)), j), True)
                return SetElement(self.dst, add(add(dst_row, mul(first, self.along.dst_step)), j), cast(value, self.work))

            def step(j: Expr) -> Stmt:
                old = Element(self.dst, add(add(dst_row, mul(before, self.along.dst_step)), j), True)
                value = cast(Element(self.src, add(add(src_row, mul(k, self.along.src_step)), j), True), self.work)
                return SetElement(self.dst, add(add(dst_row, mul(k, self.along.dst_step)), j), Binary(op, old, value))

            return (_vector(inner.extent, begin, self.names), self.loop(k, 1, (_vector(inner.extent, step, self.names),)))

        return _nest(outer, row, self.names)

    def loop(self, k: Var, skip: int, body: Body) -> Loop:
        """k over the scanned dim in scan order, without the first `skip` places."""
        if self.stmt.reverse:
            return Loop(k, index(self.along.extent - 1 - skip), index(-1), body, step=-1)
        return Loop(k, index(skip), index(self.along.extent), body)

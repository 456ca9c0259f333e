"""Runs a kernel's control flow over lanes, and hands every statement that does work to a subclass.

A loop is first taken as a range: one lane stands for all its iterations. Where a decision (a condition, a trip count, the edge of a
buffer) differs within the range, only the lanes concerned are told apart, outermost loop first, and run again. So a grid whose tiles all fit
costs one lane, a ragged one a lane for each edge block, and both give exact counts.

Decisions that depend on data are counted as taken and noted as an assumption with their line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from ..base.span import Span
from ..ir.expr import Buffer, Expr, Load, Var
from ..ir.node import Node, walk
from ..ir.stmt import (
    Atomic,
    Body,
    Break,
    Continue,
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
    Return,
    ScalarParam,
    Scan,
    Stmt,
    While,
)
from .raster import coordinates, panels_of
from .space import Array, Bounds, Evaluator, Lanes

LANE_CAP = 2_000_000  # more lanes than this are sampled, and the sample is noted
TILE = (Copy, Fill, Gemm, Reduce, Scan, Atomic)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something the model could not know, in words, with the line it concerns."""

    text: str
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.span.where}: {self.text}" if self.span is not None else self.text


@dataclass(slots=True)
class _Frame:
    """A loop that runs as a range; `open` marks the lanes that must be told apart. `name` is its variable, `key` a column with the lane's number."""

    name: str
    key: str
    open: Array


class Walk(Generic[R]):
    """Visits `kernel` with concrete `dims` and `scalars` (by variable name).

    With `ordered` serial loops and the grid are always expanded, in launch order. Subclasses give `work` (a statement on lanes), `join` (results of
    statements in a row), `lift` (results of lanes to their parents), `mark` and `rollback`.
    """

    def __init__(
        self,
        kernel: Kernel,
        dims: Mapping[str, int],
        scalars: Mapping[str, Any] | None = None,
        arrays: Mapping[str, Array] | None = None,
        *,
        ordered: bool = False,
    ) -> None:
        self.kernel = kernel
        self.evaluate = Evaluator(arrays)
        self.ordered = ordered
        self.known = {**_defaults(kernel), **dims, **(scalars or {})}
        missing = [v.name for v in kernel.dims if v.name not in self.known]
        if missing:
            raise ValueError(f"the kernel has symbolic dims without a value: {', '.join(missing)}")
        self.assumptions: dict[Assumption, None] = {}
        self.blocks: Callable[[int], Array] | None = None  # which blocks of a grid to visit, by number in launch order; None: all
        self.has_panels = False  # whether blocks start in the panels that the author asked for, as on a GPU
        self.threads = 1
        self._frames: list[_Frame] = []
        self._count = 0
        self._origins: dict[str, frozenset[str]] = {}
        self._free: dict[int, tuple[str, ...]] = {}

    def work(self, stmt: Stmt, lanes: Lanes) -> R:
        """What `stmt` does on `lanes`. Tile operations come once a block, scalar statements once a thread."""
        raise NotImplementedError

    def join(self, parts: list[R], lanes: Lanes) -> R:
        raise NotImplementedError

    def lift(self, part: R, parent: Array) -> R:
        raise NotImplementedError

    def mark(self) -> Any:
        """A point to which `rollback` can return."""

    def rollback(self, mark: Any) -> None:
        """Forget all work since `mark`: its lanes run again, told apart."""

    def run(self) -> R:
        """Visit the whole kernel."""
        return self.body(self.kernel.body, Lanes.single(self.known))

    def assume(self, text: str, span: Span | None = None) -> None:
        self.assumptions[Assumption(text, span)] = None

    # ------------------------------------------------------------------------------------------ statements
    def body(self, body: Body, lanes: Lanes) -> R:
        parts: list[R] = []
        for position, stmt in enumerate(body):
            if not lanes.size:
                break
            match stmt:
                case Let(var, value):
                    parts.append(self.work(stmt, lanes))
                    lanes = self._bind(var, value, lanes)
                case If():
                    part, rest = self._if(stmt, lanes)
                    parts.append(part)
                    if rest is not None:  # some lanes left the body here
                        after = self.body(body[position + 1 :], lanes.take(rest))
                        parts.append(self.lift(after, rest))
                        break
                case Return() | Continue() | Break():
                    break
                case _:
                    parts.append(self._statement(stmt, lanes))
        return self.join(parts, lanes)

    def _statement(self, stmt: Stmt, lanes: Lanes) -> R:
        match stmt:
            case Launch():
                return self._launch(stmt, lanes)
            case ParallelFor(names, extents, inner):
                return self._parallel(names, extents, inner, lanes, stmt.span)
            case For(var, start, stop, inner, step):
                return self._loop(var.name, start, stop, step, inner, lanes, stmt.span)
            case PipelinedFor(var, start, stop, inner):
                return self._loop(var.name, start, stop, 1, inner, lanes, stmt.span)
            case While(_, inner):
                self.assume("a `while` loop is counted as one iteration", stmt.span)
                return self.body(inner, lanes)
            case _ if isinstance(stmt, TILE) and self.threads > 1:
                return self.work(stmt, lanes.scaled(1 / self.threads))
            case _:
                return self.work(stmt, lanes)

    def _bind(self, var: Var, value: Expr, lanes: Lanes) -> Lanes:
        self._origins[var.name] = self._sources(value, lanes)
        self.evaluate.definitions[var.name] = value
        return lanes.bind(var.name, self.evaluate.bounds(value, lanes))

    def _if(self, stmt: If, lanes: Lanes) -> tuple[R, Array | None]:
        """Both branches, each on its lanes; and the lanes that go on after it, if a branch leaves the body."""
        leaves_then, leaves_other = _leaves(stmt.then), _leaves(stmt.other)
        taken = self.decide(stmt.cond, lanes, unknown=not leaves_then, span=stmt.span)
        if any(isinstance(n, Break) for n in (*stmt.then, *stmt.other)):
            self.assume("iterations after a `break` are counted where its condition does not hold", stmt.span)
        yes, no = np.flatnonzero(taken), np.flatnonzero(~taken)
        parts = [self.work(If(stmt.cond, (), (), span=stmt.span), lanes)]
        parts += [self.lift(self.body(body, lanes.take(index)), index) for body, index in ((stmt.then, yes), (stmt.other, no)) if index.size and body]
        rest = None
        if leaves_then or leaves_other:
            rest = np.flatnonzero(~((taken & leaves_then) | (~taken & leaves_other)))
        return self.join(parts, lanes), rest

    def decide(self, cond: Expr, lanes: Lanes, *, unknown: bool = True, span: Span | None = None) -> Array:
        """Per lane, whether `cond` holds; lanes on which it is not one answer are marked to be told apart."""
        found = self.evaluate.bounds(cond, lanes)
        if found is None:
            self.assume(f"a condition that depends on data is counted as {'taken' if unknown else 'not taken'}", span or cond.span)
            return np.full(lanes.size, unknown)
        certain, possible = lanes.column(np.asarray(found[0]) > 0), lanes.column(np.asarray(found[1]) > 0)
        mixed = certain != possible
        if mixed.any():
            self.settle(mixed, (cond,), lanes)
        return possible

    def settle(self, mixed: Array, causes: Iterable[Expr], lanes: Lanes) -> None:
        """Mark lanes whose answer is not one: the outermost loop that the expressions `causes` vary with will be told apart."""
        names = frozenset[str]().union(*(self._sources(cause, lanes) for cause in causes))
        for frame in self._frames:
            if frame.name in names:
                number = lanes.values[frame.key]
                assert number is not None
                frame.open[number[mixed]] = True
                return

    def _sources(self, expr: Expr, lanes: Lanes) -> frozenset[str]:
        """The loops that still run as a range and that `expr` varies with."""
        names = self._free.get(id(expr))
        if names is None:
            names = self._free[id(expr)] = tuple({n.name for n in walk(expr) if isinstance(n, Var)})
        return frozenset[str]().union(*(self._origins.get(n, frozenset((n,))) for n in names if n in lanes.ranges))

    # ------------------------------------------------------------------------------------------ loops
    def _range(self, name: str, start: Array, trips: Array, step: int, lanes: Lanes, inside: Callable[[Lanes], R], *, expand: bool) -> R:
        """Run `inside` over the iterations of one variable: as a range first, told apart where that leaves a decision open."""
        alive = np.flatnonzero(trips > 0)
        if alive.size < lanes.size:
            return self.lift(self._range(name, start[alive], trips[alive], step, lanes.take(alive), inside, expand=expand), alive)
        self._origins.pop(name, None)
        self.evaluate.steps[name] = step
        if expand:
            return self._expanded(name, start, trips, step, lanes, inside)
        if self.ordered:
            return inside(_as_range(name, start, trips, step, lanes))
        mark, self._count = self.mark(), self._count + 1
        frame = _Frame(name, f"@{self._count}", np.zeros(lanes.size, dtype=bool))
        self._frames.append(frame)
        numbered = lanes.bind(frame.key, _same(np.arange(lanes.size)))
        part = inside(_as_range(name, start, trips, step, numbered))
        self._frames.pop()
        if not frame.open.any():
            return part
        self.rollback(mark)
        parts: list[R] = []
        for told_apart in (False, True):
            index = np.flatnonzero(frame.open == told_apart)
            if index.size:
                one = (name, start[index], trips[index], step, lanes.take(index), inside)
                parts.append(self.lift(self._expanded(*one) if told_apart else self._range(*one, expand=False), index))
        return self.join(parts, lanes)

    def _expanded(self, name: str, start: Array, trips: Array, step: int, lanes: Lanes, inside: Callable[[Lanes], R]) -> R:
        total = int(trips.sum())
        if total > LANE_CAP:
            every = -(-total // LANE_CAP) | 1  # odd, so that a sample does not fall in step with a power of two
            self.assume(f"1 of {every} iterations of {name} was counted and scaled")
            child, parent = _sample(name, start, trips, step, lanes, every)
        else:
            child, parent = lanes.expanded(name, start, trips, step)
        return self.lift(inside(child), parent)

    def _loop(self, name: str, start: Expr, stop: Expr, step: int, body: Body, lanes: Lanes, span: Span | None) -> R:
        first, last = self.evaluate.bounds(start, lanes), self.evaluate.bounds(stop, lanes)
        if first is None or last is None:
            self.assume(f"the bounds of the loop over {name} depend on data: counted as one iteration", span)
            return self.body(body, lanes.bind(name, first))
        begin, trips = self._trips(first, last, step, (start, stop), lanes)
        return self._range(name, begin, trips, step, lanes, lambda inner: self.body(body, inner), expand=self.ordered)

    def _trips(self, first: Bounds, last: Bounds, step: int, causes: tuple[Expr, ...], lanes: Lanes) -> tuple[Array, Array]:
        (lo1, hi1), (lo2, hi2) = first, last
        mixed = lanes.column(np.not_equal(lo1, hi1) | np.not_equal(lo2, hi2))
        if mixed.any():
            self.settle(mixed, causes, lanes)
        begin, end = lanes.column(lo1), lanes.column(hi2)
        width = np.nan_to_num(end - begin if step > 0 else begin - end, posinf=0, neginf=0)
        return begin, np.maximum(-(-width // abs(step)), 0).astype(np.int64)

    def _parallel(self, names: tuple[Var, ...], extents: tuple[Expr, ...], body: Body, lanes: Lanes, span: Span | None) -> R:
        if not names:
            return self.body(body, lanes)
        extent = self.evaluate.bounds(extents[0], lanes)
        if extent is None:
            self.assume(f"the extent of {names[0].name} depends on data: counted as one iteration", span)
            return self._parallel(names[1:], extents[1:], body, lanes.bind(names[0].name, None), span)
        begin, trips = self._trips((0, 0), extent, 1, extents[:1], lanes)
        inside: Callable[[Lanes], R] = lambda inner: self._parallel(names[1:], extents[1:], body, inner, span)
        return self._range(names[0].name, begin, trips, 1, lanes, inside, expand=False)

    def _launch(self, launch: Launch, lanes: Lanes) -> R:
        axes = list(zip(launch.block_vars, launch.grid, strict=True))
        if self.ordered and self.blocks is not None:
            return self._some_blocks(launch, lanes)
        inside: Callable[[Lanes], R] = lambda inner: self._block(launch, inner)
        for var, extent in axes:  # x first: it becomes the innermost loop, as blocks are launched
            inside = self._axis(var.name, extent, inside)
        return inside(lanes)

    def _axis(self, name: str, extent: Expr, inside: Callable[[Lanes], R]) -> Callable[[Lanes], R]:
        def over(lanes: Lanes) -> R:
            found = self.evaluate.bounds(extent, lanes)
            if found is None:
                self.assume(f"the grid extent of {name} depends on data: counted as one block")
                return inside(lanes.bind(name, _same(0)))
            begin, trips = self._trips((0, 0), found, 1, (extent,), lanes)
            return self._range(name, begin, trips, 1, lanes, inside, expand=self.ordered)

        return over

    def _some_blocks(self, launch: Launch, lanes: Lanes) -> R:
        """The blocks that `self.blocks` picks from each grid, in the order of their start."""
        assert self.blocks is not None
        parts: list[R] = []
        for lane in range(lanes.size):
            one = lanes.take(np.asarray([lane]))
            shape = [int(np.ravel(found[1])[0]) if (found := self.evaluate.bounds(e, one)) is not None else 1 for e in launch.grid]
            numbers = self.blocks(int(np.prod(shape)))
            inner, _ = one.expanded("@block", np.zeros(1), np.asarray([numbers.size]))
            for var, at in zip(launch.block_vars, coordinates(numbers, shape, panels_of(launch) if self.has_panels else ""), strict=True):
                inner = inner.bind(var.name, _same(at))
            parts.append(self.lift(self._block(launch, inner), np.full(inner.size, lane)))
        return self.join(parts, lanes)

    def _block(self, launch: Launch, lanes: Lanes) -> R:
        if not launch.threads_used:
            return self.body(launch.body, lanes)
        self.threads = int(np.prod(launch.threads))
        inside: Callable[[Lanes], R] = lambda inner: self.body(launch.body, inner)
        for var, extent in zip(launch.thread_vars, launch.threads, strict=False):
            inside = self._thread_axis(var.name, extent, inside)
        part = inside(lanes)
        self.threads = 1
        return part

    def _thread_axis(self, name: str, extent: int, inside: Callable[[Lanes], R]) -> Callable[[Lanes], R]:
        return lambda lanes: self._range(name, np.zeros(lanes.size, np.int64), np.full(lanes.size, extent), 1, lanes, inside, expand=False)


def _same(value: Any) -> Bounds:
    return value, value


def _as_range(name: str, start: Array, trips: Array, step: int, lanes: Lanes) -> Lanes:
    """The lanes with `name` over its iterations; points grow by the number of iterations, not by the width that a step leaves out."""
    last = start + step * (trips - 1)
    ranged = lanes.bind(name, (np.minimum(start, last), np.maximum(start, last)))
    return ranged.scaled(trips)


def _sample(name: str, start: Array, trips: Array, step: int, lanes: Lanes, every: int) -> tuple[Lanes, Array]:
    """Every `every`-th iteration of all lanes in a row, each standing for `every`."""
    ends = np.cumsum(trips)
    flat = np.arange(every // 2, int(ends[-1]), every)
    parent = np.searchsorted(ends, flat, side="right")
    offset = flat - (ends[parent] - trips[parent])
    taken = lanes.take(parent).scaled(float(ends[-1]) / flat.size)
    return taken.bind(name, _same(start[parent] + step * offset)), parent


def _leaves(body: Body) -> bool:
    """Whether a branch always ends the enclosing body: its last statement is a continue, break or return."""
    if not body:
        return False
    last = body[-1]
    return isinstance(last, Continue | Break | Return) or isinstance(last, If) and _leaves(last.then) and _leaves(last.other)


def _defaults(kernel: Kernel) -> dict[str, Any]:
    return {p.var.name: p.default for p in kernel.params if isinstance(p, ScalarParam) and p.default is not None}


def loads(node: Node) -> list[Load]:
    """Every load below `node`, in program order."""
    return [n for n in walk(node) if isinstance(n, Load)]


def root_name(buffer: Buffer) -> str:
    """The name under which the bytes of a buffer, or of a view of it, are counted."""
    return buffer.root.name

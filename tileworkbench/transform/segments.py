"""The second half of `fission_threads`: where the variables of a thread live, and the loops over the threads.

A variable that is bound in one segment and used in another is computed again there if it is index arithmetic, otherwise it is kept in an array
with an element per thread. A thread's own buffer lives in the loop's iteration if one segment uses it and fills it first, otherwise in such an
array too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..analysis.uniform import Uniformity, is_private, is_pure
from ..base.dtypes import DType
from ..base.errors import UnsupportedError
from ..ir.build import index
from ..ir.expr import AddressOf, Buffer, Expr, Load, Var
from ..ir.lowered import Declare
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Atomic, Body, For, If, Launch, Let, ParallelFor, Print, Region, Stmt, Store, While
from .names import Names


@dataclass(frozen=True, slots=True)
class Segment(Stmt):
    """Statements that each thread runs before any thread runs what follows. `in_loop`: the segment may run more than once."""

    number: int
    in_loop: bool
    body: Body


def finish_segments(
    body: Body, segments: Sequence[Segment], launch: Launch, thread: Expr, count: int, uniform: Uniformity, names: Names, tiles: list[Buffer]
) -> tuple[Body, set[Buffer]]:
    """`body` with a parallel loop for every segment, and the private buffers that the launch need not allocate any more."""
    present = {n.number for s in body for n in walk(s) if isinstance(n, Segment)}
    work = _Placing([s for s in segments if s.number in present], launch, thread, count, uniform, names, tiles)
    work.place_variables()
    work.place_buffers()
    done = tuple(rewrite(s, lambda n: work.loop(n) if isinstance(n, Segment) else n) for s in body)
    return done, set(work.arrays) | {b for own in work.own.values() for b in own}


class _Placing:
    def __init__(
        self, segments: list[Segment], launch: Launch, thread: Expr, count: int, uniform: Uniformity, names: Names, tiles: list[Buffer]
    ) -> None:
        self.segments, self.launch, self.thread, self.count = segments, launch, thread, count
        self.uniform, self.names, self.tiles = uniform, names, tiles
        self.kept: dict[str, Buffer] = {}  # a variable bound in one segment and read in others: its array
        self.again: dict[str, Let] = {}  # a variable that may be computed again
        self.defined: dict[str, int] = {}
        self.types: dict[str, DType] = {}
        self.arrays: dict[Buffer, Buffer] = {}
        self.own: dict[int, list[Buffer]] = {}

    # ------------------------------------------------------------------------------------------ variables
    def place_variables(self) -> None:
        for segment in self.segments:
            for var, stmt in _bindings(segment):
                self.defined[var.name] = segment.number
                self.types[var.name] = var.type
                if isinstance(stmt, Let) and is_pure(stmt.value):
                    self.again[var.name] = stmt
        for segment in self.segments:
            for name in self.foreign(segment.body, segment.number):
                if not self.can_repeat(name) and name not in self.kept:
                    array = self.names.tile(name, (index(self.count),), self.types[name])
                    self.tiles.append(array)
                    self.kept[name] = array

    def foreign(self, body: Body, number: int) -> list[str]:
        """Names used in `body` that another segment binds."""
        used = {n.name: None for s in body for n in walk(s) if isinstance(n, Var)}
        return [name for name in used if self.defined.get(name, number) != number]

    def can_repeat(self, name: str) -> bool:
        let = self.again.get(name)
        if let is None:
            return False
        return all(n.name not in self.defined or self.can_repeat(n.name) for n in walk(let.value) if isinstance(n, Var))

    def preamble(self, body: Body, number: int) -> Iterator[Stmt]:
        """Bindings in front of a segment for what other segments bound."""
        done: set[str] = set()

        def bind(name: str) -> Iterator[Stmt]:
            if name in done:
                return
            done.add(name)
            if self.can_repeat(name):
                let = self.again[name]
                for n in walk(let.value):
                    if isinstance(n, Var) and n.name in self.defined:
                        yield from bind(n.name)
                yield let
            else:
                array = self.kept[name]
                yield Let(Var(name, array.type), Load(array, (self.thread,)))

        for name in self.foreign(body, number):
            yield from bind(name)

    # ------------------------------------------------------------------------------------------ buffers
    def place_buffers(self) -> None:
        users: dict[Buffer, list[Segment]] = {}
        for segment in self.segments:
            for buffer in {b.root: None for b in _buffers(segment) if is_private(b) and b.root.name in self.uniform.varying}:
                users.setdefault(buffer, []).append(segment)
        for buffer, where in users.items():
            if len(where) == 1 and (not where[0].in_loop or _is_filled_first(where[0].body, buffer)):
                self.own.setdefault(where[0].number, []).append(buffer)
                continue
            array = replace(buffer, name=self.names.fresh(buffer.name), shape=(index(self.count), *buffer.shape), scope="shared", strides=None)
            self.tiles.append(array)
            self.arrays[buffer] = array

    def array(self, buffer: Buffer) -> Buffer | None:
        """The array that holds `buffer`, or what it views, of every thread; None if it is not kept in one."""
        if buffer not in self.arrays and buffer.view_of is not None and buffer.root in self.arrays:
            owner = self.array(buffer.view_of)
            view = replace(buffer, name=self.names.fresh(buffer.name), shape=(index(self.count), *buffer.shape), scope="shared", view_of=owner)
            self.tiles.append(view)
            self.arrays[buffer] = view
        return self.arrays.get(buffer)

    def spread(self, node: Node) -> Node:
        """A private buffer's element in its array."""
        match node:
            case Load(buffer, indices) | Store(buffer, indices) | AddressOf(buffer, indices):
                array = self.array(buffer)
                return node if array is None else replace(node, buffer=array, indices=(self.thread, *indices))
            case Atomic(dst=Region(buffer, starts, extents)):
                array = self.array(buffer)
                return node if array is None else replace(node, dst=Region(array, (self.thread, *starts), (index(1), *extents)))
            case Print(buffer=Buffer() as buffer) if buffer.root in self.arrays:
                raise UnsupportedError(
                    f"{buffer.name} belongs to each thread, lives across a barrier and is printed whole", span=node.span,
                    hint="print single elements",
                )  # fmt: skip
            case _:
                return node

    # ------------------------------------------------------------------------------------------ the loop
    def loop(self, segment: Segment) -> ParallelFor:
        keep = [Store(array, (self.thread,), Var(name, array.type)) for name, array in self.kept.items() if self.defined[name] == segment.number]
        body = segment.body
        for store in keep:
            assert isinstance(store.value, Var)
            body = _after_let(body, store.value.name, store)
        body = (*self.preamble(segment.body, segment.number), *body)
        body = tuple(rewrite(s, self.spread) for s in body)
        roots = self.own.get(segment.number, [])
        views = sorted({b for b in _buffers(segment) if b.view_of is not None and b.root in roots}, key=lambda b: b.name)
        declared = tuple(Declare(b) for b in (*roots, *views))
        launch = self.launch
        axes = [(v, e) for v, e in zip(launch.thread_vars, launch.threads, strict=True) if e > 1] or [(launch.thread_vars[0], 1)]
        axes.reverse()  # x innermost
        unused = tuple(Let(v, index(0)) for v, e in zip(launch.thread_vars, launch.threads, strict=True) if e == 1 and (v, e) not in axes)
        return ParallelFor(tuple(v for v, _ in axes), tuple(index(e) for _, e in axes), (*unused, *declared, *body), span=segment.body[0].span)


def _bindings(segment: Segment) -> Iterator[tuple[Var, Let | Atomic]]:
    """Variables that the segment binds to values."""
    for n in walk(segment):
        if isinstance(n, Let):
            yield n.var, n
        elif isinstance(n, Atomic) and n.result is not None:
            yield n.result, n


def _buffers(node: Node) -> Iterator[Buffer]:
    for n in walk(node):
        match n:
            case Load(buffer) | Store(buffer) | AddressOf(buffer) | Region(buffer) | Print(buffer=Buffer() as buffer):
                yield buffer
            case _:
                pass


def _is_filled_first(body: Body, buffer: Buffer) -> bool:
    """Whether a scalar is written before it is read, whatever happens."""
    for stmt in body:
        if isinstance(stmt, If) and len(body) == 1 and not any(b.root == buffer for b in _buffers(stmt.cond)):
            return not stmt.other and _is_filled_first(stmt.then, buffer)  # a mask around the whole segment
        if any(b.root == buffer for b in _buffers(stmt)):
            return isinstance(stmt, Store) and buffer.scope == "var" and not any(b.root == buffer for b in _buffers(stmt.value))
    return False


def _after_let(body: Body, name: str, store: Store) -> Body:
    """`body` with `store` right after the binding of `name`, wherever that stands."""
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Let(var) if var.name == name:
                out += [stmt, store]
            case Atomic(result=Var(found)) if found == name:
                out += [stmt, store]
            case If(_, then, other):
                out.append(replace(stmt, then=_after_let(then, name, store), other=_after_let(other, name, store)))
            case For(body=inside) | While(body=inside):
                out.append(replace(stmt, body=_after_let(inside, name, store)))
            case _:
                out.append(stmt)
    return tuple(out)

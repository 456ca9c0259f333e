"""Which threads hold which cells of every fragment of a launch, and which iterations of parallel loops they run.

A product fixes the fragments it names. A parallel loop over the cells of such a fragment runs where they lie; another fragment that it touches at
its own loop variables, or at some of them, then lies the same way. A reduction leaves its rows where they are. What is free is spread in vectors.
Every access is then checked by a table: a thread may only touch cells that it holds, in a register that no thread index decides. A fragment for which
that cannot be had is not held in registers: `shared` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from ..ir.expr import AddressOf, Binary, Buffer, Cast, Const, Expr, Load, Var
from ..ir.node import walk
from ..ir.stmt import (
    Atomic,
    Body,
    Copy,
    For,
    Gemm,
    If,
    Launch,
    ParallelFor,
    PipelinedFor,
    Print,
    Reduce,
    Region,
    Scan,
    Stmt,
    Store,
    While,
    is_whole,
)  # fmt: skip
from ..layout.algebra import Array
from ..layout.fragments import Fragment, flat, is_formula, own_registers
from .matrix_units import MatrixUnit, product_unit
from .uses import uses
from .whole_rows import whole_rows

MAX_VECTOR_BYTES = 16


@dataclass(slots=True)
class Placement:
    """`fragments`: where they lie. `loops`, `units`: by identity of the statement. `shared`: fragments that lie in shared memory, and why."""

    threads: int
    fragments: dict[Buffer, Fragment] = field(default_factory=dict)
    loops: dict[int, Fragment] = field(default_factory=dict)
    units: dict[int, MatrixUnit] = field(default_factory=dict)
    shared: dict[Buffer, str] = field(default_factory=dict)


def place_fragments(launch: Launch, arch: int) -> Placement:
    """The placement for a block of `launch` on compute capability `arch`."""
    return _Placer(launch, arch).run()


def is_grouped(stmt: Gemm, launch: Launch, arch: int) -> bool:
    """Whether warp groups compute `stmt`."""
    return product_unit(stmt, launch.count_threads, arch, forms=launch.forms).kind == "wgmma"


class _Placer:
    def __init__(self, launch: Launch, arch: int) -> None:
        self.arch, self.forms = arch, launch.forms
        self.out = Placement(int(np.prod(launch.threads)))
        self.tiles = [b for b in launch.allocs if b.scope == "fragment" and b.view_of is None]
        self.stmts = [n for s in launch.body for n in walk(s) if isinstance(n, (Gemm, ParallelFor, Reduce, Copy, Scan, Atomic, Print))]
        self.loops = [s for s in self.stmts if isinstance(s, ParallelFor)]
        self.touched = {id(s): tuple(_touched(s)) for s in self.loops}
        self.whole_rows = whole_rows(self.stmts)
        for buffer in _one_by_one(launch.body):
            self.keep_shared(buffer, "the block reads or writes single cells of it")
        for view in (b for b in launch.allocs if b.view_of is not None):
            self.keep_shared(view.root, "another tile is a view of it")
        for node in (n for s in launch.body for n in walk(s)):
            if isinstance(node, AddressOf):
                self.keep_shared(node.buffer.root, "its address is taken")

    def run(self) -> Placement:
        for stmt in self.stmts:
            if isinstance(stmt, Gemm):
                self.product(stmt)
            elif isinstance(stmt, (Scan, Atomic, Print)):
                for region in (n for n in walk(stmt) if isinstance(n, (Region, Load))):
                    self.keep_shared(region.buffer.root, f"a {type(stmt).__name__.lower()} takes it whole")
                if isinstance(stmt, Print) and stmt.buffer is not None:
                    self.keep_shared(stmt.buffer.root, "it is printed")
        while self.spread():
            pass
        for tile in self.tiles:
            self.lay(tile, flat(tile.static_shape(), self.out.threads))
        for stmt in self.stmts:
            self.check(stmt)
        return self.out

    def keep_shared(self, buffer: Buffer, why: str) -> None:
        if buffer.scope == "fragment":
            self.out.shared.setdefault(buffer, why)
            self.out.fragments.pop(buffer, None)

    def is_free(self, buffer: Buffer) -> bool:
        return buffer in self.tiles and buffer not in self.out.shared and buffer not in self.out.fragments

    def lay(self, buffer: Buffer, fragment: Fragment) -> bool:
        """Give `buffer` a place if it has none; whether it got one."""
        if not self.is_free(buffer) or fragment.shape != buffer.static_shape():
            return False
        self.out.fragments[buffer] = fragment
        return True

    # ------------------------------------------------------------------------------------------ what is fixed
    def product(self, stmt: Gemm) -> None:
        policy = "full_row" if stmt.policy == "square" and stmt.c.buffer in self.whole_rows else stmt.policy
        unit = self.out.units[id(stmt)] = product_unit(stmt, self.out.threads, self.arch, policy, self.forms)
        self.fix(stmt.c, unit.c)
        if unit.kind == "fma" or stmt.trans_a:
            self.keep_shared(stmt.a.buffer, "a product reads it across the threads")
        else:
            self.fix(stmt.a, unit.a)
        self.keep_shared(stmt.b.buffer, "a product reads it across the threads")

    def fix(self, region: Region, fragment: Fragment) -> None:
        """`region` must lie as `fragment`."""
        buffer = region.buffer
        if buffer not in self.tiles or buffer in self.out.shared:  # also a view, whose owner is in shared memory
            return
        if not is_whole(region) or buffer.rank != 2:
            self.keep_shared(buffer, "a product takes a part of it")
        elif self.out.fragments.setdefault(buffer, fragment) != fragment:
            self.keep_shared(buffer, "two products want it in different ways")

    # ------------------------------------------------------------------------------------------ what follows
    def spread(self) -> bool:
        """One more placement from what is known, or else a default for the largest loop; False when nothing is left."""
        return any(self.follow(s) for s in self.stmts) or any(self.begin(loop) for loop in sorted(self.loops, key=_size, reverse=True))

    def follow(self, stmt: Stmt) -> bool:
        known = self.out.fragments
        match stmt:
            case ParallelFor():
                return self.follow_loop(stmt)
            case Reduce(_, src, dst, dim) if src.buffer in known and is_whole(src):
                rows = known[src.buffer].drop(dim)
                return is_whole(dst) and self.lay(dst.buffer, rows if dst.buffer.rank < src.buffer.rank else with_one(rows, dim))
            case Copy(src, dst) if is_whole(src) and is_whole(dst):
                return (
                    src.buffer in known and self.lay(dst.buffer, known[src.buffer]) or dst.buffer in known and self.lay(src.buffer, known[dst.buffer])
                )
            case _:
                return False

    def follow_loop(self, loop: ParallelFor) -> bool:
        placed = self.out.loops.get(id(loop))
        if placed is None:
            found = [b for b, at in self.touched[id(loop)] if b in self.out.fragments and at == loop.vars and _covers(b, loop)]
            if not found:
                return False
            shape = tuple(int(e.value) for e in loop.extents if isinstance(e, Const))
            self.out.loops[id(loop)] = replace(self.best(loop, found), shape=shape)  # of a part of the cells, those that hold others rest
            return True
        return any(self.lay(buffer, fragment) for buffer, at in self.touched[id(loop)] if (fragment := _projected(placed, loop.vars, at)) is not None)

    def best(self, loop: ParallelFor, found: list[Buffer]) -> Fragment:
        """Where a loop over the cells of `found` runs: where the others can be reached too, by formulas, and what is read lies."""
        places = dict.fromkeys(self.out.fragments[b] for b in found)
        if len(places) == 1:
            return next(iter(places))
        read = {self.out.fragments[n.buffer] for n in walk(loop) if isinstance(n, Load) and n.buffer in found}

        def score(here: Fragment) -> tuple[int, int, int, bool]:
            tables = [own_registers(here, there, here.cells()) for there in places]
            reached = [table for table in tables if table is not None]
            return -here.copies, len(reached), sum(is_formula(here, table) for table in reached), here in read

        return max(places, key=score)

    def begin(self, loop: ParallelFor) -> bool:
        """Spread a loop that no fragment decides."""
        if id(loop) in self.out.loops or not all(isinstance(e, Const) and int(e.value) > 0 for e in loop.extents):
            return False
        shape = tuple(int(e.value) for e in loop.extents if isinstance(e, Const))
        widest = max((n.buffer.type.bits for n in walk(loop) if isinstance(n, (Load, Store))), default=32)
        vector = max(1, MAX_VECTOR_BYTES * 8 // widest)
        while vector > 1 and (shape[-1] % vector or int(np.prod(shape)) < vector * self.out.threads):
            vector //= 2
        self.out.loops[id(loop)] = flat(shape, self.out.threads, vector)
        return True

    # ------------------------------------------------------------------------------------------ what must hold
    def check(self, stmt: Stmt) -> None:
        """Fragments that `stmt` cannot touch where they lie go to shared memory."""
        match stmt:
            case ParallelFor():
                placed = self.out.loops.get(id(stmt))
                for node in walk(stmt):
                    if isinstance(node, (Load, Store)) and node.buffer.root in self.out.fragments:
                        why = "a loop of unknown size touches it" if placed is None else self.why_not(node, stmt, placed)
                        if why:
                            self.keep_shared(node.buffer, why)
                if placed is not None and placed.copies > 1 and reads_back(stmt, frozenset(self.out.fragments)):
                    for written in [n.buffer for n in walk(stmt) if isinstance(n, Store) and n.buffer in self.out.fragments]:
                        self.keep_shared(written, "several threads would hold what one of them reads from memory that it writes")
            case Reduce(_, src, dst, dim):
                if src.buffer in self.out.fragments and not is_whole(src):
                    self.keep_shared(src.buffer, "a reduction takes a part of it")
                if dst.buffer in self.out.fragments and not (is_whole(dst) and _is_reduced(src, dst, dim)):
                    self.keep_shared(dst.buffer, "a reduction fills a part of it")
            case Copy(src, dst) if src.buffer in self.out.fragments and dst.buffer in self.out.fragments:
                if not (is_whole(src) and is_whole(dst)):
                    self.keep_shared(dst.buffer, "a copy between registers takes a part of it")
                elif own_registers(here := self.out.fragments[dst.buffer], self.out.fragments[src.buffer], here.cells()) is None:
                    self.keep_shared(src.buffer, "a thread would need another thread's cell")
            case Copy(src, dst):
                for region in (src, dst):
                    if region.buffer in self.out.fragments and not all(isinstance(x, Const) for x in (*region.starts, *region.extents)):
                        self.keep_shared(region.buffer, "a register would be chosen at run time")
            case _:
                pass

    def why_not(self, node: Load | Store, loop: ParallelFor, placed: Fragment) -> str:
        """Why the threads cannot touch these cells in their own registers, or ""."""
        found = registers_at(node.indices, loop.vars, placed, self.out.fragments[node.buffer], node.buffer.static_shape())
        return found if isinstance(found, str) else ""


@lru_cache(maxsize=512)
def registers_at(indices: tuple[Expr, ...], loop_vars: tuple[Var, ...], placed: Fragment, tile: Fragment, shape: tuple[int, ...]) -> Array | str:
    """The register of `tile`, of `shape`, that each iteration of a loop that is `placed` wants at `indices`, or why threads cannot have it so.

    The same cells are asked for by every statement of a loop, and again when it is written: so answers are kept.
    """
    wanted = cells_at(indices, loop_vars, placed)
    if wanted is None:
        return "a register would be chosen at run time"
    busy = placed.cells()[0] >= 0
    if any(np.any((at < 0) & busy) or np.any((at >= size) & busy) for at, size in zip(wanted, shape, strict=True)):
        return "a loop reaches over its edge"
    found = own_registers(placed, tile, wanted)
    if found is None:
        return "a thread would need another thread's cell"
    found.flags.writeable = False
    return found


def reads_back(loop: ParallelFor, held: frozenset[Buffer]) -> bool:
    """Whether an iteration reads memory (anything but `held` and its own buffers) that an iteration writes: one thread must run it then."""
    found = uses(loop.body)
    memory = [{b.root for b in part if b not in held and b.root.scope not in ("local", "var")} for part in (found.read, found.written)]
    return bool(memory[0] & memory[1])


def cells_at(indices: tuple[Expr, ...], loop_vars: tuple[Var, ...], placed: Fragment) -> Array | None:
    """(rank, threads, registers): the cell at `indices` for each iteration of a loop that is `placed`, -1 where a register has none.

    None if the indices depend on anything but the loop's variables.
    """
    cells = placed.cells()
    known = {var.name: cells[d] for d, var in enumerate(loop_vars)}
    found = [numbers(i, known) for i in indices]
    idle = cells[0] < 0
    whole = [np.where(idle, -1, f) for f in found if f is not None]
    return np.stack(whole) if len(whole) == len(found) else None


def _one_by_one(body: Body) -> Iterator[Buffer]:
    """Fragments whose cells are read or written outside parallel loops."""
    for stmt in body:
        match stmt:
            case ParallelFor():
                pass
            case For(_, start, stop, inside) | PipelinedFor(_, start, stop, inside):
                yield from (n.buffer.root for e in (start, stop) for n in walk(e) if isinstance(n, Load))
                yield from _one_by_one(inside)
            case If(cond, then, other):
                yield from (n.buffer.root for n in walk(cond) if isinstance(n, Load))
                yield from _one_by_one((*then, *other))
            case While(cond, inside):
                yield from (n.buffer.root for n in walk(cond) if isinstance(n, Load))
                yield from _one_by_one(inside)
            case _:
                yield from (n.buffer.root for n in walk(stmt) if isinstance(n, (Load, Store)))


def _size(loop: ParallelFor) -> int:
    return int(np.prod([int(e.value) if isinstance(e, Const) else 0 for e in loop.extents]))


def _touched(loop: ParallelFor) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    """Every access to a fragment: the buffer and where, with plain loop variables without their casts."""
    for node in walk(loop):
        if isinstance(node, (Load, Store)) and node.buffer.scope == "fragment":
            yield node.buffer, tuple(_plain(i) for i in node.indices)


def _covers(buffer: Buffer, loop: ParallelFor) -> bool:
    """Whether each iteration of a loop is a cell of `buffer`."""
    sizes = zip(loop.extents, buffer.static_shape(), strict=True)
    return all(isinstance(e, Const) and 0 < int(e.value) <= size for e, size in sizes)


def _plain(index: Expr) -> Expr:
    return _plain(index.x) if isinstance(index, Cast) else index


def _projected(placed: Fragment, loop_vars: tuple[Var, ...], at: tuple[Expr, ...]) -> Fragment | None:
    """Where the cells at `at`, some of the loop variables in their order, lie; None for other places."""
    dims = [loop_vars.index(i) for i in at if isinstance(i, Var) and i in loop_vars]
    if len(dims) != len(at) or dims != sorted(set(dims)):
        return None
    for dim in reversed(range(len(loop_vars))):
        if dim not in dims:
            placed = placed.drop(dim)
    return placed


def _is_reduced(src: Region, dst: Region, dim: int) -> bool:
    """Whether dst has the dims of src but `dim`, or 1 there."""
    rest = src.extents[:dim] + src.extents[dim + 1 :]
    return dst.extents == rest if len(dst.extents) < len(src.extents) else dst.extents[:dim] + dst.extents[dim + 1 :] == rest


def with_one(rows: Fragment, dim: int) -> Fragment:
    """`rows` as a tile with a dim of extent 1 where one was dropped."""
    digits = tuple(d if d.dim < dim else type(d)(d.source, d.div, d.mod, d.dim + 1, d.stride) for d in rows.digits)
    return Fragment((*rows.shape[:dim], 1, *rows.shape[dim:]), rows.threads, rows.registers, digits)


def numbers(e: Expr, known: Mapping[str, Array]) -> Array | None:
    """`e` for many values of `known` variables at once; None if it depends on anything else."""
    match e:
        case Const(value):
            return np.asarray(int(value), dtype=np.int64)
        case Var(name):
            return known.get(name)
        case Cast(x, to) if to.is_int:
            return numbers(x, known)
        case Binary(op, a, b) if op in _ON_NUMBERS:
            left, right = numbers(a, known), numbers(b, known)
            return None if left is None or right is None else np.asarray(_ON_NUMBERS[op](left, right), dtype=np.int64)
        case _:
            return None


def _floor(divide: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: np.where(b == 0, 0, divide(a, np.where(b == 0, 1, b)))


_ON_NUMBERS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "bitand": np.bitwise_and, "bitxor": np.bitwise_xor,
    "floordiv": _floor(np.floor_divide), "floormod": _floor(np.mod),
    "truncdiv": _floor(lambda a, b: (a - np.fmod(a, b)) // b), "truncmod": _floor(np.fmod),
}  # fmt: skip

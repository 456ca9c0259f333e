"""A launch with a barrier for the whole grid becomes one launch per stretch between such barriers.

Before:  launch (bx) in grid(8): A; sync grid; for s in serial(0, n): B; sync grid
After:   launch (bx) in grid(8): A
         for s in serial(0, n): launch (bx) in grid(8): B

Tiles that live across a barrier get memory for every block. Index arithmetic that is used across one is repeated.

Where threads are visible, what is a thread's own gets memory for every thread.

Requires: no operations on a thread's own buffers.  Preserves: launches without such barriers.
"""

from __future__ import annotations

from ..analysis.linear import has_load
from ..analysis.uses import uses
from ..base.errors import UnsupportedError
from ..ir.bodies import statements
from ..ir.build import index
from ..ir.expr import AddressOf, Buffer, Expr, Load, Var
from ..ir.launches import rewrite_launches
from ..ir.lowered import AllocateGlobal
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Body, For, If, Kernel, Launch, Let, Print, Reduce, Region, Scan, Stmt, Store, Sync, While
from .names import Names

_HINT = "call T.sync_grid at the top of the launch, or in a loop or branch that does not depend on the block"


def split_grid_syncs(kernel: Kernel) -> Kernel:
    """Return `kernel` without barriers of the grid."""
    if not any(isinstance(n, Sync) and n.scope == "grid" for n in statements(kernel)):
        return kernel
    names = Names(kernel)
    found: list[AllocateGlobal] = []

    def change(node: Launch) -> Stmt | Body:
        if _has_sync(node):
            return _Splitting(node, names, found).stretches()
        return node

    body = rewrite_launches(kernel, change).body
    return replace(kernel, body=(*found, *body))


def _has_sync(node: Node) -> bool:
    return any(isinstance(n, Sync) and n.scope == "grid" for n in statements(node))


class _Splitting:
    def __init__(self, launch: Launch, names: Names, found: list[AllocateGlobal]) -> None:
        self.launch, self.names, self.found = launch, names, found
        extra = tuple(names.var(f"t{'xyz'[d]}") for d in range(len(launch.thread_vars), len(launch.threads))) if launch.threads_used else ()
        self.launch = replace(launch, thread_vars=(*launch.thread_vars, *extra)) if extra else launch
        self.own = {v.name for v in (*launch.block_vars, *launch.thread_vars)}
        self.lets: dict[str, Let] = {}
        self.moved: dict[Buffer, Buffer] = {}

    def stretches(self) -> Body:
        groups = self.split(self.launch.body)
        stretches = [n for s in groups for n in walk(s) if isinstance(n, Launch)]
        seen: dict[Buffer, int] = {}
        for stretch in stretches:
            for buffer in {b.root for b in uses(stretch.body).buffers if b.is_on_chip}:
                seen[buffer] = seen.get(buffer, 0) + 1
        in_loop = any(isinstance(s, (For, While)) for s in groups)
        for buffer in self.launch.allocs:
            if buffer.view_of is None and (seen.get(buffer, 0) > 1 or in_loop and buffer in seen):
                threads = tuple(index(n) for n in reversed(self.launch.threads)) if self.is_of_thread(buffer) else ()
                shape = (*reversed(self.launch.grid), *threads, *buffer.shape)
                moved = replace(buffer, name=self.names.fresh(buffer.name), shape=shape, scope="global", strides=None)
                self.moved[buffer] = moved
                self.found.append(AllocateGlobal(moved, span=buffer.span))
        return tuple(rewrite(s, self.move) for s in groups)

    def split(self, body: Body) -> Body:
        """Host statements: a launch for each run of block statements, control flow around launches."""
        out: list[Stmt] = []
        run: list[Stmt] = []

        def flush() -> None:
            if run:
                out.append(replace(self.launch, body=(*self.missing(tuple(run)), *run)))
                run.clear()

        for stmt in body:
            if isinstance(stmt, Let) and not has_load(stmt.value):
                self.lets[stmt.var.name] = stmt
            if isinstance(stmt, Sync):
                flush()
            elif not _has_sync(stmt):
                run.append(stmt)
            else:
                flush()
                out.append(self.host(stmt))
        flush()
        return tuple(out)

    def host(self, stmt: Stmt) -> Stmt:
        """Control flow that the host runs."""
        match stmt:
            case For(_, start, stop, body) if self.is_host(start) and self.is_host(stop):
                return replace(stmt, body=self.split(body))
            case If(cond, then, other) if self.is_host(cond):
                return replace(stmt, then=self.split(then), other=self.split(other))
            case _:
                raise UnsupportedError("a barrier of the grid in control flow that depends on the block", span=stmt.span, hint=_HINT)

    def is_host(self, expr: Expr) -> bool:
        names = {n.name for n in walk(expr) if isinstance(n, Var)}
        return not has_load(expr) and not names & self.own and not names & set(self.lets)

    def missing(self, run: Body) -> Body:
        """Bindings of earlier stretches that this one uses."""
        used = uses(run)
        wanted = {v.name for v in used.used} - {v.name for v in used.bound} & set(self.lets)
        out: list[Stmt] = []
        done: set[str] = set()

        def bring(name: str) -> None:
            if name in done or name not in self.lets or name in {v.name for v in used.bound}:
                return
            done.add(name)
            for n in walk(self.lets[name].value):
                if isinstance(n, Var):
                    bring(n.name)
            out.append(self.lets[name])

        for name in sorted(wanted):
            bring(name)
        return tuple(out)

    def is_of_thread(self, buffer: Buffer) -> bool:
        """Whether each thread has one of its own."""
        return self.launch.threads_used and buffer.scope in ("local", "var")

    def move(self, node: Node) -> Node:
        """An access to a tile of this block in the memory of all blocks."""
        at = tuple(reversed(self.launch.block_vars))
        if isinstance(node, (Load, Store, AddressOf, Region)) and self.is_of_thread(node.buffer):
            at = (*at, *reversed(self.launch.thread_vars))
        ones = tuple(index(1) for _ in at)
        match node:
            case Load(buffer, indices) | Store(buffer, indices) | AddressOf(buffer, indices) if buffer in self.moved:
                return replace(node, buffer=self.moved[buffer], indices=(*at, *indices))
            case Region(buffer, starts, extents) if buffer in self.moved:
                return replace(node, buffer=self.moved[buffer], starts=(*at, *starts), extents=(*ones, *extents))
            case Reduce(src=Region(buffer), dim=dim) | Scan(src=Region(buffer), dim=dim) if buffer in self.moved.values():
                return replace(node, dim=dim + len(at))
            case Load(buffer) | Store(buffer) | Region(buffer) | Print(buffer=Buffer() as buffer) if buffer.root in self.moved:
                what = f"{buffer.name}, whose memory lives across a barrier of the grid, is viewed or printed whole"
                raise UnsupportedError(what, span=node.span, hint="give the view or the printed tile a copy of its own")
            case Launch(allocs=allocs):
                return replace(node, allocs=tuple(b for b in allocs if b not in self.moved))
            case _:
                return node

"""What the tiles of a kernel with a tile loop are for, found from its structure.

A kernel that walks over tiles has an innermost loop with products in it. Two products in a row, where the second takes what became of the first's
result, are attention: the first makes the scores S from Q and K, the second adds P V to O; reductions of the scores give the running maximum m and
the running sum l. One product is a matrix product, C from A and B. Names in the source play no part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..ir.expr import Buffer, Const, Load
from ..ir.node import walk
from ..ir.stmt import Copy, For, Gemm, Kernel, Launch, PipelinedFor, Reduce, Store

Loop = For | PipelinedFor
INPUT, WORK, ROW, RESULT = "input", "work", "row", "result"


@dataclass(frozen=True, slots=True)
class Role:
    """A tile and what it is for. kind: "input" (brought from memory), "work" (made and used in a step), "row" (one number for each row), "result"."""

    name: str
    buffer: str
    kind: str


@dataclass(frozen=True, slots=True)
class Roles:
    """The launch, the loop that walks over tiles (None: there is none), and its tiles."""

    launch: Launch
    loop: Loop | None
    tiles: tuple[Role, ...]

    def of(self, name: str) -> Role | None:
        """The tile with that role, such as "S"; None if there is none."""
        return next((r for r in self.tiles if r.name == name), None)


def find_roles(kernel: Kernel, watch: tuple[str, ...] | Mapping[str, str] | None = None) -> Roles:
    """The tiles of the first launch that has a tile loop (the first launch, if none has).

    `watch` says it by hand: names of on-chip buffers, or a mapping of roles (Q, K, V, S, P, m, l, O, or any other) to names.
    Raises: ValueError for a name that no tile has, or a kernel without a launch.
    """
    found = [(launch, loop) for launch in kernel.launches for loop in _tile_loops(launch)]
    if not kernel.launches:
        raise ValueError(f"{kernel.name} launches nothing")
    launch, loop = found[0] if found else (kernel.launches[0], None)
    tiles = _structure(loop) if loop is not None else ()
    if watch is not None:
        tiles = _named(launch, tiles, dict(watch) if isinstance(watch, Mapping) else {n: n for n in watch})
    return Roles(launch, loop, tiles or _all_tiles(launch))


def is_attention(loop: Loop) -> bool:
    """Whether a second product of the loop takes what became of the first one's result."""
    return _pair(loop) is not None


def _tile_loops(launch: Launch) -> Iterator[Loop]:
    """Innermost loops with a product, then those with a reduction, then those with a copy."""
    loops = [n for n in walk(launch) if isinstance(n, For | PipelinedFor)]
    for kind in (Gemm, Reduce, Copy):
        for loop in loops:
            inner = [n for n in walk(loop) if isinstance(n, For | PipelinedFor) and n is not loop]
            if any(isinstance(n, kind) for n in walk(loop)) and not any(isinstance(n, kind) for i in inner for n in walk(i)):
                yield loop


def _pair(loop: Loop) -> tuple[Gemm, Gemm] | None:
    gemms = [n for n in walk(loop) if isinstance(n, Gemm)]
    for i, first in enumerate(gemms):
        same = _copies_of(loop, first.c.buffer)
        for second in gemms[i + 1 :]:
            if second.a.buffer in same and second.c.buffer not in same:
                return first, second
    return None


def _copies_of(loop: Loop, buffer: Buffer) -> set[Buffer]:
    """`buffer` and every tile that is made from it alone: copies, casts, element-wise functions of it."""
    same = {buffer}
    for node in walk(loop):
        match node:
            case Copy(src, dst) if src.buffer in same and dst.buffer.is_on_chip:
                same.add(dst.buffer)
            case Store(dst, _, value) if dst.is_on_chip and any(isinstance(n, Load) and n.buffer in same for n in walk(value)):
                if dst.rank == buffer.rank and dst.shape == buffer.shape:
                    same.add(dst)
    return same


def _structure(loop: Loop) -> tuple[Role, ...]:
    pair = _pair(loop)
    if pair is None:
        gemm = next((n for n in walk(loop) if isinstance(n, Gemm)), None)
        if gemm is None:
            return ()
        return Role("A", gemm.a.buffer.name, INPUT), Role("B", gemm.b.buffer.name, INPUT), Role("C", gemm.c.buffer.name, RESULT)
    first, second = pair
    scores = _copies_of(loop, first.c.buffer)
    out = [Role("Q", first.a.buffer.name, INPUT), Role("K", first.b.buffer.name, INPUT), Role("V", second.b.buffer.name, INPUT)]
    out.append(Role("S", first.c.buffer.name, WORK))
    if second.a.buffer.name != first.c.buffer.name:
        out.append(Role("P", second.a.buffer.name, WORK))
    reductions = [n for n in walk(loop) if isinstance(n, Reduce) and n.src.buffer in scores]
    top = next((r for r in reductions if r.op == "max"), None)
    total = next((r for r in reductions if r.op == "sum"), None)
    if top is not None:
        out.append(Role("m", _running(loop, top), ROW))
    if total is not None:
        out.append(Role("l", _running(loop, total), ROW))
    return (*out, Role("O", second.c.buffer.name, RESULT))


def _running(loop: Loop, reduce: Reduce) -> str:
    """What a reduction gathers over the steps: its target, or, where each step clears that, the buffer that a store folds it into."""
    made = reduce.dst.buffer
    if not reduce.clear:
        return made.name
    for store in (n for n in walk(loop) if isinstance(n, Store) and n.buffer.is_on_chip and n.buffer is not made):
        loads = {n.buffer for n in walk(store.value) if isinstance(n, Load)}
        if made in loads and store.buffer in loads:
            return store.buffer.name
    return made.name


def _all_tiles(launch: Launch) -> tuple[Role, ...]:
    tiles = [b for b in launch.allocs if b.view_of is None and b.scope in ("shared", "fragment")]
    return tuple(Role(b.name, b.name, ROW if _rank(b) == 1 else WORK) for b in tiles)


def _named(launch: Launch, found: tuple[Role, ...], wanted: Mapping[str, str]) -> tuple[Role, ...]:
    known = {b.name: b for b in launch.allocs}
    if missing := [name for name in wanted.values() if name not in known]:
        raise ValueError(f"no tile is called {missing[0]}; the tiles are {', '.join(known)}")
    kinds = {r.buffer: r.kind for r in found}
    return tuple(Role(role, name, kinds.get(name, ROW if _rank(known[name]) == 1 else WORK)) for role, name in wanted.items())


def _rank(buffer: Buffer) -> int:
    """Dims of more than one element."""
    return sum(1 for d in buffer.shape if not (isinstance(d, Const) and d.value == 1))

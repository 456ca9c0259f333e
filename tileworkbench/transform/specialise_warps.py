"""Loops that copy and compute become two programs: one thread keeps the tensor copy engine busy, the author's threads compute (sm_90a).

Before:  for k in pipelined(n, num_stages=3): copy a <- A[..]; copy b <- B[..]; gemm a b acc
         copy C <- acc
After:   setup      full[3], empty[3] become barriers
         producer   for k: wait empty[k % 3]; expect bytes; load a[k % 3], b[k % 3], which arrive at full[k % 3]
         consumers  for k: wait full[k % 3]; gemm a[k % 3] b[k % 3] acc; arrive at empty[k % 3]
                    copy C <- acc

A tile that runs ahead has as many versions as its loop has stages. Copies outside of loops are done by the producer too, once. A version is filled
again when every warp has arrived at its empty barrier, and read when its bytes have arrived at the full one. What blocks of a cluster need alike each
of them loads a part of, into all (`load_for_cluster`): then the warps of all of them arrive, in each block. How often a version was used, and so
which phase of a barrier is meant, is a count that both sides keep: the loop's variable, or a counter of each where loops stand in loops.

Requires: tile operations; forms of tiles.  Preserves: launches in which nothing may run ahead, or whose threads are visible
or no whole warp groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as with_fields

from ..analysis.alike import Alike
from ..analysis.matrix_units import GROUP
from ..analysis.tensor_copies import TensorCopies, TensorCopy, tensor_copies
from ..analysis.uses import uses
from ..base.dtypes import INDEX, INT32, UINT32, DType
from ..ir.bodies import statements
from ..ir.build import add, cast, floordiv, floormod, index
from ..ir.device import DeviceCall, MapOf, Specialised
from ..ir.explicit import is_explicit
from ..ir.expr import AddressOf, Binary, Buffer, Const, Expr, Load, Var, is_const
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite
from ..ir.remark import Remark
from ..ir.stmt import Body, Copy, For, If, Kernel, Launch, Let, PipelinedFor, Region, Return, Stmt, Store
from ..ir.tile_form import TensorView
from ..layout.fragments import WARP
from .cluster_blocks import are_whole
from .load_for_cluster import Part, part_of_tile, rank_of, whole_tile
from .names import Names
from .stay_on_chip import KIND, PAIR, is_even, stay_on_chip

MOST_THREADS = 1024
_ROOM = 196608  # bytes of shared memory of a block that a second version may fill up to; the rest is for results on their way out
# threads of the block with the producer's group -> registers of (producer, consumers), which fit the 65,536 of a multiprocessor; fast on an H200
_REGISTERS = {384: (40, 232), 512: (32, 160), 640: (24, 112)}


def specialise_warps(kernel: Kernel, arch: int) -> Kernel:
    """Return `kernel` with a producer in every launch that gains by one, on sm_90a."""
    if arch != 90:
        return kernel
    names = Names(kernel)

    def change(node: Launch) -> Launch:
        if node.threads_used or node.count_threads % GROUP or node.count_threads + GROUP > MOST_THREADS:
            return node
        if is_explicit(node):  # the author says who copies
            return node
        if any(isinstance(n, Return) for n in statements(node)):  # threads that leave would not release what they have not used
            return node
        copies = tensor_copies(node)
        if not any(c.loops and isinstance(c.loops[-1], PipelinedFor) and c.loops[-1].num_stages for c in copies.found.values()):
            return node
        goes_alike = is_even(node)
        if node.count_threads + GROUP in _REGISTERS and are_whole(node) and (stays := stay_on_chip(node, names)) is not node:
            node, copies = stays, _early(tensor_copies(stays), stays)  # one block fills a multiprocessor
        return _Specialise(node, copies, names, goes_alike).launch()

    return rewrite_launches(kernel, change)


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where the copies of one pair of barriers stand: `versions` of the tiles, and the uses so far as each role counts them."""

    copies: tuple[TensorCopy, ...]
    full: Buffer
    empty: Buffer
    counters: tuple[Buffer, Buffer] | None  # of (producer, consumers); None: the loop's variable, or 0 outside of loops
    is_repeated: bool
    parts: tuple[Part | None, ...]  # of tiles that other blocks of the cluster load parts of, too

    @property
    def blocks_alike(self) -> bool:
        """Whether other blocks load into this one, and wait until it is done."""
        return any(self.parts)

    @property
    def versions(self) -> int:
        return self.copies[0].stages

    @property
    def bytes(self) -> int:
        return sum(c.bytes for c in self.copies)

    def count(self, role: int, loop_var: Expr | None) -> Expr:
        if self.counters is not None:
            return cast(Load(self.counters[role], (index(0),)), INDEX)
        return index(0) if loop_var is None else loop_var

    def place(self, count: Expr, names: Names) -> tuple[Body, Expr, Expr]:
        """The version that a count means and the parity of its phase, with what binds them."""
        versions = index(self.versions)
        version, parity = floormod(count, versions), floormod(floordiv(count, versions), index(2))
        lets: list[Stmt] = []
        if not isinstance(version, Const):
            slot = names.var("slot")
            lets, version = [Let(slot, version)], slot
        return tuple(lets), version, cast(parity, INT32)


class _Specialise:
    def __init__(self, launch: Launch, copies: TensorCopies, names: Names, goes_alike: bool) -> None:
        self.old, self.copies, self.names = launch, copies, names
        self.slots: dict[int, _Slot] = {}  # by identity of each copy
        self.tiles: dict[Buffer, Buffer] = {}  # tile -> its versions
        self.views: list[TensorView] = []
        self.made: list[Buffer] = []
        self.alike = Alike(launch) if goes_alike and rank_of(launch) is not None else None

    def launch(self) -> Launch:
        launch = self.old
        self.pair_up(launch.body, 0)
        setup = self.setup()
        producer = self.start_counters(0) + self.produce(launch.body, {}, None)
        consumers = self.start_counters(1) + self.consume(launch.body, None)
        threads = launch.count_threads
        together = [c.tile.name for s in self.all_slots() for c, part in zip(s.copies, s.parts, strict=True) if part is not None]
        roles = Specialised(setup, producer, consumers, _REGISTERS.get(threads + GROUP, (0, 0)), bool(together), span=launch.span)
        allocs = tuple(self.tiles.get(b, b) for b in launch.allocs) + tuple(self.made)
        forms = tuple(replace(f, buffer=self.tiles.get(f.buffer, f.buffer)) for f in launch.forms)
        remarks = tuple(Remark(f"the threads copy it themselves: {why}", span=span) for span, why in self.copies.refused)
        if launch.cluster_size > 1:
            said = f"{' and '.join(together) or 'no tile'} {'are' if len(together) > 1 else 'is'} loaded once for the blocks of a cluster"
            remarks = (*remarks, Remark(said, span=launch.span))
        return replace(launch, body=(roles,), allocs=allocs, forms=forms, views=tuple(self.views), remarks=(*launch.remarks, *remarks))

    # ------------------------------------------------------------------------------------------ barriers
    def pair_up(self, body: Body, depth: int) -> None:
        """Barriers for the copies of a body; copies that are first used and last used together share a pair."""
        groups: dict[tuple[int, int], list[TensorCopy]] = {}
        for at, stmt in enumerate(body):
            found = self.copies.found.get(id(stmt))
            if found is not None:
                groups.setdefault(_span_of_uses(body, at, found.tile), []).append(found)
            match stmt:
                case For(body=inside) | PipelinedFor(body=inside):
                    self.pair_up(inside, depth + 1)
                case If(_, then, other):
                    self.pair_up(then, depth + 2)  # a loop's variable does not count what a condition lets through
                    self.pair_up(other, depth + 2)
                case _:
                    pass
        for group in groups.values():
            self.pair(tuple(group), depth)

    def pair(self, copies: tuple[TensorCopy, ...], depth: int) -> None:
        first, hint = copies[0], "_".join(c.tile.name for c in copies)
        shape = (index(first.stages),)
        full, empty = (Buffer(self.names.fresh(f"{hint}_{word}"), shape, DType("uint64"), "shared") for word in ("full", "empty"))
        loops = first.loops
        simple = not loops or depth == 1 and is_const(loops[-1].start, 0) and _counts(loops[-1])
        counters = None if simple else (self.names.scalar(f"{hint}_loaded", UINT32), self.names.scalar(f"{hint}_used", UINT32))
        parts = tuple(None if self.alike is None else part_of_tile(c, self.old, self.alike) for c in copies)
        slot = _Slot(copies, full, empty, counters, bool(loops), parts)
        self.made += [full, *((empty,) if slot.is_repeated else ()), *(counters or ())]
        for c in copies:
            self.slots[id(c.copy)] = slot
            if first.stages > 1:
                self.tiles[c.tile] = replace(c.tile, name=self.names.fresh(c.tile.name), shape=(index(first.stages), *c.tile.shape))

    def all_slots(self) -> list[_Slot]:
        return list({id(s): s for s in self.slots.values()}.values())

    def setup(self) -> Body:
        warps, out = self.old.count_threads // WARP, list[Stmt]()
        for slot in self.all_slots():
            for version in range(slot.versions):
                out.append(_barrier("twb_mbarrier_init", slot.full, index(version), Const(1, INT32)))
                if slot.is_repeated:
                    arrivals = warps * (self.old.cluster_size if slot.blocks_alike else 1)
                    out.append(_barrier("twb_mbarrier_init", slot.empty, index(version), Const(arrivals, INT32)))
        return (*out, DeviceCall("twb_fence_mbarrier_init"))

    def start_counters(self, role: int) -> Body:
        return tuple(Store(s.counters[role], (index(0),), Const(0, UINT32)) for s in self.all_slots() if s.counters is not None)

    # ------------------------------------------------------------------------------------------ the producer
    def produce(self, body: Body, known: dict[Var, Expr], loop_var: Expr | None) -> Body:
        """What the producer does of `body`; `known` are its own names of variables."""
        out: list[Stmt] = []
        waiting: dict[int, int] = {}  # copies of a slot that are still to come
        for stmt in body:
            match stmt:
                case Copy() if id(stmt) in self.slots:
                    slot = self.slots[id(stmt)]
                    left = waiting.setdefault(id(slot), len(slot.copies)) - 1
                    waiting[id(slot)] = left
                    if left == 0:  # all of a slot go out together, at the last of them
                        out += self.load(slot, known, loop_var)
                case Let(var, value) if _is_known(value):
                    mine = self.names.var(var.hint or var.name, var.type)
                    out.append(replace(stmt, var=mine, value=_named(value, known)))
                    known = {**known, var: mine}
                case For(var, start, stop, inside) | PipelinedFor(var, start, stop, inside):
                    mine = self.names.var(var.hint or var.name, var.type)
                    made = self.produce(inside, {**known, var: mine}, mine)
                    if _does(made):
                        kind = replace(stmt, var=mine, start=_named(start, known), stop=_named(stop, known), body=made)
                        out.append(For(mine, kind.start, kind.stop, made, span=stmt.span) if isinstance(stmt, PipelinedFor) else kind)
                case If(cond, then, other):
                    sides = self.produce(then, known, loop_var), self.produce(other, known, loop_var)
                    if _does(sides[0]) or _does(sides[1]):
                        out.append(replace(stmt, cond=_named(cond, known), then=sides[0], other=sides[1]))
                case _:
                    pass
        return tuple(out)

    def load(self, slot: _Slot, known: dict[Var, Expr], loop_var: Expr | None) -> Body:
        """Wait until the version is free, say how many bytes come, and start them: each copy's boxes are of its own line."""
        span = slot.copies[0].copy.span
        lets, version, parity = slot.place(slot.count(0, loop_var), self.names)
        out: list[Stmt] = [*lets]
        if slot.is_repeated:
            before = Binary("bitxor", parity, Const(1, INT32))
            out.append(_barrier("twb_mbarrier_wait", slot.empty, version, before))
        out.append(_barrier("twb_mbarrier_arrive_expect", slot.full, version, Const(slot.bytes, INT32)))
        for c, part in zip(slot.copies, slot.parts, strict=True):
            out += (replace(s, span=c.copy.span) for s in self.boxes(c, part, slot, version, known))
        if slot.counters is not None:
            out.append(replace(_counted(slot.counters[0]), span=slot.copies[-1].copy.span))
        return tuple(s if s.span is not None else replace(s, span=span) for s in out)

    def boxes(self, c: TensorCopy, part: Part | None, slot: _Slot, version: Expr, known: dict[Var, Expr]) -> Body:
        """The loads that fill a tile, or a part of it in every block of the cluster."""
        tile, starts = self.tiles.get(c.tile, c.tile), [_named(s, known) for s in c.copy.src.starts]
        mine = part or whole_tile(c)
        number = self.view(mine.view)
        name, ranks = ("", ()) if part is None else ("multicast_", (Const((1 << self.old.cluster_size) - 1, INT32),))
        moving = [d for d, e in enumerate(c.copy.src.extents) if not is_const(e, 1)]
        out: list[Stmt] = []
        for row, column in mine.places:
            at = (row, column)[-c.tile.rank :]
            where = {moving[-1]: column, **({moving[0]: row} if c.tile.rank == 2 else {})}
            coordinates = [cast(add(cast(s, INDEX), where.get(d, index(0))), INT32) for d, s in enumerate(starts)]
            to = AddressOf(tile, (version, *at) if slot.versions > 1 else at)
            full = AddressOf(slot.full, (version,))
            out.append(DeviceCall(f"twb_tma_load_{name}{len(starts)}d", (to, MapOf(number), full, *ranks, *reversed(coordinates))))
        return tuple(out)

    def view(self, view: TensorView) -> int:
        if view not in self.views:
            self.views.append(view)
        return self.views.index(view)

    # ------------------------------------------------------------------------------------------ the consumers
    def consume(self, body: Body, loop_var: Expr | None) -> Body:
        """`body` without the copies that the producer does, and with waits and releases around what uses their tiles."""
        first: dict[int, list[_Slot]] = {}
        last: dict[int, list[_Slot]] = {}
        mine: dict[int, _Slot] = {}
        for at, stmt in enumerate(body):
            slot = self.slots.get(id(stmt))
            if slot is not None and id(slot) not in mine:
                mine[id(slot)] = slot
                begin, end = _span_of_uses(body, at, next(c for c in slot.copies if c.copy is stmt).tile)
                first.setdefault(begin, []).append(slot)
                last.setdefault(end, []).append(slot)
        out: list[Stmt] = []
        now: dict[int, Expr] = {}
        versions: dict[Buffer, Expr] = {}
        for at, stmt in enumerate(body):
            for slot in first.get(at, ()):
                lets, now[id(slot)], parity = slot.place(slot.count(1, loop_var), self.names)
                versions |= {c.tile: now[id(slot)] for c in slot.copies if slot.versions > 1}
                out += (replace(s, span=stmt.span) for s in (*lets, _barrier("twb_mbarrier_wait", slot.full, now[id(slot)], parity)))
            if id(stmt) not in self.slots:
                out.append(_versioned(self.inside(stmt), self.tiles, versions) if versions else self.inside(stmt))
            for slot in last.get(at, ()):
                if slot.is_repeated:
                    out.append(replace(self.release(slot, now[id(slot)]), span=stmt.span))
                if slot.counters is not None:
                    out.append(_counted(slot.counters[1]))
        return tuple(out)

    def release(self, slot: _Slot, version: Expr) -> DeviceCall:
        """Say that this warp is done with a version, to all who load into it."""
        if slot.blocks_alike:
            return _barrier("twb_mbarrier_arrive_cluster", slot.empty, version, Const(self.old.cluster_size, INT32))
        return _barrier("twb_mbarrier_arrive_warp", slot.empty, version)

    def inside(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For(var, body=body) | PipelinedFor(var, body=body):
                return replace(stmt, body=self.consume(body, var))
            case If(_, then, other):
                return replace(stmt, then=self.consume(then, None), other=self.consume(other, None))
            case _:
                return stmt


def _barrier(name: str, bar: Buffer, version: Expr, *args: Expr) -> DeviceCall:
    return DeviceCall(name, (AddressOf(bar, (version,)), *args))


def _counted(counter: Buffer) -> Stmt:
    return Store(counter, (index(0),), Binary("add", Load(counter, (index(0),)), Const(1, UINT32)))


def _is_known(value: Expr) -> bool:
    """Whether the producer can compute it: it reads global memory at most. Names it does not know are only used by what it does not do."""
    found = uses(value)
    return not found.written and all(b.root.scope == "global" for b in found.buffers)


def _early(copies: TensorCopies, launch: Launch) -> TensorCopies:
    """`copies` with two versions of what a block that stays loads once, as far as there is room: the next block's arrives beside this one's work."""
    tiles = {c.tile: c for c in copies.found.values()}
    used = sum(b.static_bytes() * (tiles[b].stages if b in tiles else 1) for b in launch.allocs if b.scope == "shared" and b.view_of is None)
    for key, c in copies.found.items():
        if c.loops and isinstance(c.loops[-1], For) and c.loops[-1].kind in (KIND, PAIR) and used + c.bytes <= _ROOM:
            copies.found[key] = with_fields(c, stages=2)
            used += c.bytes
    return copies


def _counts(loop: For | PipelinedFor) -> bool:
    """Whether the loop's variable counts its turns."""
    return isinstance(loop, PipelinedFor) or loop.step == 1 and loop.kind != KIND


def _does(body: Body) -> bool:
    """Whether anything but bindings is left."""
    return any(not isinstance(s, Let) for s in body)


def _span_of_uses(body: Body, at: int, tile: Buffer) -> tuple[int, int]:
    """The first and the last statement of `body` after `at` that use `tile`; a tile that nobody uses ends where it begins."""
    found = [i for i in range(at + 1, len(body)) if tile in uses(body[i]).buffers]
    return (found[0], found[-1]) if found else (at, at)


def _named(e: Expr, known: dict[Var, Expr]) -> Expr:
    return rewrite(e, lambda n: known.get(n, n) if isinstance(n, Var) else n)


def _versioned(stmt: Stmt, tiles: dict[Buffer, Buffer], versions: dict[Buffer, Expr]) -> Stmt:
    """`stmt` on the current version of each tile."""

    def change(node: Node) -> Node:
        if isinstance(node, Region) and node.buffer in versions:
            return Region(tiles[node.buffer], (versions[node.buffer], *node.starts), (index(1), *node.extents), span=node.span)
        if isinstance(node, (Load, Store, AddressOf)) and node.buffer in versions:
            return replace(node, buffer=tiles[node.buffer], indices=(versions[node.buffer], *node.indices))
        return node

    return rewrite(stmt, change)

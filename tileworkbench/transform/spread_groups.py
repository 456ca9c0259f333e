"""A block's program in which the author gives warp groups roles (sm_90): each role is spread over its own threads, with barriers of its own.

Before:  threads 256, barriers ready: in groups 1: (load tile ready; arrive ready);  in groups 0: (wait ready; acc += tile @ other)
After:   start ready; sync;  if group == 1: (if thread == 0: expect, load; arrive);  if group == 0: (wait; products)

`thread` counts within the role. Statements outside of roles are spread over the whole block. Barriers are placed between two statements of one role,
for its threads alone, and between statements of the block and those of a role, for all. What two roles share is ordered by the author.

Requires: what spread_threads requires.  Preserves: launches without nodes of `ir/explicit.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..analysis.pushes import Runs, runs_of
from ..analysis.uses import uses
from ..base.dtypes import INT32
from ..base.errors import UnsupportedError
from ..base.span import Span
from ..ir.build import add, index
from ..ir.device import DeviceCall
from ..ir.explicit import GROUP, Asked, InGroups, Push, StartBarriers, TensorMove, is_explicit
from ..ir.expr import AddressOf, Binary, Buffer, Const, Expr
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Body, For, If, Kernel, Launch, Let, PipelinedFor, Region, Return, Stmt, Sync, While
from .barriers import leaves, runs
from .certain_regions import certain_regions
from .names import Names
from .spread_explicit import SpreadExplicit

_FILE = 65536  # registers of a multiprocessor
_MEET = ("twb_bar_sync", "twb_bar_arrive")


def spread_groups(kernel: Kernel, arch: int) -> Kernel:
    """Return `kernel` with launches of roles as thread-level ones, for compute capability `arch`; negative: arrays may begin anywhere."""
    if not any(is_explicit(launch) for launch in kernel.launches):
        return kernel
    names, certain = Names(kernel), certain_regions(kernel)

    def change(node: Launch) -> Launch:
        if is_explicit(node) and not node.threads_used:
            return _Block(node, abs(arch), names, certain, arch > 0).launch()
        return node

    return rewrite_launches(kernel, change)


class _Pending(NamedTuple):
    """Memory touched since the last barrier, of one party."""

    read: set[Buffer]
    wrote: set[Buffer]


class _Role(SpreadExplicit):
    """The threads of some warp groups; `body` is all that they do apart from the block."""

    is_role = True

    def __init__(self, block: _Block, groups: InGroups, body: Body, names: Names, certain: Sequence[Region], arch: int, barrier: int) -> None:
        old = block.old
        self.groups, self.barrier_number, self.count = groups, barrier, groups.count * GROUP
        self.var = names.var("thread")
        mine = uses(body).buffers
        allocs = tuple(b for b in old.allocs if b in mine or b.scope != "fragment")
        super().__init__(replace(old, threads=(self.count,), thread_vars=(self.var,), allocs=allocs, body=body), arch, names, certain)
        self.views, self.bars, self.written, self.aligned = block.views, block.bars, block.written, block.aligned
        self.are_written = block.are_written
        self.prepare(body)

    def does(self, body: Body) -> Body:
        """`body` for a thread, whose barriers of the block are the role's."""
        return self.apart(self.body(body))

    def apart(self, body: Body) -> Body:
        meet = (Const(self.barrier_number, INT32), Const(self.count, INT32))

        def change(node: Node) -> Node:
            return DeviceCall("twb_bar_sync", meet, span=node.span) if isinstance(node, Sync) and node.scope == "block" else node

        return tuple(rewrite(s, change) for s in body)


class _Block(SpreadExplicit):
    """The whole block, and its roles."""

    def __init__(self, launch: Launch, arch: int, names: Names, certain: Sequence[Region], aligned: bool) -> None:
        own = _without_roles(launch.body)
        mine = uses(own).buffers
        allocs = tuple(b for b in launch.allocs if b in mine or b.scope != "fragment")
        super().__init__(replace(launch, body=own, allocs=allocs), arch, names, certain)
        self.old, self.aligned = launch, aligned
        self.views, self.written = list(launch.views), {b.root for b in uses(launch.body).written if b.root.scope == "global"}
        self.started = [n for s in launch.body for n in walk(s) if isinstance(n, StartBarriers)]
        self.bars = {s.buffer for s in self.started}
        nodes = [n for s in launch.body for n in walk(s)]
        self.reaches_out = any(_reaches_out(n) for n in nodes)
        self.are_written = any(isinstance(n, Push) and not isinstance(runs_of(n, launch.forms), Runs) for n in nodes)
        self.prepare(own)
        self.roles_of: dict[tuple[int, int], _Role] = {}
        self.check(launch, mine)
        free = _free_barriers(launch)
        for groups, body in _roles(launch.body).values():
            number = next(free, None)
            if number is None:
                raise UnsupportedError(
                    "the hardware has 16 barriers, too few for these roles", span=groups.span, hint="fewer roles, or fewer named barriers"
                )
            self.roles_of[groups.first, groups.count] = _Role(self, groups, body, names, certain, arch, number)
        for role in self.roles_of.values():
            self.factors |= role.factors
        self.by_roles = _Pending(set(), set())
        for role in self.roles_of.values():
            role.factors = self.factors
            for all_of, found in zip(self.by_roles, role.shared(role.old.body), strict=True):
                all_of |= found

    def check(self, launch: Launch, mine: set[Buffer]) -> None:
        """Refuse what has no meaning for roles."""
        taken: dict[int, InGroups] = {}
        of: dict[Buffer, object] = {b: None for b in mine if b.scope == "fragment"}
        for key, (groups, body) in _roles(launch.body).items():
            for g in range(groups.first, groups.first + groups.count):
                if taken.setdefault(g, groups) is not groups:
                    raise UnsupportedError(f"warp group {g} is of two roles with different groups", span=groups.span, hint="give each group one role")
            for buffer in (b for b in uses(body).buffers if b.scope == "fragment"):
                if of.setdefault(buffer, key) != key:
                    raise UnsupportedError(
                        f"the fragment {buffer.name} is used by different warp groups, and each has registers of its own", span=groups.span,
                        hint=f"allocate one for each role, and pass values on through shared memory (defined at {_where(buffer)})",
                    )  # fmt: skip
        for node in (n for s in launch.body for n in walk(s)):
            if isinstance(node, Return) and (taken or self.reaches_out):
                what = "roles" if taken else "blocks that reach each other's memory"
                raise UnsupportedError(f"T.thread_return in a launch with {what}", span=node.span, hint="let all threads come to its end")
        self.check_registers(launch)

    def check_registers(self, launch: Launch) -> None:
        """A group that asks for more registers than others leave would wait for ever."""
        groups = launch.count_threads // GROUP
        asked = [n for s in launch.body for n in walk(s) if isinstance(n, Asked) and n.name.startswith("twb_set_max_registers")]
        if not asked:
            return
        most = [_FILE // launch.count_threads // 8 * 8 for _ in range(groups)]
        for role, body in _roles(launch.body).values():
            for n in (n for s in body for n in walk(s) if isinstance(n, Asked) and n.name.startswith("twb_set_max_registers")):
                for g in range(role.first, role.first + role.count):
                    most[g] = n.constants[0]
        if sum(most) * GROUP > _FILE:
            raise UnsupportedError(
                f"the roles ask for {sum(most) * GROUP} registers together, a multiprocessor has {_FILE}", span=asked[-1].span,
                hint="lower some role first, T.dec_max_nreg(24), or ask for fewer",
            )  # fmt: skip

    # ------------------------------------------------------------------------------------------ the launch
    def launch(self) -> Launch:
        old = self.old
        body = self.body(old.body)
        lets: list[Stmt] = []
        for role in self.roles_of.values():
            shifted = add(self.thread, index(-role.groups.first * GROUP % role.count))
            lets += [Let(role.var, Binary("floormod", shifted, index(role.count))), *role.start]
        parties = [self, *self.roles_of.values()]
        held = {b: a for p in parties for b, a in p.arrays.items()}
        stores = any(isinstance(n, TensorMove) and n.barrier is None for s in old.body for n in walk(s))
        end: Body = (DeviceCall("twb_bulk_wait_read", constants=(0,)),) if stores else ()
        if self.reaches_out:  # nobody leaves while another may still reach it
            end = (*end, Sync("warp"), DeviceCall("twb_cluster_sync"))
        allocs = (*held.values(), *(b for b in old.allocs if b not in held), *(b for p in parties for b in p.scratch))
        forms = tuple(form for form in old.forms if form.buffer not in held)
        whole = (*self.start, *lets, *self.begin(), *body, *end)
        tiles = (*self.held(), *(tile for role in self.roles_of.values() for tile in role.held(role.groups.first * GROUP)))
        return replace(old, thread_vars=self.vars, threads_used=True, allocs=allocs, body=whole, forms=forms, views=tuple(self.views), held=tiles)

    def begin(self) -> Body:
        """The first thread starts the barriers, then all meet; where blocks reach each other's memory, those of the cluster."""
        met: Body = (DeviceCall("twb_cluster_sync", span=self.old.span),) if self.reaches_out else ()
        if not self.started:
            return met
        inits: list[Stmt] = []
        for s in self.started:
            for i, count in enumerate(s.counts):
                inits.append(DeviceCall("twb_mbarrier_init", (AddressOf(s.buffer, (index(i),)), Const(count, INT32)), span=s.span))
        inits.append(DeviceCall("twb_fence_mbarrier_init", span=self.started[-1].span))
        return (If(Binary("eq", self.thread, index(0)), tuple(inits), span=self.started[0].span), *(met or (Sync(span=self.started[-1].span),)))

    def test(self, groups: InGroups) -> Expr:
        """Whether a thread is of `groups`, so that the compiler sees it is one answer for all of a warp."""
        if groups.count * GROUP == self.old.count_threads:
            return Binary("ge", self.group(), Const(0, INT32))
        first, last = Const(groups.first, INT32), Const(groups.first + groups.count - 1, INT32)
        if groups.count == 1:
            return Binary("eq", self.group(), first)
        return Binary("and", Binary("ge", self.group(), first), Binary("le", self.group(), last))

    # ------------------------------------------------------------------------------------------ statements
    def stmt(self, stmt: Stmt) -> Body:
        match stmt:
            case If(InGroups() as groups, then):
                return self.role(stmt, groups, then)
            case If(_, then, other):
                before = self.pending()
                yes = self.body(then)
                after = self.pending()
                self.resume(before)
                no = self.body(other)
                self.join(after)
                return (replace(stmt, then=yes, other=no),)
            case _:
                return super().stmt(stmt)

    def role(self, stmt: If, groups: InGroups, then: Body) -> Body:
        """A role; all come together before it if any role has to: between roles that wait for one another it would be too late."""
        role = self.roles_of[groups.first, groups.count]
        out: list[Stmt] = []
        if _clash(self.by_roles, self.with_neighbours(self.read), self.with_neighbours(self.wrote)):
            out += self.meet(stmt.span)
        return (*out, If(self.test(groups), role.does(then), span=stmt.span))

    def barrier(self, out: list[Stmt], reads: set[Buffer], writes: set[Buffer], stmt: Stmt | None) -> None:
        """As for a block without roles; what a role has touched counts too."""
        read, wrote = set(self.read), set(self.wrote)
        for role in self.roles_of.values():
            read, wrote = read | role.read, wrote | role.wrote
        if _clash(_Pending(reads, writes), self.with_neighbours(read), self.with_neighbours(wrote)):
            out += self.meet(None if stmt is None else stmt.span)

    def meet(self, span: Span | None) -> Body:
        for role in self.roles_of.values():
            self.wrote |= role.wrote  # to be fenced
            self.is_storing |= role.is_storing
            role.read, role.wrote, role.is_storing = set(), set(), False
        return super().meet(span)

    def repeated(self, stmt: For | PipelinedFor | While) -> Stmt:
        if not _roles((stmt,)):
            return super().repeated(stmt)
        before = self.pending()
        out = replace(stmt, body=self.around(stmt.body, [stmt.cond] if isinstance(stmt, While) else []))
        if not runs(stmt):
            self.join(before)
        return out

    def around(self, body: Body, again: list[Expr], are_blocks: bool = False) -> Body:
        """What an iteration leaves behind is settled before the next one: the block's with everybody's, each role's with its own."""
        inner = _roles(body)
        if not inner:
            return super().around(body, again, are_blocks)
        if leaves(body):
            raise UnsupportedError(
                "a loop with roles that may be left early", span=next(iter(inner.values()))[0].span, hint="loop inside each role, or use a condition"
            )
        before, at = self.pending(), [(list(p.flying), p.is_storing) for p in self.parties()]
        out = self.turn(body, again, inner)
        if any(p.flying and p.flying != flying for p, (flying, _) in zip(self.parties(), at, strict=True)):  # the next turn sees them
            self.resume(before)
            for party, (flying, is_storing) in zip(self.parties(), at, strict=True):
                party.flying, party.is_storing = [*flying, *party.flying], is_storing
                party.read |= party.under_way()
            out = self.turn(body, again, inner)
        return out

    def turn(self, body: Body, again: list[Expr], inner: dict[tuple[int, int], tuple[InGroups, Body]]) -> Body:
        found = self.shared([*_without_roles(body), *again])
        theirs = {key: self.roles_of[key].shared(does) for key, (_, does) in inner.items()}
        inside = list(self.body(body))
        self.barrier(inside, *found, body[-1])
        reads, writes = (found[i].union(*(t[i] for t in theirs.values())) for i in (0, 1))
        if _clash(_Pending(reads, writes), self.with_neighbours(self.read), self.with_neighbours(self.wrote)):
            inside += self.meet(body[-1].span)
        for key, (groups, _) in inner.items():
            made: list[Stmt] = []
            role = self.roles_of[key]
            role.barrier(made, *theirs[key], body[-1])
            if made:
                inside.append(If(self.test(groups), role.apart(tuple(made)), span=body[-1].span))
        return tuple(inside)

    # ------------------------------------------------------------------------------------------ pending memory of all parties
    def parties(self) -> list[SpreadExplicit]:
        return [self, *self.roles_of.values()]

    def pending(self) -> list[_Pending]:
        return [_Pending(set(p.read), set(p.wrote)) for p in self.parties()]

    def resume(self, at: list[_Pending]) -> None:
        for party, then in zip(self.parties(), at, strict=True):
            party.read, party.wrote = set(then.read), set(then.wrote)

    def join(self, other: list[_Pending]) -> None:
        for party, more in zip(self.parties(), other, strict=True):
            party.read, party.wrote = party.read | more.read, party.wrote | more.wrote


def _reaches_out(node: Node) -> bool:
    """Whether a block touches the memory of another one of its cluster."""
    match node:
        case StartBarriers(of_cluster=True) | Push():
            return True
        case TensorMove(mask=mask):
            return mask != 0
        case _:
            return False


def _clash(found: _Pending, read: set[Buffer], wrote: set[Buffer]) -> bool:
    return bool(found.read & wrote or found.wrote & (read | wrote))


def _roles(body: Iterable[Stmt]) -> dict[tuple[int, int], tuple[InGroups, Body]]:
    """(first group, number of groups) -> where the role first appears, and all that it does."""
    out: dict[tuple[int, int], tuple[InGroups, Body]] = {}
    for node in (n for s in body for n in walk(s)):
        if isinstance(node, If) and isinstance(node.cond, InGroups):
            key = node.cond.first, node.cond.count
            groups, before = out.get(key, (node.cond, ()))
            out[key] = groups, (*before, *node.then)
    return out


def _without_roles(body: Body) -> Body:
    def change(node: Node) -> Node | None:
        return None if isinstance(node, If) and isinstance(node.cond, InGroups) else node

    return tuple(made for s in body if (made := _changed(s, change)) is not None)


def _changed(stmt: Stmt, change: object) -> Stmt | None:
    if isinstance(stmt, If) and isinstance(stmt.cond, InGroups):
        return None
    return rewrite(stmt, change)  # type: ignore[arg-type]


def _free_barriers(launch: Launch) -> Iterator[int]:
    """Numbers of hardware barriers that the author leaves free, from the last."""
    taken = {n.args[0].value for s in launch.body for n in walk(s) if isinstance(n, Asked) and n.name in _MEET and isinstance(n.args[0], Const)}
    return (n for n in range(15, 0, -1) if n not in taken)


def _where(buffer: Buffer) -> str:
    return buffer.span.where if buffer.span is not None else "its allocation"

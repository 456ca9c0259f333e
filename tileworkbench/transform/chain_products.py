"""A loop of two products, where the second takes what the block makes of the first: the next first product runs beside it (sm_90a).

Before:  for i in a..b: wait k; gemm q k s; release k | p, o = softmax of s, o | wait v; gemm p v o; release v
         release q
After:   if b > a: wait k; gemm q k s, for a
                   for i in a..b: release k; what follows the first product, and where it first touches o or p: wait products <= 0; release v if i > a
                                  if i + 1 < b: wait k; gemm (async) q k s, for i + 1; else: release q
                                  wait v; gemm (async) p v o; wait products <= 1
                   wait products <= 0; release v

So what follows a product, which is long, runs beside the second product of the turn before. The wait is held back until what stands before it has
been computed: ptxas would move it up. All but the first product stands in the text once: the compiler takes a fifth less time. The wait for the next
first product is the last thing of a turn: were it the first thing of the next one, ptxas would make every product wait (C7514).

Requires: specialised launches; two versions of what the second product reads, since it is released a turn later.
Preserves: loops in which anything else stands, in which the two products touch one another's tiles, or whose names cannot be found a second time.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.fragments import is_grouped
from ..analysis.uses import uses
from ..base.dtypes import FLOAT32
from ..ir.build import add, index
from ..ir.device import DeviceCall, Specialised, WaitProducts, has_roles
from ..ir.expr import Binary, Buffer, Const, Expr, Var
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Body, For, Gemm, If, Kernel, Launch, Let, ParallelFor, PipelinedFor, Reduce, Stmt, Store
from .held_releases import HeldReleases, is_release, versions
from .names import Names


def chain_products(kernel: Kernel, arch: int) -> Kernel:
    """Return `kernel` with loops of two products turned by one of them."""
    if arch != 90:
        return kernel
    names = Names(kernel)

    def change(node: Launch) -> Launch:
        return _launch(node, arch, names) if has_roles(node.body) else node

    return rewrite_launches(kernel, change)


def _launch(launch: Launch, arch: int, names: Names) -> Launch:
    made: list[Buffer] = []

    def turned(body: Body) -> Body:
        """`body` with its own loops turned; itself if there is none. What frees tiles behind a loop goes before the product that is left over."""
        out: list[Stmt] = []
        at = 0
        while at < len(body):
            loop, end = body[at], at + 1
            parts = _parts(loop, launch, arch) if isinstance(loop, (For, PipelinedFor)) else None
            if parts is None or not isinstance(loop, (For, PipelinedFor)):
                out.append(loop)
            else:
                while end < len(body) and _may_precede(body[end], parts):
                    end += 1
                out += _chained(loop, parts, body[at + 1 : end], names, made)
            at = end
        return tuple(out) if len(out) != len(body) or any(a is not b for a, b in zip(out, body, strict=True)) else body

    def change(node: Node) -> Node:
        match node:
            case For(body=body) | PipelinedFor(body=body):
                return node if (made := turned(body)) is body else replace(node, body=made)
            case If(_, then, other):
                sides = turned(then), turned(other)
                return node if sides[0] is then and sides[1] is other else replace(node, then=sides[0], other=sides[1])
            case Specialised(consumers=body):
                return node if (made := turned(body)) is body else replace(node, consumers=made)
            case _:
                return node

    out = rewrite(launch, change)
    return replace(out, allocs=(*out.allocs, *made)) if made else out


@dataclass(frozen=True, slots=True)
class _Parts:
    """A loop's body: what leads to the first product, it, what releases its tiles; what is made of it; the same around the second product."""

    lead: Body
    first: Gemm
    freed: Body
    between: Body
    wait: Body
    second: Gemm
    end: Body


def _parts(loop: For | PipelinedFor, launch: Launch, arch: int) -> _Parts | None:
    """The parts of a loop that can be turned, or None."""
    body = loop.body
    places = [i for i, s in enumerate(body) if isinstance(s, Gemm)]
    if len(places) != 2 or sum(isinstance(n, Gemm) for s in body for n in walk(s)) != 2 or isinstance(loop, For) and loop.step != 1:
        return None
    one, two = places
    start, stop = one + 1, two
    while start < two and _keeps_books(body[start]) and not isinstance(body[start], Let):
        start += 1
    while stop > start and _keeps_books(body[stop - 1]):
        stop -= 1
    first, second = body[one], body[two]
    assert isinstance(first, Gemm) and isinstance(second, Gemm)
    parts = _Parts(body[:one], first, body[one + 1 : start], body[start:stop], body[stop:two], second, body[two + 1 :])
    if not all(map(_keeps_books, parts.lead)) or not all(map(_is_of_a_release, (*parts.freed, *parts.end))):
        return None
    if any(isinstance(n, DeviceCall) for s in parts.between for n in walk(s)):
        return None
    if not all(isinstance(g.clear, Const) and g.c.buffer.scope == "fragment" and is_grouped(g, launch, arch) for g in (first, second)):
        return None
    if first.a.buffer.scope != "shared" or second.a.buffer.scope != "fragment" or not _is_released_late(parts.end):
        return None
    return parts if _are_apart(parts) and _can_be_named_again(parts) else None


def _keeps_books(stmt: Stmt) -> bool:
    """Whether it only names, counts, waits for or releases versions of tiles."""
    return isinstance(stmt, (Let, DeviceCall)) or isinstance(stmt, Store) and stmt.buffer.scope == "var"


def _is_of_a_release(stmt: Stmt) -> bool:
    """Whether it only counts or releases versions of tiles."""
    return is_release(stmt) or isinstance(stmt, Store) and _keeps_books(stmt)


def _is_released_late(end: Body) -> bool:
    """Whether every tile that is released has another version, which the next turn can wait for before that."""
    return all(versions(s) > 1 for s in end if is_release(s))


def _are_apart(parts: _Parts) -> bool:
    """Whether the first product of a turn may run before the second one of the turn before, and what that one needs is still known then."""
    ahead, behind = uses((*parts.lead, parts.first, *parts.freed)), uses((*parts.wait, parts.second, *parts.end))
    known = ahead.bound | uses(parts.between).bound
    return not (ahead.written & behind.buffers or behind.written & ahead.read or behind.free & known)


def _can_be_named_again(p: _Parts) -> bool:
    """Whether names that are given before the first product mean the same behind the second one of the turn before."""
    return not uses(_names(p.lead, p.between)).read & uses((*p.lead, p.first, *p.freed, *p.wait, p.second, *p.end)).written


def _names(before: Body, body: Body) -> Body:
    """The names that `before` gives and `body` needs."""
    needed, out = uses(body).free, list[Stmt]()
    for stmt in reversed(before):
        if isinstance(stmt, Let) and stmt.var in needed:
            needed |= uses(stmt.value).used
            out.append(stmt)
    return tuple(reversed(out))


def _may_precede(stmt: Stmt, parts: _Parts) -> bool:
    """Whether what frees a tile behind a loop may come before the last second product, which reads a tile of the loop and so none of those."""
    bound = uses(parts.wait).bound
    own = any(isinstance(n, Var) and n in bound for start in parts.second.b.starts for n in walk(start))
    mine, rest = uses(stmt), uses((*parts.wait, parts.second, *parts.end))
    return own and not isinstance(stmt, Let) and _keeps_books(stmt) and not (mine.written & rest.buffers or mine.read & rest.written)


# ---------------------------------------------------------------------------------------------- the turned loop
def _chained(loop: For | PipelinedFor, parts: _Parts, after: Body, names: Names, made: list[Buffer]) -> Body:
    var, p, span = loop.var, parts, parts.second.span
    ahead = add(var, index(1))
    results, factor = p.second.c, p.second.a
    split = next((i for i, s in enumerate(p.between) if {results.buffer, factor.buffer} & uses(s).buffers), len(p.between))
    early, late = p.between[:split], p.between[split:]
    freed, end = HeldReleases(p.freed, names), HeldReleases(p.end, names)
    made += (*freed.marks, *end.marks)
    counted = (*freed.keep(), *_counts(p.freed))
    turn = (
        *_names(p.lead, p.between),
        *freed.release(),
        *early,
        WaitProducts(0, (results, factor), _last_of(early), span=span),
        *end.release(Binary("gt", var, loop.start)),
        *late,
        If(Binary("lt", ahead, loop.stop), _at((*p.lead, replace(p.first, is_async=True), *counted), var, ahead, names), after, span=p.first.span),
        *p.wait,
        replace(p.second, is_async=True),
        *end.keep(),
        *_counts(p.end),
        WaitProducts(1, (p.first.c,), span=p.first.span),
    )
    start = (*end.clear(), *_at((*p.lead, p.first, *counted), var, loop.start, names))
    last = (WaitProducts(0, (results, factor), span=span), *end.release())
    whole = (*start, For(var, loop.start, loop.stop, turn, span=loop.span), *last)
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const) and int(loop.stop.value) > int(loop.start.value):
        return whole
    return (If(Binary("gt", loop.stop, loop.start), whole, after, span=loop.span),)


def _counts(part: Body) -> Body:
    """What is counted behind a product."""
    return tuple(s for s in part if isinstance(s, Store))


def _at(body: Body, var: Var, value: Expr, names: Names) -> Body:
    """`body` for one value of the loop's variable, with variables of its own."""
    new: dict[Var, Expr] = {v: names.var(v.hint or v.name, v.type) for v in sorted(uses(body).bound, key=lambda v: v.name)}
    new[var] = value
    return tuple(rewrite(s, lambda n: new.get(n, n) if isinstance(n, Var) else n) for s in body)


def _last_of(body: Body) -> tuple[Buffer, ...]:
    """The row of numbers that is computed last, from everything else as a rule."""
    for stmt in reversed(body):
        if isinstance(stmt, (ParallelFor, Reduce)):
            rows = [b for b in uses(stmt).written if b.scope == "fragment" and b.rank == 1 and b.type == FLOAT32]
            if rows:
                return (min(rows, key=lambda b: b.name),)
    return ()

"""The first product of a loop begins its sums, in place of zeros that a fill puts there (sm_90a).

Before:  fill acc <- 0; for k in 0..n: wait full[slot]; gemm a[slot] b[slot] acc
After:   for k in 0..n: wait full[slot]; gemm a[slot] b[slot] acc, clear=(k == 0)        (a product in no loop: clear=True)

Warp groups add to nothing as fast as to zeros, and nothing keeps the registers busy between two tiles.

Requires: forms of tiles, sums that stay in the matrix unit or do not.  Preserves: loops that may not run, accumulators that anything else touches
before the product, and products whose sums leave the matrix unit.
"""

from __future__ import annotations

from ..analysis.fragments import is_grouped
from ..analysis.uses import uses
from ..ir.bodies import heads
from ..ir.build import TRUE, cast
from ..ir.device import Specialised
from ..ir.expr import Binary, Buffer, Const, is_const
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite
from ..ir.stmt import Body, Fill, For, Gemm, If, Kernel, Launch, PipelinedFor, Stmt, is_whole


def start_sums(kernel: Kernel, arch: int) -> Kernel:
    """Return `kernel` with first products that clear their accumulators, on sm_90a."""
    if arch != 90:
        return kernel
    return rewrite_launches(kernel, lambda node: _launch(node, arch))


def _launch(launch: Launch, arch: int) -> Launch:
    def change(node: Node) -> Node:
        match node:
            case For(body=body) | PipelinedFor(body=body):
                return node if (new := _body(body, launch, arch)) is body else replace(node, body=new)
            case Specialised(consumers=body):
                return node if (new := _body(body, launch, arch)) is body else replace(node, consumers=new)
            case If(_, then, other):
                yes, no = _body(then, launch, arch), _body(other, launch, arch)
                return node if yes is then and no is other else replace(node, then=yes, other=no)
            case _:
                return node

    inside = rewrite(launch, change)
    body = _body(inside.body, launch, arch)
    return inside if body is inside.body else replace(inside, body=body)


def _body(body: Body, launch: Launch, arch: int) -> Body:
    """`body` without fills that a loop behind them makes superfluous."""
    for at, stmt in enumerate(body):
        if not (isinstance(stmt, Fill) and is_whole(stmt.dst) and is_const(stmt.value, 0)):
            continue
        sums = stmt.dst.buffer
        then = next((i for i in range(at + 1, len(body)) if sums in uses(body[i]).buffers), None)
        loop = body[then] if then is not None else None
        if then is not None and isinstance(loop, Gemm) and _takes(loop, sums, launch, arch):
            return _body((*body[:at], *body[at + 1 : then], replace(loop, clear=TRUE), *body[then + 1 :]), launch, arch)
        if then is None or not isinstance(loop, (For, PipelinedFor)) or not _runs(loop) or sums in uses(heads(loop)).buffers:
            continue
        first = next((i for i, s in enumerate(loop.body) if sums in uses(s).buffers), None)
        product = loop.body[first] if first is not None else None
        if first is None or not isinstance(product, Gemm) or not _takes(product, sums, launch, arch):
            continue
        begins = Binary("eq", loop.var, cast(loop.start, loop.var.type))
        changed: Stmt = replace(loop, body=(*loop.body[:first], replace(product, clear=begins), *loop.body[first + 1 :]))
        return _body((*body[:at], *body[at + 1 : then], changed, *body[then + 1 :]), launch, arch)
    return body


def _runs(loop: For | PipelinedFor) -> bool:
    ends = loop.start, loop.stop
    return isinstance(ends[0], Const) and isinstance(ends[1], Const) and int(ends[0].value) < int(ends[1].value)


def _takes(stmt: Gemm, sums: Buffer, launch: Launch, arch: int) -> bool:
    """Whether a product of warp groups adds to all of `sums`, and reads no factor there."""
    mine = stmt.c.buffer == sums and is_whole(stmt.c) and sums not in (stmt.a.buffer, stmt.b.buffer)
    return mine and is_const(stmt.clear, 0) and not stmt.apart[0] and not stmt.unit and is_grouped(stmt, launch, arch)

"""A loop that only multiplies leaves each product running until the next one is under way (sm_90a).

Before:  for k in 0..n: wait full[slot]; gemm a[slot] b[slot] acc; arrive at empty[slot]
After:   for k in 0..n: wait full[slot]; gemm (async) a[slot] b[slot] acc; wait products <= 1; arrive at empty[before] if k > 0; before = slot
         wait products <= 0; arrive at empty[before] if n > 0

Products of one accumulator follow one another in order, so nothing but the accumulator's readers must wait; a version of a tile is free once the
product that reads it has ended.

Requires: specialised launches.  Preserves: loops that do anything else.
"""

from __future__ import annotations

from ..analysis.fragments import is_grouped
from ..analysis.linear import has_load
from ..base.dtypes import INDEX, UINT32
from ..ir.build import cast, index
from ..ir.device import DeviceCall, WaitProducts, has_roles
from ..ir.expr import AddressOf, Binary, Buffer, Const, Expr, Load
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite
from ..ir.stmt import Body, For, Gemm, Kernel, Launch, Let, PipelinedFor, Stmt, Store
from .names import Names

RELEASE = "twb_mbarrier_arrive_warp"
RELEASES = (RELEASE, "twb_mbarrier_arrive_cluster")


def overlap_products(kernel: Kernel, arch: int) -> Kernel:
    """Return `kernel` with products that run into the next turn of their loops."""
    if arch != 90:
        return kernel
    names = Names(kernel)

    def change(node: Launch) -> Launch:
        return _launch(node, arch, names) if has_roles(node.body) else node

    return rewrite_launches(kernel, change)


def _launch(launch: Launch, arch: int, names: Names) -> Launch:
    made: list[Buffer] = []

    def change(node: Node) -> Node | tuple[Node, ...]:
        if isinstance(node, (For, PipelinedFor)) and _only_multiplies(node.body, launch, arch):
            return _overlapped(node, names, made)
        return node

    body = tuple(rewrite(s, change) for s in launch.body)
    return replace(launch, body=body, allocs=(*launch.allocs, *made)) if made else launch


def _only_multiplies(body: Body, launch: Launch, arch: int) -> bool:
    """Whether a loop waits for tiles, multiplies them by warp groups into fragments, and releases them; nothing else."""
    products = [s for s in body if isinstance(s, Gemm)]
    return (
        bool(products)
        and any(isinstance(s, DeviceCall) and s.name in RELEASES for s in body)
        and all(_versions(s) > 1 for s in body if isinstance(s, DeviceCall) and s.name in RELEASES)  # the next turn must not wait for this one's
        and all(isinstance(s, (Let, Gemm, Store, DeviceCall)) for s in body)
        and all(s.buffer.scope == "var" for s in body if isinstance(s, Store))
        and all(not has_load(s.clear) and s.c.buffer.scope == "fragment" and s.a.buffer.scope == "shared" for s in products)
        and all(is_grouped(s, launch, arch) and not s.apart[0] for s in products)
    )


def _overlapped(loop: For | PipelinedFor, names: Names, made: list[Buffer]) -> Body:
    out: list[Stmt] = []
    released: list[DeviceCall] = []
    count = sum(isinstance(s, Gemm) for s in loop.body)
    for stmt in loop.body:
        match stmt:
            case Gemm():
                out.append(replace(stmt, is_async=True))
            case DeviceCall(name=name) if name in RELEASES:
                released.append(stmt)
            case _:
                out.append(stmt)
    marks = [names.scalar("before", UINT32) for _ in released]
    made += marks
    again, any_turn = Binary("gt", loop.var, cast(loop.start, loop.var.type)), Binary("gt", loop.stop, loop.start)
    turn: list[Stmt] = [WaitProducts(count, span=loop.span)]
    for mark, stmt in zip(marks, released, strict=True):
        turn += [release_marked(stmt, mark, again), mark_version(stmt, mark)]
    at = next((i for i, s in enumerate(out) if isinstance(s, Store)), len(out))
    start = tuple(Store(mark, (index(0),), Const(0, UINT32)) for mark in marks)
    results = tuple({s.c.buffer: s.c for s in loop.body if isinstance(s, Gemm)}.values())
    end = (WaitProducts(0, results, span=loop.span), *(release_marked(stmt, mark, any_turn) for mark, stmt in zip(marks, released, strict=True)))
    return (*start, replace(loop, body=(*out[:at], *turn, *out[at:])), *end)


def _versions(stmt: DeviceCall) -> int:
    return _bar(stmt).buffer.static_shape()[0]


def mark_version(stmt: DeviceCall, mark: Buffer) -> Stmt:
    """Keep in `mark` which version of a tile `stmt` would release."""
    return Store(mark, (index(0),), cast(_bar(stmt).indices[0], UINT32))


def release_marked(stmt: DeviceCall, mark: Buffer, really: Expr | None = None) -> Stmt:
    """Release the version that `mark` names, if `really`: then the compiler may do so later, for there is no branch and no meeting of the warp."""
    bar = replace(_bar(stmt), indices=(cast(Load(mark, (index(0),)), INDEX),))
    if really is None:
        return replace(stmt, args=(bar, *stmt.args[1:]))
    return DeviceCall(f"{stmt.name}_if", (bar, *stmt.args[1:], really), span=stmt.span)


def _bar(stmt: DeviceCall) -> AddressOf:
    bar = stmt.args[0]
    assert isinstance(bar, AddressOf)
    return bar

"""The threads of a specialised launch go to their tasks: the author's threads compute, one thread of a group beyond them copies.

Before:  threads tx of 256: (consumers' program), roles setup / producer
After:   threads of 384: if (thread == 0) prefetch maps; setup; sync; grid launch; grid wait; let tx = thread % 256;
         if (thread < 256) consumers else if (thread == 256) producer

Barriers of the block among the consumers become a barrier of their number. The launch is programmatic: its blocks may start while the kernel ahead of
it in the stream ends, and get their barriers ready; they touch global memory when that kernel is done.
"""

from __future__ import annotations

from ..base.dtypes import INT32
from ..ir.build import index
from ..ir.device import GRID_LAUNCH, GRID_WAIT, DeviceCall, MapOf, Specialised
from ..ir.expr import Binary, Const, Expr
from ..ir.node import Node, replace, rewrite
from ..ir.stmt import Body, If, Launch, Let, Stmt, Sync
from ..layout.fragments import WARP
from .names import Names

PRODUCERS, BARRIER = 128, 1


def in_roles(launch: Launch, roles: Specialised, names: Names) -> Launch:
    """`launch`, whose body is the consumers' thread program, with the roles of `roles`."""
    count = launch.count_threads
    thread = names.var("thread")
    lets: list[Stmt] = []
    rest: Expr = Binary("floormod", thread, index(count))
    for var, extent in zip(launch.thread_vars[:-1], launch.threads[:-1], strict=True):
        lets.append(Let(var, Binary("floormod", rest, index(extent))))
        rest = Binary("floordiv", rest, index(extent))
    lets.append(Let(launch.thread_vars[-1], rest))
    consumers = tuple(rewrite(s, lambda n: _apart(n, count)) for s in launch.body)
    producer: Body = (If(Binary("eq", thread, index(count)), roles.producer),)
    if roles.storer:
        producer = (If(Binary("eq", thread, index(count)), roles.producer, (If(Binary("eq", thread, index(count + WARP)), roles.storer),)),)
    if roles.registers != (0, 0):
        few, many = roles.registers
        consumers = (DeviceCall("twb_set_max_registers_inc", constants=(many,)), *consumers)
        producer = (DeviceCall("twb_set_max_registers_dec", constants=(few,)), *producer)
    prefetches = tuple(DeviceCall("twb_tma_prefetch", (MapOf(n),)) for n in range(len(launch.views)))
    first = If(Binary("eq", thread, index(0)), (*prefetches, *roles.setup))
    both = If(Binary("lt", thread, index(count)), (*lets, *consumers), producer, span=roles.span)
    start: Body = (DeviceCall("twb_cluster_sync"),) if roles.reaches_out else (Sync(),)
    after = DeviceCall(GRID_LAUNCH), DeviceCall(GRID_WAIT)
    end: Body = (Sync("warp"), DeviceCall("twb_cluster_sync")) if roles.reaches_out else ()  # nobody leaves while another block may still reach it
    return replace(launch, threads=(count + PRODUCERS,), thread_vars=(thread,), body=(first, *start, *after, both, *end))


def _apart(node: Node, count: int) -> Node:
    if isinstance(node, Sync) and node.scope == "block":
        return DeviceCall("twb_bar_sync", (Const(BARRIER, INT32), Const(count, INT32)), span=node.span)
    return node


__all__ = ["BARRIER", "PRODUCERS", "in_roles"]

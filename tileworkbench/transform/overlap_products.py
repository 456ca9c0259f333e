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
from ..ir.build import cast
from ..ir.device import DeviceCall, WaitProducts, has_roles
from ..ir.expr import Binary, Buffer
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite
from ..ir.stmt import Body, For, Gemm, Kernel, Launch, Let, PipelinedFor, Store
from .held_releases import HeldReleases, is_release, versions
from .names import Names


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
        and any(map(is_release, body))
        and all(versions(s) > 1 for s in body if is_release(s))  # the next turn must not wait for this one's
        and all(isinstance(s, (Let, Gemm, Store, DeviceCall)) for s in body)
        and all(s.buffer.scope == "var" for s in body if isinstance(s, Store))
        and all(not has_load(s.clear) and s.c.buffer.scope == "fragment" and s.a.buffer.scope == "shared" for s in products)
        and all(is_grouped(s, launch, arch) and not s.apart[0] for s in products)
    )


def _overlapped(loop: For | PipelinedFor, names: Names, made: list[Buffer]) -> Body:
    held = HeldReleases(loop.body, names)
    made += held.marks
    products = [s for s in loop.body if isinstance(s, Gemm)]
    out = [replace(s, is_async=True) if isinstance(s, Gemm) else s for s in loop.body if not is_release(s)]
    again, any_turn = Binary("gt", loop.var, cast(loop.start, loop.var.type)), Binary("gt", loop.stop, loop.start)
    at = next((i for i, s in enumerate(out) if isinstance(s, Store)), len(out))
    turn = (WaitProducts(len(products), span=loop.span), *held.release(again), *held.keep())
    results = tuple({s.c.buffer: s.c for s in products}.values())
    end = (WaitProducts(0, results, span=loop.span), *held.release(any_turn))
    return (*held.clear(), replace(loop, body=(*out[:at], *turn, *out[at:])), *end)

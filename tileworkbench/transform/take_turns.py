"""Groups of warps issue their products in turn, if the author asks for it ("ping-pong", sm_90a).

Before:  for i: ...; if i + 1 < n: wait k; gemm (async) q k s
                     wait v; gemm (async) p v o; wait products <= 1; ...
After:   the first group may begin
         for i: ...; wait for my turn; if i + 1 < n: wait k; gemm (async) q k s
                     wait v; gemm (async) p v o; the next group's turn; wait products <= 1; ...

         (a product whose sums leave the matrix unit: each part of it waits for its turn, `spread_wgmma`)

So what a group computes between its products falls together with the products of the others. On an H200 groups fall into step by themselves: causal
attention with 64 dims gained 1 to 3 %, others nothing. Asked for by T.annotate_pass_configs({"tl.ping_pong": True}).

Requires: loops of two products that chain_products has turned; every group makes the same turns.
Preserves: launches that do not ask, or of one group.
"""

from __future__ import annotations

from ..analysis.matrix_units import GROUP
from ..base.dtypes import UINT32
from ..base.pass_configs import PING_PONG, is_asked
from ..ir.device import DeviceCall, Specialised
from ..ir.expr import Const
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Body, For, Gemm, If, Kernel, Launch
from .roles import BARRIER

FIRST = Const(BARRIER + 1, UINT32)  # the first group's barrier; the others' follow


def take_turns(kernel: Kernel, arch: int) -> Kernel:
    """Return `kernel` with turns where its launches ask for them."""
    if arch != 90:
        return kernel
    everywhere = is_asked(kernel.attrs, PING_PONG)

    def change(node: Launch) -> Launch:
        groups = node.count_threads // GROUP
        return _launch(node, groups) if groups > 1 and (everywhere or is_asked(node.hints, PING_PONG)) else node

    return rewrite_launches(kernel, change)


def _launch(launch: Launch, groups: int) -> Launch:
    def turn(node: Node) -> Node:
        match node:
            case For(body=body) if _chains(body):
                return replace(node, body=_in_turn(body, groups))
            case Gemm(apart=(depth, columns, _)) if depth:
                return replace(node, apart=(depth, columns, groups))
            case _:
                return node

    def change(node: Node) -> Node:
        if not isinstance(node, Specialised) or not any(turn(n) is not n for s in node.consumers for n in walk(s)):
            return node
        consumers = tuple(rewrite(s, turn) for s in node.consumers)
        return replace(node, consumers=(DeviceCall("twb_turn_begin", (FIRST,), span=node.span), *consumers))

    return rewrite(launch, change)


def _chains(body: Body) -> bool:
    return len(_products(body)) == 2


def _products(body: Body) -> list[int]:
    """Where asynchronous products stand, under a condition or not."""
    return [i for i, s in enumerate(body) if any(isinstance(p, Gemm) and p.is_async for p in (s, *(s.then if isinstance(s, If) else ())))]


def in_turn(body: Body, groups: int) -> Body:
    """`body` when it is the group's turn; the next group's begins behind it."""
    if groups < 2:
        return body
    begin, end = (
        DeviceCall("twb_turn_wait", (FIRST,), span=body[0].span),
        DeviceCall("twb_turn_pass", (FIRST, Const(groups, UINT32)), span=body[-1].span),
    )
    return (begin, *body, end)


def _in_turn(body: Body, groups: int) -> Body:
    one, two = _products(body)
    return (*body[:one], *in_turn(body[one : two + 1], groups), *body[two + 1 :])

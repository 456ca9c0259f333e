"""Conditions on the thread's index that choose whole warp groups become roles, and the threads are hidden again (sm_90).

Before:  threads tx of 384: if tx < 128: (left) else: if tx >= 128 and tx < 256: (right) else: (copies)
After:   threads of 384: in groups 0: (left);  in groups 1: (right);  in groups 2: (copies)

Only in launches with words of sm_90; UnsupportedError if such a launch asks for a thread's index otherwise: those words are of whole warp groups.

Requires: author-level statements.  Preserves: other launches.
"""

from __future__ import annotations

from ..analysis.explicit_words import is_of_threads, needs_sm_90
from ..base.errors import UnsupportedError
from ..ir.build import TRUE
from ..ir.explicit import GROUP, InGroups, is_explicit
from ..ir.expr import Binary, Cast, Const, Expr, Var
from ..ir.launches import rewrite_launches
from ..ir.node import Node, map_children, replace, walk
from ..ir.stmt import Body, Collective, If, Kernel, Launch, Stmt

_Range = tuple[int, int]  # first warp group, and the one after the last


def roles_of_threads(kernel: Kernel, arch: int) -> Kernel:
    """Return `kernel` with roles in place of conditions on thread indices, on sm_90."""
    if arch != 90 or not any(is_explicit(launch) and launch.threads_used for launch in kernel.launches):
        return kernel

    def change(node: Launch) -> Launch:
        return _hidden(node) if is_explicit(node) and node.threads_used else node

    return rewrite_launches(kernel, change)


def _hidden(launch: Launch) -> Launch:
    groups = launch.count_threads // GROUP
    if launch.count_threads % GROUP == 0 and len([t for t in launch.threads if t > 1]) == 1:
        tx = next(v for v, t in zip(launch.thread_vars, launch.threads, strict=False) if t > 1)
        body = map_children(If(TRUE, launch.body), lambda child: _at(child, tx, (0, groups))).then
        if not any(isinstance(n, Collective) or n in launch.thread_vars for s in body for n in walk(s)):
            return replace(launch, body=body, threads_used=False)
    for node in (n for s in launch.body for n in walk(s)):
        if needs_sm_90(node) and not is_of_threads(node):
            raise UnsupportedError(
                "a launch that orders asynchronous work itself asks for a thread's index, or shuffles", span=node.span,
                hint="choose whole warp groups by T.ws(0), or by conditions like `if tx < 128:` alone, and use tile operations inside",
            )  # fmt: skip
    return launch


def _at(node: Node, tx: Var, within: _Range) -> Node | tuple[Node, ...]:
    """`node`, which the groups `within` run, with roles in place of conditions."""
    if not isinstance(node, Stmt):
        return node
    chosen = _chosen(node.cond, tx, within) if isinstance(node, If) else None
    if chosen is None or not isinstance(node, If):
        return map_children(node, lambda child: _at(child, tx, within))
    if not node.other:
        return _role(chosen, node.then, tx, node)
    if within[0] < chosen[0] and chosen[1] < within[1]:
        return node  # what is left lies on both sides
    rest = (within[0], chosen[0]) if chosen[1] == within[1] else (chosen[1], within[1])
    return (*_role(chosen, node.then, tx, node), *_role(rest, node.other, tx, node))


def _role(chosen: _Range, body: Body, tx: Var, at: Stmt) -> tuple[Node, ...]:
    """`body` as the role of the groups `chosen`; conditions in it that choose further are roles beside one another."""
    if chosen[0] >= chosen[1]:
        return ()
    if body and all(isinstance(s, If) and _chosen(s.cond, tx, chosen) is not None for s in body):
        made = [_at(s, tx, chosen) for s in body]
        return tuple(n for m in made for n in (m if isinstance(m, tuple) else (m,)))
    return (If(InGroups(chosen[0], chosen[1] - chosen[0], span=at.span), body, span=at.span),)


def _chosen(cond: Expr, tx: Var, within: _Range) -> _Range | None:
    """The warp groups for which `cond` holds, if it chooses neighbours."""
    match cond:
        case Binary("and", a, b):
            left, right = _chosen(a, tx, within), _chosen(b, tx, within)
            if left is None or right is None:
                return None
            return max(left[0], right[0]), min(left[1], right[1])
        case Binary(op, Cast(x), b) if x == tx:
            return _chosen(Binary(op, x, b), tx, within)
        case Binary("lt" | "ge" as op, a, Const(value)) if a == tx and value % GROUP == 0:
            at = min(max(int(value) // GROUP, within[0]), within[1])
            return (within[0], at) if op == "lt" else (at, within[1])
        case _:
            return None

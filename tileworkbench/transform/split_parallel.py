"""Parallel loops whose variable is divided by a constant are split, so that the division goes away.

Before:  for i, k in parallel(64, 96): y[i, k] = (w[i, k // 2] >> (k % 2 * 4)) * s[i, k // 32]
After:   for i, k_32, k_2 in parallel(64, 3, 16):
           y[i, (k_32 * 32 + k_2 * 2) + 0] = (w[i, ...] >> 0) * s[i, k_32]
           y[i, (k_32 * 32 + k_2 * 2) + 1] = (w[i, ...] >> 4) * s[i, k_32]

A large divisor makes an outer and an inner loop, a small one (up to 8) copies of the body: what was a gather of bytes or a division in a vector
loop becomes contiguous. `flatten_accesses` then folds the divisions. Only divisors of the extent count.

Requires: author-level statements.  Preserves: everything else.
"""

from __future__ import annotations

from ..analysis.linear import Linear, linear
from ..analysis.uniform import is_private
from ..base.dtypes import INDEX
from ..ir.build import add, index, mul
from ..ir.expr import Binary, Const, Expr, Load, Var
from ..ir.node import Node, map_children, replace, rewrite, walk
from ..ir.stmt import Body, If, Kernel, Let, ParallelFor, Stmt, Store
from .names import Names

_SMALL, _LARGE = 8, 16


def split_parallel(kernel: Kernel) -> Kernel:
    """Return `kernel` with such loops split."""
    names: list[Names] = []

    def change(node: Node) -> Node:
        if not isinstance(node, ParallelFor) or not _divides(node):
            return node
        if not names:
            names.append(Names(kernel))
        return _split(node, names[0])

    return rewrite(kernel, change)


def _divides(loop: ParallelFor) -> bool:
    """A quick look, before anything is built."""
    return any(isinstance(n, Binary) and _divisor(n) > 1 for s in loop.body for n in walk(s))


def _divisor(e: Binary) -> int:
    """The positive constant that an index is divided by; 0 if it is not."""
    if not isinstance(e.b, Const) or e.dtype != INDEX:
        return 0
    b = int(e.b.value)
    match e.op:
        case "floordiv" | "floormod" | "truncdiv" | "truncmod":
            return max(b, 0)
        case "shr" if 0 < b < 16:
            return 1 << b
        case "bitand" if b > 0 and b & (b + 1) == 0:
            return b + 1
        case _:
            return 0


def _split(loop: ParallelFor, names: Names) -> ParallelFor:
    """Split along the last loop: by the smallest large divisor, then by small ones."""
    if not all(_is_simple(s) for s in loop.body):
        return loop
    for wanted in ("large", "small"):
        *_, var = loop.vars
        *_, extent = loop.extents
        if not isinstance(extent, Const):
            return loop
        size = int(extent.value)
        divisors = [c for c in _divisors(loop.body, var) if c < size and size % c == 0]
        large, small = [c for c in divisors if c >= _LARGE], [c for c in divisors if c <= _SMALL]
        if wanted == "large" and large:
            loop = _in_two(loop, var, size, min(large), names)
        elif wanted == "small" and small and all(max(small) % c == 0 for c in small) and not _writes_private(loop.body):
            loop = _in_copies(loop, var, size, max(small), names)
    return loop


def _divisors(body: Body, var: Var) -> list[int]:
    """Constants c for which some (c*... + var) // c or % c stands in `body`."""
    known: dict[str, Linear] = {}
    found: dict[int, None] = {}
    for stmt in body:
        for n in walk(stmt):
            if isinstance(n, Let) and n.var.type == INDEX and not any(isinstance(m, Load) for m in walk(n.value)):
                known[n.var.name] = linear(n.value, known)
            if isinstance(n, Binary) and (c := _divisor(n)) > 1:
                form = linear(n.a, known)
                rest = form.without(var)
                if form.coefficient(var) == 1 and form.const % c == 0 and all(k % c == 0 for k in rest.terms.values()):
                    found[c] = None
    return sorted(found)


def _in_two(loop: ParallelFor, var: Var, size: int, c: int, names: Names) -> ParallelFor:
    hint = var.hint or var.name
    outer, inner = names.var(f"{hint}_{c}"), names.var(hint)
    body = tuple(_replaced(s, {var.name: add(mul(outer, index(c)), inner)}) for s in loop.body)
    return replace(loop, vars=(*loop.vars[:-1], outer, inner), extents=(*loop.extents[:-1], index(size // c), index(c)), body=body)


def _in_copies(loop: ParallelFor, var: Var, size: int, c: int, names: Names) -> ParallelFor:
    whole = names.var(f"{var.hint or var.name}_{c}")
    body: list[Stmt] = []
    for part in range(c):
        put: dict[str, Expr] = {var.name: add(mul(whole, index(c)), index(part))}
        for n in (n for s in loop.body for n in walk(s)):
            if isinstance(n, Let):
                put[n.var.name] = names.var(n.var.hint or n.var.name, n.var.type)
        body += (_replaced(s, put) for s in loop.body)
    return replace(loop, vars=(*loop.vars[:-1], whole), extents=(*loop.extents[:-1], index(size // c)), body=tuple(body))


def _replaced(stmt: Stmt, put: dict[str, Expr]) -> Stmt:
    def change(node: Node) -> Node:
        if isinstance(node, Var):
            return put.get(node.name, node)
        return map_children(node, change)

    new = change(stmt)
    assert isinstance(new, Stmt)
    return new


def _is_simple(stmt: Stmt) -> bool:
    match stmt:
        case Let() | Store():
            return True
        case If(_, then, other):
            return all(_is_simple(s) for s in (*then, *other))
        case _:
            return False


def _writes_private(body: Body) -> bool:
    return any(isinstance(n, Store) and is_private(n.buffer) for s in body for n in walk(s))

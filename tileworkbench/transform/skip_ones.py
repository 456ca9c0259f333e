"""Rows in registers are not multiplied by 1: a warp whose factors are all 1 skips the multiplications.

Before:  for r in unroll(0, 64): o_r[r] = o_r[r] * f_r[r % 2]
After:   changed = any of the warp (f_r[0] != 1 or f_r[1] != 1); if changed: for r in unroll(0, 64): o_r[r] = o_r[r] * f_r[r % 2]

The online softmax scales its sums at every step, and mostly by 1. x * 1 is x for every number, infinities and NaN included, so nothing else changes.

Requires: a loop over whole cells of a fragment, which all threads of a block come to.  Preserves: loops of few cells for each factor.
"""

from __future__ import annotations

from ..base.dtypes import BOOL
from ..ir.build import index
from ..ir.expr import Binary, Buffer, Cast, Const, Expr, Load
from ..ir.stmt import Body, Collective, If, ParallelFor, Store
from ..layout.fragments import WARP
from .spread_tiles import Spreading

FEW, MANY = 4, 8  # factors of a thread at most; multiplications for each of them at least


def unless_ones(loop: ParallelFor, body: Body, s: Spreading) -> Body:
    """`body`, which is `loop` for a thread, where something has to be done."""
    factors = _factors(loop, s.arrays)
    if factors is None or s.place.threads % WARP or s.arrays[factors].static_shape()[0] > FEW:
        return body
    array = s.arrays[factors]
    count = array.static_shape()[0]
    store = loop.body[0]
    assert isinstance(store, Store)
    if s.arrays[store.buffer].static_shape()[0] < MANY * count:
        return body
    differs: Expr | None = None
    for r in range(count):
        one = Binary("ne", Load(array, (index(r),)), Const(1.0, array.type))
        differs = one if differs is None else Binary("or", differs, one)
    assert differs is not None
    changed = s.names.var("changed", BOOL)
    return (Collective("any", changed, (differs,), span=loop.span), If(changed, body, span=loop.span))


def _factors(loop: ParallelFor, held: dict[Buffer, Buffer]) -> Buffer | None:
    """The fragment of factors, if `loop` multiplies cells by them and does nothing else."""
    if len(loop.body) != 1:
        return None
    match loop.body[0]:
        case Store(cells, at, Binary("mul", Load(again, there), Load(factors, where))) if cells == again and at == there:
            few = len(where) < len(at)
        case _:
            return None
    plain = all(_plain(i) in loop.vars for i in (*at, *where))
    return factors if few and plain and cells in held and factors in held and cells.type == factors.type and cells.type.is_float else None


def _plain(e: Expr) -> Expr:
    return _plain(e.x) if isinstance(e, Cast) else e

"""For how many iterations of one loop a comparison holds, without running through them.

>>> from tileworkbench.ir.expr import Binary, Const, Var
>>> lanes = Lanes.single().ranged("j", 0, 99)
>>> taken_share(Binary("lt", Var("j"), Const(25)), "j", lanes, Evaluator()).tolist()
[0.25]
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir.expr import Binary, Cast, Const, Expr, Var
from ..ir.node import walk
from .space import Array, Evaluator, Lanes, is_exact

_ORDER = {"lt": (1, 1), "le": (1, 0), "gt": (-1, 1), "ge": (-1, 0)}  # sign of b - a, and the least value for which it holds


def taken_share(cond: Expr, name: str, lanes: Lanes, evaluate: Evaluator) -> Array | None:
    """Per lane, the share of the iterations of `name` for which `cond` holds; None where it is no comparison of sums, or depends on more."""
    if not isinstance(cond, Binary) or cond.op not in _ORDER or name not in lanes.ranges or not _is_sum(cond.a) or not _is_sum(cond.b):
        return None
    low, high = lanes.ranges[name]
    step = abs(evaluate.steps.get(name, 1))
    bare = replace(lanes, ranges={k: v for k, v in lanes.ranges.items() if k != name})
    ends = [_difference(cond, name, value, bare, evaluate) for value in (low, low + step, high)]
    first, second, last = ends
    if first is None or second is None or last is None:
        return None
    count = (high - low) // step + 1
    slope = np.where(count > 1, second - first, 0)
    if np.any(first + slope * (count - 1) != last):
        return None
    least = _ORDER[cond.op][1]
    steep = np.where(slope == 0, 1, np.abs(slope))
    rising = count - np.clip(-(-(least - first) // steep), 0, count)
    falling = np.clip((first - least) // steep + 1, 0, count)
    holds = np.where(slope > 0, rising, np.where(slope < 0, falling, count * (first >= least)))
    out: Array = holds / count
    return out


def _difference(cond: Binary, name: str, value: Array, lanes: Lanes, evaluate: Evaluator) -> Array | None:
    """b - a (a - b for "greater") on each lane with one value of the loop's variable; None if that is not one number."""
    here = lanes.bind(name, (value, value))
    a, b = evaluate.bounds(cond.a, here), evaluate.bounds(cond.b, here)
    if a is None or b is None or not is_exact(a) or not is_exact(b):
        return None
    sign = _ORDER[cond.op][0]
    return sign * (lanes.column(b[0]).astype(np.int64) - lanes.column(a[0]).astype(np.int64))


def _is_sum(expr: Expr) -> bool:
    """Made of integer variables and constants by adding and multiplying only (a minimum of such is still checked at both ends)."""
    return all(
        isinstance(n, Var | Const | Cast) or (isinstance(n, Binary) and n.op in ("add", "sub", "mul")) for n in walk(expr) if isinstance(n, Expr)
    )

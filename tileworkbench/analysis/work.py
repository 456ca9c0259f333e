"""About how long a lowered body takes on one core, in nanoseconds: enough to tell a launch that threads help from one that they do not.

The rates are those of a core with AVX2 or more at about 3 GHz, the data in its caches. They give an order of magnitude, so that a kernel's text does
not depend on where it is made. What cannot be counted is None: it may be long.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..ir.expr import Binary, CallExtern, Cast, Const, Expr, Select, Unary
from ..ir.lowered import AtomicOp, CopyElements, Declare, Element, EndIteration, Fail, GemmCall, LibraryCall, Loop, PrintLine, SetElement
from ..ir.node import Node, walk
from ..ir.stmt import Body, Break, Continue, Evaluate, If, Let, Return, Stmt

OPERATION_NS = 0.3  # one scalar operation; a vector loop does `LANES` of them at once
LANES = 8
SLOW_OPERATIONS = 12  # that an exponential or a division stands for
BYTES_PER_NS = 20.0  # of global memory, from the caches
PRODUCTS_PER_NS = 50.0  # multiply-adds of a micro-kernel
ATOMIC_NS = 10.0
_QUICK = ("neg", "abs", "not", "bitnot", "isnan", "isinf", "isfinite", "floor", "ceil", "round", "trunc", "sqrt", "rsqrt", "popcount", "clz")


def work_ns(body: Body) -> float | None:
    """An estimate for the whole body; None where a loop's length or a call's work is not known."""
    return _body(body, 1)


def _body(body: Body, lanes: int) -> float | None:
    return _sum(_stmt(s, lanes) for s in body)


def _sum(parts: Iterable[float | None]) -> float | None:
    total = 0.0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def _stmt(s: Stmt, lanes: int) -> float | None:
    match s:
        case Loop(_, start, stop, body, step, simd):
            trips = _trips(start, stop, step)
            inside = _body(body, LANES if simd else lanes)
            return None if trips is None or inside is None else trips * (inside + OPERATION_NS / (LANES if simd else 1))
        case GemmCall(m, n, k):
            return m * n * k / PRODUCTS_PER_NS
        case CopyElements(dst, _, src, _, count):
            moved = _most(count)
            return None if moved is None else 2.0 + moved * dst.type.bits / 8 * (dst.scope == "global" or src.scope == "global") / BYTES_PER_NS
        case If(cond, then, other):
            sides = _body(then, lanes), _body(other, lanes)
            return None if None in sides else _cost(cond, lanes) + max(x for x in sides if x is not None)
        case SetElement() | Let() | Declare() | Evaluate() | EndIteration() | Fail() | PrintLine() | Break() | Continue() | Return():
            return None if any(isinstance(n, CallExtern) for n in walk(s)) else _cost(s, lanes)
        case _:
            return None


def _trips(start: Expr, stop: Expr, step: int) -> int | None:
    end = _most(stop)
    return max(0, math.ceil((end - int(start.value)) / step)) if end is not None and isinstance(start, Const) and step > 0 else None


def _most(e: Expr) -> int | None:
    """An upper bound of a length."""
    match e:
        case Const(value):
            return int(value)
        case Binary("min", a, b):
            return min((x for x in (_most(a), _most(b)) if x is not None), default=None)
        case Cast(x):
            return _most(x)
        case _:
            return None


def _cost(node: Node, lanes: int) -> float:
    """Of the expressions in a statement that has no other statements in it."""
    operations, total = 0.0, 0.0
    for n in walk(node):
        match n:
            case Element(buffer) | SetElement(buffer):
                operations += 1
                total += buffer.type.bits / 8 / BYTES_PER_NS if buffer.scope == "global" else 0.0
            case Unary(op):
                operations += 1 if op in _QUICK else SLOW_OPERATIONS
            case Binary(op):
                operations += SLOW_OPERATIONS if op in ("div", "pow") else 1
            case Cast() | Select():
                operations += 1
            case LibraryCall(name, (_, _, _, Const(count), _)) if name.startswith("twb_dots_"):
                elements = int(name.rpartition("_")[2]) * int(count)
                operations += 2 * elements / LANES
                total += elements * 2 / BYTES_PER_NS
            case LibraryCall(name, args):
                sizes = [int(a.value) for a in args if isinstance(a, Const) and a.dtype.is_int]
                operations += max(sizes, default=SLOW_OPERATIONS) / LANES * (SLOW_OPERATIONS if "_exp2_row_" in name else 1)
            case AtomicOp():
                total += ATOMIC_NS
            case _:
                pass
    return total + operations * OPERATION_NS / lanes

"""How a launch is cut: its number of blocks, how often a block goes around its copying loop, and which part of its lanes does useful work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.expr import Const, Expr
from ..ir.node import walk
from ..ir.stmt import Copy, For, Gemm, Kernel, Launch, PipelinedFor, Region, ScalarParam
from .counts import Counts
from .space import Array, Evaluator, Lanes

Line = tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class Cut:
    """One launch: its blocks, the average `steps` of the loop that copies tiles (1 without one), the stages of that loop, and whether it has one.

    `products` are the matrix products of a step.
    """

    blocks: int
    steps: float
    stages: int
    has_loop: bool
    products: int = 0


def cut_of(
    kernel: Kernel, launch: Launch, counts: Counts, dims: Mapping[str, int], scalars: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
) -> Cut:  # fmt: skip
    """The cut of one launch of `kernel`; `counts` are those of the whole kernel."""
    known = {**{p.var.name: p.default for p in kernel.params if isinstance(p, ScalarParam) and p.default is not None}, **dims, **(scalars or {})}
    evaluate, lane = Evaluator(arrays), Lanes.single(known)
    blocks = math.prod(_value(extent, evaluate, lane) for extent in launch.grid)
    best = Cut(blocks, 1.0, 1, False)
    for loop in (n for n in walk(launch) if isinstance(n, For | PipelinedFor)):
        for copy in (n for n in walk(loop) if isinstance(n, Copy) and not n.src.buffer.is_on_chip and n.dst.buffer.is_on_chip):
            steps = _runs(copy, counts) / max(blocks, 1)
            if steps >= best.steps or not best.has_loop:
                stages = loop.num_stages if isinstance(loop, PipelinedFor) else 1
                products = sum(isinstance(n, Gemm) for n in walk(loop))
                best = Cut(blocks, max(steps, 1.0), max(stages, best.stages if steps == best.steps else 1), True, products)
    return best


def _runs(copy: Copy, counts: Counts) -> float:
    """How often a copy into a tile runs in the whole kernel: the bytes written there over those of one run."""
    once = _size(copy.dst)
    written = sum(m.write_bytes for m in counts.asked if m.buffer == copy.dst.buffer.root.name and _line(m.span) == _line(copy.span))
    return written / once if once else 0.0


def _size(region: Region) -> float:
    extents = [int(e.value) for e in region.extents if isinstance(e, Const)]
    return float(np.prod(extents)) * region.buffer.dtype.nbytes if len(extents) == len(region.extents) else 0.0


def _value(expr: Expr, evaluate: Evaluator, lane: Lanes) -> int:
    found = evaluate.bounds(expr, lane)
    return max(0, int(np.max(found[1]))) if found is not None else 1


def _line(span: Any) -> Line:
    return (span.file, span.line) if span is not None else None


def useful_share(kernel: Kernel, counts: Counts) -> float:
    """Of the products that run, the part that is about elements inside the arguments; 1 where no edge sticks out or nothing is multiplied.

    Each copy between memory and a tile says which part of its tile lies inside. A, B and C of a product each hold two of its three extents, so the
    part that is useful is the square root of the product of the three.
    """
    if not any(isinstance(n, Gemm) for n in walk(kernel)):
        return 1.0
    product = 1.0
    for copy in (n for n in walk(kernel) if isinstance(n, Copy)):
        outside, tile = (copy.src, copy.dst) if copy.dst.buffer.is_on_chip else (copy.dst, copy.src)
        if outside.buffer.is_on_chip or not tile.buffer.is_on_chip:
            continue
        line = _line(copy.span)
        moved = sum(m.bytes for m in counts.asked if m.buffer == outside.buffer.root.name and _line(m.span) == line) / outside.buffer.dtype.bits
        whole = sum(m.bytes for m in counts.asked if m.buffer == tile.buffer.root.name and _line(m.span) == line) / tile.buffer.dtype.bits
        if whole and moved < whole:
            product *= moved / whole
    return math.sqrt(product)

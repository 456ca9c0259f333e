"""Blocks that stay: as many as there are multiprocessors, each doing one block of the author's grid after the other.

Before:  launch blocks (bx, by) in (16, 32): body
After:   launch blocks (cta) in (min(multiprocessors, 512)): for block in blocks(cta, 512): let bx = block % 16; let by = block // 16; body

The loop goes on by the number of blocks that were launched. Clusters stay whole: each does one cluster of the grid after the other.

Blocks are independent, so any order is right. What runs ahead of a block then runs ahead into the next one, whose first tiles arrive while this one
still stores its results.

Blocks that stay are dealt out beforehand, so they must do the same work. Where it grows or falls along one dim (causal attention), two blocks at
equal distances from the ends of that dim do the same together:

After:   for near in blocks(cta, 256): for turn in pair(0, 2): let bx = near % 8 if turn == 0 else 15 - near % 8; let by = near // 8; body

Pairs may still differ by a step or two. Where a multiprocessor would get the same pair of each row of blocks, pairs are counted on from row to row:
(near + by) % 8 in place of near % 8.

Requires: a launch of which one block fills a multiprocessor.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..analysis.fragments import numbers
from ..base.dtypes import INDEX
from ..base.machine import find_machine
from ..ir.bodies import heads
from ..ir.build import add, cast, floordiv, floormod, index, maximum, mul
from ..ir.device import SMS
from ..ir.expr import Binary, Const, Expr, Load, Select, Var
from ..ir.node import replace, walk
from ..ir.stmt import For, Launch, Let, PipelinedFor, Stmt
from ..layout.algebra import Array
from .cluster_blocks import extents_in_clusters, place_block, split_block
from .names import Names

KIND, PAIR = "blocks", "pair"
FEWEST = 512  # blocks that are worth dealing out
MULTIPROCESSORS = find_machine("h200").cores  # of the chip that they are dealt out for
MOST_IDLE = 0.12  # of the work, by rounds that are not full
START = 1.0  # turns of its loops that the start and the end of a block take where blocks do not stay; more idle turns a block are not worth it


def stay_on_chip(launch: Launch, names: Names) -> Launch:
    """`launch` with blocks that stay; itself if their work is not known to be the same."""
    if is_even(launch):
        return _staying(launch, names)
    dim = _uneven_dim(launch)
    count = launch.grid[dim] if dim is not None else None
    if dim is None or not isinstance(count, Const):
        return launch
    extent = int(count.value)
    near, turn, var = names.var("near"), names.var("turn"), launch.block_vars[dim]
    pairs, pair, shifted = -(-extent // 2), near, list[Stmt]()
    if MULTIPROCESSORS % pairs == 0 and not _are_alike(launch, dim, extent):
        row: Expr = index(0)
        for other in (v for d, v in enumerate(launch.block_vars) if d != dim):
            row = add(row, other)
        pair = names.var("pair")
        shifted.append(Let(pair, floormod(add(near, row), index(pairs)), span=launch.span))
    far = Binary("sub", index(extent - 1), pair)
    turns: Expr = index(2) if extent % 2 == 0 else Binary("min", index(2), Binary("sub", index(extent), mul(pair, index(2))))
    which = Let(var, Select(Binary("eq", turn, index(0)), pair, far), span=launch.span)
    body = (
        *shifted,
        For(turn, index(0), turns, (which, *launch.body), kind=PAIR, span=launch.span),
    )
    grid = (*launch.grid[:dim], index(pairs), *launch.grid[dim + 1 :])
    block_vars = (*launch.block_vars[:dim], near, *launch.block_vars[dim + 1 :])
    return _staying(replace(launch, grid=grid, block_vars=block_vars, body=body), names)


def _staying(launch: Launch, names: Names) -> Launch:
    count: Expr = index(1)
    for extent in launch.grid:
        count = mul(count, cast(extent, INDEX))
    cta, block, size = names.var("cta"), names.var("block"), launch.cluster_size
    is_followed = all(isinstance(extent, Const) for extent in launch.grid[:-1])
    lets: list[Stmt] = []
    if len(launch.grid) == 1:
        lets.append(Let(launch.block_vars[0], block))
    else:
        lets, rest, rank = split_block(block, launch, names)
        for dim, extent in enumerate(extents_in_clusters(launch)[:-1]):
            lets.append(place_block(launch, dim, _known(Binary("floormod", rest, extent), is_followed), rank))
            rest = Binary("floordiv", rest, extent)
        lets.append(place_block(launch, len(launch.grid) - 1, _known(rest, is_followed), rank))
    body = (For(block, cta, count, (*lets, *launch.body), kind=KIND, span=launch.span),)
    most: Expr = Var(SMS)
    if size > 1:
        most = Binary("max", mul(floordiv(most, index(size)), index(size)), index(size))
    return replace(launch, grid=(Binary("min", most, count),), block_vars=(cta,), body=body, cluster=(size, 1, 1))


def _known(e: Expr, is_followed: bool) -> Expr:
    """`e`, which is not negative, so that proofs know it even where they cannot follow its divisions."""
    return e if is_followed else maximum(e, index(0))


def _uneven_dim(launch: Launch) -> int | None:
    """The one dim along which work differs, by arithmetic alone, if there are blocks enough for pairs to keep all multiprocessors busy."""
    uneven = [d for d, var in enumerate(launch.block_vars) if not _is_even(launch, (var,))]
    if len(uneven) != 1 or launch.cluster_size > 1 or not all(isinstance(e, Const) for e in launch.grid):
        return None
    extents = [int(e.value) for e in launch.grid if isinstance(e, Const)]
    pairs = prod(extents) // extents[uneven[0]] * -(-extents[uneven[0]] // 2)
    rounds = -(-pairs // MULTIPROCESSORS)
    idle = rounds * MULTIPROCESSORS / pairs - 1
    if prod(extents) < FEWEST or idle > MOST_IDLE or idle * _mean_turns(launch, uneven[0], extents[uneven[0]]) > START:
        return None
    known, loaded = _told_by(launch, launch.block_vars), _told_by(launch, (), by_memory=True)
    asked = [e for n in walk(launch) if isinstance(n, Stmt) for e in heads(n) if _asks(e, known)]
    return None if any(_asks(e, loaded) or any(isinstance(n, Load) for n in walk(e)) for e in asked) else uneven[0]


def _are_alike(launch: Launch, dim: int, extent: int) -> bool:
    """Whether all pairs of blocks along `dim` make the same turns."""
    turns = _turns(launch, dim, extent)
    return bool(np.ptp(turns + turns[::-1]) == 0)


def _mean_turns(launch: Launch, dim: int, extent: int) -> float:
    """How many turns the loops that differ along `dim` make in a block, on the average; 1 if that is not known."""
    return max(1.0, float(np.mean(_turns(launch, dim, extent))))


def _turns(launch: Launch, dim: int, extent: int) -> Array:
    """Turns of the loops that differ along `dim` for each block along it, as far as they are known."""
    known: dict[str, Array] = {launch.block_vars[dim].name: np.arange(extent)}
    turns: Array = np.zeros(extent, np.int64)
    for node in walk(launch):
        if isinstance(node, Let) and (value := numbers(node.value, known)) is not None:
            known[node.var.name] = value
        elif isinstance(node, (For, PipelinedFor)) and any(_asks(e, set(known)) for e in (node.start, node.stop)):
            start, stop = numbers(node.start, known), numbers(node.stop, known)
            if start is not None and stop is not None:
                turns = turns + (stop - start)
    return turns


def is_even(launch: Launch) -> bool:
    """Whether all blocks do the same work, as far as loops and conditions show."""
    return _is_even(launch, launch.block_vars)


def _is_even(launch: Launch, block_vars: tuple[Var, ...]) -> bool:
    known = _told_by(launch, block_vars)
    return not any(_asks(e, known) for n in walk(launch) if isinstance(n, Stmt) for e in heads(n))


def _told_by(launch: Launch, block_vars: tuple[Var, ...], by_memory: bool = False) -> set[str]:
    """Names of the variables that differ with `block_vars`, or come from memory."""
    known = {v.name for v in block_vars}
    for node in walk(launch):
        if isinstance(node, Let) and (_asks(node.value, known) or by_memory and any(isinstance(n, Load) for n in walk(node.value))):
            known.add(node.var.name)
    return known


def _asks(e: Expr, names: set[str]) -> bool:
    return any(isinstance(n, Var) and n.name in names for n in walk(e))

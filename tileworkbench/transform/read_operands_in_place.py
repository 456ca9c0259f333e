"""A tile that only holds a copy of global memory for products: they read the global memory, and the tile is not made.

Before:  copy A_shared <- A[by * 64 :+ 64, ko * 32 :+ 32]; gemm C += A_shared @ B_shared
After:   gemm C += A[by * 64 :+ 64, ko * 32 :+ 32] @ B[ko * 32 :+ 32, bx * 64 :+ 64]

Where a region may stick out of its buffer, both ways stand there and the block chooses: `if inside: gemm on A else: copy; gemm on A_shared`. A tile
qualifies if one copy writes all of it, from memory of its own dtype whose rows are contiguous and which the launch never writes, and if nothing but
products after that copy, in the same body, read it. No statement from the copy to the last product writes any global memory, so that arguments which
overlap give the same result. The micro-kernel packs b itself, row by row, and broadcasts from a wherever it lies.

Requires: tile operations, no thread-level statements.  Preserves: everything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ..analysis.access import static_strides
from ..analysis.bounds import Bounds
from ..analysis.linear import has_load
from ..analysis.uses import uses, written_roots
from ..base.dtypes import INDEX
from ..ir.build import TRUE, add, cast, every, index
from ..ir.expr import Binary, Buffer, Const, Expr, is_const
from ..ir.node import replace, walk
from ..ir.stmt import Body, Copy, Gemm, If, Kernel, Launch, Region, Stmt, is_whole
from .scoped import Result, Scoped


def read_operands_in_place(kernel: Kernel) -> Kernel:
    """Return `kernel` without tiles that products do not need."""
    return _InPlace().kernel(kernel)


@dataclass(frozen=True, slots=True)
class _Held:
    """What a tile holds from its copy to the last product that reads it, and the test that it lies inside its buffer."""

    source: Region
    inside: Expr


class _InPlace(Scoped):
    def __init__(self) -> None:
        super().__init__()
        self.written: set[Buffer] = set()
        self.mentions: Counter[Buffer] = Counter()
        self.refused: dict[int, Expr] = {}  # by branch: what does not hold there

    def stmt(self, stmt: Stmt) -> Result:
        if isinstance(stmt, If):
            self.refused[id(stmt.other)] = stmt.cond
        if not isinstance(stmt, Launch):
            return super().stmt(stmt)
        self.written = written_roots(stmt.body)
        self.mentions = Counter(n.root for s in stmt.body for n in walk(s) if isinstance(n, Buffer))
        self.mentions.update(b.root for b in stmt.allocs if b.view_of is not None)
        new = super().stmt(stmt)
        assert isinstance(new, Launch)
        if new is stmt:
            return stmt
        gone = uses(stmt.body).buffers - uses(new.body).buffers
        return replace(new, allocs=tuple(b for b in stmt.allocs if b not in gone))

    def body(self, body: Body) -> Body:
        refused = self.refused.get(id(body))
        body = super().body(body)
        held = {
            s.dst.buffer: _Held(s.src, test_inside(s.src, self.bounds))
            for place, s in enumerate(body)
            if isinstance(s, Copy) and self.is_held(s, body[place + 1 :])
        }
        if not held:
            return body
        tests = _shared_tests(body, held)
        if refused is not None and refused in tests.values():
            return body  # this is the way for the rim
        out: list[Stmt] = []
        for stmt in body:
            match stmt:
                case Copy(dst=Region(tile)) if tile in held:
                    if held[tile].inside != TRUE:
                        _append(out, If(tests[tile], (), (stmt,), span=stmt.span))
                case Gemm(a, b) if a.buffer in held or b.buffer in held:
                    sure = {tile: h for tile, h in held.items() if h.inside == TRUE}
                    test = next((tests[r.buffer] for r in (a, b) if r.buffer in held and r.buffer not in sure), TRUE)
                    direct, rim = (replace(stmt, a=_through(a, known), b=_through(b, known)) for known in (held, sure))
                    _append(out, direct if test == TRUE else If(test, (direct,), (rim,), span=stmt.span))
                case _:
                    out.append(stmt)
        return tuple(out)

    def is_held(self, copy: Copy, rest: Body) -> bool:
        """Whether products in `rest` are the only readers of the tile that `copy` fills, and nothing changes what it holds before the last one."""
        src, tile = copy.src, copy.dst.buffer
        steps = static_strides(src.buffer)
        if not tile.is_on_chip or tile.view_of is not None or src.buffer.is_on_chip or src.buffer.root in self.written:
            return False
        if src.buffer.type != tile.type or tile.type.bits < 8 or steps is None or len(steps) < 2 or steps[-1] != 1:
            return False
        if not (is_matrix(copy.dst) and is_matrix(src) and src.extents[-2:] == tile.shape[-2:] and is_whole(copy.dst)):
            return False
        if any(has_load(start) for start in src.starts):
            return False
        readers = [(place, (s.a.buffer, s.b.buffer).count(tile)) for place, s in enumerate(rest) if isinstance(s, Gemm)]
        last = max((place for place, count in readers if count), default=-1)
        if self.mentions[tile] != 1 + sum(count for _, count in readers):
            return False
        return last >= 0 and all(b.is_on_chip for b in written_roots(rest[: last + 1]))


def _append(out: list[Stmt], stmt: Stmt) -> None:
    """Add `stmt`; to the branch before it if that asks the same."""
    before = out[-1] if out else None
    if isinstance(stmt, If) and isinstance(before, If) and before.cond is stmt.cond:
        out[-1] = replace(before, then=(*before.then, *stmt.then), other=(*before.other, *stmt.other))
    else:
        out.append(stmt)


def _shared_tests(body: Body, held: Mapping[Buffer, _Held]) -> dict[Buffer, Expr]:
    """The test of each tile: its own and those of all tiles that meet it in a product, so that a copy and every product decide alike."""
    groups = {tile: [tile] for tile in held}
    for stmt in body:
        if isinstance(stmt, Gemm) and stmt.a.buffer in held and stmt.b.buffer in held:
            joined = list(dict.fromkeys(groups[stmt.a.buffer] + groups[stmt.b.buffer]))
            groups.update(dict.fromkeys(joined, joined))
    tests = {tuple(group): every(dict.fromkeys(part for t in group for part in _parts(held[t].inside))) for group in groups.values()}
    return {tile: tests[tuple(group)] for tile, group in groups.items()}


def _parts(test: Expr) -> list[Expr]:
    """What `test` joins by "and"."""
    return [*_parts(test.a), *_parts(test.b)] if isinstance(test, Binary) and test.op == "and" else [test]


def _through(region: Region, held: Mapping[Buffer, _Held]) -> Region:
    """`region` of a tile as the region of global memory that it was copied from."""
    found = held.get(region.buffer)
    if found is None:
        return region
    source, lead = found.source, found.source.buffer.rank - 2
    starts = tuple(add(cast(s, INDEX), cast(x, INDEX)) for s, x in zip(source.starts[lead:], region.starts[-2:], strict=True))
    return Region(source.buffer, (*source.starts[:lead], *starts), (*source.extents[:lead], *region.extents[-2:]), span=region.span)


def is_matrix(region: Region) -> bool:
    """Constant extents, all 1 but the last two."""
    return len(region.extents) > 1 and all(isinstance(e, Const) for e in region.extents) and all(is_const(e, 1) for e in region.extents[:-2])


def test_inside(region: Region, bounds: Bounds) -> Expr:
    """The test that all of `region` is in its buffer, without what is certain."""
    tests: list[Expr] = []
    for start, extent, dim in zip(region.starts, region.extents, region.buffer.shape, strict=True):
        first, size = cast(start, INDEX), bounds.sum(extent)
        if not bounds.at_least_zero(bounds.sum(first)):
            tests.append(Binary("ge", first, index(0)))
        if not bounds.at_least_zero(bounds.sum(dim) - bounds.sum(first) - size):
            tests.append(Binary("le", add(first, extent), cast(dim, INDEX)))
    return every(tests)

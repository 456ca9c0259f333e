"""Tile operations become loops and micro-kernel calls; every loop becomes a plain `Loop`.

Before:  copy A_shared <- A[by * 64 :+ 64, ko * 32 :+ 32]; gemm C_local += A_shared @ B_shared; pipelined loops
After:   loops of element runs with clipped ends, `GemmCall`, row reductions, `Loop`

An operand that a micro-kernel or a reduction cannot use in place (a region that may stick out, symbolic strides, written global memory, unless it
is a product's and apart from its factors) is first copied to a tile of its own, and copied back if it is written. So is a copy between overlapping
regions of one buffer.

Requires: flattened accesses (`flatten_accesses`), no thread-level statements.
Preserves: parallel loops, scalar statements and control flow.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.access import static_strides
from ..base.dtypes import INDEX, DType
from ..base.errors import UnsupportedError
from ..ir.build import cast, index
from ..ir.expr import Buffer, Const
from ..ir.lowered import Address, Apart, GemmCall, Loop
from ..ir.node import replace
from ..ir.stmt import Body, Copy, Fill, For, Gemm, Kernel, Launch, PipelinedFor, Print, Reduce, Region, Scan, Stmt, Sync, whole
from .copy_loops import base_offset, copy_loops, fill_loops
from .names import Names, with_fixed_end
from .print_lines import print_lines
from .reduce_loops import reduce_loops, scan_loops
from .scoped import Result, Scoped


def expand_tiles(kernel: Kernel) -> Kernel:
    """Return `kernel` without tile operations."""
    return _Expand(Names(kernel)).kernel(kernel)


class _Expand(Scoped):
    def __init__(self, names: Names) -> None:
        super().__init__()
        self.names = names
        self.tiles: list[Buffer] = []

    def on_stmt(self, stmt: Stmt) -> Result:
        match stmt:
            case Copy():
                return _spanned(self.copy(stmt), stmt)
            case Fill():
                return _spanned(fill_loops(stmt, self.bounds, self.names), stmt)
            case Gemm():
                return _spanned(self.gemm(stmt), stmt)
            case Reduce(src=src, dst=dst):
                before, (source, target), after = self.stage((src, "r"), (dst, "rw"), from_global=True)
                loops, tiles = reduce_loops(replace(stmt, src=source, dst=target), self.names)
                self.tiles += tiles
                return _spanned((*before, *loops, *after), stmt)
            case Scan(src=src, dst=dst):
                before, (source, target), after = self.stage((src, "r"), (dst, "w"), in_place=True)
                return _spanned((*before, *scan_loops(replace(stmt, src=source, dst=target), self.names), *after), stmt)
            case For(var, start, stop, body, step):
                return with_fixed_end(Loop(var, start, stop, body, step, span=stmt.span), self.names)
            case PipelinedFor(var, start, stop, body):
                return with_fixed_end(Loop(var, start, stop, body, span=stmt.span), self.names)
            case Sync():
                return None  # the block is one program
            case Print():
                return _spanned(print_lines(stmt, self.names), stmt)
            case Launch(allocs=allocs):
                tiles, self.tiles = tuple(self.tiles), []
                return replace(stmt, allocs=(*allocs, *tiles)) if tiles else stmt
            case _:
                return stmt

    def copy(self, stmt: Copy) -> Body:
        src, dst = stmt.src, stmt.dst
        if self.share(src, dst):
            tile = self.new_tile(src, f"{src.buffer.name}_moved")
            first = copy_loops(Copy(src, whole(tile), span=stmt.span), self.bounds, self.names)
            return (*first, *copy_loops(Copy(whole(tile), dst, span=stmt.span), self.bounds, self.names))
        return copy_loops(stmt, self.bounds, self.names)

    def gemm(self, stmt: Gemm) -> Body:
        before, (a, b, c), after = self.stage((stmt.a, "r"), (stmt.b, "r"), (stmt.c, "rw"), factors=True)
        rows, columns = c.static_extents()[-2:]
        depth = a.static_extents()[-2 if stmt.trans_a else -1]
        call = GemmCall(
            rows, columns, depth, _address(a), _address(b), _address(c), _row_stride(a), _row_stride(b), _row_stride(c),
            stmt.trans_a, stmt.trans_b, stmt.clear,
        )  # fmt: skip
        return (*before, call, *after)

    def stage(
        self, *operands: tuple[Region, str], in_place: bool = False, factors: bool = False, from_global: bool = False
    ) -> tuple[Body, tuple[Region, ...], Body]:  # fmt: skip
        """Copies that bring operands into plain tiles, the regions to use, and copies that take results back.

        A written operand that overlaps another gets a tile, unless they are one region and the operation works `in_place`. `from_global`: what is
        only read may stay in global memory. `factors`: of a product, which reads global memory in place too, sums there if nothing else can see
        it, and takes 4-bit operands from tiles of bytes.
        """
        before: list[Stmt] = []
        after: list[Stmt] = []
        regions: list[Region] = []
        for place, (region, mode) in enumerate(operands):
            others = [r for n, (r, _) in enumerate(operands) if n != place and not (in_place and r == region)]
            anywhere = (factors or from_global) and mode == "r" or factors and self.is_apart(region, operands)
            if self.is_plain(region, anywhere) and not ("w" in mode and any(self.share(region, r) for r in others)):
                regions.append(region)
                continue
            tile = self.new_tile(region, f"{region.buffer.name}_tile", unpacked=factors)
            regions.append(whole(tile))
            if "r" in mode:
                before += copy_loops(Copy(region, whole(tile)), self.bounds, self.names)
            if "w" in mode:
                after += copy_loops(Copy(whole(tile), region), self.bounds, self.names)
        return tuple(before), tuple(regions), tuple(after)

    def is_plain(self, region: Region, anywhere: bool) -> bool:
        """On chip (or `anywhere`), inside, of known strides and contiguous rows of whole bytes."""
        buffer = region.buffer
        steps = static_strides(buffer)
        if not (anywhere or buffer.is_on_chip) or steps is None or steps[-1] != 1 or buffer.type.bits < 8:
            return False
        return self.bounds.holds(region)

    def is_apart(self, region: Region, operands: Sequence[tuple[Region, str]]) -> bool:
        """Whether no other operand can be the array of `region`: it is on chip, or the block has asked."""
        others = {r.buffer.root for r, _ in operands if not r.buffer.is_on_chip} - {region.buffer.root}
        return all(Apart(b, region.buffer.root) in self.bounds.apart for b in others)

    def share(self, a: Region, b: Region) -> bool:
        """Whether two regions may have an element in common."""
        if a.buffer.root != b.buffer.root:
            return False
        if a.buffer != b.buffer:
            return True
        ends = [(self.bounds.sum(cast(r.starts[d], INDEX)), self.bounds.sum(cast(r.extents[d], INDEX))) for r in (a, b) for d in range(a.buffer.rank)]
        pairs = zip(ends[: a.buffer.rank], ends[a.buffer.rank :], strict=True)
        return not any(self.bounds.at_least_zero(t - s - m) or self.bounds.at_least_zero(s - t - n) for (s, m), (t, n) in pairs)

    def new_tile(self, region: Region, hint: str, unpacked: bool = False) -> Buffer:
        if not all(isinstance(e, Const) for e in region.extents):
            raise UnsupportedError(
                f"a region of {region.buffer.name} whose extent is not constant cannot be an operand here", span=region.span,
                hint="copy the region to a tile of constant shape first",
            )  # fmt: skip
        dtype = region.buffer.type
        if unpacked and dtype.bits < 8:
            dtype = DType("int8" if dtype.kind == "i" else "uint8")
        tile = self.names.tile(hint, tuple(index(int(e.value)) for e in region.extents if isinstance(e, Const)), dtype)
        self.tiles.append(tile)
        return tile


def _address(region: Region) -> Address:
    return Address(region.buffer, base_offset(region))


def _row_stride(region: Region) -> int:
    steps = static_strides(region.buffer)
    return steps[-2] if steps is not None and len(steps) > 1 else int(region.static_extents()[-1])


def _spanned(body: Body, stmt: Stmt) -> Body:
    """Statements made from `stmt` carry its span."""
    return tuple(s if s.span is not None else replace(s, span=stmt.span) for s in body)

"""Loops for `Copy` and `Fill`: whole runs of elements, clipped at the edges of a buffer before the loop and not inside it.

A copy walks the dims whose extent is not 1. The innermost dim that is contiguous on both sides becomes a run (`CopyElements`, or a vector loop
that converts); dims that lie behind one another on both sides merge into longer runs. Where the source region may stick out, the run is cut to
its valid part and the rest is filled with the safe value; where the destination may stick out, the loop ends early.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..analysis.access import flat_offset, strides
from ..analysis.bounds import Bounds
from ..base.dtypes import INDEX, INT32
from ..ir.build import ZERO, add, cast, choose, every, index, maximum, minimum, mul, sub, total
from ..ir.expr import Binary, Const, Expr, Select, Var
from ..ir.lowered import CopyElements, Element, Loop, SetElement
from ..ir.stmt import Body, Copy, Fill, If, Let, Region, Stmt
from .flatten_accesses import safe_value
from .names import Names

_HINTS = ("i", "j", "k", "l", "m", "n", "o", "p")


@dataclass(slots=True)
class Dim:
    """One loop of a copy: the dims that it walks, its extent, and each side's element step and valid range [low, high).

    None stands for an end that needs no test.
    """

    dst_dim: int
    src_dim: int
    extent: Expr
    dst_step: Expr
    src_step: Expr
    dst_low: Expr | None = None
    dst_high: Expr | None = None
    src_low: Expr | None = None
    src_high: Expr | None = None

    @property
    def is_free(self) -> bool:
        return self.dst_low is None and self.dst_high is None and self.src_low is None and self.src_high is None

    @property
    def has_src_test(self) -> bool:
        return self.src_low is not None or self.src_high is not None


def copy_loops(copy: Copy, bounds: Bounds, names: Names) -> Body:
    """Statements that do what `copy` does; the two regions do not overlap."""
    src, dst = copy.src, copy.dst
    src_dims, dst_dims = _moving(src), _moving(dst)
    if len(src_dims) != len(dst_dims):
        keep = min(len(src_dims), len(dst_dims))  # a dim of symbolic extent against one of extent 1
        src_dims, dst_dims = src_dims[len(src_dims) - keep :], dst_dims[len(dst_dims) - keep :]
    dims = [_pair(src, s, dst, d, bounds) for s, d in zip(src_dims, dst_dims, strict=True)]
    out: list[Stmt] = []
    dst_ok, src_ok = _fixed_tests(dst, dst_dims, bounds), _fixed_tests(src, src_dims, bounds)
    dims = _merge(_order(dims))
    for dim in dims:
        _bind_limits(dim, names, out)
    out += _Walk(dst, src, dims, names).nest((), src_ok)
    body = tuple(out)
    return body if isinstance(dst_ok, Const) and dst_ok.value else (If(dst_ok, body, span=copy.span),)


def fill_loops(fill: Fill, bounds: Bounds, names: Names) -> Body:
    """Statements that do what `fill` does."""
    region, value = fill.dst, fill.value
    moving = _moving(region)
    steps = strides(region.buffer)
    out: list[Stmt] = []
    if not isinstance(value, (Const, Var)):
        var = names.var("value", value.dtype)
        out.append(Let(var, value, span=fill.span))
        value = var
    dims = []
    for d in moving:
        low, high = _limits(region, d, bounds)
        dims.append(Dim(d, d, _not_negative(region.extents[d], bounds), steps[d], steps[d], low, high))
    dims = _merge(_order(dims))
    for dim in dims:
        _bind_limits(dim, names, out)
    loops = [(d.dst_low or ZERO, d.dst_high or d.extent, _static(d.extent)) for d in dims]
    out += nest(loops, lambda at: SetElement(region.buffer, region_offset(region, [d.dst_dim for d in dims], at), value), names)
    ok = _fixed_tests(region, moving, bounds)
    return tuple(out) if isinstance(ok, Const) and ok.value else (If(ok, tuple(out), span=fill.span),)


def nest(loops: Sequence[tuple[Expr, Expr, int | None]], leaf: Callable[[tuple[Expr, ...]], SetElement], names: Names) -> Body:
    """A loop nest over (low, high, static extent), the last a vector loop; `leaf` gets the loops' values."""

    def level(depth: int, at: tuple[Expr, ...]) -> Body:
        if depth == len(loops):
            return (leaf(at),)
        low, high, static = loops[depth]
        simd = depth == len(loops) - 1
        var = loop_var(names, _HINTS[depth], static if simd else None)
        body = level(depth + 1, (*at, cast(var, INDEX)))
        packed = isinstance(body[0], SetElement) and body[0].buffer.type.bits < 8
        return (Loop(var, _end(low, var), _end(high, var), body, simd=simd and var.type == INT32 and not packed),)

    return level(0, ())


def loop_var(names: Names, hint: str, static: int | None) -> Var:
    """A loop variable: an int32 for a vector loop of known extent."""
    return names.var(hint, INT32 if static is not None and static < 1 << 30 else INDEX)


def base_offset(region: Region) -> Expr:
    """The offset of a region's first element."""
    return total(mul(cast(s, INDEX), step) for s, step in zip(region.starts, strides(region.buffer), strict=True))


def region_offset(region: Region, dims: Sequence[int], at: Sequence[Expr]) -> Expr:
    """The flat offset of the element that is `at` steps into `dims` of the region."""
    steps = dict(zip(dims, at, strict=True))
    return flat_offset(region.buffer, [add(cast(s, INDEX), steps[d]) if d in steps else s for d, s in enumerate(region.starts)])


@dataclass(slots=True)
class _Walk:
    """The nest of one copy."""

    dst: Region
    src: Region
    dims: list[Dim]
    names: Names

    def nest(self, at: tuple[Expr, ...], valid: Expr) -> list[Stmt]:
        """Loops from depth len(at) inwards; `valid` is the condition under which the source row is inside."""
        if not self.dims:
            value = choose(valid, Element(self.src.buffer, self.src_offset(at)), safe_value(self.src.buffer))
            return [SetElement(self.dst.buffer, self.dst_offset(at), cast(value, self.dst.buffer.type))]
        dim = self.dims[len(at)]
        if len(at) == len(self.dims) - 1:
            return self.run(dim, at, valid)
        var = self.names.var(_HINTS[len(at)])
        tests = [] if dim.src_low is None else [Binary("ge", var, dim.src_low)]
        tests += [] if dim.src_high is None else [Binary("lt", var, dim.src_high)]
        body = self.nest((*at, var), every([valid, *tests]))
        return [Loop(var, dim.dst_low or ZERO, dim.dst_high or dim.extent, tuple(body))]

    def run(self, dim: Dim, at: tuple[Expr, ...], valid: Expr) -> list[Stmt]:
        """The innermost dim: the valid part is copied, what lies before and behind it is filled."""
        low, high = dim.dst_low or ZERO, dim.dst_high or dim.extent
        first = dim.src_low if dim.src_low is not None else low
        last = dim.src_high if dim.src_high is not None else high
        out: list[Stmt] = []
        tested = dim.has_src_test or not isinstance(valid, Const)
        if not isinstance(valid, Const):
            stop = self.names.var("valid")
            out.append(Let(stop, Select(valid, last, first)))
            last = stop
        elif not valid.value:
            last = first
        if dim.src_low is not None:
            out += self.fill(dim, low, first, at)
        out += self.move(dim, first, last, at)
        if tested:
            out += self.fill(dim, last, high, at)
        return out

    def move(self, dim: Dim, first: Expr, last: Expr, at: tuple[Expr, ...]) -> list[Stmt]:
        src, dst = self.src.buffer, self.dst.buffer
        together = dim.dst_step == dim.src_step == index(1)
        if together and dst.type == src.type and dst.type.bits >= 8:
            return [CopyElements(dst, self.dst_offset((*at, first)), src, self.src_offset((*at, first)), sub(last, first))]
        var = loop_var(self.names, _HINTS[len(self.dims) - 1], _static(dim.extent))
        here = (*at, cast(var, INDEX))
        store = SetElement(dst, self.dst_offset(here), cast(Element(src, self.src_offset(here), True), dst.type))
        return [Loop(var, _end(first, var), _end(last, var), (store,), simd=var.type == INT32 and dst.type.bits >= 8)]

    def fill(self, dim: Dim, first: Expr, last: Expr, at: tuple[Expr, ...]) -> list[Stmt]:
        if first == last:
            return []
        dst = self.dst.buffer
        var = loop_var(self.names, _HINTS[len(self.dims) - 1], _static(dim.extent))
        store = SetElement(dst, self.dst_offset((*at, cast(var, INDEX))), cast(safe_value(self.src.buffer), dst.type))
        return [Loop(var, _end(first, var), _end(last, var), (store,), simd=var.type == INT32 and dst.type.bits >= 8)]

    def dst_offset(self, at: Sequence[Expr]) -> Expr:
        return region_offset(self.dst, [d.dst_dim for d in self.dims], at)

    def src_offset(self, at: Sequence[Expr]) -> Expr:
        return region_offset(self.src, [d.src_dim for d in self.dims], at)


def _moving(region: Region) -> list[int]:
    return [d for d, e in enumerate(region.extents) if not (isinstance(e, Const) and int(e.value) == 1)]


def _pair(src: Region, s: int, dst: Region, d: int, bounds: Bounds) -> Dim:
    extent = dst.extents[d] if isinstance(dst.extents[d], Const) else src.extents[s]
    dim = Dim(d, s, _not_negative(extent, bounds), strides(dst.buffer)[d], strides(src.buffer)[s])
    dim.dst_low, dim.dst_high = _limits(dst, d, bounds, extent)
    dim.src_low, dim.src_high = _limits(src, s, bounds, extent)
    return dim


def _not_negative(extent: Expr, bounds: Bounds) -> Expr:
    """The extent as a loop end: a region of less than nothing has no elements."""
    extent = cast(extent, INDEX)
    return extent if bounds.at_least_zero(bounds.sum(extent)) else maximum(extent, ZERO)


def _limits(region: Region, d: int, bounds: Bounds, extent: Expr | None = None) -> tuple[Expr | None, Expr | None]:
    """The first and one-past-last loop value inside the buffer, clipped to the loop; None where the loop's own end is inside."""
    extent = cast(extent if extent is not None else region.extents[d], INDEX)
    most = _not_negative(extent, bounds)  # what is proved of `extent` holds of it wherever there is an element
    start, size = cast(region.starts[d], INDEX), region.buffer.shape[d]
    form = bounds.sum(start)
    low_ok = bounds.at_least_zero(form)
    high_ok = bounds.at_least_zero(bounds.sum(size) - form - bounds.sum(extent))
    low = None if low_ok else minimum(maximum(sub(ZERO, start), ZERO), most)
    high = None if high_ok else maximum(minimum(sub(size, start), most), low or ZERO)
    return low, high


def _fixed_tests(region: Region, moving: list[int], bounds: Bounds) -> Expr:
    """The condition that the dims without a loop are inside."""
    tests: list[Expr] = []
    for d, (start, size) in enumerate(zip(region.starts, region.buffer.shape, strict=True)):
        if d in moving:
            continue
        low, high = bounds.is_inside(start, size)
        where = cast(start, INDEX)
        tests += [] if low else [Binary("ge", where, ZERO)]
        tests += [] if high else [Binary("lt", where, size)]
    return every(tests)


def _order(dims: list[Dim]) -> list[Dim]:
    """The dim with the best stride last; otherwise the author's order."""
    one = index(1)

    def rank(dim: Dim) -> int:
        return 2 * (dim.dst_step == one) + (dim.src_step == one)

    if not dims or rank(dims[-1]) == 3:
        return dims
    best = max(range(len(dims)), key=lambda n: (rank(dims[n]), n))
    return [*dims[:best], *dims[best + 1 :], dims[best]]


def _merge(dims: list[Dim]) -> list[Dim]:
    """Dims that follow one another without a gap on both sides become one."""
    out = list(dims)
    while len(out) > 1:
        outer, inner = out[-2], out[-1]
        dense = mul(inner.extent, inner.dst_step) == outer.dst_step and mul(inner.extent, inner.src_step) == outer.src_step
        if not (dense and inner.is_free and outer.is_free and isinstance(inner.extent, Const)):
            break
        out[-2:] = [Dim(inner.dst_dim, inner.src_dim, mul(outer.extent, inner.extent), inner.dst_step, inner.src_step)]
    return out


def _bind_limits(dim: Dim, names: Names, out: list[Stmt]) -> None:
    """Give every computed limit a name, once; a source limit stays within the destination's."""
    low = dim.dst_low = _bind(dim.dst_low, "first", names, out)
    high = dim.dst_high = _bind(dim.dst_high, "last", names, out)
    if (low is not None or high is not None) and dim.has_src_test:
        floor, ceiling = low or ZERO, high or dim.extent
        dim.src_low = minimum(maximum(dim.src_low or ZERO, floor), ceiling)
        dim.src_high = minimum(maximum(dim.src_high or dim.extent, dim.src_low), ceiling)
    dim.src_low = _bind(dim.src_low, "begin", names, out)
    dim.src_high = _bind(dim.src_high, "end", names, out)


def _bind(value: Expr | None, hint: str, names: Names, out: list[Stmt]) -> Expr | None:
    if value is None or isinstance(value, (Const, Var)):
        return value
    var = names.var(hint)
    out.append(Let(var, value))
    return var


def _static(extent: Expr) -> int | None:
    return int(extent.value) if isinstance(extent, Const) else None


def _end(value: Expr, var: Var) -> Expr:
    """A loop end in the type of the loop variable."""
    return cast(value, var.type)

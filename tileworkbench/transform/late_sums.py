"""A sum of rows that a loop keeps up stays in parts, each with the thread that has it, until the loop ends.

Before:  clear total; for k: reduce sum s -> here; for i in parallel: total[i] = total[i] * f[i] + here[i]
After:   clear total; for k: reduce sum (own) s -> here; for i in parallel: total[i] = total[i] * f[i] + here[i]
         reduce sum (join) total, whose parts lie as the rows of s

Threads that hold a row together keep a part of its sum each, which is scaled like the whole. So the exchanges of a turn become one behind the loop.
Only an infinite factor would show: a part that is 0 becomes NaN. So factors are exponentials, as of the online softmax, which are finite as a rule.

Requires: tile operations and forms of tiles, before loops are divided.
Preserves: sums that anything else reads meanwhile, that do not begin with 0, with other factors, or whose threads are not of one warp.
"""

from __future__ import annotations

from ..analysis.fragments import Placement, place_fragments
from ..analysis.uses import uses
from ..ir.bodies import statements
from ..ir.expr import Binary, Buffer, Cast, Expr, Load, Unary, is_const
from ..ir.launches import rewrite_launches
from ..ir.node import replace, walk
from ..ir.stmt import Body, Fill, For, Gemm, If, Kernel, Launch, ParallelFor, PipelinedFor, Reduce, Stmt, Store, is_whole, whole
from .spread_tiles import is_shuffled


def late_sums(kernel: Kernel, arch: int) -> Kernel:
    """Return `kernel` with sums that are joined behind their loops."""

    def change(node: Launch) -> Launch:
        return _Launch(node, arch).launch() if not node.threads_used and _has_products(node) else node

    return rewrite_launches(kernel, change)


def _has_products(launch: Launch) -> bool:
    """Whether a matrix unit spreads rows over threads."""
    return any(isinstance(n, Gemm) for n in statements(launch)) and any(isinstance(n, Reduce) for n in statements(launch))


class _Launch:
    def __init__(self, launch: Launch, arch: int) -> None:
        self.old, self.arch = launch, arch
        self.place: Placement | None = None

    def launch(self) -> Launch:
        body = self.body(self.old.body)
        return self.old if body is self.old.body else replace(self.old, body=body)

    def body(self, body: Body) -> Body:
        """`body` with its loops changed; itself if none was."""
        out: list[Stmt] = []
        for at, stmt in enumerate(body):
            match stmt:
                case For() | PipelinedFor():
                    out += self.loop(stmt, body[:at])
                case If(_, then, other):
                    sides = self.body(then), self.body(other)
                    out.append(stmt if sides[0] is then and sides[1] is other else replace(stmt, then=sides[0], other=sides[1]))
                case _:
                    out.append(stmt)
        return body if len(out) == len(body) and all(a is b for a, b in zip(out, body, strict=True)) else tuple(out)

    def loop(self, loop: For | PipelinedFor, before: Body) -> Body:
        found = next((p for p in _sums(loop) if self.may_wait(*p, loop, before)), None)
        if found is None:
            inside = self.body(loop.body)
            return (loop if inside is loop.body else replace(loop, body=inside),)
        reduce, total = found
        made = tuple(replace(reduce, share="own") if s is reduce else s for s in loop.body)
        return (replace(loop, body=made), Reduce("sum", reduce.src, whole(total), reduce.dim, clear=False, share="join", span=reduce.span))

    def may_wait(self, reduce: Reduce, total: Buffer, loop: For | PipelinedFor, before: Body) -> bool:
        """Whether nobody sees the difference, and the threads can join the parts."""
        here = reduce.dst.buffer
        start = next((s for s in reversed(before) if total in uses(s).buffers), None)
        if not (isinstance(start, Fill) and is_whole(start.dst) and is_const(start.value, 0)):
            return False
        if sum(here in uses(s).buffers for s in loop.body) != 2 or sum(total in uses(s).buffers for s in loop.body) != 1:
            return False
        if sum(n.buffer == here for n in walk(self.old) if isinstance(n, (Load, Store))) != 1:  # the sum of the last turn is nobody's
            return False
        if self.place is None:
            self.place = place_fragments(self.old, self.arch)
        held = self.place.fragments
        rows = held[reduce.src.buffer].drop(reduce.dim) if reduce.src.buffer in held else None
        return rows is not None and held.get(here) == rows and held.get(total) == rows and is_shuffled(held[reduce.src.buffer], reduce.dim)


def _sums(loop: For | PipelinedFor) -> list[tuple[Reduce, Buffer]]:
    """Sums of a loop, each with the total that takes it up."""
    out: list[tuple[Reduce, Buffer]] = []
    for stmt in loop.body:
        match stmt:
            case Reduce("sum", src, dst, _, True) if is_whole(src) and is_whole(dst) and dst.buffer.rank == src.buffer.rank - 1 == 1:
                totals = [t for s in loop.body if isinstance(s, ParallelFor) and (t := _total(s, dst.buffer, loop.body)) is not None]
                out += [(stmt, t) for t in totals if t.type == dst.buffer.type and t.shape == dst.buffer.shape and t.type.bits == 32]
            case _:
                pass
    return out


def _total(loop: ParallelFor, here: Buffer, around: Body) -> Buffer | None:
    """What takes up `here`, if that is all that `loop` does: total[i] = total[i] * factor + here[i], or without a factor."""
    if len(loop.body) != 1 or len(loop.vars) != 1:
        return None
    match loop.body[0]:
        case Store(total, at, Binary("add", Load(again, there) | Binary("mul", Load(again, there), _) as left, Load(part, where))) if part == here:
            factor = left.b if isinstance(left, Binary) else None
            known = factor is None or not {total, here} & uses(factor).buffers and _is_exponential(factor, around)
            same = again == total and at == there == where and tuple(_plain(i) for i in at) == loop.vars
            return total if same and known and total != here else None
        case _:
            return None


def _is_exponential(factor: Expr, around: Body) -> bool:
    """Whether a factor is an exponential, or a cell of a fragment that gets nothing else in the loop."""
    match factor:
        case Unary("exp" | "exp2"):
            return True
        case Load(buffer) if buffer.scope == "fragment":
            stores = [n for s in around for n in statements(s) if isinstance(n, Store) and n.buffer == buffer]
            writers = [s for s in around if buffer in uses(s).written]
            return bool(stores) and all(isinstance(s, ParallelFor) for s in writers) and all(_is_exponential(n.value, ()) for n in stores)
        case _:
            return False


def _plain(e: Expr) -> Expr:
    return _plain(e.x) if isinstance(e, Cast) else e

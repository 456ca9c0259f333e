"""Statements that the author asked for on sm_90, for a thread of a party: tensor copies, arrivals, products that are only started.

Before:  ready of 128 arrivals;  tile <- A[..] (barrier ready);  arrive ready;  acc += a @ b (async, by wgmma);  wait products <= 0
After:   if first thread: expect ready, bytes; load box, box;  arrive ready;  wgmma ...; commit;  wait 0; keep acc

What the party's threads have written and the engine, or warp groups, may read is fenced before they arrive anywhere; a barrier between a copy to
global memory and what overwrites its tile also waits for the copy. Beyond that, the author orders what he started.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..analysis.tensor_moves import Boxes, boxes_of
from ..base.dtypes import INDEX, INT32
from ..base.errors import UnsupportedError
from ..base.span import Span
from ..ir.build import add, cast, index
from ..ir.device import DeviceCall, MapOf, WaitProducts
from ..ir.explicit import ASYNC_ARRIVAL, CLOSE_STORES, Asked, StartBarriers, TensorMove, WaitStarted
from ..ir.expr import AddressOf, Binary, Buffer, Const, Expr
from ..ir.node import Node, replace, walk
from ..ir.stmt import Body, Copy, Gemm, If, Region, Stmt, whole
from ..ir.tile_form import TensorView
from .spread_threads import Spread

_ARRIVALS = frozenset({"twb_mbarrier_arrive", "twb_mbarrier_arrive_expect", "twb_bar_arrive", "twb_bar_sync"})


class SpreadExplicit(Spread):
    """One party on its way. `views`, `bars` (its barriers) and `written` (global memory) are the launch's."""

    views: list[TensorView]
    bars: set[Buffer]
    written: set[Buffer]
    aligned: bool
    closes = False  # the author closes groups of stores
    is_storing = False  # a copy to global memory may still read a tile

    def prepare(self, body: Body) -> None:
        """Look over what the party does."""
        nodes = [n for s in body for n in walk(s)]
        self.factors |= {r.buffer.root for n in nodes if isinstance(n, TensorMove) for r in (n.src, n.dst) if r.buffer.scope == "shared"}
        self.sums = [n.c.buffer for n in nodes if isinstance(n, Gemm) and n.unit]
        self.closes = any(isinstance(n, Asked) and n.name == CLOSE_STORES for n in nodes)
        self.copied: set[Buffer] = set()  # tiles on their way by cp.async
        self.flying: list[Gemm] = []  # products under way, oldest first, as far as the text tells

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for stmt in body:
            match stmt:
                case StartBarriers():
                    pass  # the block starts them
                case Asked():
                    out += self.asked(stmt)
                case TensorMove():
                    out += self.move(stmt)
                case WaitStarted():
                    out += self.wait(stmt)
                case _:
                    out += super().body((stmt,))
        return tuple(out)

    def shared(self, nodes: Iterable[Node]) -> tuple[set[Buffer], set[Buffer]]:
        reads, writes = super().shared(list(nodes))
        return reads - self.bars, writes - self.bars

    def meet(self, span: Span | None) -> Body:
        close = (DeviceCall(CLOSE_STORES, span=span),) if self.closes else ()  # one that is empty only makes the wait stronger
        waits = (*close, DeviceCall("twb_bulk_wait_read", constants=(0,), span=span)) if self.is_storing else ()
        self.is_storing = False
        made = super().meet(span)
        self.read |= self.under_way()
        return (*waits, *made)

    def under_way(self) -> set[Buffer]:
        """What products that are under way still read, whoever has met meanwhile."""
        return self.shared([r for stmt in self.flying for r in (stmt.a, stmt.b)])[0]

    def around(self, body: Body, again: list[Expr], are_blocks: bool = False) -> Body:
        """As for any loop; products that run into the next turn are seen by its start."""
        at = list(self.flying), set(self.read), set(self.wrote), self.is_storing
        out = super().around(body, again, are_blocks)
        if self.flying and self.flying != at[0]:
            late = self.flying
            self.flying, self.read, self.wrote, self.is_storing = [*at[0], *late], set(at[1]), set(at[2]), at[3]
            self.read |= self.under_way()
            out = super().around(body, again, are_blocks)
        return out

    def stmt(self, stmt: Stmt) -> Body:
        if isinstance(stmt, Copy):
            self.copied.add(stmt.dst.buffer.root)
        if isinstance(stmt, Gemm) and stmt.unit:
            self.require_groups(stmt)
            self.flying.append(stmt)
        return super().stmt(stmt)

    # ------------------------------------------------------------------------------------------ what was asked
    def asked(self, stmt: Asked) -> Body:
        if stmt.name == "twb_bulk_wait" or stmt.name == "twb_bulk_wait_read":
            self.is_storing = self.is_storing and stmt.constants != (0,)
        if stmt.name == ASYNC_ARRIVAL:
            return self.arrive_later(stmt)
        if stmt.name in _ARRIVALS and self.wrote & self.factors:
            return (DeviceCall("twb_fence_proxy_async", span=stmt.span), stmt)
        return (stmt,)

    def arrive_later(self, stmt: Asked) -> Body:
        """An arrival when copies have come. What the threads wrote themselves, or what others read past them, they see to before."""
        copied, self.copied = self.copied, set()
        if not self.wrote and not copied & self.factors:
            return (stmt,)
        fence = (DeviceCall("twb_fence_proxy_async", span=stmt.span),) if (self.wrote | copied) & self.factors else ()
        return (DeviceCall("twb_cp_async_wait_all", span=stmt.span), *fence, replace(stmt, name="twb_mbarrier_arrive"))

    def move(self, stmt: TensorMove) -> Body:
        """The first thread starts the copy, after everybody is done with what it overwrites, or has written what it reads."""
        boxes = boxes_of(stmt, self.forms) if self.aligned else "arrays of this call do not begin at multiples of 16 bytes"
        if stmt.barrier is not None and stmt.src.buffer.root in self.written:
            boxes = f"{stmt.src.buffer.name} is written in this launch"
        if isinstance(boxes, str):
            raise UnsupportedError(
                f"the tensor copy engine cannot do this copy: {boxes}", span=stmt.span, hint="use T.copy, which every thread does a part of"
            )
        out: list[Stmt] = []
        reads, writes = self.shared([stmt.src])[0], self.shared([stmt])[1]
        self.barrier(out, reads, writes, stmt)
        inside = self.load(stmt, boxes, stmt.barrier) if stmt.barrier is not None else self.store(stmt, boxes)
        if stmt.barrier is None:
            self.read |= reads
            self.is_storing = True
        return (*out, If(Binary("eq", self.thread, index(0)), inside, span=stmt.span))

    def load(self, stmt: TensorMove, boxes: Boxes, bar: AddressOf) -> Body:
        name = f"twb_tma_load_{stmt.src.buffer.rank}d"
        out: list[Stmt] = [DeviceCall("twb_mbarrier_expect", (bar, Const(boxes.bytes, INT32)), span=stmt.span)]
        for place in boxes.places():
            args = (_corner(stmt.dst, place), self.map(boxes.view), bar, *_coordinates(stmt.src, boxes, place))
            out.append(DeviceCall(name, args, span=stmt.span))
        return tuple(out)

    def store(self, stmt: TensorMove, boxes: Boxes) -> Body:
        name = f"twb_tma_store_{stmt.dst.buffer.rank}d"
        out: list[Stmt] = []
        for place in boxes.places():
            args = (self.map(boxes.view), _corner(stmt.src, place), *_coordinates(stmt.dst, boxes, place))
            out.append(DeviceCall(name, args, span=stmt.span))
        return (*out, *(() if self.closes else (DeviceCall(CLOSE_STORES, span=stmt.span),)))

    def map(self, view: TensorView) -> MapOf:
        if view not in self.views:
            self.views.append(view)
        return MapOf(self.views.index(view))

    # ------------------------------------------------------------------------------------------ products
    def require_groups(self, stmt: Gemm) -> None:
        why = self.why_no_groups(stmt)
        if why:
            raise UnsupportedError(
                f"T.wgmma_gemm: warp groups cannot compute this product: {why}", span=stmt.span, hint="use T.gemm, which any unit may do"
            )

    def why_no_groups(self, stmt: Gemm) -> str:
        if stmt.c.buffer not in self.arrays:
            return f"{stmt.c.buffer.name} does not lie in registers ({self.place.shared.get(stmt.c.buffer, 'it is no fragment')})"
        if self.place.units[id(stmt)].kind == "wgmma":
            return ""
        m, n = stmt.c.static_extents()[-2:]
        if self.place.threads % 128 or m % (64 * max(1, self.place.threads // 128)):
            return f"{m} rows are no multiple of 64 for each of {self.place.threads / 128:g} groups"
        if n % 8 or n > 256:
            return f"{n} columns are no multiple of 8 up to 256"
        if stmt.b.buffer.scope != "shared":
            return f"B is {stmt.b.buffer.name}, which is not in shared memory"
        if stmt.a.buffer.type.bits == 8 and (stmt.trans_a or not stmt.trans_b):
            return f"{stmt.a.buffer.type} needs A as it is and B transposed"
        kinds = ", ".join(str(r.buffer.type) for r in (stmt.a, stmt.b, stmt.c))
        return f"of {kinds}, or the parts of their tiles begin in the middle of what a group reads at once"

    def wait(self, stmt: WaitStarted) -> Body:
        """The sums of what has ended are settled in their registers; those of what may run on are left alone."""
        if stmt.left < len(self.flying):
            self.flying = self.flying[len(self.flying) - stmt.left :]
        running = {product.c.buffer for product in self.flying}
        done = tuple(whole(b) for b in dict.fromkeys(self.sums) if b not in running)
        return super().stmt(WaitProducts(stmt.left, done, span=stmt.span))


def _corner(part: Region, place: tuple[int, int]) -> AddressOf:
    moved = (0,) * (part.buffer.rank - 2) + place[-part.buffer.rank :]
    return AddressOf(part.buffer, tuple(add(cast(s, INDEX), index(by)) for s, by in zip(part.starts, moved, strict=True)))


def _coordinates(region: Region, boxes: Boxes, place: tuple[int, int]) -> tuple[Expr, ...]:
    """Innermost first."""
    where = {boxes.down: place[0]} | {boxes.along: place[1]}
    found = [cast(add(cast(s, INDEX), index(where.get(d, 0))), INT32) for d, s in enumerate(region.starts)]
    return tuple(reversed(found))

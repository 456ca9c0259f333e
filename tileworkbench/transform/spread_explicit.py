"""Statements that the author asked for on sm_90, for a thread of a party: tensor copies, arrivals, products that are only started.

Before:  ready of 128 arrivals;  tile <- A[..] (barrier ready);  arrive ready;  acc += a @ b (async, by wgmma);  wait products <= 0
After:   if first thread: expect ready, bytes; load box, box;  arrive ready;  wgmma ...; commit;  wait 0; keep acc

What the party's threads have written and the engine, or warp groups, may read is fenced before they arrive anywhere; a barrier between a copy to
global memory and what overwrites its tile also waits for the copy. Beyond that, the author orders what he started.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce

from ..analysis.pushes import Runs, runs_of
from ..analysis.tensor_moves import Boxes, boxes_of
from ..base.dtypes import INDEX, INT32
from ..base.errors import UnsupportedError
from ..base.span import Span
from ..ir.build import add, cast, index
from ..ir.device import DeviceCall, MapOf, WaitProducts
from ..ir.explicit import ASYNC_ARRIVAL, CLOSE_STORES, Asked, Push, StartBarriers, TensorMove, WaitStarted
from ..ir.expr import AddressOf, Binary, Buffer, Const, Expr
from ..ir.node import Node, replace, walk
from ..ir.stmt import Body, Copy, Gemm, If, Region, Stmt, whole
from ..ir.tile_form import TensorView
from .spread_async import spread_push
from .spread_threads import Spread

_ARRIVALS = frozenset({
    "twb_mbarrier_arrive", "twb_mbarrier_arrive_expect", "twb_mbarrier_arrive_at", "twb_bar_arrive", "twb_bar_sync", "twb_cluster_arrive",
})  # fmt: skip

# where threads have written tiles of other blocks: what shows them to those
_SHOWN = {"twb_mbarrier_arrive_at": "twb_mbarrier_release_at", "twb_mbarrier_wait": "twb_mbarrier_wait_cluster"}


class SpreadExplicit(Spread):
    """One party on its way. `views`, `bars` (its barriers) and `written` (global memory) are the launch's."""

    views: list[TensorView]
    bars: set[Buffer]
    written: set[Buffer]
    aligned: bool
    closes = False  # the author closes groups of stores
    is_storing = False  # a copy to global memory may still read a tile
    is_role = False
    are_written = False  # threads write tiles of other blocks of the cluster, not the copy engine alone

    def prepare(self, body: Body) -> None:
        """Look over what the party does."""
        nodes = [n for s in body for n in walk(s)]
        self.factors |= {r.buffer.root for n in nodes if isinstance(n, (TensorMove, Push)) for r in (n.src, n.dst) if r.buffer.scope == "shared"}
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
                case Push():
                    out += self.push(stmt)
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
        if stmt.name.startswith("twb_cluster") and self.is_role:
            raise UnsupportedError(
                f"T.{stmt.word} in a role: every thread of the cluster has to come to its barrier", span=stmt.span,
                hint="put it where the whole block comes, or use T.alloc_cluster_barrier and T.mbarrier_arrive(bar, cta_id)",
            )  # fmt: skip
        if stmt.name == "twb_cluster_sync":
            return (*self.meet(stmt.span)[:-1], stmt)
        if stmt.name in _SHOWN and self.are_written:
            stmt = replace(stmt, name=_SHOWN[stmt.name])
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
        rank, own, many = stmt.src.buffer.rank, list[Stmt](), list[Stmt]()
        for place in boxes.places():
            head, tail = (_corner(stmt.dst, place), self.map(boxes.view), bar), _coordinates(stmt.src, boxes, place)
            own.append(DeviceCall(f"twb_tma_load_{rank}d", (*head, *tail), span=stmt.span))
            many.append(DeviceCall(f"twb_tma_load_multicast_{rank}d", (*head, Const(stmt.mask, INT32), *tail), span=stmt.span))
        return (DeviceCall("twb_mbarrier_expect", (bar, Const(boxes.bytes, INT32)), span=stmt.span), *self.who_copies(stmt, tuple(own), tuple(many)))

    def who_copies(self, stmt: TensorMove, own: Body, many: Body) -> Body:
        """The first block of the mask copies for all of them, those outside of it for themselves."""
        if not stmt.mask:
            return own
        assert stmt.rank is not None
        tests = [Binary("eq", cast(stmt.rank, INDEX), index(r)) for r in range(self.old.cluster_size)]
        first = (stmt.mask & -stmt.mask).bit_length() - 1
        outside = [test for r, test in enumerate(tests) if not stmt.mask >> r & 1]
        alone = (If(reduce(partial(Binary, "or"), outside), own, span=stmt.span),) if outside else ()
        return (If(tests[first], many, alone, span=stmt.span),)

    # ------------------------------------------------------------------------------------------ to other blocks
    def push(self, stmt: Push) -> Body:
        """By the copy engine where that is possible; else every thread writes its cells, and one tells the barrier when all have."""
        runs = runs_of(stmt, self.forms)
        out: list[Stmt] = []
        reads, writes = self.shared([stmt])
        self.barrier(out, reads, writes, stmt)
        self.read |= reads
        first = Binary("eq", self.thread, index(0))
        if isinstance(runs, Runs):
            assert stmt.barrier is not None
            return (*out, If(first, self.runs(stmt, runs, stmt.barrier), span=stmt.span))
        self.wrote |= writes
        out += spread_push(stmt, self)
        if stmt.barrier is not None:
            out += self.meet(stmt.span)
            out.append(If(first, (DeviceCall("twb_mbarrier_release_at", (stmt.barrier, stmt.block), span=stmt.span),), span=stmt.span))
        return tuple(out)

    def runs(self, stmt: Push, runs: Runs, bar: AddressOf) -> Body:
        out: list[Stmt] = [DeviceCall("twb_mbarrier_arrive_expect_at", (bar, stmt.block, Const(runs.all_bytes, INT32)), span=stmt.span)]
        for here, there in runs.moves:
            args = (_moved(stmt.dst, there), _moved(stmt.src, here), Const(runs.bytes, INT32), bar, stmt.block)
            out.append(DeviceCall("twb_cluster_push", args, span=stmt.span))
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
    return _moved(part, (0,) * (part.buffer.rank - 2) + place[-part.buffer.rank :])


def _moved(part: Region, moved: tuple[int, ...]) -> AddressOf:
    """The cell of a part that is so far from its first one."""
    return AddressOf(part.buffer, tuple(add(cast(s, INDEX), index(by)) for s, by in zip(part.starts, moved, strict=True)))


def _coordinates(region: Region, boxes: Boxes, place: tuple[int, int]) -> tuple[Expr, ...]:
    """Innermost first."""
    where = {boxes.down: place[0]} | {boxes.along: place[1]}
    found = [cast(add(cast(s, INDEX), index(where.get(d, 0))), INT32) for d, s in enumerate(region.starts)]
    return tuple(reversed(found))

"""Results of a block go to global memory by the tensor copy engine, which writes whole boxes while the threads go on (sm_90a).

Before:  copy C[by * 128, bx * 128] <- acc                           (acc 128 x 128 float32, sums of two warp groups; C float16)
After:   send C[by * 128 ..] <- acc through stage                    (stage: shared float16[2, 2, 64, 64], in rows of 128 bytes)

Before:  copy c_tile <- acc; copy C[..] <- c_tile                    (c_tile, which nothing else uses, becomes the stage)
Before:  copy C[..] <- tile                                          (tile in shared memory: sent from where it lies)
Before:  atomic add C[..] <- acc                                     (added up in memory, by the same ways)

Sums that lie in registers pass through a stage in pieces of 64 rows by 128 bytes for each warp group. It gets as many pieces as fit into what shared
memory is left, so that neither stages of the loops nor blocks of a multiprocessor are lost for it; a warp group waits for a piece only when it fills
its slot again, so in blocks that stay (`stay_on_chip`) a tile is on its way while the next one is computed.

The threads copy themselves, and remarks say why: where rows do not begin at multiples of 16 bytes or a tile may begin before its array; tiles of less
than 2 KiB or rows of less than 32 bytes; where not one piece fits; where the engine's writes would have to be ordered with others, as in loops
of the author's (sums apart); where threads are visible or the author orders asynchronous work himself.

Requires: tile operations, forms, places, roles.  Preserves: everything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.aliasing import Aliasing
from ..analysis.capacity import room_bytes
from ..analysis.matrix_units import GROUP
from ..analysis.tensor_moves import boxes_of
from ..analysis.tensor_stores import (
    KEPT_BYTES,
    LEAST_BYTES,
    LEAST_ROW,
    OTHERS,
    ROWS,
    Pieces,
    pieces_of,
    slots_of,
    source_of,
    sums_of_groups,
    why_in_order,
)  # fmt: skip
from ..analysis.tile_forms import form_of
from ..analysis.uses import uses
from ..ir.bodies import heads, statements
from ..ir.build import index
from ..ir.device import Specialised
from ..ir.explicit import TensorMove, is_explicit
from ..ir.expr import Buffer
from ..ir.launches import rewrite_launches
from ..ir.node import replace, walk
from ..ir.remark import Remark
from ..ir.send import SendTile
from ..ir.stmt import Atomic, Body, Copy, For, Gemm, If, Kernel, Launch, PipelinedFor, Return, Stmt, While, is_whole
from ..ir.tile_form import TensorView, TileForm
from .certain_regions import natural_targets
from .names import Names
from .roles import PRODUCERS
from .share_tiles import ALIGN, alignment_of
from .stay_on_chip import KIND, PAIR


def send_tiles(kernel: Kernel, arch: int) -> Kernel:
    """Return `kernel` with results that the tensor copy engine stores, on sm_90a."""
    if arch != 90:
        return kernel
    names, aliasing = Names(kernel), Aliasing(kernel)
    inside: set[int] = set()

    def change(node: Launch) -> Launch:
        if node.threads_used or is_explicit(node) or any(isinstance(n, Return) for n in statements(node)):
            return node
        if not any(isinstance(n, (Copy, Atomic)) and source_of(n) is not None for n in statements(node)):
            return node
        return _Send(node, arch, names, aliasing, inside).launch()

    inside |= natural_targets(kernel)
    return rewrite_launches(kernel, change)


class _Send:
    """One launch on its way. `inside`: the statements whose target certainly begins inside its array or behind it."""

    def __init__(self, launch: Launch, arch: int, names: Names, aliasing: Aliasing, inside: set[int]) -> None:
        self.old, self.arch, self.names, self.aliasing, self.inside = launch, arch, names, aliasing, inside
        self.roles = launch.body[0] if len(launch.body) == 1 and isinstance(launch.body[0], Specialised) else None
        self.views: list[TensorView] = list(launch.views)
        self.allocs = list(launch.allocs)
        self.forms = list(launch.forms)
        self.remarks: list[Remark] = []
        nodes = [n for s in self.consumers for n in walk(s)]
        products = [n for n in nodes if isinstance(n, Gemm)]
        self.sums = sums_of_groups(nodes, launch, arch)
        self.across = {r.buffer for p in products for r in (p.b, *((p.a,) if p.trans_a else ())) if r.buffer.scope == "fragment"}
        elsewhere = () if self.roles is None else (*self.roles.setup, *self.roles.producer)
        self.filled = {b.root for b in uses(elsewhere).buffers} | {n.dst.buffer.root for n in nodes if isinstance(n, Copy) and n.async_bytes}

    @property
    def consumers(self) -> Body:
        return self.old.body if self.roles is None else self.roles.consumers

    def launch(self) -> Launch:
        body = self.body(self.consumers, self.consumers, (), is_loop=False, is_repeated=False)
        out = self.old
        if body is not self.consumers:
            made = body if self.roles is None else (replace(self.roles, consumers=body),)
            out = replace(out, body=made, views=tuple(self.views), allocs=tuple(self.allocs), forms=tuple(self.forms))
        return replace(out, remarks=(*out.remarks, *self.remarks)) if self.remarks else out

    # ------------------------------------------------------------------------------------------ where
    def body(self, body: Body, everything: Body, later: Sequence[Stmt], is_loop: bool, is_repeated: bool) -> Body:
        """`body`, in a loop of the author's (`is_loop`) or one of any kind; `later` may be done after it."""
        out: list[Stmt] = []
        at = 0
        while at < len(body):
            stmt, after = body[at], (*body[at + 1 :], *later)
            match stmt:
                case Copy() | Atomic() if source_of(stmt) is not None:
                    out += self.sent(stmt, None, everything, after, is_loop, is_repeated)
                case Copy() if (second := self.passed_on(stmt, body[at + 1 :])) is not None:
                    out += self.sent(second, stmt, everything, after, is_loop, is_repeated)
                    at += 1
                case For(body=inside, kind=kind) if kind in (KIND, PAIR):
                    made = self.body(inside, inside, (), is_loop, True)  # what one block writes is not what another reads
                    out.append(stmt if made is inside else replace(stmt, body=made))
                case For(body=inside) | PipelinedFor(body=inside) | While(body=inside):
                    made = self.body(inside, everything, (*inside, *_tests(stmt), *after), True, True)
                    out.append(stmt if made is inside else replace(stmt, body=made))
                case If(_, then, other):
                    yes, no = (self.body(side, everything, after, is_loop, is_repeated) for side in (then, other))
                    out.append(stmt if yes is then and no is other else replace(stmt, then=yes, other=no))
                case _:
                    out.append(stmt)
            at += 1
        return body if len(out) == len(body) and all(a is b for a, b in zip(out, body, strict=True)) else tuple(out)

    def passed_on(self, stmt: Copy, later: Body) -> Copy | Atomic | None:
        """The copy (or sum) that takes what `stmt` brings to a tile on to global memory, if nothing else uses that tile."""
        tile, second = stmt.dst.buffer, later[0] if later else None
        if not isinstance(second, (Copy, Atomic)) or stmt.src.buffer not in self.sums or not (is_whole(stmt.src) and is_whole(stmt.dst)):
            return None
        found = source_of(second)
        if found is None or found.buffer != tile or tile.scope != "shared" or tile.type != second.dst.buffer.type or tile.view_of is not None:
            return None
        nodes = [n for s in self.consumers for n in walk(s)]
        taken = any(b.view_of is not None and b.root == tile for b in self.old.allocs) or any(p.buffer == tile for p in self.old.places)
        is_alone = sum(isinstance(n, Buffer) and n == tile for n in nodes) == 2 and form_of(self.old.forms, tile) is None
        return second if is_alone and not taken and tile not in self.filled else None

    # ------------------------------------------------------------------------------------------ how
    def sent(self, stmt: Copy | Atomic, first: Copy | None, everything: Body, later: Sequence[Stmt], is_loop: bool, is_repeated: bool) -> Body:
        """`stmt`, and `first`, which brings its tile to shared memory, as the engine does it; or as they are."""
        source = source_of(stmt)
        assert source is not None
        old: Body = (stmt,) if first is None else (first, stmt)
        op = stmt.op if isinstance(stmt, Atomic) else ""
        tile = source.buffer if first is None else first.src.buffer
        if tile.scope == "fragment" and tile not in self.sums:
            return old  # registers that hold rows in vectors, or single numbers
        why = self.why_not(stmt, everything, later, is_loop and not op)
        made = None
        if not why:
            made = self.through_stage(stmt, tile, first, op, is_repeated) if tile.scope == "fragment" else self.as_it_lies(stmt, tile, op)
            why = made if isinstance(made, str) else ""
        if isinstance(made, SendTile):
            return (made,)
        self.remarks.append(Remark(f"the threads store it themselves: {why}", span=stmt.span))
        return old

    def why_not(self, stmt: Copy | Atomic, everything: Body, later: Sequence[Stmt], is_loop: bool) -> str:
        if is_loop:
            return "it is stored again and again in a loop"
        if id(stmt) not in self.inside:
            return "it may begin before its array"
        return why_in_order(stmt, everything, later, self.aliasing)

    def as_it_lies(self, stmt: Copy | Atomic, tile: Buffer, op: str) -> SendTile | str:
        source = source_of(stmt)
        assert source is not None
        if tile.root in self.filled:
            return f"{tile.name} is filled again beside the threads"
        if tile.static_bytes() < LEAST_BYTES or tile.static_shape()[-1] * tile.type.bits < 8 * LEAST_ROW:
            return f"{tile.name} is small"
        boxes = boxes_of(TensorMove(source, stmt.dst), tuple(self.forms))
        if isinstance(boxes, str):
            return boxes
        return SendTile(source, stmt.dst, self.view(boxes.view), (boxes.height, boxes.width), op, span=stmt.span)

    def through_stage(self, stmt: Copy | Atomic, tile: Buffer, first: Copy | None, op: str, is_repeated: bool) -> SendTile | str:
        pieces = pieces_of(tile, stmt.dst.buffer.type, stmt.dst)
        if isinstance(pieces, str):
            return pieces
        groups = self.old.count_threads // GROUP
        one = pieces.size(stmt.dst.buffer.type)
        room = self.room() if first is None else pieces.each(groups) * groups * one
        slots = slots_of(pieces, stmt.dst.buffer.type, groups, room)
        if not slots:
            return f"its pieces take {groups * one} bytes, {max(0, room)} of shared memory are left"
        source = first.src if first is not None else source_of(stmt)
        assert source is not None
        view, stage = self.view(pieces.view), self.stage(stmt, pieces, (groups, slots), first)
        return SendTile(source, stmt.dst, view, (ROWS, pieces.width), op, stage, is_repeated, span=stmt.span)

    def stage(self, stmt: Copy | Atomic, pieces: Pieces, slots: tuple[int, int], first: Copy | None) -> Buffer:
        """New memory, or the author's tile."""
        shape = tuple(map(index, (*slots, ROWS, pieces.width)))
        name = self.names.fresh(f"{stmt.dst.buffer.name}_stage") if first is None else first.dst.buffer.name
        made = Buffer(name, shape, stmt.dst.buffer.type, "shared", span=stmt.span)
        self.allocs = [b for b in self.allocs if first is None or b != first.dst.buffer] + [made]
        self.forms.append(TileForm(made, pieces.view.row_bytes, span=stmt.span))
        return made

    def view(self, view: TensorView) -> int:
        if view not in self.views:
            self.views.append(view)
        return self.views.index(view)

    def room(self) -> int:
        """The bytes of shared memory that a stage may take."""
        used = max((p.end for p in self.old.places), default=0) + KEPT_BYTES
        placed = {p.buffer for p in self.old.places}
        for b in self.allocs:
            if b.view_of is None and b not in placed and (b.scope == "shared" or b in self.across):
                align = alignment_of(b, tuple(self.forms))
                used = -(-used // align) * align + -(-b.static_bytes() // ALIGN) * ALIGN
        threads = self.old.count_threads
        held = sum(b.static_bytes() for b in self.allocs if b.scope == "fragment" and b.view_of is None) // (4 * threads)
        if self.roles is not None:
            held = max(held, *self.roles.registers)
        return room_bytes(used, threads + (PRODUCERS if self.roles is not None else 0), held + OTHERS)


def _tests(loop: Stmt) -> Body:
    """What a loop asks before a turn, as a statement."""
    return tuple(If(test, ()) for test in heads(loop))

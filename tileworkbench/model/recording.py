"""A flight recorder: a run of a tiled kernel in the interpreter, kept operation by operation.

A `Recording` holds, for each recorded block and each step of its tile loop, what every watched tile held after each tile operation, how many bytes
had crossed each level by then, and how much on-chip memory was in use. Its byte counts end at the totals of the report that it was made with.

    recording = record_run(kernel_ir, arrays, report=report)
    step = recording.at(block=2, step=1)          # the operations of one (query block, key block)
    step[-1].tiles["O"].values                    # the tile that the last one left

Tiles larger than `LIMIT` x `LIMIT` are kept as every n-th row and column, with the extremes and the mean of all elements; `Tile.is_sampled` says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.hardware import Machine
from ..base.span import Span
from ..interpret.launch import run
from ..interpret.trace import Operand, Recorder, TileStep, TraceOptions
from ..ir.expr import Const
from ..ir.node import walk
from ..ir.stmt import Gemm, Kernel, Launch, ParallelFor, Reduce, Store
from .occupancy import launch_occupancy, most_registers
from .recording_meter import Meter, Moved, touched_by
from .report import Report
from .roles import Role, Roles, find_roles
from .space import Array

LIMIT = 16  # rows and columns of a tile that are kept
BLOCKS = 16  # blocks that are kept
BEFORE, AFTER = -1, -2  # steps of what stands in front of the tile loop, and behind it


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """What a tile held at one moment. `values` are its elements (row x column; one row for a vector) at `rows` and `columns`.

    `low`, `high` and `mean` are of all finite elements, `bad` counts NaN and +infinity.
    """

    buffer: str
    shape: tuple[int, ...]
    values: Array
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    low: float
    high: float
    mean: float
    bad: int

    @property
    def is_sampled(self) -> bool:
        """Whether elements were left out."""
        return self.values.size < int(np.prod(self.shape))

    def __str__(self) -> str:
        size = " x ".join(map(str, self.shape))
        kept = f", shown: {len(self.rows)} x {len(self.columns)} of it" if self.is_sampled else ""
        bad = f", {self.bad} not finite" if self.bad else ""
        return f"{self.buffer} ({size}): {self.low:.4g} to {self.high:.4g}, mean {self.mean:.4g}{bad}{kept}"


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One tile operation of a recorded block, and the state after it.

    `step` is the tile loop's value, `BEFORE` or `AFTER`; `line` the author's line, at `place` ("file:line"); `moved` says which part of an argument a
    copy took ("K[32:64, 0:16]"); `tiles` holds the watched tiles by role, those not yet written left out; `writes` the roles that it wrote; `bytes`
    the bytes so far by level, of the whole launch; `live_bytes` the on-chip bytes that hold something still needed, by scope.
    """

    block: int
    step: int
    kind: str
    line: str
    place: str
    moved: str
    writes: tuple[str, ...]
    tiles: Mapping[str, Tile]
    bytes: Mapping[str, float]
    live_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class OnChip:
    """One kind of on-chip memory: `need_bytes` of a block's tiles there, and what the machine gives (`capacity_bytes`, called `capacity`)."""

    name: str
    scopes: tuple[str, ...]
    need_bytes: int
    capacity_bytes: int
    capacity: str

    @property
    def fits(self) -> bool:
        return self.need_bytes <= self.capacity_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """The run. `blocks` are the recorded blocks' indices (x, y, z), `ops` their operations in order; `report` is where the byte totals come from."""

    kernel: str
    roles: tuple[Role, ...]
    loop: str
    blocks: tuple[tuple[int, ...], ...]
    ops: tuple[Op, ...]
    stores: tuple[OnChip, ...]
    report: Report
    blocks_run: int
    outputs: Mapping[str, Array] = field(default_factory=dict)

    def steps(self, block: int) -> tuple[int, ...]:
        """The steps of the block at that place in `blocks`, in order."""
        return tuple(dict.fromkeys(op.step for op in self.ops if op.block == block))

    def at(self, block: int, step: int) -> tuple[Op, ...]:
        """The operations of one step of a block; empty if it does not run (a causal kernel skips some)."""
        return tuple(op for op in self.ops if op.block == block and op.step == step)

    @property
    def totals(self) -> dict[str, float]:
        """Bytes of the whole launch by level, as the report of a first launch has them."""
        return {level.name: level.bytes for level in self.report.levels}

    def label(self, block: int) -> str:
        """The block in words, with the part of the first input that it owns: "block 2: Q[64:96, 0:16]"."""
        moved = next((op.moved for op in self.ops if op.block == block and op.moved and op.step == BEFORE), "")
        place = self.blocks[block]
        name = ", ".join(map(str, place)) if any(place[1:]) else str(place[0])
        return f"block {name}" + (f": {moved}" if moved else "")

    def step_label(self, block: int, step: int) -> str:
        """The step in words: "step 1: K[32:64, 0:16]"."""
        if step in (BEFORE, AFTER):
            return "before the loop" if step == BEFORE else "after the loop"
        moved = next((op.moved for op in self.at(block, step) if op.moved), "")
        return f"{self.loop} = {step}" + (f": {moved}" if moved else "")


def record_run(
    kernel: Kernel,
    arrays: Sequence[Array],
    *,
    report: Report,
    scalars: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    block: tuple[int, ...] | None = None,
    watch: Sequence[str] | Mapping[str, str] | None = None,
    limit: int = LIMIT,
) -> Recording:
    """Run `kernel` (tile IR) on `arrays`, which it changes in place, and keep what its tiles held.

    Args:
        report: of the same kernel and sizes; its first launch's levels and bytes are the recording's, its machine's on-chip memory the capacity.
        block: the one block to keep (x, y, z); None: every block along x at 0 of the other axes, `BLOCKS` of them at most.
        watch: tiles by name, or roles mapped to names; None: found from the kernel's structure.
    Raises: ValueError for a tile or block that there is not.
    """
    roles = find_roles(kernel, watch if watch is None or isinstance(watch, Mapping) else tuple(watch))
    report = report.first_launch  # the recorded run is one: no cache holds anything yet
    log = _Log(roles, limit)
    chosen = _Blocks(block)
    run(kernel, arrays, scalars, dims, trace=TraceOptions(values=True, blocks=chosen, observe=log.observe))
    if not log.blocks:
        raise ValueError(f"{kernel.name} ran no block {block}" if block is not None else f"{kernel.name} ran no block")
    kept = sorted(log.blocks)
    kept = [kept[i] for i in np.unique(np.linspace(0, len(kept) - 1, min(len(kept), BLOCKS)).astype(int))]
    loop = "" if roles.loop is None else roles.loop.var.hint or roles.loop.var.name
    stores = _stores(kernel.name, roles.launch, report.machine)
    return Recording(kernel.name, roles.tiles, loop, tuple(kept), tuple(log.ops(kept, report)), stores, report, len(log.blocks))


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Which blocks are kept: one, or those at 0 of every axis but x."""

    one: tuple[int, ...] | None

    def __contains__(self, block: object) -> bool:
        assert isinstance(block, tuple)
        if self.one is None:
            return not any(block[1:])
        return block == self.one + (0,) * (len(block) - len(self.one))

    def __iter__(self) -> Any:
        raise TypeError("an open set")

    __len__ = __iter__


@dataclass(slots=True)
class _Event:
    """An operation as it was seen, before anything that needs the whole run is known."""

    block: tuple[int, ...]
    step: TileStep
    tiles: dict[str, Tile]
    moved: Moved
    touched: Moved


@dataclass(slots=True)
class _Log:
    """Hears the interpreter and keeps what the recording needs, sampled at once."""

    roles: Roles
    limit: int
    events: list[_Event] = field(default_factory=list)
    blocks: dict[tuple[int, ...], None] = field(default_factory=dict)
    state: dict[tuple[tuple[int, ...], str], Array] = field(default_factory=dict)  # blocks that meet at a grid barrier take turns
    tiles: dict[tuple[int, ...], dict[str, Tile]] = field(default_factory=dict)
    touched: Moved = field(default_factory=dict)
    last: Recorder | None = None

    def observe(self, step: TileStep, recorder: Recorder) -> None:
        self.blocks[step.block] = None
        tiles = self.tiles.setdefault(step.block, {})
        for operand in step.writes:
            tiles.update(self._written(step.block, operand))
        self.last = recorder
        if any(not o.buffer.is_on_chip for o in (*step.reads, *step.writes)):
            self.touched = touched_by(recorder)
        self.events.append(_Event(step.block, step, dict(tiles), recorder.moved(), self.touched))

    def _written(self, block: tuple[int, ...], operand: Operand) -> dict[str, Tile]:
        """The tile that an operation wrote, by its roles."""
        name = operand.buffer.name
        roles = [r.name for r in self.roles.tiles if r.buffer == name]
        if not roles or operand.after is None:
            return {}
        whole = self.state.get((block, name))
        if whole is None:
            whole = np.zeros(operand.buffer.static_shape(), np.asarray(operand.after).dtype)
        place = tuple(slice(a, a + n) for a, n in zip(operand.starts, operand.extents, strict=True))
        whole = whole.copy()
        if operand.after.shape == whole[place].shape:
            whole[place] = operand.after
        self.state[block, name] = whole
        return dict.fromkeys(roles, keep(name, whole, self.limit))

    def ops(self, kept: list[tuple[int, ...]], report: Report) -> list[Op]:
        assert self.last is not None, "a block was recorded"
        meter = Meter(report, self.last.moved(), touched_by(self.last))
        out = []
        for i, block in enumerate(kept):
            events = [e for e in self.events if e.block == block]
            walked = False
            for event, live in zip(events, _live(events), strict=True):
                step = self._step(event.step, walked)
                walked |= step >= 0
                out.append(self._op(event, i, step, meter.so_far(event.moved, event.touched), live))
        return out

    def _step(self, step: TileStep, walked: bool) -> int:
        loop = self.roles.loop
        name = "" if loop is None else loop.var.hint or loop.var.name
        return dict(step.loops).get(name, AFTER if walked else BEFORE)

    def _op(self, event: _Event, block: int, step: int, moved: Mapping[str, float], live: Mapping[str, int]) -> Op:
        written = {o.buffer.name for o in event.step.writes}
        roles = tuple(r.name for r in self.roles.tiles if r.buffer in written)
        span = (
            next((s.span for s in event.step.stmt.body if s.span), event.step.span) if isinstance(event.step.stmt, ParallelFor) else event.step.span
        )
        line, place = (span.source_line().strip(), f"{span.file}:{span.line}") if span else ("", "")
        return Op(block, step, event.step.kind, line, place, _moved(event.step), roles, event.tiles, moved, live)


def _span(step: TileStep) -> Span | None:
    """Where the operation was written; of an element-wise loop its first store, which says more than the loop."""
    inside = (n.span for n in walk(step.stmt) if isinstance(n, Store) and n.span) if isinstance(step.stmt, ParallelFor) else iter(())
    return next(inside, step.span)


def keep(name: str, array: Array, limit: int = LIMIT) -> Tile:
    """A tile's values, at most `limit` rows and columns of them. Leading dims of 1 are dropped, others join the rows."""
    shape = tuple(n for n in array.shape if n != 1) or (1,)
    flat = np.asarray(array).astype(np.float64).reshape(-1, shape[-1])
    rows, columns = (_every(n, limit) for n in flat.shape)
    finite = flat[np.isfinite(flat)]
    low, high, mean = (float(f(finite)) if finite.size else 0.0 for f in (np.min, np.max, np.mean))
    bad = int(np.count_nonzero(np.isnan(flat) | (flat == np.inf)))
    return Tile(name, shape, flat[np.ix_(rows, columns)], tuple(map(int, rows)), tuple(map(int, columns)), low, high, mean, bad)


def _every(count: int, limit: int) -> Array:
    return np.arange(0, count, -(-count // limit))


def _moved(step: TileStep) -> str:
    """The part of an argument that a copy took: "K[32:64, 0:16]"; leading dims of 1 are left out."""
    if step.kind != "copy" or step.reads[0].buffer.is_on_chip or not step.reads[0].starts:
        return ""
    source = step.reads[0]
    spans = [f"{a}:{a + n}" for a, n in zip(source.starts, source.extents, strict=True) if n != 1] or ["0"]
    return f"{source.buffer.name}[{', '.join(spans)}]"


# ---------------------------------------------------------------------------------------------- on-chip memory
def _live(events: list[_Event]) -> list[dict[str, int]]:
    """On-chip bytes in use during each operation of a block, by scope: tiles that are read later, before something overwrites them."""
    wanted: dict[str, tuple[str, int]] = {}
    out: list[dict[str, int]] = []
    for event in reversed(events):
        reads, writes = _uses(event.step)
        now = wanted | reads | writes
        scopes: dict[str, int] = {}
        for scope, size in now.values():
            scopes[scope] = scopes.get(scope, 0) + size
        out.append(scopes)
        wanted = {n: s for n, s in wanted.items() if n not in writes or n in reads} | reads
    return out[::-1]


def _uses(step: TileStep) -> tuple[dict[str, tuple[str, int]], dict[str, tuple[str, int]]]:
    """On-chip buffers that an operation reads and writes, each with its scope and bytes. What a product or reduction adds to counts as read."""

    def sizes(operands: tuple[Operand, ...]) -> dict[str, tuple[str, int]]:
        roots = [o.buffer.root for o in operands if o.buffer.is_on_chip]
        return {b.name: (b.scope, b.static_bytes()) for b in roots}

    reads, writes = sizes(step.reads), sizes(step.writes)
    match step.stmt:
        case Gemm(clear=Const(value=True)) | Reduce(clear=True):
            return reads, writes
        case Gemm() | Reduce():
            return reads | writes, writes
        case _:
            return reads, writes


def _stores(name: str, launch: Launch, machine: Machine) -> tuple[OnChip, ...]:
    """The on-chip memories of `machine`, with what a block takes there, as the occupancy has it."""
    need = launch_occupancy(name, launch, machine)
    if machine.gpu is None:
        gauges = (g for g in need.gauges if g.unit == "B" and not machine.level(g.name).is_shared)
        return tuple(OnChip(g.name, ("shared", "fragment"), int(g.used), int(g.capacity), "of a core") for g in gauges)
    word = 4 * need.threads
    registers = need.registers * word, most_registers(machine.gpu, need.threads) * word
    about = f"of {need.threads} threads" + (" (estimated)" if need.is_estimated else "")
    return (
        OnChip("shared memory", ("shared",), need.shared_bytes, machine.gpu.shared_per_block.bytes, "of a block"),
        OnChip("registers", ("fragment",), *registers, about),
    )

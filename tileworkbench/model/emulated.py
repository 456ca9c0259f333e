"""A recorded run as a timeline: order and dependencies from the emulator, durations from the model of a machine.

    log = ...                                             # emulator: one cluster's run
    t = emulated(log, find_machine("h200"))               # a Timeline whose source is "emulated"

Lanes are the copies, with a row for each stage of each tile; for each warp group its threads, and beside them the matrix products that run for it;
and the stores. A group that only starts copies is a producer, the others of the block are its consumers. A step is a turn of the loop in which most
is multiplied; a copy belongs to the step that waits for it. A stage is full from the arrival of its bytes until those who waited for them say so, at
the mbarrier that its next copy waits for, or until the step's last product where there is no next copy.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate

from ..base.machine import Machine
from ..base.span import Span
from ..emulator.log import Entry, Log, WarpLog
from ..emulator.text import Line
from .pipeline import OUTSIDE, Event, Timeline
from .replay import SUMS, Piece, Replay, replay
from .sm_rates import PARTS, SmRates, sm_rates
from .values import show

GROUP = 4  # warps of a warp group
COPY = "copy"
STORE = "store"
PRODUCTS = ": tensor cores"
LEAST = 4.0  # clocks that a row of instructions takes at least to be an event
GAP = 64.0  # clocks without a store, after which the next one is another


_WAITS = {
    "copy_wait": ("wait", "its copies"),
    "read_wait": ("wait", "what it reads from global memory"),
    "product_wait": ("idle", "its own products, which run meanwhile"),
    "queued": ("idle", "the tensor cores to take its products"),
    "store_wait": ("idle", "its stores to have read shared memory"),
}


@dataclass(frozen=True, slots=True)
class Names:
    """What the author's lines are called: the operation of each, and where it stands."""

    operations: Mapping[tuple[str, int], str] = field(default_factory=dict)
    spans: Mapping[tuple[str, int], Span] = field(default_factory=dict)

    def of(self, line: Line | None) -> str:
        if line is None:
            return "around the loop"
        return self.operations.get((line.file, line.line), line.text or str(line))

    def span(self, line: Line | None) -> Span | None:
        return None if line is None else self.spans.get((line.file, line.line))


def emulated(log: Log, machine: Machine, *, array_bytes: float = 0.0, residents: int = 1, loop: str = "", names: Names | None = None) -> Timeline:
    """The timeline of the log's first block on `machine`.

    Args:
        array_bytes: of the launch's arrays; from half of L2 on the first bytes of a tile come from memory.
        residents: blocks that share an SM.
        loop: the variable of the loop whose turns are the steps; "" takes the one in which most is multiplied.
    Raises ValueError if `machine` is no GPU.
    """
    rates = sm_rates(machine, array_bytes)
    return _Timeline(log, rates, replay(log, rates, residents=residents), main_loop_of(log, loop), names or Names()).made(machine.name, residents)


def main_loop_of(log: Log, wanted: str = "") -> str:
    """The variable of the loop that the steps are counted in: `wanted` if there is one, else that in whose turns most FLOP, or bytes, are."""
    if wanted and wanted in log.loops:
        return wanted
    weights: Counter[str] = Counter()
    for warp in log.warps:
        inside: list[str] = []
        for e in warp.entries:
            if e.kind == "step" and e.a < 0:
                inside = inside[: inside.index(log.loops[-1 - e.a])] if log.loops[-1 - e.a] in inside else inside
            elif e.kind == "step" and log.loops[e.a] not in inside:
                inside.append(log.loops[e.a])
            elif inside and e.kind in ("product", "multiply"):
                weights[inside[-1]] += e.n << 20
            elif inside and e.kind in ("load", "copy", "loaded", "stored"):
                weights[inside[-1]] += e.n
    return weights.most_common(1)[0][0] if weights else ""


def steps_of(warp: WarpLog, loops: tuple[str, ...], var: str) -> list[int]:
    """For each entry of a warp the step in which it stands; a loop that starts again counts on."""
    out, now, base, last = [], OUTSIDE, 0, OUTSIDE
    for e in warp.entries:
        if e.kind == "step" and e.a >= 0 and loops[e.a] == var:
            value = e.b if e.b >= 0 else last + 1 - base
            if base + value <= last:
                base = last + 1 - value
            now = last = base + value
        elif e.kind == "step" and e.a < 0 and loops[-1 - e.a] == var:
            now = OUTSIDE
        out.append(now)
    return out


@dataclass(slots=True)
class _Copy:
    """The boxes, or the threads' pieces, of one copy of a tile."""

    line: Line | None
    start: float
    end: float
    arrives: float
    bytes: float
    address: int
    array: int
    step: int
    slot: int = -1
    released: float | None = None
    is_async: bool = True


class _Timeline:
    def __init__(self, log: Log, rates: SmRates, played: Replay, var: str, names: Names) -> None:
        self.log, self.rates, self.played, self.var, self.names = log, rates, played, var, names
        self.warps = {w.index: w for w in log.warps if w.rank == 0}
        self.steps = {i: steps_of(w, log.loops, var) for i, w in self.warps.items()}
        self.lasts = {i: list(accumulate(steps, max)) for i, steps in self.steps.items()}  # OUTSIDE is less than any step
        self.fills: dict[tuple[int, int], dict[Line | None, None]] = defaultdict(dict)  # (mbarrier, phase) -> the lines whose loads end it
        for e in (e for w in self.warps.values() for e in w.entries if e.kind == "load"):
            self.fills[e.a, e.b][e.line] = None
        self.groups: dict[int, list[int]] = defaultdict(list)
        for i in self.warps:
            self.groups[i // GROUP].append(i)
        self.busy: dict[int, list[list[float]]] = defaultdict(list)  # of each tensor core: from when to when it has something to do
        for p in played.pieces:
            mine = self.busy[p.warp % PARTS]
            if p.kind == "product" and mine and p.start - mine[-1][1] <= LEAST:
                mine[-1][1] = max(mine[-1][1], p.end)
            elif p.kind == "product":
                mine.append([p.start, p.end])
        self.lanes = self._lanes()
        self.events: list[Event] = []

    def _lanes(self) -> dict[int, str]:
        """The name of each warp group."""
        does = {g: Counter(e.kind for i in mine for e in self.warps[i].entries) for g, mine in self.groups.items()}
        copying = [g for g, kinds in does.items() if kinds["load"] and not kinds["product"] and not kinds["multiply"]]
        if not copying or len(copying) == len(self.groups):
            return {g: f"warps {mine[0]}-{mine[-1]}" if len(mine) > 1 else f"warp {mine[0]}" for g, mine in self.groups.items()}
        others = [g for g in self.groups if g not in copying]
        named = {g: "producer" if len(copying) == 1 else f"producer {i}" for i, g in enumerate(copying)}
        return named | {g: "consumer" if len(others) == 1 else f"consumer {i}" for i, g in enumerate(others)}

    # ------------------------------------------------------------------------------------------ all of it
    def made(self, machine: str, residents: int) -> Timeline:
        copies = self._copies()
        for group, mine in self.groups.items():
            self._threads(group, max(mine, key=lambda i: (len(self.warps[i].entries), -i)))
        self._stores()
        ends: dict[int, float] = defaultdict(float)
        for e in self.events:
            if e.kind == "compute":
                ends[e.step] = max(ends[e.step], e.end)
        for c in copies:
            self._show(c, ends)
        slots = {c.slot for c in copies if c.is_async and c.slot >= 0}
        steps = len({s for found in self.steps.values() for s in found if s != OUTSIDE})
        order = [COPY, *(lane + tail for g, lane in self.lanes.items() for tail in (PRODUCTS, "")), STORE]
        used = {e.lane for e in self.events}
        notes = [
            f"order, phases and bytes from the run of one block; durations from {machine}: {'; '.join(self.rates.sources)}",
            "every sector that a request asks for comes over the link to L2; instructions are counted in the text; what is done in one line overlaps",
        ]
        if residents > 1:
            notes.append(f"{residents} blocks like this one take turns on the SM")
        if self.played.unmatched:
            notes.append(f"{self.played.unmatched} waits ended through something that was not recorded: they cost nothing here")
        events = tuple(sorted(self.events, key=lambda e: (e.start, e.end)))
        lanes = tuple(lane for lane in order if lane in used)
        return Timeline(self.log.kernel, machine, lanes, events, len(slots), float(steps), self.var, "emulated", tuple(notes))

    def _step(self, p: Piece) -> int:
        return self.steps[p.warp][p.at]

    def _since(self, p: Piece) -> int:
        """The last step of the warp before a piece: what a block does after one tile and after the next are two things."""
        return self.lasts[p.warp][p.at]

    def _entry(self, p: Piece) -> Entry:
        return self.warps[p.warp].entries[p.at]

    def _put(
        self, lane: str, kind: str, p: Piece | _Copy, start: float, end: float, step: int, why: str, *, slot: int = -1, amount: float = 0.0
    ) -> None:
        if end > start:
            s = self.rates.seconds
            self.events.append(Event(lane, kind, self.names.of(p.line), s(start), s(end), step, slot, why, self.names.span(p.line), amount))

    # ------------------------------------------------------------------------------------------ copies
    def _copies(self) -> list[_Copy]:
        """The copies, each with the step that waits for it, its stage, and when the stage was given back."""
        waited: dict[tuple[int, int], int] = {}  # (mbarrier, phase) -> the first step that waits for it
        for i, warp in self.warps.items():
            for at, e in enumerate(warp.entries):
                if e.kind == "wait":
                    step = self.steps[i][at]
                    waited[e.a, e.b] = step if (e.a, e.b) not in waited else min(waited[e.a, e.b], step)
        found: dict[tuple[object, ...], _Copy] = {}
        for p in self.played.pieces:
            if p.kind not in ("load", "copy", "loaded"):
                continue
            e, i = self._entry(p), p.warp
            key: tuple[object, ...]
            if p.kind == "load":
                key, step = (p.line, e.q, e.a, e.b), waited.get((e.a, e.b), OUTSIDE)
                step = self._step(p) if step == OUTSIDE else step  # a first turn may stand before the loop
            elif p.kind == "copy":
                key, step = (p.line, "group", e.a), self._waiter(i, p.at, e, waited)
            else:
                key, step = (p.line, "read", self._step(p), self._since(p)), self._step(p)
            c = found.setdefault(key, _Copy(p.line, p.start, p.end, p.arrives, 0.0, e.m, e.q, step, is_async=p.kind != "loaded"))
            c.start, c.end, c.arrives = min(c.start, p.start), max(c.end, p.end), max(c.arrives, p.arrives)
            c.bytes, c.address = c.bytes + p.amount, min(c.address, e.m)
            if p.kind == "load":
                c.released = self._released(i, p.at, c.released)
        self._number(list(found.values()))
        return list(found.values())

    def _waiter(self, warp: int, at: int, e: Entry, waited: Mapping[tuple[int, int], int]) -> int:
        """The step in which a group of cp.async is waited for."""
        for later in range(at, len(self.warps[warp].entries)):
            o = self.warps[warp].entries[later]
            if o.kind == "copy_wait" and o.a > e.a:
                return self.steps[warp][later]
            if o.kind == "copy_arrive" and o.a == e.a:
                return waited.get((o.p, o.q), OUTSIDE)
        return OUTSIDE

    def _released(self, warp: int, at: int, known: float | None) -> float | None:
        """When the stage that is filled here is given back: the end of the phase after the one that its copy waited for."""
        for earlier in range(at - 1, -1, -1):
            e = self.warps[warp].entries[earlier]
            if e.kind == "step":
                break
            if e.kind == "wait":
                return self.played.phases.get((0, e.a, e.b + 1), known)
        return known

    @staticmethod
    def _number(copies: list[_Copy]) -> None:
        """Stages: the places that copies of one array by one line go to, in order of first use."""
        places: dict[object, dict[int, int]] = defaultdict(dict)
        for c in sorted(copies, key=lambda c: c.start):
            if c.is_async:
                c.slot = places[c.line, c.array].setdefault(c.address, len(places[c.line, c.array]))

    def _show(self, c: _Copy, ends: Mapping[int, float]) -> None:
        clk, rate = c.end - c.start, self.rates.copy_bytes
        self._put(COPY, "copy", c, c.start, c.end, c.step, f"{show(c.bytes, 'B')} at {rate:g} B/clk: {clk:.0f} clk", slot=c.slot, amount=c.bytes)
        self._put(COPY, "flight", c, c.end, c.arrives, c.step, f"first byte after {self.rates.latency:g} clk", slot=c.slot)
        last = ends.get(c.step, 0.0) * self.rates.clock_hz
        until = c.released if c.released is not None else last
        if c.is_async:
            self._put(COPY, "held", c, c.arrives, until, c.step, "full until its last reader is done", slot=c.slot)

    def _stores(self) -> None:
        """Stores of one line and step that follow one another are one."""
        rows: dict[tuple[Line | None, int], list[list[Piece]]] = defaultdict(list)
        for p in self.played.pieces:
            if p.kind in ("store", "stored"):
                mine = rows[p.line, self._step(p)]
                if mine and p.start - mine[-1][-1].end <= GAP:
                    mine[-1].append(p)
                else:
                    mine.append([p])
        for (_, step), found in rows.items():
            for row in found:
                amount = sum(p.amount for p in row)
                self._put(
                    STORE, "store", row[0], row[0].start, row[-1].end, step, f"{show(amount, 'B')} at {self.rates.copy_bytes:g} B/clk", amount=amount
                )

    # ------------------------------------------------------------------------------------------ warps
    def _threads(self, group: int, warp: int) -> None:
        """What one warp of a group does, and the products that run for it."""
        lane = self.lanes[group]
        producing = lane.startswith("producer")
        mine = [p for p in self.played.pieces if p.warp == warp]
        products = [p for p in mine if p.kind == "product"]
        for kind, at, least in () if producing else (("product", lane + PRODUCTS, 0.0), ("work", lane, LEAST)):
            for row in self._rows([p for p in mine if p.kind == kind]):
                if row[-1].end - row[0].start >= least:
                    self._put(at, "compute", row[0], row[0].start, row[-1].end, self._step(row[0]), self._why(row))
        for p in _joined([p for p in mine if p.kind in _WAITS or p.kind in ("wait", "barrier")]):
            kind, why = _WAITS.get(p.kind, ("idle" if producing else "wait", "the other threads at a barrier"))
            if p.kind == "wait":
                why = "a free stage" if producing else self._for_what(p)
            since, earlier = p.start, bisect_left(products, p.at, key=lambda q: q.at)
            if kind == "wait" and earlier:  # what it started before runs on
                since = min(max(since, products[earlier - 1].end), p.end)
                self._put(lane, "idle", p, p.start, since, self._step(p), f"waits for {why}, while its own products run")
            self._put(lane, kind, p, since, p.end, self._step(p), f"waits for {why}")

    def _for_what(self, p: Piece) -> str:
        """What arrives at the phase of an mbarrier that a wait is for."""
        assert p.waited is not None
        return " and ".join(self.names.of(line) for line in self.fills.get(p.waited[1:], ())) or "others to arrive"

    def _why(self, row: list[Piece]) -> str:
        if row[0].kind == "work":
            sums = Counter[str]()
            for e in (e for p in row for e in self._line(p)):
                sums[e.kind] += e.n
                sums["special"] += e.m if e.kind == "work" else 0
            words = {"work": "instructions", "shared": "wavefronts of shared memory", "special": "special results"}
            parts = [f"{show(sums['multiply'], 'FLOP')} of products"] if sums["multiply"] else []
            return ", ".join([*parts, *(f"{sums[kind]} {word}" for kind, word in words.items() if sums[kind])]) + " of a warp"
        flops, clocks, mine = sum(p.amount for p in row), row[-1].end - row[0].start, sum(p.end - p.start for p in row)
        others = f", {clocks - mine:.0f} of them for others" if clocks - mine > LEAST else ""
        return f"{show(flops * PARTS, 'FLOP')} of {PARTS} warps in {clocks:.0f} clk{others}"

    def _line(self, p: Piece) -> list[Entry]:
        """The sums of the line that starts at a piece."""
        entries, stop = self.warps[p.warp].entries, p.at
        while stop < len(entries) and entries[stop].line == p.line and entries[stop].kind in SUMS:
            stop += 1
        return list(entries[p.at : stop])

    def _rows(self, pieces: list[Piece]) -> list[list[Piece]]:
        """Pieces of one line and step that follow each other, but for what the tensor cores do for other warps in between."""
        rows: list[list[Piece]] = []
        for p in pieces:
            last = rows[-1] if rows else None
            if last and last[-1].line == p.line and self._step(last[-1]) == self._step(p) and self._is_taken(last[-1].end, p.start, p):
                last.append(p)
            else:
                rows.append([p])
        return rows

    def _is_taken(self, start: float, end: float, p: Piece) -> bool:
        """Whether the tensor core of a product's warp is busy all the time from `start` to `end`."""
        if end - start <= LEAST or p.kind != "product":
            return end - start <= LEAST
        mine = self.busy[p.warp % PARTS]
        return mine[bisect_right(mine, [start, float("inf")]) - 1][1] >= end - LEAST


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Pieces of one kind and line that follow each other become one."""
    out: list[Piece] = []
    for p in pieces:
        if out and p.kind == "queued" == out[-1].kind and out[-1].line == p.line and p.start - out[-1].end <= LEAST:
            out[-1] = replace(out[-1], end=p.end)
        else:
            out.append(p)
    return out

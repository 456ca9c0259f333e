"""When things happen in a recorded run: order and dependencies from the emulator's log, durations from a GPU's numbers.

Every warp goes through its entries in order. What it issues takes its turn at what the SM has one of: the path from L2, the one to it, shared memory,
and for each quarter the scheduler, the special function unit and the tensor core; whoever asks first is served first, but a tensor core stays with a
warp until its group of products is done. A wait ends when everything has
happened that the run says it waited for: the arrivals and bytes of one phase of an mbarrier, the groups of copies, products or stores, the other
threads of a barrier.

    copies          bytes / the SM's share of L2; the data are there a latency later
    matrix products FLOP / tensor rate. A warp whose wgmma has an operand in registers goes on when it starts, any other one at once: measured on an
                    H200 (November 2026: 650-950 clocks to issue the two products of attention; December 2026: a step of 128x128x64 with two
                    and three stages takes 844 and 520 clocks, which it could not if the warp stood still until its products start)
    instructions    one a clock and scheduler, in slices so that warps take turns; what a warp does in one line overlaps
Not modelled: latency between dependent instructions, misses of L2, what other SMs do.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from ..emulator.log import TYPES, WARP, Entry, Log, WarpLog
from ..emulator.text import Line
from .sm_rates import PARTS, SmRates

SLICE = 32.0  # clocks of a scheduler in a row for one warp while others want it
SUMS = ("work", "shared", "loaded", "stored", "multiply")
Key = tuple[int, int, int]  # resident, rank, and what is meant in that block


@dataclass(frozen=True, slots=True)
class Piece:
    """Something of warp `warp` from `start` to `end`, in clocks; `at` is the place of its entry in the warp's log, `amount` FLOP or bytes, `arrives`
    when a copy's data are there. `waited` names what a wait was for: (rank, mbarrier, phase)."""

    warp: int
    at: int
    kind: str
    line: Line | None
    start: float
    end: float
    amount: float = 0.0
    arrives: float = 0.0
    waited: Key | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """What happened in one block: pieces by start. `phases` says when a phase of an mbarrier ended: (rank, mbarrier, phase) -> clocks."""

    pieces: tuple[Piece, ...]
    phases: dict[Key, float]
    unmatched: int = 0  # waits that nothing in the log ends


def replay(log: Log, rates: SmRates, *, residents: int = 1, rank: int = 0) -> Replay:
    """Times for the block of that rank, while `residents` blocks like it share each SM of the cluster."""
    run = _Run(log, rates, residents)
    run.play()
    pieces = sorted(run.pieces, key=lambda s: (s.start, s.end, s.warp, s.at))
    phases = {(key[1], key[2], key[3]): when for key, when in run.done.items() if key[0] == 0 and key[1] == rank}
    return Replay(tuple(pieces), phases, run.unmatched)


@dataclass(slots=True, eq=False)
class _Warp:
    """A warp at work: where it is, and what it has started."""

    resident: int
    log: WarpLog
    now: float = 0.0
    at: int = 0
    left: tuple[float, float] = (0.0, 0.0)  # instructions and special results of a line that are still to do
    is_inside: bool = False  # of a line
    begun: float = 0.0
    until: float = 0.0  # when its requests to shared memory and its products are done
    reads: float = 0.0  # when what it reads from global memory is there
    groups: list[int] | None = None  # of products: how many were issued when each was closed
    issued: int = 0
    ends: list[float] | None = None  # of products that have started
    meetings: int = 0  # of the cluster that it came to
    copies: dict[int, float] | None = None
    stores: dict[int, float] | None = None

    @property
    def part(self) -> tuple[int, int]:
        return self.log.rank, self.log.index % PARTS


@dataclass(frozen=True, slots=True)
class _Request:
    """A product that a warp issued at `asked`; `at` is its place in the warp's log."""

    warp: _Warp
    at: int
    entry: Entry
    asked: float
    group: tuple[int, int]


@dataclass(slots=True)
class _Meeting:
    """The barrier of a cluster: who came to the one that is open, and when the last one of `done` opened."""

    came: int = 0
    done: int = 0
    when: float = 0.0


class _Run:
    def __init__(self, log: Log, rates: SmRates, residents: int) -> None:
        self.log, self.rates = log, rates
        self.warps = [_Warp(r, w, copies={}, groups=[], ends=[], stores={}) for r in range(residents) for w in log.warps]
        self.free: dict[tuple[str, int, int], float] = defaultdict(float)  # when a unit is free
        self.owed: dict[tuple[int, int, int, int], int] = defaultdict(int)  # (resident, rank, mbarrier, phase) -> contributions to come
        self.latest: dict[tuple[int, int, int, int], float] = defaultdict(float)
        self.done: dict[tuple[int, int, int, int], float] = {}
        self.waiting: dict[object, list[tuple[_Warp, float]]] = defaultdict(list)
        self.bars: dict[Key, tuple[int, float]] = {}
        self.clusters: dict[int, _Meeting] = defaultdict(_Meeting)
        self.pieces: list[Piece] = []
        self.queues: dict[tuple[int, int], list[_Request]] = defaultdict(list)  # products that wait for a tensor core
        self.served: dict[tuple[int, int], tuple[int, int]] = {}  # which warp's which group, by each tensor core last
        self.unmatched = 0
        self.order = 0
        self.heap: list[tuple[float, int, _Warp | tuple[int, int]]] = []  # who goes on when; of a tensor core: it is free
        for warp in self.warps:
            for entry in warp.log.entries:
                for key in self.contributions(warp, entry):
                    self.owed[key] += 1

    def contributions(self, warp: _Warp, e: Entry) -> Iterator[tuple[int, int, int, int]]:
        """The phases that an entry helps to end."""
        if e.kind in ("arrive", "load") and e.b >= 0:
            yield from ((warp.resident, rank, e.a, e.b) for rank in range(16) if e.p >> rank & 1)
        elif e.kind == "copy_arrive" and e.q >= 0:
            yield warp.resident, warp.log.rank, e.p, e.q

    # ------------------------------------------------------------------------------------------ the clock
    def play(self) -> None:
        for warp in self.warps:
            self.push(warp, 0.0)
        while True:
            while self.heap:
                now, _, who = heapq.heappop(self.heap)
                if isinstance(who, _Warp):
                    who.now = now
                    self.advance(who)
                else:
                    self.serve(who, now)
            if not (stuck := [item for group in self.waiting.values() for item in group]):
                return
            self.unmatched += len(stuck)  # not a deadlock: the program ended
            self.waiting.clear()
            for warp, since in stuck:
                warp.at += 1
                self.push(warp, since)

    def push(self, who: _Warp | tuple[int, int], when: float) -> None:
        self.order += 1
        heapq.heappush(self.heap, (when, self.order, who))

    def advance(self, warp: _Warp) -> None:
        """Go on until the warp has to wait for its turn or for others."""
        while warp.at < len(warp.log.entries):
            when = self.step(warp)
            if when is None:
                return
            warp.now = when
            if self.heap and when > self.heap[0][0]:
                self.push(warp, when)
                return

    def note(
        self, warp: _Warp, kind: str, e: Entry, start: float, end: float, amount: float = 0.0, arrives: float = 0.0, waited: Key | None = None,
        at: int | None = None,
    ) -> None:  # fmt: skip
        if warp.resident == 0 and warp.log.rank == 0 and (end > start or arrives or kind == "wait"):
            self.pieces.append(Piece(warp.log.index, warp.at if at is None else at, kind, e.line, start, end, amount, arrives, waited))

    def take(self, unit: str, place: tuple[int, int], now: float, clocks: float) -> tuple[float, float]:
        """From when to when a unit serves a request made now."""
        start = max(now, self.free[unit, *place])
        self.free[unit, *place] = start + clocks
        return start, start + clocks

    def tell(self, key: tuple[int, int, int, int], when: float) -> None:
        """A phase got one of its contributions; with the last one it ends."""
        self.owed[key] -= 1
        self.latest[key] = max(self.latest[key], when)
        if self.owed[key] == 0:
            self.done[key] = self.latest[key]
            for warp, since in self.waiting.pop(key, ()):
                self.wake(warp, since, self.done[key])

    def wake(self, warp: _Warp, since: float, when: float) -> None:
        """The wait at which a warp stands is over."""
        e = warp.log.entries[warp.at]
        waited = (warp.log.rank, e.a, e.b) if e.kind == "wait" else None
        self.note(warp, "wait" if e.kind == "wait" else "barrier", e, since, max(since, when), waited=waited)
        warp.at += 1
        self.push(warp, max(since, when))

    # ------------------------------------------------------------------------------------------ one entry
    def step(self, warp: _Warp) -> float | None:
        """Do the warp's next entry; when it goes on, None if that is not known yet."""
        e, now = warp.log.entries[warp.at], warp.now
        if e.kind in SUMS:
            return self.line(warp)
        place, own = (warp.log.rank, 0), (warp.resident, warp.log.rank)
        assert warp.copies is not None and warp.groups is not None and warp.ends is not None and warp.stores is not None
        match e.kind:
            case "copy" | "load":
                start, end = self.take("copy", place, now, e.n / self.rates.copy_bytes)
                there = end + self.rates.latency
                self.note(warp, e.kind, e, start, end, e.n, there)
                if e.kind == "copy":
                    warp.copies[e.a] = max(warp.copies.get(e.a, 0.0), there)
                for key in self.contributions(warp, e):
                    self.tell(key, there)
            case "copy_arrive":
                for key in self.contributions(warp, e):
                    self.tell(key, max(now, warp.copies.get(e.a, 0.0)))
            case "arrive":
                for key in self.contributions(warp, e):
                    self.tell(key, now)
            case "store":
                start, end = self.take("store", place, now, e.n / self.rates.copy_bytes)
                self.note(warp, "store", e, start, end, e.n)
                warp.stores[e.a] = max(warp.stores.get(e.a, 0.0), end)
            case "product":
                warp.issued += 1
                self.queues[warp.part].append(_Request(warp, warp.at, e, now, (id(warp), len(warp.groups))))
                self.serve(warp.part, now)
                if e.b and len(warp.ends) < warp.issued:
                    return None  # `serve` wakes it
            case "product_commit":
                warp.groups.append(warp.issued)
            case "product_wait":
                needed = warp.groups[e.a - 1] if 0 < e.a <= len(warp.groups) else 0
                if len(warp.ends) < needed:
                    self.waiting["products", id(warp)].append((warp, now))
                    return None
                until = max(now, warp.ends[needed - 1]) if needed else now
                self.note(warp, "product_wait", e, now, until)
                now = until
            case "copy_wait" | "store_wait":
                groups = {"copy_wait": warp.copies, "store_wait": warp.stores}[e.kind]
                until = max((t for g, t in groups.items() if g < e.a), default=now)
                self.note(warp, e.kind, e, now, max(now, until))
                now = max(now, until)
            case "wait":
                key = (*own, e.a, e.b)
                if e.b < 0 or key in self.done:
                    until = max(now, self.done.get(key, now))
                    self.note(warp, "wait", e, now, until, waited=(warp.log.rank, e.a, e.b))
                    now = until
                else:
                    self.waiting[key].append((warp, now))
                    return None
            case "bar":
                return self.bar(warp, (*own, e.a), e, now)
            case "cluster_arrive":
                self.clusters[warp.resident].came += 1
                warp.meetings += 1
                self.cluster_meets(warp.resident, now)
            case "cluster_wait":
                if self.clusters[warp.resident].done < warp.meetings:
                    self.waiting["cluster", warp.resident].append((warp, now))
                    return None
                now = max(now, self.clusters[warp.resident].when)
            case "end":
                self.cluster_meets(warp.resident, now)
            case _:  # a turn of a loop
                pass
        warp.at += 1
        return now

    def line(self, warp: _Warp) -> float:
        """What a warp does in one line: its requests go out together, then its instructions, a slice at a time."""
        entries, at = warp.log.entries, warp.at
        stop = at
        while stop < len(entries) and entries[stop].kind in SUMS and entries[stop].line == entries[at].line:
            stop += 1
        mine, place = entries[at:stop], (warp.log.rank, 0)
        if not warp.is_inside:
            warp.is_inside, warp.begun, warp.until, warp.reads = True, warp.now, warp.now, warp.now
            for e in mine:
                if e.kind == "shared":
                    warp.until = max(warp.until, self.take("shared", place, warp.now, e.n * 128 / self.rates.shared_bytes)[1])
                elif e.kind in ("loaded", "stored"):
                    path = "copy" if e.kind == "loaded" else "store"
                    start, end = self.take(path, place, warp.now, e.n / self.rates.copy_bytes)
                    there = end + self.rates.latency if e.kind == "loaded" else end
                    self.note(warp, e.kind, e, start, end, e.n, there)
                    warp.reads = max(warp.reads, there if e.kind == "loaded" else warp.now)
                elif e.kind == "multiply":
                    clocks = e.n / (self.rates.tensor(TYPES[e.a]) / PARTS)
                    warp.until = max(warp.until, self.take("tensor", warp.part, warp.now, clocks)[1])
            work = [e for e in mine if e.kind == "work"]
            warp.left = (sum(e.n for e in work) * self.rates.issue, sum(e.m for e in work) * self.rates.special)
        issue, special = warp.left
        parts = max(1, math.ceil(max(issue, special) / SLICE))
        begin, issued = self.take("issue", warp.part, warp.now, issue / parts)
        end = max(issued, self.take("special", warp.part, begin, special / parts)[1]) if special else issued
        warp.left = (issue - issue / parts, special - special / parts) if parts > 1 else (0.0, 0.0)
        if parts > 1:
            return end
        end = max(end, warp.until)
        self.note(warp, "work", mine[0], warp.begun, end)
        self.note(warp, "read_wait", mine[0], end, warp.reads)
        warp.is_inside, warp.at = False, stop
        return max(end, warp.reads)

    def serve(self, unit: tuple[int, int], now: float) -> None:
        """Start the next product on a tensor core if it is free: of the group that it served last, else of who waits longest."""
        queue = self.queues[unit]
        if not queue or self.free["tensor", *unit] > now:
            return
        last = self.served.get(unit)
        request = queue.pop(next((i for i, r in enumerate(queue) if r.group == last), 0))
        warp, e = request.warp, request.entry
        assert warp.ends is not None and warp.groups is not None
        end = self.take("tensor", unit, now, e.n / (self.rates.tensor(TYPES[e.a]) / PARTS))[1]
        self.served[unit] = request.group
        warp.ends.append(end)
        self.note(warp, "product", e, now, end, e.n, at=request.at)
        self.push(unit, end)
        if e.b and now > request.asked:  # the warp stood still
            self.note(warp, "queued", e, request.asked, now, at=request.at)
            warp.at += 1
            self.push(warp, now)
        for waiting, since in self.waiting.pop(("products", id(warp)), ()):
            self.push(waiting, since)  # it looks again

    # ------------------------------------------------------------------------------------------ barriers
    def bar(self, warp: _Warp, key: Key, e: Entry, now: float) -> float | None:
        count, latest = self.bars.get(key, (0, 0.0))
        count += min(WARP, self.log.block_threads - WARP * warp.log.index)
        latest = max(latest, now)
        if e.n and count < e.b:
            self.bars[key] = (count, latest)
            self.waiting[key].append((warp, now))
            return None
        if count >= e.b:
            self.bars[key] = (0, 0.0)
            for other, since in self.waiting.pop(key, ()):
                self.wake(other, since, latest)
            self.note(warp, "barrier", e, now, now)
        else:
            self.bars[key] = (count, latest)
        warp.at += 1
        return now

    def cluster_meets(self, resident: int, now: float) -> None:
        """The barrier of a cluster opens when all warps that have not ended have come."""
        meeting = self.clusters[resident]
        left = sum(w.resident == resident and w.at < len(w.log.entries) - 1 for w in self.warps)
        if meeting.came and meeting.came >= left:
            meeting.done, meeting.when, meeting.came = meeting.done + 1, now, 0
            for warp, since in self.waiting.pop(("cluster", resident), ()):
                self.wake(warp, since, meeting.when)

"""The time of a launch on a CPU: from the binding roof down to the prediction, in bars that add up.

A core's time is a sum over statements: amounts of work (`cpu_work`) times what each step costs (`cpu_costs`), plus what bytes from beyond L1 add
to it. A copy waits for its bytes; other statements hide most of that wait behind their arithmetic, and nobody waits for tiles that are not made.
Threads share the blocks; those left over at the end, and the start of the parallel region, come on top.

The prediction is for a launch that repeats: what fits in a cache is found there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..base.hardware import Machine
from ..ir.stmt import Kernel
from .counts import Counts
from .cpu_costs import CpuCosts, cpu_costs
from .cpu_work import CpuWork, Work, cpu_work
from .space import Array
from .traffic import Traffic
from .values import several, show
from .waterfall import Bar, Waterfall

SHOWN = 0.25  # of a wait that arithmetic could hide, the part that shows: addresses are not known early enough everywhere
HIDES = ("product", "reduction", "pass", "scalar")

# bar -> (cost names, the edit that would shrink it, the view that shows it)
_GROUPS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "micro-kernel": (("fma", "stream", "kernel"), "tiles that the micro-kernel's rows and vectors divide; more steps of k at a time", "source"),
    "packing": (("turn",), "keep the operand in the order that the product reads", "source"),
    "conversion": (("widen", "narrow"), "a larger tile converts each element fewer times", "source"),
    "exp and division": (("exp", "log", "div"), "fewer exponentials or divisions for each element", "source"),
    "passes and reductions": (("pass", "reduce", "reduce.row", "fill"), "join passes over one tile", "source"),
    "tile copies": (("copy",), "larger tiles are copied fewer times", "traffic"),
}


@dataclass(frozen=True, slots=True)
class StatementTime:
    """Nanoseconds of one statement on one core in a whole launch: by cost name, of padding in them, and waits by level, for `moved` bytes."""

    work: Work
    steps: Mapping[str, float]
    padding: float
    waits: Mapping[str, float]
    moved: Mapping[str, float]

    @property
    def seconds(self) -> float:
        return (sum(self.steps.values()) + sum(self.waits.values())) * 1e-9


def cpu_waterfall(
    kernel: Kernel,
    counts: Counts,
    traffic: Traffic,
    machine: Machine,
    dims: Mapping[str, int],
    *,
    threads: int = 1,
    scalars: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
) -> Waterfall:
    """The predicted time of one launch on a CPU, from the least that its binding roof allows.

    `counts` and `traffic` are those of the same kernel, dims and threads. Costs come from `machine.costs`, or are assumed from its peaks and rates.
    """
    costs = cpu_costs(machine, threads)
    near = machine.level(machine.nearest).capacity
    work = cpu_work(kernel, dims, machine.isa, near.bytes if near is not None else 32 << 10, scalars, arrays)
    times = statement_times(work, traffic, machine, costs)
    roof = binding_roof(counts, traffic, machine, threads)
    return _waterfall(roof, _parts(times, work, costs, threads), costs)


def binding_roof(counts: Counts, traffic: Traffic, machine: Machine, threads: int) -> Bar:
    """The roof that needs the most time: arithmetic at its peak, or a level's bytes at its bandwidth."""
    flops = sum(n / (machine.peak(dtype, threads).value * 1e9) for dtype, n in counts.flops.items())
    limits = {"compute": (flops, f"{show(counts.total_flops, 'FLOP')} at {machine.peak(_dtype(counts), threads)}")}
    for level in machine.levels:
        if level.core is not None:
            moved = float(counts.asked_bytes) if level.name == machine.nearest else warm_bytes(traffic, machine, level.name)
            rate = machine.bandwidth(level.name, threads)
            limits[level.name] = (moved / (rate.value * 1e9), f"{show(moved, 'B')} at {rate}")
    name = max(limits, key=lambda k: limits[k][0])
    return Bar(name, limits[name][0], limits[name][1], view="roofline")


def warm_bytes(traffic: Traffic, machine: Machine, level: str) -> float:
    """Bytes at a level in a launch that repeats the last one: none where the cache in front of it holds all the data."""
    return sum(f.bytes for f in traffic.flows if f.level == level) if _moves(traffic, machine, level) else 0.0


def _moves(traffic: Traffic, machine: Machine, level: str) -> bool:
    names = [x.name for x in machine.levels]
    cache = machine.levels[names.index(level) - 1]
    shared = 1 if cache.is_shared else traffic.threads
    return cache.capacity is None or traffic.footprint_bytes > 0.8 * cache.capacity.bytes * shared


def _dtype(counts: Counts) -> str:
    return max(counts.flops, key=lambda k: counts.flops[k], default="float32")


# ---------------------------------------------------------------------------------------------- statements
def statement_times(work: CpuWork, traffic: Traffic, machine: Machine, costs: CpuCosts) -> tuple[StatementTime, ...]:
    """What each statement takes on one core that does all the work."""
    waits: dict[Any, dict[str, tuple[float, float]]] = {}
    lines = sorted({line for s in work.statements if (line := _line(s.span)) is not None})
    for flow in traffic.flows:
        if flow.buffer not in work.gone and _moves(traffic, machine, flow.level):
            for line, read, written in _waiting(_line(flow.span), flow.read_bytes, flow.write_bytes, lines):
                at = waits.setdefault(line, {})
                before = at.get(flow.level, (0.0, 0.0))
                at[flow.level] = (before[0] + read, before[1] + written)
    out = []
    mine = _shares(work, costs)
    for statement in work.statements:
        share = mine[id(statement)]
        moved = {level: (share * a, share * b) for level, (a, b) in waits.get(_line(statement.span), {}).items()}
        steps = {name: amount * costs.of(name, statement.run_bytes) for name, amount in statement.amounts.items()}
        padding = sum(amount * costs.of(name) for name, amount in statement.padding.items())
        waiting = _waits(statement, moved, sum(steps.values()), costs)
        out.append(StatementTime(statement, steps, padding, waiting, {level: sum(pair) for level, pair in moved.items()}))
    return tuple(out)


def _waiting(line: Any, read: float, written: float, lines: list[tuple[str, int]]) -> list[tuple[Any, float, float]]:
    """Which lines wait for the bytes of one: of a copy that is not done, its reads meet the next statement, its writes the one before."""
    if line is None or line in lines or not lines:
        return [(line, read, written)]
    after, before = (next((x for x in lines if x > line), lines[-1]), next((x for x in reversed(lines) if x < line), lines[0]))
    return [(after, read, 0.0), (before, 0.0, written)]


def _shares(work: CpuWork, costs: CpuCosts) -> dict[int, float]:
    """Statements of one source line share its bytes by their own time."""
    own = {id(s): max(sum(a * costs.of(n) for n, a in s.amounts.items()), 1e-9) for s in work.statements}
    total: dict[Any, float] = {}
    for s in work.statements:
        total[_line(s.span)] = total.get(_line(s.span), 0.0) + own[id(s)]
    return {id(s): own[id(s)] / total[_line(s.span)] for s in work.statements}


def _waits(work: Work, moved: Mapping[str, tuple[float, float]], core: float, costs: CpuCosts) -> dict[str, float]:
    """Nanoseconds by level that a statement waits for `moved` (read, written) bytes beyond its own `core` time."""
    if work.kind not in HIDES:
        run = work.run_bytes
        return {level: a * costs.extra("load", level, run) + b * costs.extra("store", level, run) for level, (a, b) in moved.items()}
    raw = {level: (r + w) * costs.stream(level) for level, (r, w) in moved.items()}
    total = sum(raw.values())
    if not total:
        return {}
    exposed = max(0.0, total - core) + SHOWN * min(core, total)
    return {level: ns * exposed / total for level, ns in raw.items()}


def _line(span: Any) -> Any:
    return (span.file, span.line) if span is not None else None


# ---------------------------------------------------------------------------------------------- the whole launch
@dataclass(slots=True)
class _Part:
    """A bar in the making: its seconds, and amounts by cost name, or bytes where it is a wait."""

    seconds: float = 0.0
    amounts: dict[str, float] = field(default_factory=dict)
    why: str = ""


def _parts(times: tuple[StatementTime, ...], work: CpuWork, costs: CpuCosts, threads: int) -> dict[str, _Part]:
    """The parts of a launch on `threads` cores, by bar name."""
    parts: dict[str, _Part] = {}

    def put(name: str, ns: float, what: str = "", amount: float = 0.0, why: str = "") -> None:
        part = parts.setdefault(name, _Part(why=why))
        part.seconds += ns * 1e-9
        if amount:
            part.amounts[what] = part.amounts.get(what, 0.0) + amount

    for t in times:
        whole = sum(t.steps.values())
        kept = 1 - t.padding / whole if whole else 1.0
        put("masked lanes", t.padding / threads, why="lanes and rows of padding that nothing needs, at what they cost")
        for name, ns in t.steps.items():
            put(_bar_of(name), ns * kept / threads, name, t.work.amounts[name] * kept)
        for level, ns in t.waits.items():
            put(f"{level} wait", ns / threads, level, t.moved[level])
    if threads > 1:
        idle = idle_share(work.blocks, threads)
        why = f"{several(work.blocks, 'block')} on {threads} threads leave cores idle at the end"
        put("tail", 1e9 * idle * sum(part.seconds for part in parts.values()), why=why)
        fork, block = costs.of("fork"), costs.of("block")
        each = f"{several(work.blocks, 'block')} of {show(block * 1e-9, 's')} each"
        why = f"{several(work.regions, 'parallel region')} of {show(fork * 1e-9, 's')}, {each}"
        put("fork", work.regions * fork + work.blocks / threads * block, why=why)
    put("launch", costs.of("call"), why=f"one call, {show(costs.of('call') * 1e-9, 's')}")
    return parts


def idle_share(blocks: float, threads: int) -> float:
    """What the blocks left over at the end add, as a share of the time in which all cores work.

    >>> idle_share(4, 2), idle_share(3, 2)
    (0.0, 0.33333333333333326)
    """
    return (-(-blocks // threads) * threads / blocks - 1) if blocks > 0 else 0.0


def _bar_of(cost: str) -> str:
    return next(bar for bar, (names, _, _) in _GROUPS.items() if cost in names)


def _waterfall(roof: Bar, parts: dict[str, _Part], costs: CpuCosts) -> Waterfall:
    """Take the roof's time out of the parts that it stands for; the rest become bars, longest first."""
    left = roof.seconds
    own = {"compute": ("micro-kernel", "passes and reductions")}.get(roof.name, (f"{roof.name} wait", "tile copies"))
    whole = {name: part.seconds for name, part in parts.items()}
    for name in (*own, *sorted(parts, key=lambda k: -whole[k])):
        if name in parts:
            taken = min(left, parts[name].seconds)
            parts[name].seconds -= taken
            left -= taken
    rest = sorted(((name, part) for name, part in parts.items() if part.seconds > 0), key=lambda item: -item[1].seconds)
    return Waterfall(roof, tuple(_bar(name, part, costs, is_cut=part.seconds < whole[name]) for name, part in rest))


_EDITS = {
    "masked lanes": ("tile sizes that are multiples of the vector and of the panel", "source"),
    "tail": ("more, smaller blocks, or a number of them that the threads divide", "pipeline"),
    "fork": ("fewer, larger blocks", ""),
    "launch": ("", ""),
}


def _bar(name: str, part: _Part, costs: CpuCosts, *, is_cut: bool) -> Bar:
    """The bar with its reason in numbers. `is_cut`: the roof stands for some of it already."""
    beyond = ", less what the roof stands for" if is_cut else ""
    if name in _EDITS:
        return Bar(name, part.seconds, part.why + beyond, *_EDITS[name])
    if name in _GROUPS:
        _, edit, view = _GROUPS[name]
        return Bar(name, part.seconds, ", ".join(costs.words(cost, amount) for cost, amount in part.amounts.items()) + beyond, edit, view)
    level, moved = next(iter(part.amounts.items()), (name.split()[0], 0.0))
    why = f"{show(moved, 'B')} from {level}, as far as nothing hides the wait{beyond}"
    return Bar(name, part.seconds, why, "tiles that fit in a nearer cache, or are used more often", "traffic")

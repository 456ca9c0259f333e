"""What the marks of a memory chart say: tips in full sentences, and the tables into which a link opens."""

from __future__ import annotations

from typing import Any

from ..model.memory import SCRATCH, Link, MemoryChart, Place, Share
from ..model.report import percent
from ..model.steps import LoopSteps
from ..model.values import show

MOST_ROWS = 24  # of one table


def moved(link: Link, nbytes: float) -> str:
    """Bytes of a link; predicted ones carry a tilde."""
    return show(nbytes, "B") if link.is_counted or not nbytes else f"~{show(nbytes, 'B')}"


def counted(link: Link) -> str:
    """What a counter saw read, and by how much the prediction is off where that is more than a tenth."""
    expected = link.expected[0] if link.expected is not None else link.read_bytes
    return _beside(link.counted_bytes, expected, is_off=link.is_off)


def counted_written(link: Link) -> str:
    """The same of bytes written."""
    expected = link.expected[1] if link.expected is not None else link.write_bytes
    return _beside(link.counted_write_bytes, expected, is_off=link.is_off_written)


def _beside(seen: float | None, expected: float, *, is_off: bool) -> str:
    if seen is None:
        return "-"
    return f"{show(seen, 'B')}{f' ({expected / seen:.2g}x)' if is_off and seen else ''}"


def times(link: Link) -> str:
    """How often a needed byte moves."""
    return f"{link.times:.3g}x" if link.times is not None else "-"


def capacity(place: Place) -> str:
    """What it holds, and of whom: "48 KiB a core"."""
    if place.capacity is None:
        return ""
    if place.name == "registers":
        return f"{place.capacity}"
    return f"{place.capacity}{', shared' if place.is_shared else ''}"


def link_tip(link: Link) -> str:
    if not link.bytes:
        return f"Nothing moves between {link.above} and {link.level}."
    kind = "counted" if link.is_counted else "predicted"
    reuse = f" Needed once: {show(link.once_bytes, 'B')}, so each byte moves {link.times:.3g} times." if link.times is not None else ""
    split = f"{moved(link, link.read_bytes)} read, {moved(link, link.write_bytes)} written"
    split += f", {moved(link, link.atomic_bytes)} of it by atomic updates" if link.atomic_bytes else ""
    extra = f"\nStores that miss may fetch {moved(link, link.allocate_bytes)} more." if link.allocate_bytes else ""
    words = f"{link.level} moves {moved(link, link.bytes)} ({kind}): {split}.{reuse}"
    seen = f"\nCounters saw {show(link.counted_bytes, 'B')} read" if link.counted_bytes is not None else ""
    seen += f" and {show(link.counted_write_bytes, 'B')} written" if seen and link.counted_write_bytes is not None else ""
    seen += "." if seen else ""
    is_gpu = link.counted_write_bytes is not None  # only its counters tell what is written
    if is_gpu and link.level == "L2" and link.expected is not None and (link.counted_bytes or link.expected[0]) < 0.9 * link.expected[0]:
        seen += " Fewer than are asked for: probably what neighbours ask for at a time is merged, or found in L1."
    return f"{words}\nThat is {percent(link.busy)} of its roof, {link.roof}.{extra}{seen}"


def place_tip(place: Place) -> str:
    if place.name == "registers":
        return f"The kernel asks its registers' next level for {show(place.passed_bytes or 0, 'B')}."
    holds = f" holds {place.capacity}{' for all cores' if place.is_shared else ''}" if place.capacity is not None else " holds everything"
    if place.name == SCRATCH:
        return f"Shared memory{holds}; the kernel fills it itself, so nothing hits or misses."
    if place.hit_rate is None or place.passed_bytes is None:
        return f"{place.name}{holds}."
    found = f"{percent(place.hit_rate)} of the {show(place.asked_bytes, 'B')} asked of it are found there"
    return f"{place.name}{holds}. {found}; it asks the next level for {show(place.passed_bytes, 'B')}."


# ---------------------------------------------------------------------------------------------- tables
def details(chart: MemoryChart, steps: LoopSteps | None) -> dict[str, Any]:
    """By key of a link the tables it opens into: buffers, source lines, loop steps. By key of a place, what it holds and finds."""
    out: dict[str, Any] = {}
    for link in chart.links:
        tables = [_buffers(link), _lines(link)]
        if steps is not None and len(steps.steps) > 1:
            tables.append(_steps(link, steps))
        out[f"level:{link.level}"] = tables
    for place in chart.places:
        out[f"place:{place.name}"] = _place(place)
    return out


def _buffers(link: Link) -> dict[str, Any]:
    groups: dict[str, list[Share]] = {}
    for share in link.shares:
        groups.setdefault(share.buffer, []).append(share)
    rows = []
    for name, shares in groups.items():
        total, once = sum(s.bytes for s in shares), shares[0].once_bytes
        often = f"{total / once:.3g} times" if once else "-"
        sizes = [moved(link, sum(s.read_bytes for s in shares)), moved(link, sum(s.write_bytes for s in shares)), moved(link, total)]
        rows.append([name, *sizes, show(once, "B") if once else "-", often])
    caption = f"{link.above} - {link.level} by buffer: {moved(link, link.bytes)}"
    if link.times is not None:
        caption = f"{link.above} - {link.level} by buffer: needed once {show(link.once_bytes, 'B')}, moved {link.times:.3g} times"
    return {"caption": caption, "head": ["buffer", "read", "written", "moved", "needed once", "moved so often"], "rows": rows, "left": 1}


def _lines(link: Link) -> dict[str, Any]:
    rows = []
    for share in link.shares[:MOST_ROWS]:
        where = f"{share.span.label or share.span.file.rpartition('/')[2]}:{share.span.line}" if share.span is not None else "-"
        text = share.span.source_line().strip() if share.span is not None else ""
        rows.append([where, text, share.buffer, moved(link, share.read_bytes), moved(link, share.write_bytes)])
    head = ["line", "source", "buffer", "read", "written"]
    return {"caption": f"{link.above} - {link.level} by source line", "head": head, "rows": rows, "left": 3}


def _steps(link: Link, steps: LoopSteps) -> dict[str, Any]:
    so_far = steps.so_far(link.level)
    every = max(1, -(-len(steps.steps) // MOST_ROWS))
    rows, shown = [], 0.0
    for i, step in enumerate(steps.steps):
        shown += step.levels[link.level]
        if (i + 1) % every and i + 1 < len(steps.steps):
            continue
        rows.append([step.name if every == 1 else f"up to {step.name}", moved(link, shown), moved(link, so_far[i])])
        shown = 0.0
    whose = "all blocks together" if steps.block is None else f"block {steps.block}"
    caption = f"{link.above} - {link.level} by loop step, {whose}"
    return {"caption": caption, "head": ["step", "moved", "so far"], "rows": rows, "left": 1}


def _place(place: Place) -> dict[str, Any]:
    rows = [["capacity", capacity(place) or "-"], ["asked of it", show(place.asked_bytes, "B")]]
    if place.passed_bytes is not None:
        rows.append(["it asks the next level for", show(place.passed_bytes, "B")])
    rows.append(["found there", "-" if place.hit_rate is None else percent(place.hit_rate)])
    return {"caption": place.name, "head": ["what", "value"], "rows": rows, "left": 2}

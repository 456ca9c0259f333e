"""The memory chart: what moves between the kernel, the caches and DRAM, as links whose width is bytes and whose colour is the share of the roof.

The kernel stands left, DRAM right; reads run left, writes right. A link that nothing uses is grey, not gone. Below each link stand what it moves,
what it would move if each byte moved once, and what if no cache held anything. Choosing a link opens it: by buffer, by line, by loop step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..model.memory import Link, MemoryChart, Place, memory_chart
from ..model.report import Report, percent
from ..model.steps import LoopSteps, loop_steps
from ..model.values import show
from .labels import heading
from .marks import AnyMark, Path, Rect, Text
from .scene import Scene
from .theme import HEATS
from .traffic_words import counted, counted_written, details, link_tip, moved, place_tip, times
from .view import View, text_table
from .widths import cut_to

WIDTH = 640.0
BOX, TOP, TALL = 80.0, 12.0, 104.0
THICK = 15.0  # of the widest band
ROWS = ("moved", "of it atomic", "counted read", "counted written", "first launch", "needed once", "times", "worst case", "of its roof")


@dataclass(frozen=True, slots=True)
class TrafficChart(View):
    """The memory chart of a report. `steps` splits each link over the kernel's loop steps; without it they are worked out when a link is opened.

    What hardware counters saw stands beside the predictions where the report has it; where they were refused, one line says so.
    """

    report: Report
    steps: LoopSteps | None = None
    has_heading: bool = True

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return f"{self.report.kernel}: bytes between levels"

    @property
    def why_not(self) -> str:
        """Why counters say nothing, or, of a GPU, who counted what; empty where they spoke for themselves, or nobody asked."""
        seen = self.report.counters
        if seen is None or seen.missing or not seen.source:
            return seen.missing if seen is not None else ""
        return f"counted by {seen.source}, in a launch that {'finds nothing in a cache' if seen.is_first else 'repeats'}"

    @property
    def chart(self) -> MemoryChart:
        """What is drawn, as a value of the model."""
        return memory_chart(self.report)

    @property
    def data(self) -> dict[str, Any]:
        """Links and places as plain numbers, bytes and shares."""
        chart = self.chart
        links = [
            {
                "level": x.level, "above": x.above, "bytes": x.bytes, "read": x.read_bytes, "written": x.write_bytes, "atomic": x.atomic_bytes,
                "allocated": x.allocate_bytes, "cold": x.cold_bytes, "counters": x.counted_bytes, "counters_written": x.counted_write_bytes,
                "once": x.once_bytes, "worst": x.worst_bytes,
                "roof": x.roof.value * 1e9, "busy": x.busy, "counted": x.is_counted,
            }
            for x in chart.links
        ]  # fmt: skip
        places = [{"name": p.name, "capacity": p.capacity.bytes if p.capacity else None, "hit_rate": p.hit_rate} for p in chart.places]
        return {"links": links, "places": places}

    def __str__(self) -> str:
        chart = self.chart
        rows = []
        for link, place in zip(chart.links, chart.places[1:], strict=True):
            hit = "-" if place.hit_rate is None else percent(place.hit_rate)
            sizes = [moved(link, link.bytes), moved(link, link.read_bytes), moved(link, link.write_bytes)]
            least, most = show(link.once_bytes, "B"), show(link.worst_bytes, "B")
            rows.append([f"{link.above} - {link.level}", *sizes, least, times(link), most, percent(link.busy), hit])
        head = ["link", "moved", "read", "written", "once", "times", "worst", "of roof", "hits below"]
        lines = [self.title, text_table(head, rows)]
        for x in chart.links:
            if x.counted_bytes is not None:
                written = f", {counted_written(x)} written" if x.counted_write_bytes is not None else ""
                lines.append(f"{x.level}: counters saw {counted(x)} read{written}")
        return "\n".join([*lines, *([self.why_not] if self.why_not else [])])

    def scene(self) -> Scene:
        chart = self.chart
        marks, top = heading(self.title, self.report.verdict, WIDTH) if self.has_heading else ([], 0.0)
        gap = (WIDTH - 16 - BOX * len(chart.places)) / max(len(chart.links), 1)
        widest = max((max(x.read_bytes, x.write_bytes) for x in chart.links), default=0.0)
        y = top + TOP
        for i, place in enumerate(chart.places):
            marks += _box(place, 8 + i * (BOX + gap), y)
        marks += _asks(chart, y)
        for i, link in enumerate(chart.links):
            marks += _bands(link, 8 + BOX + i * (BOX + gap), gap, y, widest)
        marks += _table(chart.links, gap, y + TALL + 22)
        bottom = y + TALL + 22 + 17 * len(_rows(chart.links))
        if self.why_not:
            marks.append(Text(8, bottom + 2, cut_to(self.why_not, WIDTH - 16, 10), 10, "faint"))
            bottom += 16
        return Scene(WIDTH, bottom + 12, (*marks, *_legend(bottom - 4)), self.title, str(self))

    def live(self) -> dict[str, Any]:
        steps = self.steps or (loop_steps(self.report.ir, self.report) if self.report.ir is not None else None)
        return {**super(TrafficChart, self).live(), "tab": "traffic", "details": details(self.chart, steps)}


def _box(place: Place, x: float, y: float) -> list[AnyMark]:
    """A place: its name, its capacity, and a gauge of its hits."""
    colour = place.name
    about: dict[str, Any] = {"key": f"place:{place.name}", "tip": place_tip(place)}
    middle = x + BOX / 2
    name = "kernel" if place.name == "registers" else place.name
    marks: list[AnyMark] = [
        Rect(x, y, BOX, TALL, fill="surface", stroke=colour, stroke_width=1.5, radius=5, **about),
        Text(middle, y + 24, name, 13, colour, "middle", is_bold=True),
        Text(middle, y + 40, str(place.capacity or ""), 9.5, "faint", "middle"),
        Text(middle, y + 53, "for all cores" if place.is_shared and place.capacity is not None else "", 9, "faint", "middle"),
    ]
    if place.hit_rate is not None:
        long = BOX - 20
        marks += [
            Text(middle, y + 70, f"hits {percent(place.hit_rate)}", 11, anchor="middle"),
            Rect(x + 10, y + 80, long, 7, fill="unused"),
            Rect(x + 10, y + 80, long * place.hit_rate, 7, fill=colour),
        ]
    return marks


def _asks(chart: MemoryChart, y: float) -> list[AnyMark]:
    """What the kernel asks for, of its arguments and of its tiles: the logical side of the first link."""
    lines = ("asks", f"arrays {show(chart.arrays_bytes, 'B')}", f"tiles {show(chart.tiles_bytes, 'B')}")
    return [Text(8 + BOX / 2, y + 62 + 15 * i, line, 9.5, "text" if i else "faint", "middle") for i, line in enumerate(lines)]


def _bands(link: Link, x: float, gap: float, y: float, widest: float) -> list[AnyMark]:
    """Reads as a band to the left, writes as one to the right, each as thick as its bytes; grey and dashed where nothing moves."""
    marks: list[AnyMark] = []
    about: dict[str, Any] = {"key": f"level:{link.level}", "tip": link_tip(link)}
    colour = f"heat{min(int(link.busy * HEATS), HEATS - 1)}"
    for nbytes, at, is_read in ((link.read_bytes, y + 32, True), (link.write_bytes, y + 76, False)):
        left, right = x + 4, x + gap - 4
        if not nbytes:
            marks.append(Path(((left, at), (right, at)), "unused", 2.0, dash=(3.0, 3.0), **about))
            continue
        half = max(THICK * (nbytes / widest) ** 0.5, 2.5) / 2
        tip, tail, sign = (left, right, 1) if is_read else (right, left, -1)
        neck, wing = tip + sign * 9, half + 4
        arrow = ((tip, at), (neck, at - wing), (neck, at - half), (tail, at - half), (tail, at + half), (neck, at + half), (neck, at + wing))
        marks.append(Path(arrow, "text", 0.8, colour, is_closed=True, **about))
        marks.append(Text(x + gap / 2, at - half - 7 if is_read else at + half + 14, moved(link, nbytes), 10, anchor="middle", key=about["key"]))
    return marks


def _table(links: tuple[Link, ...], gap: float, y: float) -> list[AnyMark]:
    """Under each link its numbers, with what they are named under the kernel."""
    rows = _rows(links)
    marks: list[AnyMark] = [Text(8, y + 17 * row, name, 10.5, "faint") for row, name in enumerate(rows)]
    for i, link in enumerate(links):
        x = 8 + BOX + i * (BOX + gap) + gap / 2
        for row, name in enumerate(rows):
            cell = _cell(link, name)
            is_off = (name == "counted read" and link.is_off) or (name == "counted written" and link.is_off_written)
            colour = link.level if not row else "warning" if is_off else "text"
            marks.append(Text(x, y + 17 * row, cell, 10.5, colour, "middle", is_bold=not row, key=f"level:{link.level}"))
    return marks


def _rows(links: tuple[Link, ...]) -> list[str]:
    """The rows of the table; those of counters and of a first launch only where they say something."""
    missing = set() if any(x.atomic_bytes for x in links) else {"of it atomic"}
    if all(x.counted_bytes is None for x in links):
        missing.add("counted read")
    if all(x.counted_write_bytes is None for x in links):
        missing.add("counted written")
    if all(x.cold_bytes == x.bytes for x in links):
        missing.add("first launch")
    return [name for name in ROWS if name not in missing]


def _cell(link: Link, row: str) -> str:
    match row:
        case "moved":
            return moved(link, link.bytes)
        case "of it atomic":
            return moved(link, link.atomic_bytes)
        case "counted read":
            return counted(link)
        case "counted written":
            return counted_written(link)
        case "first launch":
            return moved(link, link.cold_bytes)
        case "needed once":
            return show(link.once_bytes, "B")
        case "times":
            return times(link)
        case "worst case":
            return show(link.worst_bytes, "B")
        case _:
            return percent(link.busy)


def _legend(y: float) -> list[AnyMark]:
    """What width and colour say."""
    marks: list[AnyMark] = [Text(8, y + 8, "width: bytes; upper arrow: read, lower: written; colour: share of the level's roof", 10, "faint")]
    x = WIDTH - 8 - 12 * HEATS - 36
    marks.append(Text(x - 4, y + 8, "0", 10, "faint", "end"))
    marks += [Rect(x + 12 * i, y, 12, 9, fill=f"heat{i}") for i in range(HEATS)]
    marks.append(Text(x + 12 * HEATS + 4, y + 8, "100 %", 10, "faint"))
    return marks

"""What a kernel without floating-point work shows instead of a roofline: each level's bytes a second against what the level delivers."""

from __future__ import annotations

from typing import Any

from ..model.report import Report, percent
from ..model.values import show
from .marks import AnyMark, Path, Rect, Text

LEFT = 74.0


def throughput_scene(r: Report, width: float, top: float) -> list[AnyMark]:
    """A row for each level: a track as long as the level's roof, a bar for what is reached, a tick where the prediction ends."""
    marks: list[AnyMark] = [
        Text(10, top + 16, "No floating-point work to place under a roof. Bytes a second, against what each level delivers:", 11.5)
    ]
    long = width - LEFT - 16
    seconds = r.judged_seconds
    for row, level in enumerate(r.levels):
        y = top + 34 + 42 * row
        share = min(r.shares[level.name], 1.0)
        rate = level.bytes / seconds if seconds else 0.0
        kind = r.badge or r.kind
        said = f"{'' if r.measured is not None else '~'}{show(rate, 'B/s')}, {percent(r.shares[level.name])} of {level.roof}"
        source = f" ({level.roof.source})" if level.roof.source else ""
        tip = f"{level.name} moves {show(level.bytes, 'B')} in {show(seconds, 's')}: {said}, {kind}.\nIts roof is {level.roof}{source}."
        about: dict[str, Any] = {"key": f"level:{level.name}", "tip": tip}
        marks += [
            Text(LEFT - 10, y + 17, level.name, 12, level.name, "end", is_bold=True),
            Rect(LEFT, y + 4, long, 16, fill="surface", stroke="grid", **about),
            Rect(LEFT, y + 4, max(long * share, 1.0), 16, fill=level.name, hatch="" if r.measured is not None else "background", **about),
            Text(LEFT, y + 33, said, 10.5, "faint"),
        ]
        if r.measured is not None and r.predicted.value:
            x = LEFT + long * min(level.seconds / r.predicted.value, 1.0)
            marks.append(Path(((x, y), (x, y + 24)), "text", 1.5, dash=(3.0, 2.0), group="ghost"))
    y = top + 40 + 42 * len(r.levels)
    words = f"bar: {r.badge or r.kind}; dashed tick: predicted" if r.measured is not None else "striped bar: predicted"
    marks += [Text(LEFT, y + 8, words, 10.5, "faint"), Text(width - 16, y + 8, "100 % of the level's roof", 10.5, "faint", "end")]
    return marks

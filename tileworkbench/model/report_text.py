"""A report in words: the verdict, why, and the whole table as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .values import show

if TYPE_CHECKING:
    from .report import Report

LATENCY = 0.6  # below this share of every roof a kernel waits rather than works
ABOVE = 1.05  # a point this far above a roof is an error of the model or of the measurement


def percent(share: float) -> str:
    """A share with a space before the sign; below one percent with a digit more."""
    return f"{share * 100:.0f} %" if share >= 0.01 or not share else f"{share * 100:.1g} %"


def words(dtype: str) -> str:
    """A dtype key for people: "float16>float32" is "float16 into float32"."""
    return dtype.replace(">", " into ")


def verdict(r: Report) -> str:
    """One sentence: what bounds the kernel and how near it is. A predicted one says so, and one that cannot run says why."""
    if r.occupancy is not None and not r.occupancy.is_legal:
        return f"does not fit: {r.occupancy.refusal}"
    if not any(r.limits.values()):
        return "nothing runs: the grid is empty"
    if r.measured is None:
        return f"{_judgement(r)}; predicted, {r.predicted}"
    best = f"; best of {r.measured.runs} runs, which vary by {r.measured.variation}" if r.measured.is_unstable else ""
    return _judgement(r) + best


def _judgement(r: Report) -> str:
    name, share = max(r.shares.items(), key=lambda item: item[1])
    if share > ABOVE:
        return f"above the {name} roof: {percent(share)} of {roof_words(r, name)}; the model counts what did not happen, or the roof is too low"
    if share < LATENCY and r.measured is None and r.waterfall.bars:
        return f"held back by {r.waterfall.largest_gap.name}: the nearest roof is {name}, {percent(share)} of {roof_words(r, name)}"
    if share < LATENCY:
        return f"latency-bound: the nearest roof is {name}, {percent(share)} of {roof_words(r, name)}"
    return f"{name}-bound: {percent(share)} of {roof_words(r, name)}"


def roof_words(r: Report, name: str) -> str:
    """A roof's rate, with what it is a rate of."""
    if name != "compute":
        return str(r.machine.bandwidth(name, r.threads))
    busiest = max(r.unit_seconds, key=lambda u: r.unit_seconds[u], default="fma")
    if r.machine.is_gpu and busiest == "sfu":
        return f"{r.machine.special_rate(r.threads)} (exp and division)"
    extra = " with exp and division" if r.special_share > 0.2 else ""
    return f"{r.peak} ({words(r.dtype)}{', ' + busiest if r.machine.is_gpu else ''}){extra}"


def text_lines(r: Report) -> list[str]:
    """The report as plain text."""
    return list(_lines(r))


def _levels(r: Report) -> Iterator[str]:
    """The levels as a table; what hardware counters saw has a column where they saw anything."""
    seen = {x.name: r.counters.moved(x.name) if r.counters is not None else None for x in r.levels}
    has_counts = any(n is not None for n in seen.values())

    def line(name: str, size: str, counted: str, *cells: str) -> str:
        return f"  {name:<6} {size:>10}{f' {counted:>10}' if has_counts else ''} " + " ".join(f"{c:>10}" for c in cells[:-1]) + f" {cells[-1]:>8}"

    yield line("level", "bytes", "counted", "needed", "no reuse", "FLOP/byte", "roof", "reached")
    for level in r.levels:
        ai = f"{level.intensity:.3g}" if level.intensity is not None else "-"
        size = show(level.bytes, "B") if level.is_counted else f"~{show(level.bytes, 'B')}"
        n, once, worst = seen[level.name], show(level.compulsory_bytes, "B"), show(level.worst_bytes, "B")
        yield line(level.name, size, show(n, "B") if n is not None else "-", once, worst, ai, str(level.roof), percent(r.shares[level.name]))
    yield line("peak", "", "", "", "", "", str(r.peak), f"{percent(r.shares['compute'])}") + f"  {words(r.dtype)}"


def _lines(r: Report) -> Iterator[str]:
    c = r.counts
    dims = ", ".join(f"{k}={v}" for k, v in r.dims.items())
    yield f"{r.kernel}{f' ({dims})' if dims else ''} {r.where}"
    yield f"  {r.verdict}"
    yield f"  time {r.time}{f', {r.kind}' if not r.badge else ''}" + (f"; predicted {r.predicted}" if r.measured is not None else "")
    by_unit = {k: n for k, n in r.flops_by_unit.items() if k[0] != "sfu"}
    flops = (
        ", ".join(f"{show(n, 'FLOP')} {words(dtype)}{f' ({unit})' if r.machine.is_gpu else ''}" for (unit, dtype), n in by_unit.items()) or "no FLOP"
    )
    special = ", ".join(f"{show(n, '').strip()} {kind}" for kind, n in c.special.items())
    yield f"  work {flops}" + (f"; {special}" if special else "") + (f"; useful {show(r.useful_flops, 'FLOP')}" if r.useful_flops else "")
    yield from _levels(r)
    yield f"  compulsory {show(c.compulsory_bytes, 'B')}: every byte of the arguments once"
    if r.is_warm and (gone := [x for x in r.levels if x.cold_bytes and not x.bytes]):
        first = ", ".join(f"~{show(x.cold_bytes, 'B')} at {x.name}" for x in gone)
        yield f"  the data fit in a cache: repeated launches move nothing at {' and '.join(x.name for x in gone)}, the first one {first}"
    if r.occupancy is not None:
        made = r.occupancy.by
        by = f", as {made} compiled it" if made else ", estimated from the tiles" if r.occupancy.max_warps else ""
        yield f"  fit{by}: {r.occupancy.sentence}"
    if r.waterfall.bars:
        parts = [f"{bar.name} {'+' if i else ''}{show(bar.seconds, 's')}" for i, bar in enumerate((r.waterfall.roof, *r.waterfall.bars))]
        yield f"  predicted time: {', '.join(parts)}"
    if r.edit:
        yield f"  try: {r.edit}"
    if r.counters is not None:
        yield f"  counted: {r.counters}" if r.counters.values else f"  {r.counters}"
    yield from (f"  assumed: {a}" for a in r.assumptions)

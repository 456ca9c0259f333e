"""The roofs of a roofline: what the machine reached when it was measured, what it should reach on paper, and peaks of other arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.quantity import Quantity
from ..model.report import Report, words

APART = 0.03  # a theoretical roof nearer to the measured one than this is not drawn
SMALL = 0.02  # of all FLOP: arithmetic of less gets no peak of its own


@dataclass(frozen=True, slots=True)
class Roof:
    """A bandwidth (of `level`) or, with `level` "compute", a peak. `kind` is "main", "theory", or "other" for a peak of other arithmetic."""

    level: str
    kind: str
    quantity: Quantity
    label: str

    @property
    def is_peak(self) -> bool:
        return self.level == "compute"

    @property
    def value(self) -> float:
        """FLOP/s or bytes/s."""
        return self.quantity.value * 1e9

    @property
    def key(self) -> str:
        return f"level:{self.level}"


def roofs_of(r: Report) -> tuple[Roof, ...]:
    """Levels from the nearest down, then the peak, then what is known in theory, then other peaks."""
    main = [Roof(x.name, "main", x.roof, f"{x.name} {x.roof}") for x in r.levels]
    peak = Roof("compute", "main", r.peak, f"{r.peak} {words(r.dtype)}")
    return (*main, peak, *_theory(r, [*main, peak]), *_others(r))


def _theory(r: Report, main: list[Roof]) -> list[Roof]:
    paper = r.machine.theory
    if paper is None:
        return []
    unit, dtype = r.main_unit
    out = []
    for roof in main:
        if roof.is_peak:
            stated = paper.peak(dtype, r.threads, unit)
        elif any(x.name == roof.level and x.core is not None for x in paper.levels):
            stated = paper.bandwidth(roof.level, r.threads)
        else:
            continue
        if abs(stated.value / roof.quantity.value - 1) > APART:
            out.append(Roof(roof.level, "theory", stated, f"{stated} in theory"))
    return out


def _others(r: Report) -> list[Roof]:
    """Peaks of arithmetic in another unit or dtype than most of it, of which there is some."""
    out = []
    for (unit, dtype), flops in r.flops_by_unit.items():
        if unit == "sfu" or (unit, dtype) == r.main_unit or flops < SMALL * r.counts.total_flops:
            continue
        peak = r.machine.peak(dtype, r.threads, unit)
        if abs(peak.value / r.peak.value - 1) > APART:
            out.append(Roof("compute", "other", peak, f"{peak} {words(dtype)}"))
    return out

"""The names that `--expect` knows: the report's facts as amounts with units."""

from __future__ import annotations

from ..model.report import Report
from .amount import BANDWIDTH, BYTES, FLOP, INTENSITY, NONE, RATE, SECONDS, Amount, Kind

KINDS: dict[str, Kind] = {"": NONE, "B": BYTES, "s": SECONDS, "FLOP": FLOP, "B/s": BANDWIDTH, "FLOP/s": RATE, "FLOP/B": INTENSITY}


def facts_of(report: Report) -> dict[str, Amount]:
    """Every fact of `report` by the name that a condition uses, such as `dram.bytes`."""
    return {name: Amount(value, KINDS[unit]) for name, (value, unit) in report.facts.items()}

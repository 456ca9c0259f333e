"""Bytes so far by level, while a recorded run goes on: what the interpreter counted, laid over what the model predicts for each level."""

from __future__ import annotations

from collections.abc import Mapping

from ..interpret.trace import Recorder
from .report import Report

Moved = Mapping[tuple[str, str], int]  # bytes by (buffer, "read" or "write")


class Meter:
    """Turns the bytes that a run counted into bytes by level, which end at the report's.

    The first touch of a byte moves it through every level. What a level moves beyond that (bytes that a cache did not keep) is spread evenly over the
    accesses that follow.
    """

    def __init__(self, report: Report, moved: Moved, touched: Moved) -> None:
        self.moved, self.touched = moved, touched
        self.levels = {level.name: self._flows(report, level.name, level.bytes) for level in report.levels}

    def _flows(self, report: Report, name: str, whole: float) -> dict[tuple[str, str], float]:
        """Bytes of each (buffer, direction) at a level; they add up to the report's."""
        flows: dict[tuple[str, str], float] = {}
        for f in report.traffic.flows:
            if f.level == name:
                for key, n in (((f.buffer, "read"), f.read_bytes), ((f.buffer, "write"), f.write_bytes)):
                    flows[key] = flows.get(key, 0.0) + n
        if not any(flows.values()):  # a counted level: everything that is asked
            flows = {key: float(n) for key, n in self.moved.items()}
        have = sum(flows.values())
        return {key: n * whole / have for key, n in flows.items() if n} if have else {}

    def so_far(self, moved: Moved, touched: Moved) -> dict[str, float]:
        """Bytes by level when `moved` of the counted bytes have moved, `touched` of them for the first time."""
        everything = sum(self.moved.values())
        share = sum(moved.values()) / everything if everything else 1.0
        return {level: sum(self._part(key, n, moved, touched, share) for key, n in flows.items()) for level, flows in self.levels.items()}

    def _part(self, key: tuple[str, str], whole: float, moved: Moved, touched: Moved, share: float) -> float:
        asked, first = self.moved.get(key, 0), self.touched.get(key, 0)
        if not asked:
            return whole * share
        again = moved.get(key, 0) - touched.get(key, 0), asked - first
        least = min(whole, first)
        return least * (touched.get(key, 0) / first if first else 1.0) + (whole - least) * (again[0] / again[1] if again[1] else 1.0)


def touched_by(recorder: Recorder) -> Moved:
    """Bytes of global buffers that were touched so far, each once."""
    return {(c.buffer, way): n for c in recorder.touched() for way, n in (("read", c.read_bytes), ("write", c.written_bytes))}

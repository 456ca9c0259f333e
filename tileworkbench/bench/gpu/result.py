"""One line of the bench as a value: how long both sides took, in which ratio, and what is known of the kernel."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from .problems import Problem

GOOD, WRONG, REFUSED, FAILED = "ok", "WRONG", "refused", "failed"


@dataclass(frozen=True, slots=True)
class Result:
    """`status` is "ok", "WRONG" (never timed), "refused" (the compiler's word) or "failed"; `why` says more.

    `us`, `peer_us`, `copy_us`: medians of the alternation. `alt` and `seg`: the best peer's time over ours by both methods; `copy_alt` and
    `copy_seg`: a copy's, for as many bytes. `peers`: microseconds of every way that ran; `absent`: why others did not.
    """

    problem: Problem
    status: str
    why: str = ""
    us: float | None = None
    peer: str = ""
    peer_us: float | None = None
    copy_us: float | None = None
    alt: float | None = None
    seg: float | None = None
    copy_alt: float | None = None
    copy_seg: float | None = None
    roof_us: float | None = None
    error: float | None = None
    schedule: str = ""
    registers: int | None = None
    spilt_bytes: int | None = None
    shared_bytes: int | None = None
    compile_ms: float | None = None
    notes: tuple[str, ...] = ()
    peers: dict[str, float] | None = None
    absent: dict[str, str] | None = None

    @property
    def judged(self) -> float | None:
        """The ratio that the floor is about."""
        return self.copy_alt if self.problem.is_copy_bound else self.alt

    @property
    def reached(self) -> float:
        """What was reached over the floor; 0 for a kernel that did not run, or runs wrong."""
        return (self.judged or 0.0) / self.problem.floor if self.status == GOOD else 0.0

    @property
    def of_roof(self) -> float | None:
        return self.roof_us / self.us if self.roof_us and self.us else None

    def rate(self, microseconds: float | None) -> float | None:
        """TFLOP/s, or GB/s where bytes are what counts."""
        if not microseconds:
            return None
        p = self.problem
        return p.bytes / microseconds / 1e3 if p.is_counted_in_bytes else p.flops / microseconds / 1e6

    @property
    def copy_rate(self) -> float | None:
        """GB/s of a copy of as many bytes, read and written."""
        return self.problem.bytes / self.copy_us / 1e3 if self.copy_us else None

    @property
    def unit(self) -> str:
        return "GB/s" if self.problem.is_counted_in_bytes else "TF"

    def as_json(self) -> dict[str, Any]:
        """The record that `--json` keeps."""
        p = self.problem
        about = {
            "name": p.name, "group": p.group, "shape": list(p.shape), "dtype": p.dtype, "layout": "nt" if p.is_nt or p.kind == "scaled" else "nn",
            "causal": p.is_causal, "kv_heads": p.kv_heads, "floor": p.floor, "first": p.first, "floor_of": "copy" if p.is_copy_bound else "peer",
            "reached": self.reached, "of_roof": self.of_roof, "unit": self.unit, "rate": self.rate(self.us), "peer_rate": self.rate(self.peer_us),
            "copy_rate": self.copy_rate,
        }  # fmt: skip
        return about | self.data()

    def data(self) -> dict[str, Any]:
        """Plain values of all but the problem, from which `from_data` makes the result again."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "problem"}

    @staticmethod
    def from_data(problem: Problem, data: dict[str, Any]) -> Result:
        """The inverse of `data`; raises TypeError for what is none."""
        return Result(problem, **{**data, "notes": tuple(data.get("notes", ()))})

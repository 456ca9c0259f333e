"""One line of the bench as a value: how long each contestant took, and what that is beside the best peer, a copy and the roof."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .problems import Problem
from .roof import Roof

NOT_PEERS = ("ours", "copy")
SAME_CLOCK = 0.03  # two sides whose clocks differ by more did not run at the same speed of the machine


@dataclass(frozen=True, slots=True)
class Result:
    """Medians of clean samples in seconds by contestant; `clocks` in FLOP/s of a register probe; `errors` say what could not run.

    `versions` name each contestant and the way that was its fastest; `difference` is between our result and a peer's, over the largest value.
    """

    problem: Problem
    seconds: dict[str, float]
    clean: dict[str, int]  # samples that count
    versions: dict[str, str]
    clocks: dict[str, float] = field(default_factory=dict)
    schedule: str = ""
    errors: dict[str, str] = field(default_factory=dict)
    difference: float = 0.0
    roof: Roof | None = None

    @property
    def best_peer(self) -> str:
        """The fastest contestant but us and the copy; "" where none ran."""
        peers = {k: v for k, v in self.seconds.items() if k not in NOT_PEERS}
        return min(peers, key=lambda k: peers[k], default="")

    @property
    def ratio(self) -> float | None:
        """The best peer's time over ours; None where one is missing."""
        if "ours" not in self.seconds or not self.best_peer:
            return None
        return self.seconds[self.best_peer] / self.seconds["ours"]

    @property
    def of_copy(self) -> float | None:
        """Our bytes a second over those of a copy of the problem's array, which reads it and writes it once; None where one is missing."""
        if "ours" not in self.seconds or "copy" not in self.seconds:
            return None
        size = {"float32": 4, "bfloat16": 2, "int8": 1}[self.problem.dtype]
        copied = 2 * size
        for n in self.problem.shape:
            copied *= n
        return (self.problem.bytes / self.seconds["ours"]) / (copied / self.seconds["copy"])

    @property
    def of_roof(self) -> float | None:
        """The least time that the machine allows over ours; None where one is unknown."""
        return self.roof.seconds / self.seconds["ours"] if self.roof and "ours" in self.seconds else None

    @property
    def reached(self) -> float:
        """What the floor is about, over the floor; 0 where it is unknown."""
        judged = self.of_copy if self.problem.is_copy_bound else self.ratio
        return (judged or 0.0) / self.problem.floor

    @property
    def clock_ratio(self) -> float | None:
        """Our clock over that of the side we are judged by."""
        other = "copy" if self.problem.is_copy_bound else self.best_peer
        mine, theirs = self.clocks.get("ours", 0.0), self.clocks.get(other, 0.0)
        return mine / theirs if mine and theirs else None

    @property
    def is_same_clock(self) -> bool:
        """Whether both sides ran at one speed of the machine, as far as the probe tells."""
        return self.clock_ratio is None or abs(self.clock_ratio - 1) <= SAME_CLOCK

    def as_json(self) -> dict[str, Any]:
        """The record that `--json` keeps: seconds, ratios, and FLOP/s of the register probe."""
        p = self.problem
        return {
            "group": p.group, "shape": list(p.shape), "dtype": p.dtype, "threads": p.threads, "causal": p.is_causal,
            "ours": self.seconds.get("ours"), "peers": {k: v for k, v in self.seconds.items() if k not in NOT_PEERS},
            "best_peer": self.best_peer, "ratio": self.ratio, "copy": self.seconds.get("copy"), "of_copy": self.of_copy,
            "floor": p.floor, "floor_of": "copy" if p.is_copy_bound else "peer", "reached": self.reached,
            "of_roof": self.of_roof, "roof": self.roof.bound if self.roof else "", "schedule": self.schedule, "clean_samples": self.clean,
            "probe": self.clocks, "clock_ratio": self.clock_ratio, "versions": self.versions, "errors": self.errors, "difference": self.difference,
        }  # fmt: skip

"""What a processor's own counters said of a launch, to stand beside the prediction; or why they said nothing.

>>> c = Counters({"cycles": 3.0e6, "instructions": 6.0e6, "LLC misses": 1000.0}, launches=4)
>>> c.bytes("DRAM"), c.instructions_per_cycle
(64000.0, 2.0)
>>> print(Counters({}, missing="no counters: this system is not Linux"))
no counters: this system is not Linux
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LINE_BYTES = 64
_LEVELS = {"L2": "L1D misses", "DRAM": "LLC misses"}  # bytes at a level are those that the cache in front of it misses


@dataclass(frozen=True, slots=True)
class Counters:
    """Counts of one launch, on all its threads: the mean of `launches`. `missing` is one line on what could not be counted, or "".

    values: by event, of "cycles", "instructions", "L1D loads", "L1D misses", "LLC loads" and "LLC misses" those that this processor counts.
    `counted`: of the time of the launches the least share in which an event was counted; counts are scaled up by it.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    launches: int = 0
    missing: str = ""
    counted: float = 1.0

    def bytes(self, level: str) -> float | None:
        """Bytes read at "L2" or "DRAM", by the lines that were missed in front of it; None where that was not counted.

        Lines that the hardware fetched ahead are missing from them, so they may be fewer than predicted.
        """
        misses = self.values.get(_LEVELS.get(level, ""))
        return None if misses is None else misses * LINE_BYTES

    @property
    def instructions_per_cycle(self) -> float | None:
        """None where either was not counted."""
        cycles, instructions = self.values.get("cycles"), self.values.get("instructions")
        return instructions / cycles if cycles and instructions is not None else None

    def __str__(self) -> str:
        parts = [f"{name} {value:.3g}" for name, value in self.values.items()]
        if self.instructions_per_cycle is not None:
            parts.append(f"{self.instructions_per_cycle:.2f} instructions a cycle")
        return "; ".join([", ".join(parts)] * bool(parts) + [self.missing] * bool(self.missing))

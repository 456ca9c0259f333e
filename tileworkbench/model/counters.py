"""What a processor's own counters said of a launch, to stand beside the prediction; or why they said nothing.

>>> c = Counters({"cycles": 3.0e6, "instructions": 6.0e6, "LLC misses": 1000.0}, launches=4)
>>> c.bytes("DRAM"), c.instructions_per_cycle
(64000.0, 2.0)
>>> gpu = Counters({"DRAM read": 2.0e6, "DRAM written": 1.0e6}, launches=1, source="ncu", is_first=True)
>>> gpu.bytes("DRAM"), gpu.written("DRAM"), gpu.bytes("L2")
(2000000.0, 1000000.0, None)
>>> print(Counters({}, missing="no counters: this system is not Linux"))
no counters: this system is not Linux
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LINE_BYTES = 64
_LEVELS = {"L2": "L1D misses", "DRAM": "LLC misses"}  # of a CPU: bytes at a level are those that the cache in front of it misses
_SHOWN_AS_BYTES = (" read", " written", " all")


@dataclass(frozen=True, slots=True)
class Counters:
    """Counts of one launch, on all its threads: the mean of `launches`. `missing` is one line on what could not be counted, or "".

    values: by event. Of a CPU "cycles", "instructions", "L1D loads", "L1D misses", "LLC loads" and "LLC misses", as far as it counts them. Of a GPU
    bytes as "DRAM read", "DRAM written", "L2 read", "L2 written" (what the multiprocessors ask of L2), "L2 all" (with what it moves itself), and
    "shared wavefronts", "shared load wavefronts", "shared store wavefronts", "bank conflicts", "instructions", "cycles", "nanoseconds".
    `counted`: of the time of the launches the least share in which an event was counted; counts are scaled up by it.
    `source` names what counted; `is_first` says that the launch found nothing in a cache, as a first one does.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    launches: int = 0
    missing: str = ""
    counted: float = 1.0
    source: str = ""
    is_first: bool = False

    def bytes(self, level: str) -> float | None:
        """Bytes read at "L2" or "DRAM"; None where that was not counted. On a CPU by the lines that were missed in front of it.

        Lines that a CPU fetched ahead are missing from them, so they may be fewer than predicted.
        """
        if f"{level} read" in self.values:
            return self.values[f"{level} read"]
        misses = self.values.get(_LEVELS.get(level, ""))
        return None if misses is None else misses * LINE_BYTES

    def written(self, level: str) -> float | None:
        """Bytes written at "L2" or "DRAM"; None where that was not counted, as on a CPU."""
        return self.values.get(f"{level} written")

    def moved(self, level: str) -> float | None:
        """Bytes read and written at "L2" or "DRAM"; None where not both were counted."""
        read, written = self.bytes(level), self.written(level)
        return read + written if read is not None and written is not None else None

    @property
    def instructions_per_cycle(self) -> float | None:
        """None where either was not counted, and on a GPU, whose cycles are those of one multiprocessor."""
        cycles, instructions = self.values.get("cycles"), self.values.get("instructions")
        return instructions / cycles if cycles and instructions is not None and not self.is_first else None

    def __str__(self) -> str:
        parts = [f"{name} {value / 1e6:.4g} MB" if name.endswith(_SHOWN_AS_BYTES) else f"{name} {value:.3g}" for name, value in self.values.items()]
        if self.instructions_per_cycle is not None:
            parts.append(f"{self.instructions_per_cycle:.2f} instructions a cycle")
        if self.source and parts:
            parts.append(f"by {self.source}{', in a launch that finds nothing in a cache' if self.is_first else ''}")
        return "; ".join([", ".join(parts)] * bool(parts) + [self.missing] * bool(self.missing))

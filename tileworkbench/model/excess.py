"""What an emulated run saw beyond the least: wavefronts of shared memory that conflicts add, and sectors of global memory that nobody asked for.

A run of a few blocks tells what a launch of thousands would do: its counts are scaled by the bytes that both ask of global memory.

>>> lines = {None: {"shared_load_wavefronts": 320, "shared_load_ideal": 10, "global_loads": 4, "global_load_sectors": 128, "global_load_bytes": 512}}
>>> excess_of(lines, asked_bytes=1024)
Excess(wavefronts=620.0, ideal_wavefronts=20.0, sectors=224.0, ideal_sectors=32.0, scale=2.0, worst_wavefronts=None, worst_sectors=None)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SECTOR = 32
WAVEFRONT = 128  # bytes that the banks of shared memory move in one


@dataclass(frozen=True, slots=True)
class Excess:
    """Numbers for the whole launch: `wavefronts` and `sectors` are those above `ideal_wavefronts` and `ideal_sectors`.

    `scale` is how many times the emulated run the launch is; `worst_wavefronts` and `worst_sectors` are the lines that add most, as they print.
    """

    wavefronts: float
    ideal_wavefronts: float
    sectors: float
    ideal_sectors: float
    scale: float = 1.0
    worst_wavefronts: str | None = None
    worst_sectors: str | None = None

    @property
    def shared_bytes(self) -> float:
        """Bytes that shared memory could have moved in the additional wavefronts."""
        return self.wavefronts * WAVEFRONT

    @property
    def sector_bytes(self) -> float:
        """Bytes of the additional sectors, which L2 moves."""
        return self.sectors * SECTOR


def excess_of(by_line: Mapping[Any, Any], asked_bytes: float) -> Excess:
    """Sum up an emulated run: `by_line` are its counters (`emulator.LineCounters`, or names with numbers) by line of the author's, or None.

    `asked_bytes` are those that the launch asks of global memory; 0: the counts stand for themselves.
    """
    waves: dict[Any, float] = {}
    sectors: dict[Any, float] = {}
    ideal_waves = ideal_sectors = seen = 0.0
    for line, counters in by_line.items():
        n: Mapping[str, float] = counters if isinstance(counters, Mapping) else counters.to_dict()
        waves[line] = sectors[line] = 0.0
        for side in ("load", "store"):
            ideal = float(n.get(f"shared_{side}_ideal", 0))
            waves[line] += max(0.0, n.get(f"shared_{side}_wavefronts", 0) - ideal)
            ideal_waves += ideal
            asked = n.get(f"global_{side}_bytes", 0)
            least = max(float(n.get(f"global_{side}s", 0)), asked / SECTOR)  # a request needs one at least
            least = min(least, float(n.get(f"global_{side}_sectors", 0)))
            sectors[line] += n.get(f"global_{side}_sectors", 0) - least
            ideal_sectors += least
            seen += asked + n.get(f"tma_{side}_bytes", 0)
    scale = asked_bytes / seen if seen and asked_bytes else 1.0
    worst = [max((x for x in found if x is not None and found[x]), key=lambda x: found[x], default=None) for found in (waves, sectors)]
    return Excess(
        sum(waves.values()) * scale, ideal_waves * scale, sum(sectors.values()) * scale, ideal_sectors * scale, scale,
        *(str(line) if line is not None else None for line in worst),
    )  # fmt: skip

"""What a machine can do: peaks by dtype, and capacity and bandwidth of every memory level.

Each number is a `Quantity` that says where it comes from, so a picture can draw measured ceilings solid and theoretical ones dashed.
Levels run from the fastest to the largest; a level's bandwidth is the rate at which it feeds the level above it, reads only, so
`bandwidth("DRAM")` is what DRAM delivers to the caches and `bandwidth("L1")` what L1 delivers to the registers.

>>> REFERENCE_CPU.peak("float32").value, REFERENCE_CPU.bandwidth("DRAM").value
(215, 15)
>>> round(REFERENCE_CPU.ridge("DRAM", "float32"), 1)     # FLOP/byte where the roof bends
14.3
>>> Machine.from_json(REFERENCE_CPU.to_json()) == REFERENCE_CPU
True
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from .errors import TileValueError

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a machine, with where it comes from.

    `unit` is "GFLOP/s", "GB/s" (decimal), "KiB" or "MiB"; `measured` says that it was timed, not stated or computed.
    """

    value: float
    unit: str
    source: str = ""
    measured: bool = False

    def __str__(self) -> str:
        return f"{self.value:.{3 if abs(self.value) < 1000 else 4}g} {self.unit}"

    @property
    def bytes(self) -> int:
        """A capacity in bytes; raises ValueError for a rate."""
        scale = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}.get(self.unit)
        if scale is None:
            raise ValueError(f"{self} is not a capacity")
        return int(self.value * scale)


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the memory hierarchy.

    `capacity` is of one instance (None: unlimited, as DRAM is to us). `core` is the bandwidth that one core reads at, `machine` all cores
    together; None for registers. `is_shared` says that all cores use one instance.
    """

    name: str
    capacity: Quantity | None
    core: Quantity | None
    machine: Quantity | None
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Peak:
    """The rate of arithmetic in one dtype: FMA counts 2. `core` is one core, `machine` all. `instruction` names what reaches it."""

    dtype: str
    core: Quantity
    machine: Quantity
    instruction: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU as the model sees it. `levels` from registers to DRAM; `line_bytes` is the unit that caches move; `date` of the measurement, ISO."""

    name: str
    cores: int
    levels: tuple[Level, ...]
    peaks: tuple[Peak, ...]
    line_bytes: int = 64
    isa: str = ""
    date: str = ""
    notes: tuple[str, ...] = ()

    measurer: ClassVar[Callable[..., Machine] | None] = None  # set by `runtime.measure`: times this machine, or reads its cached record

    @staticmethod
    def measure(**options: Any) -> Machine:
        """This machine, measured (under 10 s the first time, then read from the cache). Options are those of `runtime.measure`.

        Raises RuntimeError where nothing can measure: the package's runtime was not imported.
        """
        if Machine.measurer is None:
            raise RuntimeError("no measurement is registered; import tileworkbench first")
        return Machine.measurer(**options)

    @property
    def caches(self) -> tuple[Level, ...]:
        """The levels with a finite capacity below the registers: L1, L2, L3."""
        return tuple(level for level in self.levels if level.capacity is not None and level.name != "registers")

    def level(self, name: str) -> Level:
        """The level called `name`; raises KeyError with the names there are."""
        for level in self.levels:
            if level.name == name:
                return level
        raise KeyError(f"{self.name} has no level {name!r}, only {', '.join(x.name for x in self.levels)}")

    def bandwidth(self, name: str, threads: int = 1) -> Quantity:
        """Read bandwidth of a level for `threads` cores: `core` times `threads`, at most `machine`."""
        level = self.level(name)
        if level.core is None or level.machine is None:
            raise KeyError(f"{self.name} states no bandwidth for {name}")
        return _scaled(level.core, level.machine, min(threads, self.cores), self.cores)

    def peak(self, dtype: str, threads: int = 1) -> Quantity:
        """Peak arithmetic rate for `dtype` on `threads` cores.

        "float16>float32" is the rate of products of float16 summed in float32; a machine without such a unit computes them in float32.
        A dtype without a peak of its own falls back to the one it is computed in: narrow floats and ints to float32.
        """
        found = {p.dtype: p for p in self.peaks}
        peak = found.get(dtype) or found.get(dtype.rpartition(">")[2]) or found.get("float32") or self.peaks[0]
        return _scaled(peak.core, peak.machine, min(threads, self.cores), self.cores)

    def ridge(self, name: str, dtype: str, threads: int = 1) -> float:
        """Arithmetic intensity, FLOP per byte, at which the level's roof meets the peak."""
        return self.peak(dtype, threads).value / self.bandwidth(name, threads).value

    def to_json(self) -> str:
        """A JSON text that `from_json` reads back."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1)

    @staticmethod
    def from_json(text: str) -> Machine:
        """The machine of a JSON text; raises ValueError for another schema or a damaged record."""
        try:
            data = json.loads(text)
            if data.pop("schema") != SCHEMA:
                raise ValueError("another schema")
            data["levels"] = tuple(_level(x) for x in data["levels"])
            data["peaks"] = tuple(Peak(x["dtype"], Quantity(**x["core"]), Quantity(**x["machine"]), x["instruction"]) for x in data["peaks"])
            data["notes"] = tuple(data["notes"])
            return Machine(**data)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a machine record: {error}") from error

    def __str__(self) -> str:
        lines = [f"{self.name}, {self.cores} core{'s' if self.cores != 1 else ''}" + (f", {self.isa}" if self.isa else "")]
        lines.append(f"  {'level':<10} {'capacity':>10} {'1 core':>12} {'all cores':>12}")
        for level in self.levels:
            cells = [str(q) if q is not None else "-" for q in (level.capacity, level.core, level.machine)]
            lines.append(f"  {level.name:<10} {cells[0]:>10} {cells[1]:>12} {cells[2]:>12}")
        lines.append(f"  {'peak':<21} {'1 core':>12} {'all cores':>14}")
        lines += [f"  {p.dtype:<21} {p.core!s:>12} {p.machine!s:>14}  {p.instruction}".rstrip() for p in self.peaks]
        kinds = {q.measured for q in (*(p.core for p in self.peaks), *(lv.core for lv in self.levels if lv.core is not None))}
        kind = {frozenset((True,)): "measured", frozenset((False,)): "stated, not measured"}.get(frozenset(kinds), "some measured, some stated")
        return "\n".join([*lines, f"  ({kind}{', ' + self.date if self.date else ''})", *(f"  note: {n}" for n in self.notes)])


def _scaled(core: Quantity, machine: Quantity, threads: int, cores: int) -> Quantity:
    """The rate of `threads` cores. One and all are as stated; between them rates add up until the machine's limit."""
    if threads <= 1:
        return core
    if threads >= cores:
        return machine
    return Quantity(min(core.value * threads, machine.value), core.unit, f"{threads} x one core, at most all cores", measured=False)


def _level(data: dict[str, Any]) -> Level:
    parts = [None if data[key] is None else Quantity(**data[key]) for key in ("capacity", "core", "machine")]
    return Level(data["name"], parts[0], parts[1], parts[2], data["is_shared"])


def _rates(unit: str, source: str, core: float, machine: float) -> tuple[Quantity, Quantity]:
    return Quantity(core, unit, source), Quantity(machine, unit, source)


def _reference_cpu() -> Machine:
    source = "timed on a 2-core Sapphire Rapids virtual machine, November 2026"

    def level(name: str, capacity: Quantity | None, core: float, machine: float, is_shared: bool) -> Level:
        return Level(name, capacity, *_rates("GB/s", source, core, machine), is_shared)

    def peak(dtype: str, core: float, machine: float, instruction: str) -> Peak:
        return Peak(dtype, *_rates("GFLOP/s", source, core, machine), instruction)

    levels = (
        Level("registers", Quantity(2, "KiB", "32 registers of 64 bytes"), None, None),
        level("L1", Quantity(48, "KiB", "CPUID"), 254, 489, False),
        level("L2", Quantity(2, "MiB", "CPUID"), 150, 290, False),
        level("L3", Quantity(64, "MiB", "where the read rate still held; the chip's own figure is shared with neighbours"), 27, 52, True),
        level("DRAM", None, 15, 30, True),
    )
    peaks = (
        peak("float64", 107, 212, "FMA, 512 bits"),
        peak("float32", 215, 430, "FMA, 512 bits"),
        peak("float16", 420, 860, "FMA, 512 bits"),
        peak("int8", 870, 1740, "VPDPBUSD, 512 bits"),
    )
    return Machine("reference CPU (Sapphire Rapids, 2 cores)", 2, levels, peaks, isa="avx512")


def laptop(cores: int = 8, ghz: float = 3.5) -> Machine:
    """A machine on paper, for a lesson without a measurement: AVX2, two FMA units a core, dual-channel DDR5-4800.

    Peaks are units x lanes x 2 x clock, L1 is two 32-byte loads a cycle, DRAM of all cores is channels x 8 bytes x rate; the rest is assumed.
    """
    assumed = "assumed, a round number"

    def peak(dtype: str, lanes: int) -> Peak:
        core = 2 * lanes * 2 * ghz
        return Peak(dtype, *_rates("GFLOP/s", "2 FMA units of 256 bits x clock", core, core * cores), "FMA, 256 bits")

    levels = (
        Level("registers", Quantity(0.5, "KiB", "16 registers of 32 bytes"), None, None),
        Level("L1", Quantity(48, "KiB", assumed), *_rates("GB/s", "two 32-byte loads a cycle", 64 * ghz, 64 * ghz * cores)),
        Level("L2", Quantity(1.25, "MiB", assumed), *_rates("GB/s", assumed, 32 * ghz, 32 * ghz * cores)),
        Level("L3", Quantity(16, "MiB", assumed), *_rates("GB/s", assumed, 10 * ghz, 40 * ghz), is_shared=True),
        Level("DRAM", None, Quantity(25, "GB/s", assumed), Quantity(76.8, "GB/s", "2 channels x 8 bytes x 4.8 GT/s"), is_shared=True),
    )
    return Machine(f"a laptop on paper ({cores} cores, {ghz} GHz)", cores, levels, (peak("float64", 4), peak("float32", 8)), isa="avx2")


REFERENCE_CPU = _reference_cpu()
PRESETS = {"reference": REFERENCE_CPU, "laptop": laptop()}


def find_machine(name: str) -> Machine:
    """The preset called `name`, case and spaces aside. Raises TileValueError with the names there are.

    >>> find_machine("Laptop").cores
    8
    """
    found = PRESETS.get(name.strip().lower().replace(" ", "-"))
    if found is None:
        raise TileValueError(f"no machine is called {name!r}", hint=f"the presets are {', '.join(PRESETS)}")
    return found

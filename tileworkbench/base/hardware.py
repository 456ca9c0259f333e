"""The machine as a value: levels of memory, peaks by dtype and unit, and, for a GPU, its limits.

Levels run from the fastest to the largest: registers, L1, L2, L3, DRAM of a CPU; registers, shared, L2, DRAM of a GPU. A level's bandwidth is the
rate at which it feeds the level above it, reads only, so `bandwidth("DRAM")` is what DRAM delivers to the caches and `bandwidth("L1")` what L1
delivers to the registers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from .gpu import Gpu
from .quantity import Quantity

SCHEMA = 1
NARROW = {"float8_e4m3fn": "float16", "float8_e5m2": "float16", "float8_e4m3": "float16"}  # what a product runs in where no unit takes it


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the memory hierarchy.

    `capacity` is of one instance (None: unlimited, as DRAM is to us). `core` is the bandwidth that one core (SM) reads at, `machine` all
    together; None for registers. `is_shared` says that all cores use one instance.
    """

    name: str
    capacity: Quantity | None
    core: Quantity | None
    machine: Quantity | None
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Peak:
    """The rate of arithmetic in one dtype: FMA counts 2. `core` is one core (SM), `machine` all. `instruction` names what reaches it.

    `unit` is "fma" (vectors, or a GPU's ordinary lanes), "tensor" (matrix units; dtype is then "float16>float32": products of float16 summed in
    float32) or "sfu" (dtype "exp": exponentials, reciprocals and square roots). `per_clock` is what one core does in a cycle, where it is known.
    """

    dtype: str
    core: Quantity
    machine: Quantity
    instruction: str = ""
    unit: str = "fma"
    per_clock: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step of emitted code takes on one core, such as "exp" an element of a vector loop; `value` is in "ns". The CPU model adds them up."""

    name: str
    value: Quantity


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU or GPU as the model sees it. `levels` from registers to DRAM; `line_bytes` is the unit that caches move; `date` of the measurement, ISO.

    `cores` are cores, or the multiprocessors (SMs) of a GPU, whose other limits stand in `gpu`. `theory` is the machine on paper beside a measured
    one, where it is known.
    """

    name: str
    cores: int
    levels: tuple[Level, ...]
    peaks: tuple[Peak, ...]
    line_bytes: int = 64
    isa: str = ""
    date: str = ""
    notes: tuple[str, ...] = ()
    gpu: Gpu | None = None
    theory: Machine | None = None
    costs: tuple[Cost, ...] = ()

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
    def is_gpu(self) -> bool:
        return self.gpu is not None

    @property
    def kind(self) -> str:
        """ "gpu" or "cpu"."""
        return "gpu" if self.is_gpu else "cpu"

    @property
    def caches(self) -> tuple[Level, ...]:
        """The levels with a finite capacity below the registers: L1, L2, L3; of a GPU shared and L2."""
        return tuple(level for level in self.levels if level.capacity is not None and level.name != "registers")

    @property
    def nearest(self) -> str:
        """The level that feeds the registers: "L1" or "shared"."""
        return next(level.name for level in self.levels if level.core is not None)

    def workers(self, threads: int | None = None) -> str:
        """How much of the machine is used, in words: "2 threads" or "132 SMs"."""
        count, word = (self.cores, "SM") if self.is_gpu else (threads or 1, "thread")
        return f"{count} {word}{'s' if count != 1 else ''}"

    def level(self, name: str) -> Level:
        """The level called `name`; raises KeyError with the names there are."""
        for level in self.levels:
            if level.name == name:
                return level
        raise KeyError(f"{self.name} has no level {name!r}, only {', '.join(x.name for x in self.levels)}")

    def bandwidth(self, name: str, threads: int | None = None) -> Quantity:
        """Read bandwidth of a level for `threads` cores: `core` times `threads`, at most `machine`. None: one core of a CPU, the whole GPU."""
        level = self.level(name)
        if level.core is None or level.machine is None:
            raise KeyError(f"{self.name} states no bandwidth for {name}")
        return _scaled(level.core, level.machine, self._used(threads), self.cores)

    def peak(self, dtype: str, threads: int | None = None, unit: str = "") -> Quantity:
        """Peak arithmetic rate for `dtype` on `threads` cores (None: one core of a CPU, the whole GPU), in `unit` if it is given.

        "float16>float32" is the rate of products of float16 summed in float32; a machine without such a unit computes them in float32.
        A dtype without a peak of its own falls back to the one it is computed in: narrow floats and ints to float32.
        """
        found = self.find_peak(dtype, unit)
        return _scaled(found.core, found.machine, self._used(threads), self.cores)

    def find_peak(self, dtype: str, unit: str = "") -> Peak:
        """The peak that applies to `dtype`: its own, or that of what computes it. Without `unit` products prefer "tensor", the rest "fma"."""
        wanted = unit or ("tensor" if ">" in dtype else "fma")
        for name in _computed_in(dtype):
            found = [p for p in self.peaks if p.dtype == name and (wanted == "tensor" or p.unit == wanted)]
            if found:
                return min(found, key=lambda p: p.unit != wanted)
        return next((p for p in self.peaks if p.unit != "sfu"), self.peaks[0])

    def special_rate(self, threads: int | None = None) -> Quantity | None:
        """Exponentials, reciprocals and square roots a second of a GPU's special function units; None for a CPU, which has none."""
        found = next((p for p in self.peaks if p.unit == "sfu"), None)
        return _scaled(found.core, found.machine, self._used(threads), self.cores) if found else None

    def cost(self, name: str) -> Quantity | None:
        """The measured or stated cost called `name`; None where this machine has none."""
        return next((c.value for c in self.costs if c.name == name), None)

    def ridge(self, name: str, dtype: str, threads: int | None = None, unit: str = "") -> float:
        """Arithmetic intensity, FLOP per byte, at which the level's roof meets the peak."""
        return self.peak(dtype, threads, unit).value / self.bandwidth(name, threads).value

    @property
    def quantities(self) -> dict[str, Quantity]:
        """Every number of the machine by name: "L2.capacity", "DRAM.machine", "float16>float32.tensor", "gpu.launch"."""
        out: dict[str, Quantity] = {}
        for level in self.levels:
            out |= {f"{level.name}.{k}": q for k in ("capacity", "core", "machine") if (q := getattr(level, k)) is not None}
        for p in self.peaks:
            out |= {f"{p.dtype}.{p.unit}.core": p.core, f"{p.dtype}.{p.unit}": p.machine}
            if p.per_clock is not None:
                out[f"{p.dtype}.{p.unit}.per_clock"] = p.per_clock
        return out | ({f"gpu.{k}": q for k, q in self.gpu.quantities.items()} if self.gpu else {})

    def _used(self, threads: int | None) -> int:
        if threads is None:
            return self.cores if self.is_gpu else 1
        return min(threads, self.cores)

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
            return _machine(data)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a machine record: {error}") from error

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _computed_in(dtype: str) -> Iterator[str]:
    """The dtype and those that stand in for it, best first."""
    yield dtype
    narrow, _, wide = dtype.rpartition(">")
    if narrow in NARROW:
        yield f"{NARROW[narrow]}>{wide}"
    if wide in NARROW:
        yield NARROW[wide]
    yield wide
    yield "float32"


def _scaled(core: Quantity, machine: Quantity, threads: int, cores: int) -> Quantity:
    """The rate of `threads` cores. One and all are as stated; between them rates add up until the machine's limit."""
    if threads >= cores and cores > 1:
        return machine
    if threads <= 1:
        return core
    return Quantity(min(core.value * threads, machine.value), core.unit, f"{threads} x one core, at most all cores", measured=False)


def _machine(data: dict[str, Any]) -> Machine:
    known = {k: data[k] for k in ("name", "cores", "line_bytes", "isa", "date")}
    levels, peaks = tuple(_level(x) for x in data["levels"]), tuple(_peak(x) for x in data["peaks"])
    gpu, theory = data.get("gpu"), data.get("theory")  # absent in records of an earlier version
    return Machine(
        **known, levels=levels, peaks=peaks, notes=tuple(data["notes"]),
        gpu=Gpu.from_dict(gpu) if gpu else None, theory=_machine(theory) if theory else None,
        costs=tuple(Cost(x["name"], Quantity(**x["value"])) for x in data.get("costs", ())),
    )  # fmt: skip


def _level(data: dict[str, Any]) -> Level:
    parts = [None if data[key] is None else Quantity(**data[key]) for key in ("capacity", "core", "machine")]
    return Level(data["name"], parts[0], parts[1], parts[2], data["is_shared"])


def _peak(data: dict[str, Any]) -> Peak:
    rate = data.get("per_clock")
    core, machine = Quantity(**data["core"]), Quantity(**data["machine"])
    return Peak(data["dtype"], core, machine, data["instruction"], data.get("unit", "fma"), Quantity(**rate) if rate else None)


def _lines(m: Machine) -> Iterator[str]:
    one, everything = ("1 SM", "whole GPU") if m.is_gpu else ("1 core", "all cores")
    count = m.workers(m.cores) if m.is_gpu else f"{m.cores} core{'s' if m.cores != 1 else ''}"
    yield f"{m.name}, {count}" + (f", {m.isa}" if m.isa else "")
    yield f"  {'level':<10} {'capacity':>10} {one:>12} {everything:>12}"
    for level in m.levels:
        cells = [str(q) if q is not None else "-" for q in (level.capacity, level.core, level.machine)]
        yield f"  {level.name:<10} {cells[0]:>10} {cells[1]:>12} {cells[2]:>12}"
    yield f"  {'peak':<21} {one:>14} {everything:>14}"
    for p in m.peaks:
        yield f"  {p.dtype:<21} {p.core!s:>14} {p.machine!s:>14}  {p.unit if m.is_gpu else ''}{'  ' if m.is_gpu else ''}{p.instruction}".rstrip()
    if m.gpu is not None:
        g = m.gpu
        yield f"  an SM: {g.registers_per_sm}, {g.max_threads}, {g.max_blocks}, {g.shared_per_sm} shared; a block: {g.shared_per_block} shared"
        yield f"  {g.clock} (tensor {g.tensor_clock}), {g.memory}, launch {g.launch}; latency: L2 {g.l2_latency}, DRAM {g.dram_latency}"
    kinds = {q.measured for q in (*(p.core for p in m.peaks), *(lv.core for lv in m.levels if lv.core is not None))}
    kind = {frozenset((True,)): "measured", frozenset((False,)): "stated, not measured"}.get(frozenset(kinds), "some measured, some stated")
    yield f"  ({kind}{', ' + m.date if m.date else ''})"
    yield from (f"  note: {n}" for n in m.notes)

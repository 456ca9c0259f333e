"""CPUs: one that was timed, one that is a round number, and three on paper.

On paper: peaks are units x lanes x 2 x clock; a level's rate is bytes a cycle x clock where the vendor's manual states them, else assumed;
`source` says which.
"""

from __future__ import annotations

from .hardware import Level, Machine, Peak
from .quantity import Quantity

ASSUMED = "assumed, a round number"


def _rates(unit: str, source: str, core: float, machine: float) -> tuple[Quantity, Quantity]:
    return Quantity(core, unit, source), Quantity(machine, unit, source)


def _level(name: str, capacity: Quantity | None, source: str, core: float, machine: float, is_shared: bool = False) -> Level:
    return Level(name, capacity, *_rates("GB/s", source, core, machine), is_shared)


def _reference_cpu() -> Machine:
    source = "timed on a 2-core Sapphire Rapids virtual machine, November 2026"

    def peak(dtype: str, core: float, machine: float, instruction: str) -> Peak:
        return Peak(dtype, *_rates("GFLOP/s", source, core, machine), instruction)

    levels = (
        Level("registers", Quantity(2, "KiB", "32 registers of 64 bytes"), None, None),
        _level("L1", Quantity(48, "KiB", "CPUID"), source, 254, 489),
        _level("L2", Quantity(2, "MiB", "CPUID"), source, 150, 290),
        _level("L3", Quantity(64, "MiB", "where the read rate still held; the chip's own figure is shared with neighbours"), source, 27, 52, True),
        _level("DRAM", None, source, 15, 30, True),
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

    def peak(dtype: str, lanes: int) -> Peak:
        core = 2 * lanes * 2 * ghz
        return Peak(dtype, *_rates("GFLOP/s", "2 FMA units of 256 bits x clock", core, core * cores), "FMA, 256 bits")

    levels = (
        Level("registers", Quantity(0.5, "KiB", "16 registers of 32 bytes"), None, None),
        _level("L1", Quantity(48, "KiB", ASSUMED), "two 32-byte loads a cycle", 64 * ghz, 64 * ghz * cores),
        _level("L2", Quantity(1.25, "MiB", ASSUMED), ASSUMED, 32 * ghz, 32 * ghz * cores),
        _level("L3", Quantity(16, "MiB", ASSUMED), ASSUMED, 10 * ghz, 40 * ghz, True),
        Level("DRAM", None, Quantity(25, "GB/s", ASSUMED), Quantity(76.8, "GB/s", "2 channels x 8 bytes x 4.8 GT/s"), is_shared=True),
    )
    return Machine(f"a laptop on paper ({cores} cores, {ghz} GHz)", cores, levels, (peak("float64", 4), peak("float32", 8)), isa="avx2")


def _peaks(rates: dict[str, tuple[float, str, str]], one_ghz: float, all_ghz: float, cores: int, why: str) -> tuple[Peak, ...]:
    """Peaks from FLOP per clock and core: `rates` maps a dtype to (rate, unit, instruction); one core and all cores run at their own clocks."""
    out = []
    for dtype, (rate, unit, instruction) in rates.items():
        core = Quantity(rate * one_ghz, "GFLOP/s", f"computed: {rate:g} FLOP a clock x {one_ghz} GHz; {why}")
        machine = Quantity(rate * all_ghz * cores, "GFLOP/s", f"computed: {cores} cores x {rate:g} FLOP a clock x {all_ghz} GHz; {why}")
        out.append(Peak(dtype, core, machine, instruction, unit, Quantity(rate, "FLOP/clk", why)))
    return tuple(out)


def _zen4() -> Machine:
    """Ryzen 7 7700X: one chiplet, so that L3 is one piece."""
    guide, page = "AMD Software Optimization Guide for the Zen 4 Microarchitecture", "AMD product page, Ryzen 7 7700X"
    one, every, cores = 5.4, 4.5, 8
    rates = {
        "float64": (16.0, "fma", "FMA, 2 pipes of 256 bits"), "float32": (32.0, "fma", "FMA, 2 pipes of 256 bits"),
        "bfloat16>float32": (64.0, "fma", "VDPBF16PS"), "int8": (128.0, "fma", "VPDPBUSD"),
    }  # fmt: skip
    levels = (
        Level("registers", Quantity(2, "KiB", "32 registers of 64 bytes"), None, None),
        _level("L1", Quantity(32, "KiB", guide), f"two 32-byte loads a cycle; {guide}", 64 * one, 64 * every * cores),
        _level("L2", Quantity(1, "MiB", guide), "32 bytes a cycle (AMD, Zen 2 at Hot Chips 31; unchanged to Zen 4)", 32 * one, 32 * every * cores),
        _level("L3", Quantity(32, "MiB", page), "assumed: 32 bytes a cycle and core, two thirds of it sustained", 21 * one, 21 * every * cores, True),
        Level("DRAM", None, Quantity(50, "GB/s", ASSUMED), Quantity(64, "GB/s", "32 bytes a cycle from the chiplet's link at 2.0 GHz"), True),
    )
    notes = ("on paper: one core at the boost clock of 5.4 GHz, all at the base clock of 4.5 GHz",)
    peaks = _peaks(rates, one, every, cores, f"{guide}; clocks: {page}")
    return Machine("AMD Ryzen 7 7700X (Zen 4, 8 cores)", cores, levels, peaks, isa="avx512", notes=notes)


def _sapphire_rapids() -> Machine:
    ark, guide = "Intel ARK, Xeon Platinum 8480+", "Intel 64 and IA-32 Architectures Optimization Reference Manual, Golden Cove"
    one, every, cores = 3.0, 2.0, 56
    rates = {
        "float64": (32.0, "fma", "FMA, 2 pipes of 512 bits"), "float32": (64.0, "fma", "FMA, 2 pipes of 512 bits"),
        "float16": (128.0, "fma", "AVX512-FP16, 2 pipes"), "int8": (256.0, "fma", "VPDPBUSD"),
        "bfloat16>float32": (2048.0, "tensor", "AMX TDPBF16PS"), "int8>int32": (4096.0, "tensor", "AMX TDPBSSD"),
    }  # fmt: skip
    timed = "timed on one core of a Sapphire Rapids virtual machine, November 2026"
    levels = (
        Level("registers", Quantity(2, "KiB", "32 registers of 64 bytes"), None, None),
        _level("L1", Quantity(48, "KiB", guide), f"two 64-byte loads a cycle; {guide}", 128 * one, 128 * every * cores),
        _level("L2", Quantity(2, "MiB", ark), f"48 bytes a cycle sustained; {guide}", 48 * one, 48 * every * cores),
        _level("L3", Quantity(105, "MiB", ark), f"{timed}; assumed to add up", 27, 27 * cores, True),
        Level("DRAM", None, Quantity(15, "GB/s", timed), Quantity(307.2, "GB/s", f"8 channels x 8 bytes x 4.8 GT/s; {ark}"), True),
    )
    notes = ("on paper: all cores at the base clock of 2.0 GHz, one at 3.0 GHz (assumed for heavy vector code); the turbo depends on the load",)
    return Machine(
        "Intel Xeon Platinum 8480+ (Sapphire Rapids, 56 cores)", cores, levels, _peaks(rates, one, every, cores, f"{guide}; clocks: {ark}"),
        isa="avx512", notes=notes,
    )  # fmt: skip


def _apple() -> Machine:
    seen, page = (
        "public measurements of Firestorm and Avalanche cores: 4 vector pipes of 128 bits, 3 loads of 16 bytes a cycle",
        "Apple, M2 technical data",
    )
    ghz, cores = 3.49, 4
    rates = {
        "float64": (16.0, "fma", "FMLA, 4 pipes of 128 bits"), "float32": (32.0, "fma", "FMLA, 4 pipes of 128 bits"),
        "float16": (64.0, "fma", "FMLA, 4 pipes of 128 bits"),
    }  # fmt: skip
    levels = (
        Level("registers", Quantity(0.5, "KiB", "32 registers of 16 bytes"), None, None),
        _level("L1", Quantity(128, "KiB", "sysctl hw.perflevel0.l1dcachesize"), f"48 bytes a cycle; {seen}", 48 * ghz, 48 * ghz * cores),
        _level("L2", Quantity(16, "MiB", "sysctl hw.perflevel0.l2cachesize"), "assumed: 32 bytes a cycle and core", 32 * ghz, 32 * ghz * cores, True),
        Level("DRAM", None, Quantity(60, "GB/s", ASSUMED), Quantity(102.4, "GB/s", f"128 bits x 6.4 GT/s; {page}"), True),
    )
    notes = ("on paper: the performance cores only, without the matrix unit (AMX), whose instructions are not documented",)
    return Machine(
        "Apple M2 (4 performance cores)", cores, levels, _peaks(rates, ghz, ghz, cores, f"{seen}; 3.49 GHz"), line_bytes=128, isa="neon", notes=notes
    )


REFERENCE_CPU = _reference_cpu()
CPUS = {"reference": REFERENCE_CPU, "laptop": laptop(), "zen4": _zen4(), "sapphire-rapids": _sapphire_rapids(), "apple-m2": _apple()}

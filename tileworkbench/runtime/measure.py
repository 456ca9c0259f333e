"""`Machine.measure()` for this CPU: peaks by dtype, the read rate of every memory level and the costs of single steps, kept in the cache folder.

Peaks come from chains of multiply-adds in vector registers, rates from reading working sets of 8 KiB to 256 MiB on one core (`level_curve`), costs
from steps of emitted code (`costs`). Every number is the best of several short runs: a busy neighbour only ever slows one down.
"""

from __future__ import annotations

import functools
import os
import platform
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np

from ..base.cpu import Isa, host_isa
from ..base.errors import CompilerError
from ..base.machine import Level, Machine, Peak, Quantity
from ..codegen.clib import FLAGS, LINK_FLAGS
from . import cache, toolchain
from .amx_probe import amx_probes, amx_text
from .building import build_library
from .cost_probes import cost_probe_text
from .costs import VERSION, measure_costs
from .fork import LIMIT, available_cores
from .level_curve import LARGEST, largest_set, measure_levels, stated_capacities
from .loader import Entry, load
from .measure_cuda import gpu_number, measure_cuda
from .probes import Probe, arithmetic_probes, probe_text
from .short_runs import RUNS, best, call, clock_of, rounds
from .storage import cache_folder, write_atomically

BUSY = "other programs were running"
NEWEST = ("avx512_fp16", "avx512_vnni")


def measure(force: bool = False, cores: int | None = None, device: str = "cpu") -> Machine:
    """This machine, from the cache unless `force`; `cores` (default: all that this process may use) is what "all cores" means.

    `device` "cuda" or "cuda:1" measures a GPU instead; an UnsupportedError says what is missing for that.

    Without a C compiler the numbers are NumPy's, and the machine's notes say so. A record that an earlier version made is made anew.
    """
    if device != "cpu":
        return measure_cuda(gpu_number(device), force=force)
    cores = min(cores or available_cores(), LIMIT.cap)  # a forked child has one, see `fork`
    compiler = toolchain.default_compiler()
    name = cpu_name()
    place = cache_folder() / f"machine-{cache.key_of(VERSION, name, str(cores), host_isa().name, compiler.name if compiler else 'numpy')[:12]}.json"
    known = _record(place)
    if known is not None and not force:
        return known
    with cache.lock(place.stem):  # several processes at once would measure each other
        if not force and (known := _record(place)) is not None:
            return known
        busy = is_busy(cores)
        machine = _with_compiler(compiler, name, cores, known) if compiler else _with_numpy(name, cores)
        if busy:
            again = "`tileworkbench doctor --measure` measures again"
            machine = replace(machine, notes=(*machine.notes, f"{BUSY} when this was measured, so the numbers may be low; {again}"))
        write_atomically(place, machine.to_json().encode())
    return machine


Machine.measurer = measure


def _record(place: Path) -> Machine | None:
    try:
        return Machine.from_json(place.read_text())
    except (OSError, ValueError):
        return None


def is_busy(cores: int) -> bool:
    """Whether more programs than cores wanted to run in the last minute."""
    try:
        return os.getloadavg()[0] > cores + 0.5
    except (OSError, AttributeError):
        return False


def cpu_name() -> str:
    """The processor's own name for itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "this CPU"


# ------------------------------------------------------------------------------------------- with a compiler
def _with_compiler(compiler: toolchain.Compiler, name: str, cores: int, known: Machine | None) -> Machine:
    threads = cores if compiler.openmp else 1
    notes = [] if compiler.openmp else [f"{compiler.why_serial}; all cores are taken to be as fast as one"]
    isa = host_isa()
    try:
        library = build_probes(compiler, isa, probe_text(isa))
    except CompilerError:  # an older compiler than the processor: without the newest instructions
        isa = replace(isa, flags=isa.flags - set(NEWEST), extensions=())
        library = build_probes(compiler, isa, probe_text(isa))
        notes.append(f"{compiler.name} does not know the newest instructions of this processor; they are not measured")
    entries = [(load(library, p.entry), p) for p in arithmetic_probes(isa)]
    peaks = [_peak(entry, p, threads) for entry, p in entries]
    amx, note = _amx_peaks(compiler, host_isa(), threads)
    size = largest_set()
    memory = np.ones(size // 4 + 2048, np.float32)
    start = memory.__array_interface__["data"][0] + 4095 & -4096
    levels = measure_levels(load(library, "twb_read"), isa, threads, start, size, known.levels if known else ())
    steps = build_probes(compiler, isa, cost_probe_text(isa), *FLAGS, "-fwrapv", "-fno-strict-aliasing")
    costs = measure_costs(functools.partial(load, steps), isa, start, size, levels, threads)
    again = [_peak(entry, p, threads) for entry, p in entries]  # seconds later: a neighbour may be gone
    peaks = [_better(*both) for both in zip(peaks, again, strict=True)]
    notes += [note] if note else []
    return Machine(name, threads, levels, (*peaks, *amx), 64, isa.name, date.today().isoformat(), tuple(notes), costs=costs)


def build_probes(compiler: toolchain.Compiler, isa: Isa, text: str, *options: str) -> Path:
    """The shared library of probes, from the cache or made now. Raises CompilerError."""
    flags = [*isa.march, *isa.extensions, "-ffp-contract=fast", *options]
    key = cache.key_of("probes", text, compiler.name, *compiler.command, *flags)

    def build(folder: Path) -> dict[str, object]:
        build_library(compiler, text, folder, flags, {}, LINK_FLAGS)
        return {}

    entry, _ = cache.get_or_build(key, build)
    return entry.folder / "kernel.so"


def _amx_peaks(compiler: toolchain.Compiler, isa: Isa, threads: int) -> tuple[list[Peak], str]:
    """The matrix unit's peaks, and what to say where it has some that cannot be measured."""
    probes = amx_probes(isa)
    if not probes:
        return [], ""
    try:
        library = build_probes(compiler, isa, amx_text(isa))
    except CompilerError:
        return [], f"this CPU also has AMX, which is not measured: {compiler.name}'s assembler does not know it"
    entries = [load(library, probe.entry) for probe in probes]
    if _is_refused(entries[0]):
        return [], "this CPU also has AMX, which is not measured: the operating system does not let this process use its tiles"
    peaks = [_peak(entry, probe, threads) for entry, probe in zip(entries, probes, strict=True)]
    return [replace(p, unit="tensor") for p in peaks], ""


def _is_refused(entry: Entry) -> bool:
    return entry(bytes(8), 1) != 0


def _peak(entry: Entry, probe: Probe, threads: int) -> Peak:
    def rate(n: int) -> float:
        clock = clock_of(n)
        count = rounds(lambda r: call(entry, n, r), 1 << 12, clock=clock)
        return probe.ops * n * count / best(lambda: call(entry, n, count), runs=3 * RUNS, clock=clock) / 1e9

    unit = "GFLOP/s"
    source = f"timed: {probe.instruction}, chains in registers"
    one = rate(1)
    everything = min(max(one, rate(threads)), threads * one) if threads > 1 else one
    return Peak(probe.dtype, Quantity(one, unit, source, True), Quantity(everything, unit, source, True), probe.instruction)


def _better(a: Peak, b: Peak) -> Peak:
    """The higher of two measurements, for one core and for all."""
    core, machine = (max(pair, key=lambda q: q.value) for pair in ((a.core, b.core), (a.machine, b.machine)))
    return replace(a, core=core, machine=machine)


# ------------------------------------------------------------------------------------------- without a compiler
def _with_numpy(name: str, cores: int) -> Machine:
    peaks = tuple(_numpy_peak(dtype) for dtype in ("float64", "float32"))
    stated = stated_capacities() or [32 << 10, 1 << 20]
    levels = [Level("registers", Quantity(2, "KiB", "assumed"), None, None)]
    for number, size in enumerate([*stated[:3], None]):
        rate = _numpy_rate(size // 2 if size else LARGEST)
        quantity = Quantity(rate, "GB/s", "timed: numpy.dot of two vectors", True)
        capacity = None if size is None else Quantity(size / 1024, "KiB", "stated by the system")
        levels.append(Level("DRAM" if size is None else f"L{number + 1}", capacity, quantity, quantity, size is None or number >= 2))
    note = "no C compiler: peaks are NumPy's matrix products, rates include NumPy's call overhead"
    return Machine(name, 1 if cores < 2 else cores, tuple(levels), peaks, 64, host_isa().name, date.today().isoformat(), (note,))


def _numpy_peak(dtype: str) -> Peak:
    a = np.ones((384, 384), dtype)
    seconds = best(functools.partial(np.matmul, a, a))
    quantity = Quantity(2 * 384**3 / seconds / 1e9, "GFLOP/s", "timed: numpy.matmul", True)
    return Peak(dtype, quantity, quantity, "numpy.matmul")


def _numpy_rate(size: int) -> float:
    a = np.ones(max(64, size // 4), np.float32)
    return a.nbytes / best(functools.partial(np.dot, a, a)) / 1e9

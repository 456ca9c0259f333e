"""`Machine.measure()` for this CPU: peaks by dtype and the read rate of every memory level, in a few seconds, kept in the cache folder.

Peaks come from chains of multiply-adds in vector registers. Rates come from reading working sets of 8 KiB to 256 MiB on one core; the
curve's steps are the levels (a virtual machine often lies about its L3). Every rate is the best of several short runs: a busy neighbour only
ever slows one down.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import platform
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from ..base.cpu import Isa, host_isa
from ..base.errors import CompilerError
from ..base.machine import Level, Machine, Peak, Quantity
from . import cache, toolchain
from .fork import available_cores
from .knees import Plateau, find_plateaus, without_transitions
from .loader import Entry, load
from .probes import arithmetic_probes, probe_text
from .storage import cache_folder, write_atomically

RUN_S = 0.004  # shorter than a time slice, so that some of the runs go undisturbed on a busy machine
RUNS = 12
SMALLEST, LARGEST = 8 << 10, 256 << 20
PER_OCTAVE = 2
WINDOW = 16 << 20
BUSY = "other programs were running"
NEWEST = ("avx512_fp16", "avx512_vnni")


def measure(force: bool = False, cores: int | None = None) -> Machine:
    """This machine, from the cache unless `force`; `cores` (default: all that this process may use) is what "all cores" means.

    Without a C compiler the numbers are NumPy's, and the machine's notes say so.
    """
    cores = cores or available_cores()
    compiler = toolchain.default_compiler()
    name = cpu_name()
    place = cache_folder() / f"machine-{cache.key_of(name, str(cores), host_isa().name, compiler.name if compiler else 'numpy')[:12]}.json"
    if not force:
        try:
            known = Machine.from_json(place.read_text())
            if is_busy(cores) or not any(note.startswith(BUSY) for note in known.notes):
                return known  # else: a better time than the first
        except (OSError, ValueError):
            pass
    busy = is_busy(cores)
    machine = _with_compiler(compiler, name, cores) if compiler else _with_numpy(name, cores)
    if busy:
        machine = replace(
            machine, notes=(*machine.notes, f"{BUSY} when this was measured, so the numbers may be low; a quiet moment is used when there is one")
        )
    write_atomically(place, machine.to_json().encode())
    return machine


Machine.measurer = measure


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
def _with_compiler(compiler: toolchain.Compiler, name: str, cores: int) -> Machine:
    threads = cores if compiler.openmp else 1
    notes = [] if compiler.openmp else [f"{compiler.why_serial}; all cores are taken to be as fast as one"]
    isa = host_isa()
    try:
        library = _build_probes(compiler, isa)
    except CompilerError:  # an older compiler than the processor: without the newest instructions
        isa = replace(isa, flags=isa.flags - set(NEWEST), extensions=())
        library = _build_probes(compiler, isa)
        notes.append(f"{compiler.name} does not know the newest instructions of this processor; they are not measured")
    peaks = tuple(_peak(load(library, p.entry), p.dtype, p.ops, p.instruction, threads) for p in arithmetic_probes(isa))
    levels = _levels(load(library, "twb_read"), isa, threads)
    if isa.has("amx_bf16"):
        notes.append("this CPU also has AMX, which is not measured")
    return Machine(name, threads, levels, peaks, 64, isa.name, date.today().isoformat(), tuple(notes))


def _build_probes(compiler: toolchain.Compiler, isa: Isa) -> Path:
    text = probe_text(isa)
    key = cache.key_of("probes", text, compiler.name, *compiler.command, *isa.march, *isa.extensions)
    flags = [*isa.march, *isa.extensions, "-ffp-contract=fast"]

    def build(folder: Path) -> dict[str, object]:
        toolchain.build(compiler, text, folder, flags, {})
        return {}

    entry, _ = cache.get_or_build(key, build)
    return entry.folder / "kernel.so"


def _peak(entry: Entry, dtype: str, ops: int, instruction: str, threads: int) -> Peak:
    def rate(n: int) -> float:
        rounds = _rounds(lambda r: _call(entry, n, r), 1 << 16)
        return ops * n * rounds / _best(lambda: _call(entry, n, rounds), runs=3 * RUNS) / 1e9

    unit = "GFLOP/s"
    source = f"timed: {instruction}, chains in registers"
    one = rate(1)
    everything = rate(threads) if threads > 1 else one
    return Peak(dtype, Quantity(one, unit, source, True), Quantity(max(one, everything), unit, source, True), instruction)


def _levels(read: Entry, isa: Isa, threads: int) -> tuple[Level, ...]:
    steps = round(math.log2(LARGEST / SMALLEST) * PER_OCTAVE)
    unit = 8 * isa.vector_bytes
    sizes = [int(SMALLEST * 2 ** (i / PER_OCTAVE)) // unit * unit for i in range(steps + 1)]
    memory = np.ones(LARGEST + 4096, np.uint8)
    start = memory.__array_interface__["data"][0] + 63 & -64

    def rate(size: int, n: int) -> float:
        if size <= WINDOW:
            passes = _rounds(lambda k: _call(read, n, start, size, k, size), 1)
            return size * n * passes / _best(lambda: _call(read, n, start, size, passes, size)) / 1e9
        # a run that is short all the same: one window of the working set after the other, each last read a whole round ago
        places = itertools.cycle(range(0, size - WINDOW + 1, WINDOW))
        _call(read, n, start, size, 1, size)
        return WINDOW * n / _best(lambda: _call(read, n, start + next(places), WINDOW, 1, size), runs=3 * RUNS, skip=3) / 1e9

    rates = [rate(size, 1) for size in sizes]
    rates = list(itertools.accumulate(reversed(rates), max))[::-1]  # a larger set is never read faster: what lies below was disturbed
    plateaus = without_transitions(find_plateaus(sizes, rates, most=6))
    stated = _stated_capacities()
    registers = Level(
        "registers", Quantity(isa.registers * isa.vector_bytes / 1024, "KiB", f"{isa.registers} registers of {isa.vector_bytes} bytes"), None, None
    )
    levels = [registers]
    below = 0
    for number, plateau in enumerate(plateaus):
        is_memory = plateau.capacity is None
        label = "DRAM" if is_memory else f"L{number + 1}"
        shared = is_memory or number >= 2
        inside = [r for s, r in zip(sizes, rates, strict=True) if 1.5 * below <= s <= 0.75 * (plateau.capacity or math.inf)]
        one = max(sorted(inside)[len(inside) // 2 :][:1] or [plateau.rate]) if not is_memory else float(np.median(rates[-2:]))
        size = _probe_size(plateau, below, sizes[-1], threads if shared else 1, unit)
        everything = max(one, rate(size, threads)) if threads > 1 else one
        source = "timed: reads of one working set a core"
        levels.append(
            Level(label, _capacity(plateau, stated), Quantity(one, "GB/s", source, True), Quantity(everything, "GB/s", source, True), shared)
        )
        below = plateau.capacity or 0
    return tuple(levels)


def _probe_size(plateau: Plateau, below: int, largest: int, sharers: int, unit: int) -> int:
    """Bytes a thread for the all-cores run: well inside the level, whose capacity `sharers` threads divide."""
    top = largest if plateau.capacity is None else plateau.capacity // 2
    size = top // sharers if plateau.capacity is None else max(int(1.5 * below), top // sharers)
    return max(unit, min(size, largest // max(1, sharers)) // unit * unit)


def _capacity(plateau: Plateau, stated: list[int]) -> Quantity | None:
    """The level's capacity: what the system states if the curve agrees within a factor of 2.5, else what the curve says."""
    if plateau.capacity is None:
        return None
    near = [s for s in stated if s / 2.5 <= plateau.capacity <= s * 2.5]
    size = min(near, key=lambda s: abs(math.log(s / (plateau.capacity or 1)))) if near else plateau.capacity
    source = "stated by the system, and the read rate falls there" if near else "where the read rate falls"
    return Quantity(size / 1024, "KiB", source, not near) if size < 1 << 20 else Quantity(size / (1 << 20), "MiB", source, not near)


def _stated_capacities() -> list[int]:
    """Data cache sizes of the first core in bytes, as Linux states them."""
    sizes = []
    for place in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (place / "type").read_text().strip() != "Instruction":
                text = (place / "size").read_text().strip()
                sizes.append(int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1))
        except (OSError, ValueError):
            continue
    return sizes


def _call(entry: Entry, threads: int, *args: int) -> None:
    entry(struct.pack(f"={len(args)}q", *args), threads)


def _rounds(work: Callable[[int], None], start: int) -> int:
    """How many rounds take about RUN_S."""
    rounds = start
    while True:
        begin = time.perf_counter()
        work(rounds)
        spent = time.perf_counter() - begin
        if spent > RUN_S / 4:
            return max(1, int(rounds * RUN_S / spent))
        rounds *= 4


def _best(work: Callable[[], Any], runs: int = RUNS, skip: int = 0) -> float:
    """Seconds of the fastest run, after the `skip` fastest, which may have been lucky."""
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return sorted(times)[skip]


# ------------------------------------------------------------------------------------------- without a compiler
def _with_numpy(name: str, cores: int) -> Machine:
    peaks = tuple(_numpy_peak(dtype) for dtype in ("float64", "float32"))
    stated = _stated_capacities() or [32 << 10, 1 << 20]
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
    seconds = _best(functools.partial(np.matmul, a, a))
    quantity = Quantity(2 * 384**3 / seconds / 1e9, "GFLOP/s", "timed: numpy.matmul", True)
    return Peak(dtype, quantity, quantity, "numpy.matmul")


def _numpy_rate(size: int) -> float:
    a = np.ones(max(64, size // 4), np.float32)
    return a.nbytes / _best(functools.partial(np.dot, a, a)) / 1e9

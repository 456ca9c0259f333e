"""`Machine.measure(device="cuda")`: peaks by dtype, the rates of shared memory, L2 and DRAM, their latencies and the cost of a launch of a GPU here.

Kernels are compiled and run through CuPy. Every rate is the best of several short runs; under a long load a power limit holds the clock lower.
The machine on paper, where the device is a known one, stands beside the measurement as `theory`. Without CuPy or a GPU one line says what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import UnsupportedError
from ..base.gpu import Gpu, capability_limits
from ..base.machine import Level, Machine, Peak, Quantity, preset_of_device
from . import cache
from .cuda_probes import MEMORY_TEXT, READ_BYTES, THREADS, CudaProbe, cuda_probes
from .storage import cache_folder, write_atomically

VERSION = "2"
RUN_MS = 8.0
RUNS = 7
LINE = 128  # bytes between two steps of a chase
UNDER_LOAD = ("sustained_clock", "sustained_dram", "copy_latency", "l2_shared")  # of `Gpu`: what short runs cannot tell, from the preset of that chip


def measure_cuda(device: int = 0, *, force: bool = False) -> Machine:
    """The GPU with number `device`, from the cache unless `force`; takes some seconds.

    Raises: UnsupportedError with what is missing: CuPy, a driver, a GPU.
    """
    cupy = _cupy(device)
    with cupy.cuda.Device(device):
        properties = cupy.cuda.runtime.getDeviceProperties(device)
        name = properties["name"].decode() if isinstance(properties["name"], bytes) else str(properties["name"])
        cuda = int(cupy.cuda.runtime.driverGetVersion())
        known = measured_before(name, cuda)
        if known is not None and not force:
            return known
        machine = _measured(cupy, name, properties, dict(cupy.cuda.Device(device).attributes))
        write_atomically(_place(name, cuda), machine.to_json().encode())
        return machine


def measured_before(name: str, cuda: int) -> Machine | None:
    """The cached measurement of a GPU of that name under a driver for that CUDA version (13000 for 13.0); None where there is none."""
    try:
        return Machine.from_json(_place(name, cuda).read_text())
    except (OSError, ValueError):
        return None


def _place(name: str, cuda: int) -> Path:
    return cache_folder() / f"machine-{cache.key_of('cuda', VERSION, name, str(cuda))[:12]}.json"


def gpu_number(device: str) -> int:
    """The number in a device's name. Raises ValueError for another kind of device.

    >>> gpu_number("cuda"), gpu_number("cuda:1")
    (0, 1)
    """
    kind, _, number = device.partition(":")
    if kind != "cuda" or not (number or "0").isdigit():
        raise ValueError(f"{device!r} is no device that can be measured, only 'cpu', 'cuda' and 'cuda:0'")
    return int(number or 0)


def _cupy(device: int) -> Any:
    """CuPy, with a GPU of that number."""
    try:
        import cupy
    except ImportError:
        raise UnsupportedError(
            "measuring a GPU needs CuPy, which is not installed", hint="pip install cupy-cuda12x (or cupy-cuda13x), as the driver's CUDA version asks"
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy's own classes differ between versions
        raise UnsupportedError(f"CuPy finds no GPU: {error}", hint="a model of one needs none: find_machine('h200')") from None
    if device >= count:
        raise UnsupportedError(f"there is no GPU number {device}, only {count} of them")
    return cupy


# ------------------------------------------------------------------------------------------- the machine
def _measured(cupy: Any, name: str, properties: dict[str, Any], attributes: dict[str, Any]) -> Machine:
    theory = preset_of_device(name)
    sms = int(attributes.get("MultiProcessorCount", properties.get("multiProcessorCount", 1)))
    capability = int(properties["major"]), int(properties["minor"])
    notes: list[str] = ["short runs: under a long load the power limit may hold the clock lower"]
    _peaks(cupy, capability, sms, [])  # an idle GPU's clock takes a while to rise
    peaks = _peaks(cupy, capability, sms, notes)
    memory = cupy.RawModule(code=MEMORY_TEXT, options=("-std=c++17",))
    l2_bytes = int(attributes.get("L2CacheSize", properties.get("l2CacheSize", 0))) or 4 << 20
    gpu = _gpu(cupy, memory, f"sm_{capability[0]}{capability[1]}", sms, l2_bytes, properties, attributes, theory)
    levels = tuple(_for_tiles(x, theory, notes) for x in _levels(cupy, memory, gpu, sms, l2_bytes))
    if theory is not None:
        peaks = [replace(p, per_clock=next((q.per_clock for q in theory.peaks if (q.dtype, q.unit) == (p.dtype, p.unit)), None)) for p in peaks]
    rest = [p for p in theory.peaks if not any((p.dtype, p.unit) == (q.dtype, q.unit) for q in peaks)] if theory is not None else []
    if rest:
        notes.append(f"from the data sheet, since no benchmark reaches them: {', '.join(f'{p.dtype} {p.unit}' for p in rest)}")
    return Machine(name, sms, levels, (*peaks, *rest), 32, gpu.arch, date.today().isoformat(), tuple(notes), gpu, theory)


def _for_tiles(level: Level, theory: Machine | None, notes: list[str]) -> Level:
    """L2 at the rate that is known for tiles, which multiprocessors ask for together, where it is above that of data that each has alone."""
    known = theory.level("L2").machine if theory is not None and level.name == "L2" else None
    if known is None or level.machine is None or known.value <= level.machine.value:
        return level
    notes.append(f"L2: {level.machine} was timed for data that no two multiprocessors share; the roof is for tiles, which they ask for together")
    return replace(level, machine=known)


def _peaks(cupy: Any, capability: tuple[int, int], sms: int, notes: list[str]) -> list[Peak]:
    """The best rate of each dtype and unit; a benchmark that does not compile or run is noted and left out."""
    best: dict[tuple[str, str], Peak] = {}
    for probe in cuda_probes(capability):
        try:
            rate = _rate(cupy, probe, sms)
        except Exception as error:  # a compiler that is too old, an instruction that the device refuses: the others still count
            notes.append(f"{probe.instruction} ({probe.dtype}) was not measured: {str(error).strip().splitlines()[0][:120]}")
            continue
        unit = "Gop/s" if probe.unit == "sfu" else "GFLOP/s"
        source = f"timed: {probe.instruction}, chains in registers on all SMs"
        whole, one = Quantity(rate, unit, source, True), Quantity(rate / sms, unit, f"{source}, / {sms}", True)
        key = (probe.dtype, probe.unit)
        if key not in best or best[key].machine.value < rate:
            best[key] = Peak(probe.dtype, one, whole, probe.instruction, probe.unit)
    return list(best.values())


def _rate(cupy: Any, probe: CudaProbe, sms: int) -> float:
    options = ("-std=c++17", *((f"--gpu-architecture={probe.exact}",) if probe.exact else ()))
    kernel = cupy.RawModule(code=probe.text, options=options).get_function(probe.entry)
    out = cupy.zeros(THREADS, dtype=cupy.float32)
    grid = (sms * probe.blocks,)

    def run(rounds: int) -> None:
        kernel(grid, (THREADS,), (out, np.int32(rounds)), shared_mem=probe.shared)

    rounds, seconds = _timed(cupy, run)
    return probe.ops * THREADS * grid[0] * rounds / seconds / 1e9


def _levels(cupy: Any, memory: Any, gpu: Gpu, sms: int, l2_bytes: int) -> tuple[Level, ...]:
    out = cupy.zeros(512, dtype=cupy.float32)
    shared = memory.get_function("read_shared")
    rounds, seconds = _timed(cupy, lambda n: shared((sms * 6,), (256,), (np.int32(n), out)))
    rate = sms * 6 * 256 * 128 * rounds / seconds / 1e9
    how = "timed: reads of 16 bytes a thread, no two in one bank"
    levels = [
        Level("registers", Quantity(gpu.registers_per_sm.value * 4 / 1024, "KiB", "4 bytes each, an SM"), None, None),
        Level("shared", gpu.shared_per_sm, Quantity(rate / sms, "GB/s", how, True), Quantity(rate, "GB/s", how, True)),
    ]
    free, _ = cupy.cuda.runtime.memGetInfo()
    large = min(int(free * 0.4), 2 << 30) // (1 << 20) * (1 << 20)
    data = cupy.random.random(large // 4, dtype=cupy.float32)
    read = memory.get_function("read_global")
    for level, size, capacity in (
        ("L2", l2_bytes * 2 // 5, Quantity(l2_bytes / (1 << 20), "MiB", "stated by the driver")),
        ("DRAM", large, None),
    ):
        used = min(size, large)
        whole = _read_rate(cupy, read, data, used, sms if level == "L2" else sms * 4, out)
        one = _read_rate(cupy, read, data, min(used, l2_bytes // 8) if level == "L2" else used // 16, 1, out)
        how = f"timed: reads of {used >> 20} MiB past L1, again and again"
        levels.append(Level(level, capacity, Quantity(min(one, whole), "GB/s", f"{how}, by one SM", True), Quantity(whole, "GB/s", how, True), True))
    return tuple(levels)


def _read_rate(cupy: Any, read: Any, data: Any, used: int, blocks: int, out: Any) -> float:
    """GB/s of `blocks` blocks that read about `used` bytes, in whole steps of all their threads."""
    step = blocks * 512 * READ_BYTES
    used = max(used // step, 1) * step if step <= data.nbytes else used
    rounds, seconds = _timed(cupy, lambda n: read((blocks,), (512,), (data, np.int64(used), np.int32(n), out)))
    return used * rounds / seconds / 1e9


def _gpu(
    cupy: Any, memory: Any, arch: str, sms: int, l2_bytes: int, properties: dict[str, Any], attributes: dict[str, Any], theory: Machine | None
) -> Gpu:
    stated = "stated by the driver"
    limits = _limits(arch, properties, attributes)
    mhz = float(attributes.get("ClockRate", properties.get("clockRate", 0))) / 1e3
    known = theory.gpu if theory is not None else None
    clock = Quantity(mhz, "MHz", stated) if mhz else known.clock if known is not None else Quantity(1000, "MHz", "assumed")
    total = int(properties.get("totalGlobalMem", 0))
    far = min(max(4 * l2_bytes, 64 << 20), 1 << 30)
    chase, shared = memory.get_function("chase"), memory.get_function("chase_shared")
    out = cupy.zeros(1, dtype=cupy.uint32)
    near_ns = _chase(cupy, chase, min(l2_bytes // 4, 8 << 20), out)
    far_ns = _chase(cupy, chase, far, out)
    rounds, seconds = _timed(cupy, lambda n: shared((1,), (1,), (np.int32(n), out)))
    tensor = known.tensor_clock if known is not None else clock
    timed = Gpu(
        arch, Quantity(sms, "SMs", stated), clock, tensor, Quantity(total / (1 << 30), "GiB", stated), **limits,
        launch=Quantity(_launch_us(cupy, memory.get_function("nothing")), "us", "timed: empty kernels launched in a row through CuPy", True),
        shared_latency=Quantity(seconds / rounds * 1e9, "ns", "timed: one thread follows a list", True),
        l2_latency=Quantity(near_ns, "ns", "timed: one thread follows a list that fits in L2", True),
        dram_latency=Quantity(far_ns, "ns", f"timed: one thread follows a list of {far >> 20} MiB in random order", True),
        sector=Quantity(32, "B", "CUDA C++ Best Practices Guide, coalesced access: sectors of 32 bytes"),
    )  # fmt: skip
    return timed if known is None else replace(timed, **{name: getattr(known, name) for name in UNDER_LOAD})


def _limits(arch: str, properties: dict[str, Any], attributes: dict[str, Any]) -> dict[str, Quantity]:
    """The table's limits, corrected by what the driver states."""
    nearest = {"sm_87": "sm_86", "sm_103": "sm_100", "sm_121": "sm_120", "sm_110": "sm_100"}
    limits = capability_limits(nearest.get(arch, arch))
    told = {
        "shared_per_sm": ("MaxSharedMemoryPerMultiprocessor", 1024), "shared_per_block": ("MaxSharedMemoryPerBlockOptin", 1024),
        "registers_per_sm": ("MaxRegistersPerMultiprocessor", 1), "max_threads": ("MaxThreadsPerMultiProcessor", 1),
        "max_blocks": ("MaxBlocksPerMultiprocessor", 1), "shared_reserved": ("ReservedSharedMemoryPerBlock", 1),
    }  # fmt: skip
    for name, (attribute, scale) in told.items():
        if attributes.get(attribute):
            limits[name] = replace(limits[name], value=attributes[attribute] / scale, source="stated by the driver")
    return limits


# ------------------------------------------------------------------------------------------- timing
def _timed(cupy: Any, run: Callable[[int], None]) -> tuple[int, float]:
    """(rounds, seconds) of the fastest of several runs, of about RUN_MS each."""
    rounds = 16
    while (spent := _milliseconds(cupy, run, rounds)) < RUN_MS / 4 and rounds < 1 << 28:
        rounds *= 4
    rounds = max(1, int(rounds * RUN_MS / max(spent, 1e-3)))
    return rounds, min(_milliseconds(cupy, run, rounds) for _ in range(RUNS)) / 1e3


def _milliseconds(cupy: Any, run: Callable[[int], None], rounds: int) -> float:
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    run(rounds)
    end.record()
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(begin, end))


def _chase(cupy: Any, kernel: Any, size: int, out: Any) -> float:
    """Nanoseconds of one step through a list of `size` bytes whose entries lie a line apart, in random order."""
    count = max(size // LINE, 2)
    order = np.random.default_rng(0).permutation(count)
    following = np.zeros(count * (LINE // 4), np.uint32)
    following[order * (LINE // 4)] = np.roll(order, -1) * (LINE // 4)
    data = cupy.asarray(following)
    out.fill(0)
    steps = min(max(count, 1 << 14), 1 << 17)  # of a longer list each run follows a part that no run before it brought near

    def run(rounds: int) -> None:
        kernel((1,), (1,), (data, np.int32(rounds), out))

    run(steps)
    return min(_milliseconds(cupy, run, steps) for _ in range(3)) * 1e6 / steps


def _launch_us(cupy: Any, kernel: Any, count: int = 2000) -> float:
    """Microseconds of one of many launches in a row, until the last has run."""
    best = float("inf")
    for _ in range(3):
        cupy.cuda.runtime.deviceSynchronize()
        begin = time.perf_counter()
        for _ in range(count):
            kernel((1,), (32,), ())
        cupy.cuda.runtime.deviceSynchronize()
        best = min(best, (time.perf_counter() - begin) / count)
    return best * 1e6

"""What one multiprocessor (SM) of a GPU does in a clock, for a replay of a recorded run: a machine's numbers, in clocks.

>>> from tileworkbench.base.machine import find_machine
>>> r = sm_rates(find_machine("h200"))
>>> r.tensor("float16"), r.special, r.copy_bytes, r.latency
(4096.0, 8.0, 64.0, 263.0)
>>> sm_rates(find_machine("h200"), 1 << 30).latency  # arrays of a GiB: the first block that asks for a tile waits for memory
479.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..base.hardware import Machine

PARTS = 4  # a multiprocessor has four schedulers, each with its own lanes and tensor core (CUDA C++ Programming Guide, compute capability 7.5 to 9.0)
LANES = 32
NEAR = 0.5  # of L2: it has two halves, and both hold what the SMs of both read (NVIDIA A100 Tensor Core GPU Architecture, L2 cache)
TENSOR = {"float16": "float16>float32", "bfloat16": "bfloat16>float32", "tfloat32": "tfloat32>float32", "int8": "int8>int32", "uint8": "int8>int32",
          "float8_e4m3fn": "float8_e4m3fn>float32", "float8_e5m2": "float8_e5m2>float32", "float64": "float64"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SmRates:
    """`clock_hz`: clocks a second. `issue` and `special`: clocks of a scheduler for one instruction of a warp, plain or by the special function unit.
    `shared_bytes`: bytes a clock between registers and shared memory. `copy_bytes`: bytes a clock from L2, and as many to it;
    `latency`: clocks from a request to its first byte. `tensors`: FLOP a clock by operand type. `sources` says where numbers come from."""

    clock_hz: float
    issue: float
    special: float
    shared_bytes: float
    copy_bytes: float
    latency: float
    tensors: Mapping[str, float] = field(default_factory=dict)
    sources: tuple[str, ...] = ()

    def tensor(self, dtype: str) -> float:
        """FLOP a clock of all four tensor cores for operands of `dtype`; what the ordinary lanes do for one that they do not have."""
        return self.tensors.get(dtype, 2.0 * LANES * PARTS / self.issue)

    def seconds(self, clocks: float) -> float:
        return clocks / self.clock_hz


def sm_rates(machine: Machine, array_bytes: float = 0.0) -> SmRates:
    """The rates of an SM of `machine`, for a launch whose arrays have so many bytes. Raises ValueError for a machine that is no GPU.

    Its link to L2 is the SM's own. All of them together may ask for more than L2 gives; but blocks of a product read the same tiles at the same time,
    and then get it: 128x128x64 tiles of float16 took 345 ns a step on all 132 SMs of an H200, 95 GB/s each (measured, December 2026).
    """
    if machine.gpu is None:
        raise ValueError(f"{machine.name} is no GPU")
    gpu = machine.gpu
    clock = gpu.tensor_clock.value * 1e6
    tensors = {}
    for dtype, name in TENSOR.items():
        found = next((p for p in machine.peaks if p.dtype == name and p.unit == "tensor"), None)
        if found is not None and found.per_clock is not None:
            tensors[dtype] = float(found.per_clock.value)
    lanes = next(p.per_clock.value for p in machine.peaks if p.dtype == "float32" and p.unit == "fma" and p.per_clock is not None) / 2
    special = next(p.per_clock.value for p in machine.peaks if p.unit == "sfu" and p.per_clock is not None)
    level, boost = machine.level("L2"), gpu.clock.value / 1e3  # the preset states it at the boost clock
    assert level.core is not None and level.capacity is not None
    share = round(level.core.value / boost, 2)
    is_near = array_bytes <= level.capacity.bytes * NEAR
    first = gpu.l2_latency if is_near else gpu.dram_latency
    latency = float(round(first.value * boost))
    where = "L2, where the arrays fit" if is_near else "memory, for L2 does not hold the arrays"
    return SmRates(
        clock, LANES * PARTS / lanes, LANES * PARTS / special, 128.0, share, latency, tensors,
        (
            f"tensor cores {tensors.get('float16', 0):g} FLOP/clk of 16 bits, {lanes:g} lanes, {special:g} special results a clock ({machine.name})",
            f"{share:g} B/clk from L2: {level.core.source}",
            f"first byte after {latency:g} clk, from {where}, bulk copies as loads: {first.source}",
            f"clock {gpu.tensor_clock}: {gpu.tensor_clock.source}",
        ),
    )  # fmt: skip

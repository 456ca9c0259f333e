"""What a GPU has beyond peaks and memory levels: multiprocessors, registers, threads, shared memory, latencies.

Limits of a compute capability are those of the CUDA C++ Programming Guide, "Compute Capabilities", table "Technical Specifications per Compute
Capability"; the unit in which registers and shared memory are handed out is that of the CUDA Occupancy Calculator.

>>> limits = capability_limits("sm_90")
>>> str(limits["shared_per_block"]), str(limits["max_warps"]), limits["max_warps"].source
('227 KiB', '64 warps', 'CUDA C++ Programming Guide, technical specifications of compute capability 9.0')
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from .quantity import Quantity

WARP = 32


@dataclass(frozen=True, slots=True)
class Gpu:
    """The limits of a GPU that decide how many blocks run at once and how long a wait takes. All are of one multiprocessor (SM) but `sms`,
    `memory` and the latencies.

    `arch` is the compute capability as compilers write it ("sm_90"). `clock` is the boost clock; `tensor_clock` the one that the vendor's
    matrix peaks are stated at. `launch` is the time from one kernel's end to the next one's start in a stream that is full.
    `sector` is the smallest piece that L2 moves. `register_unit` and `shared_unit` are what a warp's registers and a block's bytes are rounded
    up to; `shared_reserved` is taken by the system from every block. `sustained_clock` is what long matrix products are held at by the power limit,
    `sustained_dram` what large copies reach; `copy_latency` is from the start of a tensor copy to its bytes being there, beside the time of their
    transfer, with every SM loading; `l2_shared` how much L2 keeps of data that all SMs read. None where nobody timed or counted it.
    """

    arch: str
    sms: Quantity
    clock: Quantity
    tensor_clock: Quantity
    memory: Quantity
    registers_per_sm: Quantity
    registers_per_thread: Quantity
    register_unit: Quantity
    max_threads: Quantity
    max_threads_per_block: Quantity
    max_warps: Quantity
    max_blocks: Quantity
    shared_per_sm: Quantity
    shared_per_block: Quantity
    shared_reserved: Quantity
    shared_unit: Quantity
    launch: Quantity
    shared_latency: Quantity
    l2_latency: Quantity
    dram_latency: Quantity
    sector: Quantity
    sustained_clock: Quantity | None = None
    sustained_dram: Quantity | None = None
    copy_latency: Quantity | None = None
    l2_shared: Quantity | None = None

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability: (9, 0) for "sm_90"."""
        number = int(self.arch.removeprefix("sm_").rstrip("af"))
        return number // 10, number % 10

    @property
    def has_async_copy(self) -> bool:
        """Whether a copy from global to shared memory can run while the threads work (cp.async, from 8.0 on)."""
        return self.capability >= (8, 0)

    @property
    def quantities(self) -> dict[str, Quantity]:
        """Every number by name."""
        return {f.name: q for f in fields(self) if f.name != "arch" and (q := getattr(self, f.name)) is not None}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Gpu:
        """The inverse of `dataclasses.asdict`; raises TypeError or KeyError for a damaged record."""
        known = {name: Quantity(**value) for name, value in data.items() if name != "arch" and value is not None}
        return Gpu(data["arch"], **known)


# Per compute capability: threads, blocks of an SM, KiB of shared memory of an SM and of a block, bytes reserved in each block.
_LIMITS = {
    "sm_75": (1024, 16, 64, 64, 0),
    "sm_80": (2048, 32, 164, 163, 1024),
    "sm_86": (1536, 16, 100, 99, 1024),
    "sm_89": (1536, 24, 100, 99, 1024),
    "sm_90": (2048, 32, 228, 227, 1024),
    "sm_100": (2048, 32, 228, 227, 1024),
    "sm_120": (1536, 24, 100, 99, 1024),
}


def capability_limits(arch: str) -> dict[str, Quantity]:
    """What a compute capability fixes, by the names of `Gpu`'s fields. Raises KeyError for one that is not in the table."""
    threads, blocks, per_sm, per_block, reserved = _LIMITS[arch]
    number = arch.removeprefix("sm_")
    guide = f"CUDA C++ Programming Guide, technical specifications of compute capability {number[:-1]}.{number[-1]}"
    units = "CUDA Occupancy Calculator, allocation unit"
    return {
        "registers_per_sm": Quantity(65536, "registers", guide),
        "registers_per_thread": Quantity(255, "registers", guide),
        "register_unit": Quantity(256, "registers", f"{units} of a warp"),
        "max_threads": Quantity(threads, "threads", guide),
        "max_threads_per_block": Quantity(1024, "threads", guide),
        "max_warps": Quantity(threads // WARP, "warps", guide),
        "max_blocks": Quantity(blocks, "blocks", guide),
        "shared_per_sm": Quantity(per_sm, "KiB", guide),
        "shared_per_block": Quantity(per_block, "KiB", guide),
        "shared_reserved": Quantity(reserved, "B", f"{guide}; the system keeps 1 KiB of each block from 8.0 on"),
        "shared_unit": Quantity(128 if number != "75" else 256, "B", f"{units} of a block"),
    }

"""What a GPU kernel takes of its multiprocessor, as the compiler and the launch say: one record for each launch, and a table of them.

print(kernel.resources)
kernel.resources.kernels[0].registers
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base.hardware import Machine
from ..model.needs import kib
from ..model.occupancy import Occupancy
from .cubin import KernelFacts

if TYPE_CHECKING:
    from .cuda_plan import KernelPlan  # a CPU's kernel needs no plan


@dataclass(frozen=True, slots=True)
class KernelResources:
    """One launch. Registers and `local_bytes` (stack in device memory) are a thread's, shared bytes a block's.

    `spill_bytes` are stored and loaded for want of registers, each instruction counted once. `occupancy`: how many such blocks fit, and why.
    """

    name: str
    threads: int
    registers: int
    spill_bytes: int
    local_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    occupancy: Occupancy

    @property
    def shared_bytes(self) -> int:
        """Bytes of a block, static and dynamic."""
        return self.static_shared_bytes + self.dynamic_shared_bytes


@dataclass(frozen=True, slots=True, repr=False)
class Resources:
    """The launches of a kernel on `machine`, in the order of the text; none on a CPU. Prints as a table."""

    machine: str
    kernels: tuple[KernelResources, ...] = ()

    def __str__(self) -> str:
        if not self.kernels:
            return "nothing runs on a GPU"
        width = max(len("kernel"), *(len(k.name) for k in self.kernels))
        lines = [f"{'kernel':<{width}}  threads  registers    spilt    stack     shared  on {self.machine}"]
        for k in self.kernels:
            cells = f"{k.threads:>7}  {k.registers:>9}  {kib(k.spill_bytes):>7}  {kib(k.local_bytes):>7}  {kib(k.shared_bytes):>9}"
            lines.append(f"{k.name:<{width}}  {cells}  {k.occupancy.sentence}")
        return "\n".join(lines)

    __repr__ = __str__


def resources_of(plans: Sequence[KernelPlan], facts: Sequence[KernelFacts], machine: Machine) -> Resources:
    """The resources of planned launches, by the compiler's facts of their kernels."""
    known = {f.name: f for f in facts}
    found = []
    for plan in plans:
        f = known[plan.name]
        fit = f.occupancy(machine, plan.threads, plan.shared_bytes)
        spilt = f.spill_stores + f.spill_loads
        found.append(KernelResources(f.name, plan.threads, f.registers, spilt, f.local_bytes, f.shared_bytes, plan.shared_bytes, fit))
    return Resources(machine.name, tuple(found))

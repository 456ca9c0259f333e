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
from ..model.occupancy import Compiled, Occupancy
from .cubin import KernelFacts
from .gpu_arch import capability

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

    @property
    def fit(self) -> list[str]:
        """Blocks on a multiprocessor, warps of those that it could hold, what limits them, and what would admit one block more."""
        o = self.occupancy
        if o.refusals:
            return ["0", "-", ", ".join(r.limit for r in o.refusals), o.refusal]
        return [str(o.blocks), f"{o.warps} of {o.max_warps} ({o.share * 100:.0f} %)", o.limiter, o.next_step.partition(" -> ")[0] or "-"]

    @property
    def words(self) -> str:
        """One line: registers, spills, shared bytes, occupancy."""
        spilt = f"{kib(self.spill_bytes)} spilt" if self.spill_bytes else "nothing spilt"
        fit = self.occupancy.sentence.partition("; ")[0]
        return f"{self.name}: {self.registers} registers a thread, {spilt}, {kib(self.shared_bytes)} shared, {fit}"


HEAD = ("kernel", "threads", "registers", "spilt", "stack", "shared", "blocks on an SM", "warps", "limited by", "one block more")
_TAKEN = 6  # of them are what a block takes, the others how many fit


@dataclass(frozen=True, slots=True, repr=False)
class Resources:
    """The launches of a kernel on `machine`, in the order of the text; none on a CPU, or where `why` says so. Prints as a table.

    `by`: the compiler whose numbers these are ("NVRTC 13.0 for sm_90a"), `arch` what it compiled for.
    """

    machine: str
    kernels: tuple[KernelResources, ...] = ()
    by: str = ""
    why: str = ""
    arch: str = ""

    @property
    def registers(self) -> int | None:
        """Registers of a thread, the most of any launch; None where nothing was compiled for a GPU."""
        return max((k.registers for k in self.kernels), default=None)

    def compiled_for(self, machine: Machine) -> tuple[Compiled, ...]:
        """What each launch takes of `machine`, for its report; nothing where this was compiled for another generation of GPUs, or for none."""
        gpu = machine.gpu
        if gpu is None or not self.arch or capability(self.arch)[0] != gpu.capability[0]:
            return ()
        return tuple(Compiled(k.threads, k.registers, k.shared_bytes, self.by) for k in self.kernels)

    @property
    def rows(self) -> list[list[str]]:
        """A row for each launch: what `HEAD` names."""
        return [[k.name, str(k.threads), str(k.registers), *map(kib, (k.spill_bytes, k.local_bytes, k.shared_bytes)), *k.fit] for k in self.kernels]

    def __str__(self) -> str:
        if not self.kernels:
            return self.why or "nothing runs on a GPU"
        rows = [[*HEAD[:_TAKEN], f"on {self.machine}"]]
        rows += [[*row[:_TAKEN], k.occupancy.sentence] for row, k in zip(self.rows, self.kernels, strict=True)]
        wide = [max(7, *(len(row[i]) for row in rows)) for i in range(_TAKEN)]
        return "\n".join("  ".join([name.ljust(wide[0]), *map(str.rjust, cells, wide[1:]), fit]) for name, *cells, fit in rows)

    __repr__ = __str__


def resources_of(plans: Sequence[KernelPlan], facts: Sequence[KernelFacts], machine: Machine, by: str = "", arch: str = "") -> Resources:
    """The resources of planned launches, by the compiler's facts of their kernels."""
    known = {f.name: f for f in facts}
    found = []
    for plan in plans:
        f = known[plan.name]
        fit = f.occupancy(machine, plan.threads, plan.shared_bytes)
        spilt = f.spill_stores + f.spill_loads
        found.append(KernelResources(f.name, plan.threads, f.registers, spilt, f.local_bytes, f.shared_bytes, plan.shared_bytes, fit))
    return Resources(machine.name, tuple(found), by, arch=arch)

"""What forbids a kernel on a machine, as a value that a map or a slider shows: the first of the occupancy's refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.machine import Machine
from ..ir.stmt import Kernel
from .occupancy import occupancy


@dataclass(frozen=True, slots=True)
class Limit:
    """What forbids a candidate: `name` is "shared memory", "registers", "threads", "rule" or "does not compile"; `why` a sentence with numbers."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def limit_of(kernel: Kernel, machine: Machine, schedule: Mapping[str, Any] | None = None) -> Limit | None:
    """The first limit of `machine` that a block of `kernel` breaks; None if it fits. A CPU forbids nothing: a tile that is too big is only slow.

    `schedule` holds the kernel's tunables by name, for words such as "block_K=32 fits".
    """
    refusals = occupancy(kernel, machine, schedule=schedule).refusals
    return Limit(refusals[0].limit, str(refusals[0])) if refusals else None

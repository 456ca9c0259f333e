"""What a machine can do: peaks by dtype, and capacity and bandwidth of every memory level. Machines that people have, by name.

Each number is a `Quantity` that says where it comes from, so a picture can draw measured ceilings solid and theoretical ones dashed.

>>> REFERENCE_CPU.peak("float32").value, REFERENCE_CPU.bandwidth("DRAM").value
(215, 15)
>>> round(REFERENCE_CPU.ridge("DRAM", "float32"), 1)     # FLOP/byte where the roof bends
14.3
>>> h200 = find_machine("h200")
>>> str(h200.peak("float16>float32")), str(h200.bandwidth("DRAM")), h200.workers()
('989 TFLOP/s', '4.8 TB/s', '132 SMs')
>>> Machine.from_json(h200.to_json()) == h200
True
"""

from __future__ import annotations

import difflib
import re

from .errors import TileValueError
from .gpu import Gpu
from .hardware import Cost, Level, Machine, Peak
from .presets_cpu import CPUS, REFERENCE_CPU, laptop
from .presets_gpu import GPUS
from .quantity import Quantity

__all__ = [
    "ALIASES", "Cost", "Gpu", "Level", "Machine", "Machines", "PRESETS", "Peak", "Quantity", "REFERENCE_CPU", "find_machine", "laptop", "machines",
    "preset_of_device",
]  # fmt: skip

PRESETS: dict[str, Machine] = {**CPUS, **GPUS}
ALIASES = {
    "h100": "h100-sxm", "a100-80": "a100", "a100-80gb": "a100", "a100-40gb": "a100-40", "a100-sxm": "a100", "3090": "rtx-3090", "4090": "rtx-4090",
    "5090": "rtx-5090", "rtx3090": "rtx-3090", "rtx4090": "rtx-4090", "rtx5090": "rtx-5090", "spr": "sapphire-rapids", "apple": "apple-m2",
    "m2": "apple-m2", "zen-4": "zen4", "hopper": "h200", "blackwell": "b200",
}  # fmt: skip


def find_machine(name: str) -> Machine:
    """The preset called `name`, or by one of its other names; case, spaces and the vendor's name aside.

    Raises: TileValueError with the nearest name and the names there are.

    >>> find_machine("Laptop").cores, find_machine("NVIDIA RTX 4090").name
    (8, 'NVIDIA GeForce RTX 4090')
    """
    key = re.sub(r"[\s_]+", "-", name.strip().lower()).removeprefix("nvidia-").removeprefix("geforce-").removeprefix("tesla-")
    found = PRESETS.get(ALIASES.get(key, key))
    if found is None:
        near = difflib.get_close_matches(key, [*PRESETS, *ALIASES], n=1, cutoff=0.5)
        guess = f"did you mean {ALIASES.get(near[0], near[0])!r}? " if near else ""
        raise TileValueError(f"no machine is called {name!r}", hint=f"{guess}the presets are {', '.join(PRESETS)}")
    return found


class Machines(dict[str, Machine]):
    """Presets by name. Prints as a table: what each is, its peaks and its memory."""

    def __str__(self) -> str:
        lines = [f"{'name':<16} {'float16 into 32':>15} {'float32':>14} {'DRAM':>10}  machine"]
        for name, m in self.items():
            cells = [str(m.peak("float16>float32", m.cores)), str(m.peak("float32", m.cores)), str(m.bandwidth("DRAM", m.cores))]
            lines.append(f"{name:<16} {cells[0]:>15} {cells[1]:>14} {cells[2]:>10}  {m.name}")
        return "\n".join(lines)

    __repr__ = __str__


def machines() -> Machines:
    """Every preset by name: machines on paper, and "reference", which was timed. `Machine.measure()` is this machine.

    >>> [name for name, m in machines().items() if m.is_gpu][:3]
    ['h200', 'h100-sxm', 'h100-pcie']
    """
    return Machines(PRESETS)


# What the driver calls a device, most telling part first, and the preset that it is.
_DEVICES = (
    ("h200", "h200"), ("h100.*pcie", "h100-pcie"), ("h100.*(nvl)", ""), ("h100", "h100-sxm"), ("a100.*40", "a100-40"), ("a100.*pcie", ""),
    ("a100", "a100"), ("l40s", "l40s"), (r"\bl4\b", "l4"), ("rtx 3090$", "rtx-3090"), ("rtx 4090$", "rtx-4090"), ("rtx 5090$", "rtx-5090"),
    (r"\bt4\b", "t4"), ("b200", "b200"),
)  # fmt: skip


def preset_of_device(device: str) -> Machine | None:
    """The preset for a device by the driver's name for it; None where there is none that surely is that chip.

    >>> preset_of_device("NVIDIA H100 80GB HBM3").name, preset_of_device("NVIDIA H100 NVL")
    ('NVIDIA H100 SXM', None)
    """
    name = device.strip().lower()
    key = next((preset for pattern, preset in _DEVICES if re.search(pattern, name)), "")
    return PRESETS[key] if key else None

"""`tileworkbench.carver.arch`: descriptions of devices. On a CPU, a multiprocessor is a core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from tileworkbench.base.errors import UnsupportedError

from . import driver


@dataclass(frozen=True, slots=True)
class CPU:
    """The machine that kernels run on."""

    target: str = "c"

    @property
    def compute_max_core(self) -> int:
        return driver.get_num_sms()


def _gpu(name: str) -> Callable[..., NoReturn]:
    def describe(*_args: Any, **_kwargs: Any) -> NoReturn:
        """A GPU's description: not available without that GPU's target."""
        raise UnsupportedError(f"there is no {name} device here", hint="carver.arch.CPU() describes this machine")

    return describe


CUDA = _gpu("CUDA")
CDNA = _gpu("ROCm")
METAL = _gpu("Metal")


def get_arch(target: Any = "c") -> CPU:
    """The description of a target's device."""
    del target
    return CPU()


def auto_infer_current_arch() -> CPU:
    """The description of this machine."""
    return CPU()


__all__ = ["CDNA", "CPU", "CUDA", "METAL", "auto_infer_current_arch", "driver", "get_arch"]

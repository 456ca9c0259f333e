"""`tileworkbench.carver.arch.driver`: numbers of the device that kernels run on."""

from __future__ import annotations

from typing import Any

from tileworkbench.runtime.fork import LIMIT


def get_num_sms(device_id: int = 0) -> int:
    """How many blocks run at once: on a CPU, the threads of a launch."""
    del device_id
    return LIMIT.of(None)


def get_cuda_device_properties(device_id: int = 0) -> Any:
    """None: there is no CUDA device."""
    del device_id


__all__ = ["get_cuda_device_properties", "get_num_sms"]

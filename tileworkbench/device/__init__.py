"""The device library: the named functions that emitted CUDA text calls, once for the GPU and once for the emulator.

Emitted kernels hold no inline assembly and no `#include`: whatever the hardware must do goes through one of these names. A kernel carries exactly
those it uses. `library` gives their text: for a GPU as CUDA C++ that NVRTC compiles without headers, for the emulator as C++ that calls its runtime.

>>> print(library(["twb_lane"], "sm_80", "gpu").splitlines()[-1])
TWB_DEVICE uint32_t twb_lane() { return twb_thread() & 31u; }
>>> find("twb_wgmma_m64n128k16_f32_bf16_bf16").least_arch
90
>>> from_text("x = twb_shfl_xor(x, 1) + twb_nothing_of_ours(2);")
('twb_shfl_xor',)
"""

from __future__ import annotations

from .function import DeviceFunction
from .library import FUNCTIONS, arch_number, find, from_text, library, why_missing
from .memory import STATUS

__all__ = ["FUNCTIONS", "STATUS", "DeviceFunction", "arch_number", "find", "from_text", "library", "why_missing"]

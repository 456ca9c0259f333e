"""Names under which results are kept: the emitted text, this machine, and what a result was compared with."""

from __future__ import annotations

import hashlib
from typing import Any

from ..base.cpu import host_isa
from ..runtime.fork import available_cores
from ..runtime.kernel import JITKernel
from ..runtime.libcuda import find_driver
from ..runtime.measure import cpu_name
from ..runtime.options import target_name
from ..runtime.profiler import plain
from .problem import stable
from .trial import Settings, as_list


def code_of(kernel: JITKernel) -> str:
    """20 hexadecimal digits for the emitted text and how it is compiled and launched: equal where the time must be."""
    parts = (kernel.source, kernel.target, str(kernel.facts.compiler), repr(kernel.options.compile_flags), str(kernel.num_threads))
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:20]


def machine_name(target: Any = "c") -> str:
    """This machine as the store names it: the processor, the instruction set and the cores that this process may use; for the target "cuda" the GPU.

    >>> machine_name("c") == machine_name()
    True
    """
    driver = find_driver() if target_name(target) == "cuda" else None
    if driver is not None:
        return driver.device(driver.current_ordinal()).name
    return f"{cpu_name()}, {host_isa().name}, {available_cores()} cores"


def checked_by(reference: Any, check: Any, settings: Settings) -> str:
    """A name for how results are checked: the reference's text and the tolerances; "" if they are not."""
    if reference is None and check is None:
        return ""
    digest = hashlib.sha256(stable((reference, check, settings.rtol, settings.atol, settings.mismatched)).encode())
    if not callable(reference):
        for wanted in as_list(reference):
            digest.update(plain(wanted).tobytes())
    return digest.hexdigest()[:12]

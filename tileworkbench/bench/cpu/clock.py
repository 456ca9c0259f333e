"""The machine's speed at the moment: chains of multiply-adds in vector registers, which no memory slows down.

Each contestant's process runs it right after every sample, so a round shows whether all ran at the same speed of the core: its clock, and what
a program on the core's other thread left of it.
"""

from __future__ import annotations

import statistics
import time
from functools import cache

from ...base.cpu import host_isa
from ...base.errors import CompilerError
from ...runtime import toolchain
from ...runtime.loader import Entry, load
from ...runtime.measure import build_probes
from ...runtime.probes import Probe, arithmetic_probes, probe_text
from ...runtime.short_runs import call

ROUNDS = 8192  # of CHAINS multiply-adds: about 50 us
PIECES = 36
COLD = 24  # pieces that pass until wide registers are up to speed after work in narrow ones


def speed() -> float:
    """FLOP/s of one core's float32 units now, the median of short pieces; 0 where nothing can compile the probe."""
    found = _probe()
    if found is None:
        return 0.0
    entry, ops = found
    seconds = []
    for _ in range(PIECES):
        start = time.perf_counter()
        call(entry, 1, ROUNDS)
        seconds.append(time.perf_counter() - start)
    return ops * ROUNDS / statistics.median(seconds[COLD:])


@cache
def _probe() -> tuple[Entry, int] | None:
    compiler = toolchain.default_compiler()
    if compiler is None:
        return None
    isa = host_isa()
    probe: Probe = next(p for p in arithmetic_probes(isa) if p.dtype == "float32")
    try:
        return load(build_probes(compiler, isa, probe_text(isa)), probe.entry), probe.ops
    except CompilerError:
        return None

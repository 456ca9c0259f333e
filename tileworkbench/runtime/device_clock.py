"""The clock of a GPU's stream: what launches take there, whatever the host needs to ask for them.

A launch takes the host some microseconds, often more than the kernel runs. So the stream is kept busy first, by a kernel that only watches a clock,
until the launches that are to be timed all stand in it; then they follow one another as they do behind other work.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from .libcuda import Driver

LAUNCH_US = 15.0  # of the host for a launch, generously
PATIENCE = 1, 4, 16  # times as long, where a busy host took longer; a kernel that the host waits for is never early enough
LONG_MS = 1.0  # a call that takes longer does not show the host's share
MOST_US = 50_000.0
# Waits until the GPU's nanosecond timer has gone on by `ns`; PTX of every GPU since sm_70, which the driver translates in a millisecond
HOLD = b""".version 6.0
.target sm_70
.address_size 64
.visible .entry twb_hold(.param .u64 ns)
{
  .reg .u64 %begin, %now, %ns;
  .reg .pred %early;
  ld.param.u64 %ns, [ns];
  mov.u64 %begin, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %begin;
  setp.lt.u64 %early, %now, %ns;
  @%early bra again;
  ret;
}
"""


class DeviceClock:
    """Nanoseconds of so many calls that launch on one stream of one device: `clock(function, calls)`. Waits for them."""

    short_ns = 300_000  # batches of calls that are shorter make up so much: the events themselves take a microsecond or two

    def __init__(self, driver: Driver, ordinal: int, stream: int) -> None:
        self.driver, self.ordinal, self.stream = driver, ordinal, stream

    def __call__(self, function: Callable[[], Any], calls: int) -> int:
        def work() -> None:
            for _ in range(calls):
                function()

        for patience in PATIENCE:
            self.hold(LAUNCH_US * patience * calls)
            spent, is_early = self.driver.milliseconds(self.ordinal, self.stream, work)
            if not is_early or spent > LONG_MS * calls:
                break
        return int(spent * 1e6)

    def hold(self, microseconds: float) -> None:
        """Keep the stream busy for so long, 50 ms at most."""
        before = self.driver.enter(self.ordinal)
        try:
            nanoseconds = ctypes.c_uint64(int(min(microseconds, MOST_US) * 1e3))
            given = (ctypes.c_void_p * 1)(ctypes.addressof(nanoseconds))
            self.driver.call("cuLaunchKernel", _kernel(self.driver, self.ordinal), 1, 1, 1, 1, 1, 1, 0, self.stream, given, None)
        finally:
            self.driver.leave(before)


_kernels: WeakKeyDictionary[Driver, dict[int, int]] = WeakKeyDictionary()  # of each device


def _kernel(driver: Driver, ordinal: int) -> int:
    known = _kernels.setdefault(driver, {})
    if ordinal not in known:
        known[ordinal] = driver.function(driver.load(ordinal, HOLD + b"\0"), "twb_hold")
    return known[ordinal]

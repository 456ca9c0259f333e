"""The CUDA driver through ctypes: the few functions that loading and launching need.

The library is $TILEWORKBENCH_LIBCUDA, else libcuda.so.1, which comes with the driver. Work happens in each device's primary context, which CuPy and
PyTorch use too, so arrays and streams of theirs can be passed on as they are.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..base.errors import TileRuntimeError, UnsupportedError
from .gpu_arch import of_capability

INVALID_CONTEXT, INVALID_HANDLE, NO_BINARY, OUT_OF_RESOURCES = 201, 400, 209, 701
TOO_LARGE, CLUSTER_SIZE = 720, 912
STICKY = {700, 702, 714, 715, 716, 717, 718, 719}  # a kernel went wrong: nothing runs in this process any more
# CU_DEVICE_ATTRIBUTE_*
_ATTRIBUTES = {
    "max_threads_per_block": 1, "max_grid_x": 5, "max_grid_y": 6, "max_grid_z": 7, "registers_per_block": 12, "sms": 16, "major": 75, "minor": 76,
    "shared_per_block": 97,
}  # fmt: skip
MAX_DYNAMIC_SHARED, NON_PORTABLE_CLUSTER = 8, 14  # CU_FUNC_ATTRIBUTE_*
DRIVER = 'install NVIDIA\'s driver; without a GPU the text still compiles, and the emulator or target="c" run it'


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU as its driver describes it. `shared_per_block` counts bytes; `registers_per_block` is 0 where nobody says."""

    ordinal: int
    name: str
    capability: tuple[int, int]
    sms: int
    max_threads_per_block: int
    max_grid: tuple[int, int, int]
    shared_per_block: int
    registers_per_block: int = 0

    @property
    def arch(self) -> str:
        """What to compile for on this device."""
        return of_capability(*self.capability)


class DriverError(TileRuntimeError):
    """A call of the driver that failed; `code` is its answer."""

    stage = "CUDA error"

    def __init__(self, message: str, code: int, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class Driver:
    """An open and initialised driver. `library` is its ctypes object; every function of it that is used here has its types declared."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        for name, types in _TYPES.items():
            function = getattr(self.library, name)
            function.argtypes, function.restype = types, c_int
        self.call("cuInit", 0)
        version, count = c_int(), c_int()
        self.call("cuDriverGetVersion", byref(version))
        self.call("cuDeviceGetCount", byref(count))
        self.version = (version.value // 1000, version.value % 1000 // 10)
        self.count = count.value
        self.launch: Any = self.library.cuLaunchKernelEx
        self._contexts: dict[int, int] = {}
        self._nothing: dict[int, int] = {}  # context -> memory
        self._devices: dict[int, Device] = {}

    def call(self, name: str, *args: Any) -> None:
        """Call a function of the driver; raises DriverError for any answer but success."""
        code = getattr(self.library, name)(*args)
        if code:
            raise DriverError(f"{name} failed: {self.says(code)}", code)

    def says(self, code: int) -> str:
        """What an answer means, in the driver's words: `invalid argument (CUDA_ERROR_INVALID_VALUE)`."""
        words = []
        for name in ("cuGetErrorString", "cuGetErrorName"):
            text = c_char_p()
            if getattr(self.library, name)(code, byref(text)) == 0 and text.value:
                words.append(text.value.decode())
        return f"{words[0]} ({words[1]})" if len(words) == 2 else f"error {code}"

    def device(self, ordinal: int) -> Device:
        """The GPU with that number."""
        found = self._devices.get(ordinal)
        if found is None:
            if not 0 <= ordinal < self.count:
                raise UnsupportedError(f"there is no GPU number {ordinal}, the driver knows {self.count}")
            handle, name, value = self._handle(ordinal), ctypes.create_string_buffer(128), c_int()
            self.call("cuDeviceGetName", name, 128, handle)
            have = {}
            for key, attribute in _ATTRIBUTES.items():
                self.call("cuDeviceGetAttribute", byref(value), attribute, handle)
                have[key] = value.value
            grid = (have["max_grid_x"], have["max_grid_y"], have["max_grid_z"])
            capability = (have["major"], have["minor"])
            found = Device(
                ordinal, name.value.decode(), capability, have["sms"], have["max_threads_per_block"], grid, have["shared_per_block"],
                have["registers_per_block"],
            )  # fmt: skip
            self._devices[ordinal] = found
        return found

    def current_ordinal(self) -> int:
        """The device of this thread's context; 0 where it has none."""
        device, context = c_int(), c_void_p()
        if self.library.cuCtxGetCurrent(byref(context)) or not context.value:  # to ask a thread without one is an error
            return 0
        return device.value if self.library.cuCtxGetDevice(byref(device)) == 0 else 0

    def enter(self, ordinal: int) -> int:
        """Make the primary context of a device this thread's own; returns the context that was, for `leave`."""
        context = self._contexts.get(ordinal)
        if context is None:
            made = c_void_p()
            self.call("cuDevicePrimaryCtxRetain", byref(made), self._handle(ordinal))
            context = self._contexts[ordinal] = made.value or 0
        before = c_void_p()
        self.call("cuCtxGetCurrent", byref(before))
        if before.value != context:
            self.call("cuCtxSetCurrent", context)
        return before.value or context  # a thread that had none keeps this one

    def leave(self, before: int) -> None:
        """Go back to the context that `enter` returned."""
        self.call("cuCtxSetCurrent", before)

    def load(self, ordinal: int, cubin: bytes) -> int:
        """A module of machine code on a device; it stays loaded, since its kernels may be running."""
        before, module = self.enter(ordinal), c_void_p()
        try:
            self.call("cuModuleLoadData", byref(module), cubin)
        finally:
            self.leave(before)
        return module.value or 0

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        function = c_void_p()
        self.call("cuModuleGetFunction", byref(function), module, name.encode())
        return function.value or 0

    def variable(self, module: int, name: str) -> int:
        """The address of a `__device__` variable of a module."""
        address, size = c_void_p(), c_size_t()
        self.call("cuModuleGetGlobal_v2", byref(address), byref(size), module, name.encode())
        return address.value or 0

    def nothing(self) -> int:
        """The address of some zeros in this thread's context, which an empty tensor may stand for."""
        context = c_void_p()
        self.call("cuCtxGetCurrent", byref(context))
        found = self._nothing.get(context.value or 0)
        if found is None:
            address = c_void_p()
            self.call("cuMemAlloc_v2", byref(address), 256)
            found = self._nothing[context.value or 0] = address.value or 0
            self.call("cuMemsetD32_v2", found, 0, 64)
        return found

    def is_capturing(self, stream: int) -> bool:
        """Whether launches on the stream go into a graph and run later."""
        status = c_int()
        self.call("cuStreamIsCapturing", stream, byref(status))
        return status.value != 0

    def milliseconds(self, ordinal: int, stream: int, work: Callable[[], None]) -> tuple[float, bool]:
        """What `work` launches on the stream takes on the device, by its own clock; waits for it. And whether the stream got there too early.

        Then it was through with what came before while `work` was still launching, so the time may hold some of the host's.
        """
        before, events = self.enter(ordinal), (c_void_p(), c_void_p())
        try:
            for event in events:
                self.call("cuEventCreate", byref(event), 0)
            self.call("cuEventRecord", events[0], stream)
            work()
            is_early = self.library.cuEventQuery(events[0]) == 0
            self.call("cuEventRecord", events[1], stream)
            self.call("cuEventSynchronize", events[1])
            spent = c_float()
            self.call("cuEventElapsedTime", byref(spent), *events)
            return spent.value, is_early
        finally:
            for event in events:
                if event.value:
                    self.library.cuEventDestroy_v2(event)
            self.leave(before)

    def _handle(self, ordinal: int) -> int:
        handle = c_int()
        self.call("cuDeviceGet", byref(handle), ordinal)
        return handle.value


_TYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,), "cuDriverGetVersion": (c_void_p,), "cuDeviceGetCount": (c_void_p,), "cuDeviceGet": (c_void_p, c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int), "cuDeviceGetAttribute": (c_void_p, c_int, c_int), "cuGetErrorString": (c_int, c_void_p),
    "cuGetErrorName": (c_int, c_void_p), "cuDevicePrimaryCtxRetain": (c_void_p, c_int), "cuCtxGetCurrent": (c_void_p,),
    "cuCtxSetCurrent": (c_void_p,), "cuCtxGetDevice": (c_void_p,), "cuModuleLoadData": (c_void_p, c_char_p),
    "cuModuleGetFunction": (c_void_p, c_void_p, c_char_p), "cuModuleGetGlobal_v2": (c_void_p, c_void_p, c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int), "cuLaunchKernelEx": (c_void_p, c_void_p, c_void_p, c_void_p),
    "cuLaunchKernel": (c_void_p, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_void_p, c_void_p, c_void_p),
    "cuStreamSynchronize": (c_void_p,), "cuStreamIsCapturing": (c_void_p, c_void_p), "cuEventCreate": (c_void_p, c_uint),
    "cuEventRecord": (c_void_p, c_void_p), "cuEventSynchronize": (c_void_p,), "cuEventQuery": (c_void_p,), "cuEventDestroy_v2": (c_void_p,),
    "cuEventElapsedTime": (c_void_p, c_void_p, c_void_p), "cuMemAlloc_v2": (c_void_p, c_size_t), "cuMemcpyDtoH_v2": (c_void_p, c_void_p, c_size_t),
    "cuMemsetD32_v2": (c_void_p, c_uint, c_size_t),
    "cuTensorMapEncodeTiled": (c_void_p, c_int, c_uint, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int, c_int, c_int),
}  # fmt: skip


# ------------------------------------------------------------------------------------------- finding
def find_driver() -> Driver | None:
    """The driver of this machine with at least one GPU, or None; `why_no_driver` says why."""
    return _open(_path())[0]


def cuda_version() -> tuple[int, int] | None:
    """The CUDA that the driver of this machine is of, such as (13, 0), without starting it; None where there is none."""
    version = c_int()
    try:
        if ctypes.CDLL(_path()).cuDriverGetVersion(byref(version)):
            return None
    except (OSError, AttributeError):
        return None
    return version.value // 1000, version.value % 1000 // 10


def why_no_driver() -> str:
    """Why `find_driver` is None; "" if it is not."""
    return _open(_path())[1]


def require_driver() -> Driver:
    """The driver; raises UnsupportedError that says what is missing."""
    driver, why = _open(_path())
    if driver is None:
        raise UnsupportedError(f"no kernel can run on a GPU here: {why}", hint=DRIVER)
    return driver


def _path() -> str:
    return os.environ.get("TILEWORKBENCH_LIBCUDA", "libcuda.so.1")


@cache
def _open(path: str) -> tuple[Driver | None, str]:
    try:
        driver = Driver(path)
    except OSError:
        return None, f"there is no CUDA driver ({path} is not found)"
    except AttributeError as error:
        return None, f"the CUDA driver is too old: {error}"
    except DriverError as error:
        return None, f"the CUDA driver does not start: {error.message}"
    return (driver, "") if driver.count else (None, "the CUDA driver finds no GPU")

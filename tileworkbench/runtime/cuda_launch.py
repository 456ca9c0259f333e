"""Launching: a loaded text on one device, and straight-line Python that packs the arguments and calls the driver.

The driver's launch configuration and the arguments lie in one block of memory (a frame), filled by one `struct.pack_into`:

    0   grid x, y, z; block x, y, z; dynamic shared bytes; stream; attributes; their number     (CUlaunchConfig)
    64  the arguments, 8 bytes each, a tensor map 128

The function made here is `run(stream, pointers..., dims..., scalars...)`. Frames are kept; a thread takes one for a launch and puts it back, so two
threads never share one.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import CapacityError, InternalError, UnsupportedError
from .cubin import KernelFacts
from .cuda_plan import FORMATS, KernelPlan, ParamPlan, Plan
from .gpu_arch import why_not_on
from .gpu_limits import too_much_shared
from .host_program import make_run
from .libcuda import (
    CLUSTER_SIZE,
    INVALID_CONTEXT,
    INVALID_HANDLE,
    MAX_DYNAMIC_SHARED,
    NO_BINARY,
    NON_PORTABLE_CLUSTER,
    OUT_OF_RESOURCES,
    STICKY,
    TOO_LARGE,
    Device,
    Driver,
    DriverError,
)
from .tensor_maps import BYTES as MAP_BYTES
from .tensor_maps import MapMaker

Run = Callable[..., None]
_CONFIG = "=7I4xQQI12x"
CONFIG_BYTES = 64
CLUSTER, COOPERATIVE, PROGRAMMATIC = 4, 2, 6  # CU_LAUNCH_ATTRIBUTE_*
_ATTRIBUTE = struct.Struct("=i4x3I52x")
PORTABLE_CLUSTER = 8
REGISTER_UNIT = 256  # registers are given to a warp in pieces of so many (CUDA Occupancy Calculator, allocation unit)
NARROW = ("float16", "float32", "tfloat32")
SYNC = "TILEWORKBENCH_CUDA_SYNC"


def _no_assertion(code: int) -> None:
    raise InternalError(f"assertion {code} of a kernel without any")


class Program:
    """A text's kernels on one device. `run(stream, pointers..., workspaces..., dims..., scalars...)` launches them as the plan says.

    `fail(code)` raises an assertion that did not hold between launches.
    """

    def __init__(
        self, driver: Driver, device: Device, arch: str, cubin: bytes, plan: Plan, facts: Mapping[str, KernelFacts], names: Sequence[str],
        dims: int, scalars: int, fail: Callable[[int], None] = _no_assertion,
    ) -> None:  # fmt: skip
        why = why_not_on(arch, device.capability)
        if why:
            raise UnsupportedError(f"{why}, a {device.name}", hint=f'compile with target="cuda" there, or with arch="{device.arch}"')
        self.driver, self.device, self.plan, self.fail = driver, device, plan, fail
        self.module = driver.load(device.ordinal, cubin)
        before = driver.enter(device.ordinal)
        try:
            self.launches = [_Launch(driver, device, self.module, k, facts[k.name]) for k in plan.kernels]
            self.status = driver.variable(self.module, plan.status) if plan.status else 0
        finally:
            driver.leave(before)
        self.run = self._make(names, dims, scalars)

    @property
    def must_wait(self) -> bool:
        """Whether a call waits for its launches: they may fail, or print."""
        return bool(self.status) or self.plan.prints

    def failed(self, stream: int) -> int:
        """Wait for the stream, if a call must; what the failed assertion left in `status`, which is 0 again afterwards.

        0: none, or the stream is being captured.
        """
        if not self.must_wait or self.driver.is_capturing(stream):
            return 0
        self.driver.call("cuStreamSynchronize", stream)
        if self.plan.prints:
            _flush()
        if not self.status:
            return 0
        found = ctypes.c_uint()
        self.driver.call("cuMemcpyDtoH_v2", ctypes.byref(found), self.status, 4)
        if found.value:
            self.driver.call("cuMemsetD32_v2", self.status, 0, 1)
        return found.value

    def _make(self, names: Sequence[str], dims: int, scalars: int) -> Run:
        pointers = {name: f"p{i}" for i, name in enumerate([*names, *(name for name, _ in self.plan.workspaces)])}
        head = ["stream", *pointers.values(), *(f"d{i}" for i in range(dims)), *(f"s{i}" for i in range(scalars))]
        known: dict[str, Any] = {"sms": self.device.sms, "launch": self.driver.launch, "narrow": _narrow, "bf16": _bf16_bits, "fail": self.fail}
        for i, one in enumerate(self.launches):
            known |= {
                f"pop{i}": one.frames.pop, f"keep{i}": one.frames.append, f"make{i}": one.frame, f"pack{i}": one.pack.pack_into, f"fail{i}": one.fail,
                f"f{i}": one.function, **{f"map{i}_{n}": maker for n, maker in one.makers.items()},
            }  # fmt: skip
        name = ", ".join(k.name for k in self.plan.kernels)
        return make_run(", ".join(head), self.plan.lines, lambda i: self.launches[i].lines(i, pointers), known, name)


def _flush() -> None:
    """What kernels print goes to C's standard output, and stays there until that is full."""
    ctypes.CDLL(None).fflush(None)


class _Launch:
    """One kernel, ready to be launched."""

    def __init__(self, driver: Driver, device: Device, module: int, plan: KernelPlan, facts: KernelFacts) -> None:
        self.driver, self.device, self.plan, self.facts = driver, device, plan, facts
        sizes = tuple(size for _, size in facts.params)
        if sizes != tuple(p.bytes for p in plan.params):
            raise InternalError(f"kernel {plan.name} takes arguments of {sizes} bytes, and would be given {tuple(p.bytes for p in plan.params)}")
        self._check()
        self.function = driver.function(module, plan.name)
        if plan.shared_bytes:
            driver.call("cuFuncSetAttribute", self.function, MAX_DYNAMIC_SHARED, plan.shared_bytes)
        x, y, z = plan.cluster
        if x * y * z > PORTABLE_CLUSTER:
            driver.call("cuFuncSetAttribute", self.function, NON_PORTABLE_CLUSTER, 1)
        self.makers = {n: MapMaker(driver, plan.name, p.spec, len(p.texts)) for n, p in enumerate(plan.params) if p.spec is not None}
        attributes = [_ATTRIBUTE.pack(CLUSTER, x, y, z)] if x * y * z > 1 else []
        attributes += [_ATTRIBUTE.pack(PROGRAMMATIC, 1, 0, 0)] if plan.is_programmatic else []
        attributes += [_ATTRIBUTE.pack(COOPERATIVE, 1, 0, 0)] if plan.is_cooperative else []
        self.attribute_count = len(attributes)
        self._attributes = ctypes.create_string_buffer(b"".join(attributes) or b"\0")
        form, self.offsets = _layout(plan.params)
        self.pack = struct.Struct(form)
        self.frames: list[tuple[memoryview, int, Any, Any]] = []
        self._sync = os.environ.get(SYNC, "0") not in ("", "0")

    def _check(self) -> None:
        """What cannot run on this device, whatever the arguments are."""
        plan, have, static = self.plan, self.device.shared_per_block, self.facts.shared_bytes
        if plan.shared_bytes + static > have:
            raise CapacityError(too_much_shared(plan.name, plan.shared_bytes, static, have, self.device.name), hint="smaller tiles, or fewer stages")
        most = min(self.device.max_threads_per_block, self.facts.max_threads or self.device.max_threads_per_block)
        if plan.threads > most:
            bound = " (its __launch_bounds__)" if most < self.device.max_threads_per_block else ""
            raise CapacityError(f"kernel {plan.name} has {plan.threads} threads a block, at most {most} are possible{bound}")
        limits, registers = self.device.registers_per_block, self.facts.registers
        need = -(-plan.threads // 32) * (-(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT)
        if limits and need > limits:
            raise CapacityError(
                f"kernel {plan.name} needs {need} registers a block ({plan.threads} threads of {registers}), {self.device.name} has {limits}",
                hint="fewer threads, or a lower --maxrregcount in compile_flags",
            )

    def frame(self) -> tuple[memoryview, int, Any, Any]:
        """A new frame: the memory to pack into, its address, the addresses of the arguments, and what keeps all of it alive."""
        raw = ctypes.create_string_buffer(self.pack.size + 64)
        skip = -ctypes.addressof(raw) % 64
        start = ctypes.addressof(raw) + skip
        params = (ctypes.c_void_p * max(1, len(self.offsets)))(*(start + offset for offset in self.offsets))
        return memoryview(raw).cast("B")[skip:], start, ctypes.addressof(params), (raw, params)

    def lines(self, i: int, pointers: Mapping[str, str]) -> list[str]:
        """The statements that launch this kernel; names end in `i`."""
        plan = self.plan
        grid = [f"g{i}{axis}" for axis in "xyz"]
        values = [*grid, *map(str, plan.block), str(plan.shared_bytes), "stream", str(ctypes.addressof(self._attributes)), str(self.attribute_count)]
        arguments = [self._value(n, p, f"map{i}_{n}", pointers) for n, p in enumerate(plan.params)]
        packing = [f"pack{i}(frame[0], 0, {', '.join([*values, *arguments])})"]
        if any(p.dtype in NARROW for p in plan.params if p.kind == "number"):
            bounded = [f"narrow({a}, {p.dtype!r})" if p.kind == "number" else a for a, p in zip(arguments, plan.params, strict=True)]
            packing = ["try:", f"  {packing[0]}", "except OverflowError:", f"  pack{i}(frame[0], 0, {', '.join([*values, *bounded])})"]
        lines = [f"try: frame = pop{i}()", f"except IndexError: frame = make{i}()", *packing]
        lines += [f"code = launch(frame[1], f{i}, frame[2], None)", f"if code{' or True' if self._sync else ''}: fail{i}(code, frame, stream)"]
        lines += [f"keep{i}(frame)"]
        assign = f"{', '.join(grid)} = {', '.join(plan.grid)}"
        if all(text.isdigit() and text != "0" for text in plan.grid):
            return [assign, *lines]
        return [assign, f"if {grid[0]} > 0 and {grid[1]} > 0 and {grid[2]} > 0:", *(f"  {line}" for line in lines)]

    def _value(self, n: int, param: ParamPlan, maker: str, pointers: Mapping[str, str]) -> str:
        match param.kind:
            case "pointer":
                return pointers[param.name]
            case "map":
                return f"{maker}({', '.join([pointers[param.name], *param.texts])})"
            case _:
                return f"bf16({param.texts[0]})" if param.dtype == "bfloat16" else param.texts[0]

    # ------------------------------------------------------------------ when it does not start
    def fail(self, code: int, frame: tuple[memoryview, int, Any, Any], stream: int) -> None:
        """After a launch that failed: try again in the device's context, if the thread is in none or in another's, else raise.

        In sync mode, wait for the kernel. Looking at the thread's context before each launch would cost every call what this costs a rare one.
        """
        if code in (INVALID_CONTEXT, INVALID_HANDLE):
            before = self.driver.enter(self.device.ordinal)
            code = self.driver.launch(frame[1], self.function, frame[2], None)
            self.driver.leave(before)
        if not code and self._sync and not self.driver.is_capturing(stream):
            code = int(self.driver.library.cuStreamSynchronize(stream))
        if code:
            grid = struct.unpack_from("=3I", frame[0])
            raise self.error(code, (grid[0], grid[1], grid[2]))

    def error(self, code: int, grid: tuple[int, int, int]) -> DriverError:
        """The error for the driver's answer: kernel, launch, device, and the limit that was broken."""
        plan = self.plan
        cluster = f", cluster {plan.cluster}" if plan.cluster != (1, 1, 1) else ""
        shape = f"grid {grid}, block {plan.block}{cluster}, {plan.shared_bytes} bytes of dynamic shared memory"
        said = self.driver.says(code)
        if code in STICKY and not self._sync:
            return DriverError(
                f"an earlier kernel went wrong on {self.device.name}: {said}. Seen at the launch of {plan.name} ({shape})", code,
                hint=f"restart the process: no kernel runs in it any more; {SYNC}=1 names the kernel, the emulator's sanitizer the line",
            )  # fmt: skip
        did = "went wrong" if code in STICKY else "did not start"
        broken = self.limit(code, grid)
        return DriverError(f"kernel {plan.name} ({shape}) {did} on {self.device.name}: {broken or said}", code, hint=said if broken else "")

    def limit(self, code: int, grid: tuple[int, int, int]) -> str:
        """The limit that a launch breaks, as a sentence; "" if none is known."""
        plan, facts = self.plan, self.facts
        for axis, extent, most in zip("xyz", grid, self.device.max_grid, strict=True):
            if extent > most:
                return f"the grid has {extent} blocks in {axis}, at most {most} are possible"
        for axis, extent, size in zip("xyz", grid, plan.cluster, strict=True):
            if extent % size:
                return f"the grid has {extent} blocks in {axis}, which clusters of {size} do not divide"
        if code == OUT_OF_RESOURCES:
            return f"{plan.threads} threads of {facts.registers} registers do not fit on a multiprocessor"
        if code == TOO_LARGE:
            return f"all {grid[0] * grid[1] * grid[2]} blocks of a cooperative grid have to run at once, and do not fit"
        if code == CLUSTER_SIZE:
            return f"no cluster of {plan.cluster[0] * plan.cluster[1] * plan.cluster[2]} such blocks fits"
        return "the machine code is for another GPU" if code == NO_BINARY else ""


def _layout(params: Sequence[ParamPlan]) -> tuple[str, list[int]]:
    """The format of a frame, and where each argument lies in it."""
    form, at, offsets = _CONFIG, CONFIG_BYTES, []
    for param in params:
        if param.kind == "map":
            gap = -at % 64
            form, at = f"{form}{gap}x" if gap else form, at + gap
            offsets.append(at)
            form, at = f"{form}{MAP_BYTES}s", at + MAP_BYTES
            continue
        code, size = ("Q", 8) if param.kind == "pointer" else FORMATS[param.dtype]
        offsets.append(at)
        form, at = f"{form}{code}" + (f"{8 - size}x" if size < 8 else ""), at + 8
    return form, offsets


def _narrow(value: float, dtype: str) -> float:
    """A number of a narrower float type, infinite where it is too large for it, as a cast in C makes it."""
    if dtype not in NARROW:
        return value
    with np.errstate(over="ignore"):
        return float(np.float16(value) if dtype == "float16" else np.float32(value))


def _bf16_bits(value: float) -> int:
    """The bits of a number rounded to bfloat16, to nearest, ties to even."""
    with np.errstate(over="ignore"):
        bits = int(np.float32(value).view(np.uint32))
    if value != value:
        return 0x7FC0
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF

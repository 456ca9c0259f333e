"""The target "cuda": lowers a kernel to CUDA text, compiles it with NVRTC, and keeps the machine code in the disk cache.

Compiling needs neither a GPU nor a driver; the first call loads the machine code on the device of its arguments. A call launches on the current
stream of the library whose arrays it got and does not wait, unless the kernel holds assertions; so it works inside CUDA graphs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ..base.errors import ArgumentError, TileError, UnsupportedError
from ..base.machine import Machine, preset_of_device
from ..base.span import Span
from ..codegen.cuda_source import CudaSource, misaligned
from ..ir.stmt import Kernel
from ..model.occupancy import Occupancy
from ..model.placement import BufferLayout
from . import cache as disk
from . import cuda_arrays, cuda_fastcall
from .arguments import BoundCall, Memory
from .arrays import library_of
from .compiled_layouts import compiled_layouts
from .cubin import KernelFacts, code_of, read_cubin
from .cuda_launch import Program
from .cuda_plan import Plan, parameters_of, plan_of
from .cuda_written import Written
from .device_clock import DeviceClock
from .executable import AssertSite, CompileFacts, PassRecord, raise_assertion, remarks_of
from .expressions import HELPERS, evaluate
from .fastcall import Slow
from .fingerprint import fingerprint
from .fork import fork_safe_lock
from .gpu_arch import DEFAULT, parse_arch, why_not_on
from .gpu_limits import check_source, machine_of
from .libcuda import find_driver, require_driver, why_no_driver
from .measure_cuda import measure_cuda, measured_before
from .nvrtc import INSTALL, LINE_INFO, Made, compile_text, find_nvrtc, require_nvrtc, why_no_nvrtc
from .options import Options
from .resources import Resources, resources_of
from .sass import sass_stage
from .signature import Signature
from .stages import Stage
from .target_c import package_stamp
from .timing import Clock
from .translate_cuda import translate_gpu

ABI = "7"
Translate = Callable[..., tuple[CudaSource, tuple[PassRecord, ...]]]


class Compiled:
    """A kernel as machine code for `arch`: `cubin` holds it, `kernels` the compiler's facts of each kernel of the text."""

    entry = None  # there is no C function
    memory: Memory = cuda_arrays  # where its arrays live

    def __init__(
        self, kernel: Kernel, arch: str, folder: Path, facts: dict[str, Any], was_cached: bool, translate: Translate,
        make_anywhere: Callable[[], Compiled] | None = None,
    ) -> None:  # fmt: skip
        self.kernel, self.arch = kernel, arch
        self.library = folder / "kernel.cubin"
        self.cubin = self.library.read_bytes()
        self.source = (folder / "kernel.cu").read_text()
        self.plan = Plan.from_data(facts["plan"])
        self.alignments = self.plan.alignments()
        self.kernels = tuple(KernelFacts.from_data(k) for k in facts["kernels"])
        self._facts, self._was_cached, self._translate = facts, was_cached, translate
        self._make_anywhere = make_anywhere
        self._made_anywhere: Compiled | None = None
        self._programs: dict[int, Program] = {}
        self._lock = fork_safe_lock()

    # ------------------------------------------------------------------ running
    def launch(self, call: BoundCall) -> None:
        """Start the kernel on bound arguments; waits only for kernels with assertions."""
        wrong = next((b.spec.name for b in call.tensors if b.pointer % self.alignments.get(b.spec.name, 1)), None)
        if wrong is not None:
            self.anywhere(wrong).launch(call)
            return
        arrays = _arrays(call)
        ordinal = self.ordinal(call, arrays)
        program = self.program(ordinal)
        stream = cuda_arrays.stream_of(arrays, ordinal)
        library, like = next(((library_of(a), a) for a in arrays), ("cupy", None))
        sizes = [_bytes(buffer, call.dims) for buffer in call.signature.workspaces] + self._own_sizes(call)
        made = [cuda_arrays.allocate((size,), cuda_arrays.BYTE, library, like) for size in sizes]  # alive until the launches are in the stream
        slots = [bound.pointer for bound in call.tensors] + [int(view.__array_interface__["data"][0]) for view, _ in made]
        slots += [call.dims[name] for name in call.signature.dims]
        program.run(stream, *slots, *(call.scalars[s.name] for s in call.signature.scalars))
        self._wait(program, stream)

    def finish(self, call: BoundCall) -> None:
        """Wait for what a call has launched."""
        arrays = _arrays(call)
        ordinal = self.ordinal(call, arrays)
        driver = self.program(ordinal).driver
        stream = cuda_arrays.stream_of(arrays, ordinal)
        if not driver.is_capturing(stream):
            driver.call("cuStreamSynchronize", stream)

    def send(self, value: Any) -> Any:
        """A copy of an array of the host where this kernel can work on it."""
        return cuda_arrays.send(value)

    def short_way(self, signature: Signature, kinds: tuple[str, ...], slow: Slow) -> Callable[..., Any] | None:
        """A function for repeated calls with the same kinds of arrays; None: there is none."""
        if len(self._programs) != 1:  # it runs on several devices: each call has to look
            return None
        if any(re.search(r"\b[ds]\d", text) for _, text in self.plan.workspaces):
            return None
        own = tuple(int(eval(text, dict(HELPERS))) for _, text in self.plan.workspaces)  # the text is ours
        ordinal, program = next(iter(self._programs.items()))
        check = (lambda stream: self._wait(program, stream)) if program.must_wait else None
        several = program.driver.count > 1
        return cuda_fastcall.make(signature, kinds, program.run, check, ordinal, slow, several=several, alignments=self.alignments, own=own)

    def program(self, ordinal: int) -> Program:
        """The kernel loaded on a device. Raises UnsupportedError without a driver, CapacityError for a launch that cannot run there."""
        found = self._programs.get(ordinal)
        if found is not None:
            return found
        driver = require_driver()
        with self._lock:
            if ordinal not in self._programs:
                facts = {k.name: k for k in self.kernels}
                names, dims, scalars = parameters_of(self.kernel)
                self._programs[ordinal] = Program(
                    driver, driver.device(ordinal), self.arch, self.cubin, self.plan, facts, names, len(dims), len(scalars), self.fail
                )  # fmt: skip
            return self._programs[ordinal]

    def ordinal(self, call: BoundCall, arrays: Sequence[Any]) -> int:
        """The device of a call's arrays. Raises ArgumentError if they lie on several."""
        found = sorted(cuda_arrays.ordinals(arrays))
        if len(found) > 1:
            raise ArgumentError(f"kernel {self.kernel.name}: its arrays lie on GPUs {', '.join(map(str, found))}", hint="move them to one")
        return found[0] if found else require_driver().current_ordinal()

    def clock(self, call: BoundCall) -> Clock:
        """The clock of the device that a call runs on."""
        arrays = _arrays(call)
        ordinal = self.ordinal(call, arrays)
        return DeviceClock(self.program(ordinal).driver, ordinal, cuda_arrays.stream_of(arrays, ordinal))

    def anywhere(self, name: str) -> Compiled:
        """The kernel without accesses of several elements, for a call whose array `name` does not begin where those need it."""
        if self._make_anywhere is None:
            raise misaligned(name, self.kernel.name, self.alignments[name])
        with self._lock:
            if self._made_anywhere is None:
                self._made_anywhere = self._make_anywhere()
        return self._made_anywhere

    def _own_sizes(self, call: BoundCall) -> list[int]:
        """The bytes of the workspaces that only the text knows."""
        signature = call.signature
        values = {f"d{i}": call.dims[name] for i, name in enumerate(signature.dims)}
        values |= {f"s{i}": call.scalars[s.name] for i, s in enumerate(signature.scalars)}
        return [int(eval(text, HELPERS, values)) for _, text in self.plan.workspaces]  # the text is ours

    def _wait(self, program: Program, stream: int) -> None:
        if program.must_wait:
            code = program.failed(stream)
            if code:
                self.fail(code)

    def fail(self, code: int) -> None:
        raise_assertion(code, lambda: tuple(AssertSite(m, s) for m, s in self._again[0].asserts), self.kernel.name)

    # ------------------------------------------------------------------ looking
    @cached_property
    def _again(self) -> tuple[CudaSource, tuple[PassRecord, ...]]:
        """The text with its maps, and the passes, made anew."""
        return self._translate(self.kernel, self.arch)

    @property
    def lines(self) -> dict[int, Span]:
        return dict(self._again[0].lines)

    @property
    def passes(self) -> tuple[PassRecord, ...]:
        return self._again[1]

    def layouts(self) -> tuple[BufferLayout, ...]:
        """Where every tile on chip lies in the machine code (`model.placement.LayoutProvider`)."""
        return compiled_layouts(self.kernel, self.passes)

    def machine_code(self) -> tuple[Stage, ...]:
        """The machine code as text, where a disassembler is installed, with what it takes of a multiprocessor."""
        about = tuple(k.words for k in self.resources().kernels)
        made = self._with_lines
        return (sass_stage(made.cubin, self.source, self.lines, about=about, ptx=made.lines),)

    @cached_property
    def _with_lines(self) -> Made:
        """The machine code with its table of lines, by a run of the compiler of its own: launches need not wait for that table."""
        made = compile_text(self.source, self.arch, (*self._facts["flags"], LINE_INFO), {})
        return made if code_of(made.cubin) == code_of(self.cubin) else replace(made, cubin=self.cubin, lines=())

    def facts(self) -> CompileFacts:
        known = self._facts
        spilt = tuple(f"{k.name} keeps {k.local_bytes} bytes a thread in device memory for want of registers" for k in self.kernels if k.spills)
        notes = (*spilt, *known["warnings"], *known["remarks"])
        return CompileFacts(f"{known['compiler']} for {self.arch}", self._was_cached, float(known["passes_ms"]), float(known["compiler_ms"]), notes)

    def machine(self) -> Machine:
        """The GPU here if it runs this code, as it was measured or as on paper; else a GPU on paper that does."""
        return machine_for(self.arch)

    def resources(self, machine: Machine | None = None) -> Resources:
        """What each launch takes of a multiprocessor of `machine` (default: `self.machine()`), by the compiler's numbers."""
        by = f"{self._facts['compiler']} for {self.arch}"
        return resources_of(self.plan.kernels, self.kernels, machine or self.machine(), by, self.arch)

    def occupancy(self, machine: Machine | None = None) -> tuple[Occupancy, ...]:
        """The blocks of each launch that fit on a multiprocessor."""
        return tuple(k.occupancy for k in self.resources(machine).kernels)


class CudaTarget:
    """CUDA on NVIDIA's GPUs. `translate(kernel, arch)` lowers and emits."""

    name = "cuda"
    install = INSTALL  # what to do where it is not usable
    writes = True  # it has a text to show, even where nothing compiles that

    def __init__(self, translate: Translate) -> None:
        self.translate = translate

    def usable(self) -> str:
        return "" if find_nvrtc() is not None else why_no_nvrtc()

    def why_not_run(self) -> str:
        return why_no_driver()

    def compile(self, kernel: Kernel, options: Options) -> Compiled | Written:
        """The machine code of `kernel` for `options.arch`, else for the device here, from disk or made now; without NVRTC its text alone."""
        if find_nvrtc() is None:
            return self.write(kernel, options, f"{why_no_nvrtc()}: {INSTALL}")
        return self._compile(kernel, options, self.translate, lambda: self._compile(kernel, options, partial(self.translate, aligned=False), None))

    def write(self, kernel: Kernel, options: Options, why: str) -> Written:
        """The text of `kernel`, and why it is not compiled."""
        arch, start = choose_arch(options.arch), time.perf_counter()
        source, records = self.translate(kernel, arch)
        check_source(source, kernel, arch, options.schedule)
        return Written(kernel, arch, source, records, (time.perf_counter() - start) * 1e3, why)

    def _compile(self, kernel: Kernel, options: Options, translate: Translate, anywhere: Callable[[], Compiled] | None) -> Compiled:
        compiler = require_nvrtc()
        arch = choose_arch(options.arch, compiler.architectures())
        key = disk.key_of("cuda", ABI, package_stamp(), fingerprint(kernel), arch, compiler.name, str(anywhere is not None), *options.compile_flags)
        fresh: list[tuple[CudaSource, tuple[PassRecord, ...]]] = []

        def build(folder: Path) -> dict[str, Any]:
            start = time.perf_counter()
            compiler.warm_up(arch)
            source, records = translate(kernel, arch)
            fresh.append((source, records))
            check_source(source, kernel, arch, options.schedule)
            _, dims, scalars = parameters_of(kernel)
            plan = plan_of(source, dims, scalars, arch)
            middle = time.perf_counter()
            flags = (*source.flags, *options.compile_flags)
            made = compile_text(source.text, arch, flags, source.lines)
            (folder / "kernel.cu").write_text(source.text)
            (folder / "kernel.cubin").write_bytes(made.cubin)
            times = {"passes_ms": (middle - start) * 1e3, "compiler_ms": (time.perf_counter() - middle) * 1e3}
            return json_facts(made) | times | {"plan": plan.data(), "remarks": remarks_of(records), "flags": flags}

        entry, was_cached = disk.get_or_build(key, build)
        compiled = Compiled(kernel, arch, entry.folder, entry.facts, was_cached, translate, anywhere)
        if fresh:
            compiled.__dict__["_again"] = fresh[0]
        return compiled


def json_facts(made: Made) -> dict[str, Any]:
    """What the cache keeps of a compilation beside the machine code."""
    kernels = [k.data() for k in read_cubin(made.cubin, made.log)]
    found: dict[str, Any] = json.loads(json.dumps({"kernels": kernels, "warnings": made.warnings, "compiler": made.compiler}))
    return found


def choose_arch(asked: str, known: Sequence[str] = ()) -> str:
    """The architecture to compile for: the one that was asked for, $TILEWORKBENCH_CUDA_ARCH, the device's, else sm_90a."""
    asked = asked or os.environ.get("TILEWORKBENCH_CUDA_ARCH", "")
    if asked:
        return parse_arch(asked, known)
    driver = find_driver()
    return driver.device(driver.current_ordinal()).arch if driver is not None else DEFAULT


def machine_for(arch: str) -> Machine:
    """The GPU here if it runs code for `arch`, as `Machine.measure` timed it if it did; else as on paper, or timed now if no preset is that chip.

    Where no GPU here runs it, a GPU on paper that does.
    """
    name, driver = _device_name(arch), find_driver()
    if name and driver is not None and (known := measured_before(name, driver.version[0] * 1000 + driver.version[1] * 10)) is not None:
        return known
    found = preset_of_device(name)
    if name and found is None:
        with contextlib.suppress(UnsupportedError):  # CuPy, which measures, is not installed
            return measure_cuda()
    return found or machine_of(arch)


def _arrays(call: BoundCall) -> list[Any]:
    """The caller's arrays and those that were made for it."""
    return [bound.given for bound in call.tensors if bound.given is not None]


def _bytes(buffer: Any, dims: dict[str, int]) -> int:
    count = 1
    for dim in buffer.shape:
        count *= evaluate(dim, dims)
    return max(1, (max(count, 0) * int(buffer.type.bits) + 7) // 8)


def _device_name(arch: str) -> str:
    """The GPU here; "" if there is none, or none that runs code for `arch`."""
    try:
        driver = find_driver()
        device = driver.device(driver.current_ordinal()) if driver is not None else None
        return device.name if device is not None and not why_not_on(arch, device.capability) else ""
    except TileError:
        return ""


TARGET = CudaTarget(translate_gpu)

__all__ = ["TARGET", "Compiled", "CudaTarget", "choose_arch", "machine_for"]

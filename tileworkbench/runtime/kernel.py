"""The kernel object: what compiling gives, and what everything else looks at.

kernel = tileworkbench.compile(program, out_idx=-1)
C = kernel(A, B)
print(kernel.source)                  # the C text
print(kernel.profile(A, B))           # measured
print(kernel.report().verdict)        # predicted, and what bounds it
"""

from __future__ import annotations

import functools
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.entry import entry, shorten
from ..base.errors import UnsupportedError
from ..base.machine import Machine
from ..base.span import Span
from ..ir.expr import Const
from ..ir.printer import print_kernel
from ..ir.stmt import Kernel
from ..model.report import Report
from . import fastcall
from .arguments import BoundCall, bind
from .cubin import KernelFacts
from .executable import CompileFacts, Executable, PassRecord
from .expressions import show
from .fork import LIMIT, check_threads
from .measure import measure as this_machine
from .observing import WATCH, launch, memory_of
from .options import Options
from .profiler import Profiler
from .reporting import report_of
from .resources import Resources
from .signature import ScalarSpec, Signature
from .stages import Stage
from .supply import KernelParam, TensorSupplyType
from .targets import emulator
from .timing import Clock, Timing, measure

if TYPE_CHECKING:
    from ..model.pipeline import Timeline
    from .accessing import Accessed
    from .emulation import Emulation
    from .inspecting import Counted, Sanitized  # with the emulator, which loads when somebody asks for it


@dataclass(frozen=True, slots=True)
class TuningResult:
    """What a search found for this kernel: the winning configuration, its time and the reference's, in milliseconds."""

    config: Mapping[str, Any] | None = None
    latency: float | None = None
    ref_latency: float | None = None


class JITKernel:
    """A compiled kernel; call it with arrays. Its attributes are values that need no notebook.

    `.ir` the tile program, `.source` the emitted text, `.passes` every step between them, `.signature` what it takes, `.facts` how it was
    compiled, `.schedule` the build-time choices. `.config`, `.latency` and `.ref_latency` are set on the result of a search.
    """

    def __init__(
        self, ir: Kernel, options: Options, target: str, executable: Executable, signature: Signature, schedule: Mapping[str, Any] | None = None
    ) -> None:
        self.ir = ir
        self.options = options
        self.target = target
        self.executable = executable
        self.signature = signature
        self.schedule: dict[str, Any] = dict(schedule or {})
        self.tuning = TuningResult()
        self.__name__ = ir.name
        self._threads = options.num_threads
        self._kinds: tuple[str, ...] | None = None
        self._made_for: tuple[str, ...] | None = None  # the kinds that the short way was made for
        self._fast: Callable[..., Any] = self._first

    # ------------------------------------------------------------------ calling
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel. Takes the inputs in the order of the parameters, returns the outputs: nothing, one array, or a tuple.

        Raises: ArgumentError for arguments that do not fit; DeviceAssertError when an assertion in the kernel does not hold.
        """
        try:
            if kwargs or WATCH.seen is not None:
                return self._slow(args, kwargs)
            return self._fast(*args)
        except (Exception, KeyboardInterrupt) as error:
            shorten(error)
            raise

    def _first(self, *args: Any) -> Any:
        return self._slow(args, {})

    def _slow(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Check everything and run; the second call with the same kinds of arrays prepares the short way for more of them."""
        call = self.bind(*args, **kwargs)
        launch(self, call)
        if not kwargs and WATCH.seen is None:
            if call.kinds == self._kinds and call.kinds != self._made_for:
                self._fast = self.short_way(self._slow) or self._first
                self._made_for = call.kinds
            self._kinds = call.kinds
        return call.results()

    def short_way(self, slow: fastcall.Slow) -> Callable[..., Any] | None:
        """A function for calls like the last one, without the checks that explain themselves; it hands other calls to `slow`. None: there is none."""
        if self._kinds is None:
            return None
        own: Callable[..., Callable[..., Any] | None] | None = getattr(self.executable, "short_way", None)
        if own is not None:
            return own(self.signature, self._kinds, slow)
        entry = self.executable.entry
        if entry is None:
            return None
        return fastcall.make(self.signature, self._kinds, entry, self.executable.fail, self._threads, slow)

    @entry
    def bind(self, *args: Any, **kwargs: Any) -> BoundCall:
        """Check the arguments and allocate the outputs, without running."""
        return bind(self.signature, args, kwargs, LIMIT.of(self._threads), memory_of(self.executable, (*args, *kwargs.values())))

    @property
    def num_threads(self) -> int:
        """Threads of a launch. Setting it (None: the default) takes effect with the next call."""
        return LIMIT.of(self._threads)

    @num_threads.setter
    def num_threads(self, value: int | None) -> None:
        self._threads = check_threads(value)
        self._fast, self._made_for = self._first, None

    # ------------------------------------------------------------------ looking
    @property
    def name(self) -> str:
        return self.ir.name

    @property
    def source(self) -> str:
        """The text that was compiled; the tile program for a target that emits none."""
        return self.executable.source or print_kernel(self.ir)

    @property
    def lines(self) -> dict[int, Span]:
        """Line of `source` -> the author's line that it comes from."""
        return self.executable.lines

    @property
    def passes(self) -> tuple[PassRecord, ...]:
        """Every step from the tile program to the lowered one."""
        return self.executable.passes

    def machine_code(self) -> tuple[Stage, ...]:
        """What follows `source` on this target: the assembly of the C target; empty where nothing is compiled."""
        made: Callable[[], tuple[Stage, ...]] = getattr(self.executable, "machine_code", tuple)
        return made()

    def assembly(self) -> Stage:
        """The machine's own text, with the author's line of each instruction; its `why` says why there is none."""
        stages = self.machine_code()
        return stages[-1] if stages else Stage("assembly", "gas", "", why=f"target {self.target} makes no machine code")

    @property
    def facts(self) -> CompileFacts:
        return self.executable.facts()

    @property
    def ignored_configs(self) -> tuple[str, ...]:
        """Pass configurations that were given and change nothing here."""
        return self.options.ignored

    @property
    def params(self) -> list[KernelParam]:
        """All parameters in order, outputs included."""
        return [_param(p) for p in self.signature.params]

    @property
    def out_idx(self) -> list[int]:
        """Positions of the outputs among the parameters."""
        names = [p.name for p in self.signature.params]
        return [names.index(t.name) for t in self.signature.outputs]

    def __repr__(self) -> str:
        inputs = ", ".join(f"{p.name}: {p}" for p in map(_param, self.signature.inputs))
        outputs = ", ".join(str(_param(t)) for t in self.signature.outputs)
        return f"<kernel {self.name}({inputs}){f' -> {outputs}' if outputs else ''}, target {self.target}>"

    # ------------------------------------------------------------------ measuring
    @entry
    def profile(self, *args: Any, warmup_ms: float = 25.0, rep_ms: float = 100.0, runs: int = 0) -> Timing:
        """Measure calls with these arguments. Outputs are allocated anew by each call, as in use."""
        self(*args)  # raises for bad arguments before any clock runs
        timing = measure(functools.partial(self, *args), warmup_ms=warmup_ms, rep_ms=rep_ms, runs=runs, clock=self.clock_for(args))
        return replace(timing, threads=self.num_threads)

    def clock_for(self, args: Sequence[Any]) -> Clock | None:
        """A target's own clock for calls with these arguments; None: the host's."""
        own: Callable[[BoundCall], Clock] | None = getattr(self.executable, "clock", None)
        return own(self.bind(*args)) if own is not None else None

    @entry
    def report(
        self, machine: Machine | None = None, *, args: Sequence[Any] = (), useful_flops: int | None = None, counters: bool | None = None,
        emulated: Counted | None = None,
    ) -> Report:  # fmt: skip
        """What bounds this kernel: counts, predicted traffic, roofs of `machine` (default: the kernel's own), and with `args` the measured time.

        `counters`: whether hardware counters stand beside the prediction, for `args`. None: where they cost nothing, on a CPU; True also on a GPU,
        through Nsight Compute, which takes some seconds. Where they cannot be read the report says why. `emulated`: what `count` saw of a call, of
        this size or of a smaller one; a GPU's waterfall then has bars for conflicts of banks and for sectors that nobody asked for.

        Raises: ArgumentError if the kernel has symbolic dims or scalars and no `args` say what they are.
        """
        by_line = emulated.by_line if emulated is not None else None
        return report_of(self, machine, args, useful_flops, counters, by_line)

    @property
    def machine(self) -> Machine:
        """The machine that this kernel runs on: this one, the GPU here, or without one a GPU on paper that runs its code."""
        own: Callable[[], Machine] | None = getattr(self.executable, "machine", None)
        return own() if own is not None else this_machine()

    @property
    def is_timed(self) -> bool:
        """Whether its run times say something about the machine: not those of an interpreter or an emulator."""
        return bool(self.executable.source) and getattr(self.executable, "is_timed", True)

    @property
    def resources(self) -> Resources:
        """Registers, spills, shared bytes and occupancy of each GPU kernel, a value that prints as a table; empty on the CPU."""
        own: Callable[[], Resources] | None = getattr(self.executable, "resources", None)
        return own() if own is not None else Resources("")

    @entry
    def sanitize(self, *args: Any, arch: str = "") -> Sanitized:
        """The faults of a call: races, accesses outside or of what was never written, deadlocks, ... each with its line. Changes no array.

        The kernel's CUDA text runs here, thread by thread, whatever its target: for `arch`, else the kernel's own, else sm_90a.
        """
        found: Sanitized = emulator().sanitize(self, args, arch)
        return found

    @entry
    def count(self, *args: Any, arch: str = "") -> Counted:
        """What each author's line of a call moves and computes on a GPU: requests, sectors, wavefronts, bytes, products. Runs as `sanitize` does."""
        found: Counted = emulator().count(self, args, arch)
        return found

    @entry
    def timeline(self, *args: Any, arch: str = "", machine: Machine | None = None) -> Timeline:
        """Who copies, computes and waits in a call: order from a run of one block in the emulator, durations from a model of `machine` (a GPU).

        Runs as `sanitize` does. Raises UnsupportedError for a call that would take too long.
        """
        found: Timeline = emulator().timeline(self, args, arch, machine)
        return found

    @entry
    def accesses(self, *args: Any, arch: str = "") -> Accessed:
        """What the warps of a call ask of each tile in shared memory, lane by lane, with the layout that serves them. Runs as `sanitize` does."""
        found: Accessed = emulator().accesses(self, args, arch)
        return found

    @entry
    def emulation(
        self, *args: Any, counts: bool = False, accesses: bool = False, timeline: bool = False, arch: str = "", machine: Machine | None = None
    ) -> Emulation:
        """What is asked for of `count`, `accesses` and `timeline`, from one run of the call on as many multiprocessors as `machine` (a GPU) has.

        A timeline that would take too long is not there, and the value says why.
        """
        found: Emulation = emulator().emulation(self, args, arch, machine, counts=counts, accesses=accesses, timeline=timeline)
        return found

    def get_profiler(self, tensor_supply_type: TensorSupplyType = TensorSupplyType.Auto) -> Profiler:
        """TileLang's profiler for this kernel: `do_bench`, `assert_allclose`, on inputs of the given kind."""
        return Profiler(self, tensor_supply_type)

    # ------------------------------------------------------------------ TileLang's names
    @property
    def prim_func(self) -> Kernel:
        return self.ir

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The winning configuration, when a search made this kernel."""
        return self.tuning.config

    @property
    def latency(self) -> float | None:
        """Its measured time in milliseconds, when a search made this kernel."""
        return self.tuning.latency

    @property
    def ref_latency(self) -> float | None:
        return self.tuning.ref_latency

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The emitted text."""
        del kernel_only
        return self.source

    def get_host_source(self) -> str:
        """The host's half. On the CPU targets the kernel text is the whole program, and this is it."""
        return self.source

    def show_source(self, which: str = "kernel") -> None:
        """Print the emitted text."""
        del which
        sys.stdout.write(self.source + "\n")

    def print_source_code(self, which: str = "kernel", file: str | None = None) -> None:
        """Print the emitted text, or write it to `file`."""
        del which
        if file is None:
            sys.stdout.write(self.source + "\n")
        else:
            Path(file).write_text(self.source)

    def export_sources(self, kernel_path: str | None = None, host_path: str | None = None) -> None:
        """Write the emitted text to the given files."""
        for path in (kernel_path, host_path):
            if path is not None:
                Path(path).write_text(self.source)

    @entry
    def export_library(self, path: str) -> None:
        """Copy the compiled shared library, or a GPU's machine code (a cubin), to `path`. Raises UnsupportedError if the target has none."""
        library = getattr(self.executable, "library", None)
        if library is None:
            raise UnsupportedError(f"target {self.target} makes no library", hint='compile with target="c"')
        shutil.copyfile(library, path)

    def export(self, folder: str) -> Path:
        """Write the tile program, the emitted text and the library, as far as there are such, into `folder`; returns it."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{self.name}.tile.txt").write_text(print_kernel(self.ir))
        if self.executable.source:
            (place / f"{self.name}.{'cu' if getattr(self.executable, 'arch', '') else 'c'}").write_text(self.executable.source)
        if getattr(self.executable, "library", None) is not None:
            self.export_library(str(place / f"{self.name}.{'cubin' if self._gpu_kernels else 'so'}"))
        return place

    @property
    def n_regs(self) -> int | None:
        """Registers a thread of a GPU kernel, the most of any launch; None on the CPU."""
        return max((k.registers for k in self._gpu_kernels), default=None)

    @property
    def n_spills(self) -> int | None:
        """Registers of a GPU kernel that went to memory, in units of 4 bytes, the most of any launch; None on the CPU."""
        return max((k.spill_stores // 4 for k in self._gpu_kernels), default=None)

    @property
    def resource_usage(self) -> dict[str, Any]:
        """What the compiler says of each GPU kernel, by its name; empty on the CPU."""
        return {k.name: k.data() for k in self._gpu_kernels}

    @property
    def _gpu_kernels(self) -> tuple[KernelFacts, ...]:
        found: tuple[KernelFacts, ...] = getattr(self.executable, "kernels", ())
        return found

    def show_sass(self) -> None:
        """Print a GPU kernel's machine code. Raises UnsupportedError where there is none, with the reason."""
        sys.stdout.write(self._sass() + "\n")

    def export_sass(self, path: str) -> None:
        """Write a GPU kernel's machine code, as text, to `path`."""
        Path(path).write_text(self._sass())

    def _sass(self) -> str:
        stage = self.assembly()
        if not self._gpu_kernels:
            self._no_gpu_text()
        if stage.why:
            raise UnsupportedError(stage.why)
        return stage.text

    def _no_gpu_text(self, *_args: Any, **_kwargs: Any) -> None:
        hint = "its text is compiled to machine code at once: show_sass" if self._gpu_kernels else "`.source` is the C text"
        raise UnsupportedError(f"target {self.target} has no PTX{'' if self._gpu_kernels else ' or SASS'}", hint=hint)

    show_ptx = export_ptx = _no_gpu_text


def _param(spec: Any) -> KernelParam:
    if isinstance(spec, ScalarSpec):
        return KernelParam(spec.name, spec.dtype, None, False)
    shape = tuple(int(d.value) if isinstance(d, Const) else show(d) for d in spec.shape)
    return KernelParam(spec.name, spec.dtype, shape, spec.is_output)

"""What one `%%tile` cell did, as a value: its launches, the report of the last one, and the outcome of its checks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..base.errors import ErrorGroup, ExpectationError, TileError, TileValueError, UnsupportedError
from ..base.machine import Machine, find_machine
from ..frontend.prim_func import PrimFunc
from ..model.report import Report, report
from ..runtime.arguments import BoundCall
from ..runtime.compiling import compile_ir
from ..runtime.fork import LIMIT, check_threads
from ..runtime.gpu_arch import DEFAULT, parse_arch
from ..runtime.jit import JITFunction
from ..runtime.kernel import JITKernel
from ..runtime.observing import observe
from ..runtime.options import make_options, target_arch, target_name
from ..runtime.scorecard import record
from ..runtime.targets import get_target, why_not_run
from . import expect
from .cell import Cell, bound_names, execute, prepare
from .facts import facts_of
from .judge import judge
from .reference import Comparison
from .repeat import is_repeatable, times_of
from .tuning import TuneSyntaxError, bench_of, parse
from .workbench import Workbench

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ..runtime.emulation import Emulation
    from ..runtime.inspecting import Counted


@dataclass(frozen=True, slots=True)
class Options:
    """What the magic's line asks for; `threads` 0, `target` "" and `machine` "" (the one it runs on) mean the defaults."""

    target: str = ""
    threads: int = 0
    check: str = ""
    tolerance: float | None = None
    expect: str = ""
    compile_only: bool = False
    repeat: int = 5
    machine: str = ""
    tune: str | None = None  # tunables of the workbench; "" guesses them, None shows none
    parts: tuple[str, ...] = ()  # of the panel that is shown: an emulated cell's last launch is run once more for what they show of it


@dataclass(frozen=True, slots=True)
class Launch:
    """`count` launches of one kernel in a row: the last call with its arrays, and the measured seconds of some of them or of repeats."""

    kernel: JITKernel
    call: BoundCall
    seconds: tuple[float, ...]
    count: int = 1


@dataclass(slots=True)
class CellRun:
    """What a cell did. `kernels` are those that it made or launched, `defined` the names of jitted functions that it defined.

    `report` is that of the last launch; without one, the prediction for the last kernel whose sizes are all known; else None. `emulation` is what one
    more run of an emulated launch says for the parts that are shown.
    """

    cell: Cell
    options: Options
    launches: tuple[Launch, ...] = ()
    kernels: tuple[JITKernel, ...] = ()
    defined: tuple[str, ...] = ()
    report: Report | None = None
    emulation: Emulation | None = None
    comparisons: tuple[Comparison, ...] = ()
    outcomes: tuple[expect.Outcome, ...] = ()
    value: object = None
    failures: list[TileError] = field(default_factory=list)
    bench: Workbench | None = None

    @property
    def last(self) -> Launch | None:
        return self.launches[-1] if self.launches else None

    @property
    def is_emulated(self) -> bool:
        """Whether the last launch ran in the emulator."""
        return self.last is not None and not self.options.compile_only and self.last.kernel.target == "emulate"

    def raise_failures(self) -> None:
        """Raise what --check and --expect found wrong: nothing, one error, or all of them together."""
        if len(self.failures) == 1:
            raise self.failures[0]
        if self.failures:
            raise ErrorGroup(self.failures)

    def __repr__(self) -> str:
        ran = ", ".join(dict.fromkeys(launch.kernel.name for launch in self.launches)) or "no kernel"
        launches = sum(launch.count for launch in self.launches)
        return f"<{self.cell.label} ran {ran}: {launches} launches, {len(self.failures)} failures>"


def run_cell(shell: InteractiveShell, line: str, body: str, options: Options) -> CellRun:
    """Run the cell; raises what its body raises. Failures of --check and --expect are kept in the value, to be raised after it is shown."""
    cell, tree = prepare(shell, line, body)
    run = CellRun(cell, options)
    asked = _tunables(run)
    seen: list[Launch] = []

    def saw(kernel: JITKernel, call: BoundCall, seconds: float) -> None:
        earlier = seen.pop().seconds if seen and seen[-1].kernel is kernel else ()
        seen.append(Launch(kernel, call, (*earlier, seconds), len(earlier) + 1))  # a loop of launches keeps one call's arrays, not all

    _check_target(run)
    with session(options), observe(saw, launch=not options.compile_only):
        run.value = execute(shell, cell, tree)
        for name in bound_names(tree):
            _compile_if_needed(shell.user_ns, name)
    bound = {name: shell.user_ns.get(name) for name in bound_names(tree)}
    made = [value for value in bound.values() if isinstance(value, JITKernel)]
    run.kernels = tuple(dict.fromkeys([*made, *(launch.kernel for launch in seen)]))
    run.defined = tuple(name for name, value in bound.items() if isinstance(value, JITFunction))
    if seen:
        if not options.compile_only and seen[-1].kernel.is_timed and is_repeatable(seen[-1].kernel.ir):
            first = seen[-1]
            seen[-1] = replace(first, seconds=times_of(first, options.repeat))
        run.launches = tuple(seen)
        run.emulation = _emulation(run.launches[-1], options) if run.is_emulated else None
        run.report = _report(run.launches[-1], options, run.emulation.counts if run.emulation else None)
    elif known := [k for k in made if not k.signature.dims and not k.signature.scalars]:
        run.report = known[-1].report(_machine(options, known[-1]))
    _check(shell, run)
    _expect(run)
    if options.tune is not None and run.last is not None:
        try:
            run.bench = _bench(shell, run, asked, f"%%tile {line}\n{body}")
        except TileError as error:
            run.failures.append(error.at(run.cell.span_of_option(options.tune or "--tune")))
    return run


def _tunables(run: CellRun) -> dict[str, tuple[Any, ...]]:
    """What --tune names. Raises TileValueError at its place in the line."""
    try:
        return parse(run.options.tune or "")
    except TuneSyntaxError as error:
        whole = run.cell.span_of_option(run.options.tune or "")
        raise error.at(run.cell.span(whole.col + error.start, whole.col + error.stop)) from None


def _bench(shell: InteractiveShell, run: CellRun, asked: dict[str, tuple[Any, ...]], text: str) -> Workbench:
    """The workbench of the last launch, with the cell's own run as its first."""
    last, options = run.launches[-1], run.options
    check = eval(options.check, shell.user_ns) if options.check else None  # it was evaluated before, by --check itself
    chosen = {"machine": options.machine or None, "check": check, "tolerance": options.tolerance}
    made = replace(bench_of(last.kernel, last.call, asked, shell.user_ns, **chosen), cell=text)
    if run.report is not None and run.report.measured is not None:
        made.note(run.report, run.comparisons, last.kernel)
    return made


def _check_target(run: CellRun) -> None:
    """Raise, at --target's place in the line, for a target that does not exist, or that cannot run here what the cell would run."""
    options = run.options
    if not options.target:
        return
    name, arch = target_name(options.target), target_arch(options.target)
    try:
        get_target(name)
        if arch:
            parse_arch(arch)
        why = "" if options.compile_only else why_not_run(name)
        if why:
            raise UnsupportedError(
                f"nothing can run for target {options.target!r} here: {why}",
                hint=f"add --compile-only to compile, see the text and a prediction; or run it on this machine, thread by thread: "
                f"--target emulate:{arch or DEFAULT}",
            )
    except TileError as error:
        raise error.at(run.cell.span_of_option(options.target)) from None


@contextmanager
def session(options: Options) -> Iterator[None]:
    """The cell's own defaults of target and threads; what a kernel asks for itself still wins."""
    with ExitStack() as undo:
        if options.target:
            undo.callback(_restore, "TILEWORKBENCH_TARGET", os.environ.get("TILEWORKBENCH_TARGET"))
            os.environ["TILEWORKBENCH_TARGET"] = options.target
        if options.threads:
            try:
                check_threads(options.threads)
            except ValueError as error:
                raise TileValueError(str(error)) from None
            undo.callback(setattr, LIMIT, "default", LIMIT.default)
            LIMIT.default = options.threads
        yield


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _compile_if_needed(space: dict[str, Any], name: str) -> None:
    """A bare `@T.prim_func` that the cell defined becomes a kernel that can be called."""
    value = space.get(name)
    if isinstance(value, PrimFunc):
        space[name] = compile_ir(value.kernel, make_options())


def _machine(options: Options, kernel: JITKernel) -> Machine:
    """The machine that the report is about: a preset, or the one that the kernel runs on."""
    return find_machine(options.machine) if options.machine else kernel.machine


def _emulation(launch: Launch, options: Options) -> Emulation | None:
    """One more run of an emulated launch, for all the parts that show something of it; None where there are none."""
    kernel, parts, machine = launch.kernel, options.parts, _machine(options, launch.kernel)
    has_counts, has_accesses, has_timeline = "waterfall" in parts, "banks" in parts, "pipeline" in parts
    if not machine.is_gpu or not (has_counts or has_accesses or has_timeline):
        return None
    return kernel.emulation(*launch.call.inputs(), counts=has_counts, accesses=has_accesses, timeline=has_timeline, machine=machine)


def _report(launch: Launch, options: Options, counts: Counted | None) -> Report:
    """What the model says of this launch, with its measured times if it ran as compiled code on the machine that is asked about.

    `counts`: what an emulated run counted, for the waterfall's bars of conflicts and sectors.
    """
    kernel, call = launch.kernel, launch.call
    is_measured = not options.compile_only and not options.machine and kernel.is_timed
    seconds = launch.seconds if is_measured else ()
    machine = _machine(options, kernel)
    made = report(
        kernel.ir,
        machine,
        call.dims,
        threads=call.threads,
        seconds=seconds,
        scalars=call.scalars,
        arrays=call.readable(),
        schedule=kernel.schedule,
        compiled=kernel.resources.compiled_for(machine) if machine.is_gpu else (),
        emulated=counts.by_line if counts is not None else None,
    )
    record(made)
    return made


def _check(shell: InteractiveShell, run: CellRun) -> None:
    text = run.options.check
    if not text:
        return
    span = run.cell.span_of_option(text)
    if run.last is None or run.options.compile_only:
        run.failures.append(ExpectationError("there is nothing to check: the cell ran no kernel", span=span))
        return
    try:
        run.comparisons = judge(run.last, text, shell.user_ns, run.options.tolerance)
    except TileError as error:
        run.failures.append(error.at(span))
        return
    for comparison in run.comparisons:
        if not comparison.holds:
            run.failures.append(ExpectationError(str(comparison), span=span))


def _expect(run: CellRun) -> None:
    text = run.options.expect
    if not text:
        return
    whole = run.cell.span_of_option(text)
    if run.report is None:
        run.failures.append(ExpectationError("there is nothing to report: the cell ran no kernel", span=whole))
        return
    try:
        run.outcomes = tuple(expect.check(text, facts_of(run.report)))
    except expect.ExpectSyntaxError as error:
        raise error.at(run.cell.span(whole.col + error.start, whole.col + error.stop)) from None
    for outcome in run.outcomes:
        if not outcome.holds:
            start = whole.col + outcome.start
            run.failures.append(ExpectationError(str(outcome), span=run.cell.span(start, start + len(outcome.text))))

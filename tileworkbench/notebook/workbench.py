"""`workbench(kernel, args, block_M=[...], ...)`: turn a kernel's tunables and see prediction and measurement follow.

    bench = tileworkbench.workbench(matmul, (A, B), block_M=[32, 64, 128], block_N=[64, 128])
    bench                                 # in a notebook: sliders, views, a run log
    bench.move(block_M=128).truth         # anywhere: the report of a measured run
    print(bench)                          # the same in text

The value needs no browser. `ghost` is what the model predicts where the sliders stand, `truth` what a run there measured; both are reports.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..base.entry import entry
from ..base.errors import TileValueError
from ..base.machine import Machine, find_machine
from ..model.report import Report
from ..model.values import show as show_number
from ..runtime.kernel import JITKernel
from ..runtime.measure import measure as this_machine
from ..tune.problem import Problem
from ..tune.schedule import Schedule, text_of
from ..tune.space import Constraint, Space
from ..tune.store import Store
from ..views.roofline import Roofline
from ..views.scene import Scene
from ..views.view import View, escape, picture
from . import bench_views
from .applying import call_of, with_schedule
from .bench_live import Face, live_of
from .engine import Engine, Settings
from .live import can_be_live, running_shell, static_bundle, widget
from .positions import Place, place_of, schedule_at
from .reference import Comparison
from .runlog import Run, RunLog, usual_error
from .searching import TIMEOUT_S, Progress

WAIT_S = 60.0
FIRST_PAINT_S = 0.2


@entry
def workbench(
    kernel: Any,
    args: Sequence[Any] = (),
    *,
    machine: Machine | str | None = None,
    check: Any = None,
    tolerance: float | None = None,
    where: Callable[..., Any] | None = None,
    limit_s: float = 2.0,
    start: Mapping[str, Any] | None = None,
    store: Store | None | Literal["default"] = "default",
    **tunables: Any,
) -> Workbench:
    """Sliders, views and a run log for a kernel.

    Args:
        kernel: a function under `@tileworkbench.jit`, eager (it takes the arrays) or a factory (it returns the program).
        args: the arrays that it runs on; made up where sizes are known without them. They are never changed.
        machine: predict for this one (a preset's name, or a Machine) instead of this computer; then nothing is measured.
        check: an array, a tuple of arrays, or a function of the kernel's inputs: every run's outputs are compared with it.
        where: a rule between tunables, such as `lambda block_M, block_N: block_M >= block_N`; other combinations are refused.
        limit_s: a position whose predicted time is longer than this is run only when asked for (`.move(anyway=True)`).
        start: where to begin; by default the function's own defaults.
        store: where results are kept and found again; None keeps nothing.
        tunables: each a list of values, or one value that stays fixed. With no list at all they are guessed from the function's defaults.
    Raises: TileTypeError for a kernel that cannot be made again; TileValueError where there is nothing to turn.

    >>> workbench(matmul, (A, B), block_M=[32, 64, 128])      # doctest: +SKIP
    """
    lists = {name: value for name, value in tunables.items() if _is_list(value)}
    problem = Problem.of(kernel, args or None, {name: value for name, value in tunables.items() if name not in lists})
    space = Space.of(**lists) if lists else guessed(problem)
    if where is not None:
        space = Space(space.tunables, (*space.constraints, Constraint.of(where)), space.checks, space.listed)
    chosen = find_machine(machine) if isinstance(machine, str) else machine
    settings = Settings(chosen or this_machine(), chosen is None or chosen == this_machine(), check, tolerance, limit_s)
    settings.store = Store() if store == "default" else store
    return Workbench(Engine(problem, space, settings, beginning(problem, space, start)))


def _is_list(value: Any) -> bool:
    return isinstance(value, list | range | tuple) or (isinstance(value, type) and hasattr(value, "__members__"))


def guessed(problem: Problem) -> Space:
    """The tunables that the function's defaults show. Raises TileValueError if there are none."""
    space = Space(problem.space().tunables)  # predicting asks the frontend anyway
    if not space.tunables:
        raise TileValueError(
            f"{problem.name} has no build-time parameter with a default to turn", hint="name its tunables and their values: block_M=[32, 64, 128]"
        )
    return space


def beginning(problem: Problem, space: Space, start: Mapping[str, Any] | None) -> Place:
    """The place of `start`; else of the function's defaults, as far as they are steps; else the middle of each slider."""
    middle = tuple(len(t.values) // 2 for t in space.tunables)
    if start is not None:
        return place_of(space, start, middle)
    parameters = problem.function.signature.parameters
    known = {t.name: parameters[t.name].default for t in space.tunables if t.name in parameters and parameters[t.name].default in t.values}
    return place_of(space, known, middle)


@dataclass(frozen=True, eq=False, repr=False)
class Workbench(View):
    """A kernel, where its sliders stand, and what is known about every position. A view; in a notebook a live one."""

    engine: Engine
    cell: str = ""  # the text of the cell that it came from: what `apply` changes

    # ------------------------------------------------------------------------------------------ moving
    def move(self, *, anyway: bool = False, again: bool = False, **values: Any) -> Workbench:
        """Set tunables and ask for prediction and run there, in the background; returns at once. The newest move wins.

        Args:
            anyway: run it even if its prediction is longer than the limit. again: measure once more.
        Raises: TileValueError for a name that is no tunable or a value that is no step of it.
        """
        self.engine.move(values, anyway=anyway, again=again)
        return self

    def wait(self, seconds: float = WAIT_S) -> bool:
        """Wait until the newest move has its answer; False if that took longer. An interrupt ends the waiting only."""
        return self.engine.wait(seconds)

    def close(self) -> None:
        """Stop the background work. What is known stays."""
        self.engine.close()

    # ------------------------------------------------------------------------------------------ what is known
    @property
    def schedule(self) -> Schedule:
        """Where the sliders stand."""
        return self.engine.schedule

    @property
    def space(self) -> Space:
        """The tunables, their steps, and the rules between them."""
        return self.engine.space

    @property
    def ghost(self) -> Report | None:
        """The prediction where the sliders stand; None where there can be none: `reason` says why."""
        return self.engine.prediction(self.engine.place).report

    @property
    def truth(self) -> Report | None:
        """The report of a run where the sliders stand; waits for it. None where none could be had: `reason` says why."""
        run = self.run
        return run.report if run is not None and run.measured is not None else None

    @property
    def run(self) -> Run | None:
        """The run where the sliders stand, with its number, checks and source; waits for it."""
        engine = self.engine
        if engine.place not in engine.latest and not engine.is_asked:
            engine.move({})
        engine.wait(WAIT_S)
        return engine.latest.get(engine.place)

    @property
    def reason(self) -> str:
        """Why there is no prediction or no run where the sliders stand, as far as is known; "" if nothing is amiss."""
        return self.engine.why_no_truth(self.engine.place)

    @property
    def log(self) -> RunLog:
        """Every run, numbered."""
        return self.engine.log

    @property
    def best(self) -> Run | None:
        """The fastest run with a right result."""
        return self.log.best

    @property
    def why(self) -> str:
        """What bounds the kernel where the sliders stand, and the change that would test it."""
        return bench_views.why(self.engine)

    @property
    def predictions(self) -> list[tuple[Schedule, Report | None, str]]:
        """(schedule, prediction, reason why there is none) for every position that was looked at, the fastest first."""
        known = sorted(self.engine.predictions.items(), key=lambda item: (item[1].seconds is None, item[1].seconds))
        return [(schedule_at(self.space, place), p.report, self.engine.reason(place)) for place, p in known]

    def search(self, *, timeout_s: float = TIMEOUT_S, limit: int | None = None, wait: bool = True) -> Progress:
        """Try every position that nothing forbids (at most `limit`), each in a process that is killed after `timeout_s`; the log and the store fill.

        An interrupt stops it, and what has finished stays. With `wait=False` it returns at once; `stop()` ends it.
        """
        hunt = self.engine.search(timeout_s=timeout_s, limit=limit)
        if wait:
            try:
                while not hunt.wait(0.2):
                    pass
            except KeyboardInterrupt:
                hunt.stop()
                hunt.wait(5.0)  # the candidate that was running is being killed
        return hunt.progress

    def stop(self) -> None:
        """End a search; what has finished stays."""
        if self.engine.hunt is not None:
            self.engine.hunt.stop()

    def note(self, report: Report, checks: Sequence[Comparison], kernel: JITKernel) -> None:
        """Take a run that was made elsewhere into the log, if its schedule is a position of this workbench."""
        names = self.space.names
        if any(report.schedule.get(name) != self.schedule[name] for name in names):
            return
        engine, facts = self.engine, kernel.facts
        about: dict[str, Any] = {
            "compile_ms": facts.passes_ms + facts.compiler_ms,
            "source": kernel.source,
            "usual_error": usual_error(report),
        }
        engine.record(engine.place, Run(0, self.schedule, replace(report, schedule=dict(self.schedule)), "", tuple(checks), **about))

    def apply(self, run: int | None = None) -> str:
        """Text of a cell with the schedule of a run (default: where the sliders stand) in it; in a notebook it becomes the next cell.

        The cell that the workbench came from with its numbers replaced, or a call of the function where there is no such cell.
        """
        text, shell = self.text_with(self.log[run].schedule if run is not None else self.schedule), running_shell()
        if shell is not None:
            shell.set_next_input(text, replace=False)
        return text

    def text_with(self, schedule: Schedule) -> str:
        """What `apply` gives, for any schedule; the notebook is left alone."""
        problem, shell = self.engine.problem, running_shell()
        return with_schedule(self.cell, problem.name, schedule) or call_of(problem, schedule, shell.user_ns if shell is not None else {})

    # ------------------------------------------------------------------------------------------ a view
    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return f"workbench: {self.engine.problem.name} on {self.engine.settings.machine.name}"

    @property
    def data(self) -> dict[str, Any]:
        """Plain numbers: the schedule, predicted and measured seconds there, and the log."""
        ghost, run = self.engine.prediction(self.engine.place), self.engine.latest.get(self.engine.place)
        return {
            "schedule": dict(self.schedule),
            "predicted": ghost.seconds,
            "measured": run.seconds if run is not None else None,
            "reason": self.reason,
            "best": dict(self.best.schedule) if self.best is not None else None,
            "runs": self.log.data,
        }

    def __repr__(self) -> str:
        runs = len(self.log)
        return f"<workbench of {self.engine.problem.name} at {self.schedule}: {runs} run{'' if runs == 1 else 's'}>"

    def __str__(self) -> str:
        engine = self.engine
        wide = max(len(t.name) for t in self.space.tunables)
        lines = [self.title]
        for tunable, at in zip(self.space.tunables, engine.place, strict=True):
            steps = "  ".join(f"[{text_of(v)}]" if i == at else text_of(v) for i, v in enumerate(tunable.values))
            lines.append(f"  {tunable.name:<{wide}}  {steps}")
        ghost, run = engine.prediction(engine.place), engine.latest.get(engine.place)
        if ghost.seconds is not None:
            measured = f", measured {show_number(run.seconds, 's')}" if run is not None and run.seconds is not None else ""
            lines.append(f"  predicted ~{show_number(ghost.seconds, 's')}{measured}")
        lines += [f"  {text}" for text in (self.reason, self.why, run.surprise if run is not None else "") if text]
        if self.best is not None:
            lines.append(f"  best so far: run {self.best.number}, {self.best.schedule}, {show_number(self.best.seconds or 0.0, 's')}")
        return "\n".join([*lines, "", str(self.log)])

    def scene(self) -> Scene:
        report = bench_views.current(self.engine)
        return Roofline(report).scene() if report is not None else super().scene()

    def html(self) -> str:
        report = bench_views.current(self.engine)
        shown = picture(Roofline(report).scene(), alt=str(Roofline(report))) if report is not None else ""
        return f'<pre style="white-space: pre-wrap; font-size: 12.5px">{escape(str(self).rpartition(chr(10) * 2)[0])}</pre>{shown}{self.log.html()}'

    def live(self) -> dict[str, Any]:
        return live_of(self)

    def face(self, widget: Any) -> Face:
        """Let `widget` (anything with `send(dict)`) hear the news; what it sends goes to the face's `heard`."""
        return Face(self, widget)

    def _ipython_display_(self) -> None:
        """The static picture, and above it the live workbench where there is a browser to answer."""
        show_bench(self)


def show_bench(bench: Workbench) -> None:
    """Display a workbench. The truth where it stands is asked for, and shown at once if it comes quickly."""
    from IPython.display import display, publish_display_data

    bench.engine.prediction(bench.engine.place)
    bench.move().wait(FIRST_PAINT_S)
    ident = f"twb-{uuid.uuid4().hex[:12]}"
    publish_display_data(static_bundle(bench, ident))
    if can_be_live():
        made = widget(bench, static_id=ident)
        face = bench.face(made)
        made.on_msg(lambda _widget, content, _buffers: face.heard(content))
        made.observe(lambda change: face.close() if change.new is None else None, names="comm")  # the widget was closed
        display(made)

"""The views of a workbench where its sliders stand: made from reports, the run log and the store, so that their numbers are those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..model.feasibility import Axis, FeasibilityMap, Position
from ..model.limits import Limit
from ..model.report import Report
from ..tune.space import Tunable
from ..views.crumbs import Crumb
from ..views.feasibility import FeasibilityView
from ..views.passes import pass_diff
from ..views.pipeline import pipeline
from ..views.roofline import Roofline
from ..views.traffic import TrafficChart
from ..views.twins import twins
from ..views.view import View
from ..views.waterfall import WaterfallView
from .engine import Engine
from .positions import place_of, schedule_at

CRUMBS = 12  # runs whose dots the roofline shows
SEEN = ("source", "passes", "pipeline")  # tabs that need a compiled kernel and are large: made when they are opened


@dataclass(frozen=True, slots=True)
class Note(View):
    """A view that is not there yet, and why."""

    name: str
    why: str

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return self.name

    @property
    def data(self) -> str:
        return self.why

    def __str__(self) -> str:
        return self.why


def current(engine: Engine) -> Report | None:
    """What the views show: the measured report where the sliders stand, else the predicted one."""
    run = engine.latest.get(engine.place)
    if run is not None and run.report is not None:
        return run.report
    known = engine.predictions.get(engine.place)
    return known.report if known is not None else None


def why(engine: Engine) -> str:
    """What bounds the kernel where the sliders stand, and the change that would test it."""
    report = current(engine)
    return report.why if report is not None else ""


def views_of(engine: Engine, report: Report) -> dict[str, Callable[[], View]]:
    """What makes each view, by the name of its tab."""
    made: dict[str, Callable[[], View]] = {
        "roofline": lambda: roofline_of(engine, report),
        "traffic": lambda: TrafficChart(report),
        "time": lambda: WaterfallView.of(report),
        "map": lambda: FeasibilityView(map_of(engine, report.kernel)),
        "pipeline": lambda: pipeline(report),
        "source": lambda: source_of(engine, report),
        "passes": lambda: passes_of(engine),
    }
    if len(engine.space.tunables) < 2:
        del made["map"]
    return made


def roofline_of(engine: Engine, report: Report) -> Roofline:
    """The roofline with a numbered crumb for every earlier run."""
    runs = [r for r in engine.log if r.report is not None and r.report is not report]
    crumbs = tuple(Crumb(r.number, r.report, r.schedule, r.source) for r in runs[-CRUMBS:] if r.report is not None)
    return Roofline(report, crumbs, has_heading=False)


def source_of(engine: Engine, report: Report) -> View:
    """The stages of the kernel where the sliders stand, once it ran; those for this computer where the report is about another."""
    if engine.settings.is_here and engine.place not in engine.latest:
        return Note("source", "the source is shown once the kernel was compiled here")
    return twins(engine.problem.compile(engine.schedule), report)


def passes_of(engine: Engine) -> View:
    """What each pass changed in the kernel that ran where the sliders stand."""
    if engine.place not in engine.latest:
        return Note("passes", "the passes are shown once the kernel was compiled here")
    return pass_diff(engine.problem.compile(engine.schedule))


def axes_of(engine: Engine) -> tuple[Tunable, Tunable]:
    """The two tunables that the map shows: the first two with an order and more than one step."""
    ranked = sorted(engine.space.tunables, key=lambda t: (not t.is_ordered, len(t.values) < 2))
    return ranked[0], ranked[1]


def map_of(engine: Engine, kernel: str) -> FeasibilityMap:
    """Two tunables as axes, the others as they stand: what is known of each position, what ran, and what the store remembers."""
    x, y = axes_of(engine)
    here = engine.schedule
    fixed = {name: value for name, value in here.items() if name not in (x.name, y.name)}
    places = [place_of(engine.space, {x.name: a, y.name: b}, engine.place) for b in y.values for a in x.values]
    positions = []
    for place in places:
        schedule, known, reason = schedule_at(engine.space, place), engine.predictions.get(place), engine.reason(place)
        at = schedule[x.name], schedule[y.name]
        if reason:
            positions.append(Position(*at, Limit((known.limit if known is not None else "") or "does not compile", reason)))
        elif known is not None and known.report is not None:
            below = {level.name: level.bytes for level in known.report.levels}
            positions.append(Position(*at, None, known.seconds, below))
    axes = Axis(x.name, x.values), Axis(y.name, y.values)
    found = FeasibilityMap(kernel, engine.settings.machine.name, *axes, fixed, positions=tuple(positions), current=(here[x.name], here[y.name]))
    return _with_trials(engine, found)


def _with_trials(engine: Engine, found: FeasibilityMap) -> FeasibilityMap:
    """The map with a dot for every run of this plane: remembered ones first, so that a run of now lies on top."""
    ran = {run.schedule for run in engine.log if run.seconds is not None}
    for candidate in engine.remembered:
        if candidate.measured is not None and candidate.schedule not in ran:
            found = found.with_measured(candidate.schedule, seconds=candidate.measured.value)
    for run in engine.log:
        if run.seconds is not None:
            found = found.with_measured(run.schedule, seconds=run.seconds, why="" if run.is_right else run.verdict)
    return found


__all__ = ["FeasibilityView", "Note", "current", "map_of", "views_of", "why"]

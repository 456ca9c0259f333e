"""The browser's half of a workbench: what goes there as plain data, and what comes back from a hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..model.report import Report
from ..model.values import show
from ..tune.problem import one_line
from ..tune.schedule import Schedule, text_of
from ..views.roofline import Roofline
from ..views.scene import mark_json
from ..views.view import View
from . import bench_views
from .engine import Engine, News
from .measuring import Prediction
from .positions import Place, nearest, schedule_at

if TYPE_CHECKING:
    from .workbench import Workbench

LARGE = 50_000  # characters of a view's live form, above which it is not sent before it is opened
SAVED_GHOSTS = 40  # of these, how many a saved notebook keeps
GHOSTS = 128  # positions whose roofline ghost is worked out ahead for the browser


def live_of(bench: Workbench) -> dict[str, Any]:
    """Everything that the browser needs to start, with every view of the present position."""
    engine = bench.engine
    report = bench_views.current(engine)
    controls = [{"name": t.name, "labels": [text_of(v) for v in t.values]} for t in engine.space.tunables]
    views = _tabs(engine, report) if report is not None else []
    return {
        "module": "workbench",
        "title": bench.title,
        "text": str(bench),
        "controls": controls,
        "at": list(engine.place),
        "table": {key_of(place): entry(engine, place) for place in list(engine.predictions)[: 2 * GHOSTS]},
        "state": state_of(engine),
        "log": log_of(engine),
        "best": best_of(engine),
        "views": views,
        "is_here": engine.settings.is_here,
        "search": search_of(engine),
        "ghosts": {key_of(place): marks for place, marks in list(engine.ghosts.items())[:SAVED_GHOSTS]},
    }


def _tabs(engine: Engine, report: Report) -> list[dict[str, Any]]:
    """Every tab; those that are large, or need a compiled kernel, hold a word until they are opened."""
    out = []
    for name, make in bench_views.views_of(engine, report).items():
        word = bench_views.Note(name, "shown when it is opened, by the notebook's kernel").live()
        live = word if name in bench_views.SEEN else make().live()
        out.append(tab_of(name, live if len(json.dumps(live)) < LARGE else word))
    return out


def tab_of(name: str, live: dict[str, Any]) -> dict[str, Any]:
    """A view's live form as a tab."""
    return {**live, "tab": name}


def key_of(place: Place) -> str:
    """A place as a key of JSON."""
    return ",".join(map(str, place))


def entry(engine: Engine, place: Place) -> dict[str, Any]:
    """One line of the browser's table: what the ghost needs, or why there is none."""
    if why := engine.reason(place):
        return {"reason": why, "limit": engine.predictions[place].limit if place in engine.predictions else "rule"}  # no limit: it failed when it ran
    found = engine.predictions.get(place)
    if found is None or found.report is None:
        return {}
    line: dict[str, Any] = {"seconds": found.seconds, "time": str(found.report.predicted), "verdict": found.report.verdict}
    if place in engine.latest:
        line["truth"] = truth_of(engine, place)
    return line


def ghost_marks(found: Prediction) -> list[dict[str, Any]]:
    """The roofline's marks that stand for a prediction, to be drawn over the frame that the machine fixes; their tips come with the view itself."""
    if found.report is None:
        return []
    marks = [mark_json(mark) for mark in Roofline(found.report, has_heading=False).scene().marks if mark.group == "ghost"]
    return [{name: value for name, value in mark.items() if name != "tip"} for mark in marks]


def truth_of(engine: Engine, place: Place) -> dict[str, Any] | None:
    """The run at a place in the browser's words."""
    run = engine.latest.get(place)
    if run is None or run.seconds is None:
        return None
    ratio = f"{run.ratio:.2f}" if run.ratio is not None else ""
    return {"number": run.number, "time": show(run.seconds, "s"), "seconds": run.seconds, "ratio": ratio, "is_right": run.is_right}


def state_of(engine: Engine, place: Place | None = None, *, seq: int = 0, pushed: bool = False) -> dict[str, Any]:
    """Where the sliders stand and what is known there."""
    at = place if place is not None else engine.place
    found, run = engine.predictions.get(at), engine.latest.get(at)
    report = run.report if run is not None and run.report is not None else found.report if found is not None else None
    seconds = found.seconds if found is not None else None
    ghost = {"time": str(found.report.predicted), "seconds": seconds} if found is not None and found.report is not None else None
    is_slow = seconds is not None and seconds > engine.settings.limit_s and run is None
    return {
        "seq": seq,
        "pushed": pushed,
        "at": list(at),
        "stage": engine.stage,
        "ghost": ghost,
        "truth": truth_of(engine, at),
        "reason": engine.why_no_truth(at) if engine.settings.is_here and found is not None else engine.reason(at),
        "refused": is_slow and not engine.reason(at),
        "verdict": (run.verdict if run is not None else "") or (report.verdict if report is not None else ""),
        "why": report.edit if report is not None else "",
        "surprise": run.surprise if run is not None else "",
    }


def log_of(engine: Engine) -> dict[str, Any]:
    """The run log as a table, with the place of every run."""
    places = _places(engine)
    return {**engine.log.table(), "at": [list(places[run.schedule]) if run.schedule in places else None for run in engine.log]}


def _places(engine: Engine) -> dict[Schedule, Place]:
    """Where each schedule that ran stands; a position may have run more than once."""
    return {run.schedule: place for place, run in list(engine.latest.items())}


def best_of(engine: Engine) -> dict[str, Any] | None:
    """The fastest right run in the browser's words."""
    best = engine.log.best
    place = _places(engine).get(best.schedule) if best is not None else None
    if best is None or place is None or best.seconds is None:
        return None
    return {"number": best.number, "schedule": str(best.schedule), "time": show(best.seconds, "s"), "seconds": best.seconds, "at": list(place)}


def search_of(engine: Engine) -> dict[str, Any] | None:
    """How far a search is, in the browser's words; None where there can be none."""
    if not engine.settings.is_here:
        return None
    if engine.hunt is None:
        known = sum(1 for c in engine.remembered if c.ran)
        return {"is_running": False, "done": 0, "total": 0, "text": f"{known} earlier results in the store" if known else "", "failures": []}
    p = engine.hunt.progress
    failures = [[str(c.schedule), f"{c.status}: {c.first_line}"] for c in p.failures[:40]]
    return {"is_running": p.is_running, "done": p.done, "total": p.total, "text": str(p), "failures": failures}


def _drawn(tab: str, make: Callable[[], View]) -> dict[str, Any]:
    """The live form of a view; a word in its place where it cannot be drawn."""
    try:
        return make().live()
    except Exception as error:  # a tool that is missing, a source that is gone
        return bench_views.Note(tab, one_line(error)).live()


class Face:
    """One widget of a workbench: hears it, and tells it the news. `widget` has `send(dict)`; it need not be a real one."""

    def __init__(self, bench: Workbench, widget: Any) -> None:
        self.bench = bench
        self.widget = widget
        self.tab = "roofline"
        self.seq = 0
        self._known: dict[Place, dict[str, Any]] = {}
        self._is_owed = False  # whether the open tab is behind
        self._shown: tuple[Any, ...] = ()  # what it showed when it was last sent
        self._unsent: dict[Place, list[dict[str, Any]]] = {}
        bench.engine.listeners.append(self.news)
        bench.engine.errands.append(self._send_views)
        bench.engine.chores.append(self._draw_ghost)
        bench.engine.worker.fill()

    def close(self) -> None:
        """The widget is gone: tell it nothing more, and leave undone what was asked for it."""
        engine = self.bench.engine
        engine.listeners[:] = [f for f in engine.listeners if f != self.news]
        engine.errands[:] = [f for f in engine.errands if f != self._send_views]
        engine.chores[:] = [f for f in engine.chores if f != self._draw_ghost]
        engine.worker.drop()

    def heard(self, message: Any) -> None:
        """A message from the browser; one that makes no sense is ignored."""
        if not isinstance(message, dict):
            return
        engine = self.bench.engine
        at = message.get("at")
        place = tuple(int(i) for i in at) if isinstance(at, list) and len(at) == len(engine.place) else engine.place
        match message.get("type"):
            case "move" | "anyway" | "again" as kind:
                self.seq = int(message.get("seq", 0))
                engine.go(place, anyway=kind == "anyway", again=kind == "again")
            case "apply":
                text = self.bench.text_with(schedule_at(engine.space, place))
                self.send(applied={"text": text, "before": self.bench.cell})
            case "search":
                engine.search()
                self.send(search=search_of(engine))
            case "stop":
                self.bench.stop()
            case "tab":
                self.tab = str(message.get("tab", self.tab))
                self._owe_views()
            case "hello":
                self._known.clear()  # this browser has just started and knows nothing
                ghosts = {key_of(at): marks for at, marks in list(engine.ghosts.items())}
                self.send(state=state_of(engine, seq=self.seq), search=search_of(engine), ghosts=ghosts, **self._log())
            case _:
                pass

    def news(self, news: News, place: Place) -> None:
        """What the engine has found; called in the worker's thread."""
        engine = self.bench.engine
        pushed = news == "moved"
        state = state_of(engine, place, seq=self.seq if news != "stage" else 0, pushed=pushed)
        match news:
            case "table":
                self.send(table=self._table())
                if self.tab == "map":
                    self._owe_views()
            case "ghost":
                self.send(state=state)
                if self.tab not in bench_views.SEEN:
                    self._send_views(is_owed=True)
            case "truth":
                run = engine.latest[place]
                say = f"run {run.number}: {show(run.seconds, 's')} measured. {run.verdict}" if run.seconds is not None else run.verdict
                self.send(state=state, say=say, **self._log())
                self._owe_views()
            case "failed" | "refused":
                self.send(state=state, table=self._table(), say=state["reason"])
            case "search":
                self.send(state=state_of(engine), search=search_of(engine), **self._log())
                self._owe_views()
            case _:
                self.send(state=state)

    def send(self, **parts: Any) -> None:
        """One message to the browser."""
        self.widget.send({"type": "news", **parts})

    def _draw_ghost(self) -> bool:
        """A chore: the roofline's ghost of one more position, the nearest first, and send some when there are some."""
        engine = self.bench.engine
        missing = next((p for p in nearest(engine.space, engine.place) if p not in engine.ghosts and p in engine.predictions), None)
        is_left = missing is not None and len(engine.ghosts) < GHOSTS
        if missing is not None and is_left:
            engine.ghosts[missing] = self._unsent[missing] = ghost_marks(engine.predictions[missing])
        if self._unsent and (not is_left or len(self._unsent) >= 8):
            sent, self._unsent = self._unsent, {}
            self.send(ghosts={key_of(place): marks for place, marks in sent.items()})
        return is_left

    def _owe_views(self) -> None:
        """The open tab is behind; the worker draws it when nothing is asked."""
        self._is_owed = True
        self.bench.engine.worker.fill()

    def _send_views(self, *, is_owed: bool = False) -> bool:
        """An errand: draw the open tab where the sliders stand, if it is behind; the others wait to be opened. False: nothing is left."""
        engine, tab = self.bench.engine, self.tab
        if not (self._is_owed or is_owed):
            return False
        self._is_owed = False
        report = bench_views.current(engine)
        shows = (tab, engine.place, id(report), len(engine.log) if tab not in bench_views.SEEN else 0, len(engine.predictions) if tab == "map" else 0)
        if report is None or shows == self._shown:
            return False
        make = bench_views.views_of(engine, report).get(tab)
        if make is not None:
            self._shown = shows
            self.send(views=[tab_of(tab, _drawn(tab, make))], place=list(engine.place))
        return False

    def _log(self) -> dict[str, Any]:
        """What a new run changes."""
        engine = self.bench.engine
        return {"log": log_of(engine), "best": best_of(engine), "table": self._table()}

    def _table(self) -> dict[str, Any]:
        """The lines of the table that changed since they were last sent."""
        engine, out = self.bench.engine, {}
        for place in list(engine.predictions):
            line = entry(engine, place)
            if self._known.get(place) != line:
                self._known[place] = line
                out[key_of(place)] = line
        return out

"""Who copies, who computes and who waits, as rows over time.

    view = pipeline(report, kernel.ir)                      # predicted
    view = pipeline(kernel.timeline(A, B))                  # emulated: order from a run
    print(view)

A row for each buffer of each stage (the transfer, the flight of its data, and how long the buffer stays full), and one for each unit that computes or
stores. Waits are hatched; those that cost nothing (for a free stage, for products of one's own) are faint. An event's mark carries the author's line,
so that choosing it lights the line in the source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.stmt import Kernel
from ..model.pipeline import OUTSIDE, Event, Timeline
from ..model.pipelining import timeline
from ..model.report import Report
from ..model.stage_work import main_loop
from ..model.values import show
from ..runtime.stages import key_of
from .marks import AnyMark, Path, Rect, Text
from .scene import Scene
from .view import View, text_table
from .widths import cut_to, text_width

LEFT, WIDE, ROW, GAP, TOP = 168.0, 760.0, 17.0, 46.0, 60.0
COPIES = ("copy", "flight", "held")
MAX_FRAMES = 4  # a step in close-up; later ones repeat
MANY = 250  # events, of which fewer steps are shown in close-up: a page stays small
SHOWN = 8  # steps that are drawn, or two rounds of the stages


@dataclass(frozen=True, slots=True)
class PipelineView(View):
    """One block's timeline. `others` are the same loop with other numbers of stages, predicted; `note` says why it is not what was asked for."""

    timeline: Timeline
    others: tuple[Timeline, ...] = ()
    note: str = ""

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return f"{self.timeline.kernel}: pipeline on {self.timeline.machine}"

    @property
    def data(self) -> dict[str, Any]:
        """The numbers of the timeline, its events, and the steady time of a step by number of stages. Times in seconds."""
        t = self.timeline
        return {
            "note": self.note, "bound": t.bound, "verdict": t.verdict, "source": t.source, "stages": t.stages, "steps": t.total_steps,
            "seconds": t.seconds,
            "steady_seconds": t.steady_seconds, "steady_wait": t.steady_wait, "prologue_seconds": t.prologue_seconds,
            "epilogue_seconds": t.epilogue_seconds, "exposed_seconds": t.exposed_seconds, "busy": {lane: t.busy(lane) for lane in t.lanes},
            "by_stages": {x.stages: x.steady_seconds for x in self.others},
            "events": [
                {"lane": e.lane, "kind": e.kind, "name": e.name, "start": e.start, "end": e.end, "step": e.step, "slot": e.slot, "why": e.why,
                 "bytes": e.amount}
                for e in t.events
            ],
        }  # fmt: skip

    def __str__(self) -> str:
        t = self.timeline
        out = [self.title, f"  {t.verdict}", f"  {self._told}"]
        if t.steps:
            mark = "" if t.source == "measured" else "~"
            parts = (("prologue", t.prologue_seconds), ("epilogue", t.epilogue_seconds), ("waits", t.exposed_seconds), ("block", t.seconds))
            out.append(
                f"  {t.total_steps:.4g} steps of {t.loop}, {t.stages} stages: " + ", ".join(f"{name} {mark}{show(s, 's')}" for name, s in parts)
            )
        if self.others:
            out.append("  " + self._what_if())
        for step in t.steps[:2] + t.steps[-1:] if len(t.steps) > 3 else t.steps:
            rows = [_row(e) for e in t.events if e.step == step]
            out += [f"step {step}", text_table(["lane", "does", "from", "to", "takes", "why"], rows, left=2)]
        if not t.steps and t.events:
            out.append(text_table(["lane", "does", "from", "to", "takes", "why"], [_row(e) for e in t.events], left=2))
        return "\n".join([*out, *(f"  assumed: {a}" for a in t.assumptions)])

    @property
    def _told(self) -> str:
        return self.timeline.told + (f" ({self.note})" if self.note else "")

    def _what_if(self) -> str:
        return (
            ("" if self.timeline.source == "predicted" else "predicted ")
            + "seconds a step by stages: "
            + ", ".join(f"{x.stages}: ~{show(x.steady_seconds, 's')}{' (now)' if x.stages == self.timeline.stages else ''}" for x in self.others)
        )

    def live(self) -> dict[str, Any]:
        t = self.timeline
        frames = [{"label": "all", "scene": self.scene().to_json(), "text": str(self)}]
        steps = t.steps[:MAX_FRAMES]
        for step in steps if len(t.events) <= MANY else (*steps[:1], *steps[1:][-1:]):  # the first, and one of the steady ones
            rows = [_row(e) for e in t.events if e.step == step]
            text = f"step {step}\n" + text_table(["lane", "does", "from", "to", "takes", "why"], rows, left=2)
            frames.append({"label": f"step {step}", "scene": self._scene(step).to_json(), "text": text})
        return {
            "module": "scene", "title": self.title, "text": str(self), "scene": self.scene().to_json(), "details": self._details(),
            "frames": frames, "frames_name": "show",
        }  # fmt: skip

    def _details(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key in dict.fromkeys(map(_key, self.timeline.events)):
            mine = [e for e in self.timeline.events if _key(e) == key]
            line = next((e.span.source_line().strip() for e in mine if e.span), mine[0].name)
            rows = [["outside" if e.step == OUTSIDE else str(e.step), e.kind, show(e.start, "s"), show(e.seconds, "s"), e.why] for e in mine[:24]]
            out[key] = {"caption": f"{key}: {line}", "head": ["step", "what", "from", "takes", "why"], "rows": rows, "left": 2}
        return out

    def scene(self) -> Scene:
        return self._scene(None)

    # ------------------------------------------------------------------------------------------ drawing
    def _scene(self, focus: int | None) -> Scene:
        """All steps, or (with `focus`) one step and what is going on around it."""
        most = max(SHOWN, 2 * self.timeline.stages + 2)
        t = self.timeline.cut(most) if len(self.timeline.steps) > most + SHOWN // 2 else self.timeline  # a few more are drawn, too
        if not t.events:
            return Scene(480, 40, (Text(12, 24, t.verdict),), title=self.title, text=str(self))
        window = _window(t, focus)
        page = _Page(t, window, focus)
        told = cut_to(self._told, LEFT + WIDE, 11)
        marks: list[AnyMark] = [Text(8, 18, self.timeline.verdict, 13, is_bold=True), Text(8, 34, told, 11, "faint"), *page.head()]
        marks += [*page.rows(), *page.left_out()]
        foot = page.bottom + 34
        marks += _legend(foot, {e.kind for e in t.events})
        if self.others:
            marks.append(Text(8, foot + 24, self._what_if(), 11, "faint"))
        return Scene(LEFT + WIDE + GAP + 24, foot + (36 if self.others else 14), tuple(marks), title=self.title, text=str(self))


class _Page:
    """Rows of one drawing: where each event goes."""

    def __init__(self, t: Timeline, window: tuple[float, float], focus: int | None) -> None:
        self.t, self.focus = t, focus
        self.start, self.stop = window
        self.last = max((e.end for e in t.events if e.step in t.steps and e.kind == "compute"), default=self.stop)
        self.is_cut = t.total_steps - len(t.steps) >= 1 and focus is None
        self.scale = WIDE / (self.stop - self.start or 1.0)
        takes: dict[str, float] = {}
        for e in t.events:
            if e.kind == "compute":
                takes[e.name] = takes.get(e.name, 0.0) + e.seconds
        longest = sorted(takes, key=lambda name: -takes[name])  # these get colours of their own
        self.colour = {name: f"s{(2, 4, 3, 6, 7)[i % 5]}" for i, name in enumerate(longest)}
        slots = sorted({e.slot for e in t.events if e.kind in COPIES})
        buffers = list(dict.fromkeys(e.name for e in t.events if e.kind in COPIES))
        self.places: dict[tuple[str, int, str], float] = {}
        self.labels: list[tuple[str, float]] = []
        y = TOP + 6
        for lane in t.lanes:
            if any(e.lane == lane and e.kind in COPIES for e in t.events):
                for slot in slots:
                    mine = [b for b in buffers if any(e.lane == lane and e.slot == slot and e.name == b for e in t.events)]
                    for name in mine:
                        self.places[lane, slot, name] = y
                        word = "" if slot < 0 or t.stages == 0 else f" [{slot}]"
                        self.labels.append((f"{name}{word}", y))
                        y += ROW
                    y += 3 if mine else 0
            else:
                self.places[lane, -1, ""] = y
                self.labels.append((lane, y))
                y += ROW + 6
            y += 4
        self.bottom = y

    def x(self, seconds: float) -> float:
        place = LEFT + (seconds - self.start) * self.scale
        return place + (GAP if self.is_cut and seconds >= self.last and place > LEFT else 0.0)

    def head(self) -> list[AnyMark]:
        """A time axis, and the steps' numbers where their arithmetic begins."""
        marks: list[AnyMark] = []
        for tick in _ticks(self.start, self.stop):
            x = self.x(tick)
            marks.append(Path(((x, TOP), (x, self.bottom)), "grid"))
            marks.append(Text(x, self.bottom + 14, show(tick, "s"), 10, "faint", "middle"))
        room = LEFT - 20.0
        for step in self.t.steps:
            begin = min((e.start for e in self.t.events if e.step == step and e.kind == "compute"), default=None)
            if begin is None or not self.start <= begin <= self.stop or self.x(begin) < room:
                continue
            marks.append(Text(self.x(begin), TOP - 6, f"step {step}", 10, "text" if step == self.focus else "faint", is_bold=step == self.focus))
            room = self.x(begin) + text_width(f"step {step}", 10) + 8
        return marks

    def left_out(self) -> list[AnyMark]:
        """The place where steps were left out, over what is under way there."""
        marks: list[AnyMark] = []
        if self.is_cut:
            x = LEFT + (self.last - self.start) * self.scale
            rest = round(self.t.total_steps - len(self.t.steps))
            marks.append(Rect(x + 5, TOP, GAP - 10, self.bottom - TOP - 2, "surface", "unused"))
            marks.append(Text(x + GAP / 2 + 4, (TOP + self.bottom) / 2, f"{rest} more steps", 10, "faint", "middle", angle=-90))
        return marks

    def rows(self) -> list[AnyMark]:
        marks: list[AnyMark] = [Text(LEFT - 10, y + 12, cut_to(name, LEFT - 20, 11), 11, anchor="end") for name, y in self.labels]
        for e in self.t.events:
            if e.end <= self.start or e.start >= self.stop:
                continue
            y = self.places[(e.lane, e.slot, e.name) if (e.lane, e.slot, e.name) in self.places else (e.lane, -1, "")]
            mark = self._mark(e, y)
            if mark.width < 0.5 and e.step != self.focus:
                continue  # too thin to see; the step in close-up shows it
            marks.append(mark)
            word = e.name.removeprefix("compute ").removeprefix("store ")
            if e.kind in ("compute", "store") and mark.opacity == 1 and text_width(word, 9.5) + 8 < mark.width:
                marks.append(Text(mark.x + mark.width / 2, y + 10.5, word, 9.5, f"on:{mark.fill}", "middle", key=_key(e)))
        return marks

    def _mark(self, e: Event, y: float) -> Rect:
        left, right = self.x(max(e.start, self.start)), self.x(min(e.end, self.stop) - 1e-15)
        wide, high = right - left, ROW - 3
        tip = f"{e.name}{'' if e.step == OUTSIDE else f', step {e.step}'}: {_WORDS[e.kind]} {show(e.seconds, 's')}\n{e.why}"
        dim = 0.45 if self.focus is not None and e.step != self.focus else 1.0
        about: dict[str, Any] = {"key": _key(e), "tip": tip, "opacity": dim}
        match e.kind:
            case "copy":
                return Rect(left, y, wide, high, "L2", **about)
            case "flight":
                return Rect(left, y + 4, wide, high - 8, "L2", **{**about, "opacity": 0.45 * dim})
            case "held":
                return Rect(left, y + 2, wide, high - 4, "none", "L2", 0.8, **about)
            case "wait":
                return Rect(left, y, wide, high, "none", "warning", 0.8, hatch="warning", **about)
            case "idle":
                return Rect(left, y + 5, wide, high - 10, "grid", **about)
            case "store":
                return Rect(left, y, wide, high, "DRAM", **about)
            case _:
                return Rect(left, y, wide, high, self.colour.get(e.name, "s0"), "background", 0.6, **about)


_WORDS = {
    "copy": "transfer of", "flight": "under way for", "held": "full for", "compute": "computes for", "store": "stores for", "wait": "waits for",
    "idle": "waits at no cost for",
}  # fmt: skip


def _legend(y: float, kinds: set[str]) -> list[AnyMark]:
    marks: list[AnyMark] = []
    x = 8.0
    for kind, word, rect in (
        ("copy", "transfer", Rect(0, 0, 18, 12, "L2")),
        ("flight", "data on their way", Rect(0, 4, 18, 5, "L2", opacity=0.45)),
        ("held", "buffer full", Rect(0, 1, 18, 10, "none", "L2", 0.8)),
        ("compute", "computes", Rect(0, 0, 18, 12, "s2")),
        ("wait", "waits", Rect(0, 0, 18, 12, "none", "warning", 0.8, hatch="warning")),
        ("idle", "waits at no cost", Rect(0, 3, 18, 4, "grid")),
        ("store", "stores", Rect(0, 0, 18, 12, "DRAM")),
    ):
        if kind not in kinds:
            continue
        marks.append(
            Rect(x, y - 10 + rect.y, rect.width, rect.height, rect.fill, rect.stroke, rect.stroke_width, hatch=rect.hatch, opacity=rect.opacity)
        )
        marks.append(Text(x + 24, y, word, 10.5, "faint"))
        x += 40 + text_width(word, 10.5)
    return marks


def _window(t: Timeline, focus: int | None) -> tuple[float, float]:
    whole = min(e.start for e in t.events), max(e.end for e in t.events)
    if focus is None:
        return whole
    mine = [e for e in t.events if e.step == focus]
    start, stop = min(e.start for e in mine), max(e.end for e in mine)
    return max(whole[0], start - 0.1 * (stop - start)), min(whole[1], stop + 0.1 * (stop - start))


def _ticks(start: float, stop: float) -> list[float]:
    raw = (stop - start) / 6 or 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * f for f in (1, 2, 5, 10) if power * f >= raw)
    return [n * step for n in range(math.ceil(start / step), math.floor(stop / step) + 1)]


def _key(e: Event) -> str:
    return key_of(e.span) if e.span is not None else e.name


def _row(e: Event) -> list[str]:
    what = "" if e.kind in ("copy", "compute", "store") else _WORDS[e.kind].removesuffix(" for") + ": "
    return [e.lane, what + e.name, show(e.start, "s"), show(e.end, "s"), show(e.seconds, "s"), e.why]


def pipeline(
    about: Report | Timeline, kernel: Kernel | None = None, *, stages: int | None = None, what_if: Sequence[int] = (1, 2, 3, 4), note: str = ""
) -> PipelineView:
    """The predicted timeline of the report's kernel (or of `kernel`, tile IR), and on a GPU the same loop with other numbers of stages.

    Instead of a report a timeline, as `kernel.timeline(...)` gives one: that is shown. `note` is added to where the timeline comes from.
    Raises ValueError if the report carries no kernel and none is given.
    """
    if isinstance(about, Timeline):
        return PipelineView(about, (), note)
    kernel = kernel or about.ir
    if kernel is None:
        raise ValueError(f"the report on {about.kernel} carries no tile program; pass kernel=")
    loop = main_loop(kernel, about)
    here = timeline(about, kernel, stages=stages, loop=loop)
    others = sorted({*what_if, here.stages}) if about.machine.is_gpu and loop is not None and loop.steps and what_if else []
    return PipelineView(here, tuple(timeline(about, kernel, stages=n, loop=loop) for n in others), note)

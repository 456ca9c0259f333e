"""Who copies, who computes and who waits: one block's walk over its main loop, as events on lanes.

    t = timeline(kernel.report(find_machine("h200")), kernel.ir)      # model/pipelining.py
    t.bound, t.steady_seconds, t.exposed_seconds     # what a step waits for, seconds a step, of those with nobody computing

A `Timeline` is a value that a model, an emulator or a run fills alike: the model by `pipelining.timeline`, an emulator's log by `emulated.emulated`,
others by `Timeline.of_events`.

>>> copies = [Event("copy", "copy", "A", 0.0, 2.0, 0, 0), Event("copy", "copy", "A", 2.0, 4.0, 1, 1)]
>>> sums = [Event("tensor", "wait", "", 0.0, 2.0, 0), Event("tensor", "compute", "C", 2.0, 5.0, 0), Event("tensor", "compute", "C", 5.0, 8.0, 1)]
>>> t = Timeline.of_events("k", "made up", [*copies, *sums], stages=2)
>>> t.seconds, t.steady_seconds, t.prologue_seconds, t.exposed_seconds, t.bound
(8.0, 3.0, 2.0, 2.0, 'compute')
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..base.span import Span
from .values import show

OUTSIDE = -1  # the step of an event before or after the loop


@dataclass(frozen=True, slots=True)
class Event:
    """Something that takes a while. Times in seconds from the block's start.

    `kind` is "copy" (the transfer), "flight" (sent, not yet arrived), "held" (arrived and not yet read for the last time), "compute", "store", "wait"
    or "idle" (a wait that costs nothing: for a free stage, or for products of one's own that run); `slot` the buffer stage that a copy fills, or -1;
    `why` says where the duration comes from; `amount` is what a copy or store moves, in bytes, where that was counted.
    """

    lane: str
    kind: str
    name: str
    start: float
    end: float
    step: int = OUTSIDE
    slot: int = -1
    why: str = ""
    span: Span | None = None
    amount: float = 0.0

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True, repr=False)
class Timeline:
    """Events of one block. `total_steps` counts the loop's steps, of which the first ones are in `events`; `source` is "predicted", "emulated" (order
    from a run, durations from a model) or "measured". `stages` is the number of buffers that a copy may run ahead; 0: it never does. `loop` names
    the loop's variable."""

    kernel: str
    machine: str
    lanes: tuple[str, ...]
    events: tuple[Event, ...]
    stages: int = 0
    total_steps: float = 0.0
    loop: str = ""
    source: str = "predicted"
    assumptions: tuple[str, ...] = ()

    @staticmethod
    def of_events(
        kernel: str, machine: str, events: Iterable[Event], *, stages: int = 0, total_steps: float = 0.0, loop: str = "", source: str = "measured"
    ) -> Timeline:
        """A timeline of events that were recorded elsewhere; lanes in the order of their first event."""
        kept = tuple(sorted(events, key=lambda e: (e.start, e.end)))
        steps = {e.step for e in kept if e.step != OUTSIDE}
        return Timeline(kernel, machine, tuple(dict.fromkeys(e.lane for e in kept)), kept, stages, total_steps or float(len(steps)), loop, source)

    def __repr__(self) -> str:
        return f"{self.kernel} on {self.machine}: {self.verdict} ({self.told})"

    __str__ = __repr__

    def cut(self, shown: int) -> Timeline:
        """The same with the first `shown` steps and what follows the loop, for a picture: `total_steps` stays, and what is left out is cut out.

        >>> sums = [Event("a", "compute", "c", float(k), k + 1.0, k) for k in range(9)]
        >>> t = Timeline.of_events("k", "m", [*sums, Event("a", "store", "s", 9.0, 10.0)]).cut(3)
        >>> t.steps, t.total_steps, t.events[-1].start
        ((0, 1, 2), 9.0, 3.0)
        """
        if len(self.steps) <= shown:
            return self
        kept, last = self._end(self.steps[shown - 1]), self._end(self.steps[-1])
        first = [e for e in self.events if e.step in self.steps[:shown] or e.step == OUTSIDE and e.start < kept]
        begin = min((e.start for e in self._computing(self.steps[-1])), default=last)  # who is done with the last step first goes on meanwhile
        later = [e for e in self.events if e.step == OUTSIDE and e.start >= max(begin, kept) and e.end > last]
        after = [replace(e, start=max(e.start - last, 0.0) + kept, end=e.end - last + kept) for e in later]
        return replace(self, events=(*first, *after))

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps that are in `events`."""
        return tuple(sorted({e.step for e in self.events if e.step != OUTSIDE}))

    @property
    def shown_seconds(self) -> float:
        """From the first event's start to the last one's end."""
        return max((e.end for e in self.events), default=0.0) - min((e.start for e in self.events), default=0.0)

    @property
    def seconds(self) -> float:
        """The block's time: what is shown, and a steady step for each that is not."""
        return self.shown_seconds + max(self.total_steps - len(self.steps), 0.0) * self.steady_seconds

    @property
    def steady_seconds(self) -> float:
        """Seconds a step once the pipeline is full: the distance of the last steps' ends."""
        ends = [self._end(step) for step in self.steps]
        if len(ends) < 2:
            return ends[0] - min(e.start for e in self.events if e.step == self.steps[0]) if ends else 0.0
        back = min(len(ends) - 1, max(self.stages, 1))
        return (ends[-1] - ends[-1 - back]) / back

    @property
    def prologue_seconds(self) -> float:
        """From the start to the loop's first arithmetic."""
        start = min((e.start for e in self.events), default=0.0)
        return min((e.start for e in self.events if e.step != OUTSIDE and e.kind == "compute"), default=start) - start

    @property
    def epilogue_seconds(self) -> float:
        """From the last step's end to the end."""
        return max((e.end for e in self.events), default=0.0) - (self._end(self.steps[-1]) if self.steps else 0.0)

    @property
    def exposed_seconds(self) -> float:
        """Time of the whole block before its last arithmetic in which nothing is computed: waits, and copies that nothing hides."""
        computing = [e for e in self.events if e.kind == "compute"]
        if not computing:
            return 0.0
        shown = max(e.end for e in computing) - min(e.start for e in self.events) - covered(computing)
        return shown + max(self.total_steps - len(self.steps), 0.0) * self.steady_wait

    @property
    def steady_wait(self) -> float:
        """Seconds of a steady step in which nothing is computed."""
        last = self._last
        computing = covered([e for e in self.events if e.kind == "compute" and e.step in last])
        return max(0.0, self.steady_seconds - computing / len(last)) if last else 0.0

    @property
    def _last(self) -> tuple[int, ...]:
        """The steps that show the steady state: as many as there are stages, without the first, which fills the pipeline."""
        steps = self.steps[1:] or self.steps
        return steps[-max(self.stages, 1) :]

    @property
    def bound(self) -> str:
        """What sets the steady rate: "compute" where arithmetic runs nine tenths of the time; "copy bandwidth" where the copies run
        without a pause; "exposed copies" where neither is busy all the time: nothing hides the copies, or not enough of their latency."""
        if self.steady_wait <= 0.1 * self.steady_seconds:
            return "compute"
        last = self._last
        copying = sum(e.seconds for e in self.events if e.kind == "copy" and e.step in last) / len(last)
        return "copy bandwidth" if copying >= 0.9 * self.steady_seconds else "exposed copies"

    def busy(self, lane: str) -> float:
        """The share of the shown time in which `lane` works; a wait or a buffer that is held is no work."""
        work = sum(e.seconds for e in self.events if e.lane == lane and e.kind in ("copy", "compute", "store"))
        return work / self.shown_seconds if self.shown_seconds else 0.0

    @property
    def told(self) -> str:
        """Where the events come from, in words."""
        match self.source:
            case "predicted":
                return f"predicted: order and durations from the model of {self.machine}"
            case "emulated":
                return f"emulated: order from the run, durations from the model of {self.machine}"
            case _:
                return f"{self.source} on {self.machine}"

    @property
    def verdict(self) -> str:
        """One sentence: what a step costs and what it waits for."""
        if not self.steps:
            return "no loop: a block copies, computes and stores once" if self.events else "nothing runs"
        mark = "" if self.source == "measured" else "~"
        step = f"a step takes {mark}{show(self.steady_seconds, 's')}"
        if self.bound == "compute":
            return f"{step}, set by the arithmetic; the copies hide behind it"
        share = self.steady_wait / self.steady_seconds if self.steady_seconds else 0.0
        waits = f"{step}, of which the arithmetic waits {mark}{show(self.steady_wait, 's')} ({share * 100:.0f} %)"
        return f"{waits} for copies, which run without a pause" if self.bound == "copy bandwidth" else f"{waits} for copies that nothing hides"

    def _computing(self, step: int) -> tuple[Event, ...]:
        return tuple(e for e in self.events if e.step == step and e.kind == "compute")

    def _end(self, step: int) -> float:
        return max((e.end for e in self._computing(step)), default=max((e.end for e in self.events if e.step == step), default=0.0))


def covered(events: Iterable[Event]) -> float:
    """Seconds in which at least one of the events runs.

    >>> covered([Event("a", "compute", "", 0.0, 2.0), Event("b", "compute", "", 1.0, 3.0), Event("a", "compute", "", 5.0, 6.0)])
    4.0
    """
    total, until = 0.0, float("-inf")
    for e in sorted(events, key=lambda e: e.start):
        total += max(0.0, e.end - max(e.start, until))
        until = max(until, e.end)
    return total

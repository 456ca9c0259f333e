"""Runs that were measured on another machine and kept in a file: times and counters of kernels, with where, when and by which command.

The package holds some, so that a lesson or a page can show what a GPU did where there is none. What they say is neither a prediction nor a
measurement of this machine: it is *recorded*, and says so wherever it shows.

>>> badge = Origin("NVIDIA H200", "2026-12-01", "580.95", "13.0", "python -m tileworkbench.bench model").badge
>>> print(badge)
recorded on NVIDIA H200, 2026-12-01, driver 580.95
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from typing import Any

from ..base.machine import Machine, find_machine, preset_of_device
from ..ir.stmt import Kernel
from .counters import Counters
from .report import Report, report
from .values import Recorded

SCHEMA = 1
FOLDER = "recordings"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where and when numbers were measured: the machine's name, the date (ISO), the versions of its driver and of CUDA, the command."""

    machine: str
    date: str
    driver: str
    cuda: str
    command: str

    @property
    def badge(self) -> str:
        """What stands beside a recorded number."""
        return f"recorded on {self.machine}, {self.date}, driver {self.driver}"


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One kernel at one size and schedule.

    seconds: of its launches, each on arrays that are not in L2. counters: what was counted of one launch, in bytes and events (`Counters.values`).
    predicted: what the model said then, in seconds and bytes. registers: of a thread, by the compiler. note: what could not be measured, or "".
    """

    kernel: str
    shape: str
    schedule: str
    seconds: tuple[float, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    predicted: Mapping[str, float] = field(default_factory=dict)
    registers: int | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """What tells it from the others of its recording."""
        return f"{self.kernel} {self.shape}, {self.schedule}"


@dataclass(frozen=True, slots=True)
class Recording:
    """Runs of one machine; `tileworkbench.recordings()` has those that the package holds, by name."""

    origin: Origin
    runs: tuple[RecordedRun, ...] = ()

    def run(self, name: str) -> RecordedRun:
        """The run of that name; raises KeyError with the names there are."""
        for one in self.runs:
            if one.name == name:
                return one
        raise KeyError(f"the recording has no run {name!r}, only {'; '.join(r.name for r in self.runs)}")

    @property
    def machine(self) -> Machine:
        """The machine on paper that the runs are held against."""
        return preset_of_device(self.origin.machine) or find_machine("h200")

    def report(self, run: RecordedRun, ir: Kernel, *, useful_flops: int | None = None) -> Report:
        """The report of a recorded run: `ir`, the same kernel at the same size and schedule, with recorded times and counters."""
        made = report(ir, self.machine, {}, useful_flops=useful_flops, registers=run.registers)
        badge = self.origin.badge
        counted = Counters(run.counters, 1, run.note, source=f"ncu, {badge}", is_first=True) if run.counters or run.note else None
        return replace(made, measured=Recorded.at(run.seconds, badge) if run.seconds else None, counters=counted)

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"schema": SCHEMA, **asdict(self)}

    def to_json(self) -> str:
        """A JSON text that `from_json` reads back."""
        return json.dumps(self.as_dict(), indent=1)

    @staticmethod
    def from_json(text: str) -> Recording:
        """The recording of a JSON text; raises ValueError for another schema or a damaged record."""
        try:
            data = json.loads(text)
            if data["schema"] != SCHEMA:
                raise ValueError("another schema")
            return Recording(Origin(**data["origin"]), tuple(_run(r) for r in data["runs"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a recording: {error}") from error


def _run(data: dict[str, Any]) -> RecordedRun:
    return RecordedRun(**{**data, "seconds": tuple(data["seconds"])})


def recordings() -> dict[str, Recording]:
    """The recordings that the package holds, by name, the newest last."""
    folder = files(__package__).joinpath(FOLDER)
    found = {f.name.removesuffix(".json"): Recording.from_json(f.read_text()) for f in folder.iterdir() if f.name.endswith(".json")}
    return dict(sorted(found.items(), key=lambda item: item[1].origin.date))

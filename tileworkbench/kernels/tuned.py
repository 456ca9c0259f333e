"""Schedules that a search chose: those of this machine's store, and the records that the package holds, each with its machine and date.

`default_schedule` of a product or of attention asks here first, and falls back on its rule. What a search of the library (`kernels.searching`) finds
is in the store from then on, so a machine can be tuned for the shapes that matter on it. A record stands in `schedules/` and holds for its
architecture.

>>> print(recorded("sm_90a"))  # doctest: +ELLIPSIS
problem ...
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from ..runtime.libcuda import find_driver
from ..runtime.options import target_name
from ..tune.schedule import Schedule
from ..tune.space import Space
from ..tune.store import Store
from ..tune.table import table

FOLDER, SCHEMA = "schedules", 1
HALF = "half"  # float16 and bfloat16: the same instructions at the same rates


@dataclass(frozen=True, slots=True)
class Tuned:
    """The schedule that a search chose for a problem, in milliseconds beside that of the rule, which ran in turns with it. `tried`: candidates."""

    problem: str
    schedule: Schedule
    ms: float
    rule: Schedule
    rule_ms: float
    tried: int

    @property
    def gain(self) -> float:
        """The rule's time over the chosen one's."""
        return self.rule_ms / self.ms

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(replace(self, schedule=Schedule(), rule=Schedule())), "schedule": dict(self.schedule), "rule": dict(self.rule)}

    @property
    def cells(self) -> tuple[str, ...]:
        """A line of a table."""
        changed = str(self.schedule.diff(self.rule)) or "nothing"
        return self.problem, str(self.schedule), f"{self.ms:.4g}", f"{self.gain:.3f}", changed, str(self.tried)


@dataclass(frozen=True, slots=True)
class Record:
    """What a search on one machine chose; a sequence that prints as a table. `command` is the one that printed it."""

    arch: str
    machine: str
    date: str
    driver: str
    command: str
    schedules: tuple[Tuned, ...] = ()

    def __iter__(self) -> Iterator[Tuned]:
        return iter(self.schedules)

    def __len__(self) -> int:
        return len(self.schedules)

    def find(self, problem: str) -> Tuned | None:
        """The entry of a problem, or None."""
        return next((t for t in self.schedules if t.problem == problem), None)

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        rows = [
            {**asdict(replace(t, schedule=Schedule(), rule=Schedule())), "schedule": dict(t.schedule), "rule": dict(t.rule)} for t in self.schedules
        ]
        return {"schema": SCHEMA, **asdict(replace(self, schedules=())), "schedules": rows}

    def to_json(self) -> str:
        """A JSON text that `from_json` reads back."""
        return json.dumps(self.as_dict(), indent=1)

    @staticmethod
    def from_json(text: str) -> Record:
        """The record of a JSON text; raises ValueError for another schema or a damaged record."""
        try:
            data = json.loads(text)
            if data.pop("schema") != SCHEMA:
                raise ValueError("another schema")
            rows = tuple(Tuned(**{**t, "schedule": Schedule(t["schedule"]), "rule": Schedule(t["rule"])}) for t in data.pop("schedules"))
            return Record(**data, schedules=rows)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no record of schedules: {error}") from error

    def __str__(self) -> str:
        head = ("problem", "chosen", "ms", "rule / chosen", "changed", "tried")
        return f"{table(head, [t.cells for t in self])}\n{self.machine}, {self.arch}, {self.date}, driver {self.driver}: {self.command}"


def gemm_key(m: int, n: int, k: int, dtype: str, is_nt: bool) -> str:
    """The name of a product in stores and records.

    >>> gemm_key(64, 4096, 8192, "bfloat16", True)
    'gemm 64x4096x8192 half nt'
    """
    return f"gemm {m}x{n}x{k} {_family(dtype)} {'nt' if is_nt else 'nn'}"


def attention_key(seq: int, dim: int, dtype: str, causal: bool) -> str:
    """The name of attention in stores and records, whatever the number of heads.

    >>> attention_key(4096, 128, "float16", True)
    'attention 4096x128 half causal'
    """
    return f"attention {seq}x{dim} {_family(dtype)}{' causal' if causal else ''}"


def _family(dtype: str) -> str:
    return HALF if dtype in ("float16", "bfloat16") else dtype


def find(problem: str, target: Any, arch: str, space: Callable[[], Space]) -> Schedule | None:
    """The schedule to use for `problem` on a target, or None: this machine's best, else the record's, if the declared space still has it."""
    for found in (_measured_here(problem, target, arch), _recorded(problem, arch)):
        if found is not None and not space().broken(found):
            return found
    return None


def _measured_here(problem: str, target: Any, arch: str) -> Schedule | None:
    if target_name(target) != "cuda":
        return None
    store = Store()
    driver = find_driver() if store.path.exists() else None
    device = driver.device(driver.current_ordinal()) if driver is not None else None
    if device is None or device.arch != arch:
        return None
    chosen = store.results(problem, machine=device.name).candidates  # the oldest first
    return chosen[-1].schedule if chosen and chosen[-1].ran else None


def _recorded(problem: str, arch: str) -> Schedule | None:
    entry = recorded(arch).find(problem)
    return entry.schedule if entry is not None else None


@cache
def recorded(arch: str) -> Record:
    """The package's record for an architecture; an empty one where there is none."""
    file = files(__package__).joinpath(FOLDER, f"{arch}.json")
    return Record.from_json(file.read_text()) if file.is_file() else Record(arch, "", "", "", "")

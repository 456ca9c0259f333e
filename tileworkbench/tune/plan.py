"""How a search goes about its work, as one value.

>>> plan = with_options(Plan(), {"order": "random", "rep_ms": 20.0})
>>> plan.order, plan.settings.rep_ms
('random', 20.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..base.errors import TileValueError
from ..base.machine import Machine
from .trial import Settings

Order = Literal["grid", "random", "model"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How to search.

    settings: how each kernel is timed and compared. timeout_s: a candidate that runs longer is killed.
    order: "grid", "random" (of `seed`), or "model": the cheapest predicted first, which needs `machine`.
    limit: try at most so many. patience: end after so many in a row that were no better. time_limit_s: start no new wave after it.
    early_stop_factor: give a candidate up when its first three runs are all slower than the best so far times it; None: never.
    reuse: take results of the very same code from the store. run: False only predicts.
    machine: the model's machine; None predicts nothing. at_once: trials that the executor may have at a time.
    is_isolated: False runs kernels in the executor's own threads or processes, where nothing can be killed.
    """

    settings: Settings = Settings()
    timeout_s: float = 30.0
    order: Order = "grid"
    seed: int = 0
    limit: int | None = None
    patience: int | None = None
    time_limit_s: float | None = None
    early_stop_factor: float | None = None
    reuse: bool = True
    run: bool = True
    machine: Machine | None = None
    at_once: int = 1
    is_isolated: bool = True
    wave: int = 0  # 0: four for each core


def with_options(plan: Plan, options: Mapping[str, Any]) -> Plan:
    """`plan` with fields of its own and of its settings replaced. Raises TileValueError for a name that neither has."""
    fields, inner = set(Plan.__dataclass_fields__), set(Settings.__dataclass_fields__)
    unknown = [k for k in options if k not in fields and k not in inner]
    if unknown:
        raise TileValueError(f"a search has no option {unknown[0]!r}", hint=f"its options are {', '.join(sorted(fields | inner))}")
    settings = replace(options.get("settings", plan.settings), **{k: v for k, v in options.items() if k in inner})
    return replace(plan, **{**{k: v for k, v in options.items() if k in fields}, "settings": settings})

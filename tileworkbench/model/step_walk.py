"""Walks that tell every iteration of serial loops apart, and label what they find with the loop step that it belongs to."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np

from ..base.span import Span
from ..ir.expr import Expr
from ..ir.stmt import Body, Stmt
from .accesses import Tracer
from .counts import Counter
from .space import Array, Lanes
from .walk import Walk

R = TypeVar("R")
Loops = tuple[tuple[str, int], ...]
Label = tuple[int, Loops]  # how many outermost loops are done, and the values of the open loops' variables
Line = tuple[str, int] | None
What = tuple[str, str, Line]  # "flop" or "asked", the dtype or buffer, and the line
ELSEWHERE: Label = (-1, ())  # other blocks than the one asked for


class _InSteps(Walk[R], Generic[R]):
    """Tells every iteration of serial loops apart, and labels lanes with where they are."""

    def __init__(self, *known: Any, **options: Any) -> None:
        super().__init__(*known, **options)
        self.open: list[str] = []
        self.done, self.last_block = 0, 0
        self.codes: dict[Label, int] = {}

    def _loop(self, name: str, start: Expr, stop: Expr, step: int, body: Body, lanes: Lanes, span: Span | None) -> R:
        first, last = self.evaluate.bounds(start, lanes), self.evaluate.bounds(stop, lanes)
        self.open.append(name)
        if first is None or last is None:
            part = self.body(body, lanes.bind(name, first))
        else:
            begin, trips = self._trips(first, last, step, (start, stop), lanes)
            part = self._range(name, begin, trips, step, lanes, lambda inner: self.body(body, inner), expand=True)
        self.open.pop()
        self.done += not self.open
        return part

    def _launch(self, launch: Any, lanes: Lanes) -> R:
        """The blocks that are asked for, told apart; the last of them has the number `last_block` in the variable "@block"."""
        pick = self.blocks or np.arange

        def remember(n: int) -> Array:
            numbers = pick(n)
            self.last_block = len(numbers) - 1
            return numbers

        self.blocks = remember
        part = self._some_blocks(launch, lanes)
        self.blocks = pick
        return part

    def label_codes(self, lanes: Lanes) -> Array:
        """A number for each lane, that of its label."""
        columns = [(name, lanes.values.get(name)) for name in self.open]
        known = [(name, np.asarray(values).astype(np.int64)) for name, values in columns if values is not None]
        if not known:
            return np.full(lanes.size, self._code((self.done, ())))
        rows, inverse = np.unique(np.stack([lanes.column(values) for _, values in known], axis=1), axis=0, return_inverse=True)
        codes = [self._code((self.done, tuple((name, int(v)) for (name, _), v in zip(known, row, strict=True)))) for row in rows]
        found: Array = np.asarray(codes)[inverse.reshape(-1)]
        return found

    def _code(self, label: Label) -> int:
        return self.codes.setdefault(label, len(self.codes))


class StepCounter(_InSteps[None], Counter):
    """Counts as `Counter` does, one amount for each label."""

    def __init__(self, *known: Any) -> None:
        super().__init__(*known)
        self._parts: list[tuple[str, str, Line, Array, Array]] = []

    def mark(self) -> Any:
        return super().mark(), len(self._parts), self.done

    def rollback(self, mark: Any) -> None:
        super().rollback(mark[0])
        del self._parts[mark[1] :]
        self.done = mark[2]

    def _put(self, kind: str, key: str, amount: Any, lanes: Lanes, scope: str = "") -> None:
        if kind not in ("flop", "read", "write"):
            return
        amounts = np.broadcast_to(np.asarray(lanes.points * amount, dtype=float), (lanes.size,))
        line = (self._now.file, self._now.line) if self._now is not None else None
        self._parts.append(("flop" if kind == "flop" else "asked", key, line, self.label_codes(lanes), amounts))

    @property
    def amounts(self) -> dict[tuple[What, Label], float]:
        """Amounts by what they are and where: ((kind, key, line), label)."""
        names = list(self.codes)
        out: dict[tuple[What, Label], float] = {}
        for kind, key, line, codes, amounts in self._parts:
            sums = np.bincount(codes, weights=amounts, minlength=len(names))
            for code in np.flatnonzero(sums):
                slot = ((kind, key, line), names[code])
                out[slot] = out.get(slot, 0.0) + float(sums[code])
        return out


class StepTracer(_InSteps[Any], Tracer):
    """Accesses as `Tracer` gives them; `steps[i]` holds the label numbers of the rows of table i."""

    def __init__(self, *known: Any) -> None:
        super().__init__(*known, ordered=True)
        self.steps: list[Array] = []
        self.last_only = False  # whether all blocks but the last one are labelled ELSEWHERE

    def _box(self, is_write: bool, region: Any, lanes: Lanes, stmt: Stmt) -> Any:
        stream = super()._box(is_write, region, lanes, stmt)
        if len(self.steps) < len(self.tables):
            codes = self.label_codes(lanes)
            block = lanes.values.get("@block")
            if self.last_only and block is not None:
                codes = np.where(block == self.last_block, codes, self._code(ELSEWHERE))
            self.steps.append(codes[stream.lane])
        return stream

"""Predict first: a number stays hidden until a guess is made.

    asked = predict_first(report.counts.global_bytes, "How many bytes does the kernel ask for?", unit="B")
    asked                       # a form in the notebook; nothing of the number is in the output
    asked.guess("4 MB")         # the same without a browser: reveals the number and by what factor the guess was off

A guess that is 10 times off teaches more than a number that was only read. Guesses stay in the notebook's memory; nothing is sent or stored.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..base.errors import TileValueError
from ..views.scene import AnyMark, Dot, Path, Scene, Text
from ..views.view import View
from .amount import NAMES, NONE, UNITS, Amount
from .live import can_be_live, static_bundle, widget

UNIT_NAMES = {name: kind for kind, name in NAMES.items() if name}
CLOSE, NEAR = 1.1, 2.0
PREFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


def predict_first(value: float | Callable[[], float], question: str, *, unit: str = "") -> Prediction:
    """Hide `value` (a number in base units, or a function that gives it) behind a question.

    Args:
        unit: "B", "s", "FLOP", "FLOP/s", "B/s", "FLOP/B", or "" for a plain number.
    Raises: TileValueError for a unit that there is not.
    """
    if unit and unit not in UNIT_NAMES:
        raise TileValueError(f"no unit is called {unit!r}", hint=f"the units are {', '.join(UNIT_NAMES)}")
    return Prediction(question, value, unit)


class Prediction:
    """A question with a hidden number. `guess(...)` reveals it; `revealed` is what came of it, None before."""

    def __init__(self, question: str, value: float | Callable[[], float], unit: str = "") -> None:
        self.question, self.unit = question, unit
        self._value = value
        self.revealed: Reveal | None = None

    @property
    def value(self) -> float:
        """The number. Raises TileValueError before a guess was made."""
        if self.revealed is None:
            raise TileValueError(f"the number is hidden until you guess: {self.question}", hint="call .guess(...), or .give_up()")
        return self.revealed.value.value

    def guess(self, guess: float | str) -> Reveal:
        """Reveal the number and how far `guess` is from it. A text may carry a unit, such as "4 MB". Raises TileValueError if it cannot be read."""
        kind = UNIT_NAMES.get(self.unit, NONE)
        self.revealed = Reveal(Amount(self._true(), kind), read_guess(guess, self.unit), self.question)
        return self.revealed

    def give_up(self) -> Reveal:
        """Reveal the number without a guess."""
        self.revealed = Reveal(Amount(self._true(), UNIT_NAMES.get(self.unit, NONE)), None, self.question)
        return self.revealed

    def _true(self) -> float:
        return float(self._value()) if callable(self._value) else float(self._value)

    def __repr__(self) -> str:
        if self.revealed is not None:
            return str(self.revealed)
        return f"{self.question}\n(hidden: guess first, with .guess({_example(self.unit)}))"

    def live(self) -> dict[str, Any]:
        """What the browser draws: the question and a field, or what came of the guess. Before a guess it holds no trace of the number."""
        if self.revealed is not None:
            return {**self.revealed.live(), "module": "predict", "question": self.question, "unit": self.unit, "is_open": False}
        return {
            "module": "predict", "title": self.question, "text": repr(self), "question": self.question, "unit": self.unit, "is_open": True,
            "hint": f"a number, or one with a unit, such as {_example(self.unit)}",
        }  # fmt: skip

    def _ipython_display_(self) -> None:
        from IPython.display import display, publish_display_data

        view = self.revealed or Question(repr(self), self.question)
        ident = f"twb-{uuid.uuid4().hex[:12]}"
        bundle = static_bundle(view, ident)
        bundle[next(k for k in bundle if k.endswith("view+json"))] = self.live()
        publish_display_data(bundle)
        if can_be_live():
            display(self._widget(ident))

    def _widget(self, static_id: str) -> Any:
        def heard(message: Any) -> None:
            try:
                self.give_up() if message.get("give_up") else self.guess(str(message.get("guess", "")))
                shown.live = self.live()
            except TileValueError as error:
                shown.live = {**self.live(), "error": error.message}

        shown = widget(self.live(), static_id=static_id, on_message=heard)
        return shown


@dataclass(frozen=True, slots=True)
class Question(View):
    """A question whose number is still hidden."""

    text: str
    title: str = ""

    @property
    def data(self) -> dict[str, str]:
        return {"question": self.title}

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Reveal(View):
    """The number, and the guess (None: given up), both in base units."""

    value: Amount
    guessed: Amount | None
    title: str = ""

    @property
    def factor(self) -> float:
        """How many times too large (above 1) or too small (below 1) the guess was; NaN where there was none, infinite where one of the two is 0."""
        if self.guessed is None:
            return math.nan
        if self.value.value == self.guessed.value:
            return 1.0
        return self.guessed.value / self.value.value if self.value.value else math.inf

    @property
    def data(self) -> dict[str, float | None]:
        return {"value": self.value.value, "guess": self.guessed.value if self.guessed else None, "factor": self.factor}

    def __str__(self) -> str:
        if self.guessed is None:
            return f"{self.title}\nIt is {self.value}."
        return f"{self.title}\nIt is {self.value}; you said {self.guessed}: {self.verdict}."

    @property
    def verdict(self) -> str:
        """How good the guess was, in words."""
        off = self.factor
        if not off > 0 or math.isinf(off):
            return "off by more than a factor can say"
        size, side = max(off, 1 / off), "high" if off > 1 else "low"
        if size <= CLOSE:
            return "right" if size == 1 else f"right, within {(size - 1) * 100:.0f} %"
        return f"{'close, ' if size <= NEAR else ''}{size:.3g} times too {side}"

    def scene(self) -> Scene:
        """Guess and number on one logarithmic line."""
        marks: list[AnyMark] = [Text(12, 20, self.title[:96], 12.5, is_bold=True)]
        values = [a.value for a in (self.guessed, self.value) if a is not None and a.value > 0]
        words = str(self).splitlines()[-1]
        if values:
            low, high = math.floor(math.log10(min(values)) - 0.3), math.ceil(math.log10(max(values)) + 0.3)
            marks.append(Path(((20, 62), (620, 62)), stroke="faint"))
            for power in range(low, high + 1):
                x = _x(10.0**power, low, high)
                tick = str(Amount(10.0**power, self.value.kind))
                marks += [Path(((x, 58), (x, 66)), stroke="faint"), Text(x, 80, tick, 9.5, colour="faint", anchor="middle")]
            if self.guessed is not None and self.guessed.value > 0:
                marks.append(Dot(_x(self.guessed.value, low, high), 62, 6, "circle", "accent", is_hollow=True, tip=f"your guess: {self.guessed}"))
            if self.value.value > 0:
                marks.append(Dot(_x(self.value.value, low, high), 62, 5, "diamond", "good", tip=f"it is {self.value}"))
        marks.append(Text(12, 104, words, 12))
        return Scene(640, 116, tuple(marks), title=self.title, text=str(self))


def read_guess(guess: float | str, unit: str) -> Amount:
    """A guess as an amount: a number in base units, or a text with a unit.

    >>> str(read_guess("4 MiB", "B")), str(read_guess("1.5", "s")), str(read_guess("2 GB/s", "B/s")), read_guess("16k", "").value
    ('4.194 MB', '1.5 s', '2 GB/s', 16000.0)
    """
    kind = UNIT_NAMES.get(unit, NONE)
    found = re.fullmatch(r"\s*~?\s*([-+\d.eE_,]*\d\.?)\s*([A-Za-z]*)(?:\s*/\s*([A-Za-z]+))?\s*", str(guess))
    try:
        number = float(found[1].replace(",", "").replace("_", "")) if found else math.nan
    except ValueError:
        number = math.nan
    if found is None or math.isnan(number):
        raise TileValueError(f"cannot read {guess!r} as a number", hint=f"write it like {_example(unit)}")
    above, below = found[2], found[3]
    if not above:
        return Amount(number, kind)
    if kind == NONE and above in PREFIXES:
        return Amount(number * PREFIXES[above], NONE)
    if above not in UNITS or (below and below not in UNITS):
        raise TileValueError(f"no unit is called {above if above not in UNITS else below!r}", hint=f"write it like {_example(unit)}")
    amount = UNITS[above] / UNITS[below] if below else UNITS[above]
    if amount.kind != kind:
        raise TileValueError(f"the answer is in {unit or 'no unit'}, not in {above}{'/' + below if below else ''}")
    return Amount(number * amount.value, kind)


def _x(value: float, low: int, high: int) -> float:
    return 40 + 560 * (math.log10(value) - low) / max(high - low, 1)


def _example(unit: str) -> str:
    return {"B": '"4 MB"', "s": '"2 ms"', "FLOP": '"1 GFLOP"', "FLOP/s": '"100 GFLOP/s"', "B/s": '"20 GB/s"'}.get(unit, "16")

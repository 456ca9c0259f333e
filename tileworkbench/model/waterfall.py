"""From the roof to the prediction, in bars that add up.

The first bar is the least time that the binding roof allows; every other bar is time that something adds to it. Their sum is the predicted time.

>>> w = Waterfall(Bar("compute", 1e-3, "2.1 GFLOP at 2.1 TFLOP/s"), (Bar("launch", 5e-6, "one launch"), Bar("tail wave", 2e-4, "0.4 idles")))
>>> round(w.seconds * 1e6), w.largest_gap.name
(1205, 'tail wave')
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bar:
    """Time with a cause. `seconds` is what it adds; `why` says how it was computed, in numbers; `edit` what to change to make it smaller, or "".

    `view` names the view that shows it best: "layout", "traffic", "source", "pipeline" or "".
    """

    name: str
    seconds: float
    why: str
    edit: str = ""
    view: str = ""


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The binding roof's least time, and what adds to it."""

    roof: Bar
    bars: tuple[Bar, ...] = ()

    @property
    def seconds(self) -> float:
        """The predicted time."""
        return self.roof.seconds + sum(bar.seconds for bar in self.bars)

    @property
    def largest_gap(self) -> Bar:
        """The bar that adds most; the roof itself where nothing adds."""
        return max(self.bars, key=lambda bar: bar.seconds, default=self.roof)

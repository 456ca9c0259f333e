"""Several views of one thing as one view: tabs in a browser, one after the other elsewhere.

>>> from tileworkbench.base.machine import find_machine
>>> from tileworkbench.kernels import softmax
>>> from tileworkbench.views.roofline import Roofline
>>> report = softmax.softmax(8, 64).report(find_machine("reference"))
>>> Gallery((Roofline.of(report), Roofline.of(report)), ("first", "second"), "two of a kind").live()["views"][1]["tab"]
'second'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .scene import Scene
from .view import View, escape


@dataclass(frozen=True, slots=True)
class Gallery(View):
    """`views` under `names`, the first one open. Raises ValueError for none, or for names that do not match."""

    views: Sequence[View]
    names: Sequence[str]
    title: str = ""

    def __post_init__(self) -> None:
        if not self.views or len(self.views) != len(self.names):
            raise ValueError(f"a gallery needs views and a name for each: got {len(self.views)} views and {len(self.names)} names")

    @property
    def data(self) -> dict[str, Any]:
        """The numbers of every view by its name."""
        return {name: view.data for name, view in zip(self.names, self.views, strict=True)}

    def __str__(self) -> str:
        return "\n\n".join(str(view) for view in self.views)

    def scene(self) -> Scene:
        return self.views[0].scene()

    def html(self) -> str:
        """The first view open, the others folded."""
        parts: list[str] = []
        for name, view in zip(self.names, self.views, strict=True):
            summary = f'<summary style="cursor: pointer; padding: 4px 0; font-weight: 600">{escape(name)}</summary>'
            parts.append(f"<details{'' if parts else ' open'}>{summary}{view.html()}</details>")
        return "".join(parts)

    def live(self) -> dict[str, Any]:
        views = [{**view.live(), "tab": name} for name, view in zip(self.names, self.views, strict=True)]
        return {"module": "panel", "title": self.title, "text": str(self), "verdict": self.title, "views": views}

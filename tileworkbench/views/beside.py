"""Views beside each other in one picture: one kernel on two machines, or two kernels on one.

    Beside((Roofline(on_cpu), Roofline(on_gpu)))

Marks of one key light together, so a level of one machine shows its twin on the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .marks import AnyMark, Path
from .scene import Scene
from .view import View

GAP = 24.0


@dataclass(frozen=True, slots=True)
class Beside(View):
    """Views in a row (or, with `is_column`, one under the other)."""

    views: tuple[View, ...]
    title: str = "side by side"
    is_column: bool = False

    @property
    def data(self) -> list[Any]:
        """The data of each view, in order."""
        return [view.data for view in self.views]

    def __str__(self) -> str:
        return "\n\n".join(str(view) for view in self.views)

    def scene(self) -> Scene:
        marks: list[AnyMark] = []
        x = y = width = height = 0.0
        for view in self.views:
            scene = view.scene()
            marks += [moved(mark, x, y) for mark in scene.marks]
            width, height = max(width, x + scene.width), max(height, y + scene.height)
            x, y = (0.0, y + scene.height + GAP) if self.is_column else (x + scene.width + GAP, 0.0)
        return Scene(width, height, tuple(marks), title=self.title, text=str(self))

    def live(self) -> dict[str, Any]:
        """The whole picture, with the details of every view."""
        details: dict[str, Any] = {}
        for view in self.views:
            for key, table in view.live().get("details", {}).items():
                details[key] = [*details.get(key, []), *(table if isinstance(table, list) else [table])]
        return {**View.live(self), "details": details}


def moved(mark: AnyMark, dx: float, dy: float) -> AnyMark:
    """A mark in another place.

    >>> from .marks import Text
    >>> moved(Text(1, 2, "a"), 10, 20).x
    11
    """
    if isinstance(mark, Path):
        return replace(mark, points=tuple((x + dx, y + dy) for x, y in mark.points))
    return replace(mark, x=mark.x + dx, y=mark.y + dy)

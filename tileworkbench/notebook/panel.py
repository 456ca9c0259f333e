"""Show a `CellRun` under its cell: one panel, as a picture and as a table that an untrusted notebook keeps, with the same in text."""

from __future__ import annotations

import html
from typing import Any

from ..base.errors import TileValueError
from ..views.view import View
from .run import CellRun

PARTS = ("summary", "roofline", "traffic", "lines", "source")


def show(run: CellRun, parts: str) -> None:
    """Display the panel of `run` with the parts named in `parts` (separated by commas; "all" or "none")."""
    wanted = chosen(parts)
    if not wanted:
        return
    text = str(run.report) if run.report else repr(run)
    publish(text, f"<pre>{html.escape(text)}</pre>", None)


def chosen(parts: str) -> tuple[str, ...]:
    """The parts in the panel's order. Raises TileValueError for an unknown one."""
    names = [p.strip() for p in parts.split(",") if p.strip()]
    if names == ["none"]:
        return ()
    if "all" in names:
        return PARTS
    if unknown := [n for n in names if n not in PARTS]:
        raise TileValueError(f"--show has no part {unknown[0]!r}", hint=f"the parts are {', '.join(PARTS)}, all and none")
    return tuple(p for p in PARTS if p in names)


def show_view(view: View) -> None:
    """Display a view by itself: its picture, and its table with the text twin."""
    publish(str(view), view.html(), view.png())


def publish(text: str, markup: str, png: bytes | None) -> None:
    """Send the outputs of one panel: the picture by itself, so that a viewer that drops HTML still has it, then the table and its text."""
    from IPython.display import publish_display_data

    if png is not None:
        picture: dict[str, Any] = {"image/png": png, "text/plain": "(the same numbers stand in the table below)"}
        publish_display_data(picture)
    publish_display_data({"text/html": markup, "text/plain": text})

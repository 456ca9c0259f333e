"""Views that answer to a hand: one widget for every view, and the static picture for notebooks without a kernel.

A view's `live()` dict goes to the browser, where a module of `static/` draws it. The widget needs anywidget (`pip install 'tileworkbench[lab]'`);
without it, and outside notebooks, the static picture is what there is.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..views.gallery import Gallery
from ..views.layout_finder import FinderView
from ..views.theme import PAGES
from ..views.view import View
from .applying import layout_applied

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

STATIC = Path(__file__).parent / "static"
VIEW_MIME = "application/vnd.tileworkbench.view+json"
PICTURE_BYTES = 40_000  # a larger picture is a page of text, which viewers without HTML get as text
WHOLE = ("panel", "workbench")  # modules that draw other views inside themselves


def widget(view: View | Mapping[str, Any], *, group: str = "", static_id: str = "", on_message: Callable[[Any], None] | None = None) -> Any:
    """An anywidget that shows `view` (or its `live()` dict). Set its `.live` to show something else; `.selection` is what the reader chose.

    Args:
        group: widgets of one group on a page share their selection.
        static_id: the id of an element that holds the same picture, hidden once the widget shows.
        on_message: hears what the browser sends, such as {"candidate": {...}}.
    Raises: ImportError where anywidget is not installed.
    """
    live = view.live() if isinstance(view, View) else dict(view)
    made = _widget_class(live["module"])(live=live, group=group, static_id=static_id)
    if on_message is not None:
        made.on_msg(lambda _widget, content, _buffers: on_message(content))
    return made


def show(view: View, *, group: str = "", extra: Mapping[str, Any] | None = None) -> None:
    """Display a view in a notebook: its static picture, and above it, where there is a browser to answer, the live one.

    `extra` are more forms of the static output by MIME type.
    """
    from IPython.display import display, publish_display_data

    ident = f"twb-{uuid.uuid4().hex[:12]}"
    publish_display_data(static_bundle(view, ident, extra))
    if can_be_live():
        made = widget(view, group=group, static_id=ident)
        if finders := _finders(view):
            made.on_msg(lambda _widget, content, _buffers: hear_finders(finders, content, made.send))
        display(made)


def hear_finders(views: Sequence[FinderView], message: Any, send: Callable[[dict[str, Any]], None]) -> None:
    """Answer the button of a finder: the text of the kernel's cell with the layout in it. A message that makes no sense is ignored."""
    if isinstance(message, dict) and message.get("type") == "apply":
        for view in (v for v in views if v.found.buffer == message.get("buffer")):
            send({"type": "news", "applied": layout_applied(view, str(message.get("layout", "")), running_shell())})


def _finders(view: View) -> tuple[FinderView, ...]:
    """The view itself or those in it that have a button."""
    return tuple(v for v in (view.views if isinstance(view, Gallery) else (view,)) if isinstance(v, FinderView))


def static_bundle(view: View, ident: str = "", extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The forms of an output that needs no kernel: text, HTML with inline styles, the data of an offline page, and a picture where it is small."""
    return {
        "text/plain": str(view),
        "text/html": f'<div id="{ident}">{view.html()}</div>' if ident else view.html(),
        VIEW_MIME: view.live(),
        **({"image/png": png} if len(png := view.png(scale=1.0)) <= PICTURE_BYTES else {}),
        **(extra or {}),
    }


def can_be_live() -> bool:
    """Whether a widget can be shown: anywidget is installed and the session is a notebook's."""
    from IPython import get_ipython

    shell = get_ipython()
    return getattr(shell, "kernel", None) is not None and importlib.util.find_spec("anywidget") is not None


def answer(shell: InteractiveShell) -> None:
    """From now on a view that is a cell's value, or is given to `display`, shows live."""
    if shell.display_formatter is not None:
        shell.display_formatter.ipython_display_formatter.for_type(View, show)


def be_still(shell: InteractiveShell) -> None:
    """Undo `answer`: views show their static form."""
    if shell.display_formatter is not None:
        shell.display_formatter.ipython_display_formatter.pop(View, None)


def running_shell() -> Any:
    """The running IPython shell; None outside one."""
    from IPython import get_ipython

    return get_ipython()


@functools.cache
def bundle_text(module: str) -> str:
    """The ES module that draws `module`: what views share, the view itself, and the edge to the notebook, as one text without imports."""
    colours = json.dumps({name: page.colours for name, page in PAGES.items()})
    parts = [_text("common").replace("/*THEMES*/ {}", colours), _text("scene")]
    names = [p.stem for p in sorted(STATIC.glob("*.js"))] if module in WHOLE else [module]
    parts += [_text(name) for name in names if name not in ("common", "scene", "widget")]
    return "\n".join([*parts, _text("widget")])


def _text(name: str) -> str:
    return (STATIC / f"{name}.js").read_text(encoding="utf-8")


@functools.cache
def _widget_class(module: str) -> Any:
    """The widget class whose browser half draws `module`. Made when first needed: anywidget is optional and slow to import."""
    import anywidget
    from traitlets import Dict, Unicode

    texts = {"group": Unicode("").tag(sync=True), "static_id": Unicode("").tag(sync=True)}
    traits = {"live": Dict().tag(sync=True), "selection": Dict().tag(sync=True), **texts}
    name = f"Live{module.title().replace('_', '')}"
    return type(name, (anywidget.AnyWidget,), {"__doc__": f"Draws `{module}` in the browser.", "_esm": bundle_text(module), **traits})

"""Live views in a page without a kernel and without a network: each view's data beside its static picture, and one script for all of them.

The script is the widget's own (`live.bundle_text`), so a view answers to hover, keys and scrubbing as in a notebook. Where scripts do not run,
the static picture remains.

>>> page = document([{"module": "scene", "title": "nothing", "text": "", "scene": {"width": 10, "height": 10, "marks": []}, "details": {}}])
>>> page.count("<script") == 2 and "http" not in page.replace("http://www.w3.org/2000/svg", "")
True
"""

from __future__ import annotations

import html
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .live import WHOLE, bundle_text

START = """
for (const place of document.querySelectorAll("[data-twb-live]")) {
  const live = JSON.parse(place.querySelector("script").textContent);
  const state = { live, selection: {}, group: place.dataset.group, static_id: place.dataset.static, is_offline: true };
  const get = (name) => state[name], set = (name, value) => { state[name] = value; };
  const el = place.appendChild(document.createElement("div"));
  render({ el, model: { get, set, save_changes() {}, on() {}, off() {}, send() {} } });
}
"""


def element(live: Mapping[str, Any], static: str = "", *, group: str = "") -> str:
    """HTML of one view: `static` (HTML, shown where scripts do not run) and its data."""
    ident = f"twb-{uuid.uuid4().hex[:12]}"
    data = json.dumps(live, separators=(",", ":")).replace("</", "<\\/")
    still = f'<div id="{ident}">{static}</div>' if static else ""
    place = f'<div data-twb-live data-static="{ident if static else ""}" data-group="{html.escape(group, quote=True)}">'
    return f'{still}{place}<script type="application/json">{data}</script></div>'


def script(modules: Iterable[str]) -> str:
    """The script that brings the elements of those modules to life; nothing for none."""
    names = set(modules)
    if not names:
        return ""
    text = bundle_text("panel" if names & set(WHOLE) or len(names) > 1 else names.pop())
    return f'<script type="module">\n{text.replace("export default { render };", "")}\n{START}</script>'


def document(lives: Sequence[Mapping[str, Any]], *, title: str = "Tile Workbench", theme: str = "") -> str:
    """A whole page of live views, for a browser without a notebook. `theme` "light" or "dark"; "" follows the reader's system."""
    told = {"light": ' data-jp-theme-light="true"', "dark": ' data-jp-theme-light="false"'}.get(theme, "")
    style = "body { margin: 24px; font-family: system-ui, sans-serif; color-scheme: light dark; }"
    ground = {
        "light": "body { background: #fff; color-scheme: light; }",
        "dark": "body { background: #111418; color: #e6edf3; color-scheme: dark; }",
    }.get(theme, "")
    views = f"<h1>{html.escape(title)}</h1>" + "\n".join(element(live, group="page") for live in lives)
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title><style>{style}{ground}</style></head>'
    return f"{head}<body{told}><main>{views}</main>{script(live['module'] for live in lives)}</body></html>"

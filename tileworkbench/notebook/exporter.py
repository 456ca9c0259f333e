"""`jupyter nbconvert --to tile_html lesson.ipynb`: one page that opens offline and whose views still answer.

nbconvert's own page fetches a widget manager, require.js and MathJax; a view in it stays blank without them. This exporter draws each view from the
data in its static output (`live.VIEW_MIME`), drops the widgets' own outputs, and turns formulas into MathML where latex2mathml is installed.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbconvert.exporters.html import HTMLExporter
from nbconvert.preprocessors import Preprocessor

from . import offline
from .live import VIEW_MIME

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
_CODE = re.compile(r"(`{3,}.*?`{3,}|`[^`\n]*`)", re.DOTALL)
_MATH = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$(?!\s)([^$\n]+?)(?<!\s)\$", re.DOTALL)


class DrawViews(Preprocessor):
    """Replaces each output that holds a view's data by HTML that draws it."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        modules: set[str] = set()
        to_mathml = _converter()
        for cell in nb.cells:
            if cell.cell_type == "markdown" and to_mathml is not None:
                cell.source = with_mathml(cell.source, to_mathml)
            if cell.cell_type == "code":
                cell.outputs = [self._drawn(output, modules) for output in cell.outputs if not _is_widget(output)]
        nb.metadata.pop("widgets", None)
        resources["tile_script"] = offline.script(modules)
        return nb, resources

    def _drawn(self, output: Any, modules: set[str]) -> Any:
        data = output.get("data", {})
        if VIEW_MIME not in data:
            return output
        live = data.pop(VIEW_MIME)
        modules.add(live["module"])
        static = data.get("text/html") or f"<pre>{html.escape(data.get('text/plain', ''))}</pre>"
        data.clear()
        data["text/html"] = offline.element(live, static)
        return output


class TileHTMLExporter(HTMLExporter):
    """nbconvert's HTML page, complete in itself."""

    export_from_notebook = "HTML with live tile views"
    preprocessors = [DrawViews]  # a trait's value

    def _template_name_default(self) -> str:
        return "tile"

    @property
    def extra_template_basedirs(self) -> list[str]:  # type: ignore[override]  # a trait in the base
        return [str(Path(__file__).parent / "templates")]

    @property
    def default_config(self) -> Any:
        config = super().default_config
        config.HTMLExporter.sanitize_html = False
        return config


def _is_widget(output: Any) -> bool:
    return WIDGET_MIME in output.get("data", {}) and VIEW_MIME not in output.get("data", {})


@functools.cache
def _converter() -> Callable[[str, str], str] | None:
    """TeX and "block" or "inline" -> MathML; None where latex2mathml is not installed."""
    try:
        from latex2mathml.converter import convert
    except ImportError:
        return None
    made: Callable[[str, str], str] = lambda tex, display: str(convert(tex, display=display))
    return made


def with_mathml(source: str, convert: Callable[[str, str], str]) -> str:
    """Markdown with its formulas as MathML. Code stays as it is; a formula that cannot be converted stays TeX.

    >>> with_mathml("so $x$, but `$y$`", lambda tex, display: f"<math>{tex}</math>")
    'so <math>x</math>, but `$y$`'
    """

    def one(match: re.Match[str]) -> str:
        block, inline = match.groups()
        try:
            return convert(block or inline, "block" if block else "inline")
        except Exception:  # the library raises many kinds
            return match.group(0)

    parts = _CODE.split(source)
    return "".join(part if i % 2 else _MATH.sub(one, part) for i, part in enumerate(parts))

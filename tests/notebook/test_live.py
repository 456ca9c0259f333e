"""Live views without a browser: what goes to it, what stands in an output, and the page that needs no kernel."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tileworkbench.notebook import live, offline
from tileworkbench.notebook.exporter import with_mathml
from tileworkbench.views.scene import Cells, Rect, Scene, Text, mark_json
from tileworkbench.views.scene import Path as Line
from tileworkbench.views.view import View

MODULES = sorted(p.stem for p in live.STATIC.glob("*.js") if p.stem not in ("common", "scene", "widget"))


@dataclass(frozen=True)
class Boxes(View):
    """Two boxes, one of which can be chosen."""

    name: str = "</script><b>"

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"boxes {self.name}"

    @property
    def data(self) -> Any:
        return {"boxes": 2}

    def __str__(self) -> str:
        return f"two boxes of {self.name}"

    def scene(self) -> Scene:
        return Scene(
            100, 50, (Rect(1, 2, 30, 20, fill="L2", key="a", tip=f"a {self.name}"), Text(5, 40, self.name)), title=self.title, text=str(self)
        )


@pytest.mark.parametrize("module", ["scene", *MODULES])
def test_a_module_is_one_text_that_fetches_nothing(module: str):
    """No import and no address but SVG's namespace; it holds the colours of both themes and ends in the export that anywidget asks for."""
    text = live.bundle_text(module)
    assert not re.search(r"^\s*import[\s(]", text, re.MULTILINE)
    assert "import(" not in text and "fetch(" not in text and "XMLHttpRequest" not in text and "WebSocket" not in text
    assert set(re.findall(r"https?://[^\s\"'`]+", text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
    assert '"light": {' in text and '"dark": {' in text
    assert text.rstrip().endswith("export default { render };")
    assert f"views.{module} =" in text or f'views["{module}"] =' in text, f"static/{module}.js does not register its view"


def test_static_bundle_has_every_form():
    """Text, HTML without scripts, a picture, and the data of an offline page."""
    bundle = live.static_bundle(Boxes(), "twb-1")
    assert bundle["text/plain"] == "two boxes of </script><b>"
    assert "<script" not in bundle["text/html"] and 'id="twb-1"' in bundle["text/html"]
    assert bundle["image/png"].startswith(b"\x89PNG")
    assert json.loads(json.dumps(bundle[live.VIEW_MIME]))["scene"]["marks"][0]["key"] == "a"


def test_a_mark_tells_what_differs_from_its_default():
    assert mark_json(Rect(1, 2.123456, 3, 4, fill="L2")) == {"kind": "rect", "x": 1, "y": 2.12, "width": 3, "height": 4, "fill": "L2"}
    assert mark_json(Line(((0, 1), (2, 3)), dash=(1, 2))) == {"kind": "path", "points": [[0, 1], [2, 3]], "dash": [1, 2]}
    big = mark_json(Cells(0, 0, 256, 128, 128, 256, ("s0", "s1"), bytes(128 * 256)))
    assert len(big["index"]) < 200


def test_a_page_is_complete_and_its_data_cannot_end_the_script():
    """Text of a kernel may hold anything; the data stays data."""
    page = offline.document([Boxes().live()])
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    assert len(blocks) == 1
    assert json.loads(blocks[0].replace("<\\/", "</"))["title"] == "boxes </script><b>"
    assert set(re.findall(r"https?://[^\s\"'`]+", page)) <= {"http://www.w3.org/2000/svg"}


def test_formulas_become_mathml_outside_code_only():
    pytest.importorskip("latex2mathml")
    from latex2mathml.converter import convert

    text = with_mathml("cost $5, half of $x$ and\n\n$$ y_1 $$\n\n`$z$` and\n\n```\n$w$\n```\n", lambda tex, display: convert(tex, display=display))
    assert text.count("<math") == 2
    assert "`$z$`" in text and "$w$" in text and "cost $5," in text
    assert with_mathml(r"$\nosuch{$", _fails) == r"$\nosuch{$"


def _fails(_tex: str, _display: str) -> str:
    raise ValueError("cannot")


def test_no_socket_is_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Making, saving and exporting a view asks no network: it opens no socket at all."""

    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    view = Boxes()
    live.static_bundle(view, "x")
    for suffix in (".svg", ".png", ".html", ".txt"):
        assert view.save(tmp_path / f"v{suffix}").stat().st_size > 0
    offline.document([view.live()])


def test_a_widget_carries_the_view_and_hears_the_browser():
    """`live` is the view's data, a group shares a selection, and a message of the browser reaches its handler."""
    pytest.importorskip("anywidget")
    heard: list[Any] = []
    made = live.widget(Boxes("x"), group="g", on_message=heard.append)
    assert made.live["title"] == "boxes x" and made.group == "g"
    made._handle_custom_msg({"candidate": 3}, [])
    assert heard == [{"candidate": 3}]
    made.live = Boxes("y").live()
    assert made.live["title"] == "boxes y"


def test_outside_a_notebook_the_static_form_is_all(notebook: Any):
    """A terminal has no browser: the value of a cell shows its text, and no widget is made."""
    assert notebook.run("%load_ext tileworkbench").success
    notebook.shell.user_ns["boxes"] = Boxes("x")
    ran = notebook.run("boxes")
    assert ran.success and len(ran.displays) == 1
    assert ran.displays[0]["text/plain"] == "two boxes of x"

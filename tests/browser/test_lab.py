"""Views in a real JupyterLab, with the network off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CELLS = (
    """\
%load_ext tileworkbench
from dataclasses import dataclass
from tileworkbench.views.view import View
from tileworkbench.views.scene import Scene, Rect, Text
@dataclass(frozen=True)
class Boxes(View):
    title = "three boxes"
    data = {"boxes": 3}
    def __str__(self):
        return "three boxes: a, b, c"
    def scene(self):
        marks = [Rect(10 + 90 * i, 10, 70, 40, fill=f"s{i}", key=name, tip=f"box {name}") for i, name in enumerate("abc")]
        return Scene(300, 60, tuple(marks), title=self.title, text=str(self))
    def live(self):
        return {**super().live(), "details": {"b": {"caption": "inside b", "head": ["part", "bytes"], "rows": [["x", "12"]], "left": 1}}}
""",
    "Boxes()",
)


@pytest.mark.parametrize(("server", "theme"), [("lab", "light"), ("lab", "dark"), ("notebook7", "light")])
def test_a_view_answers_to_pointer_and_keyboard(server: str, theme: str, request: Any, watched: Any, serious: Any):
    """Hover shows a tip, Enter opens details, arrows move, Escape closes; the static picture hides behind the live one; nothing is fetched."""
    page, app = watched.page, request.getfixturevalue(server)
    app.open(page, f"view-{server}-{theme}.ipynb", CELLS, theme=theme)  # a file of its own: no session and no dialog of another run
    app.run_all(page)
    view = page.locator(".jp-OutputArea-output .twb").first
    view.wait_for(timeout=180_000)
    assert view.get_attribute("data-theme") == theme
    view.locator('[data-key="a"]').hover()
    assert view.get_by_role("tooltip").inner_text() == "box a"
    view.locator('[data-key="a"]').focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.key") == "b"
    page.keyboard.press("Enter")
    assert view.get_by_role("cell", name="12").is_visible()
    assert view.locator('[data-key="b"]').evaluate("n => n.classList.contains('twb-lit')")
    assert not page.locator("img[alt='three boxes: a, b, c']").first.is_visible()
    assert serious(page, ".twb") == []
    assert watched.errors == []
    assert watched.asked == []


def test_a_notebook_without_a_kernel_shows_the_static_picture(lab: Any, watched: Any):
    """What was saved opens later, in a trusted notebook whose kernel is gone: the picture is there, not an empty frame."""
    page = watched.page
    lab.open(page, "saved.ipynb", CELLS)
    lab.run_all(page)
    page.locator(".twb").first.wait_for(timeout=180_000)
    page.keyboard.press("Control+s")
    page.wait_for_function("!document.querySelector('.jp-mod-dirty')", timeout=60_000)
    lab.stop_kernels()
    page.goto(lab.address("saved.ipynb"))
    picture = page.locator("img[alt^='three boxes']").first
    picture.wait_for(timeout=180_000)
    assert picture.is_visible()
    assert picture.evaluate("e => e.complete && e.naturalWidth > 100")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_exported_page_answers_offline(lab: Any, watched: Any, serious: Any, tmp_path: Path, theme: str):
    """`nbconvert --to tile_html`: nothing is fetched, a view answers to hover and keys, formulas are drawn, both themes can be read."""
    run_nbconvert(tmp_path, CELLS, theme)
    page = watched.page
    page.goto((tmp_path / "page.html").as_uri())
    view = page.locator(".twb").first
    view.wait_for(timeout=60_000)
    assert page.locator("math").count() == 1
    view.locator('[data-key="c"]').hover()
    assert view.get_by_role("tooltip").inner_text() == "box c"
    view.locator('[data-key="b"]').click()
    assert view.get_by_role("cell", name="12").is_visible()
    assert not page.locator("img[alt^='three boxes']").first.is_visible()
    assert serious(page, ".twb") == []
    assert (watched.errors, watched.asked) == ([], [])


def run_nbconvert(folder: Path, cells: tuple[str, ...], theme: str = "light") -> None:
    """Run the cells, with a formula above them, and export them to page.html in `folder`."""
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A page\n\nwith $x^2$ in it")])
    notebook.cells += [nbformat.v4.new_code_cell(text) for text in cells]
    nbformat.write(notebook, folder / "page.ipynb")
    command = [sys.executable, "-m", "nbconvert", "--to", "tile_html", "--execute", f"--theme={theme}", "page.ipynb"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr

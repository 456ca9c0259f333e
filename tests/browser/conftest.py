"""A real JupyterLab and Debian's chromium, with no network but the loopback device."""

from __future__ import annotations

import json
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pytest_playwright", reason="needs the `test` extra")

from playwright.sync_api import TimeoutError as PlaywrightTimeout  # after the skip

from tileworkbench.bench.lab import TOKEN, serve

ROOT = Path(__file__).resolve().parent.parent.parent
CHROMIUM = shutil.which("chromium")
QUIET = ("no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-component-update", "disable-sync")
SLOW_MS = 180_000  # for what takes a second on a quiet machine
ACTION_MS = 90_000  # for one action of a page
LOCAL = ("http://127.0.0.1", "http://localhost", "ws://127.0.0.1", "file:", "data:", "about:", "blob:")


def pytest_itemcollected(item: pytest.Item) -> None:
    """All tests of this folder need chromium, are slow, and share a server (tests/conftest.py keeps them on one worker).

    Server, kernel and browser are five processes; on a crowded machine one of them can be late. A test counts as failed if it fails twice.
    """
    for mark in (pytest.mark.browser, pytest.mark.slow, pytest.mark.flaky(reruns=1)):
        item.add_marker(mark)
    item.add_marker(pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium: apt-get install chromium"))


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, object]:
    """The system's browser; no sandbox, since CI runs as root; nothing in the background that asks a network."""
    return {"executable_path": CHROMIUM, "args": [f"--{name}" for name in QUIET]}


@dataclass
class Watched:
    """A page that reaches nothing but this machine, and what it complained about."""

    page: Any
    asked: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def watch() -> Callable[[Any], Watched]:
    """Cuts a page off from every network, and hears what it complains about."""

    def cut_off(page: Any) -> Watched:
        seen = Watched(page)
        page.set_default_timeout(ACTION_MS)

        def gate(route: Any) -> None:
            if route.request.url.startswith(LOCAL):
                route.continue_()
            else:
                seen.asked.append(route.request.url)
                route.abort()

        page.route("**/*", gate)
        page.on("pageerror", lambda error: None if is_jupyters_own(error) else seen.errors.append(f"{error}\n{error.stack}"))
        return seen

    return cut_off


@pytest.fixture
def watched(page: Any, watch: Callable[[Any], Watched]) -> Watched:
    """The page of a test, cut off from every network."""
    return watch(page)


def is_jupyters_own(error: Any) -> bool:
    """Whether an error came from Jupyter's bundles alone; a widget's module has an address of its own kind."""
    stack = error.stack or ""
    return ("/static/" in stack or "/lab/" in stack) and "blob:" not in stack


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab. `folder` holds its notebooks."""

    url: str
    token: str
    folder: Path
    is_lab: bool = True

    def address(self, name: str) -> str:
        """Where a notebook opens: in a workspace of its own, so that no other is open beside it."""
        place = f"lab/workspaces/{Path(name).stem}/tree/{name}" if self.is_lab else f"notebooks/{name}"
        return f"{self.url}/{place}?token={self.token}" + ("&reset" if self.is_lab else "")

    def open(self, page: Any, name: str, cells: Sequence[str] = (), *, theme: str = "light") -> None:
        """Open a notebook made of `cells` (or one that is there), and wait until its kernel answers."""
        if cells:
            write_notebook(self.folder / name, cells)
        self.settings("themes").write_text(json.dumps({"theme": f"JupyterLab {theme.title()}"}))
        page.goto(self.address(name))
        page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=SLOW_MS)
        page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for(timeout=SLOW_MS)

    def settings(self, name: str) -> Path:
        """The file of the reader's settings called `name`."""
        return self.folder.parent / "jupyterlab_settings_dir" / "@jupyterlab" / "apputils-extension" / f"{name}.jupyterlab-settings"

    def stop_kernels(self) -> None:
        """End every session, as if the machine had been off since."""
        for session in self._ask("GET", "sessions"):
            self._ask("DELETE", f"sessions/{session['id']}")

    def _ask(self, method: str, path: str) -> Any:
        request = urllib.request.Request(f"{self.url}/api/{path}?token={self.token}", method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def run_all(self, page: Any, *, timeout_s: float = 400) -> None:
        """Run every cell and wait until the kernel has nothing left to do. A kernel that still connects drops the request, so it is asked again."""
        for _ in range(20):
            try:
                if page.locator(".jp-Dialog").count():  # a slow machine: Jupyter asks which kernel, before it knows which there are
                    print("dialog:", page.locator(".jp-Dialog").first.inner_text())
                    page.locator(".jp-Dialog .jp-mod-accept").first.click(timeout=3000)
                    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for(timeout=SLOW_MS)
                page.locator(".jp-Notebook .jp-Cell").first.click(timeout=5000)
                page.get_by_role("menuitem", name="Run", exact=True).click(timeout=5000)
                page.get_by_text("Run All Cells", exact=True).click(timeout=5000)
                page.wait_for_function(STARTED, timeout=3000)
                break
            except PlaywrightTimeout:
                continue
        wait_idle(page, timeout_s)


STARTED = r"[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].some(n => /[*\d]/.test(n.textContent))"


def wait_idle(page: Any, timeout_s: float = 400) -> None:
    """Wait until no cell shows a star and the kernel is idle."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        page.wait_for_timeout(150)
        busy = page.evaluate("[...document.querySelectorAll('.jp-InputPrompt')].some(n => n.textContent.includes('*'))")
        if not busy and page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").count():
            return
    raise AssertionError("the kernel did not become idle")


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """A notebook of code cells."""
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One JupyterLab for all tests of a worker, with settings, runtime files and workspaces of its own."""
    yield from _serve(tmp_path_factory.mktemp("lab"), "jupyterlab")


@pytest.fixture(scope="session")
def notebook7(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Notebook 7, likewise."""
    yield from _serve(tmp_path_factory.mktemp("notebook7"), "notebook")


def _serve(home: Path, module: str) -> Iterator[Lab]:
    pytest.importorskip(module, reason=f"needs {module}")
    folder = home / "notebooks"
    folder.mkdir()
    for lesson in (ROOT / "notebooks").glob("*.ipynb"):
        shutil.copy(lesson, folder)
    with serve(home, folder, module) as url:
        yield Lab(url, TOKEN, folder, is_lab=module == "jupyterlab")


@pytest.fixture
def serious() -> Callable[[Any, str], list[str]]:
    """What axe finds serious or critical inside elements of the page, a line each."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()

    def check(page: Any, selector: str) -> list[str]:
        found = axe.run(page, context=selector).response["violations"]
        return [f"{v['id']}: {n['html'][:160]}" for v in found if v["impact"] in ("serious", "critical") for n in v["nodes"]]

    return check


UNREADABLE = """([selector, least]) => {
  const parts = (c) => (c.match(/[\\d.]+/g) ?? []).map(Number);
  const over = (top, alpha, under) => under.map((u, i) => alpha * top[i] + (1 - alpha) * u);
  const light = (c) => c.map((x) => x / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const out = [];
  for (const word of document.querySelectorAll(`${selector} svg text`)) {
    if (!word.checkVisibility() || !word.textContent.trim()) continue;
    const near = () => word.getBoundingClientRect();
    if (near().top < 120 || near().bottom > innerHeight - 60) word.scrollIntoView({ block: "center" });
    const box = near(), x = box.x + box.width / 2, y = box.y + box.height / 2;
    let ground = [255, 255, 255], isPicture = false;
    const before = Node.DOCUMENT_POSITION_PRECEDING | Node.DOCUMENT_POSITION_CONTAINS;
    const under = document.elementsFromPoint(x, y).filter((n) => n !== word && word.compareDocumentPosition(n) & before);
    if (!under.length) continue;
    for (const n of under.reverse()) {
      const style = getComputedStyle(n);
      if (["image", "canvas", "IMG", "CANVAS"].includes(n.tagName)) isPicture = true;
      const isShape = n instanceof SVGGeometryElement;
      const fill = isShape ? style.fill : n instanceof SVGElement ? "none" : style.backgroundColor;
      if (!fill.startsWith("rgb")) continue;
      const [r, g, b, a = 1] = parts(fill);
      ground = over([r, g, b], a * (isShape ? Number(style.opacity) * Number(style.fillOpacity) : 1), ground);
    }
    if (isPicture) continue;
    const style = getComputedStyle(word), ink = over(parts(style.fill).slice(0, 3), Number(style.opacity), ground);
    const [a, b] = [light(ink), light(ground)].sort((p, q) => q - p);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < least) out.push(`${word.textContent}: ${contrast.toFixed(1)} (${ink} on ${ground.map(Math.round)})`);
  }
  return out;
}"""


@pytest.fixture(scope="session")
def unreadable() -> Callable[[Any, str], list[str]]:
    """Words in pictures that do not stand out from what is under them (a contrast of 4.5, WCAG 2.2 at AA), a line each. Axe looks at no picture."""
    return lambda page, selector: list(page.evaluate(UNREADABLE, [selector, 4.5]))

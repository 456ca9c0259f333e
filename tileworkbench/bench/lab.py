"""A real JupyterLab and the system's chromium, to time what a reader sees. Both are optional."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..notebook.live import bundle_text

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
TOKEN = "tile"
START_S = 60.0

# Counts from the input event to the first change of the picture's ghost marks, and to the status line's words.
WATCH = """
([name, key]) => new Promise((resolve) => {
  const bench = [...document.querySelectorAll(".twb")].filter((n) => n.querySelector(".twb-bench")).at(-1);
  const label = [...bench.querySelectorAll("label")].find((l) => l.textContent === name);
  const input = document.getElementById(label.htmlFor);
  const status = bench.querySelector(".twb-status"), right = bench.querySelector(".twb-right"), out = {};
  const start = performance.now();
  const done = () => (seen.disconnect(), resolve(out));
  const look = () => {
    const now = performance.now() - start, words = status.textContent;
    if (out.ghost === undefined && right.querySelector("[data-group=ghost]")) out.ghost = now;
    if (out.answer === undefined && !words.includes("asking")) out.answer = now;
    if (/run \\d+/.test(words)) (out.truth = now, done());
  };
  const seen = new MutationObserver(look);
  right.querySelectorAll("[data-group=ghost]").forEach((n) => n.remove());
  seen.observe(bench, { childList: true, subtree: true, characterData: true });
  setTimeout(done, 20000);
  input.value = key;
  input.dispatchEvent(new Event("input", { bubbles: true }));
})
"""
DRAW = """
(live) => new Promise((resolve) => {
  const host = document.body.appendChild(document.createElement("div"));
  const start = performance.now();
  new MutationObserver(() => { if (document.querySelector("[data-ready=true]")) resolve(performance.now() - start); })
    .observe(document.body, { attributes: true, subtree: true, childList: true });
  const values = { live, selection: {}, group: String(Math.random()), static_id: "" };
  window.twbRender({ el: host, model: { get: (n) => values[n], set() {}, save_changes() {}, on() {}, off() {}, send() {} } });
  setTimeout(() => resolve(NaN), 5000);
})
"""


def missing() -> str:
    """What is not here to time a browser with; "" if all is."""
    absent = [name for name in ("playwright", "jupyterlab", "anywidget", "nbformat") if importlib.util.find_spec(name) is None]
    if not any(shutil.which(name) for name in CHROMIUM):
        absent.append("chromium")
    return f"{' and '.join(absent)} not installed" if absent else ""


def times(setup: str, cell: str, layout: Mapping[str, Any], repeat: int) -> dict[str, list[float]]:
    """Milliseconds by name: "ghost", "answer" and "truth" of `repeat` steps of a slider, "layout" of as many drawings.

    Raises: what playwright raises, and RuntimeError if the server does not start.
    """
    out: dict[str, list[float]] = {"ghost": [], "answer": [], "truth": [], "layout": []}
    with opened([f"%load_ext tileworkbench\n{setup}", cell]) as page:
        page.get_by_role("slider", name="block_M").last.wait_for(timeout=60_000)
        page.locator(".twb-status", has_text="run 1").last.wait_for(timeout=60_000)
        page.wait_for_timeout(3000)  # predictions and their ghosts are made ahead
        for step in range(repeat):
            found = page.evaluate(WATCH, ["block_M" if step % 2 else "block_N", [0, 0, 1, 1, 3, 3, 4, 4][step % 8]])
            for name in ("ghost", "answer", "truth"):
                out[name] += [found[name]] if name in found else []
        page = page.context.browser.new_page()
        script = bundle_text("layout").replace("export default { render };", "window.twbRender = render;")
        page.set_content(f"<body><script>{script}</script></body>")
        out["layout"] = [page.evaluate(DRAW, dict(layout)) for _ in range(repeat)]
    return out


@contextlib.contextmanager
def opened(cells: Sequence[str], *, width: int = 1400, height: int = 1100, scale: float = 1.0) -> Iterator[Any]:
    """A page of chromium (playwright's) that shows a JupyterLab in which a notebook of these cells was run.

    Raises: what playwright raises, and RuntimeError if the server does not start.
    """
    play = importlib.import_module("playwright.sync_api").sync_playwright
    path = next(found for name in CHROMIUM if (found := shutil.which(name)))
    with play() as p, tempfile.TemporaryDirectory(prefix="twb-lab-") as home, contextlib.ExitStack() as stack:
        folder = Path(home) / "notebooks"
        folder.mkdir()
        (folder / "bench.ipynb").write_text(_notebook(cells))
        url = stack.enter_context(serve(Path(home), folder))
        browser = p.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu", "--no-first-run"])
        page = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=scale)
        page.goto(f"{url}/lab/tree/bench.ipynb?token={TOKEN}")
        _run_all(page)
        yield page
        browser.close()


def _run_all(page: Any) -> None:
    """Run all cells; a kernel that still connects drops the request, so it is asked again."""
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=60_000)
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for(timeout=60_000)
    for _ in range(10):
        page.locator(".jp-Notebook .jp-Cell").first.click()
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_text("Run All Cells", exact=True).click()
        page.wait_for_timeout(1500)
        if page.evaluate(r"[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].some(n => /[*\d]/.test(n.textContent))"):
            return


@contextlib.contextmanager
def serve(home: Path, folder: Path, module: str = "jupyterlab") -> Iterator[str]:
    """The address of a notebook server on the loopback device that shows `folder`. What it keeps lies in `home`; its token is `TOKEN`.

    `module`: "jupyterlab" or "notebook" (Notebook 7). Raises RuntimeError, with the end of its log, if it does not start.
    """
    settings = home / "jupyterlab_settings_dir" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_WORKSPACES_DIR", "JUPYTERLAB_SETTINGS_DIR", "IPYTHONDIR")
    own = {name: str(home / name.lower()) for name in names}
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, **own, "JUPYTER_NO_CONFIG": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1", "PYTHONPATH": root}
    options = [f"--port={port}", "--ip=127.0.0.1", "--no-browser", "--allow-root", "--ServerApp.port_retries=0"]
    options += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
    with (home / "server.log").open("w") as log:
        server = subprocess.Popen([sys.executable, "-m", module, *options], env=env, cwd=folder, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(f"{url}/api/status?token={TOKEN}", server, home / "server.log")
            yield url
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


def _notebook(cells: Sequence[str]) -> str:
    """A notebook of code cells, as JSON."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": [_cell(i, text) for i, text in enumerate(cells)]})


def _cell(number: int, text: str) -> dict[str, Any]:
    return {"cell_type": "code", "id": f"c{number}", "metadata": {}, "outputs": [], "execution_count": None, "source": text}


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the notebook server did not start:\n{log.read_text()[-3000:]}")

"""What a person sees: a rendered lesson and the demo's report, in Debian's chromium, with the network off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CELLS = """\
%load_ext tileworkbench
---
%%tile --check "2 * A" --show all
import numpy as np
import tileworkbench as tilelang
import tileworkbench.language as T
@tilelang.jit
def double(A):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, 256), threads=128) as bx:
        for i in T.Parallel(256):
            B[bx * 256 + i] = A[bx * 256 + i] * 2
    return B
A = np.arange(100000, dtype="float32")
B = double(A)
"""


@pytest.fixture
def offline(page):
    """The page, and what it asked of a network (nothing of which it gets) or complained about."""
    asked, errors = [], []

    def gate(route):
        if route.request.url.startswith(("file:", "data:", "about:")):
            route.continue_()
        else:
            asked.append(route.request.url)
            route.abort()

    page.route("**/*", gate)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return page, asked, errors


def run(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook with one `%%tile` cell, run and converted to HTML as `jupyter nbconvert` does it."""
    import nbformat

    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS.split("---\n")])
    nbformat.write(notebook, folder / "lesson.ipynb")
    run(sys.executable, "-m", "nbconvert", "--to", "html", "--execute", "lesson.ipynb", cwd=folder)
    return folder / "lesson.html"


def test_a_panel_shows_without_network_and_without_kernel(rendered: Path, offline):
    page, _, _ = offline
    page.goto(rendered.as_uri())
    assert page.get_by_text("100000 elements agree with the reference").is_visible()
    assert page.get_by_role("cell", name="B[bx * 256 + i] = A[bx * 256 + i] * 2").first.is_visible()
    pictures = page.locator("img")
    assert pictures.count() >= 1
    for i in range(pictures.count()):
        assert pictures.nth(i).evaluate("e => e.complete && e.naturalWidth > 100")
        assert pictures.nth(i).get_attribute("alt")
    assert page.get_by_text("int32_t", exact=False).first.is_visible() or page.get_by_text("T.Kernel", exact=False).first.is_visible()


def test_a_panel_fits_a_narrow_page(rendered: Path, offline):
    page, _, _ = offline
    page.set_viewport_size({"width": 640, "height": 900})
    page.goto(rendered.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1")


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's report, at its small sizes."""
    folder = tmp_path_factory.mktemp("demo")
    run(sys.executable, "-m", "tileworkbench.cli", "demo", "--quick", "--out", "report.html", cwd=folder)
    return folder / "report.html"


def test_the_report_opens_offline(report: Path, offline):
    page, asked, errors = offline
    page.goto(report.as_uri())
    assert asked == [] and errors == []
    assert page.get_by_role("heading").count() >= 1
    for kernel in ("gemm", "softmax", "attention"):
        assert page.get_by_text(kernel, exact=False).first.is_visible()
    pictures = page.locator("img, svg")
    assert pictures.count() >= 1
    assert page.evaluate("[...document.images].every(e => e.complete && e.naturalWidth > 0)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [600, 1280])
def test_the_report_fits_and_can_be_read(report: Path, offline, scheme: str, width: int):
    page, _, _ = offline
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1")
    text, ground = page.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    assert contrast(text, ground) >= 4.5


def contrast(text: str, ground: str) -> float:
    """The contrast ratio of two CSS colours `rgb(...)`. Source: WCAG 2.1, "contrast ratio"; a transparent ground is the browser's white."""

    def luminance(colour: str) -> float:
        numbers = [float(n) for n in colour[colour.index("(") + 1 : -1].split(",")]
        if len(numbers) == 4 and numbers[3] == 0:
            return 1.0
        linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in numbers[:3]]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(text), luminance(ground)))
    return (high + 0.05) / (low + 0.05)

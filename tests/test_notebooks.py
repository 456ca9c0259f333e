"""Every lesson runs from a fresh kernel, on a CPU, without a network; its outputs show in an untrusted viewer and stay small."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MAX_OUTPUT_BYTES = 200 * 1024
MAX_CELL_LINES = 25


@pytest.fixture(scope="session", autouse=True)
def _quiet_kernels():
    """The kernel is a process of its own: it finds the package and speaks no warnings of its debugger."""
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), before.get("PYTHONPATH", "")]))
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    yield
    os.environ.clear()
    os.environ.update(before)


def execute(notebook: Any) -> Any:
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT / "notebooks")}}).execute()
    return notebook


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_lessons():
    assert [p.name for p in LESSONS][:2] == ["01_first_kernel.ipynb", "02_online_softmax.ipynb"]


@pytest.mark.slow
@pytest.mark.parametrize("path", LESSONS, ids=lambda p: p.stem)
def test_a_lesson_runs(path: Path):
    notebook = execute(nbformat.read(path, as_version=4))
    panels = 0
    for cell in code_cells(notebook):
        bundles = [output.data for output in cell.outputs if output.output_type in ("display_data", "execute_result")]
        size = len(json.dumps(cell.outputs))
        assert size < MAX_OUTPUT_BYTES, f"{size} bytes of output after:\n{cell.source}"
        for bundle in bundles:
            html = bundle.get("text/html", "")
            assert "<script" not in html and "http://" not in html and "https://" not in html
            assert not html or "text/plain" in bundle
        panels += any("image/png" in bundle for bundle in bundles)
    assert panels > 0, "no cell of the lesson shows a picture that an untrusted viewer would keep"


@pytest.mark.parametrize("path", LESSONS, ids=lambda p: p.stem)
def test_a_lesson_is_written_as_one(path: Path):
    """It asks a question, keeps its cells short, ends with an assertion and with what to read next, and carries no outputs."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.cells[0].cell_type == "markdown"
    assert "?" in notebook.cells[0].source
    for cell in code_cells(notebook):
        assert cell.outputs == [] and cell.execution_count is None, "clear the outputs before a commit"
        lines = [line for line in cell.source.splitlines() if line.strip() and not line.startswith("%%")]
        assert len(lines) <= MAX_CELL_LINES, f"move this cell's logic into the package:\n{cell.source}"
    assert "assert" in code_cells(notebook)[-1].source
    assert notebook.cells[-1].cell_type == "markdown"
    assert "next" in notebook.cells[-1].source.lower()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("%%tile --no-such-option\nx = 1", "unrecognized arguments: --no-such-option"),
        ("%%tile\nimport tileworkbench.language as T\nT.no_such_word", "no_such_word"),
        ("%%tile\nif x\n", "syntax error: expected ':'"),
        ("%%tile --expect 'time < 1 s'\nx = 1", "ran no kernel"),
    ],
)
def test_a_failing_cell_stops_the_notebook(source: str, message: str):
    """What fails in a cell fails `Run All` and CI too."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%load_ext tileworkbench"), nbformat.v4.new_code_cell(source)])
    with pytest.raises(CellExecutionError) as caught:
        execute(notebook)
    text = str(caught.value) + "".join(o.get("text", "") for o in notebook.cells[-1].outputs)
    assert message in text
    assert "site-packages" not in text

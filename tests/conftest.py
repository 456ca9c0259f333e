"""Fixtures that every room's tests share."""

from __future__ import annotations

import difflib
import gc
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# No deadline, since a first example may have to compile; the same examples everywhere, so that a failure can be repeated.
settings.register_profile("tests", deadline=None, derandomize=True)
settings.load_profile("tests")

TESTS = Path(__file__).resolve().parent
Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the files under tests/golden with what the tests produce now")


def pytest_configure(config: pytest.Config) -> None:
    """Where Python may not keep its bytecode beside the modules, the processes that tests start keep it in a folder of this run.

    Else each of them would compile all modules anew. Pytest's own processes find what is installed compiled, so they keep to what they were told.
    """
    if not os.environ.get("PYTHONDONTWRITEBYTECODE"):
        return
    is_worker = hasattr(config, "workerinput")
    if not is_worker:
        folder = tempfile.TemporaryDirectory(prefix="twb-bytecode-")
        config.add_cleanup(folder.cleanup)
        os.environ["TILEWORKBENCH_TEST_BYTECODE"] = folder.name  # for workers
    if is_worker or getattr(config.option, "dist", "no") == "no":
        del os.environ["PYTHONDONTWRITEBYTECODE"]
        os.environ["PYTHONPYCACHEPREFIX"] = os.environ["TILEWORKBENCH_TEST_BYTECODE"]


def pytest_collection_finish() -> None:
    """All tests and what they import stay to the end. What looks through all objects for garbage, as IPython does often, passes over these."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n`, any worker takes any test, but all browser tests go to one worker: they share a server, and a page from test to test."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "browser" if nodeid.startswith("tests/browser/") else nodeid

    return Scheduling(config, log)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(text, name)`: `text` is the whole of tests/golden/<test file>/<name>, to the letter.

    With `--update-golden` the file is written instead, and read in review like code. Names are spelled so that no two tests share one.
    """
    folder = TESTS / "golden" / Path(request.path).stem.removeprefix("test_")
    update = bool(request.config.getoption("--update-golden"))
    again = f"pytest {request.path.relative_to(TESTS.parent)} --update-golden"

    def compare(text: str, name: str) -> None:
        path = folder / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        shown = path.relative_to(TESTS.parent)
        if not path.exists():
            pytest.fail(f"{shown} does not exist; make it, and read it, with: {again}", pytrace=False)
        wanted = path.read_text(encoding="utf-8")
        if text != wanted:
            diff = "\n".join(difflib.unified_diff(wanted.splitlines(), text.splitlines(), f"{shown} (golden)", "now", lineterm=""))
            pytest.fail(f"{diff}\nif the new text is right: {again}", pytrace=False)

    return compare

"""Cache folders of the test run's own, for rooms whose tests compile and keep results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What these tests keep lies in a folder of the test run, not in the user's cache."""
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("kernels")
    folder.chmod(0o700)
    patch.setenv("TILEWORKBENCH_CACHE_DIR", str(folder))
    yield folder
    patch.undo()


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for one test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TILEWORKBENCH_CACHE_DIR", str(folder))
    return folder

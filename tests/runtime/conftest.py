"""Every test of the runtime keeps its kernels in a folder of the test run, not in the user's cache."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from cache_folders import fresh_cache, session_cache
from runtime.cuda_fakes import FakeDriver, build_fake_driver, fake_cupy

from tileworkbench.runtime import libcuda

__all__ = ["fresh_cache", "session_cache"]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    return build_fake_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def driver(built: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """The fake driver in its first state, and a CuPy to go with it."""
    for name in ("answer", "sync", "capturing", "status", "launches", "encoded", "loaded", "synced", "context", "profiled"):
        built.set(name, 0)
    built.set("devices", 1)
    built.expect()
    monkeypatch.setenv("TILEWORKBENCH_LIBCUDA", str(built.path))
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    libcuda._open.cache_clear()
    yield built
    libcuda._open.cache_clear()

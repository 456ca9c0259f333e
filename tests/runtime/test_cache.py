"""The disk cache: one build for many processes, whole entries or none, a private folder, and every way in which a folder can be bad."""

from __future__ import annotations

import logging
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime.programs import scale_program

import tileworkbench
from tileworkbench.runtime import cache, notices, storage
from tileworkbench.runtime.fingerprint import fingerprint


def build_slowly(folder: Path) -> dict[str, Any]:
    with open(folder.parent / "builds", "a") as log:
        log.write("x")
    time.sleep(0.2)
    (folder / "kernel.so").write_bytes(b"code")
    return {"entry": "f"}


def one_process(folder: str, barrier: Any, results: Any) -> None:
    os.environ["TILEWORKBENCH_CACHE_DIR"] = folder
    barrier.wait()
    entry, was_there = cache.get_or_build("ab" * 20, build_slowly)
    results.put(((entry.folder / "kernel.so").read_bytes(), was_there))


def test_eight_processes_build_once(fresh_cache: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(8), context.Queue()
    workers = [context.Process(target=one_process, args=(str(fresh_cache), barrier, results)) for _ in range(8)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert [code for code, _ in found] == [b"code"] * 8
    assert sorted(was_there for _, was_there in found) == [False] + [True] * 7
    assert (fresh_cache / "kernels" / "builds").read_text() == "x"


KERNEL = """
import sys; sys.path[:0] = {path!r}
import numpy as np
from runtime.programs import scale_program
import tileworkbench
kernel = tileworkbench.compile(scale_program(77), target="c")
y = np.zeros(77, np.float32)
kernel(np.ones(77, np.float32), 2.0, y)
print(kernel.facts.was_cached, y.sum())
"""


@pytest.mark.slow
def test_eight_processes_compile_the_same_kernel(fresh_cache: Path) -> None:
    code = KERNEL.format(path=[p for p in sys.path if p])
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(8)]
    said = sorted(p.communicate(timeout=120)[0].strip() for p in running)
    assert said == ["False 154.0"] + ["True 154.0"] * 7


def entries(folder: Path) -> list[Path]:
    return [p for p in (folder / "kernels").iterdir() if p.is_dir() and not p.name.startswith(".")]


@pytest.mark.parametrize("damage", ["truncate", "flip", "no facts", "no library"])
def test_damaged_entry_is_rebuilt(damage: str, fresh_cache: Path) -> None:
    key = cache.key_of("damage", damage)
    cache.get_or_build(key, build_slowly)
    (place,) = entries(fresh_cache)
    match damage:
        case "truncate":
            (place / "kernel.so").write_bytes(b"")
        case "flip":
            (place / "kernel.so").write_bytes(b"cose")
        case "no facts":
            (place / "entry.json").write_text('{"files": {')
        case "no library":
            (place / "kernel.so").unlink()
    assert cache.lookup(key) is None
    entry, was_there = cache.get_or_build(key, build_slowly)
    assert not was_there
    assert (entry.folder / "kernel.so").read_bytes() == b"code"
    assert cache.lookup(key) is not None


def test_failed_build_leaves_nothing(fresh_cache: Path) -> None:
    def fail(folder: Path) -> dict[str, Any]:
        (folder / "half").write_text("x")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        cache.get_or_build("cd" * 20, fail)
    assert [p for p in (fresh_cache / "kernels").iterdir() if p.is_dir()] == []


def test_folder_is_private(fresh_cache: Path) -> None:
    cache.get_or_build("ef" * 20, build_slowly)
    for folder in (fresh_cache, fresh_cache / "kernels", fresh_cache / "kernels" / ("ef" * 20)):
        assert folder.stat().st_mode & 0o777 == 0o700


def said_about(folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> tuple[Path, str]:
    monkeypatch.setenv("TILEWORKBENCH_CACHE_DIR", str(folder))
    monkeypatch.setattr(notices, "_said", set())
    storage._usable.cache_clear()
    with caplog.at_level(logging.WARNING, "tileworkbench"):
        entry, _ = cache.get_or_build(cache.key_of(str(folder)), build_slowly)
        cache.get_or_build(cache.key_of(str(folder), "2"), build_slowly)
    assert len(caplog.records) == 1, "said once"
    return entry.folder, caplog.records[0].getMessage()


def test_folder_that_others_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o777)
    used, said = said_about(tmp_path, monkeypatch, caplog)
    assert tmp_path not in used.parents
    assert said == (
        f"tileworkbench: the cache folder {tmp_path} can be written by others (chmod 700 would fix it); "
        "kernels are kept in a temporary folder of this process"
    )


def test_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    used, said = said_about(tmp_path / "file" / "cache", monkeypatch, caplog)
    assert tmp_path not in used.parents
    assert "cannot be written (Not a directory)" in said


def test_folder_that_stops_working(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(notices, "_said", set())
    assert storage.cache_folder() == fresh_cache
    (fresh_cache / "kernels").write_text("in the way")
    with caplog.at_level(logging.WARNING, "tileworkbench"):
        entry, was_there = cache.get_or_build("34" * 20, build_slowly)
    assert not was_there
    assert fresh_cache not in entry.folder.parents
    assert "cannot write the cache folder" in caplog.records[0].getMessage()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o500)
    used, said = said_about(tmp_path, monkeypatch, caplog)
    assert tmp_path not in used.parents
    assert "cannot be written (Permission denied)" in said


def test_disable_cache(fresh_cache: Path) -> None:
    tileworkbench.disable_cache()
    try:
        assert [cache.get_or_build("12" * 20, build_slowly)[1] for _ in range(2)] == [False, False]
        assert not (fresh_cache / "kernels").exists()
    finally:
        tileworkbench.enable_cache()
    assert [cache.get_or_build("12" * 20, build_slowly)[1] for _ in range(2)] == [False, True]


@pytest.mark.parametrize("name", ["TILELANG_DISABLE_CACHE", "TILEWORKBENCH_DISABLE_CACHE"])
def test_disable_by_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.is_enabled()
    monkeypatch.setenv(name, "1")
    assert not cache.is_enabled()
    monkeypatch.setenv(name, "0")
    assert cache.is_enabled()


def test_info_clear_prune(fresh_cache: Path) -> None:
    for n in range(3):
        cache.get_or_build(cache.key_of(str(n)), build_slowly)
    assert (cache.info().entries, cache.info().folder) == (3, fresh_cache)
    one = cache.info().size_bytes // 3
    assert cache.prune(max_bytes=2 * one) == 1
    old = time.time() - 100 * 86400
    os.utime(entries(fresh_cache)[0], (old, old))
    assert cache.prune() == 1
    assert cache.clear() == 1
    assert cache.info().entries == 0


def test_keys_have_no_collisions_by_concatenation() -> None:
    assert cache.key_of("ab", "c") != cache.key_of("a", "bc")


def test_cached_kernel_runs_and_says_so(fresh_cache: Path) -> None:
    for was_cached in (False, True):
        kernel = tileworkbench.compile(scale_program(65), target="c")
        assert kernel.facts.was_cached is was_cached
        y = np.zeros(65, np.float32)
        kernel(np.ones(65, np.float32), 3.0, y)
        assert (y == 3).all()
        assert kernel.passes
        assert kernel.lines, "the maps are made anew for a kernel from the cache"
        assert "for" in kernel.source
    cache.clear()
    assert "for" in kernel.source, "also when the cache was cleared meanwhile"


def test_fingerprint_sees_everything_but_spans() -> None:
    same, other = scale_program(64).kernel, scale_program(64).kernel
    assert fingerprint(same) == fingerprint(other)
    assert fingerprint(same) != fingerprint(scale_program(65).kernel)
    assert fingerprint(same) != fingerprint(scale_program(64, "float16").kernel)

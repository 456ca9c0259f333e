"""The disk cache of compiled kernels, and of the parts that kernels share: a folder for each, named by a hash of all that went into it.

An entry is complete or absent: it is built in a folder of its own and renamed into place, under a lock that makes eight processes wanting
the same kernel build it once. Every file's checksum stands in `entry.json`; an entry that does not match is thrown away and built again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .notices import notice_once
from .storage import cache_folder, temporary_folder

KERNELS, PARTS = "kernels", "parts"  # the two kinds of entries; a part is built while its kernel is, so it has locks of its own
LOCK_TIMEOUT_S = 300.0
_switch = {"on": True}


@dataclass(frozen=True, slots=True)
class Entry:
    """A compiled kernel on disk: its folder and the facts that were stored with it."""

    folder: Path
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What the cache holds."""

    folder: Path
    entries: int
    size_bytes: int


def is_enabled() -> bool:
    """False after `disable_cache()`, or when TILEWORKBENCH_DISABLE_CACHE (or TileLang's TILELANG_DISABLE_CACHE) is set to 1."""
    off = any(os.environ.get(name, "0").lower() in ("1", "true", "yes", "on") for name in ("TILEWORKBENCH_DISABLE_CACHE", "TILELANG_DISABLE_CACHE"))
    return _switch["on"] and not off


def enable_cache() -> None:
    """Look kernels up in the caches and keep new ones there (the default)."""
    _switch["on"] = True


def disable_cache() -> None:
    """Compile every kernel afresh from now on, into a temporary folder."""
    _switch["on"] = False


def key_of(*parts: str) -> str:
    """A name for these parts, of 40 hexadecimal digits; any change gives another one."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:40]


def lookup(key: str) -> Entry | None:
    """The kernel `key`, if it is there and whole."""
    return _read(_place(key, KERNELS)) if is_enabled() else None


def get_or_build(key: str, build: Callable[[Path], dict[str, Any]], kind: str = KERNELS) -> tuple[Entry, bool]:
    """The entry `key` of a kind, and whether it was there. If not, `build(folder)` fills an empty folder and returns the facts to store.

    Facts are JSON values. Raises whatever `build` raises; nothing is left behind then.
    """
    if not is_enabled():
        return _build_in(temporary_folder(), key, build), False
    place = _place(key, kind)
    found = _read(place)
    if found is not None:
        return found, True
    with lock(key, kind):
        found = _read(place)
        if found is not None:
            return found, True
        if place.exists():
            _discard(place)
        try:
            return _build_into(place, build), False
        except OSError as error:
            notice_once(f"cannot write the cache folder {place.parent} ({error.strerror}); kernels are kept in a temporary folder of this process")
            return _build_in(temporary_folder(), key, build), False


def _place(key: str, kind: str) -> Path:
    return cache_folder() / kind / key


def _read(place: Path) -> Entry | None:
    try:
        note = json.loads((place / "entry.json").read_bytes())
        if all(_checksum(place / name) == digest for name, digest in note["files"].items()):
            return Entry(place, note["facts"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def _build_into(place: Path, build: Callable[[Path], dict[str, Any]]) -> Entry:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
    try:
        facts = build(work)
        _seal(work, facts)
        with contextlib.suppress(OSError):  # the name is taken: another process without our lock was first, and its entry is as good
            os.rename(work, place)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    entry = _read(place)
    if entry is None:
        raise OSError(5, "the entry could not be read back")
    return entry


def _build_in(folder: Path, key: str, build: Callable[[Path], dict[str, Any]]) -> Entry:
    work = Path(tempfile.mkdtemp(prefix=f"{key[:12]}-", dir=folder))
    return Entry(work, build(work))


def _seal(folder: Path, facts: dict[str, Any]) -> None:
    files = {path.name: _checksum(path) for path in sorted(folder.iterdir()) if path.is_file()}
    (folder / "entry.json").write_text(json.dumps({"files": files, "facts": facts}))


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _discard(place: Path) -> None:
    """Move a damaged entry out of the way first: a process that has it loaded keeps its file."""
    trash = Path(tempfile.mkdtemp(prefix=".old-", dir=place.parent))
    with contextlib.suppress(OSError):
        os.rename(place, trash / "entry")
    shutil.rmtree(trash, ignore_errors=True)


@contextlib.contextmanager
def lock(key: str, kind: str = KERNELS) -> Iterator[None]:
    """One builder of `key` at a time. A lock that cannot be had (a file system without locks, a stuck owner) only costs double work."""
    folder = cache_folder() / "locks"
    held = None
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        held = FileLock(folder / f"{kind}-{key[:2]}.lock", timeout=LOCK_TIMEOUT_S)
        held.acquire()
    except (OSError, NotImplementedError, Timeout):
        held = None
    try:
        yield
    finally:
        if held is not None:
            held.release()


# ------------------------------------------------------------------------------------------- housekeeping
def info() -> CacheInfo:
    """Where the cache is, how many kernels it holds, and the size of all entries in bytes."""
    return CacheInfo(cache_folder(), len(_entries(KERNELS)), sum(_size(place) for place in _entries(KERNELS, PARTS)))


def clear() -> int:
    """Delete everything; returns how many kernels there were."""
    count = len(_entries(KERNELS))
    for place in _entries(KERNELS, PARTS):
        shutil.rmtree(place, ignore_errors=True)
    return count


def prune(max_bytes: int = 512 << 20, max_age_days: float = 90.0) -> int:
    """Delete what was not built for `max_age_days`, then the oldest until at most `max_bytes` are left; returns how many entries went."""
    aged = sorted((place.stat().st_mtime, _size(place), place) for place in _entries(KERNELS, PARTS))
    total, gone, limit = sum(size for _, size, _ in aged), 0, time.time() - max_age_days * 86400
    for modified, size, place in aged:
        if modified < limit or total > max_bytes:
            shutil.rmtree(place, ignore_errors=True)
            total, gone = total - size, gone + 1
    return gone


def _size(place: Path) -> int:
    return sum(path.stat().st_size for path in place.iterdir())


def _entries(*kinds: str) -> list[Path]:
    folders = [cache_folder() / kind for kind in kinds]
    return [p for folder in folders if folder.is_dir() for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")]

"""Where files are kept: a private folder of the user's, or a temporary one when that cannot be written.

The folder is $TILEWORKBENCH_CACHE_DIR, else the platform's cache folder. Libraries are loaded from it, so nobody else may write there:
it is created with mode 0700, and one that others can write to, or that is another user's, is not used.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path

from .notices import notice_once


def cache_folder() -> Path:
    """The folder for this process; it exists and can be written."""
    return _usable(os.environ.get("TILEWORKBENCH_CACHE_DIR", ""), os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", ""))


@cache
def _usable(asked: str, *_key: str) -> Path:
    folder = Path(asked).expanduser() if asked else _platform_folder()
    why = why_unusable(folder)
    if not why:
        return folder
    notice_once(f"the cache folder {folder} {why}; kernels are kept in a temporary folder of this process")
    return temporary_folder()


def _platform_folder() -> Path:
    import platformdirs  # a third of the import time of this module, and not needed when the variable is set

    return Path(platformdirs.user_cache_dir("tileworkbench", appauthor=False))


def why_unusable(folder: Path) -> str:
    """Create `folder` if need be; why it cannot serve, as the rest of a sentence, or ""."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.stat()
        if not stat.S_ISDIR(info.st_mode):
            return "is not a folder"
        if hasattr(os, "getuid"):
            if info.st_uid != os.getuid():
                return "belongs to another user"
            if info.st_mode & 0o022:
                return "can be written by others (chmod 700 would fix it)"
        handle, name = tempfile.mkstemp(dir=folder, prefix=".write-")
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        return f"cannot be written ({error.strerror})"
    return ""


@cache
def _temporary(pid: int) -> Path:
    del pid  # a forked child gets its own folder: its parent deletes this one
    folder = Path(tempfile.mkdtemp(prefix="tileworkbench-"))
    atexit.register(_remove, folder, os.getpid())
    return folder


def temporary_folder() -> Path:
    """A private folder that is removed when this process ends."""
    return _temporary(os.getpid())


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a whole file or nothing; other processes see the old or the new content. Failing to write is not an error: it is a cache."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except OSError:
        return

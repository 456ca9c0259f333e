"""A shared library on disk -> a function that Python can call.

The entry of every kernel is `int32_t entry(const int64_t *args, int32_t threads)`. ctypes passes a `bytes` object as the pointer: packing the
arguments with `struct` costs a tenth of filling a ctypes array, and ctypes releases the interpreter lock during the call.

All kernels of a process share one area of tile memory a thread, that of the kernel that was loaded first: `twb_share` hands it on.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from ..base.errors import CompilerError
from .fork import fork_safe_lock
from .storage import temporary_folder

Entry = Callable[[bytes, int], int]
_loaded: dict[tuple[str, str], Entry] = {}
_shared: list[int] = []  # the address of the function that gives a thread its tile memory
_lock = fork_safe_lock()


def load(library: Path, entry: str) -> Entry:
    """The function `entry` of `library`; loading the same one again is free. Raises CompilerError if the system refuses it."""
    key = (str(library), entry)
    with _lock:
        found = _loaded.get(key)
        if found is None:
            opened = _open(library)
            _share(opened)
            found = _loaded[key] = _typed(opened, entry)
        return found


def _share(library: ctypes.CDLL) -> None:
    """Let `library` take its tile memory from where the others do. Libraries are never unloaded, so the first one's function stays."""
    try:
        share = library.twb_share
    except AttributeError:  # it has no tiles
        return
    share.argtypes, share.restype = (ctypes.c_void_p,), ctypes.c_void_p
    used = share(_shared[0] if _shared else None)
    if not _shared:
        _shared.append(used)


def _open(library: Path) -> ctypes.CDLL:
    try:
        return open_library(str(library))
    except OSError as error:
        missing = re.search(r"undefined symbol: (\w+)", str(error))
        if missing is not None:
            hint = "give its text with T.import_source, or check its name"
            raise CompilerError(f"the kernel calls the C function `{missing[1]}`, which is not defined", hint=hint) from None
        if "failed to map segment" not in str(error):
            raise CompilerError(f"the compiled kernel does not load: {error}", hint="tileworkbench cache --clear builds it again") from None
    copy = temporary_folder() / f"{library.parent.name}.so"  # the cache lies on a file system mounted noexec
    shutil.copyfile(library, copy)
    os.chmod(copy, 0o700)
    return open_library(str(copy))


@cache
def _mathematics() -> bool:
    """Put libm's functions where a library that names no dependencies finds them."""
    try:
        ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6", mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def open_library(path: str) -> ctypes.CDLL:
    """Load a shared library, which may use libc and libm without naming them. Raises OSError."""
    try:
        return ctypes.CDLL(path)
    except OSError:
        if not _mathematics():
            raise
        return ctypes.CDLL(path)


def _typed(library: ctypes.CDLL, entry: str) -> Entry:
    function = getattr(library, entry)
    function.argtypes = (ctypes.c_char_p, ctypes.c_int32)
    function.restype = ctypes.c_int32
    return function  # type: ignore[no-any-return]  # ctypes cannot express it

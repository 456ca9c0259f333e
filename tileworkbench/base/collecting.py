"""Tracing and lowering make many small objects that all stay for a while; looking for garbage among them is a wait for nothing.

>>> with no_collection():
...     gc.isenabled()
False
>>> gc.isenabled()
True
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Without Python's cycle collector, which a large notebook makes slow, for the few milliseconds inside. It comes back as it was."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()

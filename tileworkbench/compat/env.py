"""`tileworkbench.env`: where kernels are kept, and the switches of the cache."""

from __future__ import annotations

from tileworkbench.runtime.cache import disable_cache, enable_cache, is_enabled
from tileworkbench.runtime.storage import cache_folder

TILELANG_CACHE_DIR = str(cache_folder())

__all__ = ["TILELANG_CACHE_DIR", "disable_cache", "enable_cache", "is_enabled"]

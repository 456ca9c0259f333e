"""Every test of a search keeps its kernels and results in a folder of the test run, not in the user's cache."""

from __future__ import annotations

from cache_folders import fresh_cache, session_cache

__all__ = ["fresh_cache", "session_cache"]

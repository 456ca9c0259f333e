"""`tileworkbench.math`: integer helpers for host code."""

from __future__ import annotations

from tileworkbench.runtime.testing import cdiv, next_power_of_2

__all__ = ["cdiv", "next_power_of_2"]

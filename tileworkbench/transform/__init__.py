"""Kernel -> Kernel, one pass a file; `lowering.py` is the ordered list: read it first."""

from __future__ import annotations

from ..base.pass_configs import PassConfigKey

__all__ = ["PassConfigKey"]

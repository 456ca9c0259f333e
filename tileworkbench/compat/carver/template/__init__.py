"""`tileworkbench.carver.template`: TileLang's hints for block sizes by operator. They need a GPU's description."""

from __future__ import annotations

from typing import Any

from tileworkbench.base.errors import UnsupportedError


class MatmulTemplate:
    """Block sizes for a matrix product. Not available: give `autotune` a list of configurations."""

    def __init__(self, **_fields: Any) -> None:
        raise UnsupportedError("hints from the carver need a GPU", hint="give autotune a list of configurations")


__all__ = ["MatmulTemplate"]

"""`tileworkbench.language.fp8`: which 8-bit float a machine computes in. Here it is the OCP pair, float8_e4m3fn and float8_e5m2."""

from __future__ import annotations

from ..base.dtypes import DType
from ..base.errors import TileValueError


def determine_fp8_type(fp8_format: str = "e4m3") -> DType:
    """The 8-bit float of the format "e4m3" or "e5m2". Raises TileValueError for another.

    >>> determine_fp8_type("e5m2")
    float8_e5m2
    """
    if fp8_format not in ("e4m3", "e5m2"):
        raise TileValueError(f"there is no 8-bit float format {fp8_format!r}", hint='"e4m3" or "e5m2"')
    return DType("float8_e4m3fn" if fp8_format == "e4m3" else "float8_e5m2")

"""Words that convert and choose: casts, bit patterns, limits, selections.

`T.float32(x)` and the like convert too. Float to narrower float rounds to nearest even and overflows to infinity; float to integer
truncates and saturates, NaN gives 0; integer to integer wraps; anything to bool is `!= 0`.
"""

from __future__ import annotations

from typing import Any

from ._dispatch import alias, word


@word
def cast(value: Any, dtype: Any, round: str = "", sat: bool = True, rbits: Any = None) -> Any:
    """`value` converted to `dtype`. The two may come in either order. `round` other than to nearest even is refused.

    Example: `T.cast(acc[i, j] * 0.5, "float16")`
    """


@word
def Cast(dtype: Any, value: Any) -> Any:
    """As `T.cast`, dtype first."""


@word
def reinterpret(value: Any, dtype: Any) -> Any:
    """The bits of `value` read as `dtype` of the same width; the two may come in either order.

    Raises: TileTypeError if the widths differ.
    """


@word
def infinity(dtype: Any) -> Any:
    """Plus infinity of a float dtype; -T.infinity(dtype) is the smallest value."""


@word
def max_value(dtype: Any) -> Any:
    """The largest finite value of `dtype`."""


@word
def min_value(dtype: Any) -> Any:
    """The lowest finite value of `dtype`."""


@word
def if_then_else(cond: Any, t: Any, f: Any) -> Any:
    """`t` where `cond` holds, else `f`; the other side is not evaluated, so `cond` may guard a load.

    Example: `T.if_then_else(i < n, x[i], 0.0)`
    """


@word
def Select(cond: Any, t: Any, f: Any) -> Any:
    """As `T.if_then_else`; the author promises that both sides may be evaluated."""


bitcast = alias("bitcast", reinterpret)

"""Ranges of integers, ends included; None is an end that is not known. Each is about any two numbers of the ranges, so they may be too wide.

>>> mul_ranges((0, 3), (-2, 5))
(-6, 15)
>>> divide_ranges((-1, 9), 4), mod_range((0, 2), 4), mod_range((0, 9), 4)
((-1, 2), (0, 2), (0, 3))
"""

from __future__ import annotations

from ..base.dtypes import DType

Range = tuple[int | None, int | None]
ANY: Range = (None, None)
LEAST, MOST = -(1 << 31), (1 << 31) - 1


def fits(known: Range) -> bool:
    """Whether an int32 holds every number of a range."""
    low, high = known
    return low is not None and high is not None and low >= LEAST and high <= MOST


def of_type(dtype: DType) -> Range:
    """What an integer or bool type holds."""
    return (0, 1) if dtype.is_bool else (int(dtype.min), int(dtype.max)) if dtype.is_int and dtype.bits < 64 else ANY


def add_ranges(a: Range, b: Range) -> Range:
    """x + y."""
    return (None if a[0] is None or b[0] is None else a[0] + b[0]), (None if a[1] is None or b[1] is None else a[1] + b[1])


def subtract_ranges(a: Range, b: Range) -> Range:
    """x - y."""
    return (None if a[0] is None or b[1] is None else a[0] - b[1]), (None if a[1] is None or b[0] is None else a[1] - b[0])


def mul_ranges(a: Range, b: Range) -> Range:
    """x * y."""
    if a[0] is None or a[1] is None or b[0] is None or b[1] is None:
        natural = a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0
        return (a[0] * b[0] if natural and a[0] is not None and b[0] is not None else None), None
    ends = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return min(ends), max(ends)


def divide_ranges(a: Range, by: int) -> Range:
    """x // by, for a number above 0."""
    return (None if a[0] is None else a[0] // by), (None if a[1] is None else a[1] // by)


def mod_range(a: Range, by: int) -> Range:
    """x % by as Python has it, for a number above 0."""
    low, high = a
    return a if low is not None and high is not None and low >= 0 and high < by else (0, by - 1)


def divide_within(a: Range, by: Range) -> Range:
    """x // y, for x not below 0 and y above 0.

    >>> divide_within((0, 40), (2, 8)), mod_within((0, 40), (2, 8)), mod_within((0, 3), (2, None))
    ((0, 20), (0, 7), (0, 3))
    """
    low = 0 if a[0] is None or by[1] is None else a[0] // by[1]
    return low, (None if a[1] is None or by[0] is None else a[1] // by[0])


def mod_within(a: Range, by: Range) -> Range:
    """x % y, for x not below 0 and y above 0."""
    ends = [end for end in (a[1], None if by[1] is None else by[1] - 1) if end is not None]
    return 0, (min(ends) if ends else None)


def bit_ceiling(op: str, a: Range, b: Range) -> Range:
    """x & y, x | y or x ^ y of int32."""
    if a[0] is None or a[1] is None or b[0] is None or b[1] is None:
        return LEAST, MOST
    if op == "bitand" and (a[0] >= 0 or b[0] >= 0):
        return 0, min(end for low, end in ((a[0], a[1]), (b[0], b[1])) if low >= 0)
    if a[0] >= 0 and b[0] >= 0:
        return 0, (1 << max(a[1], b[1]).bit_length()) - 1
    return LEAST, MOST


def least(a: int | None, b: int | None) -> int | None:
    """The smaller of two upper ends; None: unbounded."""
    return b if a is None else a if b is None else min(a, b)


def most(a: int | None, b: int | None) -> int | None:
    """The larger of two lower ends; None: unbounded."""
    return b if a is None else a if b is None else max(a, b)

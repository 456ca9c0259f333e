"""Text tables.

>>> print(table(("name", "time"), [("a", "1 ms"), ("long name", "20 ms")], right=("time",)))
name        time
a           1 ms
long name  20 ms
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> str:
    """Columns two blanks apart; those named in `right` end at the right edge."""
    lines = [tuple(heads), *map(tuple, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    text = (
        "  ".join(cell.rjust(w) if head in right else cell.ljust(w) for cell, w, head in zip(line, widths, heads, strict=True)).rstrip()
        for line in lines
    )
    return "\n".join(text)

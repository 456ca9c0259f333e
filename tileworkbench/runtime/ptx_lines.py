"""Which line of the CUDA text each line of its PTX comes from, by the compiler's `.loc` marks.

The machine code's own table of lines drops the second of two calls of one inlined function, so it would give the loads of two tiles to one of them;
its table of PTX lines does not, and PTX says for each inlined function which call it is.

Source: PTX ISA 8.8, "Debugging Directives: .loc": `inlined_at` names the place of the call, and that place stands in a mark before it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

_LOC = re.compile(r"\.loc\s+\d+\s+(\d+)\s+(\d+)(?:,.*\binlined_at\s+\d+\s+(\d+)\s+(\d+))?")
_START = re.compile(r"(?:\.visible |\.weak |\.extern )*\.(?:entry|func)\b")

PtxLines = Sequence[tuple[int, int]]


def ptx_lines(ptx: str) -> tuple[tuple[int, int], ...]:
    """(line of the PTX, line of the text) where the latter changes, both from 1; 0 is no line. An inlined function counts as the line that calls it.

    >>> rows = ['.entry k()', '.loc 1 7 3', '.loc 1 2 5, function_name $L__0, inlined_at 1 7 3', 'add;', '.loc 1 8 3',
    ...         '.loc 1 2 5, function_name $L__0, inlined_at 1 8 3', '.loc 1 1 5, function_name $L__1, inlined_at 1 2 5', 'add;', '.entry f()']
    >>> ptx_lines("\\n".join(rows))
    ((2, 7), (5, 8), (9, 0))
    """
    out: list[tuple[int, int]] = []
    outermost: dict[tuple[int, int], int] = {}  # a place that the marks so far named -> the line that called it last
    now = 0
    for number, row in enumerate(map(str.strip, ptx.split("\n")), 1):
        if not row.startswith("."):
            continue
        if match := _LOC.match(row):
            line, column, from_line, from_column = (int(x) if x else 0 for x in match.groups())
            found = outermost.get((from_line, from_column), from_line) if from_line else line
            outermost[line, column] = found
        elif _START.match(row):
            found = 0
        else:
            continue
        if found != now:
            now = found
            out.append((number, now))
    return tuple(out)


def text_line(lines: PtxLines, number: int) -> int:
    """The line of the text behind line `number` of the PTX; 0 for none.

    >>> text_line(((2, 7), (5, 8)), 4), text_line(((2, 7), (5, 8)), 5), text_line(((2, 7),), 1)
    (7, 8, 0)
    """
    at = bisect_right(lines, number, key=lambda pair: pair[0])
    return lines[at - 1][1] if at else 0

"""Which frames of a traceback belong to the author of the kernel, and how to show an error without ours.

`render(error)` is what a notebook prints for a `TileError`: the author's own calls, each with its line and carets, then the finished
text of the error. Frames of this package and of IPython's machinery are left out.
"""

from __future__ import annotations

import linecache
import os
import sys
from itertools import islice
from types import CodeType, FrameType, TracebackType

from .span import Span

OURS = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
MADE = "<call of "  # the file name of code that `runtime` generates for quick calls
MACHINERY = ("IPython", "ipykernel", "traitlets", "contextlib", "runpy", "importlib", "concurrent", "threading", "asyncio", "subprocess", "selectors")


def user_spans(trace: TracebackType | None) -> list[Span]:
    """The author's frames of `trace`, outermost first, each as the span of the expression that was running."""
    spans = []
    while trace is not None:
        if is_users(trace.tb_frame):
            spans.append(span_of(trace.tb_frame.f_code, trace.tb_lasti, trace.tb_lineno))
        trace = trace.tb_next
    return spans


def is_users(frame: FrameType) -> bool:
    """Whether `frame` runs neither code of this package nor of IPython's machinery, nor a cell's call of a magic."""
    file, name = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
    if file.startswith((OURS, MADE, "<frozen ")):
        return False
    return not (name.partition(".")[0] in MACHINERY or "run_cell_magic" in frame.f_code.co_names)


def span_of(code: CodeType, last_instruction: int, line: int) -> Span:
    """The expression that instruction `last_instruction` (a byte offset) of `code` belongs to; the whole line if columns are unknown."""
    first, last, start, stop = next(islice(code.co_positions(), last_instruction // 2, None), (line, line, None, None))
    text = linecache.getline(code.co_filename, line).rstrip("\n")
    if first != line or start is None or stop is None:
        start, stop = len(text) - len(text.lstrip()), len(text)
    else:  # positions count bytes of UTF-8, spans count characters
        encoded = text.encode()
        start = len(encoded[:start].decode(errors="replace"))
        stop = len(encoded[:stop].decode(errors="replace")) if last == line else len(text)
    label = cell_label(code.co_filename)
    return Span(code.co_filename, line, start, line, max(stop, start + 1), function=code.co_name, label=label, text=text or None)


def cell_label(file: str) -> str:
    """`Cell In[7]` if `file` is what IPython calls the seventh cell, else an empty text."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    namer = getattr(getattr(shell, "compile", None), "format_code_name", None)
    found = namer(file) if namer is not None else None
    return " ".join(found) if found else ""


def render(error: BaseException) -> list[str]:
    """The lines to print for `error`: one block for each call of the author's that led to it, then its text."""
    told, site = set(), getattr(error, "span", None)
    while site is not None:  # what the error's own text shows already
        told.add((site.file, site.line))
        site = site.call_site
    calls = [span for span in user_spans(error.__traceback__) if (span.file, span.line) not in told]
    blocks = ["\n".join([f"{span.where}: in {span.function}", *span.snippet()]) for span in calls]
    return [*blocks, str(error)]

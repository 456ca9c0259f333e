"""Where in the author's source the kernel is being traced right now.

`here()` walks the Python stack to the innermost frame of the author's code and reads its exact line and columns from the code object.
Nothing is instrumented: the rewriter keeps the original positions, so this holds for files, notebook cells and exec'ed strings.
Outer frames (the kernel that called a macro or a helper) become the chain of call sites.
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
from dataclasses import dataclass, field
from types import CodeType, FrameType, TracebackType

from ..base.frames import OURS, cell_label
from ..base.span import Span

_LIBRARY = tuple({sysconfig.get_paths()[k] + "/" for k in ("stdlib", "platstdlib", "purelib", "platlib")})

LABELS: dict[str, str] = {}
"""What to call a source file in messages, e.g. "Cell In[7]"; notebooks may add entries."""


@dataclass(slots=True)
class _Code:
    """What is known about one code object; `code` keeps it alive, so that its id stays its own."""

    code: CodeType
    owner: CodeType  # the kernel function that it belongs to, itself for a function
    is_user: bool
    name: str
    label: str = ""
    is_kernel: bool = False  # rewritten
    positions: list[tuple[int | None, int | None, int | None, int | None]] | None = None
    spans: dict[tuple[int, int], Span] = field(default_factory=dict)


_codes: dict[int, _Code] = {}
_stops: set[int] = set()


def register(code: CodeType, name: str, owner: CodeType | None = None) -> None:
    """Declare `code` and the lambdas and comprehensions in it to be kernel code, shown as `name`."""
    owner = owner or code
    _codes[id(code)] = _Code(code, owner, True, name, label_of(code.co_filename), True)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            register(const, name, owner)


def stop_at(code: CodeType) -> None:
    """`here()` looks no further out than a frame of `code`: the frontend's own entry point."""
    _stops.add(id(code))


def label_of(filename: str) -> str:
    """What `LABELS` calls the file, else "Cell In[7]" for an IPython cell, else an empty text."""
    return LABELS[filename] if filename in LABELS else cell_label(filename)


def here() -> Span | None:
    """The author's current position with its chain of call sites; None outside author code."""
    return _chain(sys._getframe(1))


def span_of_traceback(trace: TracebackType | None) -> Span | None:
    """The position of the innermost author frame through which an exception passed."""
    frames: list[tuple[CodeType, int]] = []
    while trace is not None:
        if id(trace.tb_frame.f_code) in _stops:
            frames.clear()
        frames.append((trace.tb_frame.f_code, trace.tb_lasti))
        trace = trace.tb_next
    return _link(_user_frames(reversed(frames)))


def is_kernel_code(code: CodeType) -> bool:
    """True for rewritten code and what is nested in it."""
    known = _codes.get(id(code))
    return known is not None and known.is_kernel


def is_plain_author_code(code: CodeType) -> bool:
    """True for the author's own functions that have not been rewritten."""
    known = _codes.get(id(code)) or _known(code)
    return known.is_user and not known.is_kernel


def is_ours(code: CodeType) -> bool:
    """True for the code of this package, except kernels that are written in it."""
    known = _known(code)
    return not known.is_user and code.co_filename.startswith(OURS)


def _chain(frame: FrameType | None) -> Span | None:
    frames = []
    while frame is not None and id(frame.f_code) not in _stops:
        known = _codes.get(id(frame.f_code)) or _known(frame.f_code)
        if known.is_user:
            frames.append((known, frame.f_lasti))
        frame = frame.f_back
    else:
        if frame is None:
            return None  # not inside a trace
    return _link(frames)


def _user_frames(frames: object) -> list[tuple[_Code, int]]:
    return [(known, lasti) for code, lasti in frames if (known := _known(code)).is_user]  # type: ignore[attr-defined]


def _known(code: CodeType) -> _Code:
    known = _codes.get(id(code))
    if known is None:
        name = code.co_filename
        user = not name.startswith(OURS) and not name.startswith(_LIBRARY) and not name.startswith("<frozen")
        known = _codes[id(code)] = _Code(code, code, user, code.co_name, label_of(name) if user else "")
    return known


def _link(frames: list[tuple[_Code, int]]) -> Span | None:
    """The span of the first (innermost) frame, its call sites the others; a lambda and the function around it count once."""
    chain: list[tuple[_Code, int]] = []
    skip: CodeType | None = None
    for known, lasti in frames:
        if known.code is skip:
            skip = None
            continue
        if skip is not None and known.owner is skip:
            continue  # a lambda of ours between the inner one and its function
        chain.append((known, lasti))
        skip = known.owner if known.code is not known.owner else None
    span: Span | None = None
    for known, lasti in reversed(chain):
        span = _span(known, lasti, span) or span
    return span


def _span(known: _Code, lasti: int, site: Span | None) -> Span | None:
    key = (lasti, id(site))
    found = known.spans.get(key)
    if found is not None and found.call_site is site:
        return found
    if known.positions is None:
        known.positions = list(known.code.co_positions())
    line, end_line, col, end_col = known.positions[lasti // 2] if lasti >= 0 else (None,) * 4
    if line is None:
        return None
    file = known.code.co_filename
    text = linecache.getline(file, line)
    start, stop = _columns(text, linecache.getline(file, end_line or line), col, end_col)
    span = Span(file, line, start, end_line or line, stop, known.name, known.label, text.rstrip("\n") or None, site)
    known.spans[key] = span
    return span


def _columns(first: str, last: str, col: int | None, end_col: int | None) -> tuple[int, int]:
    """Byte columns of the compiler -> character columns; a missing one covers the line."""
    if col is None or end_col is None:
        return len(first) - len(first.lstrip()), len(first.rstrip())
    return _chars(first, col), _chars(last, end_col)


def _chars(text: str, column: int) -> int:
    return column if text.isascii() else len(text.encode()[:column].decode(errors="ignore"))

"""What a target makes of a kernel: something that can be launched, and the texts and passes that led to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Protocol

from ..base.errors import DeviceAssertError
from ..base.span import Span
from ..ir.lowered import Grid
from ..ir.node import Node, children
from ..ir.remark import Remark
from ..ir.stmt import Kernel, Launch, Stmt
from .arguments import BoundCall
from .loader import Entry
from .options import Options


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One step of the compilation: its name, why it stands where it does, the IR before and after, what it took, and what the pass is for."""

    name: str
    before: Kernel
    after: Kernel
    time_ms: float
    because: str = ""
    about: str = ""

    @property
    def changed(self) -> bool:
        return self.after is not self.before

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What the pass has to say: what it left as it was and why, what it gained."""
        if not self.changed:
            return ()
        known = {id(r) for r in _remarks(self.before)}
        return tuple(r for r in _remarks(self.after) if id(r) not in known)


def remarks_of(passes: Iterable[PassRecord]) -> tuple[str, ...]:
    """What the passes have to say, each with the author's line."""
    found = [r for record in passes for r in record.remarks]
    return tuple(f"{PurePath(r.span.file).name}:{r.span.line}: {r.text}" if r.span is not None else r.text for r in found)


def _remarks(kernel: Kernel) -> Iterator[Remark]:
    waiting: list[Node] = list(reversed(kernel.body))
    while waiting:  # launches stand in what the host decides: nothing else has to be looked at
        node = waiting.pop()
        if isinstance(node, (Launch, Grid)):
            yield from node.remarks
        elif isinstance(node, Stmt):
            waiting += reversed(children(node))


class Executable(Protocol):
    """A compiled kernel. `entry` is its C function when it follows our calling convention (see `loader`), else None."""

    @property
    def source(self) -> str:
        """The text that was compiled; empty when the target emits none."""

    @property
    def lines(self) -> dict[int, Span]:
        """Source text line -> the author's line."""

    @property
    def passes(self) -> tuple[PassRecord, ...]:
        """Every step from tile IR to text."""

    @property
    def entry(self) -> Entry | None:
        """The C function, for the short way of a repeated call."""

    def launch(self, call: BoundCall) -> None:
        """Run the kernel on bound arguments and wait for it."""

    def fail(self, code: int) -> None:
        """Raise the error that a non-zero return `code` of `entry` stands for."""

    def facts(self) -> CompileFacts:
        """How it was made."""


@dataclass(frozen=True, slots=True)
class CompileFacts:
    """How a kernel was made: with what, in what time, whether the cache had it, and what should be known about it."""

    compiler: str = ""
    was_cached: bool = False
    passes_ms: float = 0.0
    compiler_ms: float = 0.0
    notes: tuple[str, ...] = ()


class Target(Protocol):
    """A way of running kernels; registered under the entry-point group `tileworkbench.targets`."""

    name: str

    def usable(self) -> str:
        """Why this target cannot be used here; empty if it can."""

    def compile(self, kernel: Kernel, options: Options) -> Executable:
        """Make `kernel` runnable. Raises what is wrong with the kernel, or CompilerError."""


@dataclass(frozen=True, slots=True)
class AssertSite:
    """A `T.device_assert` of the kernel: what it says and where it stands."""

    message: str
    span: Span | None = field(default=None, compare=False)


def raise_assertion(code: int, sites: Callable[[], tuple[AssertSite, ...]], kernel: str) -> None:
    """Raise DeviceAssertError for a return code: 1 + the number of the assertion that did not hold."""
    found = sites()
    site = found[code - 1] if 0 < code <= len(found) else AssertSite(f"the kernel stopped with code {code}")
    raise DeviceAssertError(site.message or f"an assertion in {kernel} does not hold", span=site.span)

"""Functions that many kernels share, such as micro-kernels: they can be compiled apart, once for all kernels that call them.

In a kernel's text a part stands like any other function, so the text is whole. Where TWB_APART is defined only a declaration is left of it, and the
function comes from an object file made of `Part.file()`.

>>> part = Part("void twb_zero(float *x)", ("    *x = 0;", "}"))
>>> part.name
'twb_zero'
>>> print(part.text())
#ifdef TWB_APART
extern __attribute__((visibility("hidden"))) void twb_zero(float *x);
#else
static __attribute__((noinline, unused)) void twb_zero(float *x) {
    *x = 0;
}
#endif
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..base.cpu import Isa
from .clib import library
from .clib.function import DEFINED, HIDDEN, apart_text

__all__ = ["DEFINED", "Part", "parts_of", "text_of"]


@dataclass(frozen=True, slots=True)
class Part:
    """One function: `head` without attributes, the lines below it with the last brace, the C types that it names, the library functions it calls."""

    head: str
    lines: tuple[str, ...]
    types: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.head.partition("(")[0].split()[-1]

    def text(self) -> str:
        """The function inside a kernel's text."""
        return apart_text(self.head, "\n".join(self.lines))

    def file(self, isa: Isa) -> str:
        """The function as a C file of its own."""
        return "".join([library(self.needs, isa), *(f"{t}\n" for t in self.types), f"{HIDDEN} {self.head} {{\n", *(f"{x}\n" for x in self.lines)])


def text_of(pieces: Iterable[str | Part]) -> str:
    """The pieces as C text, each once."""
    return "".join(dict.fromkeys(f"{p if isinstance(p, str) else p.text()}\n" for p in pieces))


def parts_of(pieces: Iterable[str | Part]) -> tuple[Part, ...]:
    """The parts among the pieces, each once."""
    return tuple(dict.fromkeys(p for p in pieces if isinstance(p, Part)))

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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..base.cpu import Isa
from .clib import file_apart, library
from .clib.function import DEFINED, HIDDEN, apart_text

__all__ = ["DEFINED", "Part", "files_of", "parts_of", "text_of"]


@dataclass(frozen=True, slots=True)
class Part:
    """One function: `head` without attributes, the lines below it with the last brace, the C types that it names, the library functions it calls.

    `is_common`: the same one serves tiles of all sizes.
    """

    head: str
    lines: tuple[str, ...]
    types: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    is_common: bool = False

    @property
    def name(self) -> str:
        return self.head.partition("(")[0].split()[-1]

    def text(self) -> str:
        """The function inside a kernel's text."""
        return apart_text(self.head, "\n".join(self.lines))

    def alone(self) -> str:
        """The function as it is compiled apart, with its types."""
        return "".join([*(f"{t}\n" for t in self.types), f"{HIDDEN} {self.head} {{\n", *(f"{x}\n" for x in self.lines)])


def text_of(pieces: Iterable[str | Part]) -> str:
    """The pieces as C text, each once."""
    return "".join(dict.fromkeys(f"{p if isinstance(p, str) else p.text()}\n" for p in pieces))


def files_of(names: Iterable[str], parts: Sequence[Part], isa: Isa) -> tuple[str, ...]:
    """The C files of the library's functions that `names` leaves to be compiled apart, and of `parts`.

    What serves tiles of all sizes goes together: it does so in kernels too, and gcc takes as long to begin as it does for a function.
    """
    common, own = ([p for p in parts if p.is_common is common] for common in (True, False))
    together = file_apart(names, isa, [name for p in common for name in p.needs]) or (library((), isa) if common else "")
    one = "".join([together, *(p.alone() for p in common)])
    return (*([one] if one else []), *(library(p.needs, isa) + p.alone() for p in own))


def parts_of(pieces: Iterable[str | Part]) -> tuple[Part, ...]:
    """The parts among the pieces, each once."""
    return tuple(dict.fromkeys(p for p in pieces if isinstance(p, Part)))

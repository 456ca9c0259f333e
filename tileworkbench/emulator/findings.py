"""What the sanitizer found."""

from __future__ import annotations

from dataclasses import dataclass

from .text import Line

# kind -> what to do about it
HINTS = {
    "out of bounds": "guard the access, or make the tile as large as what is accessed",
    "uninitialised": "write the memory first, or wait for what writes it",
    "misaligned": "use a narrower access, or an address that is a multiple of the access",
    "race": "put a barrier between the two accesses",
    "divergent": "let all threads come to it: move it out of the branch, or name the lanes that come",
    "deadlock": "compare who waits with who should arrive: counts, parities, bytes",
    "descriptor": "make address, strides and swizzle those of the tile",
    "tensor map": "make the map describe the array and a box that hardware can copy",
    "proxy fence": "call the proxy fence after the writes and before the barrier",
    "never waited": "wait before the block ends",
    "read only": "the parameter is const",
    "barrier": "use one count everywhere, a multiple of 32, and barriers 0 to 15",
    "mbarrier": "initialise it first, with the number of arrivals of one phase",
    "cluster": "end the kernel with the barrier of the cluster",
    "registers": "give the producers fewer, or the consumers",
    "wgmma": "call the wgmma fence first",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: its kind (a key of `HINTS`), what happened, the author's line, the other line that takes part if there is one, how often."""

    kind: str
    text: str
    line: Line | None = None
    other: Line | None = None
    times: int = 1

    @property
    def hint(self) -> str:
        return HINTS[self.kind]

    def __str__(self) -> str:
        where = f"{self.line}: " if self.line else ""
        other = f" (the other one: {self.other})" if self.other else ""
        again = f" [{self.times} times]" if self.times > 1 else ""
        return f"{where}{self.kind}: {self.text}{other}{again}\n  hint: {self.hint}"

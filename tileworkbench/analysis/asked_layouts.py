"""What `T.annotate_layout` asked for, of a launch: the frontend writes it into the launch's hints, name by name.

>>> read_asked("t strides 33 1, a 64, b strides 64 1 xor 3 3 3, c not: it puts two elements in one place, d")
{'t': Asked(strides=(33, 1), xor=None, span=None, why_not=''), 'a': Asked(strides=(), xor=None, span=64, why_not=''), \
'b': Asked(strides=(64, 1), xor=(3, 3, 3), span=None, why_not=''), \
'c': Asked(strides=(), xor=None, span=None, why_not='it puts two elements in one place'), 'd': Asked(strides=(), xor=None, span=None, why_not='')}
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.stmt import Launch


@dataclass(frozen=True, slots=True)
class Asked:
    """One tile: `span`, the bytes of a swizzle's rows (0: rows as they are), or `strides` in elements with the `xor` (bits, base, shift) of offsets;
    or `why_not` the author's own map cannot be followed. Nothing of these: a layout of registers."""

    strides: tuple[int, ...] = ()
    xor: tuple[int, int, int] | None = None
    span: int | None = None
    why_not: str = ""


def asked_layouts(launch: Launch) -> dict[str, Asked]:
    """Buffer's name -> what is asked for; the last word counts."""
    out: dict[str, Asked] = {}
    for hint, text in launch.hints:
        if hint == "annotate_layout" and text:
            out |= read_asked(text)
    return out


def read_asked(text: str) -> dict[str, Asked]:
    """One hint."""
    out: dict[str, Asked] = {}
    for item in text.split(", "):
        name, _, rest = item.partition(" ")
        match rest.split():
            case []:
                out[name] = Asked()
            case ["not:", *_]:
                out[name] = Asked(why_not=rest[5:])
            case ["strides", *numbers]:
                place = numbers.index("xor") if "xor" in numbers else len(numbers)
                bits = tuple(map(int, numbers[place + 1 :]))
                out[name] = Asked(tuple(map(int, numbers[:place])), (bits[0], bits[1], bits[2]) if bits else None)
            case [span]:
                out[name] = Asked(span=int(span))
            case _:
                out[name] = Asked()
    return out

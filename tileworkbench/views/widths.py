"""How wide words are, so that a picture can be laid out without a font.

The widths are those of DejaVu Sans, which is wider than most fonts of browsers: words that do not touch by this table do not touch there.
"""

from __future__ import annotations

# hundredths of the font's size, and the characters that are that wide
_WIDE = {
    27: "'", 28: "ijl", 29: "IJ", 32: " ,.", 34: "/:;\\|", 35: "f", 36: "-", 39: "()[]t", 40: "!", 41: "r", 46: '"', 50: "*_`", 52: "sz", 53: "?",
    55: "c", 56: "L", 58: "Fk", 59: "vxy", 60: "P", 61: "TYao", 62: "e", 63: "ESbdghnpqu", 64: "$0123456789{}", 66: "K", 68: "AV", 69: "BRXZ",
    70: "C", 73: "U", 75: "HN", 77: "DG", 78: "&", 79: "OQ", 82: "w", 84: "#+<=>^~", 86: "M", 95: "%", 97: "m", 99: "W", 100: "@",
}  # fmt: skip
_WIDTHS = {letter: width / 100 for width, letters in _WIDE.items() for letter in letters}
MONO_WIDTH = 0.603
BOLD = 1.12  # bold letters are about a tenth wider


def text_width(text: str, size: float = 11.0, *, is_bold: bool = False, is_mono: bool = False) -> float:
    """The width of `text` in pixels, at a font size in pixels; letters that the table does not hold count as 1 em.

    >>> round(text_width("DRAM 15 GB/s", 11)), round(text_width("DRAM 15 GB/s", 11, is_mono=True))
    (80, 80)
    """
    if is_mono:
        return len(text) * MONO_WIDTH * size
    return sum(_WIDTHS.get(c, 1.0) for c in text) * size * (BOLD if is_bold else 1.0)


def cut_to(text: str, width: float, size: float = 11.0, *, is_bold: bool = False, is_mono: bool = False) -> str:
    """`text`, or as much of it as fits into `width` pixels with an ellipsis.

    >>> cut_to("a long line of words", 60), cut_to("short", 60)
    ('a long li…', 'short')
    """
    if text_width(text, size, is_bold=is_bold, is_mono=is_mono) <= width:
        return text
    while text and text_width(text + "…", size, is_bold=is_bold, is_mono=is_mono) > width:
        text = text[:-1]
    return text.rstrip() + "…" if text else ""


def wrapped(text: str, width: float, size: float = 11.0) -> list[str]:
    """`text` in lines of at most `width` pixels, broken at spaces; a longer word has a line of its own.

    >>> wrapped("a long line of words", 60)
    ['a long line', 'of words']
    """
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines

"""Colours by name, for a light and a dark page.

Marks of a scene name a colour by what it stands for ("L2", "warning", "s3"); a theme says what it looks like. The same table goes to the browser, so
a static picture and a live one agree. Series are Okabe-Ito's colours, shifted where they would not stand out; "heat0".."heat9" run from none to all
along cividis, which reads the same for most colour-blind eyes (Nunez et al., PLOS ONE 2018).
"""

from __future__ import annotations

from dataclasses import dataclass

SERIES = 8
HEATS = 10
READABLE = 4.5  # contrast of words (WCAG 2.2, 1.4.3)


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of one page: `colours` maps a name to "#rrggbb"."""

    name: str
    colours: dict[str, str]

    def __getitem__(self, name: str) -> str:
        """The colour called `name`; "on:L2" is the ink for words on L2, "#rrggbb" stands for itself, "" and "none" for no colour. Raises KeyError."""
        if name.startswith("#") or name in ("", "none"):
            return name or "none"
        if name.startswith("on:"):
            return self[self.ink_on(name.removeprefix("on:"))]
        if name.startswith("L") and name[1:].isdigit():  # a cache beyond the third looks like the third
            return self.colours.get(name, self.colours["L3"])
        return self.colours[name]

    def ink_on(self, name: str) -> str:
        """A colour for words on the colour called `name`: "text" or "background" where one of them can be read there, else black or white.

        >>> LIGHT_PAGE.ink_on("surface"), LIGHT_PAGE.ink_on("L2"), DARK_PAGE.ink_on("heat9"), LIGHT_PAGE.ink_on("heat5")
        ('text', 'background', 'background', '#000000')
        """
        code = self[name]
        if code == "none":
            return "text"
        inks = sorted(("text", "background"), key=lambda ink: -contrast(self[ink], code))
        return next((ink for ink in inks if contrast(self[ink], code) >= READABLE), "#000000" if luminance(code) > 0.18 else "#ffffff")


def contrast(a: str, b: str) -> float:
    """How far two colours ("#rrggbb") stand apart, from 1 to 21 (WCAG 2.2: 4.5 or more for words, 3 for marks).

    >>> round(contrast("#ffffff", "#000000")), round(contrast("#777777", "#ffffff"), 2)
    (21, 4.48)
    """
    dark, bright = sorted((luminance(a), luminance(b)))
    return (bright + 0.05) / (dark + 0.05)


def luminance(code: str) -> float:
    """Relative luminance of "#rrggbb", 0 for black to 1 for white. Source: WCAG 2.2, "relative luminance"."""
    parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _named(prefix: str, colours: str) -> dict[str, str]:
    return {f"{prefix}{i}": colour for i, colour in enumerate(colours.split())}


def _shades(series: str, page: str, most: float) -> dict[str, str]:
    """ "cell0".."cell31" for grids whose cells carry words: each of 8 series in 4 strengths over the page, faint enough for text."""
    hues = [_parts(c) for c in series.split()]
    mixes = [[round(p + (h - p) * most * part) for h, p in zip(hue, _parts(page), strict=True)] for hue in hues for part in (0.36, 0.57, 0.79, 1.0)]
    return {f"cell{i}": "#" + "".join(f"{x:02x}" for x in mix) for i, mix in enumerate(mixes)}


def _parts(code: str) -> tuple[int, ...]:
    return tuple(int(code[i : i + 2], 16) for i in (1, 3, 5))


LIGHT_PAGE = Palette(
    "light",
    {
        "background": "#ffffff", "surface": "#f6f8fa", "text": "#1f2328", "faint": "#5f6772", "grid": "#e1e4e8", "unused": "#d0d4da",
        "registers": "#7a5195", "shared": "#00805c", "L1": "#00805c", "L2": "#0072b2", "L3": "#956700", "DRAM": "#c04a00", "compute": "#1f2328",
        "accent": "#0969da", "good": "#1a7f37", "warning": "#b42318", "selected": "#bf3989",
        **_named("s", "#0072b2 #d55e00 #009e73 #c2649a #b07f00 #3897ce #7a5195 #6b7280"),
        **_named("heat", "#e8ecf5 #c9d3ea #9fb2d8 #7b93c4 #6a7fa8 #7d7c78 #9a8f6a #bda555 #ddbe3f #fee838"),
        **_shades("#0072b2 #d55e00 #009e73 #cc79a7 #b8860b #56b4e9 #7a5195 #6b7280", "#ffffff", 0.56),
    },
)  # fmt: skip
DARK_PAGE = Palette(
    "dark",
    {
        "background": "#111418", "surface": "#1a1f25", "text": "#e6e8eb", "faint": "#9aa4b0", "grid": "#2a3038", "unused": "#3a424c",
        "registers": "#c9a4e0", "shared": "#2dd4a7", "L1": "#2dd4a7", "L2": "#56b4e9", "L3": "#f0c23c", "DRAM": "#ff8a3d", "compute": "#e6e8eb",
        "accent": "#58a6ff", "good": "#3fb950", "warning": "#ff7b72", "selected": "#f778ba",
        **_named("s", "#56b4e9 #ff8a3d #2dd4a7 #e6a3c8 #f0c23c #8ecdf5 #c9a4e0 #9aa4b0"),
        **_named("heat", "#1d2430 #26344f #2f4670 #3d5a8a #53719a #6f8088 #8c8f70 #b3a255 #d8bd43 #fee838"),
        **_shades("#56b4e9 #ff8a3d #2dd4a7 #e6a3c8 #f0c23c #8ecdf5 #c9a4e0 #9aa4b0", "#111418", 0.44),
    },
)  # fmt: skip
PAGES = {"light": LIGHT_PAGE, "dark": DARK_PAGE}

"""Colours by name, for a light and a dark page.

Marks of a scene name a colour by what it stands for ("L2", "warning", "s3"); a theme says what it looks like. The same table goes to the browser, so
a static picture and a live one agree. Series are Okabe-Ito's colours, shifted where they would not stand out; "heat0".."heat9" run from none to all
along cividis, which reads the same for most colour-blind eyes (Nunez et al., PLOS ONE 2018).
"""

from __future__ import annotations

from dataclasses import dataclass

SERIES = 8
HEATS = 10


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of one page: `colours` maps a name to "#rrggbb"."""

    name: str
    colours: dict[str, str]

    def __getitem__(self, name: str) -> str:
        """The colour called `name`; "#rrggbb" stands for itself, "" and "none" for no colour. Raises KeyError for another."""
        if name.startswith("#") or name in ("", "none"):
            return name or "none"
        return self.colours[name]


def _named(prefix: str, colours: str) -> dict[str, str]:
    return {f"{prefix}{i}": colour for i, colour in enumerate(colours.split())}


LIGHT_PAGE = Palette(
    "light",
    {
        "background": "#ffffff", "surface": "#f6f8fa", "text": "#1f2328", "faint": "#5f6772", "grid": "#e1e4e8", "unused": "#d0d4da",
        "registers": "#7a5195", "shared": "#009e73", "L1": "#009e73", "L2": "#0072b2", "L3": "#9a6b00", "DRAM": "#c04a00", "compute": "#1f2328",
        "accent": "#0969da", "good": "#1a7f37", "warning": "#b42318", "selected": "#bf3989",
        **_named("s", "#0072b2 #d55e00 #009e73 #cc79a7 #b8860b #56b4e9 #7a5195 #6b7280"),
        **_named("heat", "#e8ecf5 #c9d3ea #9fb2d8 #7b93c4 #6a7fa8 #7d7c78 #9a8f6a #bda555 #ddbe3f #fee838"),
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
    },
)  # fmt: skip
PAGES = {"light": LIGHT_PAGE, "dark": DARK_PAGE}

"""A picture as a matplotlib figure: for PDF, and for papers that add to it.

matplotlib is imported here and only when a figure is asked for; a notebook never waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .marks import AnyMark, Cells, Dot, Path, Rect, Text, word_marks
from .theme import Palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 0.75  # points in a pixel
_SHAPES = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D"}


def draw_figure(width: float, height: float, marks: tuple[AnyMark, ...], page: Palette) -> Figure:
    """A figure of `width` x `height` pixels at 96 pixels an inch, which belongs to no window; its one axes counts pixels, y down."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 96, height / 96), facecolor=page["background"])
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    for depth, mark in enumerate(marks):
        _shape(axes, mark, page, 2 + depth * 1e-4)
    for word in word_marks(marks, page):
        _word(axes, word, page)
    return figure


def save_figure(figure: Figure, path: Any) -> None:
    """Write a figure by its suffix, with letters that stay letters."""
    from matplotlib import rc_context

    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}):
        figure.savefig(path, facecolor=figure.get_facecolor(), metadata={"Creator": "tileworkbench", "CreationDate": None})


def _shape(axes: Any, mark: AnyMark, page: Palette, depth: float) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import FancyBboxPatch, Polygon, Rectangle

    match mark:
        case Rect():
            look: dict[str, Any] = {
                "facecolor": page[mark.fill],
                "edgecolor": page[mark.stroke],
                "linewidth": mark.stroke_width * POINTS,
                "alpha": mark.opacity,
            }
            if mark.radius:
                style = f"round,pad=0,rounding_size={mark.radius}"
                axes.add_patch(FancyBboxPatch((mark.x, mark.y), mark.width, mark.height, boxstyle=style, zorder=depth, **look))
            else:
                axes.add_patch(Rectangle((mark.x, mark.y), mark.width, mark.height, zorder=depth, **look))
            if mark.hatch:
                stripes: dict[str, Any] = {"facecolor": "none", "edgecolor": page[mark.hatch], "hatch": "////", "linewidth": 0}
                axes.add_patch(Rectangle((mark.x, mark.y), mark.width, mark.height, zorder=depth, **stripes))
        case Path():
            dashed: Any = (0, tuple(d / max(mark.width, 0.1) for d in mark.dash)) if mark.dash else "-"
            if mark.is_closed or mark.fill not in ("", "none"):
                look = {
                    "facecolor": page[mark.fill],
                    "edgecolor": page[mark.stroke],
                    "linewidth": mark.width * POINTS,
                    "alpha": mark.opacity,
                }
                axes.add_patch(Polygon(mark.points, closed=mark.is_closed, linestyle=dashed, zorder=depth, **look))
            elif mark.stroke not in ("", "none"):
                xs, ys = [x for x, _ in mark.points], [y for _, y in mark.points]
                axes.plot(xs, ys, color=page[mark.stroke], linewidth=mark.width * POINTS, linestyle=dashed, alpha=mark.opacity, zorder=depth)
        case Dot():
            inside = page["background"] if mark.is_hollow else page[mark.colour]
            look = {"markersize": 2 * mark.radius * POINTS, "markerfacecolor": inside, "markeredgecolor": page[mark.colour]}
            axes.plot([mark.x], [mark.y], _SHAPES[mark.shape], markeredgewidth=1.8 * POINTS, alpha=mark.opacity, zorder=depth, **look)
        case Cells():
            rows = [list(mark.index[r * mark.columns : (r + 1) * mark.columns]) for r in range(mark.rows)]
            colours = ListedColormap([page[name] for name in mark.palette])
            box = (mark.x, mark.x + mark.width, mark.y + mark.height, mark.y)
            look = {"cmap": colours, "vmin": -0.5, "vmax": len(mark.palette) - 0.5, "interpolation": "nearest", "aspect": "auto"}
            limits = axes.get_xlim(), axes.get_ylim()
            axes.imshow(rows, extent=box, zorder=depth, **look)
            axes.set_xlim(limits[0])
            axes.set_ylim(limits[1])
        case Text():
            return


def _word(axes: Any, mark: Text, page: Palette) -> None:
    side = {"start": "left", "middle": "center", "end": "right"}[mark.anchor]
    font: dict[str, Any] = {
        "family": "DejaVu Sans Mono" if mark.is_mono else "DejaVu Sans",
        "weight": "bold" if mark.is_bold else "normal",
        "size": mark.size * POINTS,
    }
    turn: dict[str, Any] = {"rotation": -mark.angle, "rotation_mode": "anchor"} if mark.angle else {}
    words = mark.text.replace("$", r"\$")  # a pair of them would be read as mathematics
    axes.text(mark.x, mark.y, words, ha=side, va="baseline", color=page[mark.colour], alpha=mark.opacity, zorder=9, **font, **turn)

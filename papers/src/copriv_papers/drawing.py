"""Draw the papers' pictures in copriv's style: a colour for each ε, a mark of what is not private, and a caption.

Panels with three axes, which copriv's own pictures have none of, are drawn here.
"""

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterMathtext, LogLocator
from matplotlib.transforms import ScaledTranslation
from PIL import Image, ImageColor

from copriv.pictures.style import ALARM, ALONE, FAINT, GRID, STYLE, TOGETHER, broken
from copriv.types import Array

EPSILON_COLOURS = (ALONE[0], ALONE[3], TOGETHER)
"""From the smallest ε, in a warm colour, to the largest."""
SURFACE = LinearSegmentedColormap.from_list(
    "copriv", ["#12405a", "#1f6f8b", "#7fb7a8", "#f0dfa8", "#e0a030", "#c8553d"]
)
"""Low ψ is good: blue; high ψ is red."""

MARKERS = ("s", "D", "o")
DPI = 110

_STYLE: dict[Any, Any] = STYLE | {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8,
}
"""Smaller than copriv's own: a figure of a paper has up to six panels."""


def picture(columns: int, rows: int = 1, width: float = 0.0, height: float = 3.3, **options: Any) -> tuple[Figure, Any]:
    """A figure of panels (rows × columns, always a 2-d array of axes) in the common style."""
    figure = Figure(figsize=(width or 0.6 + 3.7 * columns, 0.6 + height * rows), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def solid(columns: int, rows: int = 1, height: float = 3.3, width: float = 3.5) -> tuple[Figure, Any]:
    """Make a figure of panels with three axes."""
    figure, axes = picture(columns, rows, 0.5 + width * columns, height, subplot_kw={"projection": "3d"})
    # Panels with three axes do not tell the layout how high their titles reach, nor how far left their labels.
    figure.get_layout_engine().set(rect=(0.015, 0.0, 0.985, 0.985))  # type: ignore[call-arg, union-attr]
    return figure, axes


def solid_over_flat(columns: int) -> tuple[Figure, list[Any], list[Any]]:
    """A row of panels with three axes over a row of plain ones."""
    figure = Figure(figsize=(0.5 + 3.9 * columns, 7.4), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, columns, height_ratios=(1.25, 1))
    solids = [figure.add_subplot(grid[0, j], projection="3d") for j in range(columns)]
    flats = [figure.add_subplot(grid[1, j]) for j in range(columns)]
    return figure, solids, flats


def scale(figure: Figure, axes: Any, limits: tuple[float, float], label: str) -> None:
    """The colour scale of `surface`."""
    whole = _whole(*limits)
    bar = figure.colorbar(mpl.cm.ScalarMappable(mpl.colors.Normalize(*limits), SURFACE), ax=axes, label=label)
    bar.set_ticks(whole, labels=[f"$10^{{{e}}}$" for e in whole])
    bar.outline.set_visible(False)


def write(draw: Callable[[], Figure], path: Path, caption: str, top: str = "") -> None:
    """Draw in the common style and write the PNG in at most 256 colours: a line at its top, a caption under it."""
    memory = BytesIO()
    figure = finished(draw, caption, top)
    # Everything has its place already; to look for it again takes as long as to draw.
    figure.set_layout_engine("none")
    with mpl.rc_context(_STYLE):
        figure.savefig(memory, format="png")
    memory.seek(0)
    _in_few_colours(Image.open(memory).convert("RGB")).save(path, optimize=True)


def finished(draw: Callable[[], Figure], caption: str, top: str = "") -> Figure:
    """The picture in the common style, with a line at its top and a caption under it."""
    with mpl.rc_context(_STYLE):
        figure = draw()
        for write_text, words, size in ((figure.suptitle, top, 7.5), (figure.supxlabel, caption, 7)):
            lines = broken(figure, words, 0.98 * figure.get_figwidth(), size)
            write_text("\n".join(lines), x=0.01, ha="left", fontsize=size, color=FAINT, parse_math=False)
        figure.draw_without_rendering()
    return figure


_TINTS = 8
"""Shades from ALARM to white that every picture keeps: letters are drawn in them."""


def _in_few_colours(image: Image.Image) -> Image.Image:
    """At most 256 colours, those of ALARM's letters among them: a palette of the commonest makes a few red letters orange."""
    few = image.quantize(256 - _TINTS, dither=Image.Dither.NONE)
    palette = list(few.getpalette() or [])[: 3 * (256 - _TINTS)]
    palette += [0] * (3 * (256 - _TINTS) - len(palette))
    for tint in range(_TINTS):
        palette += [round(c + (255 - c) * tint / _TINTS) for c in ImageColor.getrgb(ALARM)[:3]]
    chosen = Image.new("P", (1, 1))
    chosen.putpalette(palette)
    return image.quantize(palette=chosen, dither=Image.Dither.NONE)


MECHANISM = {
    "as published": "NOT PRIVATE: as published, one noise number an answer, Ξ assumed",
    "as written": "NOT PRIVATE: vector noise, Ξ assumed, nothing clipped",
    "sound": "private: vector noise, Ξ enforced by clipping",
    "planned": "private: planned from public rows, Ξ enforced",
}


SHORT = {
    "as published": "NOT PRIVATE: Ξ assumed",
    "as written": "NOT PRIVATE: Ξ assumed",
    "sound": "private: Ξ enforced",
    "planned": "private: planned",
}
"""Short titles, for narrow panels of a row whose first panel has the full one."""


def title(axes: Any, text: str, mechanism: str, *, short: bool = False) -> None:
    """A panel's title (if any); mechanisms that are not private are marked in red under it."""
    deep = hasattr(axes, "text2D")
    if text:
        axes.set_title(text, pad=14 if deep else 18, loc="left")
    write_text, place = (axes.text2D, (0.0, 0.985)) if deep else (axes.text, (0.0, 1.015))
    words = (SHORT if short else MECHANISM)[mechanism]
    write_text(*place, words, color=_mark(mechanism), transform=axes.transAxes, fontsize=7.5, va="bottom")


def legend_below(axes: Axes, columns: int = 1) -> None:
    """A legend under a panel and its label, which takes no room from its data."""
    under = axes.transAxes + ScaledTranslation(0.0, -0.42, axes.get_figure(root=True).dpi_scale_trans)  # type: ignore[union-attr]
    axes.legend(
        loc="upper left", bbox_to_anchor=(0.0, 0.0), bbox_transform=under, fontsize=7, ncols=columns, columnspacing=1.0
    )


def _mark(mechanism: str) -> str:
    return ALARM if MECHANISM[mechanism].startswith("NOT") else FAINT


def log_axes(axes: Axes, x: str, y: str) -> None:
    """Both axes logarithmic, with their labels."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.yaxis.set_major_locator(LogLocator(numticks=9))
    axes.yaxis.set_major_formatter(LogFormatterMathtext())


def band(axes: Axes, k: Any, low: Any, middle: Any, high: Any, colour: str, label: str, mark: str = "") -> None:
    """Median line over the band of 25 to 75 % of runs; marks tell lines apart without their colour."""
    axes.fill_between(k, low, high, color=colour, alpha=0.28, linewidth=0)
    axes.plot(k, middle, color=colour, label=label, marker=mark, ms=4, markevery=max(1, len(k) // 6))


ROOM = 0.06
"""Margin at the ends of the lower axes of three-dimensional panels, as a share of their length."""


def surface(
    axes: Any, x: Any, y: Any, z: Array, labels: tuple[str, str, str], limits: tuple[float, float], base: int = 10
) -> None:
    """ψ over two log axes; `z` has a row an x and a column a y. Three axes know no log scale: exponents are drawn.

    base: of the x axis.
    """
    X, Y = np.meshgrid(np.log(x) / np.log(base), np.log10(y), indexing="ij")
    Z = np.log10(np.clip(z, 10.0 ** limits[0], 10.0 ** limits[1]))
    axes.plot_surface(
        X, Y, Z, cmap=SURFACE, vmin=limits[0], vmax=limits[1], edgecolor="white", linewidth=0.35, rstride=1, cstride=1
    )
    exponents(axes, X, Y, labels, limits, base)


def point(
    axes: Any, x: float, y: float, z: float, labels: tuple[str, str, str], limits: tuple[float, float], span: Any
) -> None:
    """One ψ where a surface has too few points, on the axes of `surface` over `span`, the values of x and those of y."""
    X, Y = np.meshgrid(np.log10(span[0]), np.log10(span[1]), indexing="ij")
    at, height = (np.log10(x), np.log10(y)), float(np.clip(np.log10(z), *limits))
    axes.plot([at[0]] * 2, [at[1]] * 2, [limits[0], height], color=FAINT, linewidth=0.8)
    axes.scatter(*at, height, c=[height], cmap=SURFACE, vmin=limits[0], vmax=limits[1], s=24, depthshade=False)
    # As much room at the ends as a surface has: a label in a corner would stand on the height's lowest one.
    axes.set_xlim(X.min() - ROOM * np.ptp(X), X.max() + ROOM * np.ptp(X))
    axes.set_ylim(Y.min() - ROOM * np.ptp(Y), Y.max() + ROOM * np.ptp(Y))
    exponents(axes, X, Y, labels, limits)


def plane(axes: Any, x: Any, y: Any, z: Array, base: int = 10) -> None:
    """A grey surface to compare with, on the axes of `surface`."""
    X, Y = np.meshgrid(np.log(x) / np.log(base), np.log10(y), indexing="ij")
    axes.plot_surface(X, Y, np.log10(z), color=FAINT, alpha=0.45, linewidth=0, shade=False)


def exponents(
    axes: Any, X: Any, Y: Any, labels: tuple[str, str, str], limits: tuple[float, float], base: int = 10
) -> None:
    """Ticks 10^e on axes that hold exponents; plain numbers on an x axis of another base."""
    axes.set_zlim(*limits)
    whole = _whole(np.min(X), np.max(X))
    axes.set_xticks(whole, [f"$10^{{{e}}}$" if base == 10 else f"{base**e}" for e in whole])
    axes.set_yticks(_whole(np.min(Y), np.max(Y)), [f"$10^{{{e}}}$" for e in _whole(np.min(Y), np.max(Y))])
    ticks = _whole(*limits)
    ticks = ticks[:: max(1, -(-len(ticks) // 6))]
    axes.set_zticks(ticks, [f"$10^{{{e}}}$" for e in ticks])
    axes.set_xlabel(labels[0], labelpad=-1)
    axes.set_ylabel(labels[1], labelpad=-2)
    axes.set_zlabel(labels[2], labelpad=-3)
    axes.tick_params(pad=-1.5)
    for ends, side in ((axes.get_xticklabels(), "left"), (axes.get_yticklabels(), "right")):
        ends[-1].set_horizontalalignment(side)  # away from the corner where both axes end
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((0.975, 0.98, 0.985, 1.0))
        axis._axinfo["grid"].update(color=GRID, linewidth=0.6)


def limits_of(values: Sequence[float]) -> tuple[float, float]:
    """Whole exponents around positive values."""
    positive = [v for v in values if v > 0 and np.isfinite(v)]
    return float(np.floor(np.log10(min(positive)))), float(np.ceil(np.log10(max(positive))))


def _whole(low: float, high: float) -> list[int]:
    return list(range(int(np.ceil(low - 1e-9)), int(np.floor(high + 1e-9)) + 1))

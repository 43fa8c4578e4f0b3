"""The common style of pictures: colours, axes in percent, and words that are measured before they are placed.

Names may be of any length. Words beside, above or under a picture are broken into lines of measured width, cut where there is
no room, and moved where they would overlap. Nothing in a name is read as mathematics. Only matplotlib's object interface is
used: no global state, no screen.
"""

import io
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, ParamSpec

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import FixedLocator, FuncFormatter, Locator, LogLocator, NullLocator
from matplotlib.transforms import Bbox

from copriv.formatting.cards import LONGEST
from copriv.formatting.numbers import axis_percent, listed, percent, percent_range
from copriv.formatting.sanitize import printable

# Colours of Okabe and Ito, which colour-blind readers can distinguish; blue is for the model trained together.
TOGETHER = "#0072B2"
ALONE = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
INK, FAINT, PUBLIC, ALARM, GRID = "#222222", "#6b6b6b", "#7a7a7a", "#B00020", "#e4e4e4"
FLOOR = 1e-9
"""Least ψ that is drawn; smaller values are rounding errors."""
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.88}
"""Background of words that lines may cross."""

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9a9a9a",
    "axes.labelcolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "text.color": INK,
}
_MARGIN = 0.28
"""Margin of words at the sides of a picture, in inches."""
_SMALL, _BESIDE, _LEADING = 8.2, 9.6, 1.35
"""Font sizes under and beside a picture, in points, and the line spacing in font sizes."""

P = ParamSpec("P")


class Sheet(Figure):
    """A figure that notebooks display."""

    def _repr_png_(self) -> bytes:
        data = io.BytesIO()
        self.savefig(data, format="png")
        return data.getvalue()


def drawn(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Decorate a function that draws: in the common style, with all ticks made within it."""

    @wraps(draw)
    def styled(*given: P.args, **named: P.kwargs) -> Figure:
        with mpl.rc_context(STYLE):
            figure = draw(*given, **named)
            figure.draw_without_rendering()
            return figure

    return styled


def sheet(width: float, height: float) -> Figure:
    """Make an empty figure of this size in inches."""
    figure = Sheet(figsize=(width, height), dpi=160, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def panel(figure: Figure, left: float, bottom: float, width: float, height: float, **options: Any) -> Axes:
    """Add axes at a position in inches."""
    w, h = figure.get_size_inches()
    axes: Axes = figure.add_axes((left / w, bottom / h, width / w, height / h), **options)
    return axes


def head(figure: Figure, title: str, lead: str = "", colour: str = FAINT, weight: str = "normal") -> None:
    """Write the title and a line below it, in smaller letters where they do not fit."""
    width, height = figure.get_size_inches()
    for words, top, size, font, ink in ((title, 0.31, 15.0, "bold", INK), (lead, 0.6, 10.5, weight, colour)):
        fitting = size * min(1.0, (width - 2 * _MARGIN) / max(measured(figure, words, size, weight=font), 1e-9))
        at = _MARGIN / width, 1 - top / height
        figure.text(*at, words, color=ink, fontsize=fitting, fontweight=font, va="center")


def foot(figure: Figure, *paragraphs: tuple[str, str], family: str = "DejaVu Sans") -> None:
    """Add paragraphs (words, colour) at the bottom; the figure grows by their height."""
    width = float(figure.get_figwidth())
    wrapped = [(broken(figure, words, width - 2 * _MARGIN, _SMALL, family=family), ink) for words, ink in paragraphs]
    line = _SMALL * _LEADING / 72
    at, before = 0.12, float(figure.get_figheight())
    height = before + 0.16 + sum(line * len(lines) + 0.05 for lines, _ in wrapped)
    figure.set_size_inches(width, height)
    shrunk = before / height  # in inches, the rest keeps its size and distance from the top
    for axes in figure.axes:
        box = axes.get_position()
        axes.set_position((box.x0, 1 - (1 - box.y0) * shrunk, box.width, box.height * shrunk))
    for text in figure.texts:
        x, y = text.get_position()
        text.set_position((x, 1 - (1 - y) * shrunk))
    for lines, colour in reversed(wrapped):
        figure.text(
            _MARGIN / width, at / height, "\n".join(lines), color=colour, fontsize=_SMALL, va="bottom",
            linespacing=_LEADING * 0.86, family=family, parse_math=False,
        )  # fmt: skip
        at += line * len(lines) + 0.05


def png(figure: Figure, made_by: str) -> bytes:
    """Save a figure as PNG, with the command that makes it written under it and in its metadata."""
    with mpl.rc_context(STYLE):
        foot(figure, (f"$ {made_by}", FAINT), family="DejaVu Sans Mono")
        data = io.BytesIO()
        # Without the version of matplotlib, equal numbers give equal bytes.
        figure.savefig(data, format="png", metadata={"Software": None, "Description": made_by})
    return data.getvalue()


def measured(figure: Figure, words: str, size: float, **font: Any) -> float:
    """Measure the width of words, in inches."""
    renderer, font = figure.canvas.get_renderer(), {"family": "DejaVu Sans", **font}  # type: ignore[attr-defined]
    width, _, _ = renderer.get_text_width_height_descent(words, FontProperties(size=size, **font), ismath=False)
    return float(width) / float(figure.dpi)


def broken(figure: Figure, words: str, width: float, size: float, **font: Any) -> list[str]:
    """Break words into lines of at most `width` inches; longer words are broken too."""
    lines = []
    for paragraph in words.split("\n"):
        line = ""
        for word in printable(paragraph, LONGEST).split(" "):
            longer = f"{line} {word}" if line else word
            if measured(figure, longer, size, **font) <= width:
                line = longer
                continue
            if line:
                lines.append(line)
            line = word
            while measured(figure, line, size, **font) > width:
                fitting = _largest(lambda n, line=line: measured(figure, line[:n], size, **font) <= width, len(line))  # type: ignore[misc]
                lines.append(line[:fitting])
                line = line[fitting:]
        lines.append(line)
    return lines


def cut(figure: Figure, words: str, width: float, size: float, **font: Any) -> str:
    """Shorten words to one line of at most `width` inches."""
    words = printable(words, 900)
    if measured(figure, words, size, **font) <= width:
        return words
    fitting = _largest(lambda n: measured(figure, words[:n] + "…", size, **font) <= width, len(words))
    return words[:fitting] + "…"


def _largest(fits: Callable[[int], bool], limit: int) -> int:
    """Find the largest number from 1 to `limit` that fits; 1 where none does."""
    return 1 + bisect_right(range(2, limit + 1), False, key=lambda n: not fits(n))


class Label(NamedTuple):
    """Words beside the axes at the height of a value: a name, which may be shortened, and a text, which may not."""

    level: float
    text: str
    colour: str
    name: str = ""


def sheet_of(axes: Axes) -> Figure:
    """Return the figure of axes; there are no subfigures here."""
    assert isinstance(axes.figure, Figure)
    return axes.figure


def beside(axes: Axes, labels: Sequence[Label]) -> None:
    """Write labels to the right of the axes, at the height of their values, moved where they would overlap."""
    figure = sheet_of(axes)
    box, (w, h) = axes.get_position(), figure.get_size_inches()
    left, low, high = box.x1 * w + 0.09, *np.log(axes.get_ylim())
    room, tall, line = w - left - 0.12, box.height * h, _BESIDE * _LEADING / 72
    labels = sorted(labels)
    for most in (5, 4, 3, 2, 1):
        lines = [_label_lines(figure, label, room, most) for label in labels]
        heights = [line * (len(each) + 0.35) for each in lines]
        if sum(heights) <= tall + 0.35:
            break
    place = [float((np.log(max(label.level, FLOOR)) - low) / (high - low)) * tall for label in labels]
    place[0] = max(place[0], 0.5 * heights[0] - 0.1)
    for i in range(1, len(place)):
        place[i] = max(place[i], place[i - 1] + 0.5 * (heights[i - 1] + heights[i]))
    ceiling = tall + 0.25
    for i in reversed(range(len(place))):
        place[i] = min(place[i], ceiling - 0.5 * heights[i])
        ceiling = place[i] - 0.5 * heights[i]
    for at, words, label in zip(place, lines, labels, strict=True):
        axes.text(
            (left - box.x0 * w) / (box.width * w), at / tall, "\n".join(words), transform=axes.transAxes,
            color=label.colour, fontsize=_BESIDE, va="center", linespacing=1.15, parse_math=False,
        )  # fmt: skip


def _label_lines(figure: Figure, label: Label, room: float, most: int) -> list[str]:
    """Break a label into lines of `room` inches, its name shortened to have `most` lines where that is possible."""
    name = printable(label.name, 120)
    whole = broken(figure, name + label.text, room, _BESIDE)
    if len(whole) <= most or not name:
        return whole
    kept = _largest(lambda n: len(broken(figure, f"{name[:n]}…{label.text}", room, _BESIDE)) <= most, len(name))
    return broken(figure, f"{name[:kept]}…{label.text}", room, _BESIDE)


def note(axes: Axes, words: str, at: tuple[float, float], colour: str, avoid: list[Bbox]) -> None:
    """Write words near a point, inside the axes and without overlap with the boxes in `avoid`, to which theirs is added.

    They are left out where there is no such position.
    """
    figure = sheet_of(axes)
    lines, scale = "\n".join(broken(figure, words, 2.0, 9.2)), figure.dpi / 72
    inside = axes.get_window_extent()
    x, y = axes.transData.transform(at)
    probe = axes.annotate(
        lines, at, xytext=(0, 0), textcoords="offset points", color=colour, fontsize=9.2, linespacing=1.2, bbox=PAPER,
        va="bottom", ha="left", zorder=6, parse_math=False,
    )  # fmt: skip
    size = probe.get_window_extent(figure.canvas.get_renderer())  # type: ignore[attr-defined]
    sides = ((7, 7), (7, -7), (-7, 7), (-7, -7), (7, 0), (-7, 0))
    for dx, dy in ((dx * far, dy * far) for far in (1, 2, 4, 6, 9, 12) for dx, dy in sides):
        left = x + dx * scale - size.width * (dx < 0)
        bottom = y + dy * scale - size.height * (1.0 - np.sign(dy)) / 2.0  # above, below or level with the point
        box = Bbox.from_bounds(left - 2, bottom - 2, size.width + 4, size.height + 4)
        within = inside.contains(*box.min) and inside.contains(*box.max)
        if within and not any(box.overlaps(other) for other in avoid):
            probe.set_position(((left - x) / scale, (bottom - y) / scale))
            avoid.append(box)
            return
    probe.remove()


def above(
    axes: Axes, words: str, at: float, colour: str, size: float, weight: str = "normal", width: float = 3.45
) -> float:
    """Write words above the axes, from height `at`, in lines of `width` inches. Returns their upper end."""
    lines = "\n".join(broken(sheet_of(axes), words, width, size, weight=weight))
    written = axes.text(
        0.0, at, lines, transform=axes.transAxes, color=colour, fontsize=size, fontweight=weight, linespacing=1.15,
        va="bottom", parse_math=False,
    )  # fmt: skip
    return float(axes.transAxes.inverted().transform(written.get_window_extent().corners())[:, 1].max())


def curve(axes: Axes, k: Any, low: Any, middle: Any, high: Any, colour: str) -> None:
    """Plot ψ against k as a line within its band, with k on a log axis and few ticks."""
    low, middle, high = (np.maximum(line, FLOOR) for line in (low, middle, high))
    axes.fill_between(k, low, high, color=colour, alpha=0.18, linewidth=0)
    marker = "o" if len(k) <= 30 else None
    axes.plot(k, middle, color=colour, linewidth=2.2, zorder=3, marker=marker, markersize=4.2)
    # k = 0 is the start of an asynchronous run: it needs a place on a log axis.
    if k[0] == 0:
        axes.set_xscale("symlog", linthresh=1.0, linscale=0.35)
    else:
        axes.set_xscale("log")
    shown = [t for t in (0, 1, 2, 5, *(d * 10**e for e in range(1, 9) for d in (1, 2, 5))) if k[0] <= t <= k[-1]]
    if len(shown) > 9:
        shown = [t for t in shown if str(t)[0] in "01"]
    axes.set_xlim(k[0], k[-1] * 1.04 or 1.0)
    # The last tick, and from right to left those whose numbers do not overlap the next one.
    figure, kept, limit = sheet_of(axes), list[int](), np.inf
    for t in reversed(shown):
        at, half = axes.transData.transform((t, 1.0))[0], 0.5 * figure.dpi * measured(figure, f"{t:,}", 10.5)
        if at + half < limit:
            kept, limit = [t, *kept], at - half - 0.06 * figure.dpi
    ticks(axes.xaxis, FixedLocator(kept), "{:,.0f}".format)


def level(axes: Axes, at: float, colour: str) -> None:
    """Draw a dashed level line."""
    axes.axhline(at, color=colour, linewidth=1.5, linestyle=(0, (5, 2)), zorder=2)


def ring(axes: Axes, x: float, y: float) -> None:
    """Draw a ring, at the ε from which joining pays."""
    axes.plot([x], [y], marker="o", markersize=6, color="white", markeredgecolor=INK, zorder=7)


def alone(axes: Axes, owners: Sequence[tuple[str, float, int]]) -> list[Label]:
    """Draw a line for each different ψ of owners (name, ψ alone, number), or the range of many. Returns labels."""
    by_level: dict[float, list[str]] = {}
    for name, ψ, _ in owners:
        by_level.setdefault(float(f"{max(ψ, FLOOR):.2g}"), []).append(printable(name, 40))
    levels = sorted(at for at in by_level if at > FLOOR)
    if len(levels) > len(ALONE):
        axes.axhspan(levels[0], levels[-1], color=ALONE[0], alpha=0.10, linewidth=0, zorder=1)
        middle = float(np.median(np.repeat([ψ for _, ψ, _ in owners], [count for _, _, count in owners])))
        level(axes, middle, ALONE[0])
        return [Label(middle, f"alone: {percent_range(levels[0], levels[-1])},\nmedian owner dashed", ALONE[0])]
    labels = []
    for at, colour in zip(levels, ALONE, strict=False):
        level(axes, at, colour)
        who = "each owner" if len(by_level[at]) == len(owners) > 1 else listed(by_level[at])
        labels.append(Label(at, f" alone: {percent(at)}", colour, who))
    return labels


def ticks(axis: Axis, at: Locator, text: Callable[[float], str]) -> None:
    """Set the ticks of an axis and the text of each; there are no minor ticks."""
    axis.set_major_locator(at)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def epsilon_axis(axes: Axes, label: str) -> None:
    """Format the x axis for budgets: logarithmic, with plain numbers."""
    axes.set_xscale("log")
    ticks(axes.xaxis, LogLocator(base=10.0, numticks=9), "{:g}".format)
    axes.set_xlabel(label, labelpad=7)


def percent_axis(
    axes: Axes, seen: Any = None, room: float = 1.0, label: str = "ψ, relative fitness: above the best"
) -> None:
    """Format the y axis for ψ: logarithmic, in percent, with a grid; from min(seen)/room to max(seen)·room, where given."""
    axes.set_yscale("log")
    ticks(axes.yaxis, LogLocator(base=10.0, numticks=9), axis_percent)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=3)
    axes.set_ylabel(label, labelpad=7)
    if seen is not None:
        seen = np.maximum(seen, FLOOR)
        axes.set_ylim(seen.min() / room, seen.max() * room)

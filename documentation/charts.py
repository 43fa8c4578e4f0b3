"""Flow charts in Mermaid's words, drawn into the site as they are read: nothing is fetched to draw them.

Code hosts draw such a block themselves. The site takes nothing from another machine, so it has each box on a line of its
own, in the order in which the block names them, and an arc for each arrow: on the right where it leads down, else on the
left. Of Mermaid's language only boxes (`a["x"]`, `a("x")`) and arrows (`a --> b`) are understood.
"""

import html
import re
from typing import Any

_FENCE = re.compile(r"^```mermaid\n(.*?)^```$", re.M | re.S)
_BOX = re.compile(r'^\s*(\w+)[\[(]"(.*?)"[\])]$')
_ARROW = re.compile(r"^\s*(\w+) --> (\w+)$")
_LINE, _LEFT, _TOP = 22, 150, 16


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page."""
    return _FENCE.sub(lambda block: drawn(block[1]), markdown)


def drawn(block: str) -> str:
    """An SVG of a chart. Raises ValueError for a line that is neither a box nor an arrow."""
    boxes: dict[str, str] = {}
    arrows: list[tuple[str, str]] = []
    for line in block.splitlines()[1:]:
        if box := _BOX.match(line):
            boxes[box[1]] = box[2]
        elif arrow := _ARROW.match(line):
            arrows.append((arrow[1], arrow[2]))
        elif line.strip():
            raise ValueError(f"documentation/charts.py draws boxes and arrows, not {line.strip()!r}")
    place = {name: _TOP + _LINE * i for i, name in enumerate(boxes)}
    wide = 7.4 * max(map(len, boxes.values()))
    up = any(place[b] < place[a] for a, b in arrows)
    left = _LEFT if up else 10
    parts = [_arc(place[a], place[b], left, left + wide + 8) for a, b in arrows]
    parts += [f'<text x="{left}" y="{y + 4}">{html.escape(boxes[name])}</text>' for name, y in place.items()]
    tallest = max((abs(place[a] - place[b]) for a, b in arrows), default=0)
    width, height = left + wide + 20 + _reach(tallest), _TOP * 2 + _LINE * len(boxes)
    return (
        f'<div class="chart"><svg viewBox="0 0 {width:.0f} {height}" style="max-width:{width:.0f}px;width:100%" role="img" '
        f'font-family="monospace" font-size="12" fill="currentColor">{"".join(parts)}</svg></div>'
    )


def _reach(tall: float) -> float:
    return 14 + 0.32 * tall


def _arc(begin: float, end: float, left: float, right: float) -> str:
    x, away = (right, 1) if end > begin else (left - 8, -1)
    bow = x + away * _reach(abs(end - begin)) * 4 / 3
    return (
        f'<path d="M {x:.0f} {begin} C {bow:.0f} {begin} {bow:.0f} {end} {x:.0f} {end}" fill="none" stroke="currentColor" '
        f'stroke-opacity="0.35"/><circle cx="{x:.0f}" cy="{end}" r="2.2"/>'
    )

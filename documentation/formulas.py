"""Formulas as MathML, written into the site as it is built: nothing is fetched, and no script draws them.

A page has `$…$` in a line and a block fenced as `math`, in LaTeX, which code hosts show as well. Code is left as it is.
"""

import re
from typing import Any

from latex2mathml.converter import convert

_PARTS = re.compile(
    r"^```math\n(?P<block>.*?)^```$|^ *```.*?^ *```$|`[^`\n]+`|\$(?P<inline>[^\s$](?:[^$\n]*[^\s$])?)\$", re.M | re.S
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page."""
    return _PARTS.sub(_written, markdown)


def _written(part: re.Match[str]) -> str:
    if part["block"]:
        rows = "".join(f"<div>{convert(line, display='block')}</div>" for line in part["block"].splitlines())
        return f'<div class="formula" style="overflow-x:auto">{rows}</div>\n'
    return str(convert(part["inline"])) if part["inline"] else part[0]

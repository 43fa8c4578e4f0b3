"""Render a report as one HTML file: words first, then numbers, then symbols; without scripts, other files or network.

All content is from the document (`build.document`). Jinja2 escapes every value, so that no name can become markup.
"""

import math
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from copriv import formatting
from copriv.display.run import interval
from copriv.formatting.numbers import counted, percent, plain_number

_BESIDE = {
    "queries": "queries of the whole run",
    "answers": "answers of this owner",
    "epsilon": "budget taken from this owner (ε)",
    "delta": "probability of failure taken from this owner (δ)",
    "error": "error of the model, above that of the best one; forecast: of the typical run",
}
_SOURCES = {
    "ledger": "the ledger",
    "run": "the run's file, replayed",
    "learner": "the learner's signed word, from public rows",
}


def _sure(share: float) -> str:
    """Format a probability rounded up, with two digits of its complement: 0.9999546 → "99.9955 %"."""
    missing = 100.0 * (1.0 - share)
    digits = 1 if missing < 1e-7 else max(1, 1 - math.floor(math.log10(missing)))
    up = math.ceil(round(100.0 * share * 10**digits, 3)) / 10**digits
    return f"{up:.{digits}f}".rstrip("0").rstrip(".") + " %"


def page(document: dict[str, Any]) -> str:
    """Render a report as one self-contained HTML document."""
    templates = Environment(
        loader=PackageLoader("copriv.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    templates.filters.update(
        number=lambda value: "–" if value is None else f"{value:.4g}",
        time=lambda text: f"{text[:10]} {text[11:16]} UTC" if text else "–",  # ISO 8601; a ledger's times are UTC
        percent=percent,
        sure=_sure,
        factor=lambda times: "more than a million" if times is None or times > 1e6 else plain_number(times),
        interval=lambda ends: interval(*ends),
        times=lambda count: {1: "once", 2: "twice"}.get(count, f"{count} times"),
        count=counted,
    )  # fmt: skip
    style = files(formatting).joinpath("page.css").read_text(encoding="utf-8")
    return templates.get_template("report.html").render(
        document=document, style=style, beside=_BESIDE, sources=_SOURCES
    )

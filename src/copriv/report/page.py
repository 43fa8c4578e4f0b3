"""One HTML file of a report: words first, then numbers, then symbols. It needs no other file, no script and no network.

Everything comes from the document (`build.document`); the template decides only how it is written. Jinja2 escapes every
value, so that no name can become markup.
"""

from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from copriv import formatting

_BESIDE = {
    "queries": "queries of the whole run",
    "answers": "answers of this owner",
    "epsilon": "budget taken from this owner (ε)",
    "delta": "probability of failure taken from this owner (δ)",
    "error": "error of the model beyond the best one, relative (ψ); forecast: of the typical run",
}
_SOURCES = {
    "ledger": "the ledger",
    "run": "the run's file, replayed",
    "learner": "the learner's signed word, from public rows",
}


def page(document: dict[str, Any]) -> str:
    """The report as one self-contained HTML document."""
    templates = Environment(
        loader=PackageLoader("copriv.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    templates.filters.update(
        number=lambda value: "–" if value is None else f"{value:.4g}",
        time=lambda text: f"{text[:10]} {text[11:16]} UTC" if text else "–",  # ISO 8601; a ledger's times are UTC
        percent=lambda share: f"{100 * share:.3g} %",
        times=lambda count: {1: "once", 2: "twice"}.get(count, f"{count} times"),
        count=lambda count, what: f"{count} {what}" if count == 1 else f"{count} {what}s",
    )  # fmt: skip
    style = files(formatting).joinpath("page.css").read_text(encoding="utf-8")
    return templates.get_template("report.html").render(
        document=document, style=style, beside=_BESIDE, sources=_SOURCES
    )

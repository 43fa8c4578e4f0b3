"""How a report writes numbers, times and links."""

from copriv.formatting.html import Markup, element, together


def link(docs: str, target: str, words: str) -> Markup:
    if not docs:
        return together(words, " (", element("code", f"docs/{target}"), " of copriv)")
    built = f"{target.removesuffix('.md')}.html"  # as `make docs` builds them
    return element("a", words, href=f"{docs.rstrip('/')}/{built}")


def number(value: float) -> str:
    return f"{value:.4g}"


def or_none(value: float | None) -> str:
    return "–" if value is None else number(value)


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def time(text: str) -> str:
    """ISO 8601 as people read it; the ledger's times are UTC."""
    return "–" if not text else f"{text[:10]} {text[11:16]} UTC"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"

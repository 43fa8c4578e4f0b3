"""A little HTML, written so that no text can become markup: every string is escaped where it enters, and only there.

`document` is a whole page in one file: it needs no other file, no script and no network.
"""

from base64 import b64encode
from dataclasses import dataclass
from html import escape
from importlib.resources import files


@dataclass(frozen=True)
class Markup:
    """HTML that was made here."""

    text: str


Piece = Markup | str | int | None
"""What an element may hold: strings and numbers are text, None is nothing."""


def element(tag: str, *inside: Piece, **attributes: str) -> Markup:
    """<tag>…</tag>. An attribute's name is given with a trailing underscore where Python has the word, and _ for -."""
    said = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    return Markup(f"<{tag}{said}>{together(*inside).text}</{tag}>")


def together(*pieces: Piece) -> Markup:
    """Pieces one after another."""
    return Markup("".join(_written(piece) for piece in pieces))


def _written(piece: Piece) -> str:
    if piece is None:
        return ""
    return piece.text if isinstance(piece, Markup) else escape(str(piece))


def table(caption: str, heads: tuple[str, ...], rows: list[tuple[Piece, ...]], numbers: bool = True) -> Markup:
    """A table whose first column names each row."""
    top = element("tr", *(element("th", head, scope="col") for head in heads))
    body = (
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in rest))
        for first, *rest in rows
    )
    return element(
        "table", element("caption", caption), element("thead", top), element("tbody", *body),
        class_="numbers" if numbers else "words",
    )  # fmt: skip


def listed(*items: Piece) -> Markup:
    return element("ul", *(element("li", item) for item in items))


def facts(*pairs: tuple[str, Piece]) -> Markup:
    """Names and what they stand for."""
    return element("dl", *(together(element("dt", name), element("dd", what)) for name, what in pairs))


def picture(png: bytes, words: str) -> Markup:
    """A PNG inside the page; `words` for those who do not see it."""
    return Markup(f'<img alt="{escape(words)}" src="data:image/png;base64,{b64encode(png).decode("ascii")}">')


def document(title: str, *body: Piece, style: str = "", pictures: bool = False) -> str:
    """The page: its title, what is in it, and rules of its own beside the common ones; `pictures`: whether it has any."""
    common = files("copriv.formatting").joinpath("page.css").read_text(encoding="utf-8")
    may = "default-src 'none'; style-src 'unsafe-inline'" + ("; img-src data:" if pictures else "")
    head = together(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{may}">'),
        element("title", title),
        Markup(f"<style>\n{common}{style}</style>"),
    )
    return f"<!doctype html>\n{element('html', element('head', head), element('body', *body), lang='en').text}\n"

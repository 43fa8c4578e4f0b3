"""A paper as a poster of itself: one HTML file, section by section their claim, our number, our picture, the verdict.

Everything comes from the figures' JSON files and from the table of claims; nothing is typed here but how it is written.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from copriv.experiments.claims.page import shown
from copriv.experiments.gallery import brief, on_other_tables
from copriv.experiments.papers import Paper, Section
from copriv.formatting.html import Markup, Piece, document, element, facts, picture, table, together
from copriv.version import __version__

_STYLE = """
main, footer { max-width: 72rem; }
td code, .words td:nth-child(3) { white-space: nowrap; overflow-wrap: normal; }
img { max-width: 100%; height: auto; margin: 0.4rem 0 0.8rem; }
.holds { color: #0e6d63; } .fails { color: #a3271b; } .part { color: #7a5600; }
.holds, .fails, .part { font-weight: 600; }
@media print { h3, img { break-inside: avoid; } }
"""
_MARK = {
    "holds": "holds", "reproduced": "holds", "yes": "holds",
    "does not hold": "fails", "not reproduced": "fails", "no": "fails",
    "holds in part": "part", "reproduced in shape": "part",
}  # fmt: skip
"""Verdict → how it is coloured; the word always stands there too."""


def write_paper(paper: Paper, figures: Path, claims: Mapping[str, Any]) -> Path:
    """Write PAPER.html beside the finished figures in `figures`; return its path.

    claims: the document of `copriv.experiments.claims.check`. A figure that is not finished is named as such.
    """
    path = figures / f"{paper.identity}.html"
    path.write_text(page(paper, figures, claims), encoding="utf-8")
    return path


def page(paper: Paper, figures: Path, claims: Mapping[str, Any]) -> str:
    """The page as text."""
    found = {one.identity: _read(figures / f"{one.identity}.json") for one in paper.figures}
    answers = {(one["place"], one["sentence"], one["paper"]): one for one in claims["claims"]}
    mine = [answers[c.place, c.sentence, c.paper] for s in paper.sections for c in paper.claims(s)]
    main = element(
        "main",
        element("h1", paper.title),
        element("p", f"What paper {paper.letter} claims, beside what copriv {__version__} finds. {paper.about}"),
        _counts(mine, [one for one in found.values() if one is not None]),
        element(
            "p",
            "Panels that are marked NOT PRIVATE follow the paper's own settings, which no owner here can be made to serve; "
            "those beside them keep what they promise.",
        ),
        *(_section(paper, section, found, answers, figures) for section in paper.sections),
    )
    quick = " With --quick: fewer runs and points than the paper has." if claims["quick"] else ""
    foot = element(
        "footer",
        element("p", "Made by ", element("code", f"copriv reproduce {paper.identity}"), ", with every number from the files "
                f"that it left beside this page.{quick}"),
        element("p", "Data: ", "; ".join(claims["data"])),
    )  # fmt: skip
    return document(f"{paper.title}, reproduced", main, foot, style=_STYLE, pictures=True)


def _read(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return read


def _counts(claims: list[dict[str, Any]], figures: list[dict[str, Any]]) -> Markup:
    def counted(what: list[dict[str, Any]]) -> str:
        return ", ".join(f"{n} {verdict}" for verdict, n in Counter(one["verdict"] for one in what).items())

    return facts(
        (f"{len(claims)} sentences with a number", counted(claims)), (f"{len(figures)} figures", counted(figures))
    )


def _section(
    paper: Paper,
    section: Section,
    found: Mapping[str, dict[str, Any] | None],
    answers: Mapping[tuple[str, str, str], dict[str, Any]],
    folder: Path,
) -> Markup:
    said = [answers[c.place, c.sentence, c.paper] for c in paper.claims(section)]
    return element(
        "section",
        element("h2", section.title),
        _claims(said) if said else None,
        *(_figure(name, found[name], folder) for name in section.figures),
    )


def _claims(said: list[dict[str, Any]]) -> Markup:
    rows: list[tuple[Piece, ...]] = [
        (
            f"{one['sentence']} ({one['place']})", one["paper"], shown(one["ours"]) or "–",
            together(_verdict(one["verdict"]), f"{_of(one['held'])}. {one['remark']}"), element("code", one["command"]),
        )
        for one in said
    ]  # fmt: skip
    heads = ("what it says", "in the paper", "here", "verdict", "command")
    return table("Sentences with a number in them", heads, rows, numbers=False)


def _of(held: str) -> str:
    """How many of several hold; nothing where one was compared, or none."""
    return "" if held.endswith((" of 1", " of 0")) else f" ({held})"


def _figure(name: str, one: dict[str, Any] | None, folder: Path) -> Markup:
    if one is None:
        return element("p", f"{name}: not made yet; ", element("code", f"copriv reproduce {name}"), " makes it.")
    told = brief(one)
    others = on_other_tables(one)
    rows: list[tuple[Piece, ...]] = []
    for row in told["compared"]:
        elsewhere = [other.get(row["what"], ("", "")) for other in others]
        more = [cell for number, holds in elsewhere for cell in (number, _verdict(holds))]
        rows.append((row["what"], row["paper"], row["ours"], _verdict(row["holds"]), *more))
    heads = ("what", "in the paper", "here", "holds", *("everybody's loans", "holds") * len(others))
    return together(
        element("h3", f"{one['source']}: {one['title']}"),
        element("p", element("strong", "The paper: "), one["claim"]),
        picture((folder / f"{name}.png").read_bytes(), f"{one['title']}: {told['verdict']}"),
        element("p", element("strong", "Here: "), _verdict(told["verdict"]), f". {told['why']}"),
        table("Numbers compared", heads, rows, numbers=False),
        facts(
            ("data", "; ".join(told["data"])),
            ("runs a point", told["runs"]),
            *((("not the paper's", f"{'; '.join(one['differences'])}."),) if one.get("differences") else ()),
            ("command", element("code", told["command"])),
        ),
    )


def _verdict(words: str) -> Piece:
    return element("span", words, class_=_MARK[words]) if words in _MARK else words

"""The pages that tell of figures and claims, by templates: the gallery, the table of claims, and a page for each paper.

| page                     | template       | made from                                         |
| ------------------------ | -------------- | ------------------------------------------------- |
| DOCS/gallery.md          | `gallery.md`   | the JSON files of finished figures                |
| DOCS/reference/claims.md | `claims.md`    | `claims.json`                                     |
| DOCS/papers/index.md     | `papers.md`    | the lists of what stands in both papers           |
| PAPER.html               | `paper.html`   | both, section by section; it needs no other file  |

Beside the pictures, in OUT and in DOCS/gallery, stands `verdicts.json`: what `copriv ui` says of every figure. The folder of
the gallery comes with copriv; `copriv ui --figures` shows another one. Nothing is typed here but how it is written.
"""

import json
import shutil
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from copriv import __version__, formatting
from copriv.ui.gallery import SCHEMA, VERDICTS
from copriv_papers.contents import anchor, contents
from copriv_papers.errata import ERRATA, in_html, in_markdown, named
from copriv_papers.figures import BEYOND, FIGURES
from copriv_papers.papers import PAPERS, Paper
from copriv_papers.questions import QUESTIONS
from copriv_papers.verdict import BEYOND_THEM, RULES, SCALE

_COLOURS = {
    "reproduced": "holds", "yes": "holds", "not reproduced": "fails", "no": "fails", "reproduced in part": "part",
}  # fmt: skip
"""Verdict → how it is coloured; the word always stands there too."""


def write_gallery(figures: Path, docs: Path) -> Path:
    """Write docs/gallery.md from the finished figures in a folder, with pictures and verdicts; return its path."""
    found = list(_finished(figures).values())
    pictures = docs / "gallery"
    pictures.mkdir(parents=True, exist_ok=True)
    for one in found:
        shutil.copy(one["picture"], pictures)
    write_verdicts(figures, pictures)
    return _write(docs / "gallery.md", "gallery.md", figures=found, scale=SCALE, rules=RULES)


def write_verdicts(figures: Path, to: Path) -> None:
    """Write what is to be said of every figure, with the outcome of those that are finished, for `copriv ui`."""
    finished, keys = _finished(figures), ("verdict", "why", "command", "data", "runs", "compared")
    told = [
        {"id": one.identity, "source": one.source, "title": one.title, "claim": one.claim}
        | {key: finished[one.identity][key] for key in keys if one.identity in finished}
        for one in (*FIGURES, *BEYOND)
    ]
    verdicts = {"schema": SCHEMA, "note": "", "figures": told}
    (to / VERDICTS).write_text(json.dumps(verdicts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_claims(document: Mapping[str, Any], docs: Path) -> Path:
    """Write docs/reference/claims.md from the document of `copriv_papers.claims.check`; return its path.

    Beside it docs/papers/index.md, which leads to its lines.
    """
    write_contents(docs)
    theirs, ours = _apart(document["claims"])
    return _write(
        docs / "reference" / "claims.md",
        "claims.md",
        **document,
        theirs=theirs,
        ours=ours,
        questions=QUESTIONS,
        scale=SCALE,
        rules=RULES,
    )


def write_contents(docs: Path) -> Path:
    """Write docs/papers/index.md; return its path."""
    papers = [(paper, contents(paper)) for paper in PAPERS]
    return _write(docs / "papers" / "index.md", "papers.md", papers=papers, errata=ERRATA)


def write_paper(paper: Paper, figures: Path, claims: Mapping[str, Any]) -> Path:
    """Write PAPER.html beside the finished figures in `figures`; return its path.

    claims: the document of `copriv_papers.claims.check`. A figure that is not finished is named as such.
    """
    finished = _finished(figures)
    answers = {(one["place"], one["sentence"], one["paper"]): one for one in claims["claims"]}
    sections = []
    for section in paper.sections:
        answered = [answers[claim.place, claim.sentence, claim.paper] for claim in paper.claims(section)]
        said = dict(zip(("Sentences with a number in them", "Beyond the paper"), _apart(answered), strict=True))
        drawn = [(name, finished.get(name)) for name in section.figures]
        sections.append((section, said, paper.questions(section), drawn))
    told = [one for _, said, _, _ in sections for of_one_kind in said.values() for one in of_one_kind]
    made = [one for _, _, _, drawn in sections for _, one in drawn if one is not None]
    return _write(
        figures / f"{paper.identity}.html",
        "paper.html",
        paper=paper,
        sections=sections,
        claims=_apart(told)[0],
        made=made,
        errata=named([one["remark"] for one in told] + [one["why"] for one in made]),
        scale=SCALE,
        data=claims["data"],
        quick=claims["quick"],
        version=__version__,
        colours=_COLOURS,
        style=files(formatting).joinpath("page.css").read_text(encoding="utf-8"),
    )


def _apart(claims: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Claims of the papers, and those of ours beside them."""
    theirs = [one for one in claims if one["verdict"] != BEYOND_THEM]
    return theirs, [one for one in claims if one["verdict"] == BEYOND_THEM]


def _write(path: Path, template: str, **told: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_TEMPLATES.get_template(template).render(told), encoding="utf-8")
    return path


def _finished(figures: Path) -> dict[str, dict[str, Any]]:
    """A folder's finished figures by their names, in the papers' order, as pages tell of them."""
    paths = {figure.identity: figures / f"{figure.identity}.json" for figure in (*FIGURES, *BEYOND)}
    return {name: _told(path) for name, path in paths.items() if path.is_file()}


def _told(path: Path) -> dict[str, Any]:
    """A figure's JSON file, with its numbers written for people."""
    one: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    trials = one.get("trials", {"all": 0, "run": 0})
    return one | {
        "why": sentence(one["why"]),
        "command": f"copriv reproduce {one['id']}{' --quick' if one['quick'] else ''}",
        "data": [data["description"] for data in one["data"]],
        "runs": ", ".join(map(str, one["runs"])),
        "compared": _compared(one),
        # Our number and whether it holds, for each other table that it was run on.
        "others": [
            {row["what"]: (row["ours"], row["holds"]) for row in _compared(other)}
            for other in one.get("other_tables", [])
        ],
        "verdict_here": one.get("verdict_here", one["verdict"]),
        "others_verdict": ", ".join(other["verdict"] for other in one.get("other_tables", [])),
        "differences": one.get("differences", []),
        # How long it took says nothing where trials were on disk, of an earlier run or of another figure that has them too.
        "fresh": trials["run"] == trials["all"] > 0,
        "picture": path.with_suffix(".png"),
    }


def _compared(one: Mapping[str, Any]) -> list[dict[str, str]]:
    words = {True: "yes", False: "no", None: ""}
    return [
        {
            "what": row["what"],
            "paper": row["paper"],
            "ours": "none" if row["ours"] is None else f"{row['ours']:.3g}",
            "holds": words[row["holds"]],
        }
        for row in one["comparison"]
    ]


def sentence(words: str) -> str:
    """With a capital, but for a letter of mathematics: Ψ is not ψ."""
    return words[:1].upper() + words[1:] if words[:1].isascii() else words


def shown(numbers: Sequence[float | None]) -> str:
    """One number, or the ends of many; "none" for one that there is not."""
    known = [one for one in numbers if one is not None]
    if not numbers:
        return ""
    if not known:
        return "none"
    low, high = (f"{one:.3g}".replace("-", "−") for one in (min(known), max(known)))
    return low if low == high else f"{low} to {high}"


def _inside(picture: Path) -> str:
    """The picture as a part of the page."""
    return f"data:image/png;base64,{b64encode(picture.read_bytes()).decode('ascii')}"


def _counted(what: Sequence[Mapping[str, Any]]) -> str:
    """How many there are of each verdict."""
    return ", ".join(f"{n} {verdict}" for verdict, n in Counter(one["verdict"] for one in what).items())


def _of_several(claim: Mapping[str, Any]) -> str:
    """How many of several comparisons hold; nothing where one was made, or none."""
    return "" if claim["held"].endswith((" of 1", " of 0")) else f" ({claim['held']})"


def _anchored(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    """The places of claims, the first of each place with its anchor."""
    places = [one["place"] for one in claims]
    return [place if place in places[:k] else f'<a id="{anchor(place)}"></a>{place}' for k, place in enumerate(places)]


def _linked(command: str) -> str:
    """What makes a number, as a link to its figure where it is one."""
    name = command.split()[-1]
    return f"`{command}`" if name == "claims" else f"[`{command}`](../gallery.md#{name})"


_TEMPLATES = Environment(
    loader=PackageLoader("copriv_papers"),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters |= {
    "inside": _inside, "shown": shown, "counted": _counted, "of_several": _of_several, "linked": _linked,
    "anchored": _anchored, "errata": in_markdown, "errata_here": in_html,
}  # fmt: skip

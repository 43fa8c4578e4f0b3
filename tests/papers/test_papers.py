"""A paper's page: every figure and claim of it once, each number from the files and no other place."""

import json
import re
from base64 import b64decode
from html import escape
from pathlib import Path

import pytest

from copriv.cli import run
from copriv_papers import BEYOND, FIGURES
from copriv_papers.claims import CLAIMS
from copriv_papers.pages import write_paper
from copriv_papers.papers import ASYNCHRONOUS, PAPERS, SYNCHRONOUS, Paper
from copriv_papers.questions import QUESTIONS

PNG = bytes.fromhex("89504e470d0a1a0a") + b"<picture & all>"


def test_every_figure_and_claim_stands_in_one_section_of_one_paper() -> None:
    claims = [claim for paper in PAPERS for section in paper.sections for claim in paper.claims(section)]
    assert sorted(map(id, claims)) == sorted(map(id, CLAIMS))
    figures = [figure.identity for paper in PAPERS for figure in paper.figures]
    assert sorted(figures) == sorted(figure.identity for figure in (*FIGURES, *BEYOND))
    for paper in PAPERS:
        assert all(f.source.startswith((f"{paper.letter}, ", "Beyond A")) for f in paper.figures)
        for section in paper.sections:  # a figure's claims stand with it
            drawn = {claim.source for claim in paper.claims(section)} - {"claims"}
            if section.figures:
                assert drawn <= set(section.figures)


def finished(folder: Path, paper) -> dict[str, object]:  # type: ignore[no-untyped-def]
    for n, figure in enumerate(paper.figures):
        document = {
            "id": figure.identity, "source": figure.source, "title": figure.title, "claim": figure.claim,
            "verdict": "not reproduced", "why": f"<b>{n}</b> & because.", "quick": False, "seconds": 3.0, "runs": [100],
            "seeds": [0], "data": [{"description": "Loans: ten.", "source": "real"}], "differences": ["20 runs"],
            "comparison": [{"what": "slope", "paper": "−2", "ours": -1.5 - n, "holds": False}], "held_out": {},
            "other_tables": [
                {"verdict": "reproduced", "comparison": [{"what": "slope", "paper": "−2", "ours": 77.0 + n, "holds": True}]}
            ],
        }  # fmt: skip
        (folder / f"{figure.identity}.json").write_text(json.dumps(document))
        (folder / f"{figure.identity}.png").write_bytes(PNG)
    said = [
        {"place": c.place, "sentence": c.sentence, "paper": c.paper, "ours": [float(k)], "held": "1 of 2",
         "elsewhere": [], "verdict": "beyond the papers" if c.beyond else "reproduced in part",
         "remark": "So (erratum 5).", "command": c.command}
        for k, c in enumerate(CLAIMS)
    ]  # fmt: skip
    return {"claims": said, "data": ["Loans."], "quick": False}


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.identity)
def test_a_page_is_whole_and_needs_nothing_else(paper, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    claims = finished(tmp_path, paper)
    path = write_paper(paper, tmp_path, claims)
    text = path.read_text(encoding="utf-8")
    assert path.name == f"{paper.identity}.html"
    assert "<script" not in text
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text)
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
    assert [b64decode(one) for one in pictures] == [PNG] * len(paper.figures)
    assert "img-src data:" in text
    assert "&" not in text.split("</style>")[0], "rules of style are not text"
    assert "&lt;b&gt;0&lt;/b&gt; &amp; because." in text
    assert text.count('<span class="fails">not reproduced</span>') == len(paper.figures)
    for n, figure in enumerate(paper.figures):
        assert f'<td data-what="here">{-1.5 - n:.3g}</td>' in text
        assert (
            f"""<td data-what="everybody&#39;s loans">{77 + n}</td><td data-what="met there"><span class="holds">yes<"""
            in text
        )
        assert f"<code>copriv reproduce {figure.identity}</code>" in text
    for k, claim in enumerate(CLAIMS):
        mine = claim.place.startswith(f"{paper.letter}, ")
        assert (f'<td data-what="here">{k:.3g}</td>' in text) >= mine
    theirs = sum(c.place.startswith(f"{paper.letter}, ") and not c.beyond for c in CLAIMS)
    assert f"<dt>{theirs} sentences with a number</dt><dd>{theirs} reproduced in part</dd>" in text
    tables = re.findall(r"<caption>(.*?)</caption>(.*?)</table>", text, flags=re.S)
    for claim in CLAIMS:
        if claim.place.startswith(f"{paper.letter}, "):
            (caption,) = (
                head for head, rows in tables if f'"row">{escape(f"{claim.sentence} ({claim.place})")}<' in rows
            )
            assert (caption == "Beyond the paper") == claim.beyond, claim.sentence
    for question in QUESTIONS:
        assert (escape(question.asks) in text) == question.place.startswith(f"{paper.letter}, ")
    assert "ψ(θ) = f(θ)/f(θ*) − 1" in text
    assert "<td>" not in text, "on a narrow screen cells stand below each other, and each says what it is"
    assert '<li id="erratum-5">' in text  # and links lead there
    assert set(re.findall(r'href="#([^"]+)"', text)) == {"erratum-5"}
    order = [text.index(f"<h2>{section.title}</h2>") for section in paper.sections]
    assert order == sorted(order)


def test_every_remark_theorem_and_open_question_of_the_papers_has_its_place() -> None:
    """Three clicks from the table of claims: the place is named there, with the figure or the page."""
    places = {one.place for one in (*CLAIMS, *QUESTIONS)}
    for wanted in (
        *("S, Thm 1", "S, Thm 2", "S, Thm 3, (11)", "S, Thm 3, (12)", "S, Remark 1", "S, Thm 3; Remark 2", "S, §V"),
        *(
            "A, Thm 1",
            "A, Thm 2, (8)",
            "A, after (11)",
            "A, §I",
            "A, Remark 1",
            "A, Remark 2",
            "A, §I; Remark 3",
            "A, Remark 4",
        ),
        "A, §VI",
    ):
        assert wanted in places
    asked = [question.asks for question in QUESTIONS if question.place in ("S, §V", "A, §VI")]
    for word in ("graph", "network", "market", "adversar", "synchronous", "eneralisation"):
        assert any(word in one for one in asked)
    asked += [question.asks for question in QUESTIONS if question.place in ("S, §I", "A, §I")]
    assert any("ncentives" in one for one in asked)  # "incentives must be provided" for a learner that is not trusted
    assert any("other private algorithms" in one for one in asked)  # "there might exist better performance bounds"
    questions = [one for paper in PAPERS for section in paper.sections for one in paper.questions(section)]
    assert sorted(map(id, questions)) == sorted(map(id, QUESTIONS))
    for question in QUESTIONS:
        assert (Path(__file__).parents[2] / "docs" / question.page.partition("#")[0]).is_file()


def test_a_figure_that_is_not_there_is_named(tmp_path: Path) -> None:
    claims = finished(tmp_path, SYNCHRONOUS)
    (tmp_path / "sync-fig7.json").unlink()
    text = write_paper(SYNCHRONOUS, tmp_path, claims).read_text(encoding="utf-8")
    assert "sync-fig7: not made yet" in text
    assert text.count("<img ") == len(SYNCHRONOUS.figures) - 1


def test_the_command_makes_the_figures_and_claims_of_one_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from copriv_papers import command

    asked: list[str] = []
    whole = finished(tmp_path, ASYNCHRONOUS)

    def answered(sentences, out, effort, **how):  # type: ignore[no-untyped-def]
        asked.extend(claim.place for claim in sentences)
        return whole

    small = Paper("paper-async", "A", "The Cost", "So.", ASYNCHRONOUS.sections[:2])
    monkeypatch.setattr(command, "answered", answered)
    monkeypatch.setattr(command, "PAPERS", (small,))
    docs = tmp_path / "docs"
    assert run(["reproduce", "paper-async", "--out", str(tmp_path), "--gallery", str(docs), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["pages"] == [str(tmp_path / "paper-async.html")]
    assert told["figures"] == []  # these two sections have none
    assert {place[:2] for place in asked} == {"A,"}
    assert (docs / "papers" / "paper-async.html").read_text(encoding="utf-8") == (
        tmp_path / "paper-async.html"
    ).read_text(encoding="utf-8")

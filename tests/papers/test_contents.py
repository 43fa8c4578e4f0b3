"""From one page, docs/papers/index.md, a reader finds each item of both papers in three clicks: links are followed."""

import re
from pathlib import Path

import pytest

from copriv_papers.claims import CLAIMS
from copriv_papers.contents import anchor, contents
from copriv_papers.errata import ERRATA
from copriv_papers.figures import BEYOND, FIGURES
from copriv_papers.pages import write_contents
from copriv_papers.papers import PAPERS
from copriv_papers.questions import QUESTIONS

DOCS = Path(__file__).parents[2] / "docs"
START = "papers/index.md"
# As both papers number them, written down from their texts.
IN_THE_PAPERS = [
    *(f"S, Assumption {n}" for n in (1, 2, 3)), "S, Definition 1", "S, Algorithm 1", "S, Algorithm 2",
    *(f"S, Theorem {n}" for n in (1, 2, 3)), "S, Remark 1", "S, Remark 2", *(f"S, Fig. {n}" for n in range(1, 12)),
    *(f"A, Assumption {n}" for n in (1, 2, 3)), "A, Definition 1", "A, Algorithm 1", "A, Theorem 1", "A, Theorem 2",
    *(f"A, Remark {n}" for n in (1, 2, 3, 4)), *(f"A, Fig. {n}" for n in range(1, 12)),
]  # fmt: skip


def links(page: str) -> set[str]:
    """Where the links of a page lead to, below docs/, with their anchors."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'<a href="([^"]+)"', text)
    inside = set()
    for link in found:
        path, _, at = link.partition("#")
        if "://" not in link:
            whole = ((DOCS / page).parent / path).resolve() if path else DOCS / page
            if whole.is_relative_to(DOCS):
                inside.add(whole.relative_to(DOCS).as_posix() + (f"#{at}" if at else ""))
    return inside


def anchors(page: str) -> set[str]:
    """Those that a page has by name, and those of its headings, where the site and GitHub make the same of a heading."""
    text = (DOCS / page).read_text(encoding="utf-8")
    headings = [re.sub(r"[`\[\]]", "", one) for one in re.findall(r"^#+ (.*)$", text, flags=re.M)]
    made = {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings if one.isascii()}
    return made | set(re.findall(r'<a id="([^"]+)"></a>', text))


def leads_somewhere(link: str) -> bool:
    path, _, at = link.partition("#")
    return (DOCS / path).is_file() and (not at or at in anchors(path))


ABOUT_ONE_THING = {
    "explanation/owners-on-a-graph.md", "explanation/data-market.md", "explanation/lying-owners.md",
    "reference/unlike-owners.md", "decisions/0012-groups-of-a-size.md",
}  # fmt: skip
"""Pages that are about the open question or remark that leads to them, from their first line on."""
WHOLE = {
    "reference/claims.md",
    "gallery.md",
    "explanation/errata.md",
    *(f"papers/{paper.identity}.html" for paper in PAPERS),
}
"""Lists that the page names before its own lines, as a whole."""


def test_every_link_leads_to_its_section_and_not_to_the_top_of_a_page():
    lines = [item for paper in PAPERS for items in contents(paper).values() for item in items]
    tops = [
        (item.place, page) for item in lines for page in item.pages if "#" not in page and page not in ABOUT_ONE_THING
    ]
    assert tops == []
    assert {link for link in links(START) if "#" not in link} <= ABOUT_ONE_THING | WHOLE


def test_the_page_is_what_the_lists_say(tmp_path):
    assert write_contents(tmp_path).read_text("utf-8") == (DOCS / START).read_text("utf-8")


def test_everything_that_the_papers_number_has_a_line_whose_links_lead_there():
    lines = [item for paper in PAPERS for items in contents(paper).values() for item in items]
    assert sorted(item.place for item in lines if re.search(r"(Fig\.|[a-z]) \d+$", item.place)) == sorted(IN_THE_PAPERS)
    for item in lines:
        assert item.pages, item.place
        assert [page for page in item.pages if not leads_somewhere(page)] == [], item.place


def test_three_clicks_lead_from_one_page_to_every_claim_figure_question_and_erratum():
    seen, new = {START}, {START}
    for _ in range(3):
        pages = {link.partition("#")[0] for link in new}
        new = {link for page in pages if page.endswith(".md") for link in links(page)} - seen
        seen |= new
    wanted = {f"gallery.md#{figure.identity}" for figure in (*FIGURES, *BEYOND)}
    wanted |= {f"reference/claims.md#{anchor(claim.place)}" for claim in CLAIMS if not claim.beyond}
    wanted |= {question.page for question in QUESTIONS} | {f"explanation/errata.md#erratum-{n}" for n in ERRATA}
    wanted |= {f"papers/{paper.identity}.html" for paper in PAPERS}
    assert wanted - links(START) == set()  # one click is enough
    assert {path.relative_to(DOCS).as_posix() for path in (DOCS / "proofs").glob("*.md")} <= {
        link.partition("#")[0] for link in seen
    }
    assert START in links("index.md")
    assert [link for link in links(START) if not leads_somewhere(link)] == []


def test_a_link_that_leads_nowhere_is_found():
    assert not leads_somewhere("reference/claims.md#claim-s-thm-9")
    assert not leads_somewhere("explanation/nothing.md")
    assert not leads_somewhere("explanation/rules.md#nine-rules")
    assert leads_somewhere("explanation/rules.md#owners-that-drop-out")


PAPERS_TEXTS = Path(__file__).parents[3] / "shared" / "papers"


def as_printed(text: str) -> str:
    """A text without its line breaks, hyphens at their ends and marks of Markdown."""
    return re.sub(r"\s+", " ", re.sub(r"-\n", "", text).replace("*", ""))


@pytest.mark.skipif(not PAPERS_TEXTS.is_dir(), reason="the papers' texts are not beside this checkout")
def test_words_that_errata_quote_stand_in_the_papers_at_the_place_that_is_named():
    texts = {"S": "value_of_collaboration.md", "A": "cost_of_privacy_async.txt"}
    of = {letter: as_printed((PAPERS_TEXTS / name).read_text(encoding="utf-8")) for letter, name in texts.items()}
    abstract, rest = of["A"].split("Index Terms", 1)
    page = as_printed((DOCS / "explanation" / "errata.md").read_text(encoding="utf-8"))
    for quoted, where in {
        "the solid lines are fitted to the experimental data": of["S"],
        "inversely proportional to the combined size of the training datasets squared and the privacy budgets squared": rest,
        "the sum of the privacy budgets squared": abstract,
        "more than 10 data owners with at least 10,000 records with privacy budgets greater than or equal to 1": abstract,
        "more than 100 data owners with privacy budgets greater than or equal to 2.5": rest,
        "we get the same bounds": rest,
    }.items():
        assert quoted in where
        assert quoted in page.replace("We get", "we get"), quoted

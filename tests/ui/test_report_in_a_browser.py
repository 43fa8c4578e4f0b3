"""The report of `copriv report` as people see it: no complaint of the browser, readable by everybody, and on paper."""

import pytest

from copriv.report import RunFile, document, page
from network_parties import agreement
from report_parties import run_left_behind
from ui.conftest import Visitor

pytestmark = pytest.mark.browser

LONG = "a consortium of savings banks with a very long name that has no end and-words-that-do-not-break-" + "x" * 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One report that is in order, and one of a ledger of which a line was changed."""
    left = run_left_behind(
        tmp_path_factory.mktemp("report"), agreement(horizon=9, answers=3).replace(agreement={"name": LONG}),
        forecast={"queries": 9, "relative_fitness": {"mean": 0.01, "low": 0.001, "high": 0.03}},
    )  # fmt: skip
    given = {"authority": left.keys["learner"].authority, "witness": left.own_keys, "docs": "https://docs.example"}
    made = document(left.ledger, [RunFile.at(left.run)], [left.agreed], **given)
    assert made["ok"]
    (left.folder / "good.html").write_text(page(made), encoding="utf-8")
    left.ledger.write_bytes(left.ledger.read_bytes().replace(b'"kind":"answer"', b'"kind":"charge"', 1))
    made = document(left.ledger, [RunFile.at(left.run)], [left.agreed], **given)
    assert not made["ok"]
    (left.folder / "bad.html").write_text(page(made), encoding="utf-8")
    return left.folder


@pytest.fixture
def read(browser, folder):
    """Opens a report as a file, in a window of a width; at the end the browser must have had no complaint."""
    made = []

    def opened(name, width=1280):
        root = folder.as_uri()
        visitor = Visitor(browser, f"{root}/?token=none", viewport={"width": width, "height": 900})
        made.append(visitor)
        visitor.page.goto(f"{root}/{name}.html")
        return visitor

    yield opened
    for one in made:
        one.context.close()
    assert [complaint for one in made for complaint in one.complaints] == []


@pytest.mark.parametrize("name", ["good", "bad"])
@pytest.mark.parametrize("width", [360, 1280, 3840])
def test_axe_finds_nothing_and_nothing_scrolls_sideways(read, name, width):
    visitor = read(name, width)
    assert visitor.axe() == []
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_it_is_styled_and_says_what_matters_first(read):
    page = read("good").page
    style = "getComputedStyle(document.querySelector('{}')).{}"
    assert page.evaluate(style.format(".good", "borderLeftColor")) == "rgb(14, 109, 99)"
    first = page.locator("main").inner_text().split("In words")[0]
    assert "All that was checked is in order" in first
    bar = page.locator(".bar .spent").bounding_box()
    assert bar["width"] == pytest.approx(page.locator(".bar").bounding_box()["width"] / 2, rel=0.02)
    assert "Not in order" in read("bad").page.locator("main").inner_text().split("In words")[0]


def test_it_prints_on_a_few_pages_with_nothing_cut_off(read):
    page = read("good").page
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgba(0, 0, 0, 0)"
    pdf = page.pdf(prefer_css_page_size=True)
    pages = pdf.count(b"/Type /Page\n") or pdf.count(b"/Type /Page ") or pdf.count(b"/Type/Page")
    assert 2 <= pages <= 6
    page.set_viewport_size({"width": 672, "height": 980})  # the width of A4 between its margins
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

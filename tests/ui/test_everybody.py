"""For everybody: contrast and names by axe, no sideways scrolling from 360 px to 4k, both languages, print."""

import pytest

pytestmark = pytest.mark.browser

PAGES = ["join", "agreement", "ledger", "gallery"]
WIDTHS = [360, 1024, 3840]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_and_nothing_scrolls_sideways(visitors, address, page, scheme):
    for width in WIDTHS:
        visitor = visitors(address, viewport={"width": width, "height": 900}, color_scheme=scheme)
        shown = visitor.enter(page)
        if page == "join":
            visitor.exactly()
        assert visitor.axe() == [], f"{width}"
        assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{page} {width}"


def test_german_everywhere(visitors, address):
    visitor = visitors(address, locale="de-DE")
    page = visitor.enter()
    visitor.exactly()
    text = page.locator("body").inner_text()
    assert "Sollen wir mitmachen?" in text
    assert "Mitmachen" in page.locator("#verdict").inner_text()
    for english in ("Should", "Joining", "together", "records"):
        assert english not in text.replace(page.locator("#terms").inner_text(), ""), english
    page.locator("#language").select_option("en")
    page.get_by_role("heading", name="Should we join?").wait_for()


def test_the_chosen_colours_stay(visitor):
    page = visitor.enter()
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.locator("#theme").select_option("dark")
    dark = page.evaluate(paper)
    assert dark != light
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate(paper) == dark


def test_print_shows_the_answer_and_no_buttons(visitor):
    page = visitor.enter()
    visitor.exactly()
    page.emulate_media(media="print")
    assert page.locator("#verdict").is_visible()
    assert not page.locator("#add").is_visible()
    assert not page.locator("header.site nav").is_visible()
    assert len(page.pdf()) > 10_000

"""A data market in a real browser: sliders state worth, cost and ε, and the page says what `copriv market` says."""

import re
import tomllib

import pytest

from copriv.agreement import Agreement
from ui.conftest import Visitor

pytestmark = pytest.mark.browser


def owner(page, i):
    return page.locator("#owners > li").nth(i)


def field(page, i, label):
    """The number beside a slider, by what it is."""
    return owner(page, i).get_by_label(re.compile(f"{label}.*exactly"))


def slide(page, i, label, key):
    slider = owner(page, i).get_by_label(re.compile(f"{label}.*slider"))
    slider.focus()
    page.keyboard.press(key)
    return slider


@pytest.fixture
def market(visitor) -> Visitor:
    visitor.enter("market")
    visitor.exactly(180)
    return visitor


def test_worth_cost_and_epsilon_decide_who_joins_and_who_pays_whom(market):
    page = market.page
    assert page.locator("#example").is_visible()  # nobody has stated anything yet
    field(page, 0, "most ε").fill("3")
    slide(page, 0, "worth", "Home")  # the first organisation only sells
    assert field(page, 0, "worth").input_value() == "0"
    for i in range(1, 5):
        slide(page, i, "worth", "End")
        assert field(page, i, "worth").input_value() == "10000000"
    market.exactly(180)
    assert page.locator("#example").is_hidden()
    seller, buyer = (owner(page, i).locator(".says").inner_text() for i in (0, 1))
    assert "Answers at ε = " in seller
    assert "Uses what it has." in seller
    assert "Is paid " in seller
    assert "Uses the model." in buyer
    assert "Pays " in buyer
    told = page.locator("#said").inner_text()
    assert "Under shapley:" in told
    assert "pays Organisation 1 " in told
    assert page.locator("#verdict").inner_text().startswith("By what is stated, Organisation 1")
    market.keep("market")
    # Where privacy costs more than accuracy is worth to anybody, nobody answers.
    for i in range(5):
        slide(page, i, "worth", "Home")
    market.exactly(180)
    assert page.locator("#verdict").inner_text().startswith("By what is stated, no trade saves anybody anything")
    assert page.locator("#save").is_disabled()


def test_a_mechanism_a_shape_and_the_proposed_agreement(market, tmp_path):
    page = market.page
    for i in range(5):
        slide(page, i, "worth", "End")
    page.locator("#mechanism").select_option("common")
    page.locator("#mechanism[data-shown=common]").wait_for()
    market.exactly(180)
    assert "Under common:" in page.locator("#said").inner_text()
    assert "Pays nothing and is paid nothing." in owner(page, 0).locator(".says").inner_text()
    owner(page, 0).locator("select").select_option("threshold")
    field(page, 0, "costs nothing").fill("0.5")
    market.exactly(180)
    with page.expect_download() as saved:
        page.locator("#save").click()
    saved.value.save_as(tmp_path / "proposed.toml")
    proposed = Agreement.of(tomllib.loads((tmp_path / "proposed.toml").read_text("utf-8")))
    assert {table.market for table in proposed.owner_tables} == {None}
    # A reload brings back what was stated, and the agreement's page has it, too.
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert field(page, 0, "costs nothing").input_value() == "0.5"


def test_a_telephone_shows_every_slider_and_scrolls_tables_only(visitors, address):
    visitor = visitors(address, viewport={"width": 420, "height": 900})
    page = visitor.enter("market")
    visitor.exactly(180)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for slider in owner(page, 0).locator("input[type=range]").all():
        assert slider.bounding_box()["width"] >= 150
    visitor.keep("market")

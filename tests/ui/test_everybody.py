"""For everybody: contrast and names by axe, no sideways scrolling from 360 px to 4k, both languages, print."""

from fractions import Fraction

import pytest

from copriv.privacy.ledger.lines import RunTotals, Totals
from copriv.ui.live import OwnerWatch, Watch, application
from copriv.ui.shell import texts
from page_server import in_thread
from signed_run import signed_run

pytestmark = pytest.mark.browser

PAGES = ["join", "market", "agreement", "ledger", "gallery"]
WIDTHS = [360, 1024, 3840]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_and_nothing_scrolls_sideways(visitors, address, a_run, page, scheme):
    for width in WIDTHS:
        visitor = visitors(address, viewport={"width": width, "height": 900}, color_scheme=scheme)
        shown = visitor.enter(page)
        if page == "join":
            visitor.exactly()
        if page == "ledger":
            shown.locator("#open").set_input_files(a_run)
            shown.locator("#found").wait_for()
        sound(visitor, page)


def sound(visitor, page):
    """Nobody is shut out, nothing is cut off, and a picture is kept."""
    width = visitor.settings["viewport"]["width"]
    assert visitor.axe() == [], f"{page} {width}"
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{page} {width}"
    visitor.keep(page)


@pytest.fixture(scope="module")
def a_run(tmp_path_factory):
    return signed_run(tmp_path_factory.mktemp("run"))[0]


HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def watches():
    """A run and an owner in the middle of it, by their pages' names."""
    run = Watch("run")
    states = ("asked", "here", "away", "out")
    rows = [{"name": name, "state": state, "answers": 100 * i, "most": 1000, "spent": 0.1 * i, "epsilon": 1.0,
             "out": "refused" if state == "out" else ""}
            for i, (name, state) in enumerate(zip(("Northern", HOSTILE, "x" * 500, "East"), states, strict=True))]  # fmt: skip
    head = {"name": HOSTILE, "fingerprint": "f" * 64, "run": "r" * 32, "stepped": 300, "queries": 1000, "held": False,
            "status": None, "reason": "", "public": 300, "seen": True}  # fmt: skip
    run.update(head, rows)
    run.points = [[float(k), 1.0 / k] for k in range(1, 301)]
    run.band = {
        "k": [1, 500, 1000],
        "low": [0.8, 0.001, 0.0005],
        "median": [1.0, 0.002, 0.001],
        "high": [1.2, 0.004, 0.002],
    }
    for kind in ("begun", "joined", "asked", "query", "answer", "stepped", "refused"):
        run.say(kind, owner=HOSTILE, owners=[HOSTILE], turn=1, sequence=1, answered=1, reason=HOSTILE)
    mine = OwnerWatch("Northern", "f" * 64, HOSTILE, f"promised to {HOSTILE}")
    mine.look(Totals("Northern", lifetime=Fraction(2), spent=Fraction(1, 2), ahead=Fraction(1, 8),
                     runs={"r" * 32: RunTotals("f" * 64, Fraction(1), 1000, spent=Fraction(1, 2), answered=500)}))  # fmt: skip
    mine.watch.say("said", text=f"connected to {HOSTILE}")
    return {"run": run, "owner": mine.watch}


@pytest.mark.parametrize("page", ["run", "owner"])
def test_a_run_and_an_owner_are_for_everybody_too_and_hostile_names_stay_text(visitors, watches, page):
    with in_thread(application(watches[page])) as place:
        for scheme in ("light", "dark"):
            for width in WIDTHS:
                visitor = visitors(place.address, viewport={"width": width, "height": 900}, color_scheme=scheme)
                shown = visitor.enter(page)
                shown.locator("#lines [role=listitem]").first.wait_for()
                sound(visitor, page)
                assert shown.locator("main img").count() == 0
                assert HOSTILE in shown.locator("main").inner_text()
                visitor.context.close()


def english(language="en"):
    """Texts that stand in one language alone, and are long enough to be known again."""
    other = texts("de" if language == "en" else "en")
    return {text for key, text in texts(language).items() if len(text) > 12 and "{" not in text and text != other[key]}


@pytest.mark.parametrize("page", [*PAGES, "run", "owner"])
def test_a_page_in_german_has_no_english_of_ours(visitors, watches, address, a_run, page):
    if page in PAGES:
        visitor = visitors(address, locale="de-DE")
        shown = visitor.enter(page)
        if page == "ledger":
            shown.locator("#open").set_input_files(a_run)
            shown.locator("#found").wait_for()
        text = shown.locator("body").inner_text()
    else:
        with in_thread(application(watches[page])) as place:
            visitor = visitors(place.address, locale="de-DE")
            shown = visitor.enter(page)
            shown.locator("#lines [role=listitem]").first.wait_for()
            text = shown.locator("body").inner_text()
            visitor.context.close()
    assert [one for one in english() if one in text] == []
    assert any(one in text for one in english("de"))


def test_the_wish_to_stop_by_keyboard_alone(visitors, watches):
    with in_thread(application(watches["run"])) as place:
        page = visitors(place.address).enter("run")
        for wanted in ("pause", "stop"):
            while page.evaluate("document.activeElement.id") != wanted:
                page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.get_by_role("dialog").wait_for()
        assert page.evaluate("document.activeElement.value") == "no"  # what harms nothing comes first
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="hidden")
        assert page.evaluate("document.activeElement.id") == "stop"
        page.close()


@pytest.mark.parametrize("which", ["run", "owner"])
def test_a_stop_leaves_in_the_click_itself(visitors, watches, which):
    # The window may be gone a moment later, and with it all that would have been sent then.
    asked = """answer => {
        const asked = [];
        window.fetch = (path, how) => (asked.push(`${how.method} ${path} ${how.keepalive}`), new Promise(() => {}));
        document.querySelector("#stop").click();
        document.querySelector(`#sure button[value=${answer}]`).click();
        return asked;
    }"""
    with in_thread(application(watches[which])) as place:
        page = visitors(place.address).enter(which)
        assert page.evaluate(asked, "no") == []
        assert page.evaluate(asked, "yes") == ["POST /api/stop true"]
        page.close()


def test_a_ledger_and_a_run_are_printed_without_buttons(visitor, a_run):
    page = visitor.enter("ledger")
    page.locator("#open").set_input_files(a_run)
    page.locator("#found").wait_for()
    page.emulate_media(media="print")
    assert page.locator("#whole").is_visible()
    assert not page.locator("#print").is_visible()
    assert not page.locator("#open").is_visible()
    assert page.evaluate("document.querySelector('#lines .scroller').clientHeight") >= 30 * 36  # all of its lines


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

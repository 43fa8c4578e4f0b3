"""The page and its report tell a forecast's verdict sentence by sentence, in every language, and draw it without scrolling."""

import contextlib
import re
from pathlib import Path

import pytest

import copriv
import unions
from copriv.cli.commands.options import packaged_text
from copriv.display.verdict import sentences
from page_server import as_process
from page_texts import numbers

pytestmark = pytest.mark.browser


def plain(text):
    """With spaces and apostrophes as a terminal writes them, and numbers without noughts at the end: "0.50 %" is "0.5 %"."""
    text = " ".join(text.replace("’", "'").split())
    return re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):g}", text)


@pytest.fixture(scope="module", params=["template", "nothing known", pytest.param("strata", marks=pytest.mark.slow)])
def told(request, tmp_path_factory):
    """A forecast, and where the page begins with its agreement."""
    folder = tmp_path_factory.mktemp("told")
    with contextlib.ExitStack() as stack:
        with contextlib.chdir(folder):
            if request.param == "template":
                Path("agreement.toml").write_text(packaged_text("agreement.toml"))
            else:
                unions.write(folder, request.param == "strata")
            outlook = copriv.forecast("agreement.toml")
            page = as_process("ui", "agreement.toml", "--no-browser", log=folder / "log")
            address, _ = stack.enter_context(page)
        yield request.param, outlook, address


@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize("language", ["en", "de"])
def test_the_page_and_its_report_tell_what_the_forecast_tells(told, visitors, language, width, tmp_path):
    name, outlook, address = told
    visitor = visitors(
        address, locale={"en": "en-GB", "de": "de-DE"}[language], viewport={"width": width, "height": 900}
    )
    page = visitor.enter()
    visitor.exactly(180)
    visitor.keep(f"verdict-{name}-{language}".replace(" ", "-"))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    headline, costs, notes = (page.locator(f"#verdict{part}").inner_text() for part in ("", "-numbers", "-notes"))
    with page.expect_download() as found:
        page.locator("#export-report").click()
    found.value.save_as(tmp_path / "report.html")
    report = visitors(address).page
    report.set_content((tmp_path / "report.html").read_text(encoding="utf-8"))
    for text in (f"{headline} {costs} {notes}", report.locator("body").inner_text()):
        if language == "en":
            assert all(plain(str(one)) in plain(text) for one in sentences(outlook))
        assert numbers(outlook.verdict) <= numbers(text, language)
        assert all(owner.name in text for owner in outlook.owners if owner.name in outlook.verdict)
    answer = " ".join(str(one) for one in sentences(outlook) if one.key.startswith("answer."))
    assert numbers(headline, language) == numbers(answer), "the live region says the answer, and no caution"
    if language == "en":
        assert plain(headline) == plain(answer)

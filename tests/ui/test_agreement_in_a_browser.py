"""Write the agreement as a person does: fields from the schema, errors beside them, fingerprint, promises."""

import re
from pathlib import Path

import pytest

from copriv.agreement import Agreement
from copriv.cli.commands.init import template
from page_server import until

pytestmark = pytest.mark.browser


def test_every_key_of_the_schema_has_a_field(visitor):
    page = visitor.enter("agreement")
    for details in page.locator("#form details").all():
        details.evaluate("element => element.open = true")
    tables = Agreement.model_json_schema()["$defs"]
    keys = sum(len(tables[name]["properties"]) for name in ("Terms", "ModelTerms", "DataTerms"))
    keys += 5 * len(tables["OwnerTerms"]["properties"])
    assert page.locator("#form .field").count() == keys


def test_from_empty_to_a_signed_document(visitor, tmp_path):
    page = visitor.enter("agreement")
    assert page.locator("#standing").inner_text().endswith("each stands beside its field.")  # names are missing
    for i in range(5):
        page.get_by_label("name: Organisation", exact=False).nth(i).fill(f"Clinic {i}")
    page.get_by_text("Complete: every rule holds.").wait_for()
    open_ended = page.locator("#fingerprint").inner_text()
    assert page.locator("#promises").get_by_text("auto").count() == 5
    page.get_by_role("button", name="Take the recommended terms").click()
    page.get_by_text("These are the recommended terms.").wait_for(timeout=90_000)
    until(page, f"document.querySelector('#fingerprint').textContent !== '{open_ended}'")
    assert page.locator("#promises").get_by_text("auto").count() == 0
    with page.expect_download() as found:
        page.get_by_role("button", name="Save agreement.toml").click()
    found.value.save_as(tmp_path / "agreement.toml")
    agreement = Agreement.load(tmp_path / "agreement.toml")
    assert agreement.fingerprint == page.locator("#fingerprint").inner_text()
    assert [owner.name for owner in agreement.owner] == [f"Clinic {i}" for i in range(5)]


def test_an_error_stands_beside_its_field(visitor, tmp_path):
    path = tmp_path / "agreement.toml"
    path.write_text(template())
    page = visitor.enter("agreement")
    page.locator("#open").set_input_files(path)
    page.get_by_text("Complete: every rule holds.").wait_for()
    assert page.locator("#fingerprint").inner_text() == Agreement.load(path).fingerprint
    horizon = page.get_by_label("horizon", exact=False).first
    horizon.fill("a week")
    page.locator(".wrong .error").wait_for()
    assert horizon.get_attribute("aria-invalid") == "true"
    assert page.locator(".wrong").count() == 1
    assert "This must be a whole number." in page.locator(".wrong").inner_text()
    horizon.fill("12")
    page.get_by_text("Complete: every rule holds.").wait_for()
    page.locator("#open").set_input_files({"name": "x.toml", "mimeType": "text/plain", "buffer": b"[[[<b>"})
    page.locator("#others li").wait_for()
    assert page.locator("#others b").count() == 0


@pytest.mark.parametrize("locale", ["en-GB", "de-DE"])
def test_errors_are_in_the_language_of_the_page(visitors, address, locale):
    page = visitors(address, locale=locale).enter("agreement")
    page.locator(
        "#form .error", has_text={"en-GB": "This must not be empty.", "de-DE": "Das darf nicht leer sein."}[locale]
    ).first.wait_for()
    assert "String should" not in page.locator("#form").inner_text()


def test_what_was_entered_goes_from_page_to_page(visitor):
    page = visitor.enter()
    page.locator("#owners input[type=text]").first.fill("From the first page")
    page.get_by_role("link", name="The agreement").click()  # at once, before anything typed is written to the address
    page.get_by_label(re.compile("^name: From the first page")).wait_for()
    assert Path(page.url.split("#")[0]).name == "agreement"

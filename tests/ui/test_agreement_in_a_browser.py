"""Write the agreement as a person does: fields from the schema, errors beside them, fingerprint, promises."""

import re
from pathlib import Path

import pytest

from copriv.agreement import Agreement
from copriv.cli.commands.options import packaged_text
from copriv.problem import Problem
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
    path.write_text(packaged_text("agreement.toml"))
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


TABLE = "age,stage,seen,smoker,income,who,rate\n" + "".join(
    f"{20 + k % 60},{('I', 'II', 'III')[k % 3]},201{k % 5}-03-04,{('yes', 'no')[k % 2]},"
    f"{'NA' if k % 9 == 0 else 1000 + 37 * k},m{k // 3},{k % 7}.5\n"
    for k in range(180)
)


def with_names(page):
    for i in range(5):
        page.get_by_label("name: Organisation", exact=False).nth(i).fill(f"Clinic {i}")


def saved(page, path):
    page.get_by_text("Complete: every rule holds.").wait_for()
    with page.expect_download() as found:
        page.get_by_role("button", name="Save agreement.toml").click()
    found.value.save_as(path)
    return Agreement.load(path)


def test_the_columns_of_a_public_table_are_proposed(visitor, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loans.csv").write_text(TABLE)
    page = visitor.enter("agreement")
    with_names(page)
    assert page.locator("#columns").is_disabled(), "it is said first whether the table is public"
    page.locator("#public").select_option("yes")
    page.locator("#columns").set_input_files(tmp_path / "loans.csv")
    page.get_by_text("Proposed from 180 rows, ranges rounded outward").wait_for()
    agreement = saved(page, tmp_path / "agreement.toml")
    data = agreement.data
    assert (data.target, data.public, data.ordered, data.booleans) == ("rate", "loans.csv", ("stage",), ("smoker",))
    assert data.bounds == {"age": (20.0, 80.0), "income": (1000.0, 8000.0), "rate": (0.0, 7.0)}
    assert data.dates == {"seen": ("2010-01-01", "2014-12-31")}
    assert set(data.missing) == {"income"}
    assert Problem.load_public(agreement).public.units == 180
    page.locator("#aim").select_option("smoker")
    until(page, "document.querySelector('#file').textContent.includes('logistic')")
    assert saved(page, tmp_path / "classes.toml").data.categories["smoker"] == ("no", "yes")


def test_of_a_private_table_only_the_names_of_its_columns_leave_the_file(visitor, tmp_path):
    sent = []
    (tmp_path / "loans.csv").write_text(
        "\ufeff" + TABLE.replace("rate", '"the, ""rate"""', 1).replace("m3", "a secret")
    )
    page = visitor.enter("agreement")
    with_names(page)
    page.on("request", lambda request: sent.append(request.post_data or ""))
    page.locator("#public").select_option("no")
    page.locator("#columns").set_input_files(tmp_path / "loans.csv")
    page.get_by_text("Only the names were taken").wait_for()
    assert page.locator("#aim").input_value() == 'the, "rate"'
    page.locator("#aim").select_option("income")
    page.locator(".wrong", has_text="age: the column has neither bounds nor categories").wait_for()
    stated = page.locator("#form")
    stated.get_by_label("features", exact=False).first.fill('["age"]')
    stated.get_by_label("bounds", exact=False).first.fill('{"age": [0, 110], "income": [0, 90000]}')
    agreement = saved(page, tmp_path / "agreement.toml")
    assert (agreement.data.features, agreement.data.target) == (("age",), "income")
    assert sent
    assert not any("secret" in one or "2010" in one for one in sent), (
        "no row is sent, not even to this machine's server"
    )


def test_persons_with_several_rows_are_protected_by_their_column_or_told_what_epsilon_means(visitor, tmp_path):
    (tmp_path / "loans.csv").write_text(TABLE)
    page = visitor.enter("agreement")
    with_names(page)
    page.locator("#public").select_option("yes")
    page.locator("#columns").set_input_files(tmp_path / "loans.csv")
    page.get_by_text("Proposed from 180 rows").wait_for()
    page.locator("#person-rows").fill("3")
    page.get_by_text("somebody with 3 rows has 3 times the epsilon").wait_for()
    page.locator("#person").select_option("who")
    agreement = saved(page, tmp_path / "agreement.toml")
    assert {(owner.unit, owner.unit_records) for owner in agreement.owner} == {("who", 3)}


def test_what_was_chosen_in_the_moment_of_the_click_is_in_the_file(visitor, tmp_path):
    page = visitor.enter("agreement")
    with_names(page)
    page.get_by_text("Complete: every rule holds.").wait_for()
    with page.expect_download() as found:
        page.evaluate("""() => {
            const name = document.querySelector('[aria-label^="name: Organisation"]');
            name.value = "Entered last";
            name.dispatchEvent(new Event("input"));
            document.querySelector("#save").click();
        }""")
    found.value.save_as(tmp_path / "agreement.toml")
    assert Agreement.load(tmp_path / "agreement.toml").owner[0].name == "Entered last"

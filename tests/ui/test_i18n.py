"""Every text stands in every language, with the same blanks, and every text that pages ask for is there."""

import re
from importlib.resources import files

import pytest

from copriv.ui import agreement_form
from copriv.ui.shell import LANGUAGES, preferred, texts

ROOT = files("copriv.ui")


def blanks(text):
    return sorted(re.findall(r"\{(\w+)[}|]", text))


def test_languages_have_the_same_texts_and_blanks():
    first = texts("en")
    for language in LANGUAGES:
        assert texts(language).keys() == first.keys()
        for key, text in texts(language).items():
            assert blanks(text) == blanks(first[key]), f"{language} {key}"
            assert text.strip() == text != "", f"{language} {key}"


def test_every_text_that_is_asked_for_is_there():
    sources = [*ROOT.joinpath("static").glob("**/*.js"), *ROOT.joinpath("templates").glob("*.html")]
    asked = {
        key for source in sources for key in re.findall(r"""\bt\(\s*"([a-z][\w.]*\w)\"""", source.read_text("utf-8"))
    }
    assert len(asked) > 50
    assert asked <= texts("en").keys()


@pytest.mark.parametrize(
    ("language", "everybody", "own"),
    [("en", "everybody’s records", "own records"), ("de", "Datensätzen aller", "eigenen Datensätzen")],
)
def test_what_others_lose_and_gain_says_on_which_records(language, everybody, own):
    """On everybody's records the others may lose by what makes their own records better predicted (`--without`)."""
    said = texts(language)
    for key in (
        "join.worth.lead",
        "join.worth.leaves",
        "join.worth.subset",
        "owner.out.others",
        "owner.out.records.common",
    ):
        assert everybody.lower() in said[key].lower(), key
    for key in ("join.worth.lead", "owner.out.others", "owner.out.records.own"):
        assert own in said[key], key
    for key in ("join.worth.lead", "owner.out.others"):
        assert "--without NAME" in said[key], key


@pytest.mark.parametrize(
    "change",
    [("horizon", "x"), ("horizon", 1.5), ("horizon", 0), ("horizon", None), ("step", "x"), ("schedule", "?"),
     ("nonsense", 1), ("name", 3), ("window", -1)],
)  # fmt: skip
def test_every_error_beside_a_field_has_words_in_every_language(change):
    document = agreement_form.first(None)
    owners = [{"name": f"o{i}", "records": 100, "epsilon": 1.0} for i in range(2)]
    key, value = change
    tables = {table: document[table] for table in ("agreement", "model", "data")}
    found = agreement_form.checked({**tables, "agreement": {**document["agreement"], key: value}, "owner": owners})[
        "errors"
    ]
    assert found
    for error in found:
        text = texts("en").get(f"problem.{error.get('kind')}")
        assert text is not None or error["kind"] in ("value_error", "union_tag_invalid"), error
        if text is not None:
            assert set(blanks(text)) <= error["values"].keys()


def test_no_page_has_words_of_its_own():
    for template in ROOT.joinpath("templates").glob("*.html"):
        bare = re.sub(r"\{[{%].*?[%}]\}|<[^>]*>", " ", template.read_text("utf-8"), flags=re.DOTALL)
        assert not re.findall(r"[A-Za-z]{3,}", bare.replace("copriv", "")), template


def test_the_language_is_what_was_chosen_else_what_the_browser_likes():
    assert preferred("de", "en") == "de"
    assert preferred(None, "fr-FR,de-CH;q=0.8,en;q=0.5") == "de"
    assert preferred("xx", "") == "en"

"""What others wrote is shown on one line, and moves no cursor."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.formatting import numbers
from copriv.formatting.sanitize import printable, without_user


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("all 8 queries are answered", "all 8 queries are answered"),
        ("Zürich, 東京, ψ", "Zürich, 東京, ψ"),
        ("\x1b[2K\x1b[1A", "\\x1b[2K\\x1b[1A"),
        ("one\ntwo\r\tthree", "one\\x0atwo\\x0d\\x09three"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("a\u2028b", "a\\u2028b"),
        ("\U000e0041", "\\U000e0041"),
        ("\u3164", "\\u3164"),
        ("bank\ufe0f\U000e0101", "bank\\ufe0f\\U000e0101"),
        ("[/nothing] :bomb:", "[/nothing] :bomb:"),
    ],
)
def test_what_cannot_be_seen_is_named(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(max_size=700), st.integers(1, 600))
def test_one_line_of_visible_characters_and_no_more_than_asked_for(text: str, most: int) -> None:
    shown = printable(text, most)
    assert len(shown) <= most
    assert all(unicodedata.category(c)[0] != "C" and unicodedata.category(c) not in ("Zl", "Zp") for c in shown)


@pytest.mark.parametrize("value", [0.5, 7.1, 99.4, 100.0, 270.0, 999.6, 12345.0, 1e6])
def test_budgets_are_written_without_powers_of_ten(value):
    """A bank was told that joining would pay "from 2.7e+02"."""
    for written in (numbers.times(value), numbers.plain_number(value)):
        assert "e" not in written
        assert float(written.replace(",", "")) == pytest.approx(value, rel=0.06)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://agent:SECRET@db/loans", "postgresql://…"),
        ("postgres://db/loans?password=SECRET", "postgres://…"),
        ("postgresql:host=db password=SECRET", "postgresql://…"),
        ("postgresql:/agent:SECRET@db/loans", "postgresql://…"),  # as a Path has it
        ("https://agent:SECRET@host/a.csv", "https://host/a.csv"),
        ("ftp:/agent:S@CRET@host/a.csv", "ftp://host/a.csv"),
        *((same, same) for same in ("https://host/a.csv?b=1", "duckdb:a.duckdb", "C:/a@b.csv", "a@b/c.toml", "")),
    ],
)
def test_no_address_is_shown_with_its_user(address: str, shown: str) -> None:
    assert without_user(address) == shown

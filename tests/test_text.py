"""What others wrote is shown on one line, and moves no cursor."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.text import printable


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

"""Every claim of the page on security names a test, and every test and every file that it names is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "explanation" / "security.md"
TEXT = PAGE.read_text(encoding="utf-8")
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
CLAIMS = (
    "What an owner's guarantee rests on",
    "What each party sees",
    "What is checked, and what happens",
    "What a run proves",
)
WITHOUT = ("Who trusts whom", "What is not protected", "What a data officer should check")
"""Sections of what is assumed, left open or asked of people, which no test can show."""


@cache
def named_in(path: Path) -> frozenset[str]:
    """The names of the tests in a file."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(
        node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, functions)
    )


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.*)\n", TEXT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def claims(text: str) -> list[str]:
    """The rows of a section's tables, and the entries of its lists."""
    rows = [
        line
        for line in text.splitlines()
        if line.startswith("| ") and not re.match(r"\| (---|threat|what|who) \|", line)
    ]
    entries = re.findall(r"^- .*(?:\n  .*)*", text, flags=re.MULTILINE)
    return rows + entries


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED.findall(TEXT))))
def test_every_test_that_is_named_is_there(file: str, name: str) -> None:
    assert (TESTS / file).is_file(), file
    assert name in named_in(TESTS / file), f"{file} has no {name}"


def test_every_file_that_is_named_is_there() -> None:
    named = set(re.findall(r"`([\w/]+(?:\.py|/))`", TEXT))
    assert len(named) > 10
    places = (TESTS.parent / "src" / "copriv", TESTS, TESTS.parent)
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []


def test_every_section_makes_claims_or_says_why_not() -> None:
    assert set(sections()) == {*CLAIMS, *WITHOUT}


@pytest.mark.parametrize("section", CLAIMS)
def test_every_claim_names_a_test(section: str) -> None:
    found = claims(sections()[section])
    assert len(found) >= 3
    assert [claim[:80] for claim in found if not NAMED.search(claim)] == []


def test_every_row_of_the_threat_table_says_who_what_and_what_remains() -> None:
    rows = [row.strip("|").split("|") for row in claims(sections()["What is checked, and what happens"])]
    assert len(rows) > 40
    assert [row[0] for row in rows if len(row) != 5 or not all(cell.strip() for cell in row)] == []

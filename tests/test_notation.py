"""The page of notation: every name that it gives is in the code, and every Greek letter of the code is on it."""

import ast
import importlib
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "notation.md").read_text(encoding="utf-8")
ROWS = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| ") and "| --- |" not in line]
NAMES = sorted({name for row in ROWS for name in re.findall(r"`([\w.]+)`", row[3])})


def looked_up(dotted: str) -> Any:
    """What a name below `copriv.` stands for: a module's attribute, or a class's attribute or declared field."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(("copriv", *parts[:length])))
        except ImportError:
            continue
        for part in parts[length:]:
            declared = getattr(found, "__annotations__", {}) if isinstance(found, type) else {}
            found = declared[part] if part in declared and not hasattr(found, part) else getattr(found, part)
        return found
    raise ImportError(dotted)


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_in_the_code(name: str) -> None:
    looked_up(name)


def test_a_name_that_is_not_there_is_found_out() -> None:
    assert len(NAMES) > 40
    for wrong in ("agreement.Agreement.answer", "terms.Terms.nothing", "nowhere.Agreement"):
        with pytest.raises((AttributeError, ImportError)):
            looked_up(wrong)


def test_every_row_is_whole() -> None:
    assert {len(row) for row in ROWS} == {5}
    assert all(cell.strip() for row in ROWS for cell in row)


def test_every_greek_letter_of_the_code_is_explained() -> None:
    letters: dict[str, str] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else ""
            letters |= {letter: path.name for letter in name if "GREEK" in unicodedata.name(letter, "")}
    assert len(letters) > 10
    assert {letter: where for letter, where in letters.items() if letter not in PAGE} == {}

"""Every mechanism has a page with its proof, and what a page names is there: functions as executed, tests, versions."""

import ast
import importlib.metadata
import re
from datetime import date
from functools import cache
from pathlib import Path

import pytest

import copriv.mechanisms as mechanisms

ROOT = Path(__file__).parents[2]
PROOFS = ROOT / "docs" / "proofs"
PARTS = (
    "What is released", "Neighbours", "As executed", "Statement", "Proof", "Floating point", "Side channels",
    "What is assumed of others", "Which test fails when which line is broken", "Last read",
)  # fmt: skip
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(PROOFS.glob("*.md"))}
PROVED = sorted(PAGES.keys() - {"index", "market"})  # that one is about money
NAMED = {one.name for one in mechanisms.ALL}


def part(page: str, title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGES[page], re.MULTILINE | re.DOTALL)
    assert found, f"{page}: has no part {title!r}"
    return found[1].strip()


@cache
def functions(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )


def test_every_mechanism_on_the_list_has_a_page_and_the_index_names_it() -> None:
    assert set(PROVED) == NAMED | {"composition", "masks", "phases", "sum", "transcript"}
    assert {name for name in PROVED if f"({name}.md)" in PAGES["index"]} == set(PROVED)


@pytest.mark.parametrize("page", PROVED)
def test_a_page_has_all_its_parts_in_order(page: str) -> None:
    titles = re.findall(r"^## (.+)$", PAGES[page], re.MULTILINE)
    assert tuple(titles) == PARTS
    assert all(part(page, title) for title in PARTS)
    assert "∎" in part(page, "Proof")


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_mechanism_says_how_it_comes_from_the_real_line_to_the_grid(name: str) -> None:
    said = re.search(r"\*The step to the grid\b.*?(?=\n\n\*|\n## )", PAGES[name], re.DOTALL)
    assert said, f"{name}: has no step to the grid"
    assert "2⁻⁴⁰" in said[0]


@pytest.mark.parametrize("page", PROVED)
def test_what_is_executed_is_in_the_code(page: str) -> None:
    named = re.findall(r"(copriv/[\w/]+\.py): (\w+)", PAGES[page])
    assert len(named) >= 3
    missing = [f"{file}: {name}" for file, name in named if name not in functions(ROOT / "src" / file)]
    assert missing == []


def named_tests(page: str) -> list[tuple[str, str, str]]:
    return re.findall(r"`(tests/[\w/]+\.py)::(\w+)(?:\[([^\]]+)\])?`", PAGES[page])


@pytest.mark.parametrize("page", PROVED)
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    """Also each wrong version: by the function that makes it, and the mechanism that it is registered for."""
    named = named_tests(page)
    rows = re.findall(r"^\| (?!broken|---)", part(page, "Which test fails when which line is broken"), re.MULTILINE)
    assert len(named) >= len(rows) >= 4
    for file, name, version in named:
        assert name in functions(ROOT / file), f"{file}::{name}"
        if not version:
            continue
        wrong, _, of = version.partition("-") if "mechanism_mutations" in file else (version, "", "")
        assert wrong.replace(" ", "_") in functions(ROOT / file), version
        if of:
            from statistical.test_mechanism_mutations import MUTATIONS

            assert of in MUTATIONS[wrong].of, version


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_mechanism_has_at_least_four_wrong_versions_in_its_table(name: str) -> None:
    named = [version for _, test, version in named_tests(name) if test == "test_a_wrong_owner_is_seen" and version]
    assert len(set(named)) >= 4


@pytest.mark.parametrize("page", PROVED)
def test_it_was_read_on_a_day_and_with_versions_that_may_be_installed(page: str) -> None:
    said = part(page, "Last read")
    assert date.fromisoformat(said[:10]) >= date(2026, 11, 22)
    for package, pattern in (("opendp", r"OpenDP ([\d.]+\d)"), ("dp-accounting", r"dp-accounting ([\d.]+\d)")):
        for version in re.findall(pattern, PAGES[page]):
            required = next(
                (line for line in importlib.metadata.requires("copriv") or () if line.startswith(package)), ""
            )
            least = re.search(r">=([\d.]+)", required)
            assert least is not None, package
            assert _number(version) >= _number(least[1])


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))

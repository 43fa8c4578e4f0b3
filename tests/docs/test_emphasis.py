"""The star of θ* is a star: Markdown takes two of them in a paragraph for emphasis, and a formula loses both."""

import re
from pathlib import Path

import pytest

markdown = pytest.importorskip("markdown")
ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])


def swallowed(text: str) -> list[str]:
    """What is emphasised and begins or ends in the middle of a formula."""
    html = markdown.markdown(text, extensions=["tables", "fenced_code", "admonition"])
    found = re.findall(r"<em>(.*?)</em>", html, re.DOTALL)
    return [one for one in found if one.count("(") != one.count(")") or not re.match(r"[\w“\"(<]", one)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_symbol_stands_inside_emphasis(page):
    assert not swallowed(page.read_text(encoding="utf-8"))


def test_a_lost_star_is_seen():
    assert swallowed("ψ = f(θ)/f(θ*) − 1, where θ* is the best model")
    assert not swallowed("ψ = f(θ)/f(θ\\*) − 1, where θ\\* is *the best* model")

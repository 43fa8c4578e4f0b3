"""Mathematics is written as mathematics: no symbol is lost to emphasis, and every formula becomes well-formed MathML."""

import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

markdown = pytest.importorskip("markdown")
pytest.importorskip("latex2mathml")
ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
SPEC = importlib.util.spec_from_file_location("formulas", ROOT / "documentation" / "formulas.py")
formulas = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(formulas)

SYMBOL = re.compile(r"[\u0370-\u03ff\u2070-\u209f\u2190-\u22ff²³¹*×±]")
"""A Greek letter, an index or exponent, an arrow or an operator."""


def html_of(text: str) -> str:
    """A page as the site has it."""
    made = formulas.on_page_markdown(text)
    return markdown.markdown(made, extensions=["tables", "fenced_code", "admonition"])


def swallowed(html: str) -> list[str]:
    """What is emphasised and has a symbol in it, or begins or ends in the middle of a formula."""
    found = re.findall(r"<em>(.*?)</em>", html, re.DOTALL)
    return [
        one
        for one in found
        if one.count("(") != one.count(")") or not re.match(r"[\w“\"(<]", one) or SYMBOL.search(one)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_symbol_stands_inside_emphasis(page):
    text = page.read_text(encoding="utf-8")
    html = html_of(text)
    assert not swallowed(html)
    formulas_there = re.findall(r"<math.*?</math>", html, re.DOTALL)
    for formula in formulas_there:
        ElementTree.fromstring(formula)
    prose = re.sub(r"<(pre|code|math)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert not re.search(r"\\[a-z]+|θ\*", prose), "LaTeX, or a star, that is no formula"
    assert len(formulas_there) >= text.count("```math")
    for block in re.findall(r"^```text\n(.*?)^```", text, re.M | re.S):
        assert not re.search("[θΣΞκ←]", block), "a formula in a grey box; fence it as math"


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.html")), ids=lambda page: page.stem)
def test_no_symbol_stands_inside_emphasis_of_a_page_that_is_html(page):
    assert not swallowed(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "words", ["ψ is not tiny.", "Pure ε.", "a small ε", "With δ.", "θ∗", "2⁶⁴", "n₁", "x ≤ 1", "k → ∞"]
)
def test_a_symbol_inside_emphasis_is_seen(words):
    assert swallowed(html_of(f"- *{words}* Then more."))


def test_a_lost_star_is_seen():
    assert swallowed(html_of("ψ = f(θ)/f(θ*) − 1, where θ* is the best model"))
    assert not swallowed(html_of(r"$ψ = f(θ)/f(θ^\star) - 1$, where $θ^\star$ is *the best* model"))


def test_code_and_prices_are_no_formulas():
    for text in ("`$HOME/$USER`", "```sh\necho $A $B\n```", "it costs $5, or $6"):
        assert formulas.on_page_markdown(text) == text
    assert "<msup>" in formulas.on_page_markdown("```math\nx^2\ny\n```\n")

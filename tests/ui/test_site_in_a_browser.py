"""The site of the documentation as people open it from their disk: it shows, it searches, it asks nobody for anything."""

import subprocess
import sys
from pathlib import Path

import pytest

from ui.conftest import Visitor

pytestmark = pytest.mark.browser


def test_search_works_from_the_disk(browser, tmp_path):
    pytest.importorskip("mkdocs")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(build, cwd=Path(__file__).parents[2], check=True)
    visitor = Visitor(browser, f"{tmp_path.as_uri()}/?token=none")
    try:
        page = visitor.page
        page.goto((tmp_path / "how-to" / "estimators.html").as_uri())  # a page that is not at the top of the folder
        page.locator("input.md-search__input").fill("Laplace")
        page.locator(".md-search-result__item a").first.wait_for()
        assert "laplace" in page.locator(".md-search-result__list").inner_text().lower()
        assert visitor.complaints == []
    finally:
        visitor.context.close()

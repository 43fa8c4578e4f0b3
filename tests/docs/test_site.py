"""The site: every page has a place in it, every public name is in the reference, notebooks say what they said."""

import doctest
import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

import copriv

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def loaded(name):
    """A file of documentation/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "documentation" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_navigation():
    tabs = loaded("nav").nav(DOCS)
    pages = [page for tab in tabs for value in tab.values() for page in ([value] if isinstance(value, str) else value)]
    assert {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} <= set(pages)
    assert len(pages) == len(set(pages))
    assert [next(iter(tab)) for tab in tabs[:5]] == ["copriv", "Tutorial", "How to", "Reference", "Explanation"]


def test_a_page_without_a_part_is_an_error(tmp_path):
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / "page.md").write_text("# Lost")
    with pytest.raises(ValueError, match=r"lost/page\.md"):
        loaded("nav").nav(tmp_path)


def documented():
    pages = [DOCS / "reference" / name for name in ("python.md", "python-parts.md")]
    return {line.split()[1] for page in pages for line in page.read_text("utf-8").splitlines() if line[:4] == "::: "}


@pytest.mark.parametrize("package", ["copriv", "copriv.estimators", "copriv.forecast"])
def test_every_public_name_is_in_the_reference(package):
    package, there = importlib.import_module(package), documented()
    for name in set(package.__all__) - {"__version__"}:
        value = getattr(package, name)
        assert f"{value.__module__}.{name}" in there, f"add `::: {value.__module__}.{name}` to docs/reference"


def test_the_reference_names_nothing_that_is_not_there():
    for name in documented():
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last), name


def test_every_public_name_has_an_example_that_runs():
    """pytest runs them: `--doctest-modules` over src, with what src/conftest.py lets them begin with."""
    names = documented() | {
        f"{getattr(copriv, name).__module__}.{name}" for name in set(copriv.__all__) - {"__version__"}
    }
    without = []
    for name in sorted(names):
        module, _, last = name.rpartition(".")
        examples = doctest.DocTestParser().get_examples(getattr(importlib.import_module(module), last).__doc__ or "")
        if not examples or any(doctest.SKIP in example.options for example in examples):
            without.append(name)
    assert not without, f"give each an example in its docstring: {without}"
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert "--doctest-modules" in options["addopts"]
    assert "src" in options["testpaths"]


def test_charts_are_drawn_without_another_machine():
    """Mermaid's own way is a script from elsewhere; without it a chart would be text."""
    page = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    made = loaded("charts").on_page_markdown(page)
    assert "```mermaid" not in made
    (svg,) = re.findall(r"<svg.*?</svg>", made, flags=re.S)
    root = ElementTree.fromstring(svg)
    rooms = [line for line in page.splitlines() if re.match(r'    \w+[\[(]"', line)]
    assert len([one for one in root if one.tag == "text"]) == len(rooms)
    assert len([one for one in root if one.tag == "path"]) == page.count(" --> ")
    with pytest.raises(ValueError, match=re.escape("a -->|b| c")):
        loaded("charts").drawn('flowchart TB\n    a["<x>"]\n    a -->|b| c\n')
    assert "&lt;x&gt;" in loaded("charts").drawn('flowchart TB\n    a["<x>"]\n')


def test_the_first_page_is_one_picture_and_five_lines():
    first = (DOCS / "index.md").read_text(encoding="utf-8")
    assert len(re.findall(r"!\[", first)) == 1
    assert len(re.findall(r"^\d\. ", first, flags=re.M)) == 5


def test_the_site_takes_nothing_from_another_machine():
    configured = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in configured
    assert "- offline" in configured
    assert "http" not in configured


def test_badges_of_the_readme_are_true():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    said = {path.stem: path.read_text("utf-8") for path in (DOCS / "pictures").glob("badge-*.svg")}
    versions = [c.split(" :: ")[-1] for c in project["project"]["classifiers"] if "Python :: 3." in c]
    assert f"{versions[0]} to {versions[-1]}" in said["badge-python"]
    assert project["project"]["license"] in said["badge-licence"]
    assert project["tool"]["mypy"]["strict"]
    assert "mypy --strict" in said["badge-typed"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"docs/pictures/(badge-\w+)\.svg", readme)) == set(said)
    assert "shields.io" not in readme, "a badge of a service that nobody runs"


@pytest.mark.slow
def test_the_site_builds_strictly_and_works_offline(tmp_path):
    pytest.importorskip("mkdocs")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        html = page.read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|img|iframe)[^>]*?src="(https?://[^"]+)"', html)
        fetched += re.findall(r'<link[^>]*rel="(?:stylesheet|preconnect|icon)"[^>]*href="(https?://[^"]+)"', html)
        assert not fetched, (page.name, fetched)
        emphasised = re.findall(r"<em>(.*?)</em>", html, re.DOTALL)
        assert all(one.count("(") == one.count(")") for one in emphasised), (page.name, "stars of docstrings")
        assert not [one for one in emphasised if re.search(r"[\u0370-\u03ff*∗]", one)], (page.name, "a symbol")
    assert (tmp_path / "site" / "search" / "search_index.js").is_file(), "search works from the disk"


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("name", ["coordinator", "engineer", "researcher"])
def test_a_notebook_says_what_it_said(name, tmp_path):
    notebooks = loaded("notebooks")
    path = DOCS / "notebooks" / f"{name}.ipynb"
    kept = notebooks.nbformat.read(path, as_version=4)
    assert notebooks.results(notebooks.executed(path, tmp_path)) == notebooks.results(kept)
    assert any(cell.outputs for cell in kept.cells if cell.cell_type == "code")

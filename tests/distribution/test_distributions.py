"""What is in the wheel and in the source, and nothing else: code, its data, licences; no test, no stray file."""

import email
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGE = ROOT / "src" / "copriv"
PLUG_IN = ROOT / "papers"
GALLERY = ROOT / "docs" / "gallery"
"""Pictures and verdicts, which `copriv ui` shows."""
MOST = 3_000_000
"""Bytes of either file: ten times what code and table come to would mean that something strayed in."""


def tracked(folder):
    """What git knows below a folder, and what is new there and not ignored: what the package should hold."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", str(folder)]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return {name for name in names if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def wheel(distributions):
    with zipfile.ZipFile(distributions.wheel) as opened:
        yield opened


@pytest.fixture(scope="module")
def source(distributions):
    with tarfile.open(distributions.source) as opened:
        yield {member.name.split("/", 1)[1]: member for member in opened.getmembers() if member.isfile()}


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    figures = {name.replace("docs/gallery/", "copriv/ui/figures/") for name in tracked(GALLERY)}
    assert held == {name.removeprefix("src/") for name in tracked(PACKAGE)} | figures


@pytest.mark.parametrize(
    "name",
    [
        "copriv/py.typed",
        "copriv/__init__.pyi",
        "copriv/cli/commands/agreement.toml",
        "copriv/cli/commands/demo.toml",
        "copriv/data/embedded/lending_club_9857.parquet",
        "copriv/data/embedded/LICENSE",
        "copriv/ui/static/style.css",
        "copriv/ui/templates/base.html",
        "copriv/ui/texts/en.json",
        "copriv/ui/figures/sync-fig2.png",
        "copriv/ui/figures/verdicts.json",
    ],
)
def test_what_the_package_cannot_do_without_is_in_the_wheel(wheel, name):
    assert name in wheel.namelist()


def test_the_source_holds_what_builds_the_wheel_and_nothing_else(source):
    beside = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "PKG-INFO", ".gitignore"}
    assert set(source) == tracked(PACKAGE) | tracked(GALLERY) | beside


def test_the_papers_plug_in_holds_its_package_and_nothing_else(papers):
    package = tracked(PLUG_IN / "src")
    with zipfile.ZipFile(papers.wheel) as opened:
        held = {name for name in opened.namelist() if ".dist-info/" not in name}
    assert held == {name.removeprefix("papers/src/") for name in package}
    assert "copriv_papers/py.typed" in held
    with tarfile.open(papers.source) as opened:
        source = {member.name.split("/", 1)[1] for member in opened.getmembers() if member.isfile()}
    beside = {"README.md", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore"}
    assert source == {name.removeprefix("papers/") for name in package} | beside


def test_neither_holds_a_test_a_cache_or_a_file_that_nobody_expects(wheel, source):
    for name in [*wheel.namelist(), *source]:
        assert not any(part in name for part in ("test", "__pycache__", ".pyc", ".venv", "benchmark")), name
        assert not name.endswith((".csv", ".db", ".ledger", ".pem", ".log")), name


def test_they_are_small(distributions):
    for path in (distributions.wheel, distributions.source):
        assert path.stat().st_size < MOST


def test_licences_travel_with_it(wheel):
    info = next(name for name in wheel.namelist() if name.endswith("METADATA"))
    metadata = email.message_from_bytes(wheel.read(info))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE", "src/copriv/data/embedded/LICENSE"]
    folder = info.replace("METADATA", "licenses/")
    assert wheel.read(folder + "LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert b"MIT" in wheel.read(folder + "src/copriv/data/embedded/LICENSE")


def test_the_metadata_says_what_pyproject_says(wheel):
    metadata = email.message_from_bytes(wheel.read(next(n for n in wheel.namelist() if n.endswith("METADATA"))))
    assert metadata["Version"] == PROJECT["version"]
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert metadata.get_payload().startswith("# copriv")


def test_an_index_would_take_all(distributions, papers):
    uploaded = [str(path) for each in (distributions, papers) for path in (each.wheel, each.source)]
    check = [sys.executable, "-m", "twine", "check", "--strict", *uploaded]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_dependency_has_a_lower_bound():
    plug_in = tomllib.loads((PLUG_IN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for project in (PROJECT, plug_in):
        extras = [one for extra in project["optional-dependencies"].values() for one in extra]
        for requirement in [*project["dependencies"], *extras]:
            assert ">=" in requirement or requirement.startswith(("copriv[", "copriv==")), requirement

"""What copriv asks of this plug-in, and what it says where the plug-in is not installed."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import copriv_papers
from copriv.errors import InvalidInput
from copriv.ui import gallery
from copriv_papers.live import LIVE

ROOT = Path(__file__).parents[2]
PRODUCT, PLUG_IN = (
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in (".", "papers")
)


NOT_INSTALLED = """
import importlib.metadata, sys
importlib.metadata.entry_points = lambda **_: ()
sys.modules["copriv_papers"] = None
"""
"""As where pip installed copriv alone; tests/distribution does just that, in minutes."""


@pytest.mark.parametrize("arguments", [[], ["--list"], ["async-fig3", "--quick"], ["--help"]])
def test_without_it_the_command_says_how_to_install_it(arguments: list[str]) -> None:
    code = f"{NOT_INSTALLED}\nfrom copriv.cli import main; main({['reproduce', *arguments]})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install copriv-papers" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_it_the_help_names_the_command_all_the_same() -> None:
    code = f"{NOT_INSTALLED}\nfrom copriv.cli import main; main(['--help'])"
    assert (
        "reproduce" in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    )


def test_without_it_the_gallery_shows_every_figure_and_says_what_runs_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "entry_points", lambda **_: ())
    shown = gallery.Gallery().figures()
    assert len(shown["figures"]) == len((*copriv_papers.FIGURES, *copriv_papers.BEYOND))
    assert all(one["claim"] and one["picture"] for one in shown["figures"])
    assert shown["live"] == []
    with pytest.raises(InvalidInput, match="pip install copriv-papers"):
        gallery.transient("sync-fig2", 1.0)


def test_transients_of_every_data_set_can_be_run() -> None:
    figures = gallery.Gallery().figures()
    assert figures["live"] == list(LIVE)
    shown = {figure["id"] for figure in figures["figures"] if "against the" in figure["title"]}
    assert shown >= set(LIVE) == {"sync-fig2", "sync-fig7", "async-fig2", "async-fig7"}


@pytest.mark.parametrize("epsilon", [0, -1, None, "1", True, float("nan"), 1e99])
def test_a_transient_of_no_epsilon_is_refused(epsilon: object) -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        gallery.transient("sync-fig2", epsilon)


def test_a_transient_of_another_figure_is_refused() -> None:
    with pytest.raises(InvalidInput, match="copriv reproduce async-fig3"):
        gallery.transient("async-fig3", 1.0)


def test_it_is_of_the_same_version_and_licence_as_copriv() -> None:
    assert PLUG_IN["version"] == PRODUCT["version"]
    assert PLUG_IN["requires-python"] == PRODUCT["requires-python"]
    assert f"copriv=={PRODUCT['version']}" in PLUG_IN["dependencies"]
    assert (ROOT / "papers" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_it_uses_the_rooms_of_copriv_that_its_readme_names() -> None:
    """Private names of a module are never among them."""
    named = set((ROOT / "papers" / "README.md").read_text(encoding="utf-8").split("it uses ")[1].split("`")[1::2])
    source = Path(copriv_papers.__file__).parent
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in source.rglob("*.py")]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if (node.module or "").partition(".")[0] == "copriv"]
    used = {
        (node.module or "") if node.module != "copriv" else f"copriv.{one.name}" for node in ours for one in node.names
    }
    assert {".".join(module.split(".")[:2]) for module in used} == named
    assert not [
        one.name for node in ours for one in node.names if one.name.startswith("_") and not one.name.endswith("__")
    ]

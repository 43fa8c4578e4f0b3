"""The tools around the code: the commit hook runs the integration server's own command, and editors agree with ruff."""

import configparser
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_a_commit_runs_what_make_lint_runs() -> None:
    clientlib = pytest.importorskip("pre_commit.clientlib")
    hooks = [
        hook for repo in clientlib.load_config(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]
    ]
    assert [(hook["entry"], hook["pass_filenames"]) for hook in hooks] == [("make lint", False)]
    assert "\nlint: setup\n" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_editors_break_lines_where_the_formatter_does() -> None:
    editor = configparser.ConfigParser()
    editor.read_string("[top]\n" + (ROOT / ".editorconfig").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert int(editor["*"]["max_line_length"]) == project["tool"]["ruff"]["line-length"]

"""Nobody but a rule's own file and the agreement compares rule names: the files that hold one in a string are counted."""

import ast
import re
from pathlib import Path

import copriv
from copriv import rules

SOURCE = Path(copriv.__file__).parent
NAME = re.compile(rf"\b({'|'.join(rule.name for rule in rules.ALL)})\b")
MAY = ("rules/", "agreement/", "terms/")


def strings(tree: ast.AST) -> list[str]:
    """Every string of a module but those that stand by themselves, as docstrings and notes on a value do."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone]
    return [node.value for node in found if isinstance(node.value, str)]


def naming(source: Path) -> list[str]:
    """Files that hold a rule's name as a word of a string."""
    files = {path.relative_to(source).as_posix(): path for path in source.rglob("*.py")}
    return [
        place
        for place, path in files.items()
        if any(NAME.search(text) for text in strings(ast.parse(path.read_text(encoding="utf-8"))))
    ]


def test_rules_are_named_in_their_own_package_only() -> None:
    assert [place for place in naming(SOURCE) if not place.startswith(MAY)] == []


def test_the_count_finds_a_name_and_passes_over_docstrings(tmp_path: Path) -> None:
    (tmp_path / "compares.py").write_text('def f(rule):\n    return rule in ("S1", "S2")\n')
    (tmp_path / "says.py").write_text('def f(rule):\n    return "the step of A2"\n')
    (tmp_path / "tells.py").write_text('"""Of A2."""\nx = 1\n"""In A1."""\ny = "SA1"\n')
    assert sorted(naming(tmp_path)) == ["compares.py", "says.py"]

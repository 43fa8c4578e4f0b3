"""Names of kinds stand in their own rooms: nobody else compares them."""

import ast
from functools import cache
from pathlib import Path

from copriv import mechanisms

SOURCE = Path(mechanisms.__file__).parents[1]


@cache
def strings_in_use(path: Path) -> set[str]:
    """String constants of a file, but for docstrings: strings that stand alone as a statement."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone
    }


def files_that_name(names: set[str], *rooms: str) -> list[str]:
    """Files outside these rooms in which one of the names is a string in use."""
    paths = ((path, path.relative_to(SOURCE).as_posix()) for path in sorted(SOURCE.rglob("*.py")))
    return [short for path, short in paths if not short.startswith(rooms) and names & strings_in_use(path)]


def test_nobody_compares_the_names_of_mechanisms() -> None:
    names = {mechanism.name for mechanism in mechanisms.ALL}
    assert files_that_name(names, "mechanisms/", "agreement/", "terms/") == []
    assert "terms/learning.py" in files_that_name(names, "mechanisms/"), (
        "the default stands there: this test sees names"
    )

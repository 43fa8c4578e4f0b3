"""What the examples in docstrings begin with: the first block of docs/reference/python.md, run once."""

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "python.md"


@pytest.fixture(scope="session")
def _begun():
    """The names that the page's first block makes."""
    names = {}
    first = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    for example in doctest.DocTestParser().get_examples(first):
        exec(compile(example.source, str(PAGE), "exec"), names)
    return names


@pytest.fixture(autouse=True)
def _beginning(request):
    """A doctest that speaks of one of these names gets them all; others do not wait for them."""
    wanted = getattr(request.node, "dtest", None)
    if wanted is None:
        return
    used = {name for example in wanted.examples for name in compile(example.source, "example", "single").co_names}
    if used & {"copriv", "agreement", "data", "public", "outlook", "result"} - set(wanted.globs):
        wanted.globs.update(request.getfixturevalue("_begun"))

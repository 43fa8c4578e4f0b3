"""Shapes in signatures are checked while tests run: the hook must be installed before the packages are imported."""

import importlib.util
import os

import hypothesis
import pytest
from jaxtyping import install_import_hook

import runtime_types

os.environ.setdefault("OMP_NUM_THREADS", "2")

hypothesis.settings.register_profile("copriv", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("copriv")

install_import_hook(["copriv", "copriv_papers"], "runtime_types.check")

# The pages' pictures need Playwright, which only `make test-ui` and `make pictures-ui` install.
if importlib.util.find_spec("playwright") is None:
    collect_ignore = ["ui/pictures.py"]


@pytest.fixture(autouse=True)
def _types_are_checked_again() -> None:
    """In each test the first calls of every function; see runtime_types."""
    runtime_types.again()

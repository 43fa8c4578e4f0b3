"""Shapes in signatures are checked while tests run: the hook must be installed before copriv is imported."""

import importlib.util
import os

import hypothesis
from jaxtyping import install_import_hook

os.environ.setdefault("OMP_NUM_THREADS", "2")

hypothesis.settings.register_profile("copriv", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("copriv")

install_import_hook("copriv", "runtime_types.check")

# The pages' pictures need Playwright, which only `make test-ui` and `make pictures-ui` install.
if importlib.util.find_spec("playwright") is None:
    collect_ignore = ["ui/pictures.py"]

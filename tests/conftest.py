"""Shapes in signatures are checked while tests run: the hook must be installed before the packages are imported."""

import importlib.util
import os

# Before numpy is imported. OpenBLAS takes other kernels on another processor, whose last bits a long run with clipping makes
# 1e-8 of its result: with these, which any x86-64 processor of ten years has, frozen digits are the same on all of them.
os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # `make test` runs a process for each core

import hypothesis
import pytest

import runtime_types

hypothesis.settings.register_profile("copriv", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("copriv")

if os.environ.get("JAXTYPING_DISABLE") != "1":  # which the oldest jaxtyping obeys for functions, not for dataclasses
    runtime_types.install("copriv", "copriv_papers")

# The pages' pictures need Playwright, which only `make test-ui` and `make pictures-ui` install.
if importlib.util.find_spec("playwright") is None:
    collect_ignore = ["ui/pictures.py"]


@pytest.fixture(autouse=True)
def _types_are_checked_again() -> None:
    """In each test the first calls of every function; see runtime_types."""
    runtime_types.again()

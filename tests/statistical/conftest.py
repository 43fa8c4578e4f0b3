"""What the statistical tests share."""

from collections.abc import Iterator

import jaxtyping
import pytest


@pytest.fixture(scope="module")
def unchecked_shapes() -> Iterator[None]:
    """Shapes are not checked at run time: with hundreds of thousands of small answers that takes most of the time."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)

"""Limit linear algebra to one thread where its products are too small for several.

Threads wait for each other by spinning: θ* of 5,000 records with 60 features takes 20 times the processor time with two
threads that it takes with one, and more time by the clock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def one_thread(size: int = 0) -> Iterator[None]:
    """Give BLAS one thread within a block or a decorated function, unless the table has 2,000,000 numbers or more.

    size: numbers in the table.
    """
    if size >= 2_000_000:
        yield
    else:
        with _controller().limit(limits=1, user_api="blas"):
            yield


@cache
def _controller() -> Any:
    # Finding the loaded libraries takes as long as a small simulation, so it is done once, and imported when first needed.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

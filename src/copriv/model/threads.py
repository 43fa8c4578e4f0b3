"""One thread for linear algebra whose products are too small for several.

Several wait for each other by spinning: θ* of 5,000 records of 60 features takes 20 times the processor's time with two
threads that it takes with one, and longer by the clock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def one_thread(size: int = 0) -> Iterator[None]:
    """Give BLAS one thread within a block, or a function that this decorates; leave a table of 2,000,000 numbers as it is.

    size: numbers in the table that is worked on.
    """
    if size >= 2_000_000:
        yield
    else:
        with _controller().limit(limits=1, user_api="blas"):
            yield


@cache
def _controller() -> Any:
    # Finding the loaded libraries takes as long as a small simulation; importing what finds them is for those who compute.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

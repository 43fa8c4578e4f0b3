"""One thread for linear algebra whose products are too small for several.

Several wait for each other by spinning: θ* of 5,000 records of 60 features takes 20 times the processor's time with two
threads that it takes with one, and longer by the clock.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

SMALL = 2_000_000
"""Size of a table, in numbers, below which one thread is used."""


def one_thread(size: int = 0) -> AbstractContextManager[Any]:
    """Within it, BLAS takes one thread; for a table of `size` numbers, only where that is small."""
    return _controller().limit(limits=1, user_api="blas") if size < SMALL else nullcontext()


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """The function with its linear algebra on one thread."""

    @wraps(function)
    def within(*args: P.args, **kwargs: P.kwargs) -> R:
        with one_thread():
            return function(*args, **kwargs)

    return within


@cache
def _controller() -> Any:
    # Finding the loaded libraries takes as long as a small simulation; importing what finds them is for those who compute.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

"""The type checker that runs inside copriv's functions while tests run: beartype, an int being a float as in typing.

A check costs more than many a small function, and to build one costs a millisecond. So a checker is built when its
function is first called, once for a function that another one defines again and again; and in one test each function is
checked in its first calls only: what a loop calls for the thousandth time has the types of the first.
"""

import functools
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype

CALLS = 50
"""Checked in one test, of each function."""

_calls: Counter[Any] = Counter()
_checkers: dict[Any, Callable[..., Any]] = {}
_trusted: list[Any] = []


def check(signature: Callable[..., Any]) -> Callable[..., Any]:
    """What jaxtyping asks of a checker: a function of this signature that raises where an argument is of another type."""
    module, name = signature.__module__, signature.__qualname__
    one = module, name, signature.__code__.co_varnames  # the check of what is returned has a name more

    @functools.wraps(signature)
    def checked(*args: Any, **kwargs: Any) -> None:
        _calls[one] += 1
        if _calls[one] > CALLS:
            _trust(module, name)
            return
        if one not in _checkers:
            _checkers[one] = beartype(conf=BeartypeConf(is_pep484_tower=True))(signature)
        _checkers[one](*args, **kwargs)

    return checked


def again() -> None:
    """Another test begins: every function is checked again."""
    _calls.clear()
    while _trusted:
        del _trusted.pop().__no_type_check__


def _trust(module: str, name: str) -> None:
    """Until the next test: jaxtyping leaves functions alone that carry this mark. One inside another cannot be found."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    found = getattr(found, "__func__", getattr(found, "fget", found))
    if getattr(found, "__wrapped__", None) is not None and "__no_type_check__" not in found.__dict__:
        found.__no_type_check__ = True
        _trusted.append(found)

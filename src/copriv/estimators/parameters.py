"""Numbers that a caller gives to an estimator: checked, and refused, by the names of its own parameters.

The agreement would refuse them too, by names of its own ("owner.0.epsilon") that whoever calls `fit` never wrote.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from copriv.errors import AgreementError, InvalidInput
from copriv.formatting.sanitize import printable
from copriv.mechanisms.objective_noise import LARGEST_DELTA
from copriv.terms.values import Budget, NonNegative, Positive
from copriv.validation import positive


def number(name: str, value: Any, owner: str | None = None) -> float:
    """Convert a parameter to a float; where a mapping by owner is allowed, that of `owner`. Raises InvalidInput."""
    if owner is not None and isinstance(value, dict):
        if owner not in value:
            raise InvalidInput(f"{name}: says nothing of owner {owner!r}; give every owner's, or one number for all")
        value = value[owner]
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise InvalidInput(f"{name}: must be a number, not {printable(repr(value), 60)}")
    return float(value)


def budget(epsilon: Any, delta: Any, owner: str) -> dict[str, float]:
    """ε and δ of one owner. Raises InvalidInput."""
    return {
        "epsilon": _within(Budget, "epsilon", epsilon, "it is the privacy budget of one fit, such as 1.0", owner),
        "delta": _between(
            (0.0, LARGEST_DELTA), "delta", delta, "give 0, or a number far below one over the rows, such as 1e-6", owner
        ),
    }


def strength(regularization: Any) -> float:
    """c of (c/2)‖θ‖². Raises InvalidInput."""
    return _within(NonNegative, "regularization", regularization, "give 0, or a small number such as 1e-5")


def kink(threshold: Any, unit: float) -> float:
    """Where the Huber loss turns straight, in units of half the target's range. Raises InvalidInput."""
    scaled = positive("threshold", number("threshold", threshold)) / unit
    _within(Positive, "threshold / half the width of target_bounds", scaled, "measure the target in another unit")
    return scaled


def length(name: str, value: Any) -> float:
    """A bound on the length of rows. Raises InvalidInput."""
    return _within(Positive, name, value, "it bounds the length of rows whose columns are in [−1, 1]")


@contextmanager
def in_the_callers_words(rows: int) -> Iterator[None]:
    """Tell what the agreement refuses in words of the estimator's parameters; rows: how many the smallest owner has."""
    try:
        yield
    except InvalidInput as error:
        path, _, said = str(error).partition(": ")
        key = path.partition(" of ")[0].rpartition(".")[2]
        if key in ("delta", "epsilon", "threshold", "regularization", "feature_bound"):
            raise InvalidInput(f"{key}: {said}") from None
        if key == "name":
            raise InvalidInput(f"owners: a label {said}") from None
        if not isinstance(error, AgreementError) and path != "noise":
            raise type(error)(str(error).replace("model.regularization", "regularization")) from None
        raise InvalidInput(
            "epsilon: too little for these rows: no model can be fitted privately from an owner of "
            f"{rows} rows with these epsilon, regularization, feature_bound, row_norm and threshold; raise epsilon, give "
            "owners more rows, or leave the others as they are by default"
        ) from None


def _within(kind: Any, name: str, value: Any, remedy: str, owner: str | None = None) -> float:
    """A number within the limits that a type of the agreement states."""
    limits = TypeAdapter(kind).json_schema()
    return _between((limits["minimum"], limits["maximum"]), name, value, remedy, owner)


def _between(limits: tuple[float, float], name: str, value: Any, remedy: str, owner: str | None = None) -> float:
    given, (least, most) = number(name, value, owner), limits
    if not least <= given <= most:
        whose = f" of owner {owner!r}" if isinstance(value, dict) else ""
        raise InvalidInput(f"{name}{whose}: must be from {least:g} to {most:g}, not {given!r}; {remedy}")
    return given

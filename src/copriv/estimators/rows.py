"""The private rows of a fit before an owner has them: their kinds, whose each one is, and messages without their values."""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse

from copriv.errors import InvalidInput
from copriv.formatting.sanitize import label
from copriv.model.records import Records, labels_of

DENSE = 2**30
"""Bytes of a sparse table made dense, at most: owners read dense rows, and a fit holds a few copies of them."""

NO_NUMBER = (
    'X or y: a cell cannot be read as a number; declare the levels of a column of texts, such as categories={"place": '
    '("town", "country")} (a value is not quoted here)'
)


def dense(X: Any) -> Any:
    """A table of which all cells are stored. Raises InvalidInput for a sparse one that would take more than `DENSE`."""
    if not issparse(X):
        return X
    rows, columns = X.shape
    if 8 * rows * columns > DENSE:
        raise InvalidInput(
            f"X: a sparse table of {rows:,} rows and {columns:,} columns takes {8 * rows * columns / 2**30:.3g} GiB when all "
            f"its cells are stored, which a private fit needs; at most {DENSE / 2**30:g} GiB is taken. Give fewer columns, or "
            "an array of your own making"
        )
    return X.toarray()


def has_days(given: Any) -> bool:
    table = nw.from_native(given, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(table, nw.DataFrame):
        return any(kind.is_temporal() for kind in table.schema.values())
    with suppress(ValueError):  # rows of several lengths, of which scikit-learn says more
        return np.asarray(given).dtype.kind in "mM"
    return False


def whose_rows(owners: Any, rows: int) -> Mapping[str, Any]:
    """The rows of each owner. Who the owners are, and whose row each one is, is public."""
    if owners is None:
        return {"owner": np.arange(rows)}
    given = labels_of("owners", owners)
    if len(given) != rows:
        raise InvalidInput(f"owners: needs one label for each of the {rows} rows")
    labels = np.array([label(one) for one in given])
    return {str(name): np.flatnonzero(labels == name) for name in np.unique(labels)}


def shares_of(weights: Any, cap: float, rows: int) -> Any:
    """weight/cap of each row, at most 1. Raises InvalidInput, which quotes no weight."""
    given = None
    with suppress(
        ArithmeticError, TypeError, ValueError
    ):  # raised below, so that no context of the error quotes a weight
        given = np.asarray(weights, dtype=np.float64)
    if given is None:
        raise InvalidInput("sample_weight: must be numbers, one for each row")
    if given.shape != (rows,):
        raise InvalidInput(f"sample_weight: needs one number for each of the {rows} rows, not shape {given.shape}")
    if not (np.isfinite(given) & (given >= 0)).all():
        raise InvalidInput("sample_weight: every weight must be finite, and 0 or more")
    with np.errstate(all="ignore"):  # a warning would tell of single rows
        return np.minimum(given / cap, 1.0)


def with_level(x: Any, level: int) -> Any:
    """The rows with `level` columns of ones behind."""
    return np.column_stack([x, np.ones((len(x), level))])


def repeated(owners: Iterable[str], parts: Iterable[Records]) -> list[str]:
    """The owners whose every row is also another owner's."""
    rows = [{row.tobytes() for row in np.column_stack([part.features, part.target])} for part in parts]
    times = Counter(chain.from_iterable(rows))
    return [name for name, mine in zip(owners, rows, strict=True) if all(times[row] > 1 for row in mine)]


def without_values(message: str) -> str:
    """A message of scikit-learn or NumPy without the cells that it quotes."""
    if "Complex data not supported" in message:
        return "Complex data not supported"
    if "could not be promoted" in message:
        return "X: columns of kinds that do not go together, such as days beside numbers; make them numbers before"
    before, quoted, after = message.partition("array=")
    if quoted:  # all of X, where it is of one dimension
        advice = after[after.rindex("Reshape") :] if "Reshape" in after else ""
        return f"{before.strip().rstrip(':')}. {advice}".rstrip()
    for start in ("could not convert", "invalid literal", "Unable to convert"):
        if start in message:
            return NO_NUMBER
    return message

"""Make a schema of the agreement's [data] table.

    features = ["age", "smoker", "stage", "county", "admitted"]
    target = "days"
    bounds = {age = [0, 110], days = [0, 120]}      numbers
    booleans = ["smoker"]                           true or false
    categories = {stage = ["I", "II", "III"], county = ["Kent", "Surrey"]}
    ordered = ["stage"]                             levels that stand in order; the others are one feature a level
    dates = {admitted = ["2020-01-01", "2024-12-31"]}
    missing = {stage = "I", age = 50}               what a missing value counts as
    scales = {age = "centred"}                      "size", "centred" or "log"
    clamp = ["days"]                                out of bounds counts as the nearest bound

Two levels of a target's category are its classes: the first becomes −1, the second +1.
"""

from collections.abc import Mapping
from datetime import date
from typing import Any

from copriv.data.columns import Boolean, Category, Column, Date, Number, Target, TwoClasses
from copriv.data.schema import Schema
from copriv.errors import AgreementError, DataError

KINDS = ("bounds", "categories", "booleans", "dates")
"""Each column is declared by exactly one of these keys."""
_EXAMPLES = {
    "bounds": "[low, high]",
    "categories": "two or more levels",
    "booleans": "its name",
    "dates": "the first and the last day, such as 2020-01-01",
}


def declared_schema(data: Mapping[str, Any]) -> Schema:
    """The schema that [data] declares. Raises AgreementError with all that is wrong, each with its field path."""
    features, target = data.get("features"), data.get("target")
    if not features or isinstance(features, str):
        raise AgreementError('data.features: a table needs a list of feature columns; write features = ["age", ...]')
    if not isinstance(target, str):
        raise AgreementError('data.target: a table needs a target column; write target = "name"')
    if target in features:
        raise AgreementError(f"data.features: the target {target!r} is among the features; take it out")
    problems = [
        f"data.{key}.{name}: neither a feature nor the target; add it to data.features"
        for key in (*KINDS, "missing", "ordered", "scales", "clamp")
        for name in data.get(key) or ()
        if name != target and name not in features
    ]
    twice = {name for name in features if list(features).count(name) > 1}
    problems += [f"data.features: {name!r} stands twice; name each column once" for name in sorted(twice)]
    columns: list[Column] = []
    for name in dict.fromkeys(features):
        try:
            columns.append(_column(name, data))
        except AgreementError as error:
            problems.append(str(error))
    try:
        about = _target(target, data)
    except AgreementError as error:
        problems.append(str(error))
    if problems:
        raise AgreementError.of(problems)
    return Schema(tuple(columns), about, data.get("unit"))


def _kind(name: str, data: Mapping[str, Any]) -> str:
    """The key that declares a column. Raises AgreementError unless there is one, and `ordered`, `scales` and `clamp` fit it."""
    kinds = [key for key in KINDS if name in (data.get(key) or ())]
    if len(kinds) != 1:
        have = f"both {kinds[0]} and {kinds[1]}" if kinds else "neither bounds nor categories (nor booleans, nor dates)"
        raise AgreementError(
            f"data.{kinds[0] if kinds else 'bounds'}.{name}: the column has {have}; declare exactly one of them"
        )
    for key, fitting in (("ordered", ("categories",)), ("scales", ("bounds",)), ("clamp", ("bounds", "dates"))):
        if name in (data.get(key) or ()) and kinds[0] not in fitting:
            raise AgreementError(
                f"data.{key}.{name}: the column is declared by {kinds[0]}; {key} goes with {fitting[0]}"
            )
    return kinds[0]


def _column(name: str, data: Mapping[str, Any]) -> Column:
    kind = _kind(name, data)
    missing = (data.get("missing") or {}).get(name)
    try:
        match kind:
            case "bounds":
                return _number(name, data, missing)
            case "booleans":
                return Boolean(name, None if missing is None else Boolean.truth(name, str(missing)))
            case "dates":
                first, last = (_day(day) for day in data["dates"][name])
                as_missing = None if missing is None else _day(missing)
                return Date(name, first, last, as_missing, clamp=name in (data.get("clamp") or ()))
        levels = tuple(str(level) for level in data["categories"][name])
        return Category(name, levels, missing, ordered=name in (data.get("ordered") or ()))
    except (DataError, TypeError, ValueError) as error:
        said = str(error).removeprefix(f"{name}: ")
        raise AgreementError(f"data.{kind}.{name}: {said}; declare {_EXAMPLES[kind]}") from None


def _day(written: object) -> date:
    """Parse a declared day. Raises DataError."""
    try:
        return date.fromisoformat(str(written))
    except ValueError:
        raise DataError(f"{str(written)!r} is not a day") from None


def _target(name: str, data: Mapping[str, Any]) -> Target:
    kind = _kind(name, data)
    for key in ("missing", "ordered", "scales"):
        if name in (data.get(key) or ()):
            raise AgreementError(f"data.{key}.{name}: the target is taken as it is; leave it out of {key}")
    try:
        if kind == "bounds":
            return _number(name, data, None)
    except (DataError, TypeError, ValueError) as error:
        said = str(error).removeprefix(f"{name}: ")
        raise AgreementError(f"data.bounds.{name}: {said}; declare [low, high]") from None
    if kind != "categories":
        raise AgreementError(f"data.{kind}.{name}: a target is a number (bounds) or one of two classes (categories)")
    levels = tuple(str(level) for level in data["categories"][name])
    if len(levels) != 2:
        raise AgreementError(f"data.categories.{name}: a target takes two classes, not {len(levels)}")
    return TwoClasses(name, *levels)


def _number(name: str, data: Mapping[str, Any], missing: Any) -> Number:
    low, high = data["bounds"][name]
    by = (data.get("scales") or {}).get(name, "size")
    clamp = name in (data.get("clamp") or ())
    try:
        as_missing = None if missing is None else float(missing)
    except ValueError:
        raise AgreementError(
            f"data.missing.{name}: {missing!r} is not a number, and the column's values are; give one within its bounds"
        ) from None
    return Number(name, float(low), float(high), as_missing, clamp=clamp, by=by)

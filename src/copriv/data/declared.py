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

from copriv.data.columns import Boolean, Category, Column, Date, Number, TwoClasses
from copriv.data.schema import Schema
from copriv.errors import AgreementError, DataError

KINDS = {
    "bounds": "[low, high]",
    "categories": "two or more levels",
    "booleans": "its name",
    "dates": "the first and the last day, such as 2020-01-01",
}
"""Each column is declared by exactly one of these keys, with what is said here."""


def declared_schema(data: Mapping[str, Any]) -> Schema:
    """The schema that [data] declares. Raises AgreementError with all that is wrong, each with its field path."""
    features, target = data.get("features"), data.get("target")
    if not features or isinstance(features, str):
        raise AgreementError('data.features: a table needs a list of feature columns; write features = ["age", ...]')
    if not isinstance(target, str):
        raise AgreementError('data.target: a table needs a target column; write target = "name"')
    if target in features:
        raise AgreementError(f"data.features: the target {target!r} is among the features; take it out")
    said = {key: data.get(key) or {} for key in (*KINDS, "missing", "ordered", "scales", "clamp")}
    problems = [
        f"data.{key}.{name}: neither a feature nor the target; add it to data.features"
        for key, names in said.items()
        for name in names
        if name not in (target, *features)
    ]
    twice = {name for name in features if list(features).count(name) > 1}
    problems += [f"data.features: {name!r} stands twice; name each column once" for name in sorted(twice)]
    columns: dict[str, Any] = {}
    for name in dict.fromkeys((*features, target)):
        try:
            columns[name] = _column(name, said, name == target)
        except AgreementError as error:
            problems.append(str(error))
    if problems:
        raise AgreementError.of(problems)
    about = columns.pop(target)
    return Schema(tuple(columns.values()), about, data.get("unit"))


def _column(name: str, said: Mapping[str, Any], target: bool) -> Column:
    """One declared column. Raises AgreementError unless exactly one key declares it, and the other keys fit that one."""
    kinds = [key for key in KINDS if name in said[key]]
    if len(kinds) != 1:
        have = f"both {kinds[0]} and {kinds[1]}" if kinds else "neither bounds nor categories (nor booleans, nor dates)"
        kind = kinds[0] if kinds else "bounds"
        raise AgreementError(f"data.{kind}.{name}: the column has {have}; declare exactly one of them")
    (kind,) = kinds
    for key, fitting in (("ordered", ("categories",)), ("scales", ("bounds",)), ("clamp", ("bounds", "dates"))):
        if name in said[key] and kind not in fitting:
            raise AgreementError(f"data.{key}.{name}: the column is declared by {kind}; {key} goes with {fitting[0]}")
    if target:
        for key in ("missing", "ordered", "scales"):
            if name in said[key]:
                raise AgreementError(f"data.{key}.{name}: the target is taken as it is; leave it out of {key}")
        if kind not in ("bounds", "categories"):
            raise AgreementError(
                f"data.{kind}.{name}: a target is a number (bounds) or one of two classes (categories)"
            )
    try:
        return _made(name, kind, said, target)
    except (DataError, TypeError, ValueError) as error:
        reason = str(error).removeprefix(f"{name}: ")
        raise AgreementError(f"data.{kind}.{name}: {reason}; declare {KINDS[kind]}") from None


def _made(name: str, kind: str, said: Mapping[str, Any], target: bool) -> Column:
    missing, clamp = said["missing"].get(name), name in said["clamp"]
    if kind == "bounds":
        low, high = map(float, said["bounds"][name])
        try:
            counts_as = None if missing is None else float(missing)
        except ValueError:
            raise DataError(f"missing counts as {missing!r}, which is no number; give one within the bounds") from None
        return Number(name, low, high, counts_as, clamp=clamp, by=said["scales"].get(name, "size"))
    if kind == "booleans":
        return Boolean(name, None if missing is None else Boolean.truth(name, str(missing)))
    if kind == "dates":
        first, last = (_day(day) for day in said["dates"][name])
        return Date(name, first, last, None if missing is None else _day(missing), clamp=clamp)
    levels = tuple(str(level) for level in said["categories"][name])
    if not target:
        return Category(name, levels, missing, ordered=name in said["ordered"])
    if len(levels) != 2:
        raise DataError(f"a target takes two classes, not {len(levels)}")
    return TwoClasses(name, *levels)


def _day(written: object) -> date:
    """Parse a declared day. Raises DataError."""
    try:
        return date.fromisoformat(str(written))
    except ValueError:
        raise DataError(f"{str(written)!r} is not a day") from None

"""Turns pydantic's errors into plain words: every fault of an agreement at once, with the owner's name and a remedy."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from copriv.errors import AgreementError
from copriv.formatting.sanitize import printable
from copriv.terms import DataTerms, ModelTerms, OwnerTerms, Terms

_TABLES: dict[str, type[BaseModel]] = {
    "agreement": Terms, "model": ModelTerms, "data": DataTerms, "owner": OwnerTerms,
}  # fmt: skip
_CHECK = re.compile(r"\[|^(float|int|str|bool)$|^(constrained|literal|function)")
"""What pydantic calls a check, in the path of an error."""
_WHOLE = "give a whole number, 1 or more"
_REMEDIES = {
    "agreement.rule": 'name a rule, or "auto" to have one planned',
    "agreement.horizon": "it is how many queries or rounds there are; give a whole number such as 100",
    "agreement.answers": "it is the most answers of one owner; give a whole number, or leave it out",
    "agreement.step": 'give a number, or "auto" to have it planned',
    "agreement.seed": "give a whole number, 0 or more",
    "model.loss": "name a loss, such as squared",
    "model.gradient_bound": 'give a number, or "auto" to have it planned',
    "model.theta_max": "it is how large a parameter may be; give a number such as 100000.0",
    "model.regularization": "give 0, or a small number such as 0.00001",
    "data.components": "give a whole number, or 0 for the features as they are",
    "data.public_rows": _WHOLE,
    "data.bounds": "declare [low, high] for each column",
    "data.dates": "declare the first and the last day of each column, such as 2020-01-01",
    "data.missing": 'say what a missing value counts as: a number, a level, a day, or "yes" or "no"',
    "policy.learner": "give the name on the learner's certificate",
    "policy.highest_epsilon": "it is the most that one run may take; give a number above 0",
    "policy.lifetime_epsilon": "it is the most that all runs may take; give a number above 0",
    "policy.highest_delta": "give 0, or a number far below one over the records",
    "policy.lifetime_delta": "give 0, or a number far below one over the records",
    "policy.least_records": _WHOLE,
    "policy.most_runs": _WHOLE,
    "policy.hours": 'write two times of a day, such as "08:00-18:00"',
    "owner.name": "give every owner a name of its own, in quotes",
    "owner.records": f"it is how many records the owner holds; {_WHOLE}",
    "owner.epsilon": "it is the owner's whole privacy budget; agree on a number such as 1.0",
    "owner.delta": "give 0, or a number far below one over the records, such as 0.000001",
    "owner.overlap": "it is how many owners may hold the same record; give 1 where they share none",
    "owner.key": "it is the SHA-256 of the owner's public key, 64 hexadecimal digits; copriv owner keys prints it",
}


def problems_of(
    errors: Sequence[Mapping[str, Any]], document: Any, tables: Mapping[str, type[BaseModel]] = _TABLES
) -> list[str]:
    """All that the checks of values found, each under its path.

    errors: as pydantic lists them. document: the mapping that was checked. tables: those that it may have.
    """
    by_place: dict[tuple[str | int, ...], list[Mapping[str, Any]]] = {}
    for error in errors:
        given, loc = error["input"], error["loc"]
        listed = error["type"] == "too_short" and isinstance(given, list | tuple)
        if listed and len(given) >= error["ctx"]["min_length"]:
            continue  # the list is too short only because what stands in it is at fault, which is told
        # The path as it stands in the file: without the names of the checks that pydantic puts into it.
        place = (*loc[:2], *(part for part in loc[2:] if not _CHECK.search(str(part))))
        by_place.setdefault(place, []).append(error)
    return [_problem(place, found, document, tables) for place, found in by_place.items()]


def unknown_names(document: Any, lookups: Mapping[tuple[str, str], Callable[[str], Any]]) -> list[str]:
    """Names that stand on no list, where other faults keep the agreement from being looked at as a whole."""
    found = []
    for (table, key), lookup in lookups.items():
        named = document.get(table) if isinstance(document, Mapping) else None
        name = named.get(key) if isinstance(named, Mapping) else None
        if isinstance(name, str) and name != "auto":
            try:
                lookup(name)
            except AgreementError as error:
                said = str(error)
                found.append(said if said.startswith(f"{table}.") else f"{table}.{key}: {said}")
    return found


def _problem(
    place: tuple[str | int, ...],
    errors: Sequence[Mapping[str, Any]],
    document: Any,
    tables: Mapping[str, type[BaseModel]],
) -> str:
    """ "owner.0.epsilon of "bank-1": must be greater than 0, not -1.0; it is …"."""
    first = errors[0]
    if not place:
        return str(first["msg"]).removeprefix("Value error, ")
    path, owner = ".".join(printable(str(part), 60) for part in place), _owner(place, document)
    whose = f"{path} of {owner}" if owner else path
    if first["type"] == "missing" and len(place) > 2 and isinstance(place[-1], int):
        return f"{whose.rpartition('.')[0]}: has too few values{_remedy(place)}"
    if first["type"] == "missing":
        return f"{whose}: missing; every agreement must give it{_remedy(place)}"
    if first["type"] == "extra_forbidden":
        table, key = _key(place)
        known = list(tables[table].model_fields) if key and table in tables else list(tables)
        near = difflib.get_close_matches(key or table, known, n=1)
        spelling = f"did you mean {near[0]}?" if near else f"check its spelling; known are {', '.join(known)}"
        return f"{whose}: not a key of the {next(iter(tables))}; {spelling}"
    if first["type"] == "value_error":
        said = str(first["msg"]).removeprefix("Value error, ")
        return f"{whose}: {said}{_remedy(place) if _key(place)[1] else ''}"
    rules = list(dict.fromkeys(_rule(error) for error in errors))
    literals = [rule for rule in rules if rule.startswith(("must be one of", 'must be "'))]
    others = [rule for rule in rules if rule not in literals]
    said = (others or literals)[0]
    if others and literals:
        said += f", or {literals[0].removeprefix('must be ')}"
    given = "" if said == "must not be empty" else f", not {printable(repr(first['input']), 60)}"
    return f"{whose}: {said}{given}{_remedy(place)}"


_RULES = {
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
    "less_than": "must be less than {lt:g}",
    "finite_number": "must be a finite number",
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    "string_type": "must be words in quotes",
    "bool_type": "must be true or false",
    "string_too_short": "must not be empty",
    "too_short": "must have at least one",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type", "mapping_type"), "must be a table"),
    **dict.fromkeys(("tuple_type", "list_type"), "must be a list"),
}
"""What a value must be, by pydantic's type of the error and with its limits."""


def _rule(error: Mapping[str, Any]) -> str:
    """What a value must be."""
    kind, limits = error["type"], error.get("ctx", {})
    if kind == "literal_error":
        known = [part.strip().strip("'") for part in limits["expected"].replace(" or ", ", ").split(",")]
        quoted = [f'"{name}"' for name in known]
        if len(quoted) == 1:
            return f"must be {quoted[0]}"
        return f"must be one of {', '.join(quoted)}"
    least = limits.get("ge") if isinstance(error["input"], int | float) else None
    if least is not None and error["input"] <= 0 < least < 1:  # a least number that is there for rounding
        return "must be greater than 0"
    if kind not in _RULES:
        return f"cannot be read ({error['msg']})"
    return _RULES[kind].format(**limits)


def _owner(place: tuple[str | int, ...], document: Any) -> str | None:
    """The name of the owner whose key this is."""
    if len(place) < 2 or place[0] != "owner" or not isinstance(place[1], int):
        return None
    try:
        name = document["owner"][place[1]]["name"]
    except (KeyError, TypeError, IndexError):
        return None
    return f'"{printable(name, 60)}"' if isinstance(name, str) and name else None


def _key(place: tuple[str | int, ...]) -> tuple[str, str]:
    """Table and key, without the owner's number."""
    table, key, *_ = (*(str(part) for part in place if not isinstance(part, int)), "")
    return table, key


def _remedy(place: tuple[str | int, ...]) -> str:
    """What to do, after a semicolon; "" where nothing is known."""
    table, key = _key(place)
    if key:
        said = _REMEDIES.get(f"{table}.{key}", "")
    elif table == "owner":
        said = "write [[owner]], in double brackets, once for each"
    else:
        said = f"write [{table}] with its keys below"
    return said and f"; {said}"

"""Rewrite pydantic's errors in plain words: all faults of an agreement at once, with the owner's name and a remedy."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel

from copriv.errors import AgreementError
from copriv.formatting.sanitize import printable
from copriv.terms import DataTerms, ModelTerms, OwnerTerms, Terms

_TABLES: dict[str, type[BaseModel]] = {
    "agreement": Terms, "model": ModelTerms, "data": DataTerms, "owner": OwnerTerms,
}  # fmt: skip
_CHECK = re.compile(r"\[|^(float|int|str|bool)$|^(constrained|literal|function)")
"""Names of checks, which pydantic adds to the path of an error."""
_WHOLE = "give a whole number, 1 or more"
_REMEDIES = {
    "agreement.rule": 'name a rule, or "auto" to have one planned',
    "agreement.horizon": "it is how many queries or rounds there are; give a whole number such as 100",
    "agreement.answers": "it is the most answers of one owner; give a whole number, or leave it out",
    "agreement.step": 'give a number, or "auto" to have it planned',
    "agreement.worthwhile": 'give a share, such as 0.005 or "0.5%"',
    "agreement.pilot": 'give the share of each budget that the pilot may take, such as 0.1, or "auto"',
    "agreement.pilot_terms": "copriv forecast --out DIR writes them from the public rows",
    "agreement.ranges": "give [low, high] for each term that the pilot's answers may choose, such as step = [0.1, 1.0]",
    "agreement.seed": "give a whole number, 0 or more",
    "agreement.pilot_terms.public": "it is the SHA-256 of the learner's public rows; copriv init --network writes it",
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
    **dict.fromkeys(
        ("policy.certificates", "policy.agreements"),
        "give a list of 64 hexadecimal digits each, in lower case and without colons",
    ),
    "policy.rules": 'give a list of names, such as ["A2"]',
    "policy.losses": 'give a list of names, such as ["squared"]',
    "policy.mechanisms": 'give a list of names, such as ["laplace"]',
    "policy.features": 'give a list of columns, such as ["age", "income"]',
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
    "owner.market": "state worth and privacy_cost in money, such as {worth = 100.0, privacy_cost = {linear = 2.0}}",
    "owner.lot": "it is how many records the owner is known to have at least; give a whole number, or leave it out",
    "owner.key": "it is the SHA-256 of the owner's public key, 64 hexadecimal digits; copriv owner keys prints it",
}


def problems_of(
    errors: Sequence[Mapping[str, Any]], document: Any, tables: Mapping[str, type[BaseModel]] = _TABLES
) -> list[str]:
    """Describe the faults of the values in a document, one for each path.

    errors: pydantic's list. document: the mapping that was checked. tables: the tables that it may have.
    """
    by_place: dict[tuple[str | int, ...], list[Mapping[str, Any]]] = {}
    for error in errors:
        given, loc = error["input"], error["loc"]
        if (
            error["type"] == "too_short"
            and isinstance(given, list | tuple)
            and len(given) >= error["ctx"]["min_length"]
        ):
            continue  # the list is too short only without its faulty items, which have errors of their own
        # The path as it is in the file, without the names of checks.
        place = (*loc[:2], *(part for part in loc[2:] if not _CHECK.search(str(part))))
        by_place.setdefault(place, []).append(error)
    return [_problem(place, found, document, tables) for place, found in by_place.items()]


def unknown_names(document: Any, lookups: Mapping[tuple[str, str], Callable[[str], Any]]) -> list[str]:
    """Describe unknown names of rules, mechanisms and losses, where other faults prevent the check of the whole agreement.

    lookups: (table, key) → function that raises AgreementError for an unknown name.
    """
    problems = []
    for (table, key), lookup in lookups.items():
        try:
            name = document[table][key]
            if isinstance(name, str) and name != "auto":
                lookup(name)
        except AgreementError as error:
            problems.append(f"{table}.{key}: {str(error).removeprefix(f'{table}.{key}: ')}")
        except (KeyError, TypeError):
            continue  # there is no such key, which has a problem of its own
    return problems


def _problem(
    place: tuple[str | int, ...],
    errors: Sequence[Mapping[str, Any]],
    document: Any,
    tables: Mapping[str, type[BaseModel]],
) -> str:
    """Describe the faults at one path, such as: owner.0.epsilon of "bank-1": must be greater than 0, not -1.0; it is …"""
    first = errors[0]
    if not place:
        return str(first["msg"]).removeprefix("Value error, ")
    table, key, *deeper = (*(str(part) for part in place if not isinstance(part, int)), "")  # key "": a whole table
    longer = ".".join(part for part in (key, *deeper) if part)
    if f"{table}.{longer}" in _REMEDIES:
        key = longer
    lacks_values = first["type"] == "missing" and len(place) > 2 and isinstance(place[-1], int)
    path = ".".join(printable(str(part), 60) for part in (place[:-1] if lacks_values else place))
    if owner := _owner(place, document):
        path += f" of {owner}"
    if lacks_values:
        return f"{path}: has too few values{_remedy(table, key)}"
    if first["type"] == "missing":
        return f"{path}: missing; every agreement must give it{_remedy(table, key)}"
    if first["type"] == "extra_forbidden":
        *above, unknown = (str(part) for part in place if not isinstance(part, int))
        known = _keys_below(tables, above)
        advice = f"check its spelling; known are {', '.join(known)}"
        if near := difflib.get_close_matches(unknown, known, n=1):
            advice = f"did you mean {near[0]}?"
        return f"{path}: not a key of the {next(iter(tables))}; {advice}"
    if first["type"] == "value_error":
        what = str(first["msg"]).removeprefix("Value error, ")
        return f"{path}: {what}{key and _remedy(table, key)}"
    rules = list(dict.fromkeys(_rule(error) for error in errors))
    literals = [rule for rule in rules if rule.startswith(("must be one of", 'must be "'))]
    others = [rule for rule in rules if rule not in literals]
    what = (others or literals)[0]
    if others and literals:
        what += f", or {literals[0].removeprefix('must be ')}"
    if what != "must not be empty":
        what += f", not {printable(repr(first['input']), 60)}"
    return f"{path}: {what}{_remedy(table, key)}"


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
    "too_long": "must have at most {max_length} values",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type", "mapping_type"), "must be a table"),
    **dict.fromkeys(("tuple_type", "list_type"), "must be a list"),
}
"""Requirement on a value, by pydantic's type of the error; limits are filled in."""


def _rule(error: Mapping[str, Any]) -> str:
    """Describe the requirement that a value breaks."""
    kind, limits = error["type"], error.get("ctx", {})
    if kind == "literal_error":
        known = [part.strip().strip("'") for part in limits["expected"].replace(" or ", ", ").split(",")]
        quoted = [f'"{name}"' for name in known]
        if len(quoted) == 1:
            return f"must be {quoted[0]}"
        return f"must be one of {', '.join(quoted)}"
    least = limits.get("ge") if isinstance(error["input"], int | float) else None
    if least is not None and error["input"] <= 0 < least < 1:  # the limit is above 0 only because of rounding
        return "must be greater than 0"
    if kind not in _RULES:
        return f"cannot be read ({error['msg']})"
    return _RULES[kind].format(**limits)


def _keys_below(tables: Mapping[str, type[BaseModel]], above: Sequence[str]) -> list[str]:
    """List the keys of the table at a path of names, or the tables themselves where the path is empty."""
    if not above:
        return list(tables)
    fields = tables[above[0]].model_fields
    for key in above[1:]:
        kind = fields[key].annotation
        fields = next(one for one in (kind, *get_args(kind)) if hasattr(one, "model_fields")).model_fields
    return list(fields)


def _owner(place: tuple[str | int, ...], document: Any) -> str:
    """Return the quoted name of the owner whose table a key is in; "" for other tables."""
    try:
        name = document["owner"][place[1]]["name"]
    except (KeyError, TypeError, IndexError):
        return ""
    if place[0] != "owner" or not isinstance(name, str):
        return ""
    return name and f'"{printable(name, 60)}"'


def _remedy(table: str, key: str) -> str:
    """Return the advice for a key, or for a table where key is "", after a semicolon; "" where there is none."""
    advice = f"write [{table}] with its keys below"
    if key:
        advice = _REMEDIES.get(f"{table}.{key}", "")
    elif table == "owner":
        advice = "write [[owner]], in double brackets, once for each"
    return advice and f"; {advice}"

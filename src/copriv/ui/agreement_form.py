"""The form of an agreement: its fields from the schema, its errors by field, and its file."""

import ast
import inspect
import re
import tomllib
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from copriv import losses, mechanisms, rules, terms
from copriv.agreement import Agreement
from copriv.agreement.data_terms import schema_of
from copriv.data import DATASETS
from copriv.errors import AgreementError, CoprivError


def first(agreement: Agreement | None) -> dict[str, Any]:
    """The initial state of the pages: this agreement's, or that of owners of the same size on a built-in table."""
    if agreement is not None:
        return {**_state(agreement), "target": 1e-3, "start": "epsilon"}
    return {
        "agreement": {"name": "", "rule": "auto", "horizon": 1000},
        "model": {"loss": "squared", "regularization": 1e-5},
        "data": {"dataset": "lending-embedded", "components": 10, "public_rows": 1000},
        "owners": [_seat({"name": "", "records": 1000, "epsilon": 1.0}) for _ in range(5)],
        "target": 1e-3,
        "start": "epsilon",
    }


def _state(agreement: Agreement) -> dict[str, Any]:
    document = agreement.to_dict()
    owners = document.pop("owner")
    return {**document, "owners": [_seat(owner) for owner in owners]}


def _seat(owner: dict[str, Any]) -> dict[str, Any]:
    """The state of an owner in the page (`views.Seat`)."""
    return {"terms": owner, "joined": True, "unlike": False}


@cache
def schema() -> dict[str, Any]:
    """The agreement's JSON schema, with the meaning of each key, and the known rules, mechanisms, losses and data sets."""
    document = Agreement.model_json_schema()
    return {
        **document,
        "meanings": {name: _meanings(getattr(terms, name)) for name in document["$defs"]},
        "known": {
            "rule": ["auto", *(rule.name for rule in rules.ALL)],
            "mechanism": [mechanism.name for mechanism in mechanisms.ALL],
            "loss": [loss.name for loss in losses.ALL],
            "dataset": list(DATASETS),
        },
    }


def _meanings(table: type[BaseModel]) -> dict[str, str]:
    """The docstring of each field, read from the source because pydantic does not keep it."""
    body = ast.parse(inspect.getsource(table)).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            found[field.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return found


def checked(document: Any) -> dict[str, Any]:
    """The file, fingerprint and promises of an agreement (a mapping, or TOML), or its errors by the path of the field."""
    if isinstance(document, dict) and isinstance(document.get("toml"), str):
        try:
            document = tomllib.loads(document["toml"])
        except (ValueError, RecursionError) as error:  # also a number with more digits than Python reads
            return {"errors": [{"path": [], "message": str(error)}]}
    try:
        agreement = Agreement.model_validate(document)
    except ValidationError as error:
        errors = [_field_error(one) for one in error.errors(include_url=False)]
        # "Too few owners" is redundant where some owners are not valid.
        deeper = any(one["path"][:1] == ["owner"] and len(one["path"]) > 1 for one in errors)
        return {"errors": [one for one in errors if not (deeper and one["path"] == ["owner"])]}
    except AgreementError as error:
        return {"errors": [_with_path(str(error))]}
    except RecursionError:
        raise AgreementError("the agreement is nested too deeply") from None
    try:
        schema_of(agreement, unit=None)
    except AgreementError as error:  # declared columns by which no row can be read
        return {"errors": [_with_path(problem) for problem in error.problems or [str(error)]]}
    return {
        "errors": [],
        "fingerprint": agreement.fingerprint,
        "toml": agreement.to_toml(),
        "state": _state(agreement),
        "promises": [_promise(agreement, i) for i in range(agreement.n_owners)],
        "answers": agreement.answers,
    }


def _promise(agreement: Agreement, i: int) -> dict[str, Any]:
    """The privacy guarantee of an owner; in words only where every term is a number."""
    owner = agreement.owner[i]
    try:
        words: str | None = agreement.mechanism.promise(agreement, owner)
    except CoprivError:
        words = None
    return {**{key: getattr(owner, key) for key in ("name", "records", "epsilon", "delta")}, "words": words}


def _field_error(error: Any) -> dict[str, Any]:
    """An error of pydantic with the path of its field."""
    path = [part for part in error["loc"] if not str(part).startswith(("constrained", "literal", "function"))]
    message = str(error["msg"]).removeprefix("Value error, ")
    if not path:
        return _with_path(message)
    limits = {key: value for key, value in error.get("ctx", {}).items() if isinstance(value, str | int | float)}
    return {"path": path, "message": message, "kind": error["type"], "values": limits}


def _with_path(message: str) -> dict[str, Any]:
    """A message and the path of the field that it begins with, as in "owner.name: …".

    A column's name after the field, as in "data.bounds.my age: …", remains part of the message.
    """
    found = re.match(r"(\w+)\.(\w+)(?:: |\.(?=.+?: ))", message, re.DOTALL)
    if found:
        return {"path": [found[1], found[2]], "message": message[found.end() :]}
    field, colon, rest = message.partition(":")
    if colon and " " not in field:
        return {"path": field.split("."), "message": rest.strip()}
    return {"path": [], "message": message}

"""An agreement while it is being written: the form's fields from the schema, its errors by field, and the file."""

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
    """The state that pages begin with: this agreement's, or organisations of the same size on a built-in table."""
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
    """An owner as the page has it (`views.Seat`)."""
    return {"terms": owner, "joined": True, "unlike": False}


@cache
def schema() -> dict[str, Any]:
    """What the form is made from: the agreement's JSON schema, what each key means, and the lists of known kinds."""
    known = {name: _meanings(getattr(terms, name)) for name in Agreement.model_json_schema()["$defs"]}
    return {
        **Agreement.model_json_schema(),
        "meanings": known,
        "known": {
            "rule": ["auto", *_names(rules.ALL)],
            "mechanism": _names(mechanisms.ALL),
            "loss": _names(losses.ALL),
            "dataset": list(DATASETS),
        },
    }


def _names(kinds: Any) -> list[str]:
    """The names on a list of kinds, whether it is keyed by them or not."""
    return [str(kind if isinstance(kind, str) else kind.name) for kind in kinds]


def _meanings(table: type[BaseModel]) -> dict[str, str]:
    """The sentence below each field in the source: pydantic keeps none of them, and nobody should write them twice."""
    body = ast.parse(inspect.getsource(table)).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            found[field.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return found


def checked(document: Any) -> dict[str, Any]:
    """An agreement's mapping as a file, with its fingerprint and promises; or what is wrong, by the field's path."""
    if isinstance(document, dict) and isinstance(document.get("toml"), str):
        try:
            document = tomllib.loads(document["toml"])
        except (ValueError, RecursionError) as error:  # also a number with more digits than Python reads
            return {"errors": [{"path": [], "message": str(error)}]}
    try:
        agreement = Agreement.model_validate(document)
    except ValidationError as error:
        told = [_told(one) for one in error.errors(include_url=False)]
        # "Too few owners" only because those that are there were not valid says nothing new.
        deeper = any(one["path"][:1] == ["owner"] and len(one["path"]) > 1 for one in told)
        return {"errors": [one for one in told if not (deeper and one["path"] == ["owner"])]}
    except AgreementError as error:
        return {"errors": [_placed(str(error))]}
    except RecursionError:
        raise AgreementError("the agreement is nested too deeply") from None
    try:
        schema_of(agreement, unit=None)
    except AgreementError as error:  # columns that nobody could read a row by
        return {"errors": [_placed(problem) for problem in error.problems or [str(error)]]}
    return {
        "errors": [],
        "fingerprint": agreement.fingerprint,
        "toml": agreement.to_toml(),
        "state": _state(agreement),
        "promises": [_promise(agreement, i) for i in range(agreement.n_owners)],
        "answers": agreement.answers,
    }


def _promise(agreement: Agreement, i: int) -> dict[str, Any]:
    """What an owner will have promised; in copriv's words only once every term is a number."""
    owner = agreement.owner[i]
    try:
        words: str | None = agreement.mechanism.promise(agreement, owner)
    except CoprivError:
        words = None
    return {**{key: getattr(owner, key) for key in ("name", "records", "epsilon", "delta")}, "words": words}


def _told(error: Any) -> dict[str, Any]:
    path = [part for part in error["loc"] if not str(part).startswith(("constrained", "literal", "function"))]
    message = str(error["msg"]).removeprefix("Value error, ")
    if not path:
        return _placed(message)
    limits = {key: value for key, value in error.get("ctx", {}).items() if isinstance(value, str | int | float)}
    return {"path": path, "message": message, "kind": error["type"], "values": limits}


def _placed(message: str) -> dict[str, Any]:
    """A rule that concerns several fields names its own field at its beginning, as in "owner.name: …".

    A column's name behind it, as in "data.bounds.my age: …", is part of what is said.
    """
    found = re.match(r"(\w+)\.(\w+)(?:\.(.+?))?: ", message, re.DOTALL)
    if found:
        column = f"{found[3]}: " if found[3] else ""
        return {"path": [found[1], found[2]], "message": column + message[found.end() :]}
    field, colon, rest = message.partition(":")
    if colon and " " not in field:
        return {"path": field.split("."), "message": rest.strip()}
    return {"path": [], "message": message}

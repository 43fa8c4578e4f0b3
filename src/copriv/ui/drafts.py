"""An agreement while it is being written: the form's fields from the schema, its errors by field, and the file."""

import tomllib
from typing import Any

from pydantic import ValidationError

from copriv.agreement import Agreement
from copriv.errors import AgreementError

FIRST_OWNERS = 5
FIRST_RECORDS = 1000
FIRST_TARGET = 1e-3


def first(agreement: Agreement | None) -> dict[str, Any]:
    """The state that pages begin with: this agreement's, or organisations of the same size on a built-in table."""
    if agreement is not None:
        document = agreement.to_dict()
        owners = document.pop("owner")
    else:
        document = {
            "agreement": {"name": "", "rule": "auto", "horizon": 1000},
            "model": {"loss": "squared", "regularization": 1e-5},
            "data": {"dataset": "lending-embedded", "components": 10, "public_rows": 1000},
        }
        owners = [{"name": "", "records": FIRST_RECORDS, "epsilon": 1.0} for _ in range(FIRST_OWNERS)]
    seats = [{"terms": owner, "joined": True, "unlike": False} for owner in owners]
    return {**document, "owners": seats, "target": FIRST_TARGET, "start": "epsilon"}


def schema() -> dict[str, Any]:
    """The agreement's JSON schema: what the form is made from."""
    return Agreement.model_json_schema()


def checked(document: Any) -> dict[str, Any]:
    """An agreement's mapping as a file, with its fingerprint; or what is wrong, by the field's path."""
    if isinstance(document, dict) and isinstance(document.get("toml"), str):
        try:
            document = tomllib.loads(document["toml"])
        except tomllib.TOMLDecodeError as error:
            return {"errors": [{"path": [], "message": str(error)}]}
    try:
        agreement = Agreement.model_validate(document)
    except ValidationError as error:
        return {"errors": [_told(one) for one in error.errors(include_url=False, include_context=False)]}
    except RecursionError:
        raise AgreementError("the agreement is nested too deeply") from None
    return {"errors": [], "fingerprint": agreement.fingerprint, "toml": agreement.to_toml(),
            "document": agreement.to_dict()}  # fmt: skip


def _told(error: Any) -> dict[str, Any]:
    """One error; a rule that concerns several fields names its own field at its beginning."""
    path = [part for part in error["loc"] if not str(part).startswith(("constrained", "literal", "function"))]
    message = str(error["msg"]).removeprefix("Value error, ")
    if not path and ":" in message and " " not in message.split(":")[0]:
        field, message = message.split(":", 1)
        path = field.split(".")
    return {"path": path, "message": message.strip()}

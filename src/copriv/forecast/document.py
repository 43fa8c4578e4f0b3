"""A forecast's JSON as a file, and of which agreement it is: term by term, but for where files are, keys and seeds.

The parties may sign what was asked about, the same with what it leaves open planned ("agreed"), or what is recommended. A
forecast's JSON has the terms of all three.
"""

import hashlib
import json
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from copriv.agreement import Agreement
from copriv.data import datasets
from copriv.errors import InvalidInput
from copriv.formatting.sanitize import reason

SCHEMA = "copriv.forecast/1"
_APART = ("agreement.name", "agreement.seed", "agreement.learner_key", "data.path", "data.public", "data.dictionary")
_MEASURED: Mapping[str, tuple[Any, ...]] = {
    "data.feature_bound": ("auto",), "data.public_rows": (None,), "model.gradient_bound": ("proved",),
}  # fmt: skip
"""Terms that `copriv init --network` gives a number where they leave it to the public rows."""


def read_forecast(path: Path) -> Mapping[str, Any]:
    """The document of `copriv forecast --json` or `--out`. Raises InvalidInput for a file that is none."""
    give = "give the forecast.json of copriv forecast --out, or what --json printed"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"--forecast: {path} cannot be read ({reason(error)}); {give}") from None
    except (ValueError, RecursionError):
        raise InvalidInput(f"--forecast: {path} is no forecast, for it is no JSON; {give}") from None
    if not isinstance(document, Mapping) or document.get("schema", SCHEMA) != SCHEMA:
        raise InvalidInput(f"--forecast: {path} is not the JSON of a forecast; {give}")
    return document


def terms_told(agreement: Agreement) -> dict[str, Any]:
    """Each term under its path, in short."""
    document, told = agreement.to_dict(), dict[str, Any]()
    for table in ("agreement", "model", "data"):
        told |= {f"{table}.{key}": _short(value) for key, value in document[table].items()}
    if agreement.data.dataset is not None:
        told["data.dataset"] = datasets.named(agreement.data.dataset).read_from
    alike = groupby(
        agreement.owner_tables, lambda one: one.model_dump(exclude={"name", "count", "key"}, exclude_none=True)
    )
    told["owner"] = _short([[terms, [name for one in tables for name in one.names()]] for terms, tables in alike])
    return {path: value for path, value in told.items() if path not in _APART}


def check_is_of(agreement: Agreement, document: Mapping[str, Any]) -> None:
    """Raise InvalidInput for the JSON of a forecast of other terms, naming those of the nearest that it has.

    A document without terms says nothing of its agreement, and is refused.
    """
    mine, found = terms_told(agreement), []
    for told in document.get("terms", {}).values():
        paths = {path for path in {*mine, *told} if mine.get(path) != told.get(path)}
        found.append(sorted(path for path in paths if told.get(path) not in _MEASURED.get(path, ())))
    if not found:
        raise InvalidInput(
            "forecast: is not the JSON of a forecast that has terms; make it anew with copriv forecast --out"
        )
    if all(found):
        differ = ", ".join(min(found, key=len)[:5])
        raise InvalidInput(f"forecast: is of another agreement, by {differ}; give the forecast of this one")


def _short(value: Any) -> Any:
    text = json.dumps(value, sort_keys=True)
    if len(text) > 100:  # of a longer value the SHA-256 is kept
        return hashlib.sha256(text.encode()).hexdigest()
    return json.loads(text)

"""A ledger or a run, afterwards: what a file holds, whether it is whole, and what is wrong where it is not.

A person gives one ledger, run or model, and beside it, as files of the same choice, what it is to be held against: their
own copy of the agreement, the authority's certificate, the model. What each file is, its first bytes say.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from copriv.agreement import Agreement
from copriv.errors import AgreementError, InvalidInput
from copriv.ui.reading_ledger import ledger, without
from copriv.ui.reading_run import run

_RUN_FILE = b"SQLite format 3\x00"
_CERTIFICATE, _SECRET = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"
_FIRST = 64
"""Bytes of a file in which its kind is looked for."""


@dataclass
class Given:
    """The files of one choice, by what they are."""

    ledger: Path | None = None
    run: Path | None = None
    model: Path | None = None
    agreement: Agreement | None = None
    authority: bytes | None = None


def opened(contents: Sequence[bytes], head: str | None = None) -> dict[str, Any]:
    """What these files are and say. `head`: one that was written down elsewhere.

    Raises InvalidInput for what is neither a ledger, a run nor a model.
    """
    with _sorted(contents) as given:
        if given.ledger is not None and given.run is not None:
            raise InvalidInput("a ledger and a run are read one after the other: choose one of them")
        if given.run is not None:
            return run(given.run, given.agreement, given.authority, given.model, head)
        if given.ledger is not None:
            return ledger(given.ledger, head)
        if given.model is not None:
            return _model(json.loads(given.model.read_bytes()))
        raise InvalidInput("this is no ledger, no run and no model: choose one, and beside it what it is held against")


@contextmanager
def _sorted(contents: Sequence[bytes]) -> Iterator[Given]:
    with TemporaryDirectory(prefix="copriv-read-") as folder:
        given = Given()
        for i, content in enumerate(contents):
            kind, path = _kind(content), Path(folder) / f"file-{i}"
            if getattr(given, kind) is not None:
                raise InvalidInput(f"two files of the same kind ({kind}): choose one of them")
            path.write_bytes(content)
            setattr(given, kind, _AS[kind](path) if kind in _AS else path)
        yield given


def _kind(content: bytes) -> str:
    """The field of `Given` that this file is for; what nothing else claims is looked at as a ledger, and refused there."""
    if content.startswith(_RUN_FILE):
        return "run"
    if _SECRET in content[:_FIRST]:
        raise InvalidInput("a private key is not needed here, and was not kept: keep it where it was")
    if content.lstrip().startswith(_CERTIFICATE):
        return "authority"
    start = content.lstrip()[:1]
    if start == b"{":
        return "model" if _is_model(content) else "ledger"
    return "agreement" if b"[agreement]" in content or b"[[owner]]" in content else "ledger"


def _agreement(path: Path) -> Agreement:
    try:
        return Agreement.load(path)
    except AgreementError as error:
        raise InvalidInput(f"the agreement that was given cannot be used: {without(str(error), path)}") from None


_AS: dict[str, Callable[[Path], Any]] = {"agreement": _agreement, "authority": Path.read_bytes}
"""Of the kinds that are not handed on as a path."""


def _is_model(content: bytes) -> bool:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return False
    record = document.get("record") if isinstance(document, dict) else None
    return isinstance(record, dict) and isinstance(record.get("owners"), list)


def _model(document: Mapping[str, Any]) -> dict[str, Any]:
    """The record in a model's file."""
    record = document["record"]
    keys = ("run", "rule", "status", "outcome", "queries", "agreed_queries", "seconds", "finished_at")
    owners = [
        {"name": str(one.get("name")), "answers": one.get("answers"), "most": one.get("most_answers"),
         "spent": one.get("spent"), "epsilon": one.get("epsilon")}
        for one in record["owners"] if isinstance(one, dict)
    ]  # fmt: skip
    return {"kind": "model", "problems": [], **{key: record.get(key) for key in keys}, "runs": owners, "lines": [],
            "realised": record.get("realised"), "forecast": record.get("forecast")}  # fmt: skip

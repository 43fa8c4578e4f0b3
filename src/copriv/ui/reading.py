"""A ledger or a run, afterwards: what a file holds, whether it is whole, and what is wrong where it is not.

A person gives a ledger, a run or a model, and beside it, as files of the same choice, what it is to be held against: their
own copy of the agreement, the authority's certificate, the model; beside a ledger, the runs that it paid for. What each
file is, its first bytes say. Of a ledger there is a report, the one of `copriv report`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from copriv.agreement import Agreement
from copriv.errors import AgreementError, CoprivError, InvalidInput
from copriv.network.store import RunStore
from copriv.report import RunFile, document, page
from copriv.ui.reading_files import ledger, run, without

_RUN_FILE = b"SQLite format 3\x00"
_CERTIFICATE, _SECRET = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"
_FIRST = 64
"""Bytes of a file in which its kind is looked for."""


@dataclass
class Given:
    """The files of one choice, by what they are."""

    ledger: list[Path] = field(default_factory=list)
    run: list[Path] = field(default_factory=list)
    model: list[Path] = field(default_factory=list)
    agreement: list[Agreement] = field(default_factory=list)
    authority: list[bytes] = field(default_factory=list)

    def one(self, kind: str) -> Any:
        """The file of this kind, or None. Raises InvalidInput where there are several."""
        found = getattr(self, kind)
        if len(found) > 1:
            raise InvalidInput(f"two files of the same kind ({kind}): choose one of them")
        return found[0] if found else None

    def runs(self) -> list[RunFile]:
        """Every run, with the model that names it."""
        models = {str(json.loads(path.read_bytes())["record"].get("run")): path for path in self.model}
        found = []
        for path in self.run:
            with closing(RunStore.read(path)) as store:
                found.append(RunFile(path, models.get(store.run)))
        return found


def opened(contents: Sequence[bytes], head: str | None = None, names: Sequence[str] = ()) -> dict[str, Any]:
    """What these files are and say. `head`: one that was written down elsewhere; `names`: of the files, for a report.

    Raises InvalidInput for what is neither a ledger, a run nor a model.
    """
    with _sorted(contents, names) as given:
        if given.one("ledger") is not None:
            found = ledger(given.ledger[0], head)
            if given.run:
                # What the runs' files say of what this ledger paid: problems of the ledger itself stand there already.
                said = _document(given, head, unfinished=True)["problems"]
                found["problems"] += [{"line": None, "what": one["what"]} for one in said if one["where"] != "ledger"]
            return {**found, "beside": len(given.run)}
        if given.one("run") is not None:
            return run(given.run[0], given.one("agreement"), given.one("authority"), given.one("model"), head)
        if given.one("model") is not None:
            return _model(json.loads(given.model[0].read_bytes()))
        raise InvalidInput("this is no ledger, no run and no model: choose one, and beside it what it is held against")


def report(contents: Sequence[bytes], head: str | None = None, names: Sequence[str] = ()) -> str:
    """`copriv report` of these files, among which is a ledger: one HTML file for a data-protection officer."""
    with _sorted(contents, names) as given:
        if given.one("ledger") is None:
            raise InvalidInput("a report is on an owner's ledger: choose it too")
        return page(_document(given, head))


def _document(given: Given, head: str | None, unfinished: bool = False) -> dict[str, Any]:
    try:
        return document(
            given.ledger[0], given.runs(), given.agreement, authority=given.one("authority"), head=head,
            unfinished=unfinished,
        )  # fmt: skip
    except InvalidInput:
        raise
    except CoprivError as error:
        folder = given.ledger[0].parents[1]
        raise InvalidInput(re.sub(re.escape(str(folder)) + r"/\d+/", "", str(error))) from None


@contextmanager
def _sorted(contents: Sequence[bytes], names: Sequence[str]) -> Iterator[Given]:
    with TemporaryDirectory(prefix="copriv-read-") as folder:
        given = Given()
        for i, content in enumerate(contents):
            # Its own name, as far as it is one: a report says from which files it was made.
            kind, name = _kind(content), re.sub(r"[^\w.-]", "_", names[i] if i < len(names) else "")[-80:].lstrip(".")
            path = Path(folder) / str(i) / (name or "file")
            path.parent.mkdir()
            path.write_bytes(content)
            getattr(given, kind).append(_AS[kind](path) if kind in _AS else path)
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

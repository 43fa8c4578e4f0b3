"""A learner's run for the reading page: `copriv verify`'s verdict on it, what each owner answered, and every line."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from copriv.agreement import Agreement
from copriv.errors import CoprivError, InvalidInput
from copriv.network.store import Event, RunStore
from copriv.network.verify import Verdict, verify_run
from copriv.ui.reading_ledger import MOST_LINES, bounded, thinned, without
from copriv.ui.run_lines import teller

LAST = 253_402_300_800.0
"""Seconds from 1970 to the year 10000: what a file says of a time beyond is drawn nowhere."""


def run(
    path: Path,
    agreement: Agreement | None = None,
    authority: bytes | None = None,
    model: Path | None = None,
    head: str | None = None,
) -> dict[str, Any]:
    """A run's file held against what the reader has. Raises InvalidInput for what is no run."""
    try:
        verdict = verify_run(path, agreement, authority, model, head)
        with closing(RunStore.read(path)) as store:
            events = list(_readable(store))
    except (CoprivError, sqlite3.Error, ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"this is no run that can be read: {without(str(error), path)}") from None
    told, agreed = teller(verdict.agreement), verdict.agreement
    steps = [event for event in events if event.kind == "stepped" and type(event.data.get("k")) is int
             and 0 <= event.time < LAST]  # fmt: skip
    stepped = [(event.time, bounded(event.data["k"])) for event in steps]
    last = next((event for event in reversed(events) if event.kind in ("finished", "stopped")), None)
    return {
        "kind": "run", "problems": [{"line": one.line, "what": one.what} for one in verdict.problems],
        "run": verdict.run, "rule": agreed.agreement.rule, "agreement": agreed.agreement.name,
        "fingerprint": agreed.fingerprint, "status": verdict.outcome or "open",
        "outcome": "" if last is None else str(last.data.get("reason", "")),
        "queries": verdict.stepped, "agreed_queries": agreed.queries, "head": verdict.head,
        "authority": verdict.authority, "rounding": verdict.rounding,
        "from_elsewhere": {"agreement": agreement is not None, "authority": authority is not None,
                           "model": model is not None, "head": head is not None},
        "runs": [_owner(verdict, i) for i in range(agreed.n_owners)],
        "lines": [told(event) for event in events[:MOST_LINES]], "all_lines": len(events), "timeline": thinned(stepped),
    }  # fmt: skip


def _owner(verdict: Verdict, i: int) -> dict[str, Any]:
    """What one owner answered and spent: by its signed answers, and those that it counted beside them."""
    agreement = verdict.agreement
    terms = agreement.owner[i]
    answers, missing = verdict.answers.get(terms.name, 0), verdict.missing.get(terms.name, 0)
    ε, δ = agreement.mechanism.spent_after(agreement, terms, min(answers + missing, agreement.answers))
    return {"name": terms.name, "answers": answers, "missing": missing, "most": agreement.answers,
            "epsilon": terms.epsilon, "delta": terms.delta, "spent": float(ε), "spent_delta": float(δ)}  # fmt: skip


def _readable(store: RunStore) -> Iterator[Event]:
    """Lines up to the first that is none."""
    for number, at, kind, data, head in store.lines():
        try:
            said = json.loads(data)
        except (ValueError, RecursionError):
            return
        if not isinstance(said, dict) or type(number) is not int or type(at) is not float:
            return
        yield Event(number, at, kind, said, head)

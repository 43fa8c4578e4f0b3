"""Verification of a run's file, by anybody: whether its lines lead to its model, and whether all parties signed them.

`verify_run` needs the file and, in order to trust no party, the reader's own copy of the agreement and of the authority's
certificate. It replays the run: every θ must follow from the agreement and the earlier answers by the agreed rule, every
query must be signed by the learner and every answer by its owner, and every line must continue the chain of hashes. Each
problem is reported with the number of its line.

A model's file is derived again from the run and compared value by value; values that are missing or additional are
problems. Taken from the file are only the public dictionary, whose fingerprint all parties signed, and the results on the
learner's public rows (`record.realised.public`, `record.forecast`), which are claims that the learner signed.

The file does not show answers that the learner never recorded, unless their owner signed a final count
(`Verdict.missing`, `Verdict.not_closed`), nor whether a sum was seen that was not used (`Verdict.unused_sums`); and lines
after the last signature are the learner's claims.
"""

import math
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import InvalidInput
from copriv.formatting.cards import Shown
from copriv.network.keys import fingerprint_of
from copriv.network.model import Model, digest_of, parsed, read_document
from copriv.network.run import Run
from copriv.network.store import RunStore
from copriv.network.verify_lines import ROUNDING, LineCheck, Problem, off_by
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class Verdict(Shown):
    """Result of the verification of a run's file."""

    run: str
    agreement: Agreement
    lines: int
    head: str
    """The hash of the last line."""
    stepped: int
    """Queries or rounds that moved the model, since a pilot if there was one."""
    answers: dict[str, int]
    """Number of signed answers in the file, by owner."""
    missing: dict[str, int]
    """Number of answers that an owner counted and that are not in the file (lost or omitted), by owner."""
    not_closed: tuple[str, ...]
    """Owners without a signed count after their last query, whose last answers may be missing as well."""
    unused_sums: tuple[int, ...]
    """Turns that were abandoned with as many answers as a sum takes, where owners may be missing: the learner may have seen
    their sum, and left out the parts of its mask."""
    authority: str
    """SHA-256 of the authority's certificate by which signatures were checked."""
    outcome: str
    """"finished", "stopped", or "" where the file ends before the run does."""
    model: Float[Array, " p"] | None
    """θ of the replay; None without a first line."""
    rounding: float
    """Largest relative difference between a θ in the file and that of the replay."""
    run_state: Run
    """State of the run after the last line; `run_state.before` is that of a pilot."""
    problems: tuple[Problem, ...]
    record: dict[str, Any]
    """The record in the model's file; empty without a file, and where there are problems."""

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


def verify_run(
    path: str | Path,
    agreement: Agreement | None = None,
    authority: bytes | None = None,
    model: str | Path | None = None,
    head: str | None = None,
) -> Verdict:
    """Verify a run's file.

    agreement: the reader's own copy; the one in the file when None. authority: the consortium's certificate (PEM) from the
    reader's own keys; the one in the file when None. model: the file of the run's model. head: the hash of a line that was
    kept elsewhere.
    Raises StoreFailed for a file that holds no run, InvalidInput for one that is no model file.
    """
    with closing(RunStore.read(path)) as store:
        document, held, model_head = None, None, None
        if model is not None:
            document = read_document(model)
            held = Model.of(document)
            model_head = held.record.get("head")
        check = LineCheck(store, authority, model_head)
        run = check.run
        if agreement is not None and agreement.fingerprint != store.agreement.fingerprint:
            check.wrong(None, "the run is under another agreement than the one given; their fingerprints differ")
        if check.to_the_end():
            if head is not None and head not in check.hashes:
                check.wrong(
                    None, f"no line has the head {head[:12]}…: the file was made anew, or cut off before that line"
                )
            if held is not None:
                try:
                    wrong = _wrong_with(held, document, check, store)
                except RecursionError:
                    wrong = ["nests deeper than any that copriv learner writes"]
                for what in wrong:
                    check.wrong(None, f"the model {what}")
        fingerprint = ""
        if check.authority is not None:
            with suppress(InvalidInput):
                fingerprint = fingerprint_of(check.authority)
        return Verdict(
            run=store.run,
            agreement=store.agreement,
            lines=check.lines,
            head=run.head,
            stepped=run.stepped,
            answers={name: sum(len(party.counts) for party in run.in_phases(name)) for name in run.parties},
            missing={name: n for name in run.parties if (n := sum(party.missing for party in run.in_phases(name)))},
            not_closed=tuple(name for name, party in run.parties.items() if not party.closed),
            unused_sums=tuple(turn for phase in run.phases for turn in phase.unused_sums),
            authority=fingerprint,
            outcome=run.status or "",
            model=run.trajectory.model if run.begun else None,
            rounding=check.rounding,
            run_state=run,
            problems=tuple(check.problems),
            record=held.record if held is not None and not check.problems else {},
        )


def _wrong_with(model: Model, document: Any, check: LineCheck, store: RunStore) -> list[str]:
    """Problems of a model's file: the values that do not follow from the run."""
    if model.agreement.fingerprint != check.run.agreement.fingerprint or model.record.get("run") != store.run:
        return ["is that of another run"]
    if model.at_home:
        return ["is an owner's own, made at home from its records; give the common one, as copriv learner wrote it"]
    signed = check.signed
    if str(model.record.get("head")) not in check.hashes:
        return ["names a line that is not in this file"]
    if signed is None:
        return ["is not signed by the learner after the line that it names"]
    steps, stepped = check.run.stepped, signed.record["queries"]
    if stepped < steps:
        return [f"is of line {signed.line}; the run went on after it, to {steps} steps from {stepped}"]
    if signed.line < check.signed_last:
        return [f"is of line {signed.line}; the learner signed another one after it, in line {check.signed_last}"]
    θ, wrong = signed.theta, []
    if [owner["answers"] for owner in signed.record["owners"]] != [
        check.run.answered(owner["name"]) for owner in signed.record["owners"]
    ]:
        wrong.append(f"is of line {signed.line}; owners counted more answers after it than its record says")
    reached = check.reached.reshape(-1, len(θ)).max(axis=0) if len(check.reached) > len(θ) else check.reached
    if not off_by(model.theta, θ, reached) <= ROUNDING:
        wrong.append("is not the one to which the run's answers lead")
    if model.dictionary_fingerprint != check.run.dictionary:
        wrong.append("has another public dictionary than the one that learner and owners signed")
    record = dict(signed.record, forecast=model.record.get("forecast"))
    realised = model.record.get("realised")
    if isinstance(realised, dict):
        record["realised"] = {**record["realised"], "public": realised.get("public")}
    follows = parsed(replace(model, agreement=check.run.agreement, record=record).to_json())
    for place, what in islice(_differences(follows, document), 20):  # of a model that is another one, these are enough
        wrong.append(f"says {what} under {place}")
    if not wrong and digest_of(document) != signed.digest:
        wrong.append(f"is not to the letter what the learner signed in line {signed.line}")
    return wrong


def _differences(follows: Any, found: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Each place where a found value differs from the one that follows from the run, with a text that says how."""
    equal = True
    if isinstance(follows, dict) and isinstance(found, dict):
        for key in [*follows, *(key for key in found if key not in follows)]:
            below = f"{place}.{key}".lstrip(".")
            if key not in found:
                yield below, "nothing"
            elif key not in follows:
                yield below, "what no model has"
            else:
                yield from _differences(follows[key], found[key], below)
    elif isinstance(follows, list) and isinstance(found, list) and len(follows) == len(found):
        for i, (one, other) in enumerate(zip(follows, found, strict=True)):
            yield from _differences(one, other, f"{place}[{i}]")
    elif type(follows) is float and type(found) is float and math.isfinite(follows) and math.isfinite(found):
        equal = abs(found - follows) <= ROUNDING * abs(follows)  # up to the rounding of another machine
    else:
        equal = type(follows) is type(found) and repr(follows) == repr(found)
    if not equal:
        yield place, f"{found!r:.40}, and the run {follows!r:.40},"

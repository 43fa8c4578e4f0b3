"""Does a run's file lead to its model, and did everybody sign what stands in it? Checked line by line, by anybody.

`verify_run` needs the file and, to trust nobody, two things from elsewhere: the agreement that the reader signed up to and
the certificate of the consortium's authority. It replays the run: every θ must follow from the agreement and the answers
before it, by the agreed rule; every query must be the learner's and every answer its owner's, by their signatures; every
line must follow the one before it. What is wrong is said with the number of its line.

A model's file is made anew from the run and compared with the one that is given, value by value: nothing in it is left out,
and what it has beyond is wrong. Only the public dictionary is taken from the file, where it has the fingerprint that
everybody signed, and what the learner's public rows say (`record.realised.public`, `record.forecast`): these the learner
signed, and they rest on its word.

What a file cannot show: an answer that the learner never wrote down, where its owner did not sign a count at the end
(`Verdict.missing`, `Verdict.not_closed`), and lines after the last signature, which rest on the learner's word.
"""

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import InvalidInput
from copriv.formatting.cards import Shown
from copriv.network.keys import fingerprint_of
from copriv.network.model import Model, digest_of, parsed, read_document
from copriv.network.store import RunStore
from copriv.network.verify_lines import ROUNDING, LineCheck, Problem
from copriv.types import Array

_MOST_DIFFERENCES = 20


@dataclass(frozen=True, eq=False)
class Verdict(Shown):
    """What came of checking a run's file."""

    run: str
    agreement: Agreement
    lines: int
    head: str
    """The hash of the last line."""
    stepped: int
    """Queries or rounds that moved the model."""
    answers: dict[str, int]
    """Signed answers in the file, of each owner."""
    missing: dict[str, int]
    """Answers that an owner counted, in another answer or at the end, and that are not in the file: lost, or left out."""
    not_closed: tuple[str, ...]
    """Owners without a signed count after their last query: of their last answers, more may be missing."""
    authority: str
    """SHA-256 of the authority's certificate by which signatures were checked."""
    outcome: str
    """"finished", "stopped", or "" where the file ends in the middle."""
    model: Float[Array, " p"] | None
    """θ, from the replay; None where it has no beginning."""
    rounding: float
    """The largest difference between a θ in the file and the replay's, relative; 0: to the bit."""
    problems: tuple[Problem, ...]
    record: dict[str, Any]
    """How the run went, from the model's file; empty without one, and where anything is wrong with it."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify_run(
    path: str | Path,
    agreement: Agreement | None = None,
    authority: bytes | None = None,
    model: str | Path | None = None,
    head: str | None = None,
) -> Verdict:
    """Check a run's file.

    agreement: the reader's own copy; without it, the one in the file is taken. authority: the consortium's, PEM, from the
    reader's own keys; without it, the one that the file names. model: the file that was made of the run.
    head: the hash of a line that was written down elsewhere.
    Raises StoreFailed for what is no run's file, InvalidInput for a model file that is none.
    """
    with closing(RunStore.read(path)) as store:
        document = None if model is None else read_document(model)
        held = None if model is None else Model.of(document)
        check = LineCheck(store, authority, None if held is None else held.record.get("head"))
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
        try:
            fingerprint = "" if check.authority is None else fingerprint_of(check.authority)
        except InvalidInput:
            fingerprint = ""
        return Verdict(
            run=store.run,
            agreement=store.agreement,
            lines=check.lines,
            head=run.head,
            stepped=run.stepped,
            answers={name: len(party.counts) for name, party in run.parties.items()},
            missing={name: party.missing for name, party in run.parties.items() if party.missing},
            not_closed=tuple(name for name, party in run.parties.items() if not party.closed),
            authority=fingerprint,
            outcome=run.status or "",
            model=run.trajectory.model if run.begun else None,
            rounding=check.rounding,
            problems=tuple(check.problems),
            record=held.record if held is not None and not check.problems else {},
        )


def _wrong_with(model: Model, document: Any, check: LineCheck, store: RunStore) -> list[str]:
    """What in a model's file does not follow from the run; empty where all of it does."""
    if model.agreement.fingerprint != store.agreement.fingerprint or model.record.get("run") != store.run:
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
        check.run.parties[owner["name"]].answered for owner in signed.record["owners"]
    ]:
        wrong.append(f"is of line {signed.line}; owners counted more answers after it than its record says")
    if θ.shape != model.theta.shape or not np.allclose(
        θ, model.theta, rtol=0.0, atol=ROUNDING * max(1.0, float(np.abs(θ).max(initial=0.0)))
    ):
        wrong.append("is not the one to which the run's answers lead")
    if ("" if model.dictionary is None else model.dictionary.fingerprint) != check.run.dictionary:
        wrong.append("has another public dictionary than the one that learner and owners signed")
    record = dict(signed.record, forecast=model.record.get("forecast"))
    realised = model.record.get("realised")
    if isinstance(realised, dict):
        record["realised"] = {**record["realised"], "public": realised.get("public")}
    follows = parsed(replace(model, agreement=store.agreement, record=record).to_json())
    for place, what in islice(_differences(follows, document), _MOST_DIFFERENCES):
        wrong.append(f"says {what} under {place}")
    if not wrong and digest_of(document) != signed.digest:
        wrong.append(f"is not to the letter what the learner signed in line {signed.line}")
    return wrong


def _differences(follows: Any, found: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Where a value is another one than follows from the run, and which."""
    alike = True
    if isinstance(follows, dict) and isinstance(found, dict):
        for key in [*follows, *(key for key in found if key not in follows)]:
            below = f"{place}.{key}" if place else key
            if key in follows and key in found:
                yield from _differences(follows[key], found[key], below)
            else:
                yield below, "nothing" if key in follows else "what no model has"
    elif isinstance(follows, list) and isinstance(found, list) and len(follows) == len(found):
        for i, (one, other) in enumerate(zip(follows, found, strict=True)):
            yield from _differences(one, other, f"{place}[{i}]")
    elif type(follows) is float and type(found) is float and math.isfinite(follows) and math.isfinite(found):
        alike = abs(found - follows) <= ROUNDING * abs(follows)  # up to how another machine rounds
    else:
        alike = type(follows) is type(found) and repr(follows) == repr(found)
    if not alike:
        yield place, f"{found!r:.40}, and the run {follows!r:.40},"

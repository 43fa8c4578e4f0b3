"""Does a run's file lead to its model, and did everybody sign what stands in it? Checked line by line, by anybody.

`verify_run` needs the file and, to trust nobody, two things from elsewhere: the agreement that the reader signed up to and
the certificate of the consortium's authority. It replays the run: every θ must follow from the agreement and the answers
before it, by the agreed rule; every query must be the learner's and every answer its owner's, by their signatures; every
line must follow the one before it. What is wrong is said with the number of its line.

What a file cannot show: an answer that the learner never wrote down, where its owner did not sign a count at the end
(`Verdict.missing`, `Verdict.not_closed`), and lines after the last signature, which rest on the learner's word.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import InvalidInput
from copriv.formatting.cards import Shown
from copriv.network.keys import fingerprint_of
from copriv.network.model import Model
from copriv.network.store import RunStore
from copriv.network.verify_lines import ROUNDING, LineCheck, Problem
from copriv.types import Array


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
    store = RunStore.read(path)
    try:
        held = None if model is None else Model.load(model)
        check = LineCheck(store, authority)
        if agreement is not None and agreement.fingerprint != store.agreement.fingerprint:
            check.wrong(None, "the run is under another agreement than the one given; their fingerprints differ")
        if check.to_the_end():
            if head is not None and head not in check.hashes:
                check.wrong(
                    None, f"no line has the head {head[:12]}…: the file was made anew, or cut off before that line"
                )
            if held is not None:
                _compare(check, store, held)
        model_now = None if check.trajectory is None else check.trajectory.model
        return Verdict(
            store.run, store.agreement, check.lines, check.head, check.stepped, check.answers, check.missing,
            check.not_closed, _fingerprint(check.authority), check.outcome, model_now, check.rounding, tuple(check.problems),
        )  # fmt: skip
    finally:
        store.close()


def _compare(check: LineCheck, store: RunStore, model: Model) -> None:
    θ: Array = check.trajectory.model if check.trajectory is not None else np.zeros(0)
    if model.agreement.fingerprint != store.agreement.fingerprint or model.record.get("run") != store.run:
        check.wrong(None, "the model is that of another run")
    elif str(model.record.get("head")) not in check.hashes:
        check.wrong(None, "the model names a line that is not in this file")
    elif θ.shape != model.theta.shape or not np.allclose(
        θ, model.theta, rtol=0.0, atol=ROUNDING * max(1.0, float(np.abs(θ).max(initial=0.0)))
    ):
        check.wrong(None, "the model is not the one to which the run's answers lead")


def _fingerprint(authority: bytes | None) -> str:
    try:
        return "" if authority is None else fingerprint_of(authority)
    except InvalidInput:
        return ""

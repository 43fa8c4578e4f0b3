"""How the model moves: the agreement's rule and its state, fed with what owners answered.

One run, one θ. The learner's process and whoever checks its run afterwards (`verify`) move it here and nowhere else.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants, agreed_rule
from copriv.errors import AgreementError
from copriv.types import Array

MOST = 1e100
"""No noise that was ever agreed on gives such a number, and its square is still one."""


class Trajectory:
    """θ from the agreed start on.

    shares_by_rate: whether participants talk in proportion to their clocks' rates (see `agreed_rule`).
    Raises AgreementError for terms that are still "auto", or do not fit p parameters.
    """

    @classmethod
    def of(cls, agreement: Agreement, n_parameters: int, talk: str) -> "Trajectory":
        """Of a run that began with this way to talk: where the learner chooses, owners talk evenly."""
        return cls(agreement, n_parameters, shares_by_rate=talk != "choose")

    def __init__(self, agreement: Agreement, n_parameters: int, shares_by_rate: bool) -> None:
        if agreement.agreement.rule == "auto":
            raise AgreementError('agreement.rule: still "auto"; plan it first (copriv forecast)')
        agreement.mechanism.check_delta(agreement)
        p, participants = n_parameters, Participants.of(agreement)
        start, matrix = agreement.agreement.start, agreement.agreement.preconditioner
        self.length = agreement.mechanism.length(agreement, p)
        """How many numbers an answer has."""
        self._rule = agreed_rule(agreement, participants, p, shares_by_rate=shares_by_rate)
        self._weights = dict(zip(agreement.owner_names, agreement.weights, strict=True))
        θ = np.zeros(p) if start is None else np.array(start)
        if len(θ) != p:
            raise AgreementError(f"agreement.start: {len(θ)} numbers for {p} parameters")
        if matrix is not None and np.shape(matrix) != (p, p):
            raise AgreementError(f"agreement.preconditioner: needs {p} rows of {p} numbers")
        self._state = self._rule.start(θ[None, :])

    @property
    def model(self) -> Float[Array, " p"]:
        """θ as it stands, which is what the run gives if it ends here."""
        θ: Array = self._rule.model(self._state)[0]
        return θ.copy()

    def unfit(self, answer: Float[Array, " answer"]) -> str:
        """Why these numbers cannot be an answer; "" where they can. Noise has no bound, arithmetic does."""
        if answer.shape != (self.length,) or not np.isfinite(answer).all() or np.abs(answer).max(initial=0.0) > MOST:
            return f"it must be {self.length} finite numbers of at most {MOST:g}"
        return ""

    def query(self, participant: int) -> Float[Array, " p"]:
        """Where a participant is to be asked now."""
        θ: Array = self._rule.query(self._state, np.array([participant]))[0]
        return θ.copy()

    def step(self, participant: int, answers: Mapping[str, Array]) -> None:
        """One step of the rule with Σ (n_i/n_G) Q̄_i over the owners that answered (A, Remark 2)."""
        w = np.array([self._weights[name] for name in answers])
        if len(answers) == 1 and w[0] > 0:
            (answer,) = answers.values()
        else:
            share = w / w.sum() if w.sum() > 0 else w
            answer = sum((s * given for s, given in zip(share, answers.values(), strict=True)), np.zeros(self.length))
        self._state = self._rule.step(self._state, np.array([participant]), answer[None, :])

"""Whether owners add the noise that they should, as far as their answers tell: for a run in which all answer at one θ.

In one round, let c be the median of the other owners' answers, in each coordinate, and a the owner's own. Then a − c is the
owner's noise and a difference that does not depend on it, and is in distribution at least as large in absolute value as the
noise by itself (Anderson 1955). The sum of |a − c|/b over all coordinates and rounds (of its square, with normal noise) is
therefore at most as likely to be below a number as the same sum of agreed noise: whatever the owners' records are, and whatever
the others answer without knowing this answer. An owner whose sum is improbably small has left noise out, or copied.
"""

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats

from copriv.agreement import Agreement
from copriv.privacy.noise import Law
from copriv.types import Array

IMPROBABLE = 1e-6
"""Probability, over all owners of a run, that any owner with the agreed noise is said to have too little."""


class NoiseCheck:
    """Sums over rounds of the owners' distances from the others' medians, in units of their noise.

    Raises AgreementError for a noise scale that depends on terms that are still "auto".
    """

    def __init__(self, agreement: Agreement) -> None:
        self._law = agreement.mechanism.law(agreement)
        self._scale = agreement.noise_scales()
        self._total, self._numbers = np.zeros(agreement.n_owners), 0

    def take(self, answers: Float[Array, "owners p"]) -> None:
        """Add a round."""
        others = [np.median(np.delete(answers, i, axis=0), axis=0) for i in range(len(answers))]
        distance = np.abs(answers - np.array(others)) / self._scale[:, None]
        power = {Law.LAPLACE: 1, Law.NORMAL: 2}[self._law]
        self._total += (np.minimum(distance, 1e9) ** power).sum(axis=1)
        self._numbers += answers.shape[1]

    def probabilities(self) -> Float[Array, " owners"]:
        """Probability that agreed noise alone gives a sum as small as each owner's; 1 before any round."""
        if self._numbers == 0:
            return np.ones(len(self._total))
        law: dict[Law, Any] = {Law.LAPLACE: stats.gamma(self._numbers), Law.NORMAL: stats.chi2(self._numbers)}
        return np.asarray(law[self._law].cdf(self._total))

    def too_little(self) -> list[bool]:
        """Whether each owner's noise is improbably small."""
        return [bool(p < IMPROBABLE / len(self._total)) for p in self.probabilities()]

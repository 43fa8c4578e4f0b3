"""Mechanisms by which an owner answers one query, at the agreed start, and the learner then computes the model.

Such a mechanism says what a simulation has to draw and what an answer then is (`Draft`), which rule takes the answers,
and, where it can be planned, its candidate settings and what they lead to on a world of public rows.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.errors import AgreementError
from copriv.mechanisms.expected import Declared
from copriv.mechanisms.mechanism import Mechanism
from copriv.model.objective import FeasibleSet, Regularizer
from copriv.model.records import InBlocks, Records
from copriv.privacy.noise import Law, Noise, Order
from copriv.rules.rule import Descent, UpdateRule
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array, Loss

Draw = Callable[[Law, Any], Array]
"""Draws of a law, of scale 1 and the given shape."""
STEPS = (1.0, 0.6, 0.3)
"""Candidate step sizes from the start to what the answers say; short ones keep more of a public start and less noise."""


@dataclass(frozen=True, eq=False)
class Draft:
    """An owner's answers but for their noise, for simulations: `answer` is given the draws, multiplied by their scales."""

    noises: tuple[Noise, ...]
    """In the order in which they are drawn; a first one that is scaled scales the budget."""
    answer: Callable[..., Float[Array, "runs answer"]]


@dataclass(frozen=True, eq=False)
class Common:
    """The public part of the problem: the fitness without records, and the bounds."""

    loss: Loss
    n_parameters: int
    feature_bound: float | None
    """B as a number."""
    preconditioner: Float[Array, "p p"] | None
    """The agreed P."""
    regularizer: Regularizer
    feasible_set: FeasibleSet


@dataclass(frozen=True, eq=False)
class Setting:
    """Candidate terms of an agreement; `tried` gives their cost for all `steps` at once."""

    bound: float
    steps: tuple[float, ...]
    terms: dict[str, Any]
    """Keys of [agreement] and their values."""
    smoothing: float | None = None
    """The hinge's; None: as agreed."""
    patient: bool = True
    """False where it is one of many that are weighed: NotCertified where a run of it would take minutes."""

    @property
    def preconditioner(self) -> Float[Array, "p p"] | None:
        """P of its terms; None for the identity."""
        if self.terms["preconditioner"] is None:
            return None
        return np.array(self.terms["preconditioner"])


@dataclass(frozen=True, eq=False)
class Choosing:
    """The public information that candidate settings are made from."""

    base: AgreedTerms
    """With this mechanism and the start; bound, step and the mechanism's own terms are to be chosen."""
    common: Common
    records: Records
    """The public rows."""
    hessian: Float[Array, "p p"]
    """Hessian of the fitness on the public rows, at its optimum."""
    displacement: Float[Array, "worlds p"]
    """The start less the optimum of each bootstrap world."""
    bounds: Callable[[Order], list[float]]
    """Candidates for Ξ, in a norm."""
    step: float | None
    """The agreed step, where that is a number."""
    smoothing_free: bool

    def steps(self, candidates: tuple[float, ...]) -> tuple[float, ...]:
        """The candidates, or the agreed step alone."""
        return candidates if self.step is None else (self.step,)

    @cached_property
    def inverse(self) -> Float[Array, "p p"]:
        """The agreed preconditioner, or the inverse of the public Hessian."""
        if self.common.preconditioner is not None:
            return 0.5 * (self.common.preconditioner + self.common.preconditioner.T)
        a, U = np.linalg.eigh(self.hessian)
        # Features that differ much less than others would make it too ill conditioned for floats.
        inverse = (U / np.maximum(a, a[-1] / 5e4)) @ U.T
        return np.asarray(0.5 * (inverse + inverse.T))


class OneAnswer(Mechanism):
    """The whole budget of a run in one answer."""

    one_answer = True
    why_not_summed = "its noise is inside of what each owner computes, and does not add up"
    planned = False
    """Whether `settings` and `tried` can choose its terms."""
    bound_quantile: float | None = None
    """The quantile of the public rows' lengths that a plan takes for B; None: the end of their extrapolated tail."""
    sums_records = False
    """Whether the model depends on owners' records through their weighted mean alone, however they are dealt out."""
    divisible = True
    """Whether noise k times as large is what a budget k times as small asks for."""

    def check(self, agreed: AgreedTerms) -> None:
        once = 1 + (agreed.summed * agreed.attempts)
        if agreed.answers != once:
            kept = f", and {agreed.attempts} for further attempts" if once > 1 else ""
            raise AgreementError(f'agreement.answers: mechanism "{self.name}" answers once{kept}; set answers = {once}')
        if agreed.data.feature_bound == 0:
            raise AgreementError(
                f'data.feature_bound: mechanism "{self.name}" needs a bound on the features; 0 is none'
            )
        super().check(agreed)

    @abstractmethod
    def draft(self, agreed: AgreedTerms, owner: OwnerTerms, records: Records, common: Common) -> Draft:
        """The answer of an owner with these records, for simulations."""

    def exact(
        self, agreed: AgreedTerms, owner: OwnerTerms, records: Records, common: Common
    ) -> Float[Array, " answer"]:
        """The answer without noise, for an owner that is the learner itself. NOT PRIVATE."""
        draft = self.draft(agreed, owner, records, common)
        return np.asarray(draft.answer(*(np.zeros((1, *noise.scale.shape)) for noise in draft.noises))[0])

    @abstractmethod
    def rule(
        self, agreed: AgreedTerms, descent: Descent, weights: Float[Array, " owners"], n_parameters: int,
        feature_bound: float | None = None,
    ) -> UpdateRule:  # fmt: skip
        """The rule that makes a model of the answers. `feature_bound` is B as a number; without it, the agreement's."""

    def suits(self, loss: Loss) -> bool:
        """Whether a plan that is free to choose looks at this mechanism."""
        return False

    def settings(self, choosing: Choosing) -> Iterator[Setting]:
        """Candidates, from public information."""
        raise AgreementError(f'agreement.mechanism: "{self.name}" cannot be planned; give every term a number')

    def expected(self, declared: Declared) -> Iterator[tuple[float, Setting]]:
        """Settings from declared ranges alone, each with its expected gap; none where a mechanism needs public rows."""
        return iter(())

    def constant(self, declared: Declared) -> Iterator[tuple[float, Setting]]:
        """The same for a constant, the coefficient of one column that is 1 in every row, under the squared loss."""
        return iter(())

    def tried(
        self, common: Common, records: Records, base: AgreedTerms, setting: Setting, runs: int, draw: Draw
    ) -> tuple[Float[Array, "runs p"], float]:
        """Models of a whole step that a setting leads to on public rows, and the part of their spread that averaging keeps."""
        raise AgreementError(f'agreement.mechanism: "{self.name}" cannot be planned; give every term a number')


def in_memory(records: Records | InBlocks) -> Records:
    """Records that a mechanism of one answer works on."""
    if not isinstance(records, Records):
        raise AgreementError("owner: a mechanism of one answer needs records in memory; raise the limit (--memory)")
    return records


def feature_bound_of(agreed: AgreedTerms, feature_bound: float | None = None) -> float:
    """B as a number. Raises AgreementError where it is still to be planned."""
    bound = agreed.data.feature_bound if feature_bound is None else feature_bound
    if not isinstance(bound, float) or not bound >= 1e-30:  # its square must keep all digits
        raise AgreementError(
            f'data.feature_bound: mechanism "{agreed.agreement.mechanism}" needs the number that bounds the '
            f"features, not {bound!r}; the learner finds it on its public rows (copriv forecast)"
        )
    return bound

"""The interface of update rules.

A rule that defines `name` and `update` only can be agreed, simulated, forecast by simulation, and served. One with `ways` can
be planned, one with a `recursion` is forecast exactly, and one with `bounds` is compared with its theorems.

Without clipping and box, and with the squared loss, every rule here is linear in its state and in the noise. `exact` knows
three shapes of such a recursion: all answer in each round (`InRounds`), the learner keeps a copy of θ for each owner
(`WithCopies`), or it keeps the newest answer of each (`WithMemory`). A rule returns its recursion with its own steps.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from copriv.errors import InvalidInput
from copriv.model.objective import FeasibleSet, Regularizer
from copriv.rules.bounds import Bound, Setting
from copriv.terms import AgreedTerms, Terms
from copriv.types import Array

Participant = np.ndarray[Any, np.dtype[np.intp]]
"""Which participant answered, one index a run."""
Who = Int[Participant, " runs"]
Points = Float[Array, "runs p"]
Iterates = Float[Array, "runs *owners p"]
"""Points of a learner, or, on a graph, of each owner."""
Weights = Float[Array, " participants"]


@dataclass(frozen=True, eq=False)
class Aggregation:
    """Aggregation of the answers of a participant's owners into the vector that a rule gets, and its noise.

    It is the weighted mean Σ (w_i/w_G) Q̄_i (A, Remark 2), and the learner sees every single answer.
    """

    weights: Float[Array, " owners"]

    @property
    def shares(self) -> Float[Array, " owners"]:
        """w_i/w_G; 0 where all weights are 0."""
        return np.asarray(self.weights / (self.weights.sum() or 1.0))

    def vector(self, answers: Float[Array, "owners answer"]) -> Float[Array, " answer"]:
        """The vector, from one answer of each owner."""
        if len(answers) == 1 and self.weights[0] > 0:
            return np.asarray(answers[0])
        parts = (share * answer for share, answer in zip(self.shares, answers, strict=True))
        return np.asarray(sum(parts, np.zeros(answers.shape[1])))

    def noise(self, scales: Float[Array, " owners"]) -> Float[Array, " draws"]:
        """Scale of each independent draw of noise in the vector. scales: of the noise that an owner's answer needs alone."""
        return self.shares * scales

    @property
    def shapes(self) -> Float[Array, " draws"]:
        """Number of owners whose noise each draw is the sum of (`copriv.privacy.simulated_noise.draws`)."""
        return np.ones(len(self.weights))


@dataclass(frozen=True, eq=False)
class SharedSum(Aggregation):
    """A weighted mean of which the learner sees nothing else, with noise that its owners share.

    Any N − u owners' shares are the noise that the strictest of them asks for; all N make N/(N − u) times its variance.
    """

    uncounted: int
    """u = t + d: owners that may collude, and owners that may be missing."""
    floors: Float[Array, " owners"]
    """Scale of the noise that owners add to their answers by themselves; 0 for none."""

    def noise(self, scales: Float[Array, " owners"]) -> Float[Array, " draws"]:
        """Scale of the shared noise, and of each owner's own."""
        shared = float((self.shares * scales).max()) * np.sqrt(self.shapes[0])
        return np.concatenate([[shared], (self.shares * self.floors)[self.floors > 0]])

    def by_owner(self, scales: Float[Array, " owners"]) -> Float[Array, " owners"]:
        """Scale of independent noise on each owner's answer that has the same variance in the vector."""
        shared = self.noise(scales)[0] ** 2 / len(scales)
        return np.asarray(np.sqrt(shared / self.shares**2 + self.floors**2))

    @property
    def shapes(self) -> Float[Array, " draws"]:
        N = len(self.weights)
        return np.concatenate([[N / (N - self.uncounted)], np.ones(int((self.floors > 0).sum()))])


@runtime_checkable
class UpdateRule(Protocol):
    """An update rule: it returns the point of the next query, is updated with one private vector, and has a model.

    >>> import numpy as np
    >>> from copriv.rules import PLAIN, SyncDecay, UpdateRule
    >>> isinstance(SyncDecay(PLAIN, 1.0, 10), UpdateRule)
    True
    """

    def start(self, theta: Points) -> Any:
        """The state before any answer."""

    def query(self, state: Any, participant: Who) -> Points:
        """The point at which this participant is asked for the mean gradient of its records."""

    def step(self, state: Any, participant: Who, answer: Points) -> Any:
        """The state after the participant's private answer: one vector, wherever it comes from (`Aggregation`)."""

    def model(self, state: Any) -> Points:
        """The present θ, which would be published now."""


@dataclass(frozen=True, eq=False)
class Descent:
    """The regulariser, the box, and an optional public preconditioner P: the direction is P(∇g(θ) + gradient).

    P is public (a Hessian of the public sample, inverted), so using it on private answers costs no privacy.

    >>> import numpy as np
    >>> from copriv.model.objective import FeasibleSet, Regularizer
    >>> from copriv.rules import Descent
    >>> Descent(Regularizer(0.5), FeasibleSet()).direction(np.array([[2.0]]), np.array([[1.0]]))
    array([[2.]])
    """

    regularizer: Regularizer
    feasible_set: FeasibleSet
    preconditioner: Float[Array, "p p"] | None = None

    def along(self, gradient: Iterates) -> Iterates:
        """P · gradient."""
        if self.preconditioner is None:
            return gradient
        return gradient @ self.preconditioner.T

    def direction(self, theta: Iterates, gradient: Iterates) -> Iterates:
        """P(∇g(θ) + gradient)."""
        return self.along(self.regularizer.gradient(theta) + gradient)


PLAIN = Descent(Regularizer(0.0), FeasibleSet())
"""Descent without regulariser, feasible set or preconditioner, for a plan's tables, where g is part of the fitness."""


@dataclass(frozen=True, eq=False)
class InRounds:
    """θ[k+1] = θ[k] − steps[k](∇g + Σ ω_i Q̄_i).

    Where `average` is given, θ̄[k+1] = θ̄[k] + average[k](θ[k] − θ̄[k]) is the model.
    """

    steps: Float[Array, " updates"]
    average: Float[Array, " updates"] | None = None

    def moments(self, curvature: Float[Array, " p"]) -> Iterator[tuple[Float[Array, " p"], Float[Array, " p"]]]:
        """Mean and variance of θ − θ* in each eigenvector of the fitness, at the start and after each update.

        The mean is in units of the start's distance, the variance in units of that of Σ ω_i·noise_i.
        """
        mean, mean_average = np.ones_like(curvature), np.ones_like(curvature)
        variance, covariance, variance_average = (np.zeros_like(curvature) for _ in range(3))
        yield mean, variance
        for k, step in enumerate(self.steps):
            if self.average is not None:
                w = self.average[k]
                mean_average = (1 - w) * mean_average + w * mean
                variance_average = (1 - w) ** 2 * variance_average + 2 * w * (1 - w) * covariance + w**2 * variance
                covariance = (1 - w) * covariance + w * variance
            decay = 1.0 - step * curvature
            mean, variance, covariance = decay * mean, decay**2 * variance + step**2, decay * covariance
            if self.average is None:
                yield mean, variance
            else:
                yield mean_average, variance_average


@dataclass(frozen=True)
class WithCopies:
    """With m = (θ_L + x_i)/2:  x_i ← m − (Nα/σ)(∇g(m)/(2N) + ω_i Q̄_i(m)),  θ_L ← m − (cα/σ)∇g(m)."""

    step: float
    """α."""
    learner_step: float
    """c."""

    @staticmethod
    def require(sigma: float) -> None:
        """Raises InvalidInput without a regulariser: the step is divided by its strength σ."""
        if not sigma > 0:
            raise InvalidInput(
                "model.regularization: rule A1 steps by rho/(T^2 sigma), so it needs a regularization above 0 "
                "(the papers use 1e-5); set one, or use rule A2"
            )


@dataclass(frozen=True)
class WithMemory:
    """x_i ← Q̄_i(θ),  θ ← θ − α/(1 + k/N) · (∇g(θ) + Σ_heard ω_j x_j / Σ_heard ω_j)."""

    step: float
    """α."""


Recursion = InRounds | WithCopies | WithMemory


@dataclass(frozen=True)
class Way:
    """One way in which a plan may use a rule, priced for m answers of each owner at an agreed step of 1.

    Either `rounds` returns the recursion of m rounds of all owners, or `turns` returns the rule for participants of given
    weights, which is run once on the curvatures of the table, without clipping or feasible set.

    >>> from copriv.rules import named
    >>> tuple(way.name for way in named("S2").ways)
    ('S2', 'S2 last')
    """

    name: str
    rule: str
    together: bool
    """Whether everybody answers in each step."""
    rounds: Callable[[int], InRounds] | None = None
    turns: Callable[[Weights], UpdateRule] | None = None
    one_by_one: bool = False
    """Rounds in which owners answer one at a time, and the model moves once all have: N times the agreed step."""
    terms: tuple[tuple[str, Any], ...] = ()
    """Keys of [agreement] that differ from their defaults."""


class Rule(ABC):
    """An update rule by its name. `agreed` are the terms that name it.

    >>> from copriv.rules import ALL
    >>> {rule.name: rule.together for rule in ALL}
    {'S1': True, 'S2': True, 'A1': False, 'A2': False}
    """

    name: str
    """Value of `agreement.rule` that names it."""
    together: bool = False
    """Whether everybody answers in each step (synchronous), or one participant at a time."""
    several_at_once: bool = False
    """Whether several participants may compute at once, so that an answer may be at an earlier θ."""
    bundled: bool = True
    """Whether a simulation may take fewer owners, of less noise and with longer steps, for many that are alike."""
    step: str = "step"
    """The papers' symbol for `agreement.step`."""
    ways: tuple[Way, ...] = ()
    """Ways in which a plan may use it; empty where it cannot be planned."""
    why_not_planned: str = ""

    @property
    def counted_in(self) -> str:
        """The unit of k, in a heading."""
        return "rounds" if self.together else "queries"

    @property
    def axis(self) -> str:
        """The label of an axis of k."""
        return "k: rounds" if self.together else "k: queries answered"

    @abstractmethod
    def update(
        self, agreed: AgreedTerms, descent: Descent, weights: Weights, shares: Weights | None = None
    ) -> UpdateRule:
        """The update rule for participants of these weights.

        shares: frequency of each participant's answers, where it is not uniform, for rules that correct for it.
        Raises InvalidInput for terms that it cannot be run with.
        """

    def variant(self, terms: Terms) -> str:
        """The agreed variant in words; "" for the usual one."""
        return ""

    def way(self, terms: Terms) -> Way | None:
        """The agreed way; None where it cannot be planned."""
        return next(iter(self.ways), None)

    def recursion(self, agreed: AgreedTerms) -> Recursion | None:
        """Linear recursion of the rule for exact forecasts; None where forecasts are simulated."""
        return None

    def bounds(self, setting: Setting) -> tuple[Bound, ...]:
        """The theorems' bounds for this rule."""
        return ()

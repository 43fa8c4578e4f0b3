"""A1: one owner at a time; the learner keeps its own θ_L and one copy θ_i an owner. For strongly convex g (A, Alg. 1).

    θ̄   = (θ_L + θ_i)/2
    θ_i ← Π_Θ[θ̄ − (Nρ/(T²σ)) (∇g(θ̄)/(2N) + (n_i/n) Q̄_i(θ̄))]
    θ_L ← Π_Θ[θ̄ − c_L (ρ/(T²σ)) ∇g(θ̄)]

The appendix of A needs c_L = 1/2; eq. (7) prints (N − 1)/N, which agrees for N = 2 only (erratum 2). Both can be had.
The gradient of an owner with a share s of the answers is scaled by 1/(Ns) (A, Remark 4). Shares are the agreed ones, π, until
the answers contradict them. With π as a prior of a = 2N answers, the next answer is owner i's with probability
(aπ_i + c_i)/(a + k) after k answers, c_i of them its own. The likelihood ratio

    M_k = Π over answers of ((aπ_i + c_i)/(a + k))/π_i

is a martingale of mean 1 where owners keep to π, which exceeds a million in less than one run in a million, for any number of
owners and at any time (Ville 1939). Once it does, shares are estimated from recent answers, with weights that fall by 1/e over
a tenth of the run, or over ten answers per owner where that is longer. So owners that keep to π are not affected, and their
forecasts stay exact; owners that drop out are compensated for by a factor of at most ten, if they are away for a
shorter time than the memory of θ_L; long absences are not compensated for.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from copriv.rules.bounds import Bound, Quantity, Setting, checked_bound
from copriv.rules.rule import Descent, Points, Rule, Weights, Who, WithCopies
from copriv.terms import AgreedTerms
from copriv.types import Array

SURPRISE = 1e-6
"""Probability under the agreed shares below which realised shares replace them (Ville's inequality)."""


@dataclass(eq=False)
class _State:
    learner: Points
    copies: Float[Array, "runs owners p"]
    middle: Points
    """θ̄ of the query that is out."""
    heard: Float[Array, "runs owners"]
    """c_i: answers so far."""
    lately: Float[Array, "runs owners"]
    """Answers so far, answer k weighted by e^(k/w), so that older ones fade."""
    surprise: Float[Array, " runs"]
    """log M."""
    strays: Bool[np.ndarray, " runs"]
    """Whether the answers contradict the agreed shares."""
    k: int


@dataclass(frozen=True, eq=False)
class AsyncCopies:
    """A1 with step ρ = `step_size` over T = `horizon` queries, for N = len(weights) participants of weights n_i/n.

    Raises InvalidInput without a regulariser: the step is ρ/(T²σ), and σ is its strength.

    >>> import numpy as np
    >>> from copriv.model.objective import FeasibleSet, Regularizer
    >>> from copriv.rules import AsyncCopies, Descent
    >>> rule = AsyncCopies(Descent(Regularizer(1e-3), FeasibleSet()), 0.01, 10, np.array([0.5, 0.5]))
    >>> state = rule.start(np.zeros((1, 2)))
    >>> who = np.array([0])
    >>> at = rule.query(state, who)
    >>> state = rule.step(state, who, np.array([[1.0, -1.0]]))
    >>> rule.model(state)
    array([[0., 0.]])
    >>> rule.query(state, who)  # the answer has moved this participant's copy
    array([[...]])
    """

    descent: Descent
    step_size: float | Float[Array, "runs 1"]
    horizon: int
    weights: Weights
    shares: Weights | None = None
    learner_step: str = "corrected"

    def __post_init__(self) -> None:
        WithCopies.require(self.descent.regularizer.strength)

    def start(self, theta: Points) -> _State:
        runs, N = len(theta), len(self.weights)
        copies = np.repeat(theta[:, None, :], N, axis=1)
        nobody = np.zeros((runs, N)), np.zeros((runs, N)), np.zeros(runs), np.zeros(runs, dtype=bool)
        return _State(theta.copy(), copies, theta.copy(), *nobody, 0)

    def query(self, state: _State, participant: Who) -> Points:
        state.middle = (state.learner + state.copies[np.arange(len(participant)), participant]) / 2
        return state.middle

    def step(self, state: _State, participant: Who, answer: Points) -> _State:
        N, T, ρ = len(self.weights), self.horizon, self.step_size
        g, box = self.descent.regularizer, self.descent.feasible_set
        α = ρ / (T**2 * g.strength)
        factor = self.weights[participant] / (N * self._share(state, participant))
        θ = state.middle
        pull, push = self.descent.along(g.gradient(θ)), factor[:, None] * self.descent.along(answer)
        state.copies[np.arange(len(participant)), participant] = box.project(θ - N * α * (pull / (2 * N) + push))
        state.learner = box.project(θ - _learner_step(self.learner_step, N) * α * pull)
        return state

    def _share(self, state: _State, participant: Who) -> Float[Array, " runs"]:
        """The participant's share of the answers in each run: as agreed, or as realised once `strays` holds."""
        N, run = len(self.weights), np.arange(len(participant))
        π = np.full(len(run), 1.0 / N)
        if self.shares is not None:
            π = self.shares[participant]
        # The agreed shares count for two answers an owner, once realised ones do.
        prior, before = 2.0 * N, state.heard[run, participant]
        state.surprise += np.log((prior * π + before) / ((prior + state.k) * π))
        state.strays |= state.surprise > -np.log(SURPRISE)
        state.heard[run, participant] = before + 1.0
        state.k += 1
        window = max(0.1 * self.horizon, 10 * N)
        now = math.exp(state.k / window)
        state.lately[run, participant] += now
        # Σ e^(j/w) over j = 1 … k, and all in answers of today.
        every = (1.0 - 1.0 / now) / (1.0 - math.exp(-1.0 / window))
        realised = (prior * π + state.lately[run, participant] / now) / (prior + every)
        # At most a factor of ten, since the noise of the owner's answers is multiplied too.
        return np.asarray(np.where(state.strays, np.maximum(realised, π / 10.0), π))

    def model(self, state: _State) -> Points:
        return state.learner


class _A1(Rule):
    name = "A1"
    bundled = False  # the model is the mean of few copies at any time, with the noise of single owners
    step = "rho"
    why_not_planned = (
        'A1 cannot be planned (its step shrinks with T, erratum 5); name "auto" or "A2", or fix its step, answers and '
        "gradient_bound"
    )

    def update(
        self, agreed: AgreedTerms, descent: Descent, weights: Weights, shares: Weights | None = None
    ) -> AsyncCopies:
        terms = agreed.agreement
        return AsyncCopies(descent, agreed.step, terms.horizon, weights, shares, terms.learner_step)

    def recursion(self, agreed: AgreedTerms) -> WithCopies:
        terms = agreed.agreement
        return WithCopies(agreed.step / terms.horizon**2, _learner_step(terms.learner_step, agreed.n_participants))

    def bounds(self, setting: Setting) -> tuple[Bound, ...]:
        quantities: tuple[Quantity, ...] = ("cost", "squared parameter error")
        return tuple(bound for q in quantities for bound in (*a_theorem_2(setting, q), a_as_printed(setting, q)))


A1 = _A1()


def _learner_step(agreed: str, owners: int) -> float:
    """c_L."""
    return {"corrected": 0.5, "printed": (owners - 1) / owners}[agreed]


def a_theorem_2(setting: Setting, quantity: Quantity = "squared parameter error") -> tuple[Bound, ...]:
    """A Thm 2 for rule A1, from its appendix: as published, and with √p in ν_i and the cap m.

    The constants of eq. (8) are not used: they are swapped and a 1/T is dropped (erratum 6). λ = 1 − 1/(2N) in both: as
    printed λ is 1 and the bound infinite (erratum 3). The cost follows from the parameter error E by C√E, since f is
    C-Lipschitz on Θ. Infinite where σ = 0 or Ξ_g is infinite.
    """
    s, T = setting, setting.horizon
    α = s.step / T**2
    needs = [*_needed(s), (α < 1, "ρ/T² < 1")]
    why = f"limsup over iterations, step ρ/T² and noise kept; not a statement at T = {T} (erratum 5); c_L = 1/2"

    def value(ν: Float[Array, " owners"]) -> float:
        if not _usable(s):
            return math.inf
        C, N, σ = s.regularizer_bound + s.gradient_bound, len(s.epsilon), s.regularization
        total = 1.0 + N * float(np.sum((1.0 + ν / C) ** 2))
        square = N * α * (C / σ) ** 2 * total
        error = square + 2.0 * N**2 * α * (C / σ) ** 2 * math.sqrt(N + 1.0) / _gap(N) * math.sqrt(total)
        if quantity == "cost":
            return C * math.sqrt(error)
        return error

    published = 2.0 * math.sqrt(2.0) * s.gradient_bound * T / (s.total_records * s.epsilon)
    one_coordinate = f"{why}; noise of one coordinate (erratum 4)"
    return (
        checked_bound("A, Thm 2, as published", value(published), needs, one_coordinate, quantity),
        checked_bound("A, Thm 2, corrected", value(np.sqrt(s.noise_moments)), needs, why, quantity),
    )


def a_as_printed(setting: Setting, quantity: Quantity = "squared parameter error") -> Bound:
    """A (8), or (9) for the cost, in the printed form: c₁√S + c₂S with S = 1/T² + N Σ (1/T + 2√2/(nε_i))².

    With the constants that A, App. B defines, c₁ = NC²/σ² at the root and c₂ = 2N²C²√(N+1)/(σ²(1−√λ)) at the square,
    times ρ; the appendix itself has them the other way round and a 1/T with the root (erratum 6). The primed
    constants of (9) are not given; f is C-Lipschitz on Θ, so C times the root of (8) is what follows, and stands here.
    """
    s, T, N = setting, setting.horizon, len(setting.epsilon)
    C, σ, error = s.regularizer_bound + s.gradient_bound, s.regularization, math.inf
    if _usable(s):
        S = 1.0 / T**2 + N * float(np.sum((1.0 / T + 2.0 * math.sqrt(2.0) / (s.total_records * s.epsilon)) ** 2))
        c1, c2 = N * (C / σ) ** 2, 2.0 * N**2 * (C / σ) ** 2 * math.sqrt(N + 1.0) / _gap(N)
        error = s.step * (c1 * math.sqrt(S) + c2 * S)
    why = "constants swapped and a 1/T gone against the appendix (erratum 6); noise of one coordinate (erratum 4)"
    if quantity == "cost":
        return checked_bound("A, Thm 2, eq. (9), as printed", C * math.sqrt(error), _needed(s), why, quantity)
    return checked_bound("A, Thm 2, eq. (8), as printed", error, _needed(s), why, quantity)


def _gap(owners: float) -> float:
    """1 − √λ = (1 − λ)/(1 + √λ) with λ = 1 − 1/(2N), which keeps its digits for many owners."""
    return 1.0 / (2.0 * owners) / (1.0 + math.sqrt(1.0 - 1.0 / (2.0 * owners)))


def _needed(s: Setting) -> list[tuple[bool, str]]:
    """Conditions of both forms of the theorem, each with whether it holds."""
    bounded = math.isfinite(s.regularizer_bound)
    return [*s.assumed, (s.regularization > 0, "g strongly convex"), (bounded, "gradients of g bounded over Θ")]


def _usable(s: Setting) -> bool:
    return s.regularization > 0 and math.isfinite(s.regularizer_bound)

"""The cost of outliers that are too rare to be among the public rows, against which plans are insured.

A kind of record that one in RARER·n₀ is, is absent from n₀ public rows with probability 0.8 or more. The fitness counts such
records in full, while a private answer bounds their influence: where Ξ is below their gradients they cost the same whatever the
budget is, and where it is not, their curvature needs a shorter step. Where noise is small, a wider Ξ and a shorter step cost
little.

In a scenario, an outlier is far out in one column of numbers, by one of LENGTHS times the L1 length of the longest public row.
The best model, which is fitted to it too, misses its target by the root mean square residual, on either side; its label is
either one. With A the public curvature, w the share of outliers among the records and φ the loss, the fitness is

    f(θ)  =  f(θ*) + ½ (θ − θ*)ᵀA(θ − θ*) + w φ(xᵀθ, y),

and the agreed rule is run on it without noise: on A(θ − θ*) + w clip(φ′x, Ξ). A mechanism of one answer ends where this is 0.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.mechanisms.pilot import PilotNumbers
from copriv.populations.public_sample import PublicSample
from copriv.privacy.clipping import row_norms
from copriv.problem.verdict import YES
from copriv.rules import Way, named
from copriv.types import Array, LinearLoss, is_linear

RARER = 5
"""Outliers are one in RARER times the number of public rows, which counts as FEWEST where it is smaller."""
FEWEST = 1000
LENGTHS = (1.25, 1.75, 2.5, 3.5, 5.0, 7.0)
"""Lengths of outliers over that of the longest public row; in real tables the longest of all is 1 to 10 times that of 1,000."""
LONGEST = (1.49, 2.09, 2.99, 4.19, 5.99, 8.4)
"""Lengths of outliers, one in each bin of `copriv.mechanisms.pilot.EDGES`, after a pilot has counted them."""
PROBABILITY = 0.2
"""Probability that owners hold such records, of one of LENGTHS. Set with LENGTHS, by the loans of `benchmarks.utility`."""
PREMIUM = 0.1
"""Most that insurance may add to E ψ where there are no outliers, as a share of it or of that of the best owner's own model."""


@dataclass(frozen=True, eq=False)
class Setting:
    """Terms of a run without noise. step: relative to that of `Way`; bound: Ξ; order: of the norm of clipped gradients."""

    way: Way | None
    answers: int
    participants: int
    step: float
    bound: float
    order: Literal[1, 2]
    start: Float[Array, " p"]
    preconditioner: Float[Array, "p p"] | None

    @classmethod
    def of(cls, agreement: Agreement, start: Float[Array, " p"]) -> "Setting":
        """The setting of an agreement without "auto". start: the agreed one, or zero."""
        terms, N = agreement.agreement, agreement.n_participants
        way = None if agreement.one_answer else named(terms.rule).way(terms)
        step = agreement.step * (N if way is not None and way.one_by_one else 1)
        order = agreement.mechanism.order(agreement)
        return cls(way, agreement.answers, N, step, agreement.gradient_bound, order, start, agreement.preconditioner)


@dataclass(frozen=True, eq=False)
class Outliers:
    """Kinds of outliers, one of which the owners may hold."""

    sample: PublicSample
    loss: LinearLoss
    share: float
    """w."""
    x: Float[Array, "kinds p"]
    y: Float[Array, " kinds"]
    likely: Float[Array, " kinds"]
    """Probability of each kind."""

    @property
    def shown(self) -> bool:
        """Whether a pilot's counts of lengths make it as likely that there are such records as a verdict of "yes" is."""
        return float(self.likely.sum()) > max(YES, PROBABILITY)

    def lengths(self, asked: PilotNumbers) -> tuple[Float[Array, " kinds"], float]:
        """Lengths as a pilot counts them: of each kind, and of the longest public row."""
        return asked.lengths(self.x), self.sample.longest_row / asked.feature_bound

    def cost(self, setting: Setting) -> float:
        """E ψ that outliers add."""
        best, f = self._balanced(np.inf, 1), self.sample.optimum.value
        if setting.way is None:
            end, without = self._balanced(setting.bound, setting.order), f
        else:
            end = self._run(setting.way, setting, self.share)
            without = float(self._fitness(self._run(setting.way, setting, 0.0), 0.0)[0])
        ψ = self._fitness(end, self.share) / self._fitness(best, self.share)
        return float(self.likely @ np.maximum(np.nan_to_num(ψ - without / f, nan=np.inf), 0.0))

    def _fitness(self, theta: Float[Array, "kinds p"], share: float) -> Float[Array, " kinds"]:
        away, z = theta - self.sample.optimum.theta, np.sum(self.x * theta, axis=1)
        plain = self.sample.optimum.value + 0.5 * np.sum(away @ self.sample.hessian * away, axis=1)
        return np.asarray(plain + share * self.loss.value(z, self.y))

    def _clipped(self, z: Float[Array, " kinds"], bound: float, order: Literal[1, 2]) -> Float[Array, " kinds"]:
        """φ′ at predictions z, clipped so that gradients are at most as long as the bound."""
        limit = bound / row_norms(self.x, order)
        return np.asarray(np.clip(self.loss.slope(z, self.y), -limit, limit))

    def _balanced(self, bound: float, order: Literal[1, 2]) -> Float[Array, "kinds p"]:
        """θ* − t A⁻¹x at which clipped gradients balance, t = w clip(φ′): by bisection, since φ is convex."""
        best, back = self.sample.optimum.theta, np.linalg.solve(self.sample.hessian, self.x.T).T
        z, moved = self.x @ best, np.sum(back * self.x, axis=1)
        last = self.share * self._clipped(z, bound, order)
        low, high = np.minimum(last, 0.0), np.maximum(last, 0.0)
        for _ in range(60):
            t = 0.5 * (low + high)
            over = t > self.share * self._clipped(z - t * moved, bound, order)
            low, high = np.where(over, low, t), np.where(over, t, high)
        return np.asarray(best - t[:, None] * back)

    def _run(self, way: Way, setting: Setting, share: float) -> Float[Array, "kinds p"]:
        """The model after a run without noise."""
        P = np.eye(self.x.shape[1]) if setting.preconditioner is None else setting.preconditioner

        def descent(theta: Float[Array, "kinds p"]) -> Float[Array, "kinds p"]:
            slope = share * self._clipped(np.sum(self.x * theta, axis=1), setting.bound, setting.order)
            gradient = (theta - self.sample.optimum.theta) @ self.sample.hessian + slope[:, None] * self.x
            return np.asarray(setting.step * gradient @ P.T)

        theta = np.tile(setting.start, (len(self.x), 1))
        with np.errstate(over="ignore", invalid="ignore"):
            if way.rounds is not None:
                recursion, model = way.rounds(setting.answers), theta
                for k, step in enumerate(recursion.steps):
                    if recursion.average is not None:
                        model = model + recursion.average[k] * (theta - model)
                    theta = theta - step * descent(theta)
                return theta if recursion.average is None else model
            assert way.turns is not None
            N = min(setting.participants, 8)  # a round of more owners is about the same
            rule = way.turns(np.full(N, 1.0 / N))
            state = rule.start(theta)
            for i in list(range(N)) * setting.answers:
                who = np.full(len(theta), i)
                state = rule.step(state, who, descent(rule.query(state, who)))
            return rule.model(state)


@lru_cache(maxsize=2)
def outliers_of(sample: PublicSample) -> Outliers | None:
    """Outliers of each of LENGTHS in each of some columns.

    None where owners most likely hold no such record, and where there are no columns of numbers that could be far out.
    """
    problem, law, r, loss = sample.problem, sample.law, sample.records, sample.problem.loss
    rows, data, total = problem.unbounded[0], problem.terms.data, float(problem.terms.records.sum())
    columns, share = np.flatnonzero(law.numbers), round(total / (RARER * max(rows.units, FEWEST))) / total
    if not share or not len(columns) or not is_linear(loss) or data.fourier_features is not None:
        return None
    longest = float(np.abs(rows.features[:, columns]).sum(axis=1).max())
    reach = 1.0 if data.bounds and not data.mapped else np.inf  # a column with declared ends is at most 1
    some = columns[np.unique(np.linspace(0, len(columns) - 1, 8).astype(int))]  # at most 8, evenly spaced
    x = np.tile(np.average(r.features, axis=0, weights=r.weight), (len(LENGTHS), len(some), 1))
    far = np.array(LENGTHS)[:, None] * longest
    if (told := sample.pilot) is not None and told.lengths is not None:  # the longest of each bin that were counted
        others = np.abs(x[0, 0, : x.shape[2] - told.asked.intercept]).sum() - np.abs(x[0, 0, some])
        far = told.asked.feature_bound * np.array(LONGEST)[:, None] - others
    x[:, np.arange(len(some)), some] = np.minimum(far, reach)
    x = x.reshape(-1, x.shape[2])
    θ, labels = sample.optimum.theta, np.array([-1.0, 1.0])
    each = np.full(2, 0.5)
    y = np.repeat(labels, len(x))
    if law.labels:
        each = np.array([np.average(r.target == label, weights=r.weight) for label in labels])
    else:
        missed = y * np.sqrt(np.average(np.square(r.target - r.features @ θ), weights=r.weight))
        pulled = share * loss.slope(missed, np.zeros_like(missed))
        reached = np.tile(x, (2, 1)) @ θ - pulled * np.tile(
            np.sum(np.linalg.solve(sample.hessian, x.T).T * x, axis=1), 2
        )
        y = reached - missed
    found = Outliers(sample, loss, share, np.tile(x, (2, 1)), y, PROBABILITY * np.repeat(each, len(x)) / len(x))
    if told is not None and told.lengths is not None:
        log = told.lengths.log_ratio(share, *found.lengths(told.asked))
        likely = found.likely * np.exp(np.clip(log, -50.0, 50.0))
        found = replace(found, likely=likely / (likely.sum() + 1.0 - PROBABILITY))
    return found


def cost_of_outliers(sample: PublicSample, agreement: Agreement) -> float:
    """E ψ that outliers add to an agreement without "auto", over whether there are any and which."""
    found = outliers_of(sample)
    return 0.0 if found is None else found.cost(Setting.of(agreement, sample.problem.under(agreement).start))

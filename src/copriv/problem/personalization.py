"""An owner's own model, fitted at home with the common model as a prior.

The common model is fitted to the records of all owners; an owner whose records differ needs a model of its own. It therefore
minimises, on its own n rows and at home,

    mean ℓ(θ; x, y)  +  g(θ)  +  (k/2n) (θ − θ_common)ᵀ M (θ − θ_common),

M the curvature of public rows (or of its own where there are none): k is the number of records that the common model
counts for. k = 0 gives the owner's own model, k = ∞ the common model unchanged. Owners often differ most
in their level (a base rate, a wage), so each k is tried with and without a prior on the intercept; without one, M is the Schur
complement of its intercept entry (a random intercept without a prior).

The candidates are compared on the owner's own rows by cross-validation, with folds stratified by class. As few rows do not
identify the best candidate, the models are averaged: the weight of each is the probability that it is best, under a Bayesian
bootstrap of the held-out losses.

The result is not private and does not need to be: the owner computes it from its own records, for itself. It costs no budget
as long as it stays with the owner; releasing it would release information about the records.

The idea is old (partial pooling; a Gaussian prior centred at the group) and common in federated learning as
personalisation by a proximal term; the choice of k by draws of held-out losses is ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.agreement.data_terms import data_specification, own_table
from copriv.data import datasets
from copriv.data.consortium import prepare_owner
from copriv.data.dictionary import PublicDictionary
from copriv.data.public import load_sample
from copriv.errors import AgreementError, DataError, InvalidInput
from copriv.formatting.cards import Shown
from copriv.losses import Squared
from copriv.model.newton import Penalized, newton, solved
from copriv.model.records import Records
from copriv.problem import Problem
from copriv.types import Array, LinearLoss, Loss, is_linear
from copriv.validation import count, finite_array

COUNTS = (0.0, *np.geomspace(0.3, 3e5, 13).tolist(), np.inf)
"""Candidates for k: how many records the common model counts for."""
FOLDS, ROUNDS, DRAWS = 5, 2, 400


@dataclass(frozen=True, eq=False)
class Personalized(Shown):
    """An owner's own model, and the weights of the candidates in it. It stays with the owner."""

    theta: Float[Array, " p"]
    counts: Float[Array, " candidates"]
    """k of each candidate."""
    weights: Float[Array, " candidates"]
    """Share of the bootstrap draws in which each was best; they add up to 1."""
    rows: int
    """Number of the owner's rows, or of persons where they are the units."""

    @property
    def common_share(self) -> float:
        """Approximate weight of the common model, from 0 (the owner's own rows alone) to 1 (the common model itself)."""
        return float(self.weights @ (1.0 - self.rows / (self.counts + self.rows)))


def personalize(
    agreement: Agreement, theta: Float[Array, " p"], data: Any, *, public: Any = None, seed: int = 0
) -> Float[Array, " p"]:
    """An owner's own model of the shape of the common one, fitted at home on its own (X, y) or Records.

    theta: the common model, p numbers. public: the learner's public (X, y), whose curvature is the metric of the prior;
    without it, the inverse of the agreed preconditioner, or else the curvature of the owner's own rows.
    seed: of the folds.

    Guarantee: none, and none is needed: the result is computed from the records and must stay with the owner.
    Where persons are the units (`Records.of_persons`) they are held out whole, and count alike.
    Raises DataError where theta, the rows or the public rows do not fit the agreement, InvalidInput on NaN and on numbers
    whose squares would overflow.

    >>> common = result.theta[0]
    >>> copriv.personalize(agreement, common, data[0]).shape
    (3,)
    """
    return personalized(agreement, theta, data, public=public, seed=seed).theta


def personalized(
    agreement: Agreement, theta: Float[Array, " p"], data: Any, *, public: Any = None, seed: int = 0
) -> Personalized:
    """`personalize`, with the weights of the candidates."""
    seed = count("seed", seed, 0)
    home, own = home_of(agreement, theta, data, public)
    return home.personalized(own, np.random.default_rng(seed))


def rows_at_home(
    agreement: Agreement, name: str, table: object, dictionary: PublicDictionary | None
) -> tuple[Records, Records | None, tuple[str, ...] | None]:
    """Records of owner `name` from its table, and the public ones with their strata, where there are any; before the intercept.

    table: the path of a file, or a frame. dictionary: the agreed one; None: the one that the agreement names, or that is fitted
    to the public rows. Raises DataError where a table is not as agreed, AgreementError where the dictionary is not known.
    """
    data, public, strata = agreement.data, None, None
    if dictionary is not None:
        agreement = agreement.replace(data={"dictionary": None})  # its file is not looked for
    agreed = replace(data_specification(agreement), feature_bound=0.0)
    known = dictionary or agreed.dictionary
    if data.public is not None or not (data.path or datasets.named(agreed.dataset).own_columns):
        sample = load_sample(replace(agreed, dictionary=known), strata=data.strata)
        known, public, strata = sample.preparation.dictionary, sample.records, sample.strata
    if data.mapped and known is None:
        raise AgreementError(
            "data.components: the features are made by a public dictionary, which is in no file here; give the public rows "
            "(--public), or the agreement with its dictionary as copriv init --network writes it"
        )
    terms = agreement.terms_of(name)
    rows, schema = own_table(agreement, table, terms.unit)
    own = prepare_owner(rows, schema, known, None, unit_records=terms.unit_records)
    if own.units != terms.records:
        raise DataError(
            f"{name}: the agreement says {terms.records:,} {terms.counted}, and this table has {own.units:,}; give its own "
            "table, or correct owner.records"
        )
    return own, public, strata


def home_of(
    agreement: Agreement, theta: Float[Array, " p"] | None, data: Any, public: Any = None
) -> "tuple[Home, Records]":
    """The prior for an owner's models, centred at θ (0 for None), and its records as agreed. Raises as `personalize`."""
    if not isinstance(data, Records | tuple | list) or (not isinstance(data, Records) and len(data) not in (2, 3)):
        raise DataError("data: must be the owner's rows as (X, y), or Records; give both features and targets")
    own = data if isinstance(data, Records) else Records.of(*data)
    if own.units == 0:
        raise DataError(f"weight: the rows weigh {own.total:g} together; weights count records, give 1 or more in all")
    plain = agreement.central().each_seen()  # who is alone has no neighbours, and no others to share noise with
    mine = {"name": "own", "records": own.units, "weight": None, "group": None, "overlap": 1}
    only = {**plain.owner[0].model_dump(), **mine}
    alone = {"robust": None, "robust_by": None}  # and trusts itself
    problem = Problem.of(plain.replace(agreement=alone, owner=[only]), [own], public)
    centre = finite_array("theta", np.zeros(problem.n_parameters) if theta is None else theta, 1)
    if len(centre) != problem.n_parameters:
        raise DataError(
            f"theta: {len(centre)} numbers for {problem.n_parameters} parameters (features"
            f"{' and the intercept' if agreement.model.intercept else ''}); give the model of this agreement"
        )
    seen = problem.unbounded_public
    if seen is not None and seen.n_parameters != own.n_parameters:
        raise DataError(
            f"public: {seen.n_parameters} features, and the owner's rows have {own.n_parameters}; give the same ones"
        )
    _refuse_what_overflows("theta", centre, "give the common model that copriv learner wrote")
    for whose, records in (("", own), ("public: ", seen)):
        if records is not None:
            _refuse_what_overflows(f"{whose}features", records.features, "give features in another unit")
            _refuse_what_overflows(f"{whose}target", records.target, "give targets in another unit")
    given = problem.preconditioner
    if problem.public is None and given is not None and np.linalg.matrix_rank(given) == len(given):
        metric = np.asarray(np.linalg.inv(given))
    else:
        metric = _moments(problem.public or problem.owners[0])
    problem.loss.check_target(own.target)
    home = Home(problem.loss, problem.regularizer.strength, centre, metric, agreement.model.intercept)
    return home, problem.owners[0]


def _refuse_what_overflows(name: str, values: Array, remedy: str) -> None:
    largest = float(np.abs(values).max())
    if largest > 1e50:  # it is squared more than once
        raise InvalidInput(f"{name}: a number is {largest:.3g} in size, and squares of such overflow; {remedy}")


def _moments(records: Records) -> Float[Array, "p p"]:
    """Second moments of the rows: the curvature of their fitness up to a factor."""
    share = records.weight / records.total
    moments = (records.features * share[:, None]).T @ records.features
    # The second term keeps the prior proper in directions without rows, in the unit of each column.
    each = np.diag(moments)
    return np.asarray(moments + 1e-3 * np.diag(np.where(each > 0, each, each.mean() or 1.0)))


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """Losses of each unit (a row, or a person with all its rows) under models of folds, for each candidate.

    The models are fitted to `share` of the units.
    """

    out: Float[Array, "units candidates"]
    """Under models that did not see it; a mean over rounds of folds."""
    seen: Float[Array, "units candidates"]
    """Under models that saw it; a mean over them."""
    share: float


def by_unit(own: Records, losses: Float[Array, "rows candidates"]) -> Float[Array, "units candidates"]:
    """Weighted sums of rows' losses, over each unit: a row, or a person with all its rows."""
    unit, units = units_of(own)
    total = np.zeros((units, losses.shape[1]))
    np.add.at(total, unit, losses * own.weight[:, None])
    return total


def units_of(own: Records) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], int]:
    """The unit of each row, and their number."""
    if own.person is None:
        return np.arange(len(own)), len(own)
    persons, unit = np.unique(own.person, return_inverse=True)
    return unit, len(persons)


@dataclass(frozen=True, eq=False)
class Home:
    """The common model as a prior of `metric`, for one loss and regulariser."""

    loss: Loss
    strength: float
    """Strength of the regulariser g."""
    centre: Float[Array, " p"]
    metric: Float[Array, "p p"]
    intercept: bool = False
    """Whether the last parameter is an intercept, which the prior may leave free."""

    @cached_property
    def candidates(self) -> tuple[tuple[float, bool], ...]:
        """(k, whether the intercept is free), from the owner's own model to the common one."""
        made = [(k, False) for k in COUNTS]
        if self.intercept and len(self.centre) > 1:
            made += [(k, True) for k in COUNTS[1:-1]]
        return tuple(made)

    def personalized(self, own: Records, rng: np.random.Generator) -> Personalized:
        """The mixture over candidates of models fitted on all of the owner's rows."""
        some, most = own, 5_000  # more rows do not change k
        if len(own) > most:
            some = own.taken(rng.choice(len(own), most, replace=False))
        held_out = self.cross_validated(some, self.candidates, rng).out
        # The share of draws of a Bayesian bootstrap of the units in which each candidate is best.
        best = np.argmin(rng.dirichlet(np.ones(len(held_out)), size=DRAWS) @ held_out, axis=1)
        weights = np.bincount(best, minlength=len(self.candidates)) / DRAWS
        theta, model = np.zeros(len(self.centre)), self.centre
        for (k, own_level), weight in reversed(list(zip(self.candidates, weights, strict=True))):
            if weight > 0:
                model = self.fitted(own, k, model, own_level)
                theta += weight * model
        return Personalized(theta, np.array([k for k, _ in self.candidates]), weights, own.units)

    def fitted(
        self, own: Records, count: float, near: Float[Array, " p"], own_level: bool = False
    ) -> Float[Array, " p"]:
        """The model in which the common one counts for `count` records; `near` is where the search starts.

        own_level: whether the prior leaves the intercept free.
        """
        if np.isinf(count) and not own_level:
            return self.centre
        metric = self.metric
        if own_level:
            metric = self._without_level
        # k = 0 keeps a trace of the prior, for directions that neither the rows nor g determine.
        pull = max(count, 1e-6) / own.total * self._unit(own) * metric
        if isinstance(self.loss, Squared):
            return self._at_once(own, pull)
        if is_linear(self.loss):
            return self._by_newton(self.loss, own, pull, near)
        return self._by_gradients(own, pull, near)

    @cached_property
    def _without_level(self) -> Float[Array, "p p"]:
        M = self.metric
        return np.asarray(M - np.outer(M[:, -1], M[-1]) / M[-1, -1] + 1e-9 * M)

    def _unit(self, own: Records) -> float:
        """Factor that scales the metric to the curvature of one record: the largest second derivative of the loss.

        For a loss with a kink, 1 over the targets' range: the curvature of a kink that is spread over that range.
        """
        bend = getattr(self.loss, "curvature", np.inf)
        if np.isfinite(bend):
            return float(bend)
        return 1.0 / max(float(np.ptp(own.target)), 1e-9)

    def cross_validated(
        self, own: Records, candidates: Sequence[tuple[float, bool]], rng: np.random.Generator
    ) -> CrossValidated:
        """Cross-validate the candidates (k, own level).

        A person is held out with all its rows, which are not independent.
        """
        unit, units = units_of(own)
        out, seen = np.zeros((2, len(own), len(candidates)))
        if units == 1:
            # A single unit cannot be held out, so that only the common model itself remains.
            out[:, [k < np.inf for k, _ in candidates]] = np.inf
            return CrossValidated(out[:1], seen[:1], 0.0)
        folds, two_classes = min(FOLDS, units), len(np.unique(own.target)) == 2
        level = np.bincount(unit, own.target) / np.bincount(unit)
        for _ in range(ROUNDS):
            order = rng.permutation(units)
            if two_classes:
                order = order[np.argsort(level[order], kind="stable")]
                order = np.concatenate([order[i::folds] for i in range(folds)])  # stratified by class
            for chosen in np.array_split(order, folds):
                kept = ~np.isin(unit, chosen)
                fold, model = own.taken(kept), self.centre
                for j, (k, own_level) in reversed(list(enumerate(candidates))):
                    model = self.fitted(fold, k, model, own_level)
                    values = self.loss.values(model, own.features, own.target)
                    out[~kept, j] += values[~kept] / ROUNDS
                    seen[kept, j] += values[kept] / (ROUNDS * (folds - 1))
        return CrossValidated(by_unit(own, out), by_unit(own, seen), 1.0 - 1.0 / folds)

    def _at_once(self, own: Records, pull: Float[Array, "p p"]) -> Float[Array, " p"]:
        """The minimum for the squared loss, from moments that all candidates of a fold share."""
        moments, with_target = own.moments
        H = 2.0 * moments + self.strength * np.eye(len(self.centre)) + pull
        down = 2.0 * (with_target - moments @ self.centre) - self.strength * self.centre
        size = np.sqrt(np.diag(moments))
        unit = 1.0 / np.where(size > 0, size, 1.0)
        return np.asarray(self.centre + unit * solved(H * unit * unit[:, None], unit * down))

    def _by_newton(
        self, loss: LinearLoss, own: Records, pull: Float[Array, "p p"], near: Float[Array, " p"]
    ) -> Float[Array, " p"]:
        """argmin of mean φ_h(xᵀθ, y) + (c/2)‖θ‖² + ½(θ−centre)ᵀ·pull·(θ−centre), φ_h the mean of φ over z ± h.

        φ_h is convex with slope (φ(z+h) − φ(z−h))/2h and curvature (φ′(z+h) − φ′(z−h))/2h, for a loss with kinks too:
        a kink is spread over a twentieth of the targets' range, to either side.
        """
        y = own.target
        size = max(float(np.ptp(y)), 1e-3 * float(np.abs(y).max()), 1e-9)
        h = size * (1e-4 if loss.smooth else 0.05)
        f, unit = Penalized(
            own.features,
            own.weight / own.total,
            lambda z: (loss.value(z + h, y) - loss.value(z - h, y)) / (2.0 * h),
            lambda z: np.maximum(loss.slope(z + h, y) - loss.slope(z - h, y), 0.0) / (2.0 * h),
            self.strength * np.eye(len(near)) + pull,
            pull @ self.centre,
        ).scaled()
        start = near / unit
        least = 1e-18 * float(np.square(f.gradient(start, f.features @ start)).max())
        return newton(f, start, lambda u, z, down: down <= max(1e-14, least), steps=60)[0] * unit

    def _by_gradients(self, own: Records, pull: Float[Array, "p p"], near: Float[Array, " p"]) -> Float[Array, " p"]:
        """The minimum for a loss that gives only values and gradients, by L-BFGS-B."""
        share = own.weight / own.total

        def objective(theta: Array) -> tuple[float, Array]:
            away = theta - self.centre
            value = share @ self.loss.values(theta, own.features, own.target)
            slope = share @ self.loss.gradients(theta, own.features, own.target)
            return (
                float(value + 0.5 * self.strength * theta @ theta + 0.5 * away @ pull @ away),
                slope + self.strength * theta + pull @ away,
            )

        from scipy.optimize import minimize  # for losses that it knows nothing of

        return np.asarray(minimize(objective, near, jac=True, method="L-BFGS-B").x)

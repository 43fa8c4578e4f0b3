"""An agreement and its records, made into numbers: what simulations and forecasts work on.

`Problem.load` runs the data pipeline that the agreement names; `Problem.of` takes arrays. Both leave an agreement in
which Ξ is a number: "proved" becomes the bound that follows from the declared bounds on x, y and Θ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from copriv.agreement import Agreement
from copriv.data.consortium import load_consortium
from copriv.errors import AgreementError, DataError
from copriv.fitness import Box, Fitness, Optimum, Regularizer, gradient_bound_over
from copriv.losses import by_name
from copriv.records import Records
from copriv.types import Array, Loss


@dataclass(frozen=True, eq=False)
class Problem:
    """Owners' bounded records, the learner's public sample, the fitness: all that a run needs.

    `source` is "real", "resampled" or "simulated"; `description` says which table, in a sentence.
    """

    agreement: Agreement
    owners: tuple[Records, ...]
    public: Records | None
    loss: Loss
    feature_bound: float | None
    target_bound: float
    source: str
    description: str
    held_out: Records | None = None

    def __post_init__(self) -> None:
        p = {records.n_parameters for records in self.owners}
        if len(p) > 1:
            raise DataError(f"data: the owners' records have {sorted(p)} features; all must have as many")
        for terms, records in zip(self.agreement.owner, self.owners, strict=True):
            if records.units != terms.records:
                what = "persons" if terms.unit else "records"
                raise DataError(
                    f"owner.records: {terms.name} is agreed to hold {terms.records} {what}, its data has "
                    f"{records.units}; correct the agreement or the data"
                )
            self.loss.check_target(records.target)
        start = self.agreement.agreement.start
        if start is not None and len(start) != self.n_parameters:
            raise AgreementError(
                f"agreement.start: {len(start)} numbers for {self.n_parameters} parameters; give one for each"
            )

    @classmethod
    def load(cls, agreement: Agreement, held_out: int = 0) -> "Problem":
        """Records by the pipeline that [data] names. Raises DataError as the pipeline does."""
        data, model, first = agreement.data, agreement.model, agreement.owner[0]
        consortium = load_consortium(
            data.dataset,
            [owner.records for owner in agreement.owner],
            components=data.components,
            feature_bound=data.feature_bound,
            public_rows=data.public_rows,
            seed=agreement.agreement.seed,
            path=data.path,
            intercept=model.intercept,
            unit=first.unit,
            unit_records=first.unit_records,
            held_out=held_out,
        )
        return cls(
            _bounded(agreement, consortium.feature_bound, consortium.target_bound),
            consortium.owners,
            consortium.public,
            by_name(model.loss, model.threshold),
            consortium.feature_bound,
            consortium.target_bound,
            consortium.source,
            consortium.description,
            consortium.held_out,
        )

    @classmethod
    def of(
        cls,
        agreement: Agreement,
        data: Sequence[Any],
        public: Any = None,
        loss: Loss | None = None,
    ) -> "Problem":
        """Records from arrays: one (X, y) or Records an owner, in the agreement's order, as they are.

        `feature_bound` is applied as in the pipelines; "auto" needs `public`. The bound on |y| is the largest that the
        public sample shows, or, without one, is not known and Ξ cannot be "proved". `loss` replaces the named one.
        """
        if len(data) != agreement.n_owners:
            raise DataError(f"data: {len(data)} tables for {agreement.n_owners} owners; give one for each")
        owners = [d if isinstance(d, Records) else Records.of(*d) for d in data]
        sample = public if public is None or isinstance(public, Records) else Records.of(*public)
        bound = agreement.data.feature_bound
        if bound == "auto":
            norms = None if sample is None else np.abs(sample.features).sum(axis=1)
            bound = 0.0 if norms is None else float(np.quantile(norms, 0.99))
        if bound:
            owners = [records.bounded(bound) for records in owners]
            sample = None if sample is None else sample.bounded(bound)
        if agreement.model.intercept:
            owners = [records.with_intercept() for records in owners]
            sample = None if sample is None else sample.with_intercept()
            bound = bound + 1.0 if bound else bound
        target_bound = np.inf if sample is None else float(np.abs(sample.target).max())
        return cls(
            _bounded(agreement, bound or None, target_bound),
            tuple(owners),
            sample,
            loss or by_name(agreement.model.loss, agreement.model.threshold),
            bound or None,
            target_bound,
            "given",
            "records given as arrays",
        )

    @property
    def n_parameters(self) -> int:
        """p."""
        return self.owners[0].n_parameters

    @property
    def regularizer(self) -> Regularizer:
        """g."""
        return Regularizer(self.agreement.model.regularization)

    @property
    def box(self) -> Box:
        """Θ."""
        return Box(self.agreement.model.theta_max)

    @property
    def start(self) -> Array:
        """θ before the first answer."""
        start = self.agreement.agreement.start
        return np.zeros(self.n_parameters) if start is None else np.array(start)

    def fitness_of(self, records: Records) -> Fitness:
        """The agreement's fitness over any records."""
        return Fitness(self.loss, self.regularizer, self.box, records)

    @cached_property
    def fitness(self) -> Fitness:
        """The pooled fitness: over all owners' records, each weighing the same. What ψ is about."""
        return self.fitness_of(Records.concatenate(self.owners))

    @cached_property
    def optimum(self) -> Optimum:
        """θ*, certified."""
        return self.fitness.minimum()


def _bounded(agreement: Agreement, feature_bound: float | None, target_bound: float) -> Agreement:
    """The agreement with a number for Ξ where it says "proved"."""
    if agreement.model.gradient_bound != "proved":
        return agreement
    if feature_bound is None or not np.isfinite(target_bound):
        raise AgreementError(
            'model.gradient_bound: "proved" needs a bound on the features (data.feature_bound) and on the target; '
            "give a number instead and it is enforced by clipping"
        )
    loss = by_name(agreement.model.loss, agreement.model.threshold)
    proved = gradient_bound_over(loss, feature_bound, target_bound, Box(agreement.model.theta_max))
    return agreement.replace(model={"gradient_bound": proved})

"""An agreement and its records as numbers, and an owner's own model made from the common one.

`Problem` has the records as arrays, for simulations and forecasts. `Problem.load` runs the data pipeline that the agreement
names; `Problem.of` takes arrays. Both leave an agreement in which Ξ is a number: "proved" becomes the bound that follows from
the declared bounds on x, y and Θ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from copriv.agreement import Agreement
from copriv.agreement.data_terms import data_specification, schema_of
from copriv.data.consortium import as_records, by_owner, load_consortium
from copriv.data.declared_tables import DeclaredTables
from copriv.data.dictionary import longest
from copriv.data.public import load_sample, public_bound
from copriv.data.source import Source
from copriv.errors import AgreementError, DataError, NotCertified
from copriv.formatting.cards import Shown
from copriv.formatting.sanitize import label, says_nothing
from copriv.mechanisms.one_answer import Common
from copriv.model.fitness import FeasibleSet, Fitness, Optimum, Regularizer, gradient_bound_over
from copriv.model.records import Records
from copriv.types import Array, Loss


@dataclass(frozen=True, eq=False)
class Problem(Shown):
    """Owners' bounded records, the learner's public sample and the fitness.

    Records are stored unbounded, and are bounded (and given an intercept) as the agreement says: `under` gives the same
    records under other terms. `source` is "real", "resampled", "simulated", "given", "public" or "declared"; `description`
    says which table, in a sentence.

    >>> problem = copriv.Problem.of(agreement, data, public)
    >>> problem.n_parameters, [records.units for records in problem.owners]
    (3, [1000, 1000, 1000])
    >>> problem.optimum.theta.shape
    (3,)
    """

    terms: Agreement
    unbounded: tuple[Records, ...]
    """Each owner's records before the intercept."""
    unbounded_public: Records | None
    loss: Loss
    target_bound: float
    """Declared bound on |y|; `inf` where none is known."""
    source: str
    description: str
    unbounded_held_out: Records | None = None
    stand_in: bool = False
    """Whether the records are a public sample standing in for records that are not to be touched."""
    pooled: Records | None = None
    """All records together, unbounded, where the owners of a simulated world differ."""
    strata: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None
    """Index of the owner or stratum of each public row, where known."""
    strata_names: tuple[str, ...] = ()
    """Names of the strata; an owner's is the one with its name, or the one that it names (`owner.stratum`)."""
    public_levels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Column → level → number of public rows, of the columns that data.mix names."""
    known_optimum: Optimum | None = None
    """θ* of these records under this fitness, where it was computed before."""

    def __post_init__(self) -> None:
        p = {self.unbounded[0].n_parameters}
        if not self.stand_in:  # stand-ins share one sample, and there may be a hundred thousand
            p = {records.n_parameters for records in self.unbounded}
        if len(p) > 1:
            raise DataError(f"data: the owners' records have {sorted(p)} features; all must have as many")
        if len(self.unbounded) != self.terms.n_owners:
            raise DataError(f"data: records of {len(self.unbounded)} owners for the {self.terms.n_owners} agreed ones")
        if self.stand_in:
            self.loss.check_target(self.unbounded[0].target)
        else:
            for owner, records in zip(self.terms.owner, self.unbounded, strict=True):
                if records.units != owner.records:
                    raise DataError(
                        f"owner.records: {owner.name} is agreed to hold {owner.records} {owner.counted}, its data has "
                        f"{records.units}; correct the agreement or the data"
                    )
                self.loss.check_target(records.target)
        waves = self.terms.data.fourier_features
        if waves is not None and p != {waves}:
            raise DataError(
                f"data.fourier_features: {waves} waves are agreed, the records have {sorted(p)[0]} features; arrays are taken "
                "as they are: map them first (copriv.data.RandomFeatures), or leave the key out"
            )
        agreed, number = self.terms.agreement, self.n_parameters
        for table, of in (("agreement", agreed), ("agreement.pilot_terms", agreed.pilot_terms)):
            if of is None:
                continue
            if of.start is not None and len(of.start) != number:
                raise AgreementError(
                    f"{table}.start: {len(of.start)} numbers for {number} parameters; give one for each"
                )
            if of.preconditioner is not None and np.shape(of.preconditioner) != (number, number):
                raise AgreementError(f"{table}.preconditioner: needs {number} rows of {number} numbers")

    @classmethod
    def load(cls, agreement: Agreement, held_out: int = 0, opened: Source | None = None) -> "Problem":
        """Records by the pipeline that [data] names, from its table where that is at hand (`opened`).

        Raises DataError as the pipeline does.
        """
        sizes = [owner.records for owner in agreement.owner]
        unbounded = replace(data_specification(agreement), feature_bound=0.0)
        rows_each = [owner.unit_records for owner in agreement.owner]
        strata = None if agreement.data.strata is None else (agreement.data.strata, agreement.owner_names)
        consortium = load_consortium(
            unbounded, sizes, held_out=held_out, opened=opened, owner_unit_records=rows_each, strata=strata
        )
        return cls(
            agreement,
            consortium.owners,
            consortium.public,
            agreement.loss,
            consortium.target_bound,
            consortium.source,
            consortium.description,
            consortium.held_out,
        )

    @classmethod
    def load_public(cls, agreement: Agreement) -> "Problem":
        """The public rows of the pipeline that [data] names, standing in every owner's place.

        No table that may hold private rows is opened: they are in a file of their own, data.public, or the last ones of a
        published table. Raises DataError as the pipeline does.
        """
        if agreement.data.declared_only:
            return cls.declared(agreement)
        beside = sum(table.records * table.number for table in agreement.owner_tables)
        unbounded = replace(data_specification(agreement), feature_bound=0.0)
        data = agreement.data
        sample = load_sample(unbounded, beside=beside, strata=data.strata, mix=data.mix or ())
        problem = cls.forecasting(agreement, sample.records, strata=sample.strata)
        words = f"{problem.description}: {sample.words}"
        return replace(problem, target_bound=sample.schema.target_bound, description=words, public_levels=sample.levels)

    @classmethod
    def declared(cls, agreement: Agreement) -> "Problem":
        """A typical table of the declared columns, made up, in every owner's place: no rows are public.

        Raises AgreementError where columns are not declared, DataError for a target that the loss does not take.
        """
        schema = schema_of(agreement, None)
        if schema is None:
            raise AgreementError("data.public_rows: 0 leaves nothing but declared columns; declare them")
        table = DeclaredTables(schema).draw(np.random.default_rng(0), 2000, typical=True)
        return cls(
            agreement,
            (table,) * agreement.n_owners,
            table,
            agreement.loss,
            schema.target_bound,
            "declared",
            f"tables that the {len(schema.columns)} declared columns allow",
            stand_in=True,
        )

    @classmethod
    def of(cls, agreement: Agreement, data: Any, public: Any = None, loss: Loss | None = None) -> "Problem":
        """Records from arrays: one (X, y) or Records an owner, in the agreement's order or by name.

        Columns of data frames are aligned by their names (`copriv.data.consortium`).

        A feature bound of "auto" needs `public`; without it, features stay as they are. The bound on |y| is the
        largest that the public sample shows; without one Ξ cannot be "proved". `loss` replaces the named one.
        """
        names = agreement.owner_names
        parts = {f"data of {name}": part for name, part in zip(names, by_owner(data, names), strict=True)}
        if public is not None:
            parts["public"] = public
        given = as_records(parts, agreement.data.features)
        sample = given.pop("public", None)
        return cls(
            agreement,
            tuple(given.values()),
            sample,
            loss or agreement.loss,
            np.inf if sample is None else float(np.abs(sample.target).max()),
            "given",
            "records given as arrays",
        )

    @classmethod
    def forecasting(cls, agreement: Agreement, public: Any, loss: Loss | None = None, strata: Any = None) -> "Problem":
        """A problem without private records: the public (X, y) stands in every owner's place.

        strata: label of the owner or stratum of each public row, where known.
        """
        if agreement.data.declared_only:
            raise DataError("public: data.public_rows = 0 says that no rows are public; leave one of the two out")
        sample = as_records({"public": public}, agreement.data.features)["public"]
        index, called = (None, ()) if strata is None else _labels(strata, len(sample))
        problem = cls(
            agreement,
            (sample,) * agreement.n_owners,
            sample,
            loss or agreement.loss,
            float(np.abs(sample.target).max()),
            "public",
            "",
            stand_in=True,
            strata=index,
            strata_names=called,
        )
        return problem.on_public()

    def under(self, agreement: Agreement) -> "Problem":
        """The same records under other terms; a public sample stands in for any number of owners."""
        now, then, owners, known = agreement.model, self.terms.model, self.unbounded, self.known_optimum
        if any(
            getattr(now, key) != getattr(then, key)
            for key in ("loss", "threshold", "regularization", "theta_max", "intercept")
        ):
            known = None
        if self.stand_in:
            many = -(-agreement.n_owners // len(owners))
            owners = (owners * many)[: agreement.n_owners]
        return replace(self, terms=agreement, unbounded=owners, known_optimum=known)

    @cached_property
    def agreement(self) -> Agreement:
        """The terms, with a number for Ξ where they say "proved"."""
        model = self.terms.model
        if model.gradient_bound != "proved":
            return self.terms
        if self.feature_bound is None or not np.isfinite(self.target_bound):
            raise AgreementError(
                'model.gradient_bound: "proved" needs a bound on the features (data.feature_bound) and on the target; '
                "give a number instead and it is enforced by clipping"
            )
        reach = self.feature_bound + float(model.intercept)
        proved = gradient_bound_over(self.loss, reach, self.target_bound, self.feasible_set)
        return self.terms.replace(model={"gradient_bound": proved})

    @cached_property
    def feature_bound(self) -> float | None:
        """B, the L1 norm of features without the intercept above which a record is scaled down; None: no bound."""
        agreed = self.terms.data.feature_bound
        if self.unbounded_public is None:
            return None if agreed == "auto" else agreed or None
        waves = self.terms.data.fourier_features
        return public_bound(self.unbounded_public.features, agreed, np.inf if waves is None else longest(waves))

    @cached_property
    def owners(self) -> tuple[Records, ...]:
        """Each owner's records as agreed; owners that share one object, or its rows, still do."""
        if self.stand_in and self.pooled is None:
            return (self.as_agreed(self.unbounded[0]),) * len(self.unbounded)
        distinct = dict(zip(map(id, self.unbounded), self.unbounded, strict=True))
        made, rows = dict[int, Records](), dict[int, Array]()
        for name, records in distinct.items():
            features = rows.get(id(records.features))
            made[name] = self.as_agreed(records) if features is None else replace(records, features=features)
            if self.terms.model.intercept:
                rows[id(records.features)] = made[name].features
        return tuple(map(made.__getitem__, map(id, self.unbounded)))

    @cached_property
    def public(self) -> Records | None:
        """The learner's own records, made in the same way."""
        return None if self.unbounded_public is None else self.as_agreed(self.unbounded_public)

    @cached_property
    def held_out(self) -> Records | None:
        """Records that no owner trained on, made in the same way."""
        return None if self.unbounded_held_out is None else self.as_agreed(self.unbounded_held_out)

    def as_agreed(self, records: Records) -> Records:
        """The records with the intercept's column, where the agreed model has one."""
        if self.terms.model.intercept:
            return records.with_intercept()
        return records

    def on_public(self) -> "Problem":
        """The same problem with the public sample in every owner's place: no private record is in it.

        Raises DataError where there is no public sample.
        """
        if self.terms.data.declared_only:
            return self if self.source == "declared" else Problem.declared(self.terms)
        sample = self.unbounded_public
        if sample is None:
            raise DataError("public: a forecast needs a public sample; give public = (X, y), or data.public_rows")
        return replace(
            self, unbounded=(sample,) * self.terms.n_owners, stand_in=True, source="public", unbounded_held_out=None,
            pooled=None, known_optimum=None,
            description=f"the learner's own {sample.units:,} public records in every owner's place",
        )  # fmt: skip

    @property
    def stratum_of_owner(self) -> tuple[int | None, ...]:
        """Index of each owner's stratum of the public rows; None where it has none.

        Raises AgreementError where an owner names a stratum that no public row is of.
        """
        place = {name: i for i, name in enumerate(self.strata_names)}
        if place:
            for owner in self.terms.owner:
                if owner.stratum is not None and owner.stratum not in place:
                    raise AgreementError(
                        f"owner.stratum: no public row is of {owner.stratum!r}, which {owner.name} is said to be; the "
                        f"first strata are {', '.join(list(place)[:5])}"
                    )
        return tuple(place.get(owner.stratum or owner.name) for owner in self.terms.owner)

    @property
    def strata_name_owners(self) -> bool:
        """Whether owners are of two or more strata of the public rows; other strata say nothing of how owners differ."""
        return self.strata is not None and len({*self.stratum_of_owner} - {None}) >= 2

    @property
    def proved_gradient_bound(self) -> float:
        """Bound on ‖∇ℓ‖₁ over Θ that follows from the bounds on features and target; infinite without one."""
        if self.feature_bound is None or not np.isfinite(self.target_bound):
            return np.inf
        reach = self.feature_bound + float(self.terms.model.intercept)
        return float(self.loss.gradient_bound(reach, self.target_bound, self.feasible_set.theta_max))

    @property
    def preconditioner(self) -> Array | None:
        """The public matrix that multiplies every direction of descent, if one is agreed."""
        return self.terms.preconditioner

    @property
    def n_parameters(self) -> int:
        """p, with the intercept."""
        return self.unbounded[0].n_parameters + int(self.terms.model.intercept)

    @property
    def regularizer(self) -> Regularizer:
        """g."""
        return Regularizer(self.terms.model.regularization)

    @property
    def feasible_set(self) -> FeasibleSet:
        """Θ."""
        return FeasibleSet(self.terms.model.theta_max)

    @property
    def common(self) -> Common:
        """Public inputs of a mechanism besides the records, where owners answer once."""
        p, B, P = self.n_parameters, self.feature_bound, self.preconditioner
        return Common(self.loss, p, B, P, self.regularizer, self.feasible_set)

    @property
    def start(self) -> Array:
        """θ before the first answer."""
        return np.array(self.terms.agreement.start or [0.0] * self.n_parameters)

    def fitness_of(self, records: Records) -> Fitness:
        """The agreement's fitness over any records."""
        return Fitness(self.loss, self.regularizer, self.feasible_set, records)

    def optimum_of(self, records: Records, near: Array, accuracy: float = 1e-5) -> Optimum | None:
        """The best model of records without the intercept's column; None where there is no finite one."""
        try:
            return self.fitness_of(self.as_agreed(records)).minimum(near, accuracy)
        except NotCertified:
            return None

    @cached_property
    def fitness(self) -> Fitness:
        """The pooled fitness over all owners' records, each of equal weight, which ψ is relative to."""
        if self.pooled is not None:
            return self.fitness_of(self.as_agreed(self.pooled))
        if self.stand_in:
            return self.fitness_of(self.owners[0])
        return self.fitness_of(Records.concatenate(self.owners))

    @cached_property
    def optimum(self) -> Optimum:
        """θ*, certified."""
        return self.known_optimum or self.fitness.minimum()


def _labels(strata: Any, rows: int) -> tuple[Any, tuple[str, ...]]:
    """Index of each row's label, and the labels. Raises DataError where there are not as many as public rows."""
    labels = np.asarray(strata, dtype=object)  # a list of text and NaN would be all text
    if labels.shape != (rows,):
        shape = f"a table of {labels.shape}"
        if labels.ndim < 2:
            shape = f"{sum(labels.shape)} labels"
        raise DataError(f"strata: {shape} for {rows} public rows; give one label each")
    missing = [k for k, one in enumerate(labels.tolist()) if says_nothing(one)]
    if missing:
        raise DataError(
            f"strata: public row {missing[0]} has none, counted from 0 ({len(missing)} in all); leave such rows out, or say it"
        )
    names, index = np.unique([label(one) for one in labels.tolist()], return_inverse=True)
    return index.astype(np.int64), tuple(str(name) for name in names)

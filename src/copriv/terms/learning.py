"""The tables [agreement], [model] and [data]: by which rule owners answer, which model is learnt, and from which records."""

from collections.abc import Mapping
from datetime import date
from math import fsum
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field, field_validator, model_validator

from copriv.errors import AgreementError
from copriv.terms.values import (
    Budget,
    Count,
    KeyFingerprint,
    NonNegative,
    Number,
    Positive,
    TermsTable,
    UnitOfMeasure,
    Unlike,
    ZeroOrPositive,
)


def _square(value: Any) -> Any:
    if {len(row) for row in value} != {len(value)}:
        raise ValueError("must be square: as many numbers in every row as there are rows")
    P = np.array(value)
    try:  # a step along −P∇f descends where P is positive definite, up to rounding
        symmetric = (P + P.T) / (2.0 * max(float(np.abs(P).max()), 1e-300))
        np.linalg.cholesky(symmetric + 1e-12 * len(P) * np.eye(len(P)) * P.any())
    except np.linalg.LinAlgError:
        raise ValueError("must be positive definite: with any other matrix, steps lead away from the optimum") from None
    return value


Matrix = Annotated[tuple[tuple[Number, ...], ...], AfterValidator(_square)]
"""A positive definite matrix, by rows."""


PILOT_PARTS = ("gradient", "gradient_lengths", "record_lengths", "loss")
"""Parts of a pilot's answer, in their order."""


def check_parts(value: Any) -> Any:
    """Raise ValueError where shares are not those of one answer's parts, or add up to more than 1."""
    if unknown := set(value) - set(PILOT_PARTS):
        raise ValueError(f"{min(unknown)}: is no part of a pilot's answer, which are {', '.join(PILOT_PARTS)}")
    if "gradient" not in value:
        raise ValueError("gradient: is missing; a pilot is an answer of a gradient and of what else is asked")
    if (whole := fsum(value.values())) > 1.0:
        raise ValueError(
            f"the shares add up to {whole:.17g}, which is over 1; the parts of one answer share one epsilon"
        )
    return value


def check_loss(parts: Mapping[str, float] | None, loss_bound: float | None) -> None:
    """Raise ValueError where a mean loss has a share of ε and no bound, or a bound and no share."""
    if parts is not None and ("loss" in parts) != (loss_bound is not None):
        raise ValueError(
            "pilot_parts: a mean loss takes a share of its own (loss) and a loss_bound; give both or neither"
        )


PilotParts = Annotated[dict[str, Positive], AfterValidator(check_parts)]
"""Shares of a pilot's ε, which add up to 1 at most; what has none is not asked."""
RANGED = dict.fromkeys(
    ("step", "start", "preconditioner", "moments_share", "anchor", "reach", "column_scale"), "agreement"
) | dict.fromkeys(("gradient_bound", "smoothing"), "model")
"""Key → table, of the terms that may be chosen after a pilot: no guarantee and no number of answers rests on them."""


class PilotTerms(TermsTable):
    """`pilot_terms` of [agreement]: what the pilot is asked at, from public rows, fixed before it."""

    start: tuple[Number, ...]
    """θ₀, the public model."""
    gradient_bound: Positive
    """Ξ of the gradients in the public metric."""
    feature_bound: Positive
    """B, the length in L1 that records are counted by."""
    preconditioner: Matrix | None = None
    """The public metric; the identity when not given."""
    loss_bound: Positive | None = None
    """L, the most that a record's loss counts in the mean loss; without it no mean loss is released."""
    pilot_parts: PilotParts | None = None
    """Share of the pilot's ε of each part of the answer."""
    reach: Positive | None = None
    """Without public rows: the largest length of a row, by which rows are counted."""
    public: KeyFingerprint | None = None
    """SHA-256 of the learner's file of public rows, by which the run is planned after the pilot."""

    @model_validator(mode="after")
    def _loss_is_whole(self) -> "PilotTerms":
        check_loss(self.pilot_parts, self.loss_bound)
        return self


class Terms(TermsTable):
    """[agreement]: the rule, the mechanism, the horizon and the step."""

    @field_validator("ranges")
    @classmethod
    def _can_be_chosen(cls, value: Any) -> Any:
        for key, (low, high) in (value or {}).items():
            if key not in RANGED:
                raise ValueError(f"{key}: is fixed before a pilot; its answers choose among {', '.join(RANGED)}")
            if low < 0 and key not in ("start", "preconditioner"):
                raise ValueError(f"{key}: is no number below 0, and its range begins at {low:g}")
            if not low <= high:
                raise ValueError(f"{key}: a range goes from low to high, not from {low:g} to {high:g}")
        return value

    @model_validator(mode="before")
    @classmethod
    def _planned_horizon(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("rule") == "auto":
            return {"horizon": 1_000, **given}  # T is planned up to this where the agreement names none
        return given

    @model_validator(mode="after")
    def _times_of_their_schedule(self) -> "Terms":
        for key in ("pilot_terms", "ranges"):
            if getattr(self, key) is not None and not self.pilot:
                raise ValueError(
                    f"{key}: is of a pilot; give pilot a share of every epsilon, such as 0.1, or leave {key} out"
                )
        for key, schedule in (("interval", "broadcast"), ("service", "request")):
            if getattr(self, key) is not None and self.schedule != schedule:
                raise ValueError(f'{key}: only schedule = "{schedule}" has one; leave it out, or name that schedule')
        return self

    @property
    def agreed_talk(self) -> str | None:
        """How participants of a real run get their turns, where the agreement says so; None: the learner decides."""
        return self.schedule if self.schedule in ("broadcast", "request") else None

    @property
    def by_clocks(self) -> bool:
        """Whether participants answer in proportion to their clocks' rates."""
        return self.schedule == "poisson" or self.agreed_talk is not None

    @field_validator("worthwhile", mode="before")
    @classmethod
    def _percent(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            share = float(value.removesuffix("%"))
        except ValueError:
            raise ValueError("must be a share below 1") from None
        if value.endswith("%"):
            share /= 100.0
        return share

    name: str = "consortium"
    rule: str
    """One of `copriv.rules.ALL`, or "auto": planned."""
    communication: Literal["synchronous", "asynchronous", "any"] = "any"
    horizon: Count
    """T: number of queries (A1, A2) or rounds (S1, S2); the most that are planned where the rule is "auto"."""
    answers: Count | None = None
    """m: the most answers of one owner; the horizon when not given, as in the papers."""
    step: Positive | Literal["auto"] = "auto"
    """rho (S1, A1), c1 (S2), alpha (A2)."""
    seed: Annotated[int, Field(ge=0)] = 0
    learner_step: Literal["corrected", "printed"] = "corrected"
    """A1 only: the corrected c_L = 1/2, or (N − 1)/N as printed (erratum 2)."""
    schedule: Literal["uniform", "poisson", "random-order", "rounds", "broadcast", "request"] = "uniform"
    """A1, A2: independent uniform choices; Poisson clocks of the owners' rates; every owner m times in one random order
    ("random-order"); everybody once, in random order, before anybody again ("rounds"); the learner offers its queries and the
    first owner to reply is asked ("broadcast"), or owners request queries ("request"), by their clocks (A, §3)."""
    interval: Positive | None = None
    """"broadcast" only: time between two offers; the unit is a tick of a clock of rate 1. None: offers are made at once."""
    service: Positive | None = None
    """"request" only: time of a query and its answer, in which other owners' requests are refused; None: none. For
    simulations, in the same unit."""
    iterate: Literal["averaged", "last"] = "averaged"
    """S2 only: the model is the averaged iterate, as in the paper, or the last one."""
    window: Count = 1
    """A2: answers between two moves of the model; 1 moves it at every answer."""
    group_size: Count | Literal["auto"] | None = None
    """A1, A2: size of the groups in which owners without a named group answer as one, in the agreement's order (A, Remark 2);
    "auto": planned, with all their answers within the horizon. None: each owner by itself."""
    robust: Count | None = None
    """S1, S2: f, the number of owners that may lie without doing much harm (`copriv.rules.robust`); each owner counts once.
    None: answers are averaged, and every owner is trusted to answer as agreed."""
    robust_by: Literal["filter", "trimmed-mean", "geometric-median", "caf"] | None = None
    """The robust mean of the owners' running means; None: "filter", which knows the law of the noise."""
    graph: Literal["ring", "star", "complete", "grid", "random"] | tuple[tuple[str, str], ...] | None = None
    """S1, S2: who talks to whom, where every owner has a model of its own (`copriv.rules.graph`): a graph by its name, or its
    edges as pairs of names. None: one learner, which all owners answer."""
    relays: tuple[str, ...] | None = None
    """Nodes of the graph without records or a model, which pass on what their neighbours say; None: there are none."""
    mixing: Count | Literal["auto"] | None = None
    """Number of exchanges between neighbours in each round; None: one. "auto": as many as the graph needs, and the
    weights that mix it faster (`copriv.rules.graph.Graph.planned`)."""
    tracking: bool | None = None
    """Whether owners track the mean direction of all (gradient tracking), which corrects their drift; None: they do not."""
    start: tuple[Number, ...] | None = None
    """θ at the start, one number a parameter; zeros when not given. A public choice."""
    mechanism: str = "laplace"
    """Name of the mechanism, one of `copriv.mechanisms` (docs/explanation/mechanisms.md)."""
    moments_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """"statistics" only: share of ε for second moments; 0: the learner takes them from its public sample."""
    anchor: Positive | None = None
    """"objective" only: λ, strength of the penalty on the distance from the start; None: the least with the guarantee."""
    reach: Positive | None = None
    """"objective" only: bound on √(xᵀPx), P the preconditioner, beyond which a record counts for less; None: from B."""
    column_scale: Positive | None = None
    """"objective", "moments": what columns of numbers are multiplied by before rows are bounded and noise is drawn; None: 1.
    Own models are tied, and regularised, in that unit. θ is of the columns as they are."""
    loss_bound: Positive | None = None
    """"pilot" only: L, the most that a record's loss counts in the mean loss; without it no mean loss is released."""
    pilot_parts: PilotParts | None = None
    """"pilot" only: share of ε of each part of the answer (`copriv.mechanisms.pilot.SHARES` for None)."""
    preconditioner: Matrix | None = None
    """A public p × p matrix that multiplies every direction of descent; the identity when not given."""
    pilot: Annotated[float, Field(ge=0, lt=1)] | Literal["auto"] | None = None
    """Share of every owner's ε for a first private answer, by which the rest is planned (`Agreement.phases`); None, 0: none."""
    pilot_terms: PilotTerms | None = None
    """What the pilot is asked at; None: still to be made of the public rows, by copriv forecast --out."""
    ranges: dict[str, tuple[Number, Number]] | None = None
    """Key → lowest and highest number that may be chosen for it after the pilot. All other terms stay as they are."""
    goal: Literal["own", "common"] | None = None
    """Records that a forecast's verdict is about: each owner's own ("own", also for None), or all owners' ("common")."""
    worthwhile: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Least relative decrease of the prediction error for which joining pays, such as 0.005 or "0.5%"; None: 0.005."""
    aggregation: Literal["each", "sum"] | None = None
    """What the learner sees: each owner's answer ("each", also for None), or only the sum of those who answer together."""
    colluding: Annotated[int, Field(ge=0)] | None = None
    """t, "sum" only: owners that may work together with the learner without weakening the others' ε; None: 1."""
    dropouts: Annotated[int, Field(ge=0)] | None = None
    """d, "sum" only: owners that may be missing from a sum, which takes N > t + 2d; None: 0, everybody or nothing."""
    attempts: Annotated[int, Field(ge=0)] | None = None
    """"sum" only: how many of the m answers are kept for sums that have to be tried again; None: 0."""
    lot: Count | None = None
    """Records that every owner is publicly known to have at least, for `copriv market`; None: as few as the smallest states."""
    lot_epsilon: Budget | None = None
    """ε of each lot in the exchange of `copriv market`, agreed before anything is stated; None: where noise and few records
    cost the same."""
    learner_key: KeyFingerprint | None = None
    """SHA-256 of the public key that the learner signs with; any that the authority certifies when not given."""


class ModelTerms(TermsTable):
    """[model]: the fitness, the feasible set and the bound on a record's gradient."""

    loss: str
    threshold: Positive = 1.0
    """Huber only: residual from which the loss is linear, in the target's unit."""
    regularization: NonNegative = 0.0
    smoothing: Positive = 0.5
    """Half the width over which "objective" smooths the hinge's kink; ψ is of the hinge itself."""
    theta_max: Positive = 1e5
    gradient_bound: Positive | Literal["proved", "auto"] = "auto"
    """Ξ: a number is enforced by L1 clipping; "proved" follows from declared bounds; "auto" is planned."""
    gradient_bound_assumed: bool = False
    """Take Ξ on trust, as the papers do, and clip nothing. NOT PRIVATE: for reproducing figures only."""
    intercept: bool = False


class DataTerms(TermsTable):
    """Keys of [data]."""

    dataset: str | None = None
    """A built-in data set, or "table": columns of one's own; None: the records are given as arrays."""
    path: str | None = None
    public: str | None = None
    """A file of public rows. For a table of one's own, no other rows are public."""
    public_rows: Annotated[int, Field(ge=0)] | None = None
    """Number of last rows that are public; None: all of `public`, or 2,000 of a built-in data set. 0: no rows are public; a
    forecast is then over tables that the declared columns allow."""
    components: Annotated[int, Field(ge=0)] = 10
    mean_square: UnitOfMeasure | None = None
    """Mean square of each feature of the public dictionary on the public rows; None: 1/10,000, as for the papers' loans."""
    feature_bound: ZeroOrPositive | Literal["auto"] = "auto"
    """B: bound on ‖x‖₁. In mechanisms that need it, a record beyond it counts for less; clipped gradients do not need it, and
    the fitness ignores it. "auto": from the tail of the public rows; 0: none."""
    scaling: Literal["declared", "none"] | None = None
    """Encoding of columns before the dictionary: over their declared sizes, or in their own units, as in the papers."""
    dictionary: str | None = None
    """File of a public dictionary that the coordinator made; None: one is fitted on the public rows."""
    fourier_features: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """D: number of random waves of the components (or columns) that are the features; None: no waves."""
    fourier_width: UnitOfMeasure | None = None
    """Width of the waves' Gaussian kernel; None: the median distance between two public rows."""
    heterogeneity: Unlike | tuple[Unlike, Unlike] | None = None
    """Heterogeneity u of the owners, a number or a range (`copriv.terms.heterogeneity`): ψ, on all records, of a perfect model
    of one owner's own population. 0: owners are alike; None: not known, which does not mean 0."""
    strata: str | None = None
    """Column of the public table with the stratum of each row: the name of an owner, or an `owner.stratum`. Owners' tables do
    not need it."""
    mix: dict[str, dict[str, NonNegative]] | None = None
    """Column of the public table → level → share of all owners' records, as the owners state it. A forecast compares the public
    rows with it. The column need not be a feature."""
    features: tuple[str, ...] | None = None
    target: str | None = None
    bounds: dict[str, tuple[Number, Number]] | None = None
    categories: dict[str, tuple[str, ...]] | None = None
    ordered: tuple[str, ...] | None = None
    """Categories whose levels are in order: one feature each; other categories have one feature a level."""
    booleans: tuple[str, ...] | None = None
    dates: dict[str, tuple[str, str]] | None = None
    missing: dict[str, float | str] | None = None
    """Value that a missing one counts as, by column: a number within the bounds, or a level."""
    scales: dict[str, Literal["size", "centred", "log"]] | None = None
    clamp: tuple[str, ...] | None = None
    """Columns in which a value out of bounds counts as the nearest bound; in others it is refused."""

    @property
    def named(self) -> str:
        """Name of the data set. Raises AgreementError where the agreement names none."""
        if self.dataset is None:
            raise AgreementError(
                'data: the agreement names no data; add [data] with dataset = "lending-embedded" or another one, declare '
                "columns of your own (features, target, bounds), or give the records as arrays"
            )
        return self.dataset

    @property
    def mapped(self) -> bool:
        """Whether features are made of the columns by a public dictionary."""
        return self.components > 0 or self.fourier_features is not None

    @property
    def public_count(self) -> int:
        """Number of public rows by the agreement."""
        # This imports pyarrow, which is slow.
        from copriv.data.public import PUBLIC_ROWS

        return PUBLIC_ROWS if self.public_rows is None else self.public_rows

    @property
    def declared_only(self) -> bool:
        """Whether no rows are public, so that declared columns are all that is known of the data."""
        return self.public_rows == 0

    @model_validator(mode="before")
    @classmethod
    def _declared_columns_are_a_table(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        # The encoding of categories has changed since 0.1.0: `ordered` makes the fingerprint of such agreements differ.
        if value.get("categories") is not None:
            value = {"ordered": (), **value}
        if "features" in value:
            value = {"dataset": "table", **value}
        if value.get("public_rows") == 0:  # of which components, and a bound, would be made
            value = {"components": 0, **value}
            if value.get("feature_bound", "auto") == "auto" and value.get("scaling") != "none":
                # Each declared column is in [−1, 1], or one of its levels is 1.
                value = {**value, "feature_bound": float(len(value.get("features") or ()))}
        return value

    @model_validator(mode="after")
    def _nothing_of_no_public_rows(self) -> "DataTerms":
        if not self.declared_only:
            return self
        made = ("public", "dictionary", "strata", "mix", "fourier_features", "mean_square")
        of_rows = [key for key in made if getattr(self, key) is not None] + ["components"] * (self.components > 0)
        if of_rows:
            raise ValueError(
                f"public_rows: 0 says that no rows are public, and {of_rows[0]} is of such rows; leave one out"
            )
        if self.features is None or self.target is None:
            raise ValueError(
                "public_rows: 0 leaves nothing but declared columns; declare them (features, target, bounds, categories)"
            )
        if self.feature_bound == "auto":
            raise ValueError("feature_bound: no rows are public, and columns are in units of their own; give a number")
        return self

    @model_validator(mode="after")
    def _width_of_something(self) -> "DataTerms":
        if self.fourier_width is not None and self.fourier_features is None:
            raise ValueError("fourier_width: a width without waves; give fourier_features, or leave it out")
        return self

    @field_validator("heterogeneity")
    @classmethod
    def _in_order(cls, value: Any) -> Any:
        if isinstance(value, tuple) and value[0] > value[1]:
            raise ValueError(f"a range goes from low to high, not from {value[0]:g} to {value[1]:g}")
        return value

    @field_validator("mix")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        for column, shares in (value or {}).items():
            if not 0.98 <= sum(shares.values()) <= 1.02:  # shares may be rounded to percent
                raise ValueError(
                    f"{column}: shares add up to 1, not to {sum(shares.values()):g}; give one for each level"
                )
        return value

    @field_validator("dates", mode="before")
    @classmethod
    def _days(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: tuple(map(str, v)) if isinstance(v, list | tuple) else v for k, v in value.items()}

    @field_validator("missing", mode="before")
    @classmethod
    def _missing(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        words = {True: "yes", False: "no"}
        said = {k: words[v] if isinstance(v, bool) else v for k, v in value.items()}
        return {k: v.isoformat() if isinstance(v, date) else v for k, v in said.items()}

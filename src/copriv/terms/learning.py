"""The tables [agreement] and [model]: who answers, for how long, by which rule, and which model is learnt."""

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from copriv.terms.values import Count, KeyFingerprint, NonNegative, Number, Positive, TermsTable


class Terms(TermsTable):
    """[agreement]: the rule, the mechanism, the horizon and the step."""

    @field_validator("preconditioner")
    @classmethod
    def _square(cls, value: Any) -> Any:
        if value is None:
            return value
        if {len(row) for row in value} != {len(value)}:
            raise ValueError("must be square: as many numbers in every row as there are rows")
        P = np.array(value)
        try:  # a step along −P∇f descends where P is positive definite, up to rounding
            symmetric = (P + P.T) / (2.0 * max(float(np.abs(P).max()), 1e-300))
            np.linalg.cholesky(symmetric + 1e-12 * len(P) * np.eye(len(P)) * P.any())
        except np.linalg.LinAlgError:
            raise ValueError(
                "must be positive definite: with any other matrix, steps lead away from the optimum"
            ) from None
        return value

    @model_validator(mode="before")
    @classmethod
    def _planned_horizon(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("rule") == "auto":
            return {"horizon": 1_000, **given}  # T is planned up to this where the agreement names none
        return given

    @model_validator(mode="after")
    def _times_of_their_schedule(self) -> "Terms":
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
    robust_by: Literal["filter", "trimmed-mean", "geometric-median"] | None = None
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
    loss_bound: Positive | None = None
    """"pilot" only: L, the most that a record's loss counts in the mean loss; without it no mean loss is released."""
    preconditioner: tuple[tuple[Number, ...], ...] | None = None
    """A public p × p matrix that multiplies every direction of descent; the identity when not given."""
    pilot: Annotated[float, Field(ge=0, lt=1)] | Literal["auto"] | None = None
    """Share of every owner's ε for a first private answer, by which the rest is planned (`Agreement.phases`); None, 0: none."""
    goal: Literal["own", "common"] | None = None
    """Records that a forecast's verdict is about: each owner's own ("own", also for None), or all owners' ("common")."""
    worthwhile: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Least relative decrease of the prediction error for which joining pays, such as 0.005 or "0.5%"; None: 0.005."""
    aggregation: Literal["each", "sum"] | None = None
    """What the learner sees: each owner's answer ("each", also for None), or only the sum of those who answer together."""
    colluding: Annotated[int, Field(ge=0)] | None = None
    """t, "sum" only: owners that may work together with the learner without weakening the others' ε; None: 1."""
    dropouts: Annotated[int, Field(ge=0)] | None = None
    """d, "sum" only: owners that may be missing from a sum; None: 0, everybody or nothing."""
    attempts: Annotated[int, Field(ge=0)] | None = None
    """"sum" only: how many of the m answers are kept for sums that have to be tried again; None: 0."""
    lot: Count | None = None
    """Records that every owner is publicly known to have at least, for `copriv market`; None: as few as the smallest states."""
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

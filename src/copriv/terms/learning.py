"""The tables [agreement] and [model]: who answers, for how long, by which rule, and which model is learnt."""

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from copriv.terms.values import Count, KeyFingerprint, NonNegative, Number, Positive, TermsTable

PLANNED_HORIZON = 1_000
"""Largest horizon T of a planned rule, where the agreement names none."""


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
        try:  # a step along P·gradient descends where P is positive definite, up to rounding
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
            return {"horizon": PLANNED_HORIZON, **given}
        return given

    @field_validator("worthwhile", mode="before")
    @classmethod
    def _percent(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            share = float(value.removesuffix("%"))
        except ValueError:
            raise ValueError('must be a share below 1, such as 0.005 or "0.5%"') from None
        if value.endswith("%"):
            share /= 100.0
        return share

    name: str = "consortium"
    rule: str
    """One of `copriv.rules.ALL`, or "auto": planned."""
    communication: Literal["synchronous", "asynchronous", "any"] = "any"
    horizon: Count
    """T: queries (A1, A2) or rounds (S1, S2); at most so many are planned where the rule is "auto"."""
    answers: Count | None = None
    """m: the most answers of one owner; the horizon when not given, as in the papers."""
    step: Positive | Literal["auto"] = "auto"
    """rho (S1, A1), c1 (S2), alpha (A2)."""
    seed: Annotated[int, Field(ge=0)] = 0
    learner_step: Literal["corrected", "printed"] = "corrected"
    """A1 only: the corrected c_L = 1/2, or (N − 1)/N as printed (erratum 2)."""
    schedule: Literal["uniform", "poisson", "random-order", "rounds"] = "uniform"
    """A1, A2: independent uniform choices; Poisson clocks of the owners' rates; every owner m times in one random order
    ("random-order"); or everybody once, in random order, before anybody again ("rounds")."""
    iterate: Literal["averaged", "last"] = "averaged"
    """S2 only: the model is the averaged iterate, as in the paper, or the last one."""
    window: Count = 1
    """A2: answers between two moves of the model; 1 moves it at every answer."""
    group_size: Count | Literal["auto"] | None = None
    """A1, A2: owners that name no group answer in groups of about so many, in the agreement's order, as one (A, Remark 2);
    "auto": planned, with all their answers within the horizon. None: each by itself."""
    start: tuple[Number, ...] | None = None
    """θ at the start, one number a parameter; zeros when not given. A public choice."""
    mechanism: str = "laplace"
    """What an owner answers with: one of `copriv.mechanisms` (docs/explanation/mechanisms.md)."""
    moments_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """"statistics" only: the part of ε for second moments; 0: the learner takes them from its public sample."""
    anchor: Positive | None = None
    """"objective" only: λ, how firmly an owner's model is tied to the start; when not given, the least that will do."""
    reach: Positive | None = None
    """"objective" only: a record with √(xᵀPx) above it counts for less, P the preconditioner; None: B says."""
    loss_bound: Positive | None = None
    """"pilot" only: L, the most that a record's loss counts in the mean loss; without it no mean loss is released."""
    preconditioner: tuple[tuple[Number, ...], ...] | None = None
    """A public p × p matrix that multiplies every direction of descent; the identity when not given."""
    goal: Literal["own", "common"] | None = None
    """Whose records a forecast's verdict is about: each owner's own ("own", where not given), or everybody's ("common")."""
    worthwhile: Annotated[float, Field(ge=0, lt=1)] | None = None
    """The least relative fall of the prediction error for which joining pays: 0.005 or "0.5%"; 0.005 where not given."""
    learner_key: KeyFingerprint | None = None
    """SHA-256 of the public key that the learner signs with; any that the authority certifies when not given."""


class ModelTerms(TermsTable):
    """[model]: the fitness, the feasible set and the bound on a record's gradient."""

    loss: str
    threshold: Positive = 1.0
    """Huber only: where the loss turns straight, in the target's unit."""
    regularization: NonNegative = 0.0
    smoothing: Positive = 0.5
    """Half the width over which "objective" rounds the hinge's kink; ψ is of the hinge itself."""
    theta_max: Positive = 1e5
    gradient_bound: Positive | Literal["proved", "auto"] = "auto"
    """Ξ: a number is enforced by L1 clipping; "proved" follows from declared bounds; "auto" is planned."""
    gradient_bound_assumed: bool = False
    """Take Ξ on trust, as the papers do, and clip nothing. NOT PRIVATE: for reproducing figures only."""
    intercept: bool = False

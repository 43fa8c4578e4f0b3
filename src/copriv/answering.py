"""From an agreement's words to mechanisms: the noise of each owner, and what answers for it.

The only place that reads `agreement.mechanism`; owners ask it for the mechanism in earnest, simulations for the scales.
"""

from fractions import Fraction
from typing import Literal

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement, OwnerTerms
from copriv.errors import AgreementError
from copriv.losses import by_name
from copriv.privacy.accounting import epsilon_per_answer, laplace_scale
from copriv.privacy.answering import ClippedGradient, PrivateAnswer
from copriv.privacy.clipping import mean_sensitivity
from copriv.privacy.objective import ObjectiveAnswer, Perturbation, surface_of
from copriv.privacy.statistics import StatisticsAnswer, bound_on_moments, statistics_length, statistics_noise
from copriv.types import Array, Loss


def check_delta(agreement: Agreement) -> None:
    """Refuse δ > 0 where the mechanism is pure: it would be taken for a promise of less noise."""
    for owner in agreement.owner:
        if owner.delta > 0 and agreement.agreement.mechanism in ("laplace", "statistics"):
            raise AgreementError(
                f"owner.delta: {owner.name} was to answer with delta {owner.delta:g}; mechanism "
                f'"{agreement.agreement.mechanism}" is pure epsilon, delta 0'
            )


def noise_scale(agreement: Agreement, owner: OwnerTerms, feature_bound: float | None = None) -> float:
    """The scale of an owner's noise on each coordinate of a gradient (of the tilt, for "objective").

    `feature_bound` is B as a number; without it, the agreement's.
    """
    Ξ, m, n, ε, δ, κ = (
        agreement.gradient_bound, agreement.answers, owner.records, owner.epsilon, owner.delta, owner.overlap
    )  # fmt: skip
    check_delta(agreement)
    match agreement.agreement.mechanism:
        case "gaussian":
            from copriv.privacy.approximate import gaussian_scale

            return gaussian_scale(Ξ, m, n, ε, δ, κ)
        case "laplace-composed":
            from copriv.privacy.approximate import composed_laplace_scale

            return composed_laplace_scale(Ξ, m, n, ε, δ, κ)
        case "statistics":
            share = agreement.agreement.moments_share
            return float(statistics_noise(Ξ, 1.0, share, 1, n, ε, κ)[0])
        case "objective":
            return perturbation(agreement, None, feature_bound).noise_scale(n, ε / κ, δ / κ)
    return laplace_scale(Ξ, m, n, ε, κ)


def feature_bound_of(agreement: Agreement, feature_bound: float | None = None) -> float:
    """B as a number. Raises AgreementError where it is still to be planned."""
    bound = agreement.data.feature_bound if feature_bound is None else feature_bound
    if not isinstance(bound, float) or not bound > 0:
        raise AgreementError(
            f'data.feature_bound: mechanism "{agreement.agreement.mechanism}" needs the number that bounds the '
            f"features, not {bound!r}; the learner finds it on its public rows (copriv forecast)"
        )
    return bound


def perturbation(
    agreement: Agreement, n_parameters: int | None = None, feature_bound: float | None = None, loss: Loss | None = None
) -> Perturbation:
    """The public parts of an owner's tilted fitness."""
    terms, model = agreement.agreement, agreement.model
    given = terms.start or terms.preconditioner
    p = n_parameters or (len(given) if given is not None else 1 + int(model.intercept))
    return Perturbation(
        surface=surface_of(loss or by_name(model.loss, model.threshold), model.smoothing),
        bound=agreement.gradient_bound,
        order=1 if agreement.owner[0].delta == 0 else 2,
        feature_bound=feature_bound_of(agreement, feature_bound),
        intercept=model.intercept,
        start=np.zeros(p) if terms.start is None else np.array(terms.start),
        regularization=model.regularization,
        anchor=terms.anchor,
        metric=None if terms.preconditioner is None else np.array(terms.preconditioner),
        reach=terms.reach,
        many_rows=agreement.owner[0].unit is not None,
    )


def private_answer(
    agreement: Agreement, owner: OwnerTerms, n_parameters: int, charge: Fraction, loss: Loss
) -> PrivateAnswer:
    """The mechanism by which an owner answers where it is not the default, "laplace".

    Raises AgreementError, InvalidInput or CoprivError where it cannot be kept: before anything is spent.
    """
    Ξ, n, m, κ = agreement.gradient_bound, owner.records, agreement.answers, owner.overlap
    sensitivity = mean_sensitivity(Ξ, n)
    match agreement.agreement.mechanism:
        case "gaussian":
            from copriv.privacy.approximate import GaussianAnswer, gaussian_multiplier

            multiplier = gaussian_multiplier(m, owner.epsilon / κ, owner.delta / κ)
            return ClippedGradient(GaussianAnswer(sensitivity, multiplier, n_parameters), Ξ, 2)
        case "laplace-composed":
            from copriv.privacy.ahead import DrawnAhead
            from copriv.privacy.approximate import laplace_multiplier
            from copriv.privacy.mechanisms import LaplaceAnswer

            each = Fraction(1 / laplace_multiplier(m, owner.epsilon / κ, owner.delta / κ))
            return ClippedGradient(DrawnAhead(LaplaceAnswer(sensitivity, each, n_parameters), largest=Ξ), Ξ, 1)
        case "statistics":
            return StatisticsAnswer(
                Ξ, feature_bound_of(agreement), agreement.model.intercept, agreement.agreement.moments_share, charge,
                n, n_parameters,
            )  # fmt: skip
        case "objective":
            return ObjectiveAnswer(perturbation(agreement, n_parameters, None, loss), charge, owner.delta / κ, n)
    raise AgreementError(f"agreement.mechanism: {agreement.agreement.mechanism!r} is not one that owners know")


def sensitivity_norm(agreement: Agreement) -> Literal[1, 2]:
    """1 or 2: the norm in which gradients are clipped to Ξ."""
    normal = agreement.agreement.mechanism == "gaussian"
    return 2 if normal or (agreement.agreement.mechanism == "objective" and agreement.owner[0].delta > 0) else 1


def answer_noise(agreement: Agreement, owner: OwnerTerms, n_parameters: int, feature_bound: float) -> Array:
    """The scale of the noise on each number of a "statistics" answer."""
    share, M = agreement.agreement.moments_share, bound_on_moments(feature_bound, agreement.model.intercept)
    return statistics_noise(
        agreement.gradient_bound, M, share, n_parameters, owner.records, owner.epsilon, owner.overlap
    )


def moments_scales(
    agreement: Agreement, n_parameters: int, feature_bound: float | None = None
) -> Float[Array, " owners"] | None:
    """The scale of the noise on each owner's mean of x_j²; None where no second moments are released."""
    if _moments_share(agreement) == 0:
        return None
    p, B = n_parameters, feature_bound_of(agreement, feature_bound)
    return np.array([answer_noise(agreement, owner, p, B)[p] for owner in agreement.owner])


def answer_length(agreement: Agreement, n_parameters: int) -> int:
    """How many numbers an owner's answer has."""
    return statistics_length(n_parameters, _moments_share(agreement))


def promise(agreement: Agreement, owner: OwnerTerms) -> str:
    """All that will ever leave an owner under an agreement, in words: how many of what, with which noise, at what price."""
    Ξ, m, loss, b = agreement.gradient_bound, agreement.answers, agreement.model.loss, noise_scale(agreement, owner)
    units = f"{owner.records} {'persons' if owner.unit else 'records'}"
    clipped = f"each clipped to {Ξ:g} in L{sensitivity_norm(agreement)}"
    normal = "normal noise of standard deviation"
    match agreement.agreement.mechanism:
        case "statistics":
            moments = " and second moments" if _moments_share(agreement) > 0 else ""
            what = (
                f"one answer at the agreed start: a mean gradient of the {loss} loss{moments} over {units}, {clipped}"
            )
            noise = f"Laplace noise of scale {b:.3g} on the gradient"
        case "objective":
            what = f"one model, fitted to the {loss} loss over {units}, gradients {clipped}"
            noise = f"its fitness tilted by {normal if owner.delta > 0 else 'Laplace noise of scale'} {b:.3g}"
        case mechanism:
            what = f"at most {m} mean gradients of the {loss} loss over {units}, {clipped}"
            noise = f"{normal if mechanism == 'gaussian' else 'Laplace noise of scale'} {b:.3g}"
    δ = f", delta {owner.delta:g}" if owner.delta > 0 else ""
    return f"{what}, with {noise}: epsilon {owner.epsilon:g}{δ} over the run"


def spent_after(agreement: Agreement, owner: OwnerTerms, answers: int) -> tuple[Fraction, Fraction]:
    """ε and δ that an owner has spent once so many answers are charged: with δ, the first pays for all."""
    ε, δ, κ = Fraction(owner.epsilon), Fraction(owner.delta), owner.overlap
    if δ > 0:
        return (ε / κ, δ / κ) if answers else (Fraction(0), Fraction(0))
    return epsilon_per_answer(owner.epsilon, agreement.answers, κ) * answers, Fraction(0)


def _moments_share(agreement: Agreement) -> float:
    return agreement.agreement.moments_share if agreement.agreement.mechanism == "statistics" else 0.0

"""The checks that every mechanism's real owner must pass, as `owner_battery` has them for the default one.

Each takes a case and gives a `Verdict`. Owners answer by their whole path: ledger, clipping, weights, noise.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from copriv.errors import AgreementError, BudgetRefused, CoprivError, QueryRefused
from copriv.model.records import Records
from copriv.privacy.approximate import GaussianAnswer
from copriv.privacy.laplace import LaplaceAnswer
from copriv.protocol import Query
from copriv.types import Array
from statistical import mechanism_cases as cases
from statistical.mechanism_cases import KAPPA, Case, N, P
from statistical.privacy_audit import (
    ALPHA,
    Score,
    Unit,
    Verdict,
    audit_epsilon,
    dataset,
    extreme_units,
    learned,
    scale_test,
)

NUMBERS = 1000
"""In the tests of noise: normal noise is seen to be an eighth too small, Laplace noise a fifth; of models, 600."""
RUNS = 700
"""Transcripts of each neighbour in the default audit: enough to see half the noise."""


def noise(case: Case) -> Verdict:
    """Of the law and scale that the proof asks for, on every number of every answer."""
    records = cases.pair_of(case)[0]
    numbers = 600 if case.mechanism == "objective" else NUMBERS
    runs = numbers // (case.answers * case.length)
    left = case.noise(cases.transcripts(case, records, runs), records).reshape(-1, case.length)
    return _normal(left) if case.normal else scale_test(left, 1.0)


def _normal(noise: Array) -> Verdict:
    worst = 1.0
    for part in (*noise.T, noise.ravel()):
        size, total = stats.chi2(len(part)), np.square(part).sum()
        shape = stats.kstest(part, "norm").pvalue
        worst = float(min(worst, 2 * size.cdf(total), 2 * size.sf(total), shape))
    return Verdict(worst > ALPHA, f"deviation {noise.std():.3f} of what it must be; least p-value {worst:.2g}")


def fresh(case: Case) -> Verdict:
    """No more draws stand twice than by chance: within a run, after a restart, on two coordinates.

    Two of a density f, of scale 1, are within 1e-9 with probability 2e-9 ∫f², and ∫f² is 1/4 (Laplace) or 1/(2√π) (normal):
    of the 5,784 draws of histograms a pair is so once in 120 times.
    """
    records = cases.pair_of(case)[0]
    two = [cases.transcripts(case, records, 6) for _ in range(2)]
    left = np.concatenate([case.noise(answers, records).ravel() for answers in two])
    apart = np.diff(np.sort(left))
    twice, pairs = int((apart <= 1e-9).sum()), 0.5 * len(left) * (len(left) - 1)
    by_chance = stats.poisson.sf(twice - 1, 0.3 * 2e-9 * pairs)
    return Verdict(bool(by_chance > 1e-7), f"{twice} of {len(left)} draws stand twice")


def _without_noise(patch: pytest.MonkeyPatch) -> None:
    for answer in (LaplaceAnswer, GaussianAnswer):
        patch.setattr(answer, "release", lambda self, value: np.array(value))


def _exact(case: Case, units: list[Unit]) -> Array:
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        _without_noise(patch)
        owner = cases.owner_of(case, dataset(units) if case.persons else _records(units))
        return np.asarray(owner.answer(Query("q", case.agreement.fingerprint, "bank", np.zeros(P))).gradient)


def _records(units: list[Unit]) -> Records:
    return Records.of(np.concatenate([x for x, _ in units]), np.concatenate([y for _, y in units]))


def sensitivity(case: Case) -> Verdict:
    """What leaves, without its noise, moves by 2/n at most when a unit is replaced, and the search comes near that."""
    rng = np.random.default_rng(1)
    stay = [(rng.normal(size=(1, P)), np.array([1.0])) for _ in range(N - 1)]
    units = extreme_units(P, 4 if case.persons else 1, rng)
    if case.mechanism == "lengths":
        units += [(x, y / 10.0) for x, y in units]  # a target of another size, too
    answers = np.array([_exact(case, [*stay, unit]) for unit in units])
    metric = "euclidean" if case.order == 2 else "cityblock"
    worst = float(cdist(answers / case.unit, answers / case.unit, metric).max()) * N / 2
    return Verdict(0.99 <= worst <= 1 + 1e-9, f"moves by {worst:.6g} of 2/n in L{case.order}")


def minimum(case: Case) -> Verdict:
    """Without noise, the model is the minimum of the bounded fitness that the proof is about, for extreme records too."""
    rng = np.random.default_rng(1)
    stay = [(rng.normal(size=(1, P)), np.array([1.0])) for _ in range(N - 1)]
    worst = 0.0
    directions = (np.eye(P)[0], np.ones(P), np.array([1.0, -1.0]))
    units = [(size * x[None], np.array([y])) for x in directions for size in (0.0, 1.0, 3.0, 30.0) for y in (-1.0, 3.0)]
    for unit in units:
        records = _records([*stay, unit])
        worst = max(worst, float(np.abs(cases.tilt(case, records, _exact(case, [*stay, unit]))).max()))
    return Verdict(worst < 1e-9, f"the oracle's gradient there is {worst:.3g}")


def grid(case: Case) -> Verdict:
    """What leaves is on the sampler's grid: no low-order bits of what was computed."""
    records = cases.pair_of(case)[0]
    cells = cases.transcripts(case, records, 3) / (case.unit if case.length > P else 1.0) * 2.0**40
    off = float(np.abs(cells - np.rint(cells)).max())
    return Verdict(off < 1e-3, f"off the grid by {off:.3g} of a step")


def spent(case: Case) -> Verdict:
    """Exactly m answers; all that is charged is ε/κ and δ/κ, and it is charged by the first answer where δ > 0."""
    owner, given, first = cases.owner_of(case, cases.pair_of(case)[0]), 0, Fraction(0)
    for k in range(2 * case.answers + 1):
        try:
            owner.answer(Query(f"{k}", case.agreement.fingerprint, "bank", np.zeros(P)))
            given += 1
        except (BudgetRefused, QueryRefused):
            pass
        first = first or owner.ledger.spent
    terms = case.agreement.owner[0]
    whole = Fraction(terms.epsilon) / KAPPA, Fraction(terms.delta) / KAPPA
    right = (given, owner.ledger.spent, owner.ledger.spent_delta) == (case.answers, *whole)
    right = right and first == (whole[0] if case.delta else whole[0] / case.answers)
    return Verdict(
        right, f"{given} answers for {case.answers}; first {float(first):g}, then {float(owner.ledger.spent):g}"
    )


def count(case: Case) -> Verdict:
    """An owner with another number of records than agreed does not answer: its noise, and so n, would show."""
    one = cases.pair_of(case)[0]
    more = Records.of(np.vstack([one.features, one.features[:1]]), np.append(one.target, 1.0))
    try:
        cases.owner_of(case, more)
    except AgreementError:
        return Verdict(True, "refused")
    except CoprivError as error:
        return Verdict(False, str(error))
    return Verdict(False, f"{N + 1} records were taken for {N}")


def epsilon(case: Case, runs: int = RUNS) -> Verdict:
    """All answers of a run on D and on D′: what a likelihood-ratio test of whole transcripts proves of ε, at this δ."""
    found = lower_bound(case, runs)
    return Verdict(found <= case.epsilon, f"spends at least {found:.3f} of {case.epsilon:g}")


def lower_bound(
    case: Case,
    runs: int,
    train_share: float = 0.3,
    alpha: float = ALPHA,
    pair: tuple[Records, Records] | None = None,
    learns: bool = False,
) -> float:
    """By the likelihood ratio of transcripts; `learns`: or by trees that know nothing of the mechanism, if these find more.

    pair: the neighbours, if not those of `cases.pair_of`. It exceeds the true ε with a probability of 2·alpha at most for each.
    """
    pair = pair or cases.pair_of(case)
    samples = [cases.transcripts(case, records, runs) for records in pair]
    ratios = [(case.likelihood(drawn, pair[0]) - case.likelihood(drawn, pair[1]))[:, None] for drawn in samples]
    ways: list[tuple[list[Array], Callable[[Array, Array], Score]]] = [(ratios, lambda *_: lambda ratio: ratio[:, 0])]
    if learns:
        ways.append(([drawn.reshape(runs, -1) for drawn in samples], learned))
    return max(
        audit_epsilon(*drawn, fit, np.random.default_rng(2), alpha, train_share, case.delta) for drawn, fit in ways
    )


CHECKS: dict[str, Callable[[Case], Verdict]] = {
    "noise": noise,
    "fresh": fresh,
    "sensitivity": sensitivity,
    "sensitivity, persons": lambda case: sensitivity(cases.of_persons(case)),
    "minimum": minimum,
    "grid": grid,
    "spent": spent,
    "count": count,
    "epsilon": epsilon,
}


def checks_of(case: Case) -> tuple[str, ...]:
    """A model has no sensitivity of its own; a gradient is no minimum."""
    own = ("minimum",) if case.mechanism == "objective" else ("sensitivity", "sensitivity, persons")
    return ("noise", "fresh", *own, "grid", "spent", "count", "epsilon")

"""Empirical lower bounds on ε from all that leaves a real owner: over one run of each mechanism, and over a lifetime.

Owners answer by their whole path (ledger, clipping, weights, noise); an attacker who knows everything but the noise, and the
two neighbours, tests whole transcripts by their likelihood ratio. By construction a bound exceeds what is spent with
probability 2·ALPHA at most. It falls below `LEAST`, a part of ε, less than once in a million times: on 60 sets of simulated
draws of the same shifts, the mean less 5.2 standard deviations is above that. A transcript of several numbers reaches its
largest likelihood ratio rarely, so that these bounds are further from ε than those of one answer (`test_empirical_epsilon.py`).
The noise of models is made for two factors, never at their worst together: for them nothing is asked of it here but to be a
bound. Where the anchor leaves nearly all of ε for one of the two (`FIRM`), it is held to that one, from both sides.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta

import copriv.owner
from copriv.losses import Squared
from copriv.mechanisms import gradients, mechanism
from copriv.mechanisms.objective_noise import Perturbation
from copriv.model.records import Records
from copriv.network.run import Trajectory
from copriv.privacy.ledger import MemoryLedger
from copriv.protocol import Query
from copriv.types import Array
from ledger_files import opened
from statistical import mechanism_cases as cases
from statistical.mechanism_battery import lower_bound
from statistical.mechanism_cases import CASES, FIRM, KAPPA, Case, P
from statistical.privacy_audit import audit_epsilon

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
pytest.importorskip("dp_accounting")
ALPHA = 1e-7
RUNS = 8000
LEAST = {
    "laplace": 0.5, "gaussian": 0.28, "laplace-composed": 0.38, "statistics": 0.2, "moments": 0.35, "lengths": 0.25,
    "lengths of targets": 0.5, "histograms": 0.25,
    "objective": -9.0, "objective with delta": -9.0, "pilot": 0.5,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("case", "least"), [(CASES[name], LEAST[name]) for name in CASES], ids=CASES)
def test_a_run_spends_no_more_than_was_agreed_and_the_audit_sees_it(case: Case, least: float) -> None:
    found = lower_bound(case, RUNS if case.mechanism != "objective" else RUNS // 10, 0.2, ALPHA)
    assert least * case.epsilon < found <= case.epsilon


MODELS = 4000
"""With these a right version passes, and a wrong one fails, but for 5.2 standard deviations (simulated draws, as above)."""


def seen_of(case: Case) -> float:
    """What so many models of each neighbour prove of ε₁ (Laplace noise), or of the shift of the tilt (normal noise).

    The best tests are known before anything is drawn: with Laplace noise, models whose likelihood ratio is the largest there
    is, which half of one neighbour's are; with normal noise, those beyond the middle, of which Φ⁻¹ is taken (a bound on ε at
    one δ is far from what is attained, whatever the number of draws).
    """
    pair = cases.pair_of(case)
    made = [cases.transcripts(case, records, MODELS) for records in pair]
    ratios = [case.likelihood(drawn, pair[0]) - case.likelihood(drawn, pair[1]) for drawn in made]
    largest = 0.0 if case.normal else (1 - 1e-6) * case.shift
    often, seldom = (int((ratio > largest).sum()) for ratio in ratios)
    least, most = beta.ppf(ALPHA, often, MODELS - often + 1), beta.ppf(1 - ALPHA, seldom + 1, MODELS - seldom)
    return float(ndtri(least) - ndtri(most) if case.normal else np.log(least / most))


@pytest.mark.slow
@pytest.mark.parametrize("name", FIRM)
def test_a_model_spends_what_its_tilt_comes_to_and_the_audit_sees_it(name: str) -> None:
    case = FIRM[name]
    assert 0.6 * case.shift < seen_of(case) <= case.shift
    assert case.for_noise > 0.97 * case.epsilon, "the tilt is nearly all of it"


def _an_epsilon_that_is_half_as_much_again(patch: pytest.MonkeyPatch) -> None:
    right = Perturbation.noise_budget
    patch.setattr(Perturbation, "noise_budget", lambda self, n, ε: 1.5 * right(self, n, ε))


@pytest.mark.slow
@pytest.mark.parametrize("name", FIRM)
def test_a_model_whose_epsilon_is_half_as_much_again_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what is learned of whole models alone: the law of the noise is looked at by other tests."""
    case = FIRM[name]
    _an_epsilon_that_is_half_as_much_again(monkeypatch)
    assert seen_of(case) > case.shift


# A lifetime: several runs, whose questions depend on what was answered before ---------------------------------------


@dataclass(frozen=True)
class Asked:
    """One answer: which run's case it belongs to, at which θ."""

    case: Case
    theta: Array
    answer: Array


Life = list[Asked]
Learner = Callable[[copriv.owner.Owner, Case, Life], None]
"""Asks one run's questions, and notes them."""


def ask(owner: copriv.owner.Owner, case: Case, theta: Array, life: Life, fingerprint: str) -> Array:
    answer = owner.answer(Query(f"{len(life)}", fingerprint, "bank", theta)).gradient
    life.append(Asked(case, theta, answer))
    return answer


def malicious(owner: copriv.owner.Owner, case: Case, life: Life) -> None:
    """Keeps to where the neighbours differ most, and moves elsewhere by what it has heard."""
    fingerprint, θ = case.agreement.fingerprint, np.zeros(P)
    for _ in range(case.answers):
        answer = ask(owner, case, θ, life, fingerprint)
        θ = np.array([0.0, np.clip(answer[1], -1, 1)])


def honest(owner: copriv.owner.Owner, case: Case, life: Life) -> None:
    """The agreed rule, by the code that learners run; the other owner answers nothing but zeros."""
    agreed = case.agreement
    trajectory = Trajectory(agreed, P, "choose")
    for k in range(2 * case.answers):
        θ, participant = trajectory.query(k % 2), k % 2
        given = np.zeros(P) if participant else ask(owner, case, θ, life, agreed.fingerprint)
        trajectory.step(participant, {agreed.owner_names[participant]: given})


RUNS_OF_A_LIFE = (
    replace(CASES["laplace"], epsilon=0.5, answers=1),
    replace(CASES["laplace"], epsilon=1.0, answers=2),
)
"""On the same records, one after the other: ε adds up to 1.5 of this owner's."""
SPENT = 1.5


def lives(records: Records, learner: Learner, number: int, runs: Sequence[Case]) -> list[Life]:
    owners = [cases.owner_of(case, records) for case in runs]
    made = []
    for _ in range(number):
        life: Life = []
        for owner, case in zip(owners, runs, strict=True):
            learner(cases.restarted(owner, case), case, life)
        made.append(life)
    return made


def log_density(life: Life, records: Records) -> float:
    return -sum(
        float((np.abs(one.answer - cases.mean(one.case, records, one.theta)) / one.case.scales()).sum()) for one in life
    )


def spends(learner: Learner, number: int) -> float:
    one, other = pair = cases.neighbours("gradient")
    scores = []
    for records in pair:
        made = lives(records, learner, number, RUNS_OF_A_LIFE)
        scores.append(np.array([[log_density(life, one) - log_density(life, other)] for life in made]))
    return audit_epsilon(*scores, lambda *_: lambda s: s[:, 0], np.random.default_rng(3), ALPHA, train_share=0.4)


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "least"), [(malicious, 0.0), (honest, -9.0)])
def test_a_lifetime_of_two_runs_spends_no_more_than_its_ledger_says(learner: Learner, least: float) -> None:
    found = spends(learner, 3000 if learner is malicious else 900)
    assert least * SPENT < found <= SPENT


def _all_of_epsilon_for_each_answer(patch: pytest.MonkeyPatch) -> None:
    """Neither m nor κ is counted."""
    patch.setattr(mechanism, "epsilon_per_answer", lambda ε, m, κ=1: Fraction(ε))
    generous = lambda owner, ε, m, δ=Fraction(0): MemoryLedger(owner, 2 * m * ε, m)  # noqa: E731
    for module in (copriv.owner, cases):
        patch.setattr(module, "MemoryLedger", generous)


def _a_third_of_the_sensitivity(patch: pytest.MonkeyPatch) -> None:
    right = gradients.mean_sensitivity
    patch.setattr(gradients, "mean_sensitivity", lambda bound, units: right(bound, units) / 3)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [_all_of_epsilon_for_each_answer, _a_third_of_the_sensitivity])
def test_a_lifetime_with_less_noise_is_seen(
    wrong: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong(monkeypatch)
    assert spends(malicious, 2500) > SPENT


def test_the_ledger_of_a_life_says_what_was_spent_and_no_third_run_begins(tmp_path: Path) -> None:
    """The same two runs on one ledger file: their ε adds up exactly to the lifetime, and nothing is left."""
    records = cases.neighbours("gradient")[0]
    whole = sum((Fraction(case.agreement.owner[0].epsilon) for case in RUNS_OF_A_LIFE), Fraction(0))
    with opened(tmp_path / "ledger", "bank", whole) as file:
        life: Life = []
        for k, case in enumerate(RUNS_OF_A_LIFE):
            agreed, terms = case.agreement, case.agreement.owner[0]
            ledger = file.run(agreed.fingerprint, f"run {k}", Fraction(terms.epsilon), case.answers)
            malicious(copriv.owner.Owner(agreed, "bank", records, Squared(), ledger), case, life)
        assert file.totals.spent == whole / KAPPA == Fraction(SPENT)
        assert len(life) == sum(case.answers for case in RUNS_OF_A_LIFE)

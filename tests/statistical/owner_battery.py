"""The checks that every owner must pass, each a function of nothing that builds owners and gives a `Verdict`.

They look up `copriv.owner` and `copriv.mechanisms` when they run, so that a mutation that patches a name there is what
they meet. They compare with formulas and means written a second time here and in `tests/oracle.py`, never with the
code under test.
"""

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import repeat

import numpy as np

import copriv.owner
import oracle
from copriv.agreement import Agreement
from copriv.errors import BudgetRefused, CoprivError
from copriv.losses import Custom, CustomLinear, Hinge, Huber, Logistic, Squared
from copriv.mechanisms import gradients
from copriv.model.records import Records
from copriv.protocol import Query
from copriv.types import Array, Loss
from statistical.privacy_audit import (
    Verdict,
    audit_epsilon,
    extreme_units,
    independence_across_answers,
    independence_across_coordinates,
    learned,
    likelihood_ratio,
    neighbours,
    scale_test,
    sensitivity_search,
)

BOUND = 0.8


_ahead = ContextVar("ahead", default=False)
"""Whether owners draw the noise of each answer before its query is there, as they do over the network."""


def agreement(records: int, answers: int, epsilon: float, overlap: int = 1, bound: float = BOUND) -> Agreement:
    """One owner's agreement; `epsilon` is for all answers together."""
    return Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 10 * answers, "answers": answers, "step": 1.0},
            "model": {"loss": "squared", "gradient_bound": bound, "theta_max": 10.0},
            "owner": [
                {"name": name, "records": records, "epsilon": epsilon, "overlap": overlap}
                for name in ("bank", *(f"other-{i}" for i in range(1, overlap)))
            ],
        }
    )


def owner_of(terms: Agreement, records: Records, loss: Loss | None = None) -> copriv.owner.Owner:
    """An owner as the package makes it now, mutated or not."""
    return copriv.owner.Owner(terms, "bank", records, loss or Squared())


def ask(owner: copriv.owner.Owner, terms: Agreement, thetas: Iterable[Array]) -> Array:
    """The answers (queries, p) of one owner, each query under a name of its own."""
    answers = []
    for k, θ in enumerate(thetas):
        if _ahead.get():
            owner.draw_ahead()
        answers.append(owner.answer(query(terms, f"{k}", θ)).gradient)
    return np.array(answers)


def query(terms: Agreement, identity: str, theta: Array) -> Query:
    return Query(identity, terms.fingerprint, "bank", theta)


# Noise


@dataclass(frozen=True)
class _Run:
    p: int = 3
    records: int = 40
    answers: int = 30
    runs: int = 50
    epsilon: float = 12.0
    overlap: int = 2

    def noise(self) -> Array:
        """What is left of (runs, answers, p) answers without their means; every θ is asked twice, under two names."""
        rng = np.random.default_rng(0)
        # Some gradients are clipped and some are not, and the mean is not the same at every θ.
        x, y = 0.3 * rng.normal(size=(self.records, self.p)), rng.normal(size=self.records)
        thetas = np.repeat(rng.uniform(-3, 3, size=(self.answers // 2, self.p)), 2, axis=0)
        rows = list(zip(x, y, strict=True))
        means = np.array([oracle.private_answer("squared", rows, theta, BOUND, np.zeros(self.p)) for theta in thetas])
        terms = agreement(self.records, self.answers, self.epsilon, self.overlap)
        return np.array([ask(owner_of(terms, Records.of(x, y)), terms, thetas) for _ in range(self.runs)]) - means


def scale() -> Verdict:
    """b = 2Ξmκ/(nε), on every coordinate, at every θ."""
    run = _Run()
    b = oracle.noise_scale(BOUND, run.answers, run.records, run.epsilon, run.overlap)
    return scale_test(run.noise().reshape(-1, run.p), b)


def coordinates() -> Verdict:
    return independence_across_coordinates(_Run().noise().reshape(-1, 3))


def answers() -> Verdict:
    """Within a run, across runs (restarted owners), and at the same θ under two names."""
    return independence_across_answers(_Run().noise())


# What leaves is bounded


def _strange_gradients(theta: Array, x: Array, y: Array) -> Array:
    """Not the gradient of anything: NaN, infinite and huge rows among ordinary ones."""
    rows = 2.0 * (x @ theta - y)[:, None] * x
    rows[np.abs(x[:, 0]) > 1e5] *= 1e300
    rows[(x[:, 0] > 1e5) & (y > 0)] = np.inf
    rows[(x[:, 0] > 1e5) & (y < 0)] = np.nan
    return rows


LOSSES: tuple[Loss, ...] = (
    Squared(),
    Logistic(),
    Hinge(),
    Huber(0.5),
    CustomLinear("fourth power", lambda z, y: (z - y) ** 4, lambda z, y: 4 * (z - y) ** 3),
    Custom("strange", lambda theta, x, y: np.zeros(len(y)), _strange_gradients),
)


def sensitivity(most_rows: int, p: int = 16, others: int = 4) -> Verdict:
    """Over losses, θ and extreme units; the first that moves the mean too far, or the one that comes nearest."""
    rng = np.random.default_rng(1)
    candidates = extreme_units(p, most_rows, rng)
    stay = [(rng.normal(size=(2, p)), np.array([1.0, -1.0])) for _ in range(others)]
    verdict = Verdict(False, "nothing was searched")
    with np.errstate(all="ignore"):
        for loss in LOSSES:
            for theta in (np.zeros(p), rng.normal(size=p), np.full(p, 10.0)):
                mean = partial(_mean, loss, theta)
                verdict = sensitivity_search(mean, stay, candidates, BOUND)
                if not verdict:
                    return Verdict(False, f"{loss.name}: {verdict.detail}")
    return verdict


def _mean(loss: Loss, theta: Array, records: Records) -> Array:
    return gradients.clipped_mean_gradient(loss, records, theta, BOUND)


def epsilon(kind: str, draws: int = 3000, p: int = 2) -> Verdict:
    """The empirical lower bound on one answer's ε, by both scores, stays below what was charged.

    So few draws see half the noise; `test_empirical_epsilon.py` has enough of them for a tight bound.
    """
    ε, n, rng = 1.5, 20, np.random.default_rng(2)
    samples = []
    for records in neighbours(kind, p, n):
        terms = agreement(n, draws, draws * ε)
        samples.append(ask(owner_of(terms, records), terms, repeat(np.zeros(p), draws)))
    means = [
        oracle.private_answer("squared", list(zip(r.features, r.target, strict=True)), np.zeros(p), BOUND, np.zeros(p))
        for r in neighbours(kind, p, n)
    ]
    b = oracle.noise_scale(BOUND, 1, n, ε)
    scores = (likelihood_ratio(*means, b), learned)
    found = max(audit_epsilon(samples[0], samples[1], fit, rng, train_share=0.3) for fit in scores)
    return Verdict(found <= ε, f"spends at least {found:.3f} of {ε:g}")


# What is spent


def cap() -> Verdict:
    """Exactly m answers, charged ε/κ in all at most, whatever is asked after them."""
    m, ε, κ = 3, 0.7, 2
    terms = agreement(10, m, ε, κ)
    owner = owner_of(terms, Records.of(np.ones((10, 2)), np.ones(10)))
    given = 0
    for k in range(2 * m):
        try:
            owner.answer(query(terms, f"{k}", np.full(2, 0.1 * k)))
            given += 1
        except BudgetRefused:
            pass
    spent = owner.ledger.spent
    return Verdict(given == m and spent == Fraction(ε) / κ, f"{given} answers for {m}, charged {float(spent)}")


def order() -> Verdict:
    """Records are read after the charge; a computation that breaks is charged; a refused charge reads nothing."""
    reads: list[int] = []

    def slope(z: Array, y: Array) -> Array:
        reads.append(owner.ledger.answers)
        if (z > 5).any():
            raise ArithmeticError("the computation breaks here")
        return z - y

    terms, records = agreement(10, 2, 1.0), Records.of(np.ones((10, 2)), np.ones(10))
    owner = owner_of(terms, records, CustomLinear("noted", lambda z, y: z, slope))
    refusals = []
    for identity, coordinate in (("good", 0.0), ("breaks", 9.0), ("breaks", 9.0), ("one too many", 0.0)):
        try:
            owner.answer(query(terms, identity, np.full(2, coordinate)))
        except (ArithmeticError, CoprivError) as error:
            refusals.append(type(error).__name__)
    right = reads == [1, 2] and refusals == ["ArithmeticError", "AnswerLost", "BudgetRefused"]
    return Verdict(right, f"charged when records were read: {reads}; then {refusals}")


def replay() -> Verdict:
    """The same query again gives the same bits and costs nothing."""
    terms = agreement(10, 2, 1.0)
    owner = owner_of(terms, Records.of(np.ones((10, 2)), np.ones(10)))
    first, again = (owner.answer(query(terms, "a", np.zeros(2))).gradient for _ in range(2))
    same = first.tobytes() == again.tobytes() and owner.ledger.answers == 1
    return Verdict(same, f"{first} then {again}, {owner.ledger.answers} charged")


CHECKS: dict[str, Callable[[], Verdict]] = {
    "scale": scale,
    "coordinates": coordinates,
    "answers": answers,
    "sensitivity, records": partial(sensitivity, 1),
    "sensitivity, persons": partial(sensitivity, 5),
    "epsilon, one coordinate": partial(epsilon, "one coordinate"),
    "epsilon, spread": partial(epsilon, "spread"),
    "cap": cap,
    "order": order,
    "replay": replay,
}


def failing(names: Iterable[str], ahead: bool = False) -> dict[str, str]:
    """Of these checks, the ones that do not pass, each with what it saw; `ahead`: with noise that is drawn ahead."""
    before = _ahead.set(ahead)
    try:
        verdicts = {name: CHECKS[name]() for name in names}
    finally:
        _ahead.reset(before)
    return {name: verdict.detail for name, verdict in verdicts.items() if not verdict}

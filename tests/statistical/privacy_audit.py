"""Tests of noise that a wrong mechanism fails: scale, shape, independence, sensitivity and an empirical ε.

Each function looks at draws (or at noise-free means) and gives a `Verdict`; none of them knows how the draws were made,
so the mechanism and each of its mutations go through the same ones. Draws have the shape (runs, answers, p), noise is
what is left of them after the noise-free mean is taken away.

An owner's noise cannot be seeded, so a right mechanism fails by chance with a known probability: ALPHA for each p-value
and each confidence limit, far below one in a million a session. A test that can fail by chance this rarely is blind to
small errors only: with 4,500 numbers the scale is tested to within 10 %.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats
from scipy.spatial.distance import cdist

from copriv.model.records import Records
from copriv.types import Array

ALPHA = 1e-8
BINS = 20
"""Of the test of a shape."""


@dataclass(frozen=True)
class Verdict:
    """What one check saw; true where the mechanism passes."""

    passed: bool
    detail: str

    def __bool__(self) -> bool:
        return self.passed


def scale_test(noise: Array, scale: float, alpha: float = ALPHA) -> Verdict:
    """Laplace noise of this scale on every coordinate of (draws, p).

    2 Σ|w|/b is χ² with 2 degrees of freedom a draw (two-sided). The shape: draws fall into `BINS` intervals of equal
    probability equally often (χ²), which sees a bias too. Both look at each coordinate and at all of them together.
    Normal noise of the same size has a p-value of 1e-56 (4,500 numbers; the largest of 300 was 1e-38).
    """
    worst, law = 1.0, stats.laplace(scale=scale)
    for part in (*noise.T, noise.ravel()):
        size = stats.chi2(2 * len(part))
        total = 2.0 * np.abs(part).sum() / scale
        place = np.minimum((law.cdf(part) * BINS).astype(int), BINS - 1)
        shape = stats.chisquare(np.bincount(place, minlength=BINS)).pvalue
        worst = float(min(worst, 2.0 * size.cdf(total), 2.0 * size.sf(total), shape))
    ratio = np.abs(noise).mean(axis=0) / scale
    return Verdict(worst > alpha, f"mean |noise| is {np.round(ratio, 3)} of the scale; least p-value {worst:.2g}")


def independence_across_coordinates(noise: Array, alpha: float = ALPHA) -> Verdict:
    """No two coordinates of (draws, p) are related: ranks of the noise, and of its size, are uncorrelated."""
    return _unrelated(
        [(noise[:, i], noise[:, j], f"{i}, {j}") for i, j in combinations(range(noise.shape[1]), 2)], alpha
    )


def independence_across_answers(noise: Array, alpha: float = ALPHA) -> Verdict:
    """No draw of (runs, answers, p) stands twice, and an answer tells nothing about the next one in its run."""
    runs, answers, p = noise.shape
    distinct = len(np.unique(noise.reshape(-1, p), axis=0))
    if distinct < runs * answers:
        return Verdict(False, f"{runs * answers - distinct} of {runs * answers} draws were used before")
    pairs = [(noise[:, :-1, j].ravel(), noise[:, 1:, j].ravel(), f"coordinate {j}, next answer") for j in range(p)]
    return _unrelated(pairs, alpha)


def _unrelated(pairs: Sequence[tuple[Array, Array, str]], alpha: float) -> Verdict:
    worst, where = 1.0, "none"
    for a, b, name in pairs:
        for kind, x, y in (("value", a, b), ("size", np.abs(a), np.abs(b))):
            p_value = float(stats.spearmanr(x, y).pvalue)
            if p_value < worst:
                worst, where = p_value, f"{name} ({kind})"
    return Verdict(worst > alpha, f"least p-value {worst:.2g}, at {where}")


Unit = tuple[Array, Array]
"""One unit's rows of features and their targets: one record, or one person's."""


def dataset(units: Sequence[Unit]) -> Records:
    """The records of these units; rows of one unit share a weight of 1."""
    person = np.repeat(np.arange(len(units)), [len(target) for _, target in units])
    return Records.of_persons(np.concatenate([x for x, _ in units]), np.concatenate([y for _, y in units]), person)


def extreme_units(p: int, most_rows: int, rng: np.random.Generator) -> list[Unit]:
    """Units that could move a mean far: one coordinate or all of them alike, tiny to huge, one row to `most_rows`.

    A spread vector is the one on which the L1 norm is √p times the L2 norm.
    """
    spread = np.ones(p)
    directions = [np.eye(p)[0], np.eye(p)[-1], spread, np.where(np.arange(p) % 2, 1.0, -1.0), rng.standard_cauchy(p)]
    return [
        (np.tile(size * direction, (rows, 1)), np.full(rows, label))
        for rows in {1, most_rows}
        for direction in directions
        for size in (0.0, 1e-3, 1.0, 1e6, 1e150)
        for label in (-1.0, 1.0)
    ]


def sensitivity_search(
    mean: Callable[[Records], Array], others: Sequence[Unit], candidates: Sequence[Unit], bound: float
) -> Verdict:
    """The farthest that replacing one candidate by another moves the noise-free mean, in L1, against 2Ξ/n.

    `others` are the n − 1 units that stay. Passes only within 1e-9 of the bound, and only where the search reaches 99 %
    of it: a search that comes nowhere near has shown nothing.
    """
    allowed = 2.0 * bound / (len(others) + 1)
    means = np.array([mean(dataset([*others, unit])) for unit in candidates])
    worst = float(cdist(means, means, "cityblock").max()) / allowed
    return Verdict(0.99 <= worst <= 1 + 1e-9, f"moves the mean by {worst:.12g} of 2Ξ/n in L1")


def neighbours(kind: str, p: int, n: int) -> tuple[Records, Records]:
    """Two data sets of n records that differ in one, for the squared loss at θ = 0 and any Ξ ≤ 1.

    The last record's gradient points all one way in D and all the other way in D′, so that the clipped mean moves by
    2Ξ/n: in the first coordinate ("one coordinate"), or by 2Ξ/(np) in each ("spread").
    """
    direction = np.eye(p)[0] if kind == "one coordinate" else np.ones(p)
    rows = np.vstack([np.random.default_rng(5).normal(size=(n - 1, p)), 100.0 * direction])
    target = np.ones(n)
    return Records.of(rows, target), Records.of(rows, np.append(target[:-1], -1.0))


Score = Callable[[Array], Array]
"""From draws (draws, p) to one number each: high where D is likelier than D′."""


def likelihood_ratio(mean: Array, neighbour: Array, scale: float) -> Callable[[Array, Array], Score]:
    """The best score there is when everything but the noise is known: Σ (|a − μ′| − |a − μ|)/b. Nothing to learn."""

    def fit(_train: Array, _train_neighbour: Array) -> Score:
        return lambda draws: (np.abs(draws - neighbour) - np.abs(draws - mean)).sum(axis=1) / scale

    return fit


def learned(train: Array, train_neighbour: Array) -> Score:
    """A score that knows nothing of the mechanism: gradient-boosted trees that tell draws of D and D′ apart."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    # Stumps make an additive score; the best one is a sum over coordinates.
    trees = HistGradientBoostingClassifier(max_depth=1, max_iter=60, learning_rate=0.2, random_state=0)
    trees.fit(np.vstack([train, train_neighbour]), np.repeat([1, 0], [len(train), len(train_neighbour)]))
    return lambda draws: np.asarray(trees.decision_function(draws))


def audit_epsilon(
    draws: Array,
    neighbour: Array,
    fit: Callable[[Array, Array], Score],
    rng: np.random.Generator,
    alpha: float = ALPHA,
    train_share: float = 0.5,
    delta: float = 0.0,
) -> float:
    """A lower confidence bound on ε from draws (draws, p) under D and D′, where δ is claimed beside it.

    The first `train_share` of the draws trains the score and chooses the threshold; the rest is counted.
    """
    at, at_neighbour = int(train_share * len(draws)), int(train_share * len(neighbour))
    score = fit(draws[:at], neighbour[:at_neighbour])
    a, b = _jittered(score(draws), score(neighbour), rng)
    return epsilon_lower_bound((a[:at], b[:at_neighbour]), (a[at:], b[at_neighbour:]), alpha, delta)


def _jittered(a: Array, b: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    # Ties and last-bit differences carry no evidence: spread them evenly before a threshold falls between them.
    width = 1e-9 * (1e-300 + float(np.ptp(np.concatenate([a, b]))))
    return a + width * rng.random(len(a)), b + width * rng.random(len(b))


def epsilon_lower_bound(
    train: tuple[Array, Array], test: tuple[Array, Array], alpha: float = ALPHA, delta: float = 0.0
) -> float:
    """ln((p_low − δ)/q_high) for the best of the events {score ≥ t} and {score < t}, in favour of D or of D′.

    p_low and q_high are one-sided Clopper-Pearson limits, each wrong with probability `alpha`, of the event's
    probabilities under the two data sets. Event and direction are chosen on `train`, probabilities counted on `test`:
    the result exceeds the true ε with probability at most 2·alpha.
    """
    pooled = np.concatenate(train)
    thresholds = np.unique(np.quantile(pooled, np.linspace(0, 1, min(4001, len(pooled) // 4))[1:-1]))
    events = [(above, swapped) for above in (True, False) for swapped in (False, True)]
    # The limits of the training counts, and not the bare shares: a rare event with a lucky ratio must not be chosen.
    bounds = np.array([_log_ratio(train, thresholds, above, swapped, alpha, delta) for above, swapped in events])
    best, at = np.unravel_index(int(np.argmax(bounds)), bounds.shape)
    return float(_log_ratio(test, thresholds[[at]], *events[best], alpha, delta)[0])


def _log_ratio(
    scores: tuple[Array, Array], thresholds: Array, above: bool, swapped: bool, alpha: float, delta: float
) -> Array:
    likely, unlikely = reversed(scores) if swapped else scores
    n, k = len(likely), len(unlikely)
    hits, misses = _counts(likely, thresholds, above), _counts(unlikely, thresholds, above)
    low = np.where(hits > 0, stats.beta.ppf(alpha, np.maximum(hits, 1), n - hits + 1), 0.0)
    high = np.where(misses < k, stats.beta.ppf(1 - alpha, misses + 1, np.maximum(k - misses, 1)), 1.0)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - delta, 0.0) / high)


def _counts(scores: Array, thresholds: Array, above: bool) -> Array:
    below = np.searchsorted(np.sort(scores), thresholds)
    return len(scores) - below if above else below

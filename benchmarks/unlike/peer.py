"""Who else gives every owner a model of its own: mean-regularised multi-task learning, and fine-tuning at home, both private.

From "On Privacy and Personalization in Cross-Silo Federated Learning" (Liu, Hu, Wu and Smith, NeurIPS 2022), written here
from the paper. Each owner keeps a model w_i, and all models are seen by everybody, so every step of every owner is noisy:

    w_i  ←  w_i − η (noisy clipped ∇f_i(w_i) + c w_i + λ (w_i − w̄)),        w̄ the mean of all models of the step before.

λ = 0 is each by itself. *Fine-tuning*: all descend together for a part of the steps (federated averaging), then each by
itself. Full batches; normal noise for (ε, δ) a record replaced over all steps, δ = 1e-6: a weaker promise than ours, which
is pure. They begin where ours do, at the public model, and the result is the mean of the last half of each owner's path.

**Their settings are chosen for nothing**, of hundreds. The paper tunes them on held-out rows too, and shows that an honest
search would have to be paid for. Two ways: *in hindsight*, by the held-out rows that then judge them, the best that they could
have done; and by *other rows*: each half of the held-out rows is judged by the setting that is best on the other half.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float

from copriv.model.records import Records
from copriv.privacy.approximate import gaussian_multiplier
from copriv.privacy.clipping import row_norms
from copriv.simulation.gradients import batched_gradients
from copriv.types import Array, LinearLoss

DELTA = 1e-6
STEPS = (1, 5, 20, 60)
GAINS = (0.1, 0.3, 1.0, 3.0)
"""Of a step, over the largest curvature of the public rows (and λ, as far as it goes beyond that)."""
PULLS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""λ, over the same curvature."""
TOGETHER = (0.5, 0.9, 1.0)
"""The part of the steps that all take together, before each goes on by itself; 1: the common model as it comes."""
CLIPS = (0.5, 0.95)
"""Quantiles of the public rows' gradients at the public model."""
RUNS = 3
MOST = 1e6
"""A model that diverges stops there: it is nobody's choice."""


@dataclass(frozen=True)
class Setting:
    """One of theirs; runs of it are next to one another."""

    gain: float
    pull: float
    together: float

    def words(self) -> str:
        if self.together:
            return f"federated averaging for {self.together:.0%} of the steps, then each by itself, gain {self.gain:g}"
        return f"mean-regularised, λ {self.pull:g}, gain {self.gain:g}"


SETTINGS = (
    *(Setting(gain, pull, 0.0) for gain, pull in product(GAINS, PULLS)),
    *(Setting(gain, 0.0, together) for gain, together in product(GAINS, TOGETHER)),
)


@dataclass(frozen=True, eq=False)
class Tuned:
    """Each owner's mean loss on its held-out rows, a mean over runs, under one setting for all owners."""

    in_hindsight: Float[Array, " owners"]
    """The setting is the best on the rows that judge it."""
    words: str
    """That setting."""
    by_other_rows: Float[Array, " owners"]
    """Every second row is judged by the setting that is best on the others."""


def tuned(
    loss: LinearLoss,
    strength: float,
    train: list[Records],
    test: list[Records],
    public: Records,
    start: Float[Array, " p"],
    epsilon: float,
    seed: int = 0,
) -> Tuned:
    """What they come to. All rows with the intercept, if there is one. start: the public model. Two
    held-out rows of an owner or more.

    Best: on average over owners, of the logarithm of their loss, so that no owner's unit counts more than another's.
    """
    unit = float(np.linalg.eigvalsh(_curvature(loss, public, start))[-1]) + strength
    sizes = row_norms(loss.gradients(start, public.features, public.target), 2)
    found: list[Array] = []
    words: list[str] = []
    for clip, steps in product(sorted({float(np.quantile(sizes, q)) for q in CLIPS}), STEPS):
        if clip <= 0:
            continue
        models = descended(loss, strength, train, start, epsilon, clip, steps, unit, seed)
        lost = np.array([_in_halves(loss, mine, rows) for mine, rows in zip(models, test, strict=True)])
        found.append(lost.reshape(len(train), 2, len(SETTINGS), RUNS).mean(axis=3))
        words += [f"{setting.words()}, {steps} steps, clipped at {clip:.3g}" for setting in SETTINGS]
    sums = np.concatenate(found, axis=2)
    rows = np.array([[-(-len(each) // 2), len(each) // 2] for each in test], dtype=np.float64)
    whole = sums.sum(axis=1) / rows.sum(axis=1)[:, None]
    best, first, second = (_best(lost) for lost in (whole, *np.swapaxes(sums / rows[:, :, None], 0, 1)))
    crossed = (sums[:, 0, second] + sums[:, 1, first]) / rows.sum(axis=1)
    return Tuned(whole[:, best], words[best], crossed)


def _in_halves(loss: LinearLoss, models: Float[Array, "models p"], rows: Records) -> Float[Array, "two models"]:
    """Each model's loss, summed over every second row, and over the others."""
    lost = np.array([loss.values(w, rows.features, rows.target) for w in models])
    return np.array([lost[:, 0::2].sum(axis=1), lost[:, 1::2].sum(axis=1)])


def _best(lost: Float[Array, "owners settings"]) -> int:
    return int(np.argmin(np.log(np.maximum(lost, 1e-300)).mean(axis=0)))


def descended(
    loss: LinearLoss,
    strength: float,
    train: list[Records],
    start: Float[Array, " p"],
    epsilon: float,
    clip: float,
    steps: int,
    unit: float,
    seed: int,
) -> Float[Array, "owners models p"]:
    """Each owner's models: RUNS of every setting. unit: the curvature that gains and pulls are over."""
    rng, N, p = np.random.default_rng(seed), len(train), len(start)
    gain, pull, together = (
        np.array([getattr(one, key) for one in SETTINGS]).repeat(RUNS) for key in ("gain", "pull", "together")
    )
    step, λ = gain / (unit * (1.0 + pull)), pull * unit
    units = np.array([rows.units for rows in train], dtype=np.float64)
    weight = units / units.sum()
    noise = 2.0 * clip / units * gaussian_multiplier(steps, epsilon, DELTA)
    gradients = batched_gradients(loss, tuple(train), clip, 1, 2)
    models = np.broadcast_to(start, (N, len(step), p)).copy()
    mean = models.copy()
    for k in range(steps):
        common = np.tensordot(weight, models, axes=1)
        shared = (together > 0) & (k <= np.round(together * steps))
        models[:, shared] = common[shared]
        for i in range(N):
            g = gradients(np.full(len(step), i, dtype=np.intp), models[i]) + strength * models[i]
            g += noise[i] * rng.normal(size=g.shape) + λ[:, None] * (models[i] - common)
            models[i] = np.clip(models[i] - step[:, None] * g, -MOST, MOST)
        seen = k - steps // 2
        mean = models.copy() if seen <= 0 else mean + (models - mean) / (seen + 1)
    mean[:, together == 1.0] = np.tensordot(weight, mean[:, together == 1.0], axes=1)
    return mean


def _curvature(loss: LinearLoss, public: Records, at: Array) -> Array:
    """∇² of the mean loss there, by the slope's difference over a small width: for losses with kinks too."""
    z, h = public.features @ at, 0.1 * max(float(np.std(public.target)), 1e-9)
    bend = np.maximum(loss.slope(z + h, public.target) - loss.slope(z - h, public.target), 0.0) / (2.0 * h)
    return np.asarray((public.features * (bend * public.weight / public.weight.sum())[:, None]).T @ public.features)

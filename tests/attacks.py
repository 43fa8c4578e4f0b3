"""Owners that lie, as fixtures: what the last f of N owners answer in place of their private answers."""

from collections.abc import Callable

import numpy as np
from scipy.stats import norm

from copriv.agreement import Agreement
from copriv.privacy.clipping import row_norms
from copriv.problem import Problem
from copriv.simulation import simulate

LIARS = 4
WRONG_SIZE = "lies in n_i"


def _own(attack):
    """Each liar changes its own answers, knowing nobody else's."""
    return lambda context, k, theta, honest, own: attack(context, theta, own)


def _flipped(context, theta, own):
    return -own


def _scaled(context, theta, own):
    return 100.0 * own


def little_is_enough(z):
    """Baruch et al. 2019: the honest mean less z standard deviations in each coordinate."""
    return lambda context, k, theta, honest, own: honest.mean(axis=1) - z * honest.std(axis=1)


def inner_product(factor):
    """Xie et al. 2020: against the honest mean."""
    return lambda context, k, theta, honest, own: -factor * honest.mean(axis=1)


def _mimic(context, k, theta, honest, own):
    """Karimireddy et al. 2022: all liars repeat one honest owner's answer."""
    return honest[:, 0]


def _wrong_labels(context, theta, own):
    """Private answers from records whose targets have the other sign."""
    return own + context.gradients(theta, -1.0) - context.gradients(theta, 1.0)


def _without_noise(context, theta, own):
    return context.gradients(theta, 1.0)


def _hidden(attack, share):
    """With noise of `share` times the agreed scale on each answer, so that liars are neither copies nor alike."""
    rng = np.random.default_rng(7)

    def told(context, k, theta, honest, own):
        lie = attack(context, k, theta, honest, own)
        noise = rng.laplace(size=own.shape) * context.agreement.noise_scales()[-1]
        return (lie[:, None] if lie.ndim == 2 else lie) + share * noise

    return told


def _z(owners, liars):
    """z of Baruch et al.: enough honest owners are farther out than the liars for these to pass as the majority."""
    return norm.ppf((owners - liars - (owners // 2 + 1 - liars)) / (owners - liars))


ATTACKS: dict[str, Callable] = {
    "sign flip": _own(_flipped),
    "scaled": _own(_scaled),
    "little is enough": little_is_enough(_z(20, LIARS)),
    "little is enough, one sd": little_is_enough(1.0),
    "inner product": inner_product(1.0),
    "inner product, far": inner_product(100.0),
    "mimic": _mimic,
    "wrong labels": _own(_wrong_labels),
    WRONG_SIZE: _own(_flipped),
    "noise left out": _own(_without_noise),
    "little is enough, in noise": _hidden(little_is_enough(0.8), 0.75),
    "mimic, in noise": _hidden(_mimic, 0.5),
}
HIDDEN = {name for name in ATTACKS if name.endswith("in noise")}
"""Beyond the usual list: what was found to be worst for the filter."""


class Context:
    """What liars need of their own records, and the fitness of the honest owners' records."""

    def __init__(self, agreement: Agreement, data, liars=LIARS):
        self.agreement, self.data, self.liars = agreement, data, liars
        self.honest = Problem.of(self._with(data[:-liars], None), data[:-liars])
        self.all = Problem.of(self._with(data, liars), data)

    def _with(self, data, robust, factor=1):
        one = self.agreement.owner_tables[0].model_dump(exclude_none=True)
        owners = [one | {"name": f"o{i}"} for i in range(len(data))]
        if factor > 1:
            for table in owners[-self.liars :]:
                table["records"] *= factor
        by = self.agreement.agreement.robust_by if robust else None
        return self.agreement.replace(agreement={"robust": robust, "robust_by": by}, owner=owners)

    def gradients(self, theta, sign):
        """Mean clipped gradients of the liars' records with their targets times `sign`: (runs, liars, p)."""
        Ξ, found = self.agreement.gradient_bound, []
        for records in self.all.owners[-self.liars :]:
            x, y = records.features, sign * records.target
            slope = self.all.loss.slope(theta @ x.T, y[None, :])
            limit = Ξ / np.maximum(row_norms(x, 1), 1e-300)
            found.append(np.clip(slope, -limit, limit) @ x / len(y))
        return np.stack(found, axis=1)

    def excess(self, theta):
        """Mean over runs of f − f* on the records of the honest owners."""
        f = self.honest.fitness
        return float(np.mean(f.value(theta)) - self.honest.optimum.value)

    def honest_alone(self, runs, seed=0):
        """Excess of the honest owners by themselves, whose answers are averaged."""
        return self.excess(self._run(self.honest, runs, seed))

    def nobody_lies(self, runs, seed=0):
        """Excess of all owners, who answer as agreed: robust, and averaged."""
        plain = Problem.of(self._with(self.data, None), self.data)
        return self.excess(self._run(self.all, runs, seed)), self.excess(self._run(plain, runs, seed))

    def attacked(self, name, runs, seed=0):
        """Excess where the last owners lie."""
        problem, data = self.all, self.data
        if name == WRONG_SIZE:
            data = [*data[: -self.liars], *((np.tile(X, (10, 1)), np.tile(y, 10)) for X, y in data[-self.liars :])]
            problem = Problem.of(self._with(data, self.liars, 10), data)

        def lies(k, theta, answers):
            honest, own = answers[:, : -self.liars], answers[:, -self.liars :]
            told = ATTACKS[name](self, k, theta, honest, own)
            if told.ndim == 2:
                told = np.repeat(told[:, None], self.liars, axis=1)
            return np.concatenate([honest, told], axis=1)

        return self.excess(self._run(problem, runs, seed, lies=lies))

    @staticmethod
    def _run(problem, runs, seed, **given):
        return simulate(problem, runs=runs, seed=seed, alone=False, own_records=False, workers=1, **given).theta

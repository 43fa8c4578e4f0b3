"""A mechanism of one answer that nobody has heard of: owners send the mean of y·x, clipped and noisy, once."""

import asyncio
import tomllib

import numpy as np
import pytest

import copriv
import copriv.plan
from copriv import mechanisms
from copriv.mechanisms.gradients import ClippedGradient
from copriv.mechanisms.one_answer import Draft
from copriv.privacy.clipping import clipped_mean_gradient, mean_sensitivity
from copriv.privacy.laplace import LaplaceAnswer
from copriv.privacy.noise import Law, Noise
from copriv.problem import Problem
from copriv.rules import SolveStatistics
from network_parties import NAMES, Consortium, finished, records

AGREED = """
agreement = {rule = "A2", horizon = 3, answers = 1, mechanism = "slope", preconditioner = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}
model = {loss = "squared", regularization = 0.1, theta_max = 10.0, gradient_bound = 2.0}
data = {components = 3, feature_bound = 1.0}
""" + "\n".join(f'[[owner]]\nname = "{name}"\nrecords = 200\nepsilon = 1.0' for name in NAMES)


class Slope(mechanisms.OneAnswer):
    """The gradient at the start, from which the learner goes one publicly preconditioned step."""

    name, label, phrase, guarantee = "slope", "slope", "one slope", mechanisms.Guarantee.PURE
    law, order = (lambda self, agreed: Law.LAPLACE), (lambda self, agreed: 1)
    length = lambda self, agreed, n_parameters: n_parameters  # noqa: E731
    leaves = lambda self, agreed, owner: ("one gradient", "Laplace noise")  # noqa: E731

    def scale(self, agreed, owner, feature_bound=None):
        return 2 * agreed.gradient_bound / (owner.records * owner.epsilon)

    def in_earnest(self, agreed, owner, n_parameters, loss):
        sensitivity, (ε, _) = mean_sensitivity(agreed.gradient_bound, owner.records), self.cost(agreed, owner)
        return ClippedGradient(LaplaceAnswer(sensitivity, ε, n_parameters), agreed.gradient_bound, 1)

    def draft(self, agreed, owner, records, common):
        exact = clipped_mean_gradient(common.loss, records, np.zeros(3), agreed.gradient_bound)
        return Draft((Noise(Law.LAPLACE, np.full(3, self.scale(agreed, owner))),), lambda drawn: exact + drawn)

    def rule(self, agreed, descent, weights, n_parameters, feature_bound=None):
        return SolveStatistics(descent, weights, None, agreed.data.public_count)


def test_a_new_mechanism_of_one_answer_is_agreed_simulated_forecast_and_served(monkeypatch, tmp_path):
    monkeypatch.setattr(mechanisms, "ALL", (*mechanisms.ALL, Slope()))
    agreement, data = copriv.Agreement.of(tomllib.loads(AGREED)), [records(i) for i in range(3)]
    assert 0 < copriv.simulate(Problem.of(agreement, data), runs=3).relative_fitness.final["mean"] < np.inf
    with pytest.raises(copriv.AgreementError, match='"slope" cannot be planned'):
        copriv.plan.plan(Problem.forecasting(agreement, data[0]), runs=10)
    for kind in ("memory", "grpc"):
        (tmp_path / kind).mkdir()
        assert finished(asyncio.run(Consortium(tmp_path / kind, agreement, kind).run()))

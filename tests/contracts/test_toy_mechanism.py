"""A mechanism that nobody has heard of: one class on the list, and everything else takes it."""

import asyncio
import tomllib
from fractions import Fraction

import numpy as np
import pytest

import copriv
from copriv import mechanisms
from copriv.plan import plan
from copriv.privacy.laplace import LaplaceAnswer
from copriv.privacy.noise import Law
from copriv.problem import Problem
from network_parties import NAMES, Consortium, finished, records

AGREED = """
agreement = {rule = "A2", horizon = 6, answers = 2, step = 0.3, mechanism = "pairs"}
model = {loss = "squared", regularization = 0.1, theta_max = 10.0, gradient_bound = 20.0}
data = {components = 3, feature_bound = 0.0, heterogeneity = 0.0}
""" + "\n".join(f'[[owner]]\nname = "{name}"\nrecords = 200\nepsilon = 1.0' for name in NAMES)


class Pairs(mechanisms.GradientNoise):
    """Pure ε for any two records replaced together, by group privacy: Laplace noise of twice the scale."""

    name = "pairs"
    guarantee = mechanisms.Guarantee.PURE
    noise, norm, phrase = Law.LAPLACE, 1, "noise for pairs"

    def multiplier(self, answers, epsilon, delta):
        return 2 * answers / epsilon

    def releases(self, sensitivity, agreed, owner, n_parameters):
        return LaplaceAnswer(2 * sensitivity, self.cost(agreed, owner)[0], n_parameters)


def test_a_new_mechanism_is_agreed_simulated_forecast_planned_for_and_served(monkeypatch, tmp_path):
    with pytest.raises(copriv.AgreementError, match=r"agreement\.mechanism: 'pairs' is not a mechanism"):
        copriv.Agreement.of(tomllib.loads(AGREED))
    monkeypatch.setattr(mechanisms, "ALL", (*mechanisms.ALL, Pairs()))
    agreement, data = copriv.Agreement.of(tomllib.loads(AGREED)), [records(i) for i in range(3)]
    assert copriv.simulate(Problem.of(agreement, data), runs=3).bound_enforced
    assert copriv.forecast(agreement, data[0], runs=10, public_start=False, preconditioner=False).agreed.kind == "exact"
    free = agreement.replace(agreement={"step": "auto"}, model={"gradient_bound": "auto"})
    planned = plan(Problem.forecasting(free, data[0]), runs=10).choice
    assert planned.agreement.agreement.mechanism == "pairs"
    assert "noise for pairs" in planned.describe()
    owner = copriv.Owner(agreement, NAMES[0], data[0], copriv.losses.named("squared"))
    assert owner.answer(copriv.Query("q1", agreement.fingerprint, NAMES[0], np.zeros(3))).answered == 1
    assert owner.ledger.spent == Fraction(1, 2)
    for kind in ("memory", "grpc"):
        (tmp_path / kind).mkdir()
        assert finished(asyncio.run(Consortium(tmp_path / kind, agreement, kind).run()))

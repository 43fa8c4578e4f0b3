"""A mechanism that nobody has heard of: one class on the list, and everything else takes it."""

import asyncio
import tomllib

import numpy as np
import pytest

import copriv
from copriv import mechanisms
from copriv.plan import plan
from copriv.privacy.approximate import GaussianAnswer
from copriv.privacy.noise import Law
from copriv.problem import Problem
from network_parties import NAMES, Consortium, finished, records

AGREED = """
agreement = {rule = "A2", horizon = 6, answers = 2, step = 0.3, mechanism = "concentrated"}
model = {loss = "squared", regularization = 0.1, theta_max = 10.0, gradient_bound = 2.0}
data = {components = 3, feature_bound = 0.0}
""" + "\n".join(f'[[owner]]\nname = "{name}"\nrecords = 200\nepsilon = 1.0\ndelta = 1e-6' for name in NAMES)


class Concentrated(mechanisms.GradientNoise):
    """Normal noise accounted for in ρ = (√(ε + L) − √L)², L = log(1/δ): Bun and Steinke 2016, Prop. 1.3."""

    name = "concentrated"
    guarantee = mechanisms.Guarantee.APPROXIMATE
    noise, norm, phrase = Law.NORMAL, 2, "normal noise by ρ"

    def multiplier(self, answers, epsilon, delta):
        L = np.log(1 / delta)
        return float(np.sqrt(answers / 2) / (np.sqrt(epsilon + L) - np.sqrt(L)))

    def releases(self, sensitivity, agreed, owner, n_parameters):
        return GaussianAnswer(sensitivity, self.multiplier(agreed.answers, owner.epsilon, owner.delta), n_parameters)


@pytest.mark.parametrize("kind", ["memory", "grpc"])
def test_a_new_mechanism_is_agreed_simulated_forecast_planned_for_and_served(monkeypatch, tmp_path, kind):
    with pytest.raises(copriv.AgreementError, match=r"agreement\.mechanism: 'concentrated' is not a mechanism"):
        copriv.Agreement.of(tomllib.loads(AGREED))
    monkeypatch.setattr(mechanisms, "ALL", (*mechanisms.ALL, Concentrated()))
    agreement, data = copriv.Agreement.of(tomllib.loads(AGREED)), [records(i) for i in range(3)]
    assert copriv.simulate(Problem.of(agreement, data), runs=3).private
    assert (
        copriv.forecast(agreement, data[0], runs=10, public_start=False, preconditioner=False).agreed.kind
        == "simulated"
    )
    free = agreement.replace(agreement={"step": "auto"}, model={"gradient_bound": "auto"})
    planned = plan(Problem.forecasting(free, data[0]), runs=10).choice
    assert planned.agreement.agreement.mechanism == "concentrated"
    assert "normal noise by ρ" in planned.describe()
    owner = copriv.Owner(agreement, NAMES[0], data[0], copriv.losses.named("squared"))
    assert owner.answer(copriv.Query("q1", agreement.fingerprint, NAMES[0], np.zeros(3))).answered == 1
    assert owner.ledger.spent == 1
    assert finished(asyncio.run(Consortium(tmp_path, agreement, kind).run()))

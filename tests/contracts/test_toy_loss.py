"""A loss that nobody has heard of: one class on the list, and everything else takes it."""

import asyncio
import tomllib

import numpy as np
import pytest

import copriv
from copriv import losses
from network_parties import NAMES, Consortium, finished, records

AGREED = """
[agreement]
rule = "A2"
horizon = 6
answers = 2
step = 0.3
[model]
loss = "log-cosh"
regularization = 0.1
theta_max = 10.0
gradient_bound = 2.0
[data]
components = 3
feature_bound = 0.0
""" + "\n".join(f'[[owner]]\nname = "{name}"\nrecords = 200\nepsilon = 1.0' for name in NAMES)  # fmt: skip


class LogCosh(losses.OfPrediction):
    """log cosh(z − y): like the square near the target, like a straight line far away."""

    name = "log-cosh"
    smooth = True
    curvature = 1.0

    def value(self, prediction, target):
        return np.logaddexp(prediction - target, target - prediction) - np.log(2.0)

    def slope(self, prediction, target):
        return np.tanh(prediction - target)

    def slope_bound(self, prediction_bound, target_bound):
        return float(np.tanh(prediction_bound + target_bound))


def test_a_new_loss_is_agreed_simulated_forecast_answered_and_trained_over_the_network(monkeypatch, tmp_path):
    with pytest.raises(copriv.AgreementError, match=r"model\.loss: 'log-cosh' is not a loss that is known; use one of"):
        copriv.Agreement.of(tomllib.loads(AGREED))
    monkeypatch.setattr(losses, "ALL", (*losses.ALL, LogCosh))
    agreement, data = copriv.Agreement.of(tomllib.loads(AGREED)), [records(i) for i in range(3)]
    simulated = copriv.simulate(copriv.Problem.of(agreement, data), runs=3)
    assert 0 <= simulated.relative_fitness.final["mean"] < np.inf
    assert (
        copriv.forecast(agreement, data[0], runs=10, public_start=False, preconditioner=False).agreed.kind
        == "simulated"
    )
    owner = copriv.Owner(agreement, NAMES[0], data[0], losses.named("log-cosh"))
    assert owner.answer(copriv.Query("q1", agreement.fingerprint, NAMES[0], np.zeros(3))).answered == 1
    assert finished(asyncio.run(Consortium(tmp_path, agreement).run()))

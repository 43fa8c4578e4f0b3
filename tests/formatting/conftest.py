"""One forecast, one simulation and one forecast of own learners, looked at from every side."""

import dataclasses

import pytest

import copriv
from copriv.forecast.own_learners import LearnerForecast, OwnLearnersForecast
from copriv.forecast.result import AtHeterogeneity
from results_cases import TERMS, rows


@pytest.fixture(scope="session")
def agreement():
    return copriv.Agreement.of(TERMS)


@pytest.fixture(scope="session")
def outlook(agreement):
    found = copriv.forecast(agreement, public=rows(300), runs=32)
    levels = tuple(AtHeterogeneity(u, 0.01 + u, 0.008 + u, 0.001 + u, 0.1 + u) for u in (0.0, 0.02, 0.04))
    return dataclasses.replace(found, at_heterogeneity=levels)  # as if the owners could differ: a second less


@pytest.fixture(scope="session")
def simulation(agreement):
    return copriv.simulate(agreement, data=[rows(300, 1), rows(3000, 2)], runs=5)


@pytest.fixture(scope="session")
def own_learners(outlook):
    learners = tuple(
        LearnerForecast(f"owner {i}", 100 * i, 1.0, 0.01 * i, 0.02, 0.005 * i, 0.002 * i, 0.01 * i, i > 2, 0.9)
        for i in range(1, 25)
    )
    return OwnLearnersForecast(outlook.recommended.agreement, 0.03, learners)

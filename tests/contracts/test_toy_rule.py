"""A rule in one file: this toy is agreed, planned, forecast, simulated and served, and no other file knows of it."""

import asyncio

import pytest

from copriv import Agreement, Problem, rules, simulate
from copriv.forecast import forecast
from copriv.plan import candidates, one_answer, planner
from network_parties import Consortium, finished, records


class Steady:
    """θ ← Π[θ − s(∇g(θ) + Q̄_i(θ))]: whoever answers moves the model, and is forgotten."""

    def __init__(self, descent, size):
        self.descent, self.size = descent, size

    def start(self, theta):
        return theta

    def query(self, state, participant):
        return state

    def step(self, state, participant, answer):
        return self.descent.feasible_set.project(state - self.size * self.descent.direction(state, answer))

    def model(self, state):
        return state


class Toy(rules.Rule):
    name, ways = "toy", (rules.Way("toy", "toy", together=False, turns=lambda weights: Steady(rules.PLAIN, 1.0)),)

    def update(self, agreed, descent, weights, shares=None):
        return Steady(descent, agreed.step)


@pytest.fixture(autouse=True)
def _on_the_list(monkeypatch):
    monkeypatch.setattr(rules, "ALL", (*rules.ALL, Toy()))
    for module, name, few in (
        (candidates, "ANSWERS", (1, 4)), (candidates, "GRADIENT_BOUNDS", 8), (planner, "FINALIST_WORLDS", 2),
        (candidates, "GRADIENT_BOUNDS", 4), (one_answer, "SETTING_WORLDS", 1),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, few)


def test_a_toy_rule_goes_all_the_way(tmp_path):
    owners = "".join(f'[[owner]]\nname = "bank-{i}"\nrecords = 200\nepsilon = 1.0\n' for i in (1, 2, 3))
    model = '[model]\nloss = "squared"\ntheta_max = 10.0\n[data]\ncomponents = 0\nfeature_bound = 0.0\n'
    (tmp_path / "toy.toml").write_text('[agreement]\nrule = "toy"\nhorizon = 12\nanswers = 4\n' + model + owners)
    problem = Problem.of(Agreement.load(tmp_path / "toy.toml"), [records(i) for i in range(3)], public=records(9))
    said = forecast(problem, runs=4, public_start=False, preconditioner=False).agreed
    signed = said.agreement  # planned: step and gradient bound are numbers now
    assert (said.kind, signed.agreement.rule, signed.answers, type(signed.step)) == ("simulated", "toy", 4, float)
    assert simulate(problem.under(signed), runs=3, alone=False).rule == "toy"
    assert finished(asyncio.run(Consortium(tmp_path, signed).run()))

"""A program as a user writes it: `mypy --strict` must see copriv's real types in every line (test_users_program.py)."""

from typing import assert_type

import numpy as np

import copriv
from copriv import Agreement, Problem, Simulation
from copriv.forecast import Assessment, NoiseCurve


def terms() -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 4, "answers": 2, "step": 0.1},
            "model": {"loss": "squared", "gradient_bound": 1.0, "regularization": 0.1},
            "data": {"feature_bound": 2.0},
            "owner": [{"name": "a", "records": 30, "epsilon": 1.0}, {"name": "b", "records": 20, "epsilon": 2.0}],
        }
    )


def problem(agreement: Agreement) -> Problem:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), rng.normal(size=90)
    return Problem.of(agreement, [(X[:30], y[:30]), (X[30:50], y[30:50])], public=(X[50:], y[50:]))


def main() -> None:
    agreement = terms()
    assert_type(agreement.answers, int)
    assert_type(agreement.owner[0].epsilon, float)

    result = copriv.simulate(problem(agreement), runs=3)
    assert_type(result, Simulation)
    assert_type(result.relative_fitness.final["median"], float)
    assert_type(result.to_json(), str)

    outlook = copriv.forecast(problem(agreement), runs=10)
    assert_type(outlook, copriv.Forecast)
    assert_type(outlook.recommended, Assessment)
    assert_type(outlook.plan.curve, NoiseCurve)
    assert_type(outlook.joining_pays, bool | None)

    try:
        agreement.replace(agreement={"horizon": 0})
    except copriv.AgreementError as error:
        assert_type(error.exit_code, int)
    assert_type(copriv.__version__, str)
    print(f"{result.relative_fitness.final['median']:.3g}", outlook.verdict)


if __name__ == "__main__":
    main()

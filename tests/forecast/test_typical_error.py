"""Errors in the target's unit are of predictions, on everybody's records, and a verdict says where the regularizer counts."""

import numpy as np
import pytest

import copriv
from copriv.cli.commands import forecast as screen
from copriv.forecast import Forecast

WEAK, STRONG = 1e-9, 1e-3


@pytest.fixture(scope="module", params=[WEAK, STRONG], ids=["weak", "strong"])
def outlook(request: pytest.FixtureRequest) -> Forecast:
    """Features of a hundredth, so that θ is in the hundreds, and θᵀθ large."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 2)) / 100.0
    rows = x, x @ [300.0, -200.0] + rng.normal(size=400)
    agreement = copriv.Agreement.of(
        {
            "agreement": {"rule": "S1", "horizon": 2, "answers": 2, "step": "auto"},
            "model": {"loss": "squared", "regularization": request.param},
            "owner": [{"name": name, "records": n, "epsilon": 1.0} for name, n in (("north", 3000), ("south", 300))],
        }
    )
    return copriv.forecast(agreement, rows, runs=16)


def test_the_typical_error_is_of_predictions_alone(outlook: Forecast) -> None:
    """It once was the root of the fitness: 3.19 points of interest for a model whose predictions are 1.38 points off."""
    fitted = outlook.problem.optimum.theta
    rows = outlook.problem.owners[0]
    off = float(np.sqrt(np.mean((rows.features @ fitted - rows.target) ** 2)))
    assert outlook.error(0.0) == pytest.approx(off, rel=1e-6)
    assert outlook.to_dict()["typical_error"]["best"] == pytest.approx(off, rel=1e-6)
    assert outlook.error(0.1) == pytest.approx(np.sqrt(off**2 + 0.1 * outlook.optimum), rel=1e-6)


def test_a_verdict_says_where_a_smaller_regularizer_would_predict_better(outlook: Forecast) -> None:
    strong = outlook.problem.terms.model.regularization == STRONG
    said = "The regularizer makes predictions" in outlook.verdict
    assert said is strong
    if strong:
        assert outlook.shrinkage > 0.5
        assert "model.regularization = 1e-06 or less" in " ".join(str(outlook.caution).split())
        for width in (40, 80):
            assert "The regularizer makes predictions" in " ".join(" ".join(screen.lines(outlook, width=width)).split())
    else:
        assert outlook.shrinkage < 1e-3


def test_the_typical_error_is_of_everybodys_records_where_public_rows_name_their_owner() -> None:
    """Equal numbers of public rows of a large owner and of a small, unlike one once weighed alike."""
    rng = np.random.default_rng(4)
    levels, sizes = np.array([0.0, 6.0]), np.array([9_900, 100])
    x = rng.normal(size=(300, 1))
    whose = np.repeat([0, 1], 150)
    y = x[:, 0] + levels[whose] + rng.normal(size=300)
    agreement = copriv.Agreement.of(
        {
            "agreement": {"rule": "S1", "horizon": 2, "answers": 2, "step": "auto"},
            "model": {"loss": "squared", "regularization": 1e-9, "intercept": True},
            "owner": [{"name": name, "records": int(n), "epsilon": 1.0} for name, n in zip("ab", sizes, strict=True)],
        }
    )
    found = copriv.forecast(agreement, (x, y), strata=["ab"[i] for i in whose], runs=16)
    share = sizes / sizes.sum()
    best = np.sqrt(1.0 + share @ (levels - share @ levels) ** 2)  # about 1.17; of the rows as they come, 3.2
    assert found.error(0.0) == pytest.approx(best, rel=0.1)

"""What the papers' settings give on real loans, resampled: the law ψ ∝ 1/(n²ε²), and how far few answers go."""

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.problem import Problem
from copriv.simulation import simulate
from copriv_papers.consortia import SHARED, table_at_hand

SAMPLE = SHARED / "lending_10k.parquet"


def paper(N: int = 3, n: int = 10_000, epsilon: float = 1.0, dataset: str = "lending", **model: object) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "A1", "horizon": 1000, "step": 3000.0},
            "model": {"loss": "squared", "regularization": 1e-5, "gradient_bound": 5.0, **model},
            "data": {**table_at_hand(dataset), "feature_bound": 0},
            "owner": [{"name": f"bank-{i}", "records": n, "epsilon": epsilon} for i in range(N)],
        }
    )


def final(agreement: Agreement, runs: int) -> dict[str, float]:
    return simulate(Problem.load(agreement), runs=runs, alone=False).relative_fitness.final


@pytest.mark.skipif(not SAMPLE.is_file(), reason="the sample of 10,000 loans is not here")
def test_paper_setting_is_where_the_paper_has_it():
    assert 3 <= final(paper(gradient_bound_assumed=True), 100)["median"] <= 60


@pytest.mark.parametrize("dataset", ["lending-embedded", "lending"])
def test_the_inverse_square_law(dataset):
    """Slopes of log E ψ in log n and log ε, over the papers' range where noise dominates."""
    if dataset == "lending" and not SAMPLE.is_file():
        pytest.skip("the sample of 10,000 loans is not here")
    sizes, budgets = np.geomspace(1e3, 1e5, 5), np.geomspace(0.1, 3.0, 5)

    def mean(n: float, epsilon: float) -> float:
        return final(paper(n=int(n), epsilon=float(epsilon), dataset=dataset, gradient_bound_assumed=True), 200)["mean"]

    by_size = np.polyfit(np.log(sizes), np.log([mean(n, 0.3) for n in sizes]), 1)[0]
    by_budget = np.polyfit(np.log(budgets), np.log([mean(10_000, e) for e in budgets]), 1)[0]
    assert by_size == pytest.approx(-2, abs=0.15)
    assert by_budget == pytest.approx(-2, abs=0.15)


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLE.is_file(), reason="the sample of 10,000 loans is not here")
def test_few_answers_beat_the_papers_setting_five_hundredfold():
    """N = 86, ε = 1: A2 with m = 8, bounds enforced, against A1 as in the paper."""
    few = paper(N=86).replace(
        agreement={"rule": "A2", "answers": 8, "horizon": 688, "step": 12_000 / 86, "schedule": "random-order"},
        model={"gradient_bound": 2.5},
        data={"feature_bound": "auto"},
    )
    assert final(paper(N=86, gradient_bound_assumed=True), 50)["median"] >= 500 * final(few, 8)["median"]

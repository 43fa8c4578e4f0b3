"""The table of what the papers say in numbers: each answer is computed, and a wrong number is told as wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

from copriv_papers import BEYOND, FIGURES
from copriv_papers.claims import CLAIMS, Answer, Found
from copriv_papers.claims.laws import (
    bound_slopes_s,
    judged,
    one_coordinate,
    overlap_factors,
    parameter_factor,
    pure_over_normal,
    spent,
    star,
    stays_at_the_start,
)
from copriv_papers.pages import shown, write_claims

NOTHING = Found({}, {}, {})
BY_PLACE = {(claim.place, claim.sentence): claim for claim in CLAIMS}


def test_every_claim_names_a_paper_a_figure_and_a_number() -> None:
    known = {figure.identity for figure in (*FIGURES, *BEYOND)}
    assert len({(claim.place, claim.sentence, claim.paper) for claim in CLAIMS}) == len(CLAIMS) > 60
    for claim in CLAIMS:
        assert claim.place.startswith(("S, ", "A, "))
        assert claim.paper
        assert claim.source == "claims" or claim.source in known
    drawn = {claim.source for claim in CLAIMS}
    assert {figure.identity for figure in FIGURES} <= drawn | {"sync-fig8"}  # every figure of both papers is read


def test_formulas_hold_or_not_as_the_errata_prove() -> None:
    assert spent(1)(NOTHING).verdict == "holds"
    assert spent(100)(NOTHING).numbers == pytest.approx((100.0,))
    assert overlap_factors(NOTHING).numbers == pytest.approx((4.0, 9.0))
    assert stays_at_the_start(NOTHING).verdict == "does not hold"  # erratum 5
    assert parameter_factor(NOTHING).numbers[0] == pytest.approx(2.0, abs=1e-6)  # erratum 12: 2/L is met, 4/L never
    assert bound_slopes_s(NOTHING).verdict == "holds"
    assert one_coordinate(NOTHING).numbers[0] == pytest.approx(10.0, rel=0.02)  # erratum 4: p = 10 times
    assert star(NOTHING).numbers == (1.0,)  # erratum 3


def test_normal_noise_has_a_hundred_times_less_variance_at_a_thousand_answers() -> None:
    """The oracle is the closed condition of Balle and Wang (2018); concentrated differential privacy gives 70 of the 112."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    def δ(σ: float) -> float:  # of one Gaussian answer of sensitivity √T
        μ = np.sqrt(1000) / σ
        return float(norm.cdf(μ / 2 - 1 / μ) - np.e * norm.cdf(-μ / 2 - 1 / μ))

    σ = brentq(lambda s: δ(s) - 1e-6, 1.0, 1e4)
    ours = pure_over_normal(NOTHING)
    assert 2 * 1000**2 / σ**2 == pytest.approx(112.06, abs=0.1)
    ρ = (np.sqrt(np.log(1e6) + 1) - np.sqrt(np.log(1e6))) ** 2  # ε = ρ + 2√(ρ ln 1/δ), σ² = T/(2ρ)
    assert 2 * 1000**2 / (1000 / (2 * ρ)) == pytest.approx(69.9, abs=0.1)
    assert f"it is {2 * 1000**2 / σ**2:.0f} times" in ours.remark
    assert ours.verdict == "holds in part"  # no constant in T


def test_an_answer_counts_what_holds() -> None:
    assert Answer.of([1.0, 2.0, 3.0], lambda x: x < 2.5).verdict == "holds in part"
    assert Answer.of(1.0, lambda x: x > 2).verdict == "does not hold"
    assert Answer((), ()).verdict == "not to be had here"


def grid(identity: str, mechanism: str, power: float):  # type: ignore[no-untyped-def]
    rows = [
        {"mechanism": mechanism, "records": float(n), "epsilon": float(ε), "mean": 1e6 / (n * ε) ** power}
        for n in (1e3, 1e4, 1e5)
        for ε in (0.1, 1.0, 10.0)
    ]
    return Found({}, {identity: rows}, {})


@pytest.mark.parametrize(("power", "verdict"), [(2.0, "holds"), (1.0, "does not hold")])
def test_slopes_are_read_from_the_figure(power: float, verdict: str) -> None:
    claim = next(c for c in CLAIMS if c.place == "S, §IV-A, Fig. 4")
    answer = claim.answer(grid("sync-fig4", "as written", power))
    assert answer.numbers == pytest.approx((-power,) * 3)
    assert answer.verdict == verdict
    svm = next(c for c in CLAIMS if "cost is 10 times smaller" in c.sentence)
    assert svm.answer(grid("async-fig11", "as published", 1.0)).numbers == pytest.approx((10.0,) * 3)


def test_a_figures_own_judgement_is_kept() -> None:
    lines = [{"what": "ψ at ε = 1 over", "ours": 30.0, "holds": False}, {"what": "other", "ours": 1.0, "holds": True}]
    answer = judged("sync-fig2", "ψ at")(Found({"sync-fig2": {"comparison": lines}}, {}, {}))
    assert (answer.numbers, answer.verdict) == ((30.0,), "does not hold")
    with pytest.raises(LookupError, match="nothing compared"):
        judged("sync-fig2", "φ")(Found({"sync-fig2": {"comparison": lines}}, {}, {}))


def test_the_page_is_a_table_of_them(tmp_path: Path) -> None:
    one = {
        "place": "S, Fig. 2", "sentence": "A | B", "paper": "100", "ours": [50.0, None, 2.0], "held": "1 of 3",
        "verdict": "holds in part", "remark": "So.", "command": "copriv reproduce sync-fig2",
    }  # fmt: skip
    page = write_claims({"claims": [one], "data": ["Loans."], "quick": True}, tmp_path).read_text(encoding="utf-8")
    assert (
        r"| S, Fig. 2 | A \| B | 100 | 2 to 50 | holds in part (1 of 3). So. | `copriv reproduce sync-fig2` |" in page
    )
    assert "quick run" in page
    assert "1 claims: 1 holds in part." in page
    assert shown([None]) == "none"
    assert shown([-2.0, -1.89]) == "−2 to −1.89"
    assert shown([]) == ""
    assert json.dumps(one)

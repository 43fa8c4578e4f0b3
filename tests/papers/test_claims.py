"""The table of what the papers say in numbers: each answer is computed, and a wrong number is told as wrong."""

import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from copriv.errors import DataError
from copriv_papers import BEYOND, FIGURES, Effort
from copriv_papers.claims import CLAIMS, Answer, Found
from copriv_papers.claims.checked import answered
from copriv_papers.claims.laws import (
    above_nine,
    bound_slopes_a,
    judged,
    left_without_noise,
    never_zero,
    one_coordinate,
    proof_step,
    pure_over_normal,
    shared_record,
    star,
    stays_at_the_start,
)
from copriv_papers.claims.runs import BUDGETS, OWNERS, SEEN, TABLES, _planned, bank
from copriv_papers.claims.simulated import (
    dimension,
    overlap_factors,
    parameter_factor,
    scaled_for_absence,
    simulated_slopes,
    spent,
    unlike_budgets,
)
from copriv_papers.errata import ERRATA
from copriv_papers.figures.slopes import AS_PRINTED
from copriv_papers.pages import shown, write_claims
from copriv_papers.papers import PAPERS
from copriv_papers.questions import QUESTIONS
from copriv_papers.trials import Outcome

NOTHING = Found({}, {}, {})
BY_PLACE = {(claim.place, claim.sentence): claim for claim in CLAIMS}


def test_every_claim_names_a_paper_a_figure_and_a_number() -> None:
    known = {figure.identity for figure in (*FIGURES, *BEYOND)}
    assert len({(claim.place, claim.sentence, claim.paper) for claim in CLAIMS}) == len(CLAIMS) > 60
    for claim in CLAIMS:
        assert claim.place.startswith(("S, ", "A, "))
        assert bool(claim.paper) != claim.beyond  # ours have no number of the paper beside them
        assert claim.source == "claims" or claim.source in known
    drawn = {claim.source for claim in CLAIMS}
    assert {figure.identity for figure in FIGURES} <= drawn | {"sync-fig8"}  # every figure of both papers is read


def test_formulas_hold_or_not_as_the_errata_prove() -> None:
    assert stays_at_the_start(NOTHING).verdict == "not reproduced"  # erratum 5
    # A1 on f = θ²/2 − θ/2 from 0: T steps of at most ρ/T² leave θ within 1/T of 0, at 0.5 from θ* = 0.5.
    assert left_without_noise(NOTHING).numbers == pytest.approx((0.25, 0.25, 0.25), abs=0.01)  # erratum 5
    assert above_nine(NOTHING).verdict == "reproduced in part"  # (9) falls as 1/√T, the cost stays 1/8
    assert above_nine(NOTHING).numbers[2] / above_nine(NOTHING).numbers[1] == pytest.approx(np.sqrt(10), rel=0.1)
    assert one_coordinate(NOTHING).numbers[0] == pytest.approx(10.0, rel=0.02)  # erratum 4: p = 10 times
    assert star(NOTHING).numbers == (1.0,)  # erratum 3
    assert bound_slopes_a(NOTHING).numbers == pytest.approx((-1.0, -1.0, -1.0), abs=0.05)  # erratum 11
    assert [float(f"{n:.0f}") for n in proof_step(NOTHING).numbers] == [33, 408]  # erratum 14
    assert [float(f"{n:.1g}") for n in never_zero(False)(NOTHING).numbers] == [0.001, 2e-07]  # erratum 15
    assert never_zero(True)(NOTHING).verdict == "not reproduced"
    assert shared_record(NOTHING).numbers == pytest.approx((50.5,))  # erratum 17: 5.05 where 0.1 is promised


@pytest.mark.slow
def test_what_theorems_promise_is_drawn_and_not_derived() -> None:
    assert spent(1)(NOTHING).verdict == spent(4)(NOTHING).verdict == "reproduced"
    assert overlap_factors(NOTHING).numbers == pytest.approx((4.0, 9.0), rel=0.02)
    assert parameter_factor(NOTHING).verdict == "reproduced"
    assert max(parameter_factor(NOTHING).numbers) <= 2.0  # erratum 12
    assert simulated_slopes(NOTHING).verdict == "reproduced"
    assert dimension(NOTHING).numbers == pytest.approx((1.0, 0.5), abs=0.05)
    assert scaled_for_absence(NOTHING).numbers == pytest.approx((1.43, 2.26, 4.63), rel=0.05)  # erratum 16
    # erratum 18: what counts is Σ ε⁻², by hand 100 + 2/1.45² and 100 + 2/1.495 over that of equal budgets, 3
    assert unlike_budgets(NOTHING).numbers == pytest.approx(((100 + 2 / 1.45**2) / 3, (100 + 2 / 1.495) / 3), rel=0.05)
    assert unlike_budgets(NOTHING).verdict == "not reproduced"


def test_noise_that_is_too_small_spends_more_than_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A formula held against itself could not fail: with two thirds of the noise the transcripts give the owner away."""
    from copriv_papers.claims import simulated

    true = simulated.laplace_scale
    monkeypatch.setattr(simulated, "laplace_scale", lambda *given: true(*given) * 2 / 3)
    answer = spent(1)(NOTHING)
    assert answer.numbers[0] == pytest.approx(1.5, rel=0.05)
    assert answer.verdict == "not reproduced"


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
    assert f"it is 213, 152, {2 * 1000**2 / σ**2:.0f}, 68, 43 times" in ours.remark
    assert ours.verdict == "not reproduced"  # a constant neither in ε nor in T


def test_an_answer_counts_what_holds() -> None:
    assert Answer.of([1.0, 2.0, 3.0], lambda x: x < 2.5).verdict == "reproduced in part"
    assert Answer.of(1.0, lambda x: x > 2).verdict == "not reproduced"
    assert Answer((), ()).verdict == "not testable"


def ended(ψ: float) -> Outcome:
    """Of a run at this ψ, where an owner alone is at 1."""
    ends, none = [ψ], list[float]()
    return Outcome(
        [0], ends, ends, ends, ends, [1.0], none, none, 1.0, 0.0, 0.0, None, None, [], True, "", "", 0.0
    )  # fmt: skip


def test_the_least_number_of_owners_is_read_from_runs_and_none_is_said() -> None:
    """Runs in which ψ together is 20/(N ε) of that alone; by the sum a tenth of that; on everybody's loans half."""
    outcomes = {
        bank(table, N, ε, seen): ended(20.0 * (0.1 if "aggregation" in terms else 1.0) * share / (N * ε))
        for table, share in zip(TABLES, (10.0, 0.5), strict=True)
        for seen, terms in SEEN.items()
        for N in OWNERS
        for ε in BUDGETS
    }
    found = Found({}, {}, outcomes)
    each, trusting, summed, *after_pilots = (
        claim.answer(found) for claim in CLAIMS if claim.sentence.startswith("The least number of equal")
    )
    assert "that were run, at ε = 1, 2.5, 10: none, 86, 30; on everybody's loans: 11, 5, 3." in each.remark
    assert "of 11 owners at ε = 1: 18.2 and 0.909. Bounds" in each.remark
    assert each.numbers == (np.inf,)
    assert each.elsewhere == (11.0,)
    assert "at ε = 1, 2.5, 10: 30, 10, 3; on everybody's loans: 3, 3, 3." in summed.remark
    assert [one.remark for one in after_pilots] == [each.remark, trusting.remark, summed.remark]
    (less,) = (claim.answer(found) for claim in CLAIMS if "over ψ of the sum, t = 1" in claim.sentence)
    assert less.numbers == less.elsewhere == pytest.approx((10.0, 10.0))
    (hospitals,) = (claim.answer(found) for claim in CLAIMS if claim.sentence.startswith("86 hospitals, planned"))
    assert "copriv data fetch hospital" in hospitals.remark


@pytest.mark.parametrize(("power", "verdict"), [(2.0, "reproduced"), (1.8, "not reproduced")])
def test_slopes_with_the_regulariser_that_a_prints_are_of_both_tables(power: float, verdict: str) -> None:
    """As the figure judges them: all of its slices, and the figure's own verdict counts them."""
    figure = next(one for one in FIGURES if one.identity == "async-fig5")
    rows = [
        {"mechanism": kind, "records": n, "epsilon": ε, "mean": 1.0 / (n * ε) ** of_kind, "clipped": 0.0}
        for kind, of_kind in (("as published", 2.0), ("sound", 2.0), (AS_PRINTED, power))
        for n in (1e3, 1e4)
        for ε in (0.1, 10.0)
    ]
    judgement = figure.judge(rows)
    assert judgement.verdict == ("reproduced" if power == 2.0 else "reproduced in part")
    lines = [vars(one) for one in judgement.comparisons]
    (claim,) = (c for c in CLAIMS if c.sentence.endswith("with the g that §V prints."))
    document = {"comparison": lines, "other_tables": [{"comparison": lines}]}
    answer = claim.answer(Found({"async-fig5": document}, {}, {}))
    assert answer.numbers == answer.elsewhere == pytest.approx((-power,) * 4)
    assert answer.verdict == verdict


def test_planned_runs_of_sums_are_private_and_of_what_they_say() -> None:
    cells = _planned(Effort(quick=True))
    assert len({cell.at["name"] for cell in cells}) == len(cells) == 72
    for cell in cells:
        agreement = cell.trial.agreement
        seen = SEEN[str(cell.at["name"]).split(", ", 1)[1]]
        assert (agreement.summed, agreement.has_pilot) == ("aggregation" in seen, "pilot" in seen)
        assert not agreement.summed or agreement.colluding == seen["colluding"]
        assert cell.trial.mechanism == "planned"
        assert agreement.data.heterogeneity == 0.0
        assert not agreement.model.gradient_bound_assumed


def test_trials_as_a_prints_have_its_regulariser_and_its_start() -> None:
    figure = next(one for one in FIGURES if one.identity == "async-fig5")
    made = [cell for cell in figure.plan(Effort(quick=True)) if cell.at["mechanism"] == AS_PRINTED]
    assert len(made) == len({cell.trial.key for cell in made}) == 9
    for cell in made:
        agreement = cell.trial.agreement
        assert agreement.model.regularization == 2e-5  # g = (c/2)‖θ‖² = 10⁻⁵θᵀθ
        assert agreement.agreement.learner_step == "printed"
        assert not any(agreement.agreement.start or ())


def grid(identity: str, mechanism: str, power: float):  # type: ignore[no-untyped-def]
    rows = [
        {"mechanism": mechanism, "records": float(n), "epsilon": float(ε), "mean": 1e6 / (n * ε) ** power}
        for n in (1e3, 1e4, 1e5)
        for ε in (0.1, 1.0, 10.0)
    ]
    line = {"what": f"{mechanism}: slope against epsilon at n_i = 1000", "ours": -power, "holds": power == 2.0}
    document = {"comparison": [line], "other_tables": [{"comparison": [line]}]}
    return Found({identity: document}, {identity: rows}, {})


@pytest.mark.parametrize(("power", "verdict"), [(2.0, "reproduced"), (1.0, "not reproduced")])
def test_slopes_are_read_from_the_figure(power: float, verdict: str) -> None:
    claim = next(c for c in CLAIMS if c.place == "S, §IV-A, Fig. 4")
    answer = claim.answer(grid("sync-fig4", "as written", power))
    assert answer.numbers == pytest.approx((-power,) * 3)
    assert answer.elsewhere == (-power,)
    assert len(answer.held) == 4
    assert answer.verdict == verdict


def test_a_figures_own_judgement_is_kept() -> None:
    lines = [{"what": "ψ at ε = 1 over", "ours": 30.0, "holds": False}, {"what": "other", "ours": 1.0, "holds": True}]
    answer = judged("sync-fig2", "ψ at")(Found({"sync-fig2": {"comparison": lines}}, {}, {}))
    assert (answer.numbers, answer.verdict) == ((30.0,), "not reproduced")
    other = [{"what": "ψ at ε = 1 over", "ours": 90.0, "holds": True}]
    both = judged("sync-fig2", "ψ at")(
        Found({"sync-fig2": {"comparison": lines, "other_tables": [{"comparison": other}]}}, {}, {})
    )
    assert (both.numbers, both.elsewhere, both.verdict) == ((30.0,), (90.0,), "reproduced in part")
    with pytest.raises(LookupError, match="nothing compared"):
        judged("sync-fig2", "φ")(Found({"sync-fig2": {"comparison": lines}}, {}, {}))


def one_claim(**other: object) -> dict[str, object]:
    return {
        "place": "S, Fig. 2", "sentence": "A | B", "paper": "100", "ours": [50.0, None, 2.0], "held": "1 of 3",
        "elsewhere": [7.0], "verdict": "reproduced in part", "remark": "So (erratum 5).",
        "command": "copriv reproduce sync-fig2",
    } | other  # fmt: skip


def test_the_page_is_a_table_of_them(tmp_path: Path) -> None:
    ours = one_claim(sentence="Planned.", verdict="beyond the papers", paper="", held="0 of 0")
    document = {"claims": [one_claim(), ours], "data": ["Loans."], "quick": True, "missing": {}}
    page = write_claims(document, tmp_path).read_text(encoding="utf-8")
    told = "reproduced in part (1 of 3). So ([erratum 5](../explanation/errata.md#erratum-5))."
    command = "[`copriv reproduce sync-fig2`](../gallery.md#sync-fig2)"
    assert rf'| <a id="claim-s-fig-2"></a>S, Fig. 2 | A \| B | 100 | 2 to 50 | 7 | {told} | {command} |' in page
    assert "quick run" in page
    assert "1 claims: 1 reproduced in part." in page
    theirs, beyond = page.split("## Beyond the papers")
    assert "Planned." not in theirs
    assert "Planned." in beyond
    assert "data fetch" not in page
    assert shown([None]) == "none"
    assert shown([-2.0, -1.89]) == "−2 to −1.89"
    assert shown([]) == ""


def test_without_a_table_the_others_are_told_with_the_command_that_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a bare clone, whose cards and stays are not there."""
    from copriv_papers.claims import checked

    def nothing(figures, out, effort, failed, **how):  # type: ignore[no-untyped-def]
        for figure in figures:
            failed(figure.identity, DataError("get them with copriv data fetch creditcard, or give the path"))
        return iter(())

    monkeypatch.setattr(checked, "reproduce", nothing)
    monkeypatch.setattr(checked, "cells", lambda effort: [])
    monkeypatch.setattr(checked, "outcomes_of", lambda *_, **__: [])
    claims = [c for c in CLAIMS if c.source == "sync-fig9" or c.place == "S, Thm 1"]
    document = answered(claims, tmp_path, Effort(quick=True))
    assert document["missing"] == dict.fromkeys(("sync-fig4", "sync-fig5", "sync-fig9", "sync-fig10"), FETCH)
    told = {one["sentence"]: one for one in document["claims"]}
    assert told["All slopes against ε are −2."]["verdict"] == "not testable"
    assert told["All slopes against ε are −2."]["remark"] == f"Not here: {FETCH}."
    assert sum(one["verdict"] == "reproduced" for one in told.values()) == 1
    page = write_claims(document, tmp_path).read_text(encoding="utf-8")
    assert page.count(f"\n{FETCH}\n") == 1


FETCH = "copriv data fetch creditcard"


def test_the_kept_pages_have_every_claim_once_and_no_other() -> None:
    """In the papers' order, sentences of ours apart from theirs: pages that lag behind the list say what nobody holds."""
    docs = Path(__file__).parents[2] / "docs"
    table = (docs / "reference" / "claims.md").read_text(encoding="utf-8")
    said = [
        (re.sub("<a .*?></a>", "", row[0]), row[1])
        for row in re.findall(r"^\| (.*?, .*?) \| (.*?) \| ", table, flags=re.M)
    ]
    wanted = [(claim.place, claim.sentence) for beyond in (False, True) for claim in CLAIMS if claim.beyond == beyond]
    assert said[: len(wanted)] == wanted
    for paper in PAPERS:
        poster = unescape((docs / "papers" / f"{paper.identity}.html").read_text(encoding="utf-8"))
        for claim in CLAIMS:
            row = f'<th scope="row">{claim.sentence} ({claim.place})</th>'
            assert poster.count(row) == claim.place.startswith(f"{paper.letter}, "), (paper.identity, claim.sentence)
        assert all(f"({one.place})</th>" in poster for one in QUESTIONS if one.place.startswith(f"{paper.letter}, "))


def test_titles_of_errata_are_those_of_their_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "errata.md").read_text(encoding="utf-8")
    titles = {int(number): title for number, title in re.findall(r"^\*\*(\d+)\. (.*?)\*\*", page, flags=re.M)}
    assert titles == ERRATA
    assert all(f'<a id="erratum-{number}"></a>' in page for number in ERRATA)

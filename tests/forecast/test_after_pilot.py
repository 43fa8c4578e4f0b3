"""The forecast after a pilot: what its answers tell, what is fixed before it, and what is never read but through noise."""

import re
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

import copriv
from copriv.agreement import Agreement
from copriv.display.forecast import details, notes
from copriv.display.verdict import assumption, cautions
from copriv.errors import AgreementError
from copriv.forecast import after_pilot
from copriv.forecast.after_pilot import before_pilot, pilots, told
from copriv.forecast.phases import stops
from copriv.forecast.pilot_answers import noise_foreseen, pilot_terms, told_by
from copriv.losses import Squared
from copriv.mechanisms.pilot import EDGES, PilotNumbers
from copriv.model.records import Records
from copriv.plan.outliers import LENGTHS as OUTLIERS
from copriv.plan.outliers import LONGEST, outliers_of
from copriv.populations.dealt import draw_worlds, heterogeneity_of
from copriv.populations.owner_posterior import common_shift
from copriv.populations.public_sample import Lengths, PublicSample
from copriv.privacy.shared_noise import sum_modulo
from copriv.problem import Problem
from copriv.simulation.runs import one_answers, one_sum

SHIFTS = (0.0, 0.0, 0.0, 1.5)
"""Of each owner's level: the last differs from the others."""


QUICK = {"rule": "S1", "answers": 1}
"""Terms that leave little to be planned."""


def terms(pilot: object = 0.2, epsilon: float = 2.0, **more: object) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "auto", "horizon": 50, "pilot": pilot, **more},
            "model": {"loss": "squared", "regularization": 1e-5, "intercept": True},
            "owner": [{"name": f"bank-{i}", "records": 2000, "epsilon": epsilon} for i in range(len(SHIFTS))],
        }
    )


def rows(rng: np.random.Generator, n: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    x = rng.uniform(-1, 1, (n, 3))
    return x, shift + x @ [0.6, -0.4, 0.2] + 0.5 * rng.normal(size=n)


@pytest.fixture(scope="module")
def data() -> list[tuple[np.ndarray, np.ndarray]]:
    return [rows(np.random.default_rng(i), 2000, shift) for i, shift in enumerate(SHIFTS)]


@pytest.fixture(scope="module")
def public() -> tuple[np.ndarray, np.ndarray]:
    parts = [rows(np.random.default_rng(100 + i), 75, shift) for i, shift in enumerate(SHIFTS)]
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))


@pytest.fixture(scope="module")
def after(data, public) -> copriv.Forecast:
    return copriv.pilot(terms(), data, public=public, seed=1, runs=32)


def test_what_is_recommended_is_the_run_at_what_the_pilot_leaves_and_simulates(after, data, public):
    run = after.recommended.agreement
    assert (after.kind, run.agreement.pilot) == ("after the pilot", None)
    assert [owner.epsilon for owner in run.owner] == pytest.approx([1.6] * 4)
    assert after.to_dict()["kind"] == "after the pilot"
    ended = copriv.simulate(run, data, public=public, runs=20, seed=2).relative_fitness.final["median"]
    assert after.recommended.relative_fitness.low[-1] / 3 < ended < 3 * after.recommended.relative_fitness.high[-1]


def test_after_a_pilot_nothing_is_said_of_public_rows_by_owner_nor_of_a_pilot_to_come(after):
    """No public row named its owner, and whether there are outliers has been asked."""
    assert "of all owners' records" in assumption(after)
    assert not after.sampled_by_owner
    unseen = replace(after.unseen, relative_fitness=2.0 * after.recommended.relative_fitness.end["high"])
    said = {one.key for one in cautions(replace(after, unseen=unseen))}
    assert "caution.unseen" in said
    assert "caution.unseen.pilot" not in said


@pytest.mark.slow
def test_a_forecast_after_a_simulated_pilot_says_everywhere_that_it_is_not_private(after, data, public):
    """It is a function of records and seed: of two neighbours one seed gives other digits."""
    document = after.to_dict()
    assert [document[terms]["private"] for terms in ("agreed", "recommended")] == [False, False]
    assert (document["simulated"], document["for_release"]) == (True, False)
    drawn = [text.get_text() for kind in ("curves", "break-even") for text in after.plot(kind).texts]
    drawn = " ".join(drawn)
    for said in (document["warning"], str(after), " ".join(notes(after)), str(details(after)[0]), drawn):
        assert re.search("not private, (and )?not for release", " ".join(said.split()))
    assert "Public information only" not in drawn
    before = copriv.forecast(terms(**QUICK), public, runs=32)
    assert before.warnings == ()
    assert "for_release" not in before.to_dict()
    assert before.to_dict()["agreed"]["private"]


@pytest.mark.slow
def test_the_owner_that_differs_is_told_by_the_pilot_alone(after, public):
    before = copriv.forecast(terms(**QUICK), public, runs=32)
    assert before.kind == "before the pilot"
    assert len({owner.alone for owner in before.owners}) == 1
    *others, last = (owner.alone for owner in after.owners)
    assert last > 2 * max(others)
    assert after.heterogeneity.source == "answers"


@pytest.mark.slow
def test_records_count_only_through_noisy_answers(monkeypatch, data, public):
    """The whole forecast, from other records with the same answers, digit for digit."""
    problem = Problem.of(terms(**QUICK), data, public)
    asked = pilot_terms(before_pilot(problem), terms(**QUICK).phases[0])
    given = one_answers(problem.under(asked), [np.random.SeedSequence(3)], asked.noise_scales())
    other = [(np.zeros_like(x), np.full_like(y, 9.0)) for x, y in data]
    monkeypatch.setattr(after_pilot, "one_answers", lambda *_: given)
    one, two = (copriv.pilot(terms(**QUICK), each, public=public, runs=32).to_json() for each in (data, other))
    assert one == two


def test_owners_features_differ_in_worlds_after_a_pilot_as_they_do_in_tables(data, public):
    """Answers do not tell how: where owners had equal features, forecasts on tables of groups were a third too good.

    Few rows that stand for an owner must not make its own model look better than it is, either.
    """
    problem = Problem.of(terms(), data, public)
    sample = after_pilot.after_pilot(before_pilot(problem), problem)
    apart, left = [], []
    for world in draw_worlds(sample, sample.problem.terms, heterogeneity_of(sample), 60):
        x = world.pool.unbounded[0].features
        root = np.linalg.cholesky(np.linalg.inv(np.cov(x.T, aweights=world.pool.unbounded[0].weight)))
        means = np.array([one.law.weight @ one.law.features / one.law.total for one in world.owners])
        apart.append(np.mean(np.square((means - means.mean(axis=0)) @ root).sum(axis=1)))
        left.append(np.mean([one.best.value for one in world.owners]) / sample.optimum.value)
    assert 0.05 < np.median(apart) < 0.4, "with the same features it is chance alone, 0.002"
    assert np.quantile(apart, 0.9) > 2 * np.quantile(apart, 0.1)
    assert np.mean(left) == pytest.approx(1.0, abs=0.1)


def test_classes_differ_in_worlds_after_a_pilot_as_its_answers_say(data, public):
    """Few rows that stand for an owner are nearly separable: worlds were forty times as unlike as was told."""
    of_two = [(x, np.where(y > np.median(y), 1.0, -1.0)) for x, y in data]
    wide = tuple(
        np.concatenate(each) for each in zip(*(rows(np.random.default_rng(i), 600, 0.0) for i in range(4)), strict=True)
    )
    shown = wide[0], np.where(wide[1] > 0, 1.0, -1.0)
    problem = Problem.of(terms(**QUICK).replace(model={"loss": "logistic"}), of_two, shown)
    sample = after_pilot.after_pilot(before_pilot(problem), problem)
    unlike = heterogeneity_of(sample)
    worlds = draw_worlds(sample, sample.problem.terms, unlike, 20)
    assert worlds[0].owners, "each owner has a law"
    assert np.median([world.heterogeneity for world in worlds]) < 3 * unlike.value


def test_rule_mechanism_and_answers_are_those_that_were_planned_before_it(after, data, public):
    fixed = before_pilot(Problem.of(terms(), data, public), 1).problem.terms
    run = after.recommended.agreement
    assert (run.agreement.mechanism, run.answers) == (fixed.agreement.mechanism, fixed.answers)
    assert {owner.delta for owner in run.owner} == {owner.delta for owner in fixed.owner}


def test_without_noise_it_tells_each_owners_model_and_the_common_one(data, public):
    problem = Problem.of(terms(0.5, 1e9, **QUICK), data, public)
    before = before_pilot(problem)
    asked = pilot_terms(before, problem.terms.phases[0]).replace(model={"gradient_bound": 1e4})  # nothing is clipped
    told = told_by(
        before,
        asked,
        np.concatenate(one_answers(problem.under(asked), [np.random.SeedSequence(1)], asked.noise_scales())),
    )
    best = problem.optimum.theta
    cost = before.hessian
    away = told.centre - best
    assert away @ cost @ away < 0.05 * (told.public - best) @ cost @ (told.public - best)
    for records, pull in zip(problem.unbounded, told.pull, strict=True):
        own = problem.optimum_of(records, best).theta - best
        error = told.basis @ -pull - own
        assert error @ cost @ error < 0.05 * max(own @ cost @ own, 0.01)


@pytest.mark.parametrize("start", [(0.0,) * 4, (3.0, -2.0, 0.0, 1.0)])
def test_a_pilot_that_is_asked_elsewhere_tells_the_common_model_too(data, public, start):
    """As by an agreement that was written by hand: models were taken to be about the start, and ψ a hundredth of what it is."""
    problem = Problem.of(terms(0.5, 1e9, **QUICK), data, public)
    before = before_pilot(problem)
    asked = pilot_terms(before, problem.terms.phases[0])
    asked = asked.replace(agreement={"start": start}, model={"gradient_bound": 1e4})  # nothing is clipped
    answers = one_answers(problem.under(asked), [np.random.SeedSequence(1)], asked.noise_scales())
    away = told_by(before, asked, np.concatenate(answers)).centre - problem.optimum.theta
    far = np.array(start) - problem.optimum.theta
    assert away @ before.hessian @ away < 0.02 * far @ before.hessian @ far


def test_its_noise_is_as_large_as_it_says_and_its_error_too(data, public):
    """Of 300 pilots on the same records: the variance of what is told of an owner, and of the common model."""
    problem = Problem.of(terms(0.5, **QUICK), data, public)
    before = before_pilot(problem)
    asked = pilot_terms(before, problem.terms.phases[0])
    streams = np.random.SeedSequence(5).spawn(300)
    each = np.array(one_answers(problem.under(asked), streams, asked.noise_scales()))
    made = [told_by(before, asked, each[:, run]) for run in range(300)]
    φ = (
        2.0 * before.information / problem.n_parameters / 2000
    )  # what records vary by, which are the same in all of them
    seen, said = np.var([one.pull for one in made], axis=0).mean(), np.mean([one.noise for one in made]) - φ
    assert 0.85 < seen / said < 1.15
    assert not 0.85 < seen / (2 * said) < 1.15


LENGTHS = {"pilot_parts": {"gradient": 0.8, "record_lengths": 0.2}}
SUM = {"aggregation": "sum", "colluding": 1, "rule": "S2"}


def test_a_sum_without_noise_tells_the_common_model_as_all_answers_do_and_no_owner_from_another(data, public):
    found = []
    for seen in ({}, SUM):
        problem = Problem.of(terms(0.5, 1e9, answers=1, **{"rule": "S2", **seen}), data, public)
        before = before_pilot(problem)
        asked = pilot_terms(before, problem.terms.phases[0])
        asked = asked.replace(agreement=LENGTHS, model={"gradient_bound": 1e4})
        found.append(told_by(before, asked, pilots(problem.under(asked), [np.random.SeedSequence(1)])))
    each, together = found
    assert (each.by_owner, together.by_owner, together.pull.shape) == (True, False, (0, 4))
    np.testing.assert_allclose(together.centre, each.centre, atol=1e-6)
    np.testing.assert_allclose(together.lengths.shares, each.lengths.shares, atol=1e-6)


def test_the_noise_of_a_sum_is_as_large_as_it_says_and_a_fourth_of_that_of_four_answers(data, public):
    """Of 400 pilots: four owners of one ε share the noise of one, of which one owner's share is not counted on (4/3)."""
    variances, said = [], []
    for seen in ({"rule": "S2"}, SUM):
        problem = Problem.of(terms(0.5, answers=2, **seen), data, public)
        before = before_pilot(problem)
        asked = pilot_terms(before, problem.terms.phases[0]).replace(agreement=LENGTHS)
        streams = np.random.SeedSequence(5).spawn(400)
        if asked.summed:
            answers = one_sum(problem.under(asked), streams)[:, None]
        else:
            answers = np.array(one_answers(problem.under(asked), streams, asked.noise_scales())).swapaxes(0, 1)
        made = [told_by(before, asked, one) for one in answers]
        variances.append(np.var([one.lengths.shares for one in made], axis=0).mean())
        said.append(made[0].lengths.variance)
    assert variances[0] / said[0] == pytest.approx(1.0, abs=0.12)
    assert variances[1] / said[1] == pytest.approx(1.0, abs=0.12)
    assert said[1] / said[0] == pytest.approx((4 / 3) / 4)


@pytest.mark.parametrize("missing", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in (None, 3))])
def test_what_a_sum_tells_has_the_noise_of_the_owners_that_it_is_of(data, public, missing):
    """By real shares: without the owner of most records their noise is over a tenth of the records, 147 times the variance."""
    counts = (7600, 200, 200, 200)
    owners = [{"name": f"bank-{i}", "records": n, "epsilon": 2.0} for i, n in enumerate(counts)]
    agreed = terms(0.5, **SUM, dropouts=1, attempts=1, answers=2).replace(owner=owners)
    before = before_pilot(Problem.forecasting(agreed, public))
    asked = pilot_terms(before, agreed.phases[0]).replace(agreement=LENGTHS)
    shared = asked.mechanism.in_sum(asked, range(4), 4)
    there = [i for i in range(4) if i != missing]
    exact = np.zeros(asked.mechanism.length(asked, 4))
    weight = Fraction(sum(shared.parts[i].weight for i in there))
    drawn = []
    for _ in range(300):
        words = np.array([shared.share(i, exact) for i in there])
        drawn.append(shared.vector(sum_modulo(words, shared.modulus), weight))
    names = [f"bank-{i}" for i in there]
    said = told(before, asked, exact[None, :], names).pilot.lengths.variance
    counted = np.var(np.array(drawn)[:, -len(EDGES) - 1 :], axis=0).mean()
    assert counted / said == pytest.approx(1.0, abs=0.15)
    if missing is None:
        assert told(before, asked, exact[None, :]).pilot.lengths.variance == pytest.approx(said)


def test_a_pilot_that_is_seen_as_a_sum_leaves_open_how_owners_differ(data, public):
    asked = terms(answers=1, **SUM)
    before, after = copriv.forecast(asked, public, runs=32), copriv.pilot(asked, data, public=public, seed=1, runs=32)
    assert "is seen as a sum alone" in before.pilot_in_words
    assert "nothing of how owners differ" in before.pilot_in_words
    assert (after.kind, after.heterogeneity.source) == ("after the pilot", "not stated")
    assert after.recommended.agreement.summed


def test_what_is_stated_is_not_asked_of_the_pilot(data, public):
    stated = terms(**QUICK).replace(data={"heterogeneity": 0.0})
    found = copriv.pilot(stated, data, public=public, runs=32)
    assert found.heterogeneity.source == "stated"
    assert found.heterogeneity.alike


def test_many_owners_of_one_table_are_told_by_their_spread(data, public):
    document = terms(**QUICK).to_dict()
    document["owner"] = [{**document["owner"][0], "name": "bank", "count": 4}]
    found = copriv.pilot(Agreement.of(document), data, public=public, runs=32)
    assert found.heterogeneity.source == "answers"
    assert 0.05 < found.heterogeneity.value < 20


@pytest.mark.slow
def test_a_pilot_of_a_logistic_model_and_of_strata(data, public):
    labels = [(x, np.where(y > 0.3, 1.0, -1.0)) for x, y in data]
    shown = (public[0], np.where(public[1] > 0.3, 1.0, -1.0))
    logistic = terms(**QUICK).replace(model={"loss": "logistic", "regularization": 1e-3})
    strata = np.repeat([f"bank-{i}" for i in range(len(SHIFTS))], 75)
    found = copriv.pilot(logistic, labels, public=shown, strata=strata, runs=32)
    *others, last = (owner.alone for owner in found.owners)
    assert last > 2 * max(others)


def test_without_a_pilot_it_says_what_to_do(data, public):
    with pytest.raises(AgreementError, match=r"agreement\.pilot: there is none; give it a share of every epsilon"):
        copriv.pilot(terms(0), data, public=public)


def test_it_says_what_it_was_made_from_and_what_it_takes_for_granted(after):
    told = " ".join(map(str, details(after)))
    assert "Private records were read by a simulated pilot: not private, not for release" in told
    assert "No private record was read" not in told
    assert "taken to vary as those of the public rows do" in " ".join(notes(after))


def test_the_level_is_asked_with_less_noise_and_the_rest_with_little_more(data, public):
    """Against the metric without it: the variance of the mean of residuals, and that of the other numbers."""
    problem = Problem.of(terms(0.5, **QUICK), data, public)
    before = before_pilot(problem)
    asked = pilot_terms(before, problem.terms.phases[0])
    e = common_shift(before.records.features, before.hessian)
    P = np.array(asked.agreement.preconditioner)
    inverse = np.linalg.inv(before.hessian)
    assert np.allclose(P - inverse, 2.0 * np.outer(e, e), atol=1e-6 * np.abs(P).max())  # p = 4
    assert e @ np.linalg.inv(P) @ e == pytest.approx(1.0 / 3.0, rel=1e-3)  # the level's share of noise
    assert before.problem.terms.n_owners * noise_foreseen(before, asked)[0] > 0


def test_counts_of_lengths_show_outliers_where_noise_is_small():
    """The likelihood ratio against its formula, and by simulation: of many owners without outliers it rarely says so."""
    rng, share, sd = np.random.default_rng(4), 1e-4, 2.5e-5
    kinds = np.array([1.0, 1.2, 5.0])
    ends = []
    for there in (0.0, share):
        made = []
        for _ in range(400):
            counts = sd * rng.normal(size=7)
            counts[1] += there
            made.append(np.exp(Lengths(counts, sd**2).log_ratio(share, kinds, 1.0)))
        ends.append(np.array(made))
    without, with_them = ends
    assert (without[:, 0] == 1.0).all()  # public rows are as long
    assert np.mean(without[:, 1] > 20.0) < 0.05 < 0.8 < np.mean(with_them[:, 1] > 20.0)
    counts = share * np.array([3.0, 0.5, 0.4, 0.3, -0.1, 0.9, 0.2])

    def likelihood(*there: float) -> float:
        return float(np.prod(norm.pdf(counts[1:], share * np.array(there), sd)))

    none, shortest = likelihood(0, 0, 0, 0, 0, 0), likelihood(1, 0, 0, 0, 0, 0)
    longer = np.mean([likelihood(*below, 1, 0) for below in product((0, 1), repeat=4)])
    found = Lengths(counts, sd**2).log_ratio(share, kinds, 1.0)
    assert found == pytest.approx([0.0, np.log(shortest / none), np.log(longer / none)])


def test_each_length_of_outliers_is_in_a_bin_of_its_own():
    for lengths in (OUTLIERS, LONGEST):
        assert np.searchsorted(EDGES, lengths, side="right").tolist() == [1, 2, 3, 4, 5, 6]


def of_many(records: int, epsilon: float, intercept: bool = False) -> tuple[Problem, np.ndarray]:
    """Ten owners of so many records each, and public rows of three columns in other units."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1000, 3)) * np.array([1.0, 0.5, 3.0])
    document = {
        "agreement": {"rule": "A2", "answers": 3, "horizon": 1000, "step": 0.1, "pilot": 0.1, "mechanism": "laplace"},
        "model": {"loss": "squared", "gradient_bound": 20.0, "intercept": intercept},
        "owner": [{"name": "bank", "records": records, "epsilon": epsilon, "count": 10}],
    }
    return Problem.forecasting(copriv.Agreement.of(document), (x, x @ np.ones(3) + rng.normal(size=1000))), x


def test_lengths_are_asked_where_they_would_show_something_and_with_as_little_as_does():
    """Of owners of 1,000 records a count says nothing, and the gradient has the whole pilot."""

    def parts(records: int, epsilon: float) -> dict[str, float]:
        problem, _ = of_many(records, epsilon)
        return pilot_terms(before_pilot(problem), problem.terms.phases[0]).agreement.pilot_parts

    assert parts(1_000, 1.0) == {"gradient": 1.0}
    levels = (0.2, 1.0, 8.0, 15.0, 30.0, 100.0)
    shares = [parts(100_000, epsilon).get("record_lengths", 0.0) for epsilon in levels]
    assert shares == [0.0, 0.02, 0.2, 0.1, 0.05, 0.02]
    # Three standard deviations of the count are at most a record in 5,000; or, at 2 %, five of all bins a tenth.
    for epsilon, share in zip(levels, shares, strict=True):
        noise = np.sqrt(10 * 2.0) * 2.0 / (0.1 * epsilon * 100_000) / 10
        watched = 0.02 * (0.02 * (0.1 - (1 - np.exp(-0.01))) >= 5 * np.sqrt(6) * noise)
        assert share == next((s for s in (0.02, 0.05, 0.1, 0.2) if s >= 3 * noise * 5_000), watched)


@pytest.mark.parametrize("intercept", [False, True])
def test_owners_whose_records_are_as_long_as_public_rows_are_not_said_to_hold_outliers(intercept):
    """The last column of public rows was taken for an intercept, which they are without; it is the longest here."""
    problem, x = of_many(100_000, 30.0, intercept)
    before = before_pilot(problem)
    asked = pilot_terms(before, problem.terms.phases[0])
    kinds, longest = outliers_of(before).lengths(PilotNumbers.agreed(asked, 3 + intercept))
    assert longest == pytest.approx(1.0)
    assert asked.data.feature_bound == pytest.approx(np.abs(x).sum(axis=1).max())
    assert set(np.round(kinds, 1)) > {1.3, 7.0}  # in other columns than the longest a little more
    answer = np.zeros((10, asked.mechanism.length(asked, 3 + intercept)))
    answer[:, 3 + intercept] = 1.0  # every record in the first bin
    after = told(before, asked, answer)
    assert outliers_of(after).likely.sum() < 0.1
    assert after.longer is None


def test_owners_whose_records_are_longer_than_public_rows_are_told_and_the_run_stops(data, public):
    """ψ was forecast as 3e-4 % and came as 12; half of all records were in bins that no public row was in."""
    terms_ = terms(0.2, 100.0, rule="S2", answers=3)
    longer = [(3.0 * x, y) for x, y in data]
    like, unlike = (copriv.pilot(terms_, some, public=public, runs=32) for some in (data, longer))
    assert "longer than any public row" not in like.verdict
    assert (like.longer, stops(like)) == (None, all(one.verdict == "no" for one in like.owners))
    assert unlike.longer > 0.3
    assert stops(unlike)
    assert unlike.verdict.startswith("The pilot counted")
    assert f"counted {unlike.longer:.0%} of all records as longer".replace("%", " %") in unlike.verdict
    assert "no number here holds" in unlike.caution
    assert unlike.to_dict()["longer_than_public"] == unlike.longer


def test_records_that_are_all_as_long_as_the_longest_public_row_are_not_longer():
    """As those are that a schema clamps to its ranges: a length is a sum, whose last bits may differ."""
    asked = PilotNumbers(1.0, 3.0, None, False, 3, agreed_shares={"gradient": 0.5, "record_lengths": 0.5})
    x = np.array([[1.0, 1.0, 1.0], [-1.0, 1.0 + 1e-12, 1.0], [0.0, 0.0, 3.0]])
    counted = asked.parts(asked.of(Squared(), Records.of(x, np.zeros(3)), np.zeros(3)))["record_lengths"]
    assert counted.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert Lengths(counted, 1e-12).surely_beyond(1.0, 1e-2) is None


def test_public_rows_that_are_no_random_sample_stop_no_run(public):
    """Rows of strata, weights, and rows that a dictionary is fitted to: records may be longer without being unlike."""

    def allowed(agreed: Agreement, rows: tuple[np.ndarray, np.ndarray], strata: object = None) -> float | None:
        return PublicSample.of(Problem.forecasting(agreed, rows, strata=strata)).allowed_longer

    x, y = public
    assert allowed(terms(), public) == pytest.approx(1.0 - np.exp(-10.0 / 300))
    assert allowed(terms(), (x[:39], y[:39])) is None
    assert allowed(terms(), public, [f"bank-{i}" for i in range(4) for _ in range(75)]) is None
    owners = [{"name": f"bank-{i}", "records": 2000, "epsilon": 2.0, "weight": w} for i, w in enumerate((3, 1, 1, 1))]
    assert allowed(terms().replace(owner=owners), public) is None


def test_noise_alone_is_not_taken_for_longer_records():
    noise = np.random.default_rng(7).normal(size=(20_000, 7))
    found = [Lengths(np.eye(7)[0] + 1e-2 * one, 1e-4).surely_beyond(1.0, 1e-2) for one in noise]
    assert found == [None] * len(found)
    assert Lengths(np.array([0.85, 0.1, 0.05, 0, 0, 0, 0]), 1e-4).surely_beyond(1.0, 1e-2) == pytest.approx(0.15)
    assert Lengths(np.array([0.995, 0.005, 0, 0, 0, 0, 0]), 1e-12).surely_beyond(1.0, 1e-2) is None


def test_before_a_pilot_its_signed_parts_say_what_it_would_tell():
    """They were planned anew, and one with a hundredth of its ε for the gradient was to settle as much as any."""
    some = [rows(np.random.default_rng(100 + i), 75, 0.0) for i in range(4)]
    public, outlooks = tuple(np.concatenate(each) for each in zip(*some, strict=True)), []
    given = terms(0.1, 10.0, rule="S1", answers=1).replace(owner={"records": 100})
    asked = pilot_terms(before_pilot(Problem.forecasting(given, public)), given.phases[0]).agreement
    for parts in ({"gradient": 1.0}, {"gradient": 0.01, "record_lengths": 0.99}):
        signed = {
            "start": asked.start, "preconditioner": asked.preconditioner, "pilot_parts": parts,
            "gradient_bound": 1.0, "feature_bound": 3.0,
        }  # fmt: skip
        outlooks.append(copriv.forecast(given.replace(agreement={"pilot_terms": signed}), public, runs=32).pilot)
    clear, noisy = (outlook.at(0.1).settles for outlook in outlooks)
    assert min(clear) > 0.3
    assert max(noisy) < 0.1


def test_columns_that_hardly_vary_leave_a_posterior(data, public):
    """Nearly equal columns make the prior nearly singular, which Cholesky's factorization does not take."""

    def wider(rows):
        x, y = rows
        return np.column_stack([x, x[:, 0] + 1e-9 * x[:, 1], 0.0 * x[:, 0]]), y

    problem = Problem.of(terms(0.5, **QUICK), [wider(rows) for rows in data], wider(public))
    before = before_pilot(problem)
    asked = pilot_terms(before, problem.terms.phases[0])
    answers = one_answers(problem.under(asked), [np.random.SeedSequence(1)], asked.noise_scales())
    told = told_by(before, asked, np.concatenate(answers))
    assert np.isfinite(told.centre).all()
    assert np.isfinite(told.root).all()


def test_the_posterior_of_the_common_model_is_that_of_two_inverses(data, public):
    """Against the textbook's form, where the prior is well conditioned."""
    problem = Problem.of(terms(0.5, **QUICK), data, public)
    before = before_pilot(problem)
    asked = pilot_terms(before, problem.terms.phases[0])
    answers = np.concatenate(one_answers(problem.under(asked), [np.random.SeedSequence(1)], asked.noise_scales()))
    told = told_by(before, asked, answers)
    prior = told.basis.T @ before.hessian @ before.spread @ before.hessian @ told.basis / 300
    precision = np.linalg.inv(told.root @ told.root.T) - np.linalg.inv(prior)
    assert np.allclose(precision, np.diag(np.diag(precision)), atol=1e-3 * np.abs(precision).max())
    assert (np.diag(precision) > 0).all()

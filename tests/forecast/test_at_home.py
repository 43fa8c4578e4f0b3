"""The verdict at home: held against what owners' models really cost, known by how their records are drawn."""

import json
import warnings
from typing import Any

import numpy as np
import pytest
from benchmarks.verdicts import WORTHWHILE, Consortium, _fit, measured

import copriv
from copriv.display.verdict import card_at_home
from copriv.errors import AgreementError, DataError, InvalidInput
from copriv.forecast.at_home import VerdictAtHome
from copriv.model.fitness import one_thread
from copriv.model.records import Records
from copriv.problem.personalization import personalized

AHEAD: dict[str, Any] = {
    "optimum": 1.0, "public_only": 0.02, "recommended": {"relative_fitness": {"median": 0.01, "low": 0.005, "high": 0.02}},
    "heterogeneity": {"value": 0.02, "low": 0.0, "high": 1.0, "source": "not stated"},
}  # fmt: skip
P = 4
TRUTH = np.array([1.0, -1.0, 0.5, 2.0, 0.3])
"""The last is the level."""


def _terms(n: int, loss: str = "squared", **first: object) -> copriv.Agreement:
    return copriv.Agreement.of(
        {
            "agreement": {"rule": "auto"},
            "model": {"loss": loss, "regularization": 1e-5, "gradient_bound": 5.0, "intercept": True},
            "owner": [
                {"name": "a", "records": n, "epsilon": 1.0, **first},
                {"name": "b", "records": 50 * n, "epsilon": 1.0, **first},
            ],
        }
    )


def _rows(n: int, seed: int, theta: np.ndarray = TRUTH, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, len(theta)])
    x = rng.uniform(-1, 1, (n, len(theta) - 1))
    return x, np.column_stack([x, np.ones(n)]) @ theta + noise * rng.normal(size=n)


def test_few_records_and_a_good_common_model_are_a_yes_and_many_and_a_bad_one_a_no() -> None:
    yes = copriv.owner_verdict(_terms(40), "a", _rows(40, 1), TRUTH)
    assert (yes.verdict, yes.after_run) == ("yes", True)
    assert yes.probability is not None
    assert yes.probability > 0.8
    no = copriv.owner_verdict(_terms(4000), "a", _rows(4000, 1), TRUTH + 1.0, public=_rows(100, 2))
    assert no.verdict == "no"
    assert no.errors["own"] == pytest.approx(1.0, rel=0.1)
    assert no.errors["personalized"] < 1.02 * no.errors["own"] < no.errors["common"]


def test_the_card_says_which_goal_the_verdict_is_for() -> None:
    """The command said so, and `print` did not."""
    own = _terms(40)
    common = own.replace(agreement={"goal": "common"})
    told = [str(copriv.owner_verdict(terms, "a", _rows(40, 1), TRUTH)) for terms in (own, common)]
    assert ["goal is everybody's records" in " ".join(one.split()) for one in told] == [False, True]


def test_the_common_model_is_expected_in_the_mix_of_the_owners_where_public_rows_name_them() -> None:
    """Of two owners the other has 50 times as many records, so that the common model is near its model."""
    others = TRUTH + np.array([1.0, 1.0, -1.0, -1.0, 2.0])
    rows = zip(_rows(100, 2), _rows(100, 3, others), strict=True)
    public, ahead = tuple(np.concatenate(parts) for parts in rows), {**AHEAD, "owners": []}
    true = 1.0 + float((others - TRUTH) ** 2 @ [1 / 3, 1 / 3, 1 / 3, 1 / 3, 1.0])  # features are uniform
    known, unknown = (
        copriv.owner_verdict(_terms(800), "a", _rows(800, 1), ahead, public=public, strata=strata).errors["common"]
        for strata in (["a"] * 100 + ["b"] * 100, None)
    )
    assert known == pytest.approx(true, rel=0.2)
    assert unknown < 0.6 * true


def test_the_value_says_that_it_is_not_for_release_with_a_forecasts_keys_and_words() -> None:
    found = copriv.owner_verdict(_terms(40), "a", _rows(40, 1), TRUTH)
    said = json.loads(found.to_json())
    assert said["release"] is False
    assert {"verdict", "probability", "gain", "gain_low", "gain_high", "by", "if_alike", "if_unlike"} <= set(said)
    assert (said["verdict"], said["probability"]) == (found.verdict, found.probability)
    text = " ".join(card_at_home(found).text().split())
    assert "Joining pays for a: its own records would be predicted" in text
    assert "Not for release" in text
    assert "about your records too" in text
    assert copriv.owner_verdict(_terms(40), "a", _rows(40, 1), TRUTH) == found  # of the same seed


def test_before_a_run_the_public_rows_at_home_say_how_far_the_owner_is() -> None:
    ahead = {
        **AHEAD,
        "public_only": 0.2,
        "recommended": {"relative_fitness": {"median": 0.005, "low": 0.003, "high": 0.01}},
    }

    def asked(seed: int, away: float) -> VerdictAtHome:
        return copriv.owner_verdict(_terms(40), "a", _rows(40, seed, TRUTH + away), ahead, public=_rows(25, 2))

    like, unlike = ([asked(seed, away) for seed in range(4, 12)] for away in (0.0, 3.0))
    assert np.mean([one.probability for one in like]) > 0.5
    for one in like:
        assert one.errors["personalized"] < one.errors["public_personalized"] < one.errors["own"]
    assert {one.verdict for one in unlike} == {"no"}
    assert unlike[0].on_own is not None
    assert unlike[0].on_own.if_alike is None  # nothing is left to guess
    assert unlike[0].errors["common"] > 2.0 * unlike[0].errors["own"]


def test_without_public_rows_it_is_as_open_as_the_forecast_is() -> None:
    ahead = {**AHEAD, "public_only": 0.2}
    found = copriv.owner_verdict(_terms(60), "a", _rows(60, 3), ahead)
    assert found.verdict == "open"
    assert found.on_own is not None
    assert found.on_own.if_alike is not None
    assert found.on_own.if_alike.answer == "yes"
    assert "differ as in real tables" in " ".join(card_at_home(found).text().split())
    alike = {**ahead, "heterogeneity": {"value": 0.0, "low": 0.0, "high": 0.0, "source": "stated"}}
    known = copriv.owner_verdict(_terms(60), "a", _rows(60, 3), alike)
    assert known.verdict == "yes"
    # A public model that is nearly as good, personalized at home, gives the same to an owner that stays away.
    assert copriv.owner_verdict(_terms(60), "a", _rows(60, 3), {**alike, "public_only": 0.02}).verdict != "yes"


def test_the_common_model_is_not_praised_for_having_seen_the_records() -> None:
    """It is the owner's own model, who holds all records but a few: joining gives it nothing."""
    own = _rows(100, 5)
    terms = _terms(100).replace(
        owner=[{"name": "a", "records": 100, "epsilon": 1.0}, {"name": "b", "records": 2, "epsilon": 1.0}]
    )
    found = copriv.owner_verdict(terms, "a", own, _fit(*own))
    assert found.errors["common"] > 0.97 * found.errors["own"]
    assert found.verdict != "yes"


@pytest.mark.parametrize(
    ("rows", "loss", "why"),
    [
        (_rows(1, 1), "squared", "one record says nothing"),
        ((np.eye(4), np.ones(4)), "logistic", "the same target"),
        ((np.eye(4), np.full(4, 3.0)), "squared", "the same target"),
    ],
)
def test_records_that_cannot_judge_say_so(rows: Any, loss: str, why: str) -> None:
    found = copriv.owner_verdict(_terms(len(rows[1]), loss), "a", rows, TRUTH)
    assert (found.verdict, found.probability, found.on_own) == ("open", None, None)
    assert why in found.reason
    assert "open for a: " + found.reason in " ".join(card_at_home(found).text().split())
    said = json.loads(found.to_json())
    assert said["gain"] is None
    assert said["reason"] == found.reason


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.filterwarnings("error")
def test_very_few_records_are_judged_without_conviction(n: int) -> None:
    found = [copriv.owner_verdict(_terms(n), "a", _rows(n, seed), TRUTH + 0.5) for seed in range(4)]
    assert all(np.isfinite(list(one.errors.values())).all() for one in found)
    wide = [one.on_own.gain_high - one.on_own.gain_low for one in found if one.on_own is not None]
    assert min(wide) > 0.1


def test_persons_are_the_units() -> None:
    X, y = _rows(30, 1)
    person = np.repeat(np.arange(30), 4)
    theirs = Records.of_persons(X[person], y[person], person)
    terms = _terms(30, unit="patient", unit_records=4)
    found = copriv.owner_verdict(terms, "a", theirs, TRUTH)
    once = copriv.owner_verdict(_terms(30), "a", (X, y), TRUTH)
    assert found.records == 30
    assert found.errors["own"] == pytest.approx(once.errors["own"], rel=0.15)


def test_what_does_not_fit_is_refused_in_words() -> None:
    own = _rows(40, 1)
    with pytest.raises(AgreementError, match="nobody"):
        copriv.owner_verdict(_terms(40), "nobody", own, TRUTH)
    with pytest.raises(InvalidInput, match="not the JSON of a forecast"):
        copriv.owner_verdict(_terms(40), "a", own, {"schema": "copriv.forecast/1"})
    with pytest.raises(InvalidInput, match="not the JSON of a forecast"):
        copriv.owner_verdict(_terms(40), "a", own, {**AHEAD, "optimum": 0.0})
    with pytest.raises(DataError, match="theta: 3 numbers"):
        copriv.owner_verdict(_terms(40), "a", own, TRUTH[:3])


def _truth(losses: dict[str, float]) -> float:
    of = ("own", "public", "public_personalized"), ("common", "personalized")
    without, joined = (min(losses[model] for model in models) for models in of)
    return (without - joined) / without


@pytest.mark.slow
def test_a_verdict_after_a_run_is_right_where_the_truth_is_clear() -> None:
    """Owners of 20 to 2,000 records, models of all qualities: E loss is known by definition, not measured."""
    said: list[tuple[bool, bool]] = []
    confident: list[bool] = []
    for seed in range(100):
        rng = np.random.default_rng([seed, 9])
        p, n = int(rng.integers(2, 9)), int(10 ** rng.uniform(1.3, 3.3))
        truth, noise = rng.normal(size=p + 1), 10 ** rng.uniform(-0.3, 0.3)
        level_alone = np.where(np.arange(p + 1) < p, 0.1, 1.0) if rng.uniform() < 0.5 else np.ones(p + 1)
        common = truth + 10 ** rng.uniform(-2.5, 0) * rng.normal(size=p + 1) * level_alone
        elsewhere = truth + 10 ** rng.uniform(-2, 0) * rng.normal(size=p + 1)
        own, public = _rows(n, seed, truth, noise), _rows(200, seed + 1000, elsewhere, noise)
        M = np.append(np.full(p, 1 / 3), 1.0)  # of uniform features and the intercept
        with one_thread():
            found = copriv.owner_verdict(_terms(n), "a", own, common, public=public)
            home, finished = (
                personalized(_terms(n), model, own, public=public).theta for model in (common, _fit(*public))
            )
        models = {"own": _fit(*own), "public": _fit(*public), "common": common, "personalized": home}
        models["public_personalized"] = finished
        gain = _truth({name: noise**2 + float(M @ (θ - truth) ** 2) for name, θ in models.items()})
        if found.verdict != "open" and abs(gain - WORTHWHILE) > 0.002:
            said.append(((found.verdict == "yes") == (gain >= WORTHWHILE), found.verdict == "yes"))
            confident += [said[-1][0]] if max(found.probability or 0, 1 - (found.probability or 0)) >= 0.9 else []
    right, yes = np.array(said).T
    assert len(said) > 30
    assert 0.2 < yes.mean() < 0.9
    assert right.mean() >= 0.85
    assert np.mean(confident) >= 0.88


@pytest.mark.slow
def test_verdicts_at_home_are_right_where_fresh_rows_are_sure() -> None:
    """Simulated consortia, alike or unlike in level, slopes or sizes; before the run and after it, by 5,000 fresh rows."""
    right: dict[bool, list[bool]] = {False: [], True: []}
    opened = []
    for seed in (3, 5, 9, 13):
        one = Consortium.drawn(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outlook = copriv.forecast(one.agreement, one.public, runs=64)
        terms = outlook.recommended.agreement
        common = copriv.simulate(terms, one.train, public=one.public, runs=1, seed=5, alone=False).theta[0]
        gains = measured(one, terms)
        for owner, own, (gain, error) in zip(outlook.owners, one.train, gains, strict=True):
            for released in (outlook, common):
                found: VerdictAtHome = copriv.owner_verdict(terms, owner.name, own, released, public=one.public)
                opened.append(found.verdict == "open")
                if found.verdict != "open" and abs(gain - WORTHWHILE) > 1.645 * error:
                    right[found.after_run].append((found.verdict == "yes") == (gain >= WORTHWHILE))
    assert min(len(one) for one in right.values()) >= 9
    assert np.mean(right[False]) >= 0.9
    assert np.mean(right[True]) >= 0.9
    assert np.mean(opened) < 0.5


def test_a_model_that_is_worth_nothing_leaves_the_others_told_apart() -> None:
    """A common model of 0, seven times as bad as the own one, says nothing of which of the others is better, nor blurs it."""
    found = copriv.owner_verdict(_terms(1000), "a", _rows(1000, 4), 5.0 * TRUTH, public=_rows(500, 5))
    assert (found.verdict, found.errors["common"] > 7.0 * found.errors["own"]) == ("no", True)

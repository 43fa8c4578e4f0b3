"""The forecast as a whole: its kinds, its verdict, its JSON; exact where it says so, and simulated everywhere else."""

import dataclasses
import importlib
import json
import math

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.display.forecast import notes
from copriv.errors import DataError, UsageError
from copriv.forecast import forecast
from copriv.forecast.assessment import WORLDS, Assessment, Band, assess
from copriv.plan import candidates, planner
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.simulation import simulate

# What scripts rely on (the forecast's JSON contract), and what was added to it since.
TOP = {"schema", "agreed", "recommended", "public_only", "bounds", "owners"}
ADDED = {
    "pilot_outlook",
    "too_few",
    "kind",
    "sampled_by_owner",
    "strata_unused",
    "terms",
    "without_stratum",
    "assumption",
    "public_mix",
    "public_rows",
    "goal",
    "optimum",
    "worthwhile",
    "heterogeneity",
    "at_heterogeneity",
    "unseen",
    "longer_than_public",
    "insurance_premium",
    "plan_caution",
    "probability",
    "comparison",
    "typical_error",
    "worth_of_records",
    "on_new_records",
    "advice",
    "advice_in_words",
    "caution",
    "public_only_band",
    "joining_pays",
    "verdict",
    "best_subset",
    "best_weights",
    "robustness",
    "with_sum",
    "graph",
    "n_parameters",
    "runner_up",
    "trades",
    "flatness",
    "overlap_split",
    "description",
}
TERMS = {"rule", "answers", "step", "kind", "relative_fitness"}
TERMS_ADDED = {"horizon", "gradient_bound", "feature_bound", "private", "words", "curve", "insured_cost"}
OWNER = {"name", "alone", "together", "joining_pays", "break_even_epsilon", "marginal_value"}
OWNER_ADDED = {
    "pays_below",
    "own", "count", "number_in_best_subset",
    "records", "epsilon", "break_even_epsilon_for_all", "marginal_value_of_a_record", "loss_to_others",
    "in_best_subset", "best_weight", "shapley", "shapley_error", "joining_pays_probability", "alone_low", "alone_high",
    "close_call", "verdict", "probability", "on_own", "on_all", "break_even_epsilon_own", "pays_epsilon",
    "welcome_epsilon", "worth_in_records", "worth_in_epsilon", "break_even_epsilon_low", "break_even_epsilon_high",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _few_candidates(monkeypatch):
    monkeypatch.setattr(candidates, "ANSWERS", (1, 2, 4, 8))
    monkeypatch.setattr(candidates, "GRADIENT_BOUNDS", 8)
    monkeypatch.setattr(planner, "FINALISTS", 3)
    monkeypatch.setattr(planner, "FINALIST_WORLDS", 2)


def rows(seed=0, n=400, labels=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 0.4]
    y = X @ [1.0, -2.0] + 0.7 * rng.normal(size=n)
    return X, np.sign(y) if labels else y


def agreed(epsilon=1.0, records=(600, 300), owner=None, model=None, data=None, **terms):
    terms = {"rule": "S2", "communication": "synchronous", "horizon": 5, "answers": 4, "step": 0.3, **terms}
    return Agreement.of(
        {
            "agreement": {key: value for key, value in terms.items() if value is not None},
            "model": {"loss": "squared", "regularization": 0.05, "gradient_bound": 4.0, **(model or {})},
            "data": data or {"feature_bound": 0.0},
            "owner": [
                {"name": f"o{i}", "records": n, "epsilon": epsilon, **(owner or {})} for i, n in enumerate(records)
            ],
        }
    )


STAGES = []


@pytest.fixture(scope="module")
def outlook():
    return forecast(agreed(), rows(), runs=20, progress=lambda done, total: STAGES.append((done, total)))


def test_no_terms_are_assessed_twice(monkeypatch):
    made = []

    def counted(problem, *given, **more):
        made.append(problem.terms.fingerprint)
        return assess(problem, *given, **more)

    monkeypatch.setattr(importlib.import_module("copriv.forecast.forecaster"), "assess", counted)
    terms = {"rule": "auto", "step": "auto", "communication": "any", "answers": None, "horizon": 20}
    outlook = forecast(agreed(model={"gradient_bound": "auto"}, data={"heterogeneity": 0.0}, **terms), rows(), runs=10)
    assert sorted(made) == sorted(set(made))
    assert {outlook.agreed.agreement.fingerprint, outlook.recommended.agreement.fingerprint} <= set(made)


# JSON


def test_the_json_is_the_contract_and_what_was_added(outlook):
    document = json.loads(outlook.to_json())
    assert set(document) == TOP | ADDED
    assert document["schema"] == "copriv.forecast/1"
    for terms in ("agreed", "recommended"):
        assert set(document[terms]) == TERMS | TERMS_ADDED
        assert set(document[terms]["relative_fitness"]) == {"mean", "low", "high", "median"}
        assert document[terms]["kind"] in ("exact", "simulated")
        curve = document[terms]["curve"]
        assert set(curve) == {"k", "mean", "median", "low", "high"}
        assert len({len(values) for values in curve.values()}) == 1
        for name in ("mean", "median", "low", "high"):
            assert curve[name][-1] == document[terms]["relative_fitness"][name]
        assert (np.array(curve["low"]) <= curve["median"]).all()
        assert (np.array(curve["median"]) <= curve["high"]).all()
    assert [set(owner) for owner in document["owners"]] == [OWNER | OWNER_ADDED] * 2
    for bound in document["bounds"]:
        assert set(bound) == {"source", "value", "holds_for", "quantity", "conditions_met"}
    # S, Thm 3: as published, last iterate, average; on the cost, eq. (11), and on the parameters, eq. (12)
    assert [bound["quantity"] for bound in document["bounds"]] == ["cost"] * 3 + ["squared parameter error"] * 3
    for bound, shown in zip(outlook.bounds, document["bounds"], strict=True):
        assert shown["value"] == bound.value / (outlook.optimum if bound.quantity == "cost" else 1.0)
    assert set(document["runner_up"]) == {"words", "relative_fitness", "insured_cost", "median"}
    assert document["agreed"]["words"] == "as agreed"
    assert (document["agreed"]["rule"], document["agreed"]["answers"], document["agreed"]["step"]) == ("S2", 4, 0.3)
    assert "warning" not in document


def test_what_is_infinite_is_null(outlook):
    endless = dataclasses.replace(
        outlook,
        bounds=(dataclasses.replace(outlook.bounds[0], value=math.inf),),
        owners=(dataclasses.replace(outlook.owners[0], loss_to_others=math.inf, break_even_epsilon=None),),
    )
    document = json.loads(endless.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert document["bounds"][0]["value"] is None
    assert document["owners"][0]["loss_to_others"] is None
    assert document["owners"][0]["break_even_epsilon"] is None


def test_terms_on_trust_are_marked():
    found = forecast(agreed(model={"gradient_bound_assumed": True}), rows(), runs=10)
    document = found.to_dict()
    assert "not private" in document["warning"]
    assert (document["agreed"]["private"], document["recommended"]["private"]) == (False, True)


# Exact


RULES = {
    "S1": {"rule": "S1", "step": 20.0, "horizon": 6},
    "S2": {"rule": "S2", "step": 0.25},
    "S2 last": {"rule": "S2", "step": 0.25, "iterate": "last"},
    "A1": {"rule": "A1", "step": 15.0, "horizon": 15, "answers": None},
    "A1, printed": {"rule": "A1", "step": 15.0, "horizon": 15, "answers": None, "learner_step": "printed"},
    "A2": {"rule": "A2", "step": 0.3, "horizon": 8, "answers": None},
    "A2, capped": {"rule": "A2", "step": 0.3, "horizon": 8, "answers": 5},
    "A2, random order": {"rule": "A2", "step": 0.3, "horizon": 8, "schedule": "random-order"},
    "A2, Poisson clocks": {"rule": "A2", "step": 0.3, "horizon": 8, "schedule": "poisson"},
    "A1, broadcast": {
        "rule": "A1",
        "step": 15.0,
        "horizon": 15,
        "answers": None,
        "schedule": "broadcast",
        "interval": 0.4,
    },
    "A2, request": {"rule": "A2", "step": 0.3, "horizon": 8, "answers": 5, "schedule": "request", "service": 2.0},
}
RATES = (1.5, 1.0)
UNCLIPPED = {"gradient_bound": 1e4}


def unclipped(problem, runs, seed=11):
    """ψ of runs in the very worlds that an assessment is made in, by other noise: (worlds, runs a world, recorded)."""
    each = runs // WORLDS
    found = [
        simulate(world, runs=each, seed=seed, first_run=i * each, alone=False, workers=1).relative_fitness
        for i, world in enumerate(PublicSample(problem).worlds(WORLDS))
    ]
    return found[0].k, np.stack([one.runs for one in found])


@pytest.mark.parametrize("name", RULES)
def test_where_nothing_is_clipped_the_mean_is_exact(name):
    """By runs of the engine itself; the z-test is at 1e-6 for each of the recorded k."""
    agreement = agreed(epsilon=2e4, model=UNCLIPPED, **RULES[name])
    clocks = [{**table, "rate": rate} for table, rate in zip(agreement.to_dict()["owner"], RATES, strict=True)]
    problem = Problem.forecasting(agreement.replace(owner=clocks), rows())
    found = assess(problem, "", runs=10)
    assert found.kind == "exact"
    runs = 4000
    k, ψ = unclipped(problem, runs)
    np.testing.assert_array_equal(found.relative_fitness.k, k)
    error = np.sqrt((ψ.var(axis=1, ddof=1) / ψ.shape[1]).mean(axis=0) / len(ψ))
    seen = ψ.mean(axis=(0, 1))
    z = (found.relative_fitness.mean - seen) / (error + 1e-9 * seen)
    assert np.abs(z).max() < 4.9
    # The tolerance has teeth: half of the cost is outside.
    assert np.abs((0.5 * found.relative_fitness.mean - seen) / error)[-1] > 4.9


def test_where_fast_owners_of_a1_run_out_of_answers_the_mean_is_simulated():
    """The slow owners answer last, and A1 then takes the realised shares."""
    agreement = agreed(epsilon=2e4, model=UNCLIPPED, **{**RULES["A1, broadcast"], "answers": 9})
    assert assess(Problem.forecasting(agreement, rows()), "", runs=10).kind == "exact"
    clocks = [{**table, "rate": rate} for table, rate in zip(agreement.to_dict()["owner"], RATES, strict=True)]
    assert assess(Problem.forecasting(agreement.replace(owner=clocks), rows()), "", runs=10).kind == "simulated"


@pytest.mark.parametrize("name", ["A1, broadcast", "A2, request"])
def test_a_plan_with_a_schedule_of_its_own_has_none_of_the_agreed_times(name):
    open_terms = candidates.freed(agreed(**RULES[name], communication="asynchronous"))
    terms = planner.plan(Problem.forecasting(open_terms, rows()), runs=8, one_answer=False).agreement.agreement
    assert terms.schedule in ("rounds", "random-order")
    assert (terms.interval, terms.service) == (None, None)


def test_where_something_is_clipped_the_mean_is_simulated():
    assert assess(Problem.forecasting(agreed(), rows()), "", runs=10).kind == "simulated"


NOT_EXACT = {
    "a window": {"rule": "A2", "step": 0.1, "horizon": 8, "window": 2, "schedule": "rounds"},
    "rounds": {"rule": "A2", "step": 0.3, "horizon": 8, "schedule": "rounds"},
    "statistics": {
        "rule": "A2", "mechanism": "statistics", "moments_share": 0.3, "step": 1.0, "horizon": 2, "answers": 1
    },
    "own models": {"rule": "A2", "mechanism": "objective", "step": 1.0, "horizon": 2, "answers": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_EXACT)
def test_what_the_recursion_does_not_cover_is_simulated(name):
    """A mean that is not the recursion's must not be replaced by it, and lies within the band like any mean."""
    agreement = agreed(epsilon=2e4, model=UNCLIPPED, data={"feature_bound": 4.0}, **NOT_EXACT[name])
    found = assess(Problem.forecasting(agreement, rows()), "", runs=30)
    assert found.kind == "simulated"
    assert found.relative_fitness.low[-1] <= found.relative_fitness.mean[-1] <= found.relative_fitness.high[-1]


def test_the_band_is_wider_for_a_smaller_public_sample():
    many, few = (
        assess(
            Problem.forecasting(agreed(start=(1.0, -2.0), step=1e-9, records=(600_000, 300_000)), rows(n=n)),
            "",
            runs=40,
        ).relative_fitness
        for n in (4000, 40)
    )
    assert few.high[-1] - few.low[-1] > 3 * (many.high[-1] - many.low[-1])


# The verdict


def test_joining_pays_where_it_does():
    terms = agreed(epsilon=20.0, records=(60, 60, 60), goal="common").replace(data={"heterogeneity": 0.2})
    found = forecast(terms, rows(n=60), runs=20)
    assert found.joining_pays
    assert found.verdict.startswith("Joining pays for everybody: everybody's records would be predicted ")
    assert all(owner.joining_pays for owner in found.owners)
    assert all(owner.together < min(owner.alone, found.public_only) for owner in found.owners)


@pytest.mark.parametrize(("epsilon", "public_start"), [(1e-4, True), (0.01, False)])
def test_joining_does_not_pay_where_it_does_not_and_it_is_said_in_words(epsilon, public_start):
    """Answers that tell nothing leave a model that began at the public one no better, and any other far worse."""
    found = forecast(agreed(epsilon=epsilon), rows(), runs=20, public_start=public_start)
    assert not found.joining_pays
    assert "Joining does not pay for anybody" in found.verdict
    assert "do not train together" in found.verdict
    assert not any(owner.joining_pays or owner.close_call for owner in found.owners)
    assert found.advice == "alone", found.plan.advice_in_words
    assert "On its own records" in found.plan.advice_in_words


def test_the_advice_is_about_the_records_of_the_verdict():
    """Owners that know more than the public rows do were told that these are the better choice, on everybody's records."""
    few = rows(n=30)
    for goal, advice in (("own", "alone"), ("common", "public")):
        terms = agreed(epsilon=1e-4, records=(300, 300), goal=goal).replace(data={"heterogeneity": 5.0})
        found = forecast(terms, few, runs=20)
        assert (found.advice, found.plan.advised_on) == (advice, goal)
        said = found.plan.advice_in_words
        assert ("On its own records each owner's own model" in said) is (goal == "own")
        assert ("On everybody's records" in said) is (goal == "common")


def test_what_turns_on_how_unlike_owners_are_is_open():
    """Nobody has said it: both outcomes are told, and what would settle it; said to be alike, there is an answer."""
    found = forecast(agreed(epsilon=2000.0, records=(60, 60, 60)), rows(n=30), runs=20)
    assert [owner.verdict for owner in found.owners] == ["open"] * 3
    assert (found.joining_pays, found.advice) == (None, "close")
    assert found.verdict.startswith("Whether joining pays is open for o0, o1 and o2: ")
    assert all(word in found.verdict for word in ("if the owners hardly differ", "data.strata", "data.heterogeneity"))
    for owner in found.owners:
        assert owner.on_own.if_alike.gain > owner.on_own.if_unlike.gain
    none = {key: dataclasses.replace(found.owners[0].on_own.if_alike, gain=0.0) for key in ("if_alike", "if_unlike")}
    on_own = dataclasses.replace(found.owners[0].on_own, **none)
    same = dataclasses.replace(found, owners=tuple(dataclasses.replace(one, on_own=on_own) for one in found.owners))
    assert "no better" not in same.verdict, "two outcomes that are one are not told as two"
    assert "80 % would be a yes" in same.verdict


def verdict(outlook, answers, together=0.01, public_only=0.2):
    band = Band(*(np.array([x]) for x in (1, together, together, together, together)))
    owners = tuple(
        dataclasses.replace(
            outlook.owners[0],
            name=name,
            together=together,
            on_own=dataclasses.replace(
                outlook.owners[0].on_own, answer=answer, gain=gain, if_alike=None, if_unlike=None
            ),
            in_best_subset=True,
        )
        for name, (answer, gain) in answers.items()
    )
    recommended = Assessment(
        outlook.recommended.agreement, "simulated", band, True, "", np.array([[together]]), np.zeros((1, 1, 2))
    )
    return dataclasses.replace(outlook, owners=owners, recommended=recommended, public_only=public_only).verdict


def test_the_verdict_names_who_gains_and_by_how_much(outlook):
    said = verdict(outlook, {"a": ("yes", 0.021), "b": ("no", 0.0)})
    assert said.startswith("Joining pays for a: its own records would be predicted 2.1 % better")
    assert "For b it does not pay; nobody loses." in said
    assert (
        "On everybody's records: 1.0 % above the best possible together by the recommended terms, 20 % by the" in said
    )
    assert verdict(outlook, {"a": ("no", 0.0), "b": ("no", 0.0)}).startswith("Joining does not pay for anybody")
    many = verdict(outlook, {f"o{i}": ("yes", 0.01 + i / 100) for i in range(9)} | {"z": ("no", 0.0)})
    assert "o0, o1, o2, o3, o4 and 4 others: their own records would be predicted 1.0 % to 9.0 % better" in many


# Other losses


@pytest.mark.parametrize("loss", ["logistic", "hinge", "huber"])
def test_other_losses_are_simulated(loss):
    agreement = agreed(
        model={"loss": loss, "gradient_bound": "auto", "theta_max": 50.0}, step="auto", rule="auto", answers=2
    )
    found = forecast(agreement, rows(n=150, labels=loss != "huber"), runs=10)
    assert (found.agreed.kind, found.recommended.kind) == ("simulated", "simulated")
    assert 0 < found.recommended.relative_fitness.mean[-1] < 1
    assert 0 < found.public_only < 1
    assert found.agreed.agreement.answers == 2
    json.loads(found.to_json())


def test_a_loss_of_ones_own():
    class Doubled:
        """2(z − y)², seen only through its gradients."""

        name, smooth = "doubled", True

        def values(self, theta, features, target):
            return 2.0 * (features @ theta - target) ** 2

        def gradients(self, theta, features, target):
            return 4.0 * (features @ theta - target)[:, None] * features

        def gradient_bound(self, feature_bound, target_bound, theta_max):
            return np.inf

        def check_target(self, target):
            pass

    found = forecast(agreed(), rows(n=80), loss=Doubled(), runs=10)
    assert (found.agreed.kind, found.recommended.kind) == ("simulated", "simulated")
    assert found.recommended.relative_fitness.mean[-1] > 0


# What is read


def test_a_problem_gives_the_same_as_its_public_sample():
    agreement = agreed()
    alone = forecast(agreement, rows(), runs=20)
    private = [rows(i + 5, owner.records) for i, owner in enumerate(agreement.owner)]
    found = forecast(Problem.of(agreement, private, public=rows()), runs=20)
    assert json.loads(found.to_json()) == json.loads(alone.to_json())
    with pytest.raises(UsageError, match="already has its public sample"):
        forecast(Problem.of(agreement, private, public=rows()), rows())
    with pytest.raises(DataError, match="public"):
        forecast(Problem.of(agreement, private))


def test_stages_are_reported(outlook):
    assert STAGES == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_of_a_constant_target_nothing_is_said_of_the_regularizer() -> None:
    """It made predictions 82,000 % worse than they could be, where they could be without any error."""
    x = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    agreed = Agreement.of({
        "agreement": {"rule": "auto", "horizon": 30},
        "model": {"loss": "squared", "intercept": True, "regularization": 1e-3},
        "owner": [{"name": name, "records": 5000, "epsilon": 1.0} for name in ("a", "b")],
    })  # fmt: skip
    found = forecast(agreed, (x, np.full(60, 3.0)), runs=32)
    assert found.shrinkage > 1.0
    assert "regularizer" not in found.verdict


def test_public_rows_of_one_target_leave_every_verdict_open() -> None:
    """They once said with more than 99 % that joining pays for nobody."""
    x = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    agreed = Agreement.of({
        "agreement": {"rule": "auto", "horizon": 30},
        "model": {"loss": "squared"},
        "owner": [{"name": name, "records": 5000, "epsilon": 1.0} for name in ("a", "b")],
    })  # fmt: skip
    found = forecast(agreed, (x, np.full(60, 3.0)), runs=32)
    assert (found.joining.answer, found.joining.too_few) == ("open", "targets")
    assert "all public rows have the same target" in found.verdict


@pytest.mark.slow
def test_fewer_public_rows_than_parameters_leave_every_verdict_open() -> None:
    """All worlds rest on one guess of the model then, and agree whatever that is. An intercept is a parameter."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (40, 12))
    y = x @ rng.normal(size=12) + 0.1 * rng.normal(size=40)
    agreed = Agreement.of({
        "agreement": {"rule": "auto", "horizon": 30},
        "model": {"loss": "squared", "intercept": True},
        "data": {"heterogeneity": 0.0},
        "owner": [{"name": name, "records": 5000, "epsilon": 1.0} for name in ("a", "b")],
    })  # fmt: skip
    few, enough = (forecast(agreed, (x[:rows], y[:rows]), runs=32) for rows in (12, 40))
    assert few.joining_pays is None
    assert {owner.on_own.answer for owner in few.owners} == {"open"}
    assert all(0.25 <= owner.on_own.probability <= 0.75 for owner in few.owners)
    assert "open" in str(few)
    assert "fewer public rows than parameters" in few.verdict
    assert few.to_dict()["too_few"] == "rows"
    assert enough.joining.too_few is None
    assert any(abs(owner.on_own.probability - 0.5) > 0.25 for owner in enough.owners)


def test_the_time_that_a_run_takes_by_the_owners_clocks_is_said():
    """Broadcast: I/(1 − e^(−RI)) an answer, for rates of R together, where nobody runs out of answers (rules.md)."""
    document = agreed(epsilon=2e4, model=UNCLIPPED, **{**RULES["A1, broadcast"], "answers": 15}).to_dict()
    document["owner"] = [{**table, "rate": rate} for table, rate in zip(document["owner"], RATES, strict=True)]
    outlook = forecast(Agreement.of(document), rows(), runs=10)
    expected = 15 * 0.4 / (1.0 - np.exp(-sum(RATES) * 0.4))
    assert outlook.duration == pytest.approx(expected, rel=0.05)
    assert outlook.to_dict()["duration"] == outlook.duration
    assert "a run of the agreed terms takes" in " ".join(notes(outlook))
    assert forecast(agreed(**RULES["A2"]), rows(), runs=10).duration is None

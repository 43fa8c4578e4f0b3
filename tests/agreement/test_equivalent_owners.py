"""Many owners as few: the same noise, the same law, the same forecast, whether they are written out or counted."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copriv.agreement import Agreement
from copriv.agreement.participants import (
    MANY,
    MOST,
    Participants,
    as_few,
    bundled_participants,
    bundles_of,
    enough_bundles,
)
from copriv.forecast import forecast
from copriv.forecast.assessment import assess
from copriv.model.records import Records
from copriv.plan import candidates, planner
from copriv.plan.aggregated_runs import DEALT_OWNERS, MOST_GROUPS, _groups, _mixed, _of_one, runs_in
from copriv.plan.candidates import Bounded
from copriv.populations.dealt import heterogeneous_worlds
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.simulation import simulate

ROUNDS = {"rule": "A2", "answers": 3, "window": 100, "schedule": "rounds", "step": 0.05, "horizon": 10**7}


def agreed(*owners, loss="squared", data=None, **terms):
    terms = {"rule": "S2", "horizon": 5, "answers": 4, "step": 0.3, **terms}
    return Agreement.of(
        {
            "agreement": terms,
            "model": {"loss": loss, "regularization": 0.05, "gradient_bound": 3.0},
            "data": {"feature_bound": 5.0, "heterogeneity": 0.0, **(data or {})},
            "owner": [{"name": f"o{i}", "records": 60, "epsilon": 1.0, **owner} for i, owner in enumerate(owners)],
        }
    )


def rows(seed=0, n=300, labels=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 0.4]
    y = X @ [1.0, -2.0] + 0.7 * rng.normal(size=n)
    return X, np.sign(y) if labels else y


def loudness(agreement):
    """What noise the owners' average carries, a coordinate."""
    return float(np.sum((agreement.weights * agreement.noise_scales()) ** 2))


@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=40),
    mechanism=st.sampled_from(["laplace", "gaussian"]),
    in_rounds=st.booleans(),
    weighted=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_bundles_make_the_noise_of_their_owners(counts, mechanism, in_rounds, weighted):
    owners = [{"count": c, "records": 50 + 7 * i, "overlap": 1 + i % min(2, sum(counts)),
               "epsilon": 0.5 if mechanism == "gaussian" else 0.5 + 0.1 * (i % 5),
               "delta": 1e-6 if mechanism == "gaussian" else 0.0, **({"weight": 1.0 + i % 3} if weighted else {})}
              for i, c in enumerate(counts)]  # fmt: skip
    many = agreed(*owners, mechanism=mechanism, **(ROUNDS if in_rounds else {}))
    few, bundles = as_few(many), bundles_of(many)
    N = sum(counts)
    if N <= MOST:
        assert few is many
        assert bundles.of_owner.tolist() == list(range(N))
        return
    assert set(bundles.of_owner.tolist()) == set(range(bundles.number))
    assert few.n_owners == bundles.number <= max(2 * MOST, len(counts))
    assert few.weights == pytest.approx(bundles.total(many.weights), rel=1e-9)
    # A bundle's records are whole; without δ, ε makes up for that.
    assert loudness(few) == pytest.approx(loudness(many), rel=1e-9 if mechanism == "laplace" else 0.02)
    assert few.answers == many.answers
    if in_rounds:
        assert few.queries == 3 * few.n_owners
        assert few.step * few.n_owners == pytest.approx(many.step * N)


def test_owners_that_differ_in_turns_are_not_bundled_together():
    owners = [{"epsilon": 0.5 + 0.01 * i} for i in range(40)]
    in_turns = agreed(*owners, **{**ROUNDS, "window": 1, "schedule": "random-order"})
    assert as_few(in_turns) is in_turns
    assert as_few(agreed(*owners, **ROUNDS)).n_owners == MOST
    ends_early = agreed({"count": 50}, **{**ROUNDS, "horizon": 149})
    assert as_few(ends_early) is ends_early


@pytest.mark.parametrize("terms", [{}, ROUNDS, {**ROUNDS, "window": 1, "schedule": "random-order", "step": 0.3 / 60}])
def test_runs_of_bundles_have_the_law_of_runs_of_all(terms):
    """Mean and spread of ψ of 60 owners of two kinds, all in full: within six of their own standard errors."""
    terms = {**terms, "window": 60} if terms.get("window", 1) > 1 else terms
    many = agreed({"count": 40}, {"count": 20, "records": 200, "epsilon": 0.3}, **terms)
    problem, runs = Problem.forecasting(many, rows()), 500
    whole = simulate(problem, runs=runs, seed=1, record_at=(), alone=False, workers=1).relative_fitness.runs[:, -1]
    assert as_few(many).n_owners < 60
    found = runs_in([problem.under], many, runs, seed=2).relative_fitness[0, :, -1]
    error = np.sqrt((whole.var() + found.var()) / runs)
    # The order of 60 in turns and that of 32 are nearly one law: two in a hundred are allowed for it.
    assert abs(whole.mean() - found.mean()) < 6 * error + (0.02 * whole.mean() if terms.get("window") == 1 else 0.0)
    spread = [np.quantile(ψ, [0.25, 0.75]) for ψ in (whole, found)]
    assert np.diff(spread[1])[0] == pytest.approx(np.diff(spread[0])[0], rel=0.35)


LONG = {**ROUNDS, "window": 1, "schedule": "random-order", "step": 0.1}


@pytest.mark.parametrize(
    ("owners", "terms"),
    [(300, LONG), (80, {"rule": "A1", "horizon": 320, "step": 1000.0})],
    ids=["long steps in turns", "copies"],
)
def test_steps_in_turns_are_not_made_too_long(owners, terms):
    """As 32 bundles, ψ of these was 2 and 3 times that of all owners, and a forecast did not say so."""
    many = agreed({"count": owners // 2}, {"count": owners // 2, "records": 200, "epsilon": 0.3}, **terms)
    problem, runs = Problem.forecasting(many, rows()), 200
    whole = simulate(problem, runs=runs, seed=1, record_at=(), alone=False, workers=1).relative_fitness.runs[:, -1]
    found = runs_in([problem.under], many, runs, seed=2).relative_fitness[0, :, -1]
    assert abs(whole.mean() - found.mean()) < 6 * np.sqrt((whole.var() + found.var()) / runs)


def test_only_long_steps_cost_more_runs():
    many = agreed({"count": 3000}, **{**LONG, "step": 1e-4})
    assert enough_bundles(many, 1.0) == MOST
    assert enough_bundles(many, 20.0) == 60
    assert enough_bundles(many, np.inf) == 3000
    assert enough_bundles(agreed({"count": 3000}), np.inf) == MOST
    assert enough_bundles(agreed({"count": 3000}, **{**ROUNDS, "window": 3000}), np.inf) == MOST


@pytest.mark.parametrize("size", [4, 80])
@pytest.mark.parametrize("kinds", [1, 2])
def test_groups_are_bundled_as_owners_are(size, kinds):
    """Thousands of owners in groups were simulated one by one. Mean and spread of ψ are those of all of them."""
    owners = [{"count": 320}] if kinds == 1 else [{"count": 200}, {"count": 120, "records": 200, "epsilon": 0.3}]
    terms = {**ROUNDS, "window": 320 // size, "group_size": size}
    many = agreed(*owners, **terms)
    few, of = as_few(many), bundled_participants(many).of_owner
    assert many.n_participants == 320 // size
    assert few.n_owners == few.n_participants <= MOST + 2
    assert loudness(few) == pytest.approx(loudness(many), rel=1e-9)
    for group in Participants.of(many).members:
        assert len(set(of[list(group)].tolist())) == 1
    assert few.queries == 3 * few.n_owners
    problem, runs = Problem.forecasting(many, rows()), 300
    whole = simulate(problem, runs=runs, seed=1, record_at=(), alone=False, workers=1).relative_fitness.runs[:, -1]
    found = runs_in([problem.under], many, runs, seed=2).relative_fitness[0, :, -1]
    assert abs(whole.mean() - found.mean()) < 6 * np.sqrt((whole.var() + found.var()) / runs)
    assert found.std() == pytest.approx(whole.std(), rel=0.4)


def test_the_bundle_of_a_group_holds_what_its_members_hold():
    """Where owners differ a group is the mean of its members: its gradient is that of all of them."""
    many = agreed({"count": 64}, **{**ROUNDS, "window": 2, "group_size": 32})
    (world,) = heterogeneous_worlds(PublicSample(Problem.forecasting(many, rows())), many, [0.3])
    few = _mixed(world.problem(as_few(many)), world.problem, many)
    held, θ = world.problem(many).unbounded, np.array([0.3, -0.1])

    def gradient(records):
        share = records.weight / records.weight.sum()
        return share @ few.loss.gradients(θ, records.features, records.target)

    for group, one in zip(Participants.of(many).members, few.unbounded, strict=True):
        np.testing.assert_allclose(gradient(one), np.mean([gradient(held[i]) for i in group], axis=0), rtol=1e-9)
    assert np.std([gradient(one) for one in held], axis=0).max() > 1e-3


def answering_once(epsilon, few, more):
    """20 owners of two sizes that each release a model."""
    kinds = ({"count": 12, "records": few, "epsilon": epsilon}, {"count": 8, "records": more, "epsilon": 2 * epsilon})
    many = agreed(*kinds, mechanism="objective", rule="A2", answers=1, horizon=20, step=1.0, start=[0.5, -1.0])
    assert many.n_owners > DEALT_OWNERS
    return many


def each_by_itself(world, many, runs):
    """ψ of runs in which each owner fits to its own records of the world."""
    dealt = world.dealt().problem(many)
    return simulate(dealt, runs=runs, seed=1, record_at=(), alone=False, workers=1).relative_fitness.runs[:, -1]


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_average_of_many_models_is_as_far_off_as_that_of_all(loss):
    """20 owners, each fitted by itself, against what one model's spread says of their average."""
    many = answering_once(1.0, 60, 90).replace(model={"loss": loss})
    sample = PublicSample.of(Problem.forecasting(many, rows(labels=loss == "logistic")))
    worlds = sample.drawn(15, 0)
    whole = np.concatenate([each_by_itself(world, many, 4) for world in worlds])
    found = runs_in([world.pool.under for world in worlds], many, 4, seed=2).relative_fitness[..., -1]
    assert found.mean() == pytest.approx(whole.mean(), rel=0.35)
    assert abs(found.mean() - whole.mean()) < 6 * np.sqrt((whole.var() + found.var()) / len(worlds))


def differing(number, **terms):
    """So many owners, each with records and ε of its own."""
    rng = np.random.default_rng(4)
    sizes, budgets = rng.integers(30, 300, number).tolist(), (10 ** rng.uniform(-0.5, 1.0, number)).tolist()
    return agreed(*({"records": n, "epsilon": ε} for n, ε in zip(sizes, budgets, strict=True)), **terms)


@pytest.mark.slow
def test_owners_that_all_differ_are_few_groups_with_the_noise_and_the_bias_of_all():
    once = {"mechanism": "objective", "rule": "A2", "answers": 1, "horizon": 90, "step": 1.0, "start": [0.5, -1.0]}
    many = differing(90, **once)
    problem = Problem.forecasting(many, rows())
    groups = _groups(problem, many.mechanism)
    assert len(groups) == MOST_GROUPS
    assert sum(one.weight for one in groups) == pytest.approx(1.0)
    w, n, ε = many.weights, many.records, many.epsilons
    typical = [one.terms.owner_tables[0] for one in groups]
    noise = [one.squares / (o.records * o.epsilon) ** 2 for one, o in zip(groups, typical, strict=True)]
    assert sum(noise) == pytest.approx(float(np.sum((w / (n * ε)) ** 2)), rel=1e-9)
    bias = [one.weight / o.records for one, o in zip(groups, typical, strict=True)]
    assert sum(bias) == pytest.approx(float(np.sum(w / n)), rel=0.01)  # records are whole numbers
    worlds = PublicSample.of(problem).drawn(8, 0)
    whole = [each_by_itself(world, many, 4) for world in worlds]
    found = runs_in([world.pool.under for world in worlds], many, 4, seed=2).relative_fitness[..., -1]
    error = np.sqrt((np.var(whole) + np.var(found)) / 8)
    assert abs(np.mean(found) - np.mean(whole)) < 6 * error
    assert np.mean(found) == pytest.approx(np.mean(whole), rel=0.35)


def test_many_owners_that_differ_in_turns_are_bundles_of_similar_noise():
    turns = {**ROUNDS, "window": 1, "schedule": "random-order", "answers": 1}
    few, many = (differing(n, step=2.0 / n, **{k: v for k, v in turns.items() if k != "step"}) for n in (MANY, 600))
    assert as_few(few) is few
    bundled = as_few(many)
    assert (bundled.n_owners, bundled.queries) == (MANY, MANY)
    assert loudness(bundled) == pytest.approx(loudness(many), rel=1e-9)
    assert bundled.step * MANY == pytest.approx(many.step * 600)
    problem, runs = Problem.forecasting(many, rows()), 100
    whole = simulate(problem, runs=runs, seed=1, record_at=(), alone=False, workers=1).relative_fitness.runs[:, -1]
    found = runs_in([problem.under], many, runs, seed=2).relative_fitness[0, :, -1]
    error = np.sqrt((whole.var() + found.var()) / runs)
    assert abs(whole.mean() - found.mean()) < 6 * error + 0.02 * whole.mean()


@pytest.mark.parametrize(("loss", "few", "more"), [("squared", 20, 30), ("logistic", 60, 90)])
def test_what_few_records_do_to_a_model_is_not_averaged_away(loss, few, more, monkeypatch):
    """With hardly any noise: the bias of a model of few records is what is left of the average of all.

    Were every owner taken to hold the whole pool, ψ would be 0.4 of what it is (squared), and 0.04 (logistic).
    """
    many = answering_once(1e4, few, more).replace(model={"loss": loss})
    public = Problem.forecasting(many, rows(labels=loss == "logistic"))
    sample = PublicSample.of(public)
    whole = np.mean([each_by_itself(world, many, 2) for world in sample.drawn(12, 0)])
    found = runs_in([world.pool.under for world in sample.drawn(12, 0)], many, 2, seed=2).relative_fitness[..., -1]
    assert 0.6 * whole < np.mean(found) < 1.7 * whole
    # And a plan weighs it as a forecast says it.
    monkeypatch.setattr(planner, "plan_one_answer", lambda *args, **kwargs: many)
    whole = np.mean([each_by_itself(world, many, 2) for world in sample.drawn(planner.FINALIST_WORLDS, 0)])
    weighed = planner.measure_one_answer(Bounded(public, sample, {}, {}), many.mechanism, True, True, 12, 0)
    assert 0.5 * whole < weighed.relative_fitness < 2.0 * whole


def test_runs_do_not_depend_on_where_records_lie_in_memory():
    """A forecast of the same seed is the same in every process: kinds of owners draw their noise in the owners' order."""
    many = answering_once(1.0, 60, 90)
    (world,) = heterogeneous_worlds(PublicSample(Problem.forecasting(many, rows())), many, [0.3])
    problem = world.problem(many)
    distinct = list({id(one): one for one in problem.unbounded}.values())
    found = []
    for backwards in (False, True):
        blank = sorted((object.__new__(Records) for _ in distinct), key=id, reverse=backwards)
        for one, held in zip(blank, distinct, strict=True):
            vars(one).update(vars(held))
        copied = dict(zip(map(id, distinct), blank, strict=True))
        same = replace(problem, unbounded=tuple(copied[id(one)] for one in problem.unbounded))
        found.append(runs_in([same.under], many, 4, seed=2).theta)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_statistics_of_many_are_those_of_all():
    many = agreed({"count": 40}, {"count": 20, "records": 200, "epsilon": 0.3}, mechanism="statistics", rule="A2",
                  answers=1, horizon=60, step=1.0, start=[0.5, -1.0], moments_share=0.4)  # fmt: skip
    problem, runs = Problem.forecasting(many, rows()), 400
    whole = simulate(problem, runs=runs, seed=1, record_at=(), alone=False, workers=1).relative_fitness.runs[:, -1]
    found = runs_in([problem.under], many, runs, seed=2).relative_fitness[0, :, -1]
    assert abs(found.mean() - whole.mean()) < 6 * np.sqrt((whole.var() + found.var()) / runs)
    assert np.median(found) == pytest.approx(np.median(whole), rel=0.3)


def test_many_owners_that_differ_are_the_pool_together():
    """Whoever holds what, the mean gradient of all is that of the pool: of owners, and of their bundles."""
    many = agreed({"count": 70}, {"count": 30, "records": 200}, data={"heterogeneity": 0.3})
    sample = PublicSample(Problem.forecasting(many, rows()))
    world = heterogeneous_worlds(sample, many, [0.3])[0]
    theta = np.array([0.3, 0.1])
    pooled = world.pool.fitness.gradient(theta)
    for terms in (many, as_few(many)):
        problem = world.problem(terms)
        assert len({id(records) for records in problem.owners}) > 4
        of_each = {id(r): problem.fitness_of(r).gradient(theta) for r in problem.owners}
        mean = sum(w * of_each[id(r)] for w, r in zip(terms.weights, problem.owners, strict=True))
        assert mean == pytest.approx(pooled, rel=0.02, abs=0.02 * float(np.abs(pooled).max()))


@pytest.fixture
def _few_candidates(monkeypatch):
    monkeypatch.setattr(candidates, "ANSWERS", (1, 4))
    monkeypatch.setattr(candidates, "GRADIENT_BOUNDS", 6)
    monkeypatch.setattr(planner, "FINALISTS", 2)
    monkeypatch.setattr(planner, "FINALIST_WORLDS", 2)


def _numbers(value):
    if isinstance(value, dict):
        return {k: _numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    return pytest.approx(value, rel=1e-6, abs=1e-9) if isinstance(value, float) else value


@pytest.mark.parametrize("terms", [{}, {**ROUNDS, "window": 40}])
def test_terms_of_equal_owners_written_out_and_counted_cost_the_same(terms):
    counted = agreed({"count": 40}, data={"heterogeneity": 0.1}, **terms)
    written = counted.replace(owner=[{"name": name, "records": 60, "epsilon": 1.0} for name in counted.owner_names])
    one, other = (
        assess(Problem.forecasting(each, rows()), "", runs=32).relative_fitness for each in (counted, written)
    )
    for key in ("mean", "median", "low", "high"):
        np.testing.assert_allclose(getattr(one, key), getattr(other, key), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("_few_candidates")
@pytest.mark.parametrize("number", [12, 40])
def test_equal_owners_written_out_and_counted_have_one_forecast(number):
    kind = {"records": 60, "epsilon": 1.0}
    base = agreed({}, rule="auto", step="auto", data={"feature_bound": "auto", "heterogeneity": [0.01, 0.1]}).to_dict()
    base["agreement"].pop("answers")
    base["model"]["gradient_bound"] = "auto"
    counted = Agreement.of({**base, "owner": [{"name": "bank", **kind, "count": number}]})
    written = Agreement.of({**base, "owner": [{"name": name, **kind} for name in counted.owner_names]})
    short, long = (json.loads(forecast(terms, rows(), runs=32).to_json()) for terms in (counted, written))
    (one,) = short.pop("owners")
    each = long.pop("owners")
    for key in ("verdict", "advice_in_words"):  # names
        short.pop(key), long.pop(key)
    alone, of_each = short["on_new_records"].pop("alone"), long["on_new_records"].pop("alone")
    assert number * alone == _numbers(of_each)  # a number for each table of owners, as in "owners"
    for one_share, each_share in zip(short["pilot_outlook"]["shares"], long["pilot_outlook"]["shares"], strict=True):
        for key in ("settles", "epsilon"):
            assert number * one_share.pop(key) == _numbers(each_share.pop(key))
    assert short == _numbers(long)
    assert len(each) == number
    for owner in each:
        got, expected = {**owner}, {**one}
        assert expected.pop("count") == number
        assert got.pop("count") == 1
        assert expected.pop("number_in_best_subset") == number * got.pop("number_in_best_subset")
        for key in ("name", "shapley", "shapley_error"):
            got.pop(key), expected.pop(key)
        assert got == _numbers(expected)
        error = np.hypot(owner["shapley_error"], one["shapley_error"])
        assert abs(owner["shapley"] - one["shapley"]) <= 6 * error + 1e-9


def test_the_agreement_with_one_owner_is_the_one_that_would_be_checked() -> None:
    """It is made without checks, because they would be of all owners for each of them."""
    owners = [
        {"name": "held by three", "records": 100, "epsilon": 0.7, "overlap": 3, "delta": 0.3, "weight": 2.0},
        {"name": "alike", "records": 7, "epsilon": 2.0, "count": 3, "weight": 1.0},
    ]
    agreement = Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 100, "answers": 5, "step": 1.0},
            "model": {"loss": "squared", "regularization": 1e-5, "theta_max": 100.0, "gradient_bound": 5.0},
            "owner": owners,
        }
    )
    assert agreement.n_owners == 4
    for i, changed in enumerate([{"overlap": 1, "epsilon": 0.7 / 3, "delta": 0.3 / 3}, {}]):
        kept = {key: value for key, value in owners[i].items() if key not in ("count", "weight")}
        checked, made = agreement.replace(owner=[{**kept, **changed}]), _of_one(agreement, i)
        assert made == checked
        assert (made.fingerprint, hash(made), made.n_owners) == (checked.fingerprint, hash(checked), 1)

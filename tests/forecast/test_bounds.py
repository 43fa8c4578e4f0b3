"""The bounds' constants by hand, their conditions, and that those for this T do hold on runs whose law is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.agreement import Agreement
from copriv.errors import InvalidInput
from copriv.exact import OwnerKinds, expected_cost
from copriv.forecast.forecaster import setting_of
from copriv.model.fitness import Quadratic, Regularizer
from copriv.problem import Problem
from copriv.rules import named
from copriv.rules.async_copies import a_as_printed, a_theorem_2
from copriv.rules.bounds import Setting, on_parameters
from copriv.rules.synchronous import s_theorem_2, s_theorem_3
from copriv.simulation import simulate
from recursions import recursion_of


def setting(**changes):
    values = {
        "gradient_bound": 2.0,
        "regularizer_bound": 1.0,
        "n_parameters": 9,
        "total_records": 100.0,
        "epsilon": np.array([1.0, 0.5]),
        "horizon": 10,
        "step": 3.0,
        "strong_convexity": 0.5,
        "smoothness": 4.0,
        "regularization": 0.1,
    }
    return Setting(**(values | changes))


def test_s_theorem_2_by_hand():
    published, dimension, smoothness = s_theorem_2(setting())
    # S₂ = 1 + 4; 8·4·3·5/(0.5·10⁴)
    assert published.value == pytest.approx(0.096)
    assert dimension.value == pytest.approx(9 * 0.096)
    assert smoothness.value == pytest.approx(2 * 9 * 0.096)
    assert not any(b.conditions_met for b in (published, dimension, smoothness))
    assert "T = 10" in published.holds_for
    assert "erratum 4" in published.holds_for
    capped = s_theorem_2(setting(answers=5))
    assert capped[0].value == published.value
    assert capped[1].value == pytest.approx(dimension.value / 4)


def test_conditions_that_fail_are_named():
    bounds = s_theorem_2(setting(strong_convexity=0.0, smoothness=math.inf, diameter=7.0))
    assert all(math.isinf(bound.value) and not bound.conditions_met for bound in bounds)
    assert "not so here: f strongly convex, f smooth, Θ unbounded" in bounds[-1].holds_for
    assert all(math.isinf(bound.value) for bound in s_theorem_3(setting()))
    assert "not so here: Θ bounded" in s_theorem_3(setting())[1].holds_for
    for bad in ({"regularization": 0.0}, {"regularizer_bound": math.inf}):
        assert all(math.isinf(bound.value) and not bound.conditions_met for bound in a_theorem_2(setting(**bad)))
    assert "not so here: ρ/T² ≤ 1/λ" in s_theorem_2(setting(step=1e4))[0].holds_for


def test_s_theorem_3_by_hand():
    published, last, average = s_theorem_3(setting(diameter=6.0))
    log = (2 + math.log(10)) / math.sqrt(10)
    # Ξ = 2, T = 10, n = 100: c₂ = 4√2·6·10·log and c₂(Ξ/n)√5
    assert published.value == pytest.approx(4 * math.sqrt(2) * 6 * 10 * log * 0.02 * math.sqrt(5))
    second_moment = 9 + 8 * 9 * (2 * 10 / 100) ** 2 * 5
    assert last.value == pytest.approx((36 / 3 + 3 * second_moment) * log)
    assert last.conditions_met
    assert average.conditions_met
    assert not published.conditions_met
    # θ̄[T] itself, as a sum of the θ[k]
    weights = np.zeros(10)
    for k in range(1, 10):
        new = (10**-0.5 + 1) / (10**-0.5 + k)
        weights *= 1 - new
        weights[k] = new
    assert weights.sum() == pytest.approx(1)
    assert (np.diff(weights[1:]) > 0).all()
    by_hand = weights[9] * 36 * 3 / 6 + 1.5 * second_moment * sum(weights[k] / math.sqrt(k) for k in range(1, 10))
    assert average.value == pytest.approx(by_hand)


@pytest.mark.parametrize("N", [2, 3, 7])
def test_a_theorem_2_by_hand(N):
    ε = np.linspace(0.5, 2.0, N)
    s = setting(epsilon=ε)
    published, corrected = a_theorem_2(s)
    star = np.zeros((N + 1, N + 1))  # E[WᵀW] = E W, W averaging the learner with one owner
    for i in range(N):
        e = np.zeros(N + 1)
        e[i], e[N] = 1, -1
        star += (np.eye(N + 1) - np.outer(e, e) / 2) / N
    λ = np.sort(np.linalg.eigvalsh(star))[-2]  # erratum 3
    for bound, p in ((published, 1), (corrected, 9)):
        C, α, σ = 3.0, 0.03, 0.1
        x = 2 * math.sqrt(2 * p) * 2.0 * 10 / (100 * ε) / C
        total = 1 + N * np.sum((1 + x) ** 2)
        root = 2 * N**2 * α * C**2 * math.sqrt(N + 1) / (σ**2 * (1 - math.sqrt(λ))) * math.sqrt(total)
        assert bound.value == pytest.approx(N * α * C**2 / σ**2 * total + root)
        assert bound.quantity == "squared parameter error"
        assert not bound.conditions_met
    costs = a_theorem_2(s, "cost")
    assert costs[1].value == pytest.approx(3.0 * math.sqrt(corrected.value))


def test_a_million_owners_have_a_finite_bound():
    assert math.isfinite(a_theorem_2(setting(epsilon=np.ones(10**6)))[1].value)


@given(st.integers(0, 10**6), st.integers(2, 40), st.floats(0.05, 1.0))
def test_bounds_at_this_t_are_above_the_exact_cost(seed, T, share):
    """A squared loss whose exact law is known: θ stays in Θ as the noise is small beside it."""
    rng = np.random.default_rng(seed)
    p, n, ε = 3, 50_000.0, np.array([1.0, 3.0])
    X = rng.normal(size=(40, p)) * [1.0, 0.5, 0.2]
    quadratic = Quadratic(X.T @ X / 40, X.T @ rng.normal(size=40) / 40, 1.0, Regularizer(0.01))
    eigenvalues = np.linalg.eigvalsh(quadratic.hessian)
    L, λ = float(eigenvalues[0]), float(eigenvalues[-1])
    best = quadratic.free_minimum()
    start = best + rng.normal(size=p)
    D = 4 * float(np.linalg.norm(start - best))
    # A gradient bound over {‖θ − θ*‖ ≤ D/2}, where every run of these two rules stays
    Ξ = math.sqrt(p) * λ * D / 2
    noise = 2 * Ξ * T / (np.array([0.4, 0.6]) * n * ε)
    owners = OwnerKinds.of(np.array([0.4, 0.6]) * n, noise)
    common = {
        "gradient_bound": Ξ, "regularizer_bound": 0.0, "n_parameters": p, "total_records": n, "epsilon": ε,
        "horizon": T, "strong_convexity": L, "smoothness": λ,
    }  # fmt: skip
    step = share / λ
    _, last, average = s_theorem_3(Setting(step=step, diameter=D, **common))
    assert expected_cost(recursion_of("S2 last", step, T), quadratic, owners, T, start)[-1] <= last.value
    assert expected_cost(recursion_of("S2", step, T), quadratic, owners, T, start)[-1] <= average.value


def test_the_published_forms_fail_where_the_errata_say():
    """Erratum 5: n → ∞ and θ[1] ≠ θ*; and the missing λ/2: a steep f, started at θ*, costs more than S Thm 2 says."""
    T, Ξ, n, ε = 50, 1.0, 1e9, np.array([1.0])
    quadratic = Quadratic(np.eye(1), np.ones(1), 2.0, Regularizer(0.0))
    owners = OwnerKinds.of([n], [2 * Ξ * T / n])
    exact = expected_cost(recursion_of("S1", 1.0, T), quadratic, owners, T, np.zeros(1))
    common = {"gradient_bound": Ξ, "regularizer_bound": 0.0, "epsilon": ε, "horizon": T}
    published = s_theorem_2(
        Setting(step=1.0, n_parameters=1, total_records=n, strong_convexity=2.0, smoothness=2.0, **common)
    )[0]
    assert exact.min() > 1e6 * published.value
    p, steep = 4, 1000.0
    quadratic = Quadratic(steep / 2 * np.eye(p), np.zeros(p), 0.0, Regularizer(0.0))
    step = 0.5 * T**2 / steep
    exact = expected_cost(recursion_of("S1", step, T), quadratic, owners, T, np.zeros(p))
    steep_setting = Setting(
        step=step, n_parameters=p, total_records=n, strong_convexity=steep, smoothness=steep, **common
    )
    _, dimension, smoothness = s_theorem_2(steep_setting)
    assert exact[1] > dimension.value  # θ[2], one noisy step from the optimum
    assert exact[1:].max() <= smoothness.value


@pytest.mark.parametrize(
    "bad",
    [
        {"gradient_bound": 0.0},
        {"epsilon": np.array([1.0, 0.0])},
        {"epsilon": np.ones(0)},
        {"smoothness": math.nan},
        {"diameter": -1.0},
        {"step": math.inf},
        {"answers": 0},
    ],
)
def test_settings_that_mean_nothing_are_refused(bad):
    with pytest.raises(InvalidInput):
        setting(**bad)


# What an agreement adds to the papers' setting


def rows(n=300):
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(n, 2)) * 0.2
    return X, np.clip(X @ [0.8, -0.5] + 0.1 * rng.normal(size=n), -0.5, 0.5)


def agreed(owners=3, owner=None, model=None, **terms):
    model = {"loss": "squared", "theta_max": 1.0, "regularization": 0.1, "gradient_bound": "proved", **(model or {})}
    return Agreement.of(
        {
            "agreement": {"rule": "S2", "horizon": 4, "step": 2.0, "iterate": "last", **terms},
            "model": model,
            "data": {"feature_bound": 0.4},
            "owner": [{"name": f"o{i}", "records": 300, "epsilon": 1.0, **(owner or {})} for i in range(owners)],
        }
    )


def bounds_of(agreement, loss=None):
    problem = Problem.forecasting(agreement, rows(), loss)
    return named(agreement.agreement.rule).bounds(setting_of(problem)), problem


def last_iterate(agreement):
    bounds, _ = bounds_of(agreement)
    return next(bound for bound in bounds if "last iterate" in bound.source and bound.quantity == "cost")


def scales_and_moment(agreement):
    """What an engine adds, worked out from its own scales: Σ (w_i b_i)² · p · variance."""
    law = {"laplace": 2.0, "gaussian": 1.0}[agreement.agreement.mechanism]
    scales = np.array([agreement.mechanism.scale(agreement, owner) for owner in agreement.owner])
    return 2 * law * float(np.sum((agreement.weights * scales) ** 2))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"owners": 30, "owner": {"overlap": 30}},
        {"mechanism": "gaussian", "owner": {"delta": 1e-6}},
        {"answers": 2},
        {"preconditioner": [[0.5, 0.0], [0.0, 0.5]]},
    ],
)
def test_a_bound_whose_conditions_are_met_is_above_what_is_measured(changes):
    agreement = agreed(**changes)
    agreement = agreement.replace(model={"gradient_bound": bounds_of(agreement)[1].agreement.gradient_bound})
    setting = setting_of(Problem.forecasting(agreement, rows()))
    assert setting.noise_moment == pytest.approx(scales_and_moment(agreement), rel=1e-12)
    bound = last_iterate(agreement)
    assert bound.conditions_met
    found = simulate(agreement, [rows()] * agreement.n_owners, runs=200, alone=False, seed=3)
    problem = Problem.of(agreement, [rows()] * agreement.n_owners)
    cost = float(found.relative_fitness.mean[-1]) * problem.optimum.value
    assert 0 < cost <= bound.value


def test_the_bound_knows_who_shares_records():
    """30 owners that all may hold the same record: 30 times the noise, which the bound was once below."""
    shared, own = agreed(30, {"overlap": 30}), agreed(30)
    W = {κ: setting_of(Problem.forecasting(a, rows())).noise_moment for κ, a in ((30, shared), (1, own))}
    assert W[30] == pytest.approx(900 * W[1], rel=1e-12)
    assert last_iterate(shared).value > last_iterate(own).value


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model": {"gradient_bound": 0.01}}, "no gradient ever clipped"),
        ({"model": {"gradient_bound": 0.01, "gradient_bound_assumed": True}}, "no gradient ever clipped"),
        ({"preconditioner": [[0.5, 0.0], [0.0, 0.6]]}, "no preconditioner"),
        ({"preconditioner": [[0.5, 0.1], [0.1, 0.5]]}, "no preconditioner"),
        ({"start": [0.0, 3.0]}, "the start in Θ"),
        ({"weights": (1.0, 1.0, 4.0)}, "owners weigh n_i/n"),
    ],
)
def test_what_no_proof_covers_is_named(changes, why):
    weights = changes.pop("weights", None)
    agreement = agreed(**changes)
    if weights is not None:
        agreement = agreement.replace(
            owner=[{**o, "weight": w} for o, w in zip(agreement.to_dict()["owner"], weights, strict=True)]
        )
    bounds, _ = bounds_of(agreement)
    assert bounds
    assert not any(bound.conditions_met for bound in bounds)
    assert all(f"not so here: {why}" in bound.holds_for for bound in bounds)


def test_clipped_runs_leave_the_bound_behind():
    """Why clipping must count: a bound for the Ξ that clips says less than what clipped runs cost."""
    X, y = np.full((50, 1), 0.4), np.full(50, 0.5)
    agreement = Agreement.of(
        {
            "agreement": {"rule": "S2", "horizon": 400, "step": 0.5, "iterate": "last"},
            "model": {"loss": "squared", "theta_max": 1.0, "gradient_bound": 1e-5},
            "data": {"feature_bound": 0.4},
            "owner": [{"name": "a", "records": 50, "epsilon": 1e9}],
        }
    )
    problem = Problem.forecasting(agreement, (X, y))
    bound = s_theorem_3(setting_of(problem))[1]
    unaware = s_theorem_3(replace(setting_of(problem), assumed=()))[1]
    found = simulate(agreement, [(X, y)], runs=2, alone=False)
    θ_star = problem.optimum.theta
    cost = float(problem.fitness.value(found.theta[0]) - problem.fitness.value(θ_star))
    assert found.clipped == 1.0
    assert not bound.conditions_met
    assert unaware.conditions_met
    assert cost > 0.005


def test_groups_are_participants_whose_noise_adds_up():
    group = agreed(4, {"group": "g"}, rule="A1", step=1.0)
    alone = agreed(4, rule="A1", step=1.0)
    together, single = (setting_of(Problem.forecasting(a, rows())) for a in (group, alone))
    assert (len(together.epsilon), len(single.epsilon)) == (1, 4)
    assert together.epsilon[0] == pytest.approx(0.5)  # Σ ε⁻² = 4
    assert together.noise_moment == pytest.approx(single.noise_moment)


def test_bounds_on_the_parameters():
    """S (10), (12): 4/L as printed; 2/L by the curvature at a minimum over Θ, which is enough: f = L/2·θ² has equality."""
    s = setting(diameter=6.0)
    for costs in (s_theorem_2(s), s_theorem_3(s)):
        found = on_parameters(costs, s)
        assert [b.value for b in found] == pytest.approx(
            [c.value * (4 if i == 0 else 2) / 0.5 for i, c in enumerate(costs)]
        )
        assert {b.quantity for b in found} == {"squared parameter error"}
        assert [b.conditions_met for b in found] == [c.conditions_met for c in costs]
    assert on_parameters(costs, setting(strong_convexity=0.0)) == ()
    assert [len(named(rule).bounds(s)) for rule in ("S1", "S2", "A1", "A2")] == [6, 6, 6, 0]


def test_a_in_its_printed_form():
    s, C, σ, N = setting(), 3.0, 0.1, 2
    S = 1 / 100 + N * ((0.1 + 2 * math.sqrt(2) / 100) ** 2 + (0.1 + 2 * math.sqrt(2) / 50) ** 2)
    c1 = N * C**2 / σ**2
    c2 = 2 * N**2 * C**2 * math.sqrt(N + 1) / (σ**2 * (1 - math.sqrt(1 - 1 / (2 * N))))
    printed = a_as_printed(s)
    assert printed.value == pytest.approx(3.0 * (c1 * math.sqrt(S) + c2 * S))
    assert a_as_printed(s, "cost").value == pytest.approx(C * math.sqrt(printed.value))
    assert "eq. (9)" in a_as_printed(s, "cost").source
    assert not printed.conditions_met
    assert math.isinf(a_as_printed(setting(regularization=0.0)).value)

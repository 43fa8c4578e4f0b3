"""The batched simulation and a brute-force second writing agree to 1e-9, fed the same noise and schedule."""

import numpy as np
import pytest

import oracle
from copriv import losses
from copriv.agreement import Agreement
from copriv.model.records import Records
from copriv.problem import Problem
from copriv.schedules import Replay
from copriv.simulation import simulate

RUNS, P = 3, 3
SIZES = (5, 9, 12, 4)
LOSSES = {"squared": "squared", "logistic": "logistic", "hinge": "hinge", "huber": ("huber", 0.7)}
BOUNDS = {"clips nothing": 1e6, "clips some": 1.1, "clips nearly all": 0.05}


def consortium(loss: str, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    data = []
    for n in SIZES:
        X = rng.normal(size=(n, P))
        y = X @ rng.normal(size=P) + rng.normal(size=n)
        data.append((X, np.where(y > 0, 1.0, -1.0) if loss in ("logistic", "hinge") else y))
    return data


def agreed(rule: str, loss: str, bound: float, **terms: object) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": rule, "horizon": 14, "step": 0.5, "start": [0.3, -0.2, 0.1], **terms},
            "model": {
                "loss": loss,
                "threshold": 0.7,
                "regularization": 0.05,
                "theta_max": 0.9,
                "gradient_bound": bound,
            },
            "data": {"feature_bound": 0},
            "owner": [{"name": f"o{i}", "records": n, "epsilon": 0.5 + i} for i, n in enumerate(SIZES)],
        }
    )


def brute_force(agreement, data, noise, schedule, run):
    """The same run by the oracle: the models that simulate records."""
    terms, model = agreement.agreement, agreement.model
    owners = [[(x, float(t)) for x, t in zip(X, y, strict=True)] for X, y in data]
    bound = None if model.gradient_bound_assumed else agreement.gradient_bound
    scales = [
        oracle.noise_scale(agreement.gradient_bound, agreement.answers, o.records, o.epsilon, o.overlap)
        for o in agreement.owner
    ]
    common = (LOSSES[model.loss], owners, bound, model.regularization, agreement.step, terms.horizon)
    start = np.array(terms.start)
    if agreement.synchronous:
        drawn = [[scales[i] * noise[k][run, i] for i in range(len(owners))] for k in range(terms.horizon - 1)]
        if terms.rule == "S1":
            return oracle.run_s1(*common, start, drawn)
        last, averaged = oracle.run_s2(*common, model.theta_max, start, drawn)
        return averaged if terms.iterate == "averaged" else last
    drawn = [scales[i] * noise[k][run, 0] for k, i in enumerate(schedule)]
    if terms.rule == "A1":
        rates = np.array([o.rate for o in agreement.owner])
        shares = rates / rates.sum() if terms.schedule == "poisson" else None
        return oracle.run_a1(
            *common, model.theta_max, start, drawn, schedule, learner_step=terms.learner_step, shares=shares
        )
    return oracle.run_a2(*common, model.theta_max, start, drawn, schedule)


def both(agreement, data, loss):
    rng = np.random.default_rng(11)
    members = len(SIZES) if agreement.synchronous else 1
    noise = [rng.laplace(size=(RUNS, members, P)) for _ in range(14)]
    schedule = rng.integers(len(SIZES), size=14).tolist()
    problem = Problem.of(agreement, data)
    result = simulate(
        problem,
        runs=RUNS,
        record_at=range(20),
        noise=lambda k: noise[k],
        schedule=Replay([(float(k), i) for k, i in enumerate(schedule)]),
        alone=False,
    )
    owners = [[(x, float(t)) for x, t in zip(X, y, strict=True)] for X, y in data]
    best = oracle.fitness(LOSSES[loss], owners, problem.optimum.theta, agreement.model.regularization)
    for run in range(RUNS):
        models = brute_force(agreement, data, noise, schedule, run)
        psi = [oracle.fitness(LOSSES[loss], owners, m, agreement.model.regularization) / best - 1 for m in models]
        np.testing.assert_allclose(result.theta[run], models[-1], atol=1e-9)
        np.testing.assert_allclose(result.relative_fitness.runs[run], psi, rtol=1e-9, atol=1e-9)
    return result


@pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("rule", ["S2", "A1", "A2"])
def test_every_rule_and_loss(rule, loss, bound):
    result = both(agreed(rule, loss, bound), consortium(loss, 1), loss)
    if bound == 1e6:
        assert result.clipped == 0
    if bound == 0.05:
        assert result.clipped > 0.5


@pytest.mark.parametrize("loss", LOSSES)
def test_s1_inside_the_box(loss):
    both(agreed("S1", loss, 1.1, step=2.0).replace(model={"theta_max": 1e5}), consortium(loss, 2), loss)


@pytest.mark.parametrize("terms", [{"iterate": "last"}, {"horizon": 14, "step": 0.01}])
def test_s2_iterates(terms):
    both(agreed("S2", "squared", 1.1, **terms), consortium("squared", 3), "squared")


@pytest.mark.parametrize("step", ["printed", "corrected"])
def test_a1_learner_steps(step):
    both(agreed("A1", "squared", 1.1, learner_step=step, step=5.0), consortium("squared", 4), "squared")


def test_a1_frequency_correction():
    agreement = agreed("A1", "squared", 1.1, schedule="poisson", step=5.0)
    owners = [{**o, "rate": 1.0 + i} for i, o in enumerate(agreement.to_dict()["owner"])]
    both(agreement.replace(owner=owners), consortium("squared", 4), "squared")


def test_assumed_bound_clips_nothing_and_says_so():
    agreement = agreed("A2", "squared", 0.05).replace(model={"gradient_bound_assumed": True})
    result = both(agreement, consortium("squared", 5), "squared")
    assert result.clipped == 0
    assert not result.bound_enforced
    assert "nothing enforces it" in result.to_json()


def test_a2_in_windows():
    """θ moves after every third answer only, by three steps; two answers at one θ count as their mean."""
    agreement, data = agreed("A2", "squared", 1.1, window=3), consortium("squared", 8)
    rng = np.random.default_rng(2)
    noise, schedule = [rng.laplace(size=(1, 1, P)) for _ in range(9)], [0, 1, 1, 2, 0, 3, 3, 3, 1]
    replay = Replay([(float(k), i) for k, i in enumerate(schedule)])
    result = simulate(agreement, data, runs=1, noise=lambda k: noise[k], schedule=replay, alone=False)
    scales, theta, newest = agreement.noise_scales(), np.array([0.3, -0.2, 0.1]), {}
    for first in range(0, 9, 3):
        here: dict[int, list[np.ndarray]] = {}
        for k in range(first, first + 3):
            i = schedule[k]
            rows = list(zip(*data[i], strict=True))
            here.setdefault(i, []).append(
                oracle.private_answer("squared", rows, theta, 1.1, scales[i] * noise[k][0, 0])
            )
        newest |= {i: np.mean(answers, axis=0) for i, answers in here.items()}
        heard = sum(SIZES[i] for i in newest)
        G = sum(SIZES[i] / heard * a for i, a in newest.items())
        theta = np.clip(theta - 3 * 0.5 / (1 + (first + 3) / 4) * (0.05 * theta + G), -0.9, 0.9)
    np.testing.assert_allclose(result.theta[0], theta, atol=1e-9)


def test_persons_weigh_one_each():
    rng = np.random.default_rng(0)
    X, y, person = rng.normal(size=(40, P)), rng.normal(size=40), rng.integers(9, size=40)
    records = Records.of_persons(X, y, person, most_records=4)
    theta = rng.normal(size=P)
    expected = np.zeros(P)
    for who in range(9):
        rows = np.flatnonzero(person == who)[:4]
        clipped = [oracle.clip_l1(oracle.loss_gradient("squared", theta, X[r], y[r]), 0.8) for r in rows]
        expected += np.mean(clipped, axis=0) / 9
    from copriv.privacy.clipping import clipped_mean_gradient

    assert records.units == 9
    np.testing.assert_allclose(clipped_mean_gradient(losses.Squared(), records, theta, 0.8), expected, atol=1e-12)


def test_groups_are_one_fictitious_owner():
    """A Remark 2: a group's answer is Σ (n_i/n_G) Q̄_i with every member's own noise."""
    agreement = agreed("A2", "squared", 1.1)
    owners = agreement.to_dict()["owner"]
    for owner, group in zip(owners, ("g", "g", "h", "g"), strict=True):
        owner["group"] = group
    agreement = agreement.replace(owner=owners)
    data = consortium("squared", 6)
    rng = np.random.default_rng(3)
    noise = [rng.laplace(size=(1, 3, P)) for _ in range(6)]
    schedule = [0, 1, 0, 0, 1, 0]
    result = simulate(
        agreement,
        data,
        runs=1,
        noise=lambda k: noise[k],
        schedule=Replay([(float(k), g) for k, g in enumerate(schedule)]),
        alone=False,
    )
    scales = agreement.noise_scales()
    members = [[0, 1, 3], [2]]
    theta, newest = np.array([0.3, -0.2, 0.1]), {}
    for k, g in enumerate(schedule, start=1):
        answers = [
            oracle.private_answer(
                "squared", list(zip(*data[i], strict=True)), theta, 1.1, scales[i] * noise[k - 1][0, j]
            )
            for j, i in enumerate(members[g])
        ]
        sizes = [SIZES[i] for i in members[g]]
        newest[g] = (sum(sizes), oracle.group_answer(sizes, answers, sum(sizes)))
        heard = sum(n for n, _ in newest.values())
        G = sum(n / heard * a for n, a in newest.values())
        theta = np.clip(theta - 0.5 / (1 + k / 2) * (0.05 * theta + G), -0.9, 0.9)
    np.testing.assert_allclose(result.theta[0], theta, atol=1e-9)


def test_custom_loss_of_theta_and_of_prediction():
    data = consortium("squared", 7)
    agreement = agreed("A2", "squared", 1.1)
    rng = np.random.default_rng(5)
    noise = [rng.laplace(size=(2, 1, P)) for _ in range(14)]
    given = {"runs": 2, "noise": lambda k: noise[k], "seed": 4, "alone": False}
    named = simulate(agreement, data, **given)
    of_prediction = losses.CustomLinear("mine", lambda z, y: (z - y) ** 2, lambda z, y: 2 * (z - y), curvature=2.0)
    of_theta = losses.Custom("mine too", lambda t, X, y: (X @ t - y) ** 2, lambda t, X, y: 2 * (X @ t - y)[:, None] * X)
    for loss in (of_prediction, of_theta):
        own = simulate(Problem.of(agreement, data, loss=loss), **given)
        np.testing.assert_allclose(own.theta, named.theta, atol=1e-9)
        np.testing.assert_allclose(own.relative_fitness.runs, named.relative_fitness.runs, atol=1e-7)
        assert own.clipped == pytest.approx(named.clipped)

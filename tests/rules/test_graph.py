"""Owners on a graph: against plain loops that pass messages, the central learner, and impulses one by one."""

import itertools

import numpy as np
import pytest

import oracle
from copriv.agreement import Agreement
from copriv.display.forecast import notes
from copriv.display.simulation import details
from copriv.errors import AgreementError, UsageError
from copriv.exact import OwnersOnGraph, on_graph
from copriv.forecast import assessment, forecast
from copriv.forecast.what_if import without
from copriv.model.objective import Quadratic, Regularizer
from copriv.model.records import Records
from copriv.problem import Problem
from copriv.rules import named
from copriv.rules.graph import Graph
from copriv.simulation import own_learners, simulate
from copriv.simulation.own_records import on_own_records

NAMES = ("ring", "star", "complete", "grid", "random")


def agreed(owners=4, model=None, records=40, **terms):
    terms = {"rule": "S1", "horizon": 8, "step": 25.0, **terms}
    return Agreement.of(
        {
            "agreement": {key: value for key, value in terms.items() if value is not None},
            "model": {
                "loss": "squared",
                "regularization": 0.01,
                "gradient_bound": 1e3,
                "theta_max": 2.0,
                **(model or {}),
            },
            "data": {"feature_bound": 0.0, "heterogeneity": 0.0},
            "owner": [{"name": f"o{i}", "records": records + i, "epsilon": 1e5} for i in range(owners)],
        }
    )


def tables(owners=4, p=2, records=40):
    rng, found = np.random.default_rng(3), []
    for i in range(owners):
        X = rng.normal(size=(records + i, p))
        found.append((X, X @ np.arange(1.0, p + 1) / p + 0.4 * i + rng.normal(size=records + i)))
    return found


def edges_by_hand(name, N):
    if name == "ring":
        return {frozenset((i, (i + 1) % N)) for i in range(N)}
    if name == "star":
        return {frozenset((0, i)) for i in range(1, N)}
    if name == "complete":
        return {frozenset(pair) for pair in itertools.combinations(range(N), 2)}
    side = {4: 2, 6: 3, 9: 3}[N]
    at = {i: divmod(i, side) for i in range(N)}
    near = [(i, j) for i in at for j in at if abs(at[i][0] - at[j][0]) + abs(at[i][1] - at[j][1]) == 1]
    return {frozenset(pair) for pair in near}


@pytest.mark.parametrize(
    ("name", "N"), [("ring", 5), ("star", 4), ("complete", 6), ("grid", 4), ("grid", 6), ("grid", 9)]
)
def test_a_graph_by_name_has_its_edges_and_metropolis_weights(name, N):
    graph = Graph.of(agreed(N, graph=name))
    edges = edges_by_hand(name, N)
    degree = [sum(i in edge for edge in edges) for i in range(N)]
    for i in range(N):
        for j in range(N):
            wanted = 1 / (1 + max(degree[i], degree[j])) if frozenset((i, j)) in edges else 0.0
            if i == j:
                wanted = 1 - sum(1 / (1 + max(degree[i], degree[k])) for k in range(N) if frozenset((i, k)) in edges)
            assert graph.weights[i, j] == pytest.approx(wanted, abs=1e-14)


def test_the_spectral_gap_of_a_ring_is_the_textbooks():
    ring = Graph.of(agreed(8, graph="ring"))
    assert ring.spectral_gap == pytest.approx((2 - 2 * np.cos(np.pi / 4)) / 3, rel=1e-12)
    thrice = Graph.of(agreed(8, graph="ring", mixing=3))
    assert 1 - thrice.spectral_gap == pytest.approx((1 - ring.spectral_gap) ** 3, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_planned_mixing_lets_no_noise_count_more_than_a_twentieth_above_the_central_learners(name):
    """Metropolis or constant weights by trial over a grid of constants, and the fewest exchanges by matrix powers."""
    N, graph = 9, Graph.of(agreed(9, graph=name, mixing="auto"))
    adjacent, metropolis = graph.adjacent, Graph.of(agreed(9, graph=name))
    one = np.eye(N) - (np.diag(adjacent.sum(axis=1)) - 1.0 * adjacent) * (graph.edge_weight or 0.0)
    one = one if graph.edge_weight else metropolis.weights
    np.testing.assert_allclose(graph.weights, np.linalg.matrix_power(one, graph.exchanges), atol=1e-12)
    np.testing.assert_allclose(one.sum(axis=0), 1.0, atol=1e-12)

    def noise(exchanges):
        return N * np.diag(np.linalg.matrix_power(one, 2 * exchanges)).max()

    assert noise(graph.exchanges) <= 1.05
    assert graph.exchanges == 1 or noise(graph.exchanges - 1) > 1.05

    def gap(weights):
        return 1.0 - np.sort(np.abs(np.linalg.eigvalsh(weights)))[-2]

    laplacian = np.diag(adjacent.sum(axis=1)) - 1.0 * adjacent
    constants = max(gap(np.eye(N) - a * laplacian) for a in np.linspace(0.0, 1.0, 2001))
    assert gap(one) >= max(constants, metropolis.spectral_gap) - 1e-9
    assert gap(one) == pytest.approx(max(constants, metropolis.spectral_gap), abs=2e-3)


@pytest.mark.parametrize("tracking", [None, True])
def test_with_planned_mixing_the_exact_cost_of_noise_is_near_the_central_learners(tracking):
    """From the optimum, so that all of ψ is noise, for each graph; with one exchange it is more on a ring."""
    (X, y), N = (tables(1, records=360)[0], 9)
    data = [(X, y)] * N
    central = agreed(N, {"theta_max": 50.0}, 360, rule="S2", step=0.2, iterate="last", horizon=12)
    central = central.replace(owner=[{"name": f"o{i}", "records": 360, "epsilon": 1e4} for i in range(N)])
    start = tuple(Problem.of(central, data).optimum.theta)
    cost = {}
    for name, mixing in ((None, None), ("ring", None), *((name, "auto") for name in NAMES)):
        graph = {"graph": name, "mixing": mixing, "tracking": tracking if name else None, "start": start}
        problem = Problem.of(central.replace(agreement=graph), data)
        cost[name, mixing] = assessment._exact_mean(problem)[-1]
    assert cost["ring", None] > 1.05 * cost[None, None]
    for name in NAMES:
        assert 0.999 < cost[name, "auto"] / cost[None, None] < (1.05 if not tracking else 1.15)


def test_a_random_graph_follows_from_the_seed_and_has_at_most_four_neighbours():
    one, other = (Graph.of(agreed(40, graph="random", seed=seed)) for seed in (1, 2))
    assert (one.adjacent == Graph.of(agreed(40, graph="random", seed=1)).adjacent).all()
    assert (one.adjacent != other.adjacent).any()
    assert set(one.adjacent.sum(axis=1)) <= {2, 3, 4}


def test_owners_that_relays_join_are_neighbours():
    terms = agreed(4, graph=[["o0", "r"], ["r", "s"], ["s", "o1"], ["s", "o2"], ["o2", "o3"]], relays=["r", "s"])
    wanted = np.zeros((4, 4), dtype=bool)
    for i, j in ((0, 1), (0, 2), (1, 2), (2, 3)):
        wanted[i, j] = wanted[j, i] = True
    assert (Graph.of(terms).adjacent == wanted).all()


def by_messages(terms, data, noise, hub=False):
    """Every owner in its own loop: what it hears arrives in messages, from its neighbours or over a hub without records."""
    N, p, T = len(data), data[0][0].shape[1], terms.agreement.horizon
    n, graph = sum(len(y) for _, y in data), terms.agreement.graph
    edges = edges_by_hand("complete" if hub else graph, N)
    beside = [[j for j in range(N) if frozenset((i, j)) in edges] for i in range(N)]
    owners = [[(x, float(y)) for x, y in zip(X, Y, strict=True)] for X, Y in data]
    θ, u, average = [np.zeros(p) for _ in range(N)], [np.zeros(p) for _ in range(N)], [np.zeros(p) for _ in range(N)]

    def mixed(said):
        """What an owner makes of its own message and those that reach it, in the agreed number of exchanges."""
        for _ in range(terms.agreement.mixing or 1):
            inbox = [dict[int, np.ndarray]() for _ in range(N)]
            held = {i: said[i] for i in range(N)}  # what a hub was given, to pass on
            for i in range(N):
                for j in beside[i]:
                    inbox[i][j] = held[j] if hub else said[j]
            weight = [[1 / (1 + max(len(beside[i]), len(beside[j]))) for j in beside[i]] for i in range(N)]
            said = [
                (1 - sum(weight[i])) * said[i] + sum(w * inbox[i][j] for w, j in zip(weight[i], beside[i], strict=True))
                for i in range(N)
            ]
        return said

    for k in range(1, T):
        a = 25.0 / (T**2 * k) if terms.agreement.rule == "S1" else 0.2 / np.sqrt(k)
        d = []
        for i in range(N):
            answer = oracle.private_answer("squared", owners[i], θ[i], None, noise[k - 1, i])
            d.append(0.01 * θ[i] + N * len(owners[i]) / n * answer)
        followed = [d[i] + u[i] for i in range(N)]
        if terms.agreement.tracking:
            u = [new - mine for new, mine in zip(mixed(followed), d, strict=True)]
        η = 1 / np.sqrt(T)
        average = [(k - 1) / (η + k) * average[i] + (η + 1) / (η + k) * θ[i] for i in range(N)]
        θ = [oracle.project(new, 2.0) for new in mixed([θ[i] - a * followed[i] for i in range(N)])]
    averaged = terms.agreement.rule == "S2" and terms.agreement.iterate == "averaged"
    return np.array(average if averaged else θ)


CASES = [
    {"graph": "ring"},
    {"graph": "grid", "mixing": 3},
    {"graph": "star", "tracking": True},
    {"graph": "ring", "rule": "S2", "step": 0.2, "tracking": True, "mixing": 2},
    {"graph": "star", "rule": "S2", "step": 0.2, "iterate": "last"},
]


@pytest.mark.parametrize("case", CASES)
def test_a_simulated_run_is_that_of_owners_who_pass_messages(case):
    terms, data = agreed(**case), tables()
    noise = np.random.default_rng(5).laplace(size=(7, 1, 4, 2))
    found = simulate(terms, data, runs=1, noise=lambda k: noise[k], alone=False, own_records=False)
    loud = noise[:, 0] * terms.noise_scales()[:, None]
    np.testing.assert_allclose(found.graph.models[0], by_messages(terms, data, loud), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.theta, found.graph.models.mean(axis=1))


@pytest.mark.parametrize("rule", ["S1", "S2"])
@pytest.mark.parametrize("tracking", [None, True])
@pytest.mark.parametrize("exchanges", [None, 2])
def test_the_complete_graph_and_a_hub_that_relays_are_the_central_learner(rule, tracking, exchanges):
    central, data = agreed(rule=rule, step=25.0 if rule == "S1" else 0.2), tables()
    wanted = simulate(central, data, runs=5, seed=2, alone=False)
    for graph in ({"graph": "complete"}, {"graph": "star", "relays": ["hub"]}):
        terms = central.replace(agreement={**graph, "tracking": tracking, "mixing": exchanges})
        found = simulate(terms, data, runs=5, seed=2, alone=False)
        np.testing.assert_allclose(found.graph.models, np.repeat(wanted.theta[:, None], 4, axis=1), rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.relative_fitness.runs, wanted.relative_fitness.runs, rtol=0, atol=1e-12)
        assert [owner.noise_scale for owner in found.owners] == [owner.noise_scale for owner in wanted.owners]


def test_a_hub_without_records_relays_over_two_hops_to_the_central_learners_digits():
    terms, data = agreed(graph="star", relays=["hub"]), tables()
    noise = np.random.default_rng(6).laplace(size=(7, 1, 4, 2))
    loud = noise[:, 0] * terms.noise_scales()[:, None]
    central = simulate(terms.central(), data, runs=1, noise=lambda k: noise[k], alone=False, own_records=False)
    models = by_messages(terms, data, loud, hub=True)
    np.testing.assert_allclose(models, np.tile(central.theta, (4, 1)), rtol=0, atol=1e-12)


def impulses(terms, data, scales):
    """E f(θ_i) − f(θ*), mean over owners, after each number of rounds: the run without noise, and one for each draw of it."""
    T, (N, p) = terms.agreement.horizon, (len(data), data[0][0].shape[1])
    problem, costs = Problem.of(terms, data), []
    A = problem.fitness.quadratic.hessian
    best = problem.fitness.quadratic.free_minimum()

    def models(noise):
        found = simulate(problem, runs=1, noise=lambda k: noise[k], alone=False, own_records=False)
        return found.graph.models[0]

    for rounds in range(1, T):
        problem = Problem.of(terms.replace(agreement={"answers": rounds}), data)
        silent = models(np.zeros((T, 1, N, p)))
        cost = sum((θ - best) @ A @ (θ - best) for θ in silent)
        for place in itertools.product(range(rounds), range(N), range(p)):
            one = np.zeros((T, 1, N, p))
            one[place[0], 0, place[1], place[2]] = 1.0
            # The scale of the agreement at `rounds` answers is taken out, and that of all rounds put in.
            moved = (models(one) - silent) / problem.agreement.noise_scales()[place[1]] * scales[place[1]]
            cost += 2.0 * sum(θ @ A @ θ for θ in moved)
        costs.append(0.5 * cost / N)
    return costs


@pytest.mark.parametrize(
    "case", [{}, {"tracking": True}, {"rule": "S2", "step": 0.2, "tracking": True}, {"rule": "S2", "step": 0.2}]
)
@pytest.mark.parametrize("alike", [False, True])
def test_the_exact_mean_is_that_of_impulses_one_by_one(case, alike):
    N, terms = 3, agreed(3, {"theta_max": 1e5}, records=20, horizon=5, graph=[["o0", "o1"], ["o1", "o2"]], **case)
    rows = tables(N, records=20)
    data = rows
    if alike:  # the same records twice, so that sizes of owners differ and their second moments do not
        data = [tuple(np.concatenate([part] * (i + 1)) for part in rows[0]) for i in range(N)]
        owners = [{"name": f"o{i}", "records": 20 * (i + 1), "epsilon": 5.0 + i} for i in range(N)]
        terms = terms.replace(owner=owners)
    problem, g = Problem.of(terms, data), Regularizer(0.01)
    own = tuple(Quadratic.of(Records.of(*one), g) for one in data)
    if alike:
        own = (own[0],) * N
    scales = terms.noise_scales()
    owners = OwnersOnGraph(Graph.of(terms), bool(terms.agreement.tracking), terms.weights, scales, own)
    found = on_graph(problem.fitness.quadratic, owners, named(terms.agreement.rule).recursion(terms), np.zeros(2))
    np.testing.assert_allclose(found[1:], impulses(terms, data, scales), rtol=1e-7)


def test_tracking_ends_the_drift_of_owners_that_differ():
    data, quiet = tables(), np.zeros((1, 4, 2))
    terms = agreed(graph="ring", rule="S2", step=0.15, iterate="last", horizon=400)
    plain, tracked = (
        simulate(terms.replace(agreement={"tracking": one}), data, runs=1, noise=lambda k: quiet, own_records=False)
        for one in (None, True)
    )
    assert plain.relative_fitness.final["mean"] > 1e3 * tracked.relative_fitness.final["mean"]


def test_what_a_simulation_says_of_its_owners():
    terms = agreed(graph="ring").replace(owner={"epsilon": 20.0})
    found = simulate(terms, tables(), runs=6, seed=1)
    document, ψ = found.to_dict(), found.graph.relative_fitness
    assert document["graph"]["spectral_gap"] == pytest.approx(2 / 3)
    assert [owner["model"]["mean"] for owner in document["owners"]] == ψ.mean(axis=0).tolist()
    np.testing.assert_allclose(found.relative_fitness.runs[:, -1], ψ.mean(axis=1))
    assert document["graph"]["mean_model"]["mean"] < document["relative_fitness"]["final"]["mean"]
    problem = Problem.of(terms, tables())
    θ, optimum = found.graph.models, problem.optimum
    np.testing.assert_allclose(ψ, problem.fitness.value(θ) / optimum.value - 1, atol=1e-12)
    assert found.owners[2].own.together == on_own_records(problem, 2, θ[:, 2], 1).together
    assert any("the mean of theirs" in str(line) for line in details(found))
    halves = [simulate(terms, tables(), runs=3, seed=1, first_run=first) for first in (0, 3)]
    np.testing.assert_allclose(halves[0].merge(halves[1:]).graph.relative_fitness, ψ, rtol=1e-9)
    assert "graph" not in simulate(terms.central(), tables(), runs=2).to_dict()


def test_what_cannot_be_on_a_graph_is_refused():
    for terms, why in (
        ({"graph": "tree"}, "agreement.graph: must be"),
        ({"graph": [["o0", "o1"], ["o1", "o2"], ["o3", "o9"]]}, "'o9' is no owner"),
        ({"graph": [["o0", "o0"]]}, "to itself"),
        ({"graph": [["o0", "o1"], ["o2", "o3"]]}, "not connected: no edges lead from 'o0' to 'o2'"),
        ({"graph": [["o0", "o1"], ["o1", "o2"], ["o2", "o3"]], "relays": ["r"]}, "not connected"),
        ({"graph": "ring", "relays": ["r"]}, "only a star"),
        ({"graph": "star", "relays": ["o1"]}, "stands twice"),
        ({"graph": "ring", "robust": 1}, "no learner for robust"),
        ({"graph": "ring", "aggregation": "sum"}, "no learner for aggregation"),
        ({"graph": "ring", "pilot": 0.1}, "no learner for pilot"),
        ({"graph": "ring", "rule": "A2"}, "name S1 or S2"),
        ({"graph": "ring", "mechanism": "objective"}, "name S1 or S2"),
        ({"tracking": True}, "agreement.tracking: needs a graph"),
        ({"mixing": 2}, "agreement.mixing: needs a graph"),
    ):
        with pytest.raises(AgreementError, match=why):
            agreed(**terms)
    with pytest.raises(AgreementError, match="500 at most"):
        agreed(501, graph="ring")
    with pytest.raises(UsageError, match="on a graph"):
        own_learners(agreed(graph="ring"), tables(), runs=1)
    assert agreed(1, graph="ring").n_owners == 1
    assert not {"graph", "relays", "mixing", "tracking"} & agreed().to_dict()["agreement"].keys()


def test_a_graph_is_in_the_file_and_in_the_fingerprint(tmp_path):
    terms = agreed(graph=[["o0", "o1"], ["o1", "o2"], ["o2", "o3"]], mixing=2, tracking=True)
    (tmp_path / "agreement.toml").write_text(terms.to_toml())
    read = Agreement.load(tmp_path / "agreement.toml")
    assert read.fingerprint == terms.fingerprint
    assert len({read.fingerprint, agreed(graph="ring").fingerprint, agreed().fingerprint}) == 3


@pytest.mark.slow
def test_a_forecast_says_what_a_graph_costs_and_how_many_exchanges_are_enough():
    X, y = tables(1, records=400)[0]
    edges = [[f"o{i}", f"o{i + 1}"] for i in range(5)] + [["o0", "o5"]]
    terms = agreed(
        6, {"gradient_bound": 1e3, "theta_max": 1e5}, records=400, graph=edges, rule="S2", step=0.4, horizon=30
    )
    terms = terms.replace(owner={"epsilon": 100.0})
    found = forecast(terms, (X, y), runs=32)
    said = found.to_dict()["graph"]
    assert found.agreed.kind == "exact"
    assert found.recommended.agreement.agreement.graph is not None
    assert said["relative_fitness"] == found.agreed.relative_fitness.end["mean"] > said["central"]
    assert said["exchanges"] == 1 < said["enough"]
    assert said["times"] == said["relative_fitness"] / said["central"] > 1.05
    assert any(f"mixing = {said['enough']}" in line for line in notes(found))
    enough = forecast(terms.replace(agreement={"mixing": said["enough"]}), (X, y), runs=32).to_dict()["graph"]
    assert enough["times"] <= 1.05
    assert {bound.conditions_met for bound in found.bounds} == {False}
    left = without(found, ["o2"])
    assert left.others.to_dict()["graph"]["times"] > said["times"]  # the ring is open without it
    assert forecast(terms.central(), (X, y), runs=32).to_dict()["graph"] is None

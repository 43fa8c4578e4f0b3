"""The data market: every closed form against a dense scan or brute force, and each promise on random consortia."""

import itertools
import json
from dataclasses import replace
from math import factorial

import numpy as np
import pytest
from benchmarks.market import FACTORS, LIES, LOT, Consortia, better_off, exchanged, outcomes
from scipy.optimize import minimize

import copriv
from copriv.cli import run
from copriv.cli.console import tell
from copriv.display.market import told
from copriv.errors import AgreementError
from copriv.market import MECHANISMS
from copriv.market import mechanisms as posted
from copriv.market.allocation import _searched, coalition_values, shapley_shares
from copriv.market.costs import PrivacyCosts
from copriv.market.mechanisms import common, equal, even_epsilon, exchange, shapley
from copriv.terms import PrivacyCost

SHAPES = (
    PrivacyCost(linear=3.0), PrivacyCost(quadratic=2.0), PrivacyCost(threshold=0.5, above=4.0), PrivacyCost(linear=0.0),
    PrivacyCost(table=((0.5, 1.0), (1.0, 1.0), (2.0, 9.0))),
)  # fmt: skip


def price(cost, most, ε):
    """c(ε), written a second time."""
    if ε == 0:
        return 0.0
    if ε > most:
        return np.inf
    if cost.linear is not None:
        return cost.linear * ε
    if cost.quadratic is not None:
        return cost.quadratic * ε**2
    if cost.threshold is not None:
        return cost.above if ε > cost.threshold else 0.0
    if ε > cost.table[-1][0]:
        return np.inf
    return float(np.interp(ε, [0.0, *(x for x, _ in cost.table)], [0.0, *(y for _, y in cost.table)]))


@pytest.mark.parametrize("cost", SHAPES)
@pytest.mark.parametrize("most", [0.3, 4.0])
def test_costs_and_their_best_epsilon_are_those_of_a_dense_scan(cost, most):
    found = PrivacyCosts.of([cost, cost], [most, most])
    levels = np.unique([*np.geomspace(1e-4, most, 4001), *(ε for ε in (0.5, 1.0, 2.0) if ε <= most)])
    each = np.array([price(cost, most, ε) for ε in levels])
    some = levels[::400]
    assert found.at(np.array([some, 0 * some]).T)[:, 0] == pytest.approx(each[::400], rel=1e-12)
    assert found.at(np.array([1.01 * most, 0.0])).tolist() == [np.inf, 0.0]
    for pull in (1e-6, 0.01, 1.0, 100.0):
        least, ε = found.least(np.array([pull, 2 * pull]))
        scanned = pull / levels**2 + each
        assert least[0] <= scanned.min() * (1 + 1e-12)
        assert least[0] == pytest.approx(scanned.min(), rel=1e-4)
        assert pull / ε[0] ** 2 + price(cost, most, ε[0]) == pytest.approx(least[0], rel=1e-12)


def saved_by(stated, costs, ε, users):
    """What these users save by the model of these ε: the definition, in loops."""
    m = stated.members
    answering = [i for i in range(len(ε)) if ε[i] > 0]
    n_S = sum(m.records[i] for i in answering)
    weights = [m.records[i] / n_S if i in answering else 0.0 for i in range(len(ε))]
    v = m.records / sum(m.records)
    noise = sum((weights[i] / (m.records[i] * ε[i])) ** 2 for i in answering)
    ψ = m.information * (sum(weights[i] ** 2 / m.records[i] for i in answering) - 1.0 / sum(m.records))
    ψ += m.spread * sum((w - x) ** 2 for w, x in zip(weights, v, strict=True))
    ψ += min(f + s * noise for f, s in zip(m.curve.fixed, m.curve.slope, strict=True))
    gain = sum(stated.worth[i] * (m.without_joining[i] - ψ) for i in users)
    return gain - sum(price(costs[i], m.epsilon[i], ε[i]) for i in answering)


def best_saved(stated, costs, coalition):
    """v(C), by a scan over ε and a general optimiser, for every S and U."""
    best = 0.0
    sets = [s for k in range(len(coalition) + 1) for s in itertools.combinations(coalition, k)]
    for S, U in itertools.product(sets, sets):
        if not S or len({*S, *U}) < 2:
            continue

        def lost(logs, S=S, U=U):
            ε = np.zeros(len(costs))
            ε[list(S)] = np.clip(np.exp(logs), 1e-4, stated.members.epsilon[list(S)])
            return min(-saved_by(stated, costs, ε, U), 1e12)

        grids = [np.unique([*np.log(np.geomspace(2e-3, m, 7)), *np.log([x for x in (0.5, 1.0) if x < m])])
                 for m in stated.members.epsilon[list(S)]]  # fmt: skip
        start = min(itertools.product(*grids), key=lambda logs: lost(np.array(logs)))
        best = max(
            best, -lost(np.array(start)), -minimize(lost, start, method="Nelder-Mead", options={"maxiter": 200}).fun
        )
    return best


@pytest.mark.parametrize("seed", range(2))
def test_the_value_of_every_coalition_is_that_of_a_general_optimiser(seed):
    consortium = Consortia.drawn(np.random.default_rng(seed), 3)
    stated = consortium.stated()
    values, ε = coalition_values(stated)
    for k in range(8):
        coalition = [i for i in range(3) if k >> i & 1]
        searched = best_saved(stated, consortium.costs, coalition)
        assert values[k] >= searched * (1 - 1e-9)
        assert values[k] == pytest.approx(searched, rel=1e-2, abs=1e-6 * values[-1])
    if values[-1] > 0:
        assert stated.saved(ε) == pytest.approx(values[-1], rel=1e-9)


def test_shapley_shares_are_means_over_all_orders():
    stated = Consortia.drawn(np.random.default_rng(3), 4).stated()
    values, _ = coalition_values(stated)
    shares, mean = shapley_shares(stated)[1], np.zeros(4)
    for order in itertools.permutations(range(4)):
        inside = 0
        for i in order:
            mean[i] += (values[inside | 1 << i] - values[inside]) / factorial(4)
            inside |= 1 << i
    assert values[-1] > 0
    assert shares == pytest.approx(mean, rel=1e-12)


def test_local_search_finds_nearly_all_that_can_be_saved():
    found = []
    for seed in range(8):
        stated = Consortia.drawn(np.random.default_rng(seed), 6).stated()
        best, ε = _searched(stated, np.ones(6, dtype=bool))
        exact = coalition_values(stated)[0][-1]
        assert best <= exact * (1 + 1e-9)
        assert best == pytest.approx(stated.saved(ε) if best else 0.0, rel=1e-9)
        found.append(best / exact if exact else 1.0)
    assert np.mean(found) > 0.98


@pytest.mark.parametrize("owners", [2, 3, 5, 10])
def test_nobody_is_worse_off_and_payments_balance(owners):
    trades = 0
    for seed in range(3 if owners == 10 else 8):
        consortium = Consortia.drawn(np.random.default_rng([seed, owners]), owners)
        found = outcomes(consortium.stated(), consortium.records)
        most = found["shapley"][0].surplus
        for name, (outcome, traded, _) in found.items():
            assert outcome.payment.sum() == pytest.approx(0.0, abs=1e-9 * max(most, 1.0)), name
            assert outcome.net.min() >= -1e-9 * max(most, 1.0), name
            assert outcome.net.sum() == pytest.approx(outcome.surplus, abs=1e-9 * max(most, 1.0))
            balance = np.zeros(owners)
            for payer, payee, amount in outcome.transfers():
                assert amount > 0
                balance[payer] -= amount
                balance[payee] += amount
            assert balance == pytest.approx(outcome.payment, abs=1e-6 * max(most, 1.0))
            trades += sum(len(trade.sellers) > 0 for trade in traded)
        assert found["common"][0].surplus <= most * (1 + 1e-9)
    assert trades > 0 or owners < 10


def test_joining_at_the_common_epsilon_is_an_equilibrium():
    joining = 0
    for seed in range(8):
        consortium = Consortia.drawn(np.random.default_rng([seed, 5]), 5)
        stated, ε = consortium.stated(), common(consortium.stated()).epsilon
        joined, level = ε > 0, ε.max()
        joining += joined.sum()

        def net(members, i, stated=stated, costs=consortium.costs, level=level):
            gains = saved_by(stated, costs, np.where(members, level, 0.0), [i])
            others = sum(price(costs[j], stated.members.epsilon[j], level) for j in np.flatnonzero(members) if j != i)
            own = price(costs[i], stated.members.epsilon[i], level)
            return max(gains + others, -own) if members.sum() > 1 and np.isfinite(own) else -own

        for i in range(5):
            if joined[i]:
                assert np.all(ε[joined] == level)
                assert net(joined, i) >= -1e-9
            elif joined.any():
                assert net(joined | (np.arange(5) == i), i) <= 1e-9
    assert joining > 0


def in_trades(stated, _):
    return *posted.posted(stated, LOT), None


def best_lies(owners, seeds, lies_each, seed, about=LIES, way=in_trades):
    """Consortia that save something, and the largest gain of random lies about all of these at once, over what is saved.

    way: a mechanism, of statements and of the true records.
    """
    rng, traded, most = np.random.default_rng(seed), 0, 0.0
    for consortium in (Consortia.drawn(np.random.default_rng([one, owners]), owners) for one in seeds):
        truth = consortium.stated()
        honest = way(truth, consortium.records)
        traded += honest[0].surplus > 0
        for _ in range(lies_each):
            i, lie = int(rng.integers(owners)), {one: float(np.exp(rng.normal(0.0, 1.5))) for one in about}
            stated = consortium.stated_all(i, lie)
            after = way(stated, consortium.records)
            gain = better_off(truth, stated, after, i) - better_off(truth, truth, honest, i)
            most = max(most, gain / max(honest[0].surplus, 1.0))
    return traded, most


def test_no_lie_gains_where_prices_are_posted_by_a_third_group():
    traded, most = best_lies(9, range(6), 25, 1)
    assert traded >= 2
    assert most <= 1e-9


@pytest.mark.parametrize("known", [False, True])
def test_no_lie_gains_in_an_exchange(known):
    def of_lots(stated, records):
        return exchanged(stated, records if known else np.full(len(records), float(LOT)))

    trading, most = best_lies(6, range(8), 25, 2, way=of_lots)
    assert trading >= 3
    assert most <= 1e-9


def test_a_lie_gains_in_an_exchange_of_as_many_records_as_are_stated():
    assert best_lies(6, range(8), 25, 2, way=lambda stated, _: exchanged(stated, stated.members.records))[1] > 1e-3


def test_the_members_of_an_exchange_are_the_largest_set_that_nobody_in_it_would_leave():
    """Against all sets, with ψ from plain loops over owners and lines."""
    members = 0
    for seed in range(12):
        consortium = Consortia.drawn(np.random.default_rng([seed, 7]), 5)
        stated, L = consortium.stated(), consortium.records
        m, level = stated.members, even_epsilon(stated, L)
        n, v = m.records, m.records / sum(m.records)

        def net(i, others, stated=stated, m=m, n=n, v=v, L=L, level=level, costs=consortium.costs):
            best = np.inf
            for fixed, slope in zip(m.curve.fixed, m.curve.slope, strict=True):
                sure = sum(1 / (m.information / L[j] + m.spread + slope / (L[j] * level) ** 2) for j in others)
                best = min(best, fixed + 1 / (sure + 1 / (m.information / n[i] + m.spread)))
            most = n[i] / (n[i] + sum(L) - L[i])
            own = m.without_joining[i] + m.information / sum(n) - m.spread * (sum(v**2) + 2 * (most - v[i]))
            return stated.worth[i] * (own - best) - price(costs[i], m.epsilon[i], level)

        sets = [s for k in range(6) for s in itertools.combinations(range(5), k)]
        stable = [s for s in sets if all(net(i, [j for j in s if j != i]) >= 0 for i in s) and len(s) != 1]
        found = exchange(stated, L, level)
        assert tuple(np.flatnonzero(found.epsilon)) == max(stable, key=len)
        assert set().union(*stable) == set(max(stable, key=len))  # every such set is a part of it
        members += len(max(stable, key=len))
        for i in np.flatnonzero(found.epsilon):
            assert found.net[i] == pytest.approx(net(i, [j for j in max(stable, key=len) if j != i]))
    assert members >= 6


def test_the_even_epsilon_is_where_noise_costs_what_few_records_cost():
    stated = Consortia.drawn(np.random.default_rng(5), 4).stated()
    lots = np.array([1e3, 2e3, 3e3, 4e3])
    ε, m = even_epsilon(stated, lots), stated.members
    noise = float(m.curve.at(sum((L / 1e4 / (L * ε)) ** 2 for L in lots)))
    assert noise == pytest.approx(m.information / 1e4, rel=0.05)


def test_a_lie_gains_where_the_buyers_set_the_terms_themselves(monkeypatch):
    fair = posted._trade
    monkeypatch.setattr(
        posted, "_trade", lambda stated, lot, sellers, buyers, third: fair(stated, lot, sellers, buyers, buyers)
    )
    traded, most = best_lies(9, range(6), 25, 1)
    assert traded >= 2
    assert most > 1e-3


def test_a_lie_gains_where_buyers_pay_what_they_state(monkeypatch):
    fair = posted.posted

    def paying_all(stated, lot):
        outcome, trades = fair(stated, lot)
        paid = outcome.payment.copy()
        for trade in trades:
            paid[trade.buyers] += trade.fee - outcome.gain[trade.buyers]
        return replace(outcome, payment=paid), trades

    monkeypatch.setattr(posted, "posted", paying_all)
    assert best_lies(9, range(6), 25, 1, about=["worth"])[1] > 1e-3


def test_lies_gain_in_the_efficient_allocation():
    consortium, gains = Consortia.drawn(np.random.default_rng(3), 3), []
    truth = consortium.stated()
    before = outcomes(truth, consortium.records)
    for factor in FACTORS:
        after = outcomes(consortium.stated("worth", 1, factor), consortium.records)
        stated = consortium.stated("worth", 1, factor)
        gains.append(better_off(truth, stated, after["shapley"], 1) - better_off(truth, truth, before["shapley"], 1))
    assert max(gains) > 0.01 * before["shapley"][0].surplus


def test_an_honest_statement_is_worth_what_the_outcome_says():
    for seed in range(6):
        consortium = Consortia.drawn(np.random.default_rng(seed), 5)
        truth = consortium.stated()
        for name, found in outcomes(truth, consortium.records).items():
            for i in range(5):
                assert better_off(truth, truth, found, i) == pytest.approx(found[0].net[i], rel=1e-6, abs=1e-6), name


def test_payers_are_the_largest_set_that_pays_equal_parts():
    rng = np.random.default_rng(0)
    for _ in range(50):
        values, outlay = rng.exponential(1.0, 5), float(rng.exponential(2.0))
        sets = [s for k in range(1, 6) for s in itertools.combinations(range(5), k)]
        can = [s for s in sets if all(values[i] >= outlay / len(s) for i in s)]
        assert posted.payers(values, outlay).sum() == max(map(len, can), default=0)


TERMS = {
    "agreement": {"rule": "auto", "horizon": 3, "answers": 1, "mechanism": "statistics"},
    "model": {"loss": "squared", "theta_max": 100.0},
    "data": {"heterogeneity": 0},
    "owner": [
        {"name": f"o{i}", "records": n, "epsilon": 2.0, "market": {"privacy_cost": {"linear": 1.0}, "worth": 1e4}}
        for i, n in enumerate((6_000, 2_000, 300))
    ],
}


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, X @ [0.6, -0.3, 0.2] + 0.4 * rng.uniform(-1, 1, n)


@pytest.fixture(scope="module")
def offer():
    return copriv.market(TERMS, rows(100, 9), runs=10)


def test_a_market_is_made_of_a_forecast(offer):
    assert offer["shapley"].surplus > 0
    assert offer.lot == 300
    assert [offer.efficiency(one) for one in offer.outcomes][:2] == pytest.approx([1.0, 1.0])
    assert "o2" in str(offer)
    assert "may tell something about records" in " ".join(str(offer).split())
    assert "<table>" in offer._repr_html_()
    assert offer.to_frame(backend="polars").height == 3 * len(MECHANISMS)
    ε = offer["shapley"].epsilon
    proposed = offer.proposed()
    assert [owner.epsilon for owner in proposed.owner] == ε[ε > 0].tolist()
    assert all(owner.market is None for owner in proposed.owner)
    assert offer.proposed("posted") is None
    for name in ("posted", "exchange"):  # the finding: who bought nothing was shown on the scale of lots
        unmoved = ~offer[name].uses
        without = offer.statements.members.without_joining
        np.testing.assert_array_equal(offer[name].fitness[unmoved], without[unmoved])
        assert (offer[name].fitness <= without).all()
    exchanged_ = offer["exchange"]
    assert set(exchanged_.epsilon) <= {0.0, offer.lot_epsilon}
    if proposed := offer.proposed("exchange"):
        assert [owner.records for owner in proposed.owner] == [300] * int((exchanged_.epsilon > 0).sum())


def test_worthless_accuracy_makes_no_market(offer):
    stated = replace(offer.statements, worth=np.zeros(3))
    first, (last, trades) = shapley(stated), posted.posted(stated, 300.0)
    swapped = exchange(stated, offer.lots, offer.lot_epsilon)
    found = replace(
        offer, statements=stated, outcomes=(first, equal(stated, first), common(stated), last, swapped), trades=trades
    )
    assert all(not one.epsilon.any() and not one.payment.any() for one in found.outcomes)
    assert found.proposed() is None
    assert "no trade saves anybody anything" in " ".join(map(str, told(found)))


def test_what_is_told_of_one_mechanism(offer, capsys):
    tell(*told(offer, "posted"))
    said = " ".join(capsys.readouterr().out.split())
    assert "Under posted" in said
    assert "may tell something about records" in said


@pytest.mark.parametrize(
    ("owner", "said"),
    [
        ({"market": None}, "o0 states neither"),
        ({"market": {"privacy_cost": {}, "worth": 1}}, "give one shape"),
        ({"market": {"privacy_cost": {"linear": 1, "quadratic": 1}, "worth": 1}}, "give one shape"),
        ({"market": {"privacy_cost": {"threshold": 1.0}, "worth": 1}}, "belong together"),
        ({"market": {"privacy_cost": {"table": [[1.0, 2.0], [0.5, 3.0]]}, "worth": 1}}, "must rise"),
        ({"market": {"privacy_cost": {"table": [[0.5, 2.0], [1.0, 1.0]]}, "worth": 1}}, "must not fall"),
        ({"market": {"privacy_cost": {"linear": -1.0}, "worth": 1}}, "at least 0"),
        ({"market": {"privacy_cost": {"linear": 1.0}}}, "worth"),
    ],
)
def test_statements_that_cannot_be_read(owner, said):
    document = {
        **TERMS,
        "owner": [{k: v for k, v in {**one, **owner}.items() if v is not None} for one in TERMS["owner"]],
    }
    with pytest.raises(AgreementError, match=said):
        copriv.market(document, rows(40, 9))


@pytest.mark.parametrize(
    "agreement",
    [
        {"aggregation": "sum"},
        {"rule": "S2", "robust": 1},
        {"rule": "S2", "graph": "ring"},
        {"lot": 301},
        {"pilot": 0.1},
    ],
)
def test_agreements_that_have_no_market(agreement):
    with pytest.raises(AgreementError, match=rf"agreement\.({'|'.join(agreement)})"):
        copriv.market({**TERMS, "agreement": {"rule": "auto", "horizon": 20, **agreement}}, rows(40, 9))


def test_the_command(tmp_path, capsys):
    document = copriv.Agreement.of(
        {**TERMS, "data": {"dataset": "lending-embedded", "components": 2, "public_rows": 100, "heterogeneity": 0.0}}
    )
    (tmp_path / "a.toml").write_text(document.to_toml())
    assert run(["market", str(tmp_path / "a.toml"), "--runs", "10", "--json", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "copriv.market/1"
    assert [one["name"] for one in found["mechanisms"]] == list(MECHANISMS)
    assert json.loads((tmp_path / "market.json").read_text()) == found
    assert len((tmp_path / "market.csv").read_text().splitlines()) == 1 + 3 * len(MECHANISMS)
    assert run(["market", str(tmp_path / "a.toml"), "--mechanism", "auction"]) == 2

"""The benchmark of models without public rows: its peers are as private and as good as they say, and its judgements tell."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1]))
peers = pytest.importorskip("benchmarks.published.peers")

from benchmarks.published import cells, judged, page, tables  # noqa: E402


def small(n: int = 200, p: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, p))
    x /= np.linalg.norm(x, axis=1).max()
    return x, np.clip(x @ rng.normal(size=p) + 0.05 * rng.normal(size=n), -1.0, 1.0)


def hockey_stick(epsilon: float, sigma: float) -> float:
    """δ at ε between N(0, σ²) and N(1, σ²), as an integral over where the first is likelier by more than e^ε."""
    z = np.linspace(-40 * sigma - 1, 40 * sigma + 1, 2_000_001)
    over = stats.norm.pdf(z, 1.0, sigma) - np.exp(epsilon) * stats.norm.pdf(z, 0.0, sigma)
    return float(np.sum(np.maximum(over, 0.0)) * (z[1] - z[0]))


@pytest.mark.parametrize(("ε", "σ"), [(0.1, 5.0), (1.0, 1.5), (3.0, 0.9)])
def test_delta_of_normal_noise_is_the_integral(ε: float, σ: float) -> None:
    assert peers.normal_delta(ε, σ) == pytest.approx(hockey_stick(ε, σ), rel=1e-5)
    assert peers.normal_sigma(ε, hockey_stick(ε, σ)) == pytest.approx(σ, rel=1e-4)


@pytest.mark.parametrize("ε", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("δ", [1e-5, 1e-9])
def test_adassp_is_as_private_as_it_says(ε: float, δ: float) -> None:
    """Its three releases are one normal one, of a row's moves by at most 1 each; a third of its noise would not do."""
    σ = peers.adassp_sigma(ε, δ)
    assert peers.normal_delta(ε, σ / np.sqrt(3.0)) <= δ
    assert peers.normal_delta(ε, σ / 3.0 / np.sqrt(3.0)) > δ


def test_no_row_moves_the_moments_further() -> None:
    rng = np.random.default_rng(1)
    moves = []
    for _ in range(4000):
        one, other = rng.normal(size=(2, 2))
        one, other = one / np.linalg.norm(one), other / np.linalg.norm(other) * rng.choice([1.0, rng.uniform()])
        sign = rng.choice([-1.0, 1.0])
        squares = np.outer(one, one) - np.outer(other, other)
        moves.append(np.sqrt(np.sum(squares**2) + np.sum((one - sign * other) ** 2)))
    assert 0.99 * peers.REPLACED < max(moves) <= peers.REPLACED + 1e-12


@pytest.mark.parametrize("n", [50, 2000])
def test_peers_end_at_least_squares_as_noise_goes(n: int) -> None:
    x, y = small(n)
    rng = np.random.default_rng(2)
    least = peers.models_loss(np.linalg.lstsq(x, y, rcond=None)[0], x, y)[0]
    for models in (
        peers.adassp(x, y, 1e9, 1e-6, 3, rng),
        peers.moments(x, y, 1e7, 1e-6, peers.REPLACED, 3, rng),
    ):
        assert peers.models_loss(models, x, y) == pytest.approx(least, abs=1e-4 * np.mean(y**2))
    assert peers.models_loss(np.zeros(3), x, y)[0] == pytest.approx(np.mean(y**2))


def test_the_noise_of_peers_is_as_calibrated() -> None:
    """Rows of zeros leave noise alone: a ratio of two normal numbers, whose scale cancels, over what each peer adds."""
    x, y = np.zeros((10, 1)), np.zeros(10)
    rng = np.random.default_rng(3)
    ridge = np.sqrt(np.log(2.0 / peers.FAILS))  # over σ, for one column
    scores = peers.adassp(x, y, 1.0, 1e-6, 4000, rng)[:, 0]
    b, a = stats.norm.rvs(size=(2, 40_000), random_state=4)
    assert np.median(np.abs(scores)) == pytest.approx(np.median(np.abs(b / (a + ridge))), rel=0.1)
    raised = peers.moments(x, y, 1.0, 1e-6, 1.0, 4000, rng)[:, 0]
    assert np.median(np.abs(raised)) == pytest.approx(np.median(np.abs(b / np.maximum(a, np.sqrt(2.0)))), rel=0.1)


def test_a_private_mean_has_the_noise_of_one_row() -> None:
    y = [np.full(50, 0.25), np.full(150, 0.5)]
    found = peers.private_means(y, -100.0, 100.0, 8.0, 0.0, 40_000, np.random.default_rng(6))
    # Each owner's mean moves by range/n of its own, and counts as its rows do: both add noise of 200/(200·8).
    assert found.mean() == pytest.approx(0.4375, abs=0.01)
    assert found.std() == pytest.approx(np.sqrt(2 * 2) * 200.0 / (200 * 8.0), rel=0.03)


def row(losses: list[float], epsilon: float = 1.0, delta: bool = False, **facts: object) -> dict[str, object]:
    base = {
        "cell": f"toy {epsilon} {delta}", "table": "toy", "stated": "norm", "owners": 1, "epsilon": epsilon, "delta": delta,
        "classes": False, "rows": 100, "columns": 2, "least": 0.0, "constant": 1.0, "nothing": 1.0, "peers": {},
        "refused": [], "aucs": [], "seconds": 0.1, "losses": losses,
    }  # fmt: skip
    return base | facts


def test_worse_than_nothing_is_told_from_chance() -> None:
    rng = np.random.default_rng(7)
    fine, bad = 0.9 + 0.2 * rng.random(40), 1.02 + 0.1 * rng.random(40)
    heavy = 1.5 + rng.pareto(0.5, 40)  # every fit is worse, and no mean tells
    for losses, surely in ((fine, False), (bad, True), (heavy, True)):
        found = judged.worse_than_nothing([row(list(losses))])
        assert found[0].surely(len(found)) is surely
    private = judged.worse_than_nothing([row(list(bad), nothing=1.3)])[0]
    assert private.excess < 0
    assert not private.surely(1)


def test_more_budget_that_hurts_is_told() -> None:
    rng = np.random.default_rng(8)
    noise = 0.01 * rng.random((3, 40))
    rows = [row(list(0.3 + noise[0]), 1.0), row(list(0.5 + noise[1]), 3.0), row(list(0.1 + noise[2]), 1.0, True)]
    by_epsilon, by_delta = judged.steps(rows, "epsilon"), judged.steps(rows, "delta")
    assert [one.surely(1) for one in by_epsilon] == [True]
    assert [one.surely(1) for one in by_delta] == [False]


@pytest.mark.slow
def test_the_harness_runs_on_a_table_and_tells_of_it() -> None:
    table = tables.Table("toy", *small())
    rows = []
    for stated in cells.STATED:
        for owners in cells.OWNERS:
            cell = cells.Cell(10.0, True, stated, owners)
            end = cells.ends(table, stated != "norm")
            facts = {"cell": cell.name("toy"), "table": "toy", "stated": stated, "owners": owners, "epsilon": 10.0}
            facts |= {
                "delta": True,
                "classes": False,
                "rows": 200,
                "columns": 3,
                "least": end.least,
                "constant": end.nothing,
            }
            rows.append(facts | cells.measure(table, cell, 2, end))
    assert all(len(one["losses"]) + len(one["refused"]) == 2 for one in rows)
    assert rows[0]["nothing"] == rows[0]["constant"]
    assert rows[-1]["nothing"] > rows[-1]["constant"]
    assert set(rows[0]["peers"]) == {"AdaSSP", "moments, zeroed", "moments, replaced"}
    text = page.page(rows, {}, ["bike"])
    assert "Not at hand, and left out: bike." in text
    assert "| toy | 200 × 3 | 10 |" in text


def test_least_squares_leaves_nothing_and_zero_everything() -> None:
    table = tables.Table("toy", *small())
    end = cells.ends(table, False)
    assert end.least < end.nothing == pytest.approx(np.mean(table.y**2))
    assert cells.left(row([end.least, end.nothing], least=end.least, constant=end.nothing)).tolist() == [0.0, 1.0]


def test_half_of_the_other_tables_are_kept_for_the_end() -> None:
    there = Path("nowhere")
    opened = {name for name, _ in tables.tables(there)}
    assert opened.isdisjoint(tables.KEPT_FOR_THE_END)
    assert len(tables.KEPT_FOR_THE_END) == len(tables.OTHERS)
    found = {name: table for name, table in tables.tables(there, held_back=True) if table is not None}
    assert len(found) >= 10
    for table in found.values():
        assert np.linalg.norm(table.x, axis=1).max() <= 1 + 1e-12
        assert np.abs(table.y).max() <= 1 + 1e-12


def test_published_numbers_are_read_from_the_readme(tmp_path: Path) -> None:
    (tmp_path / "published").mkdir()
    head = "| table | n | p | ε | AdaSSP | IHM |\n| --- | --- | --- | --- | --- | --- |\n"
    (tmp_path / "published" / "README.md").write_text(head + "| bike | 8708 | 18 | 0.1 | 0.0443 | 0.03634 |\n")
    assert page.peers_of(tmp_path) == {("bike", 0.1): {"AdaSSP": 0.0443, "IHM": 0.03634}}
    assert page.peers_of(tmp_path / "elsewhere") == {}

"""The page of the utility benchmark says what its table says: who is better, by whose guarantee, and what was missed."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("dp_accounting")
sys.path.insert(0, str(Path(__file__).parents[1]))
utility = pytest.importorskip("benchmarks.utility.page")
cells = pytest.importorskip("benchmarks.utility.cells")

PURE, APPROXIMATE = utility.PURE_PEERS[0], utility.PEERS_WITH_DELTA[0]


def rows(cell: str = "some-cell", **medians: float) -> list[dict[str, str]]:
    names = {"plan": "plan", "plan_delta": "plan, δ = 1e-6", "pure": PURE, "approximate": APPROXIMATE}
    return [
        {
            "cell": cell, "method": names.get(key, key), "median": f"{ψ:g}", "p25": f"{ψ:g}", "p75": f"{ψ:g}",
            "runs": "25", "seconds": "1", "settings": "as it comes",
        }
        for key, ψ in medians.items()
    ]  # fmt: skip


def test_nobody_is_better() -> None:
    text = utility.page(rows(plan=1.0, plan_delta=0.5, pure=0.9, approximate=0.45), "x")
    assert "by more than 20 %: none." in text
    assert f"some-cell ({APPROXIMATE}, 0.45 against 1)" in text  # of the weaker guarantee, and said so


def test_a_better_peer_is_named_with_both_numbers() -> None:
    text = utility.page(rows(plan=1.0, plan_delta=1.0, pure=0.8, approximate=2.0), "x")
    assert f"- some-cell: {PURE}, 0.8 against 1." in text
    assert "none." not in text


def test_a_peer_with_delta_does_not_count_against_pure_epsilon() -> None:
    text = utility.page(rows(plan=1.0, plan_delta=0.1, pure=3.0, approximate=0.2), "x")
    assert "by more than 20 %: none." in text


def test_a_cell_without_its_peers_or_plan_is_left_out() -> None:
    assert "| some-cell | 1 |" not in utility.page(rows(plan=1.0, plan_delta=1.0), "x")


def test_a_target_is_missed_or_not() -> None:
    words, cell, method, most = utility.TARGETS[0]
    for ψ, verdict in ((most, ""), (1.01 * most, "missed")):
        text = utility.page(rows(cell, **{method: ψ}), "x")
        assert f"| {words} | {method} | {most:g} | {ψ:.3g} | {verdict} |" in text


def test_targets_are_about_cells_that_the_grid_has() -> None:
    names = {cell.name for cell in cells.grid()}
    assert {target[1] for target in utility.TARGETS} <= names
    assert len(names) == len(cells.grid())


def test_that_owners_are_alike_is_said_only_where_a_table_is_not_cut_by_group() -> None:
    """Hospitals were said to be alike, and a plan that believed it was 38 times worse than one that does not."""
    from copriv.data import open_dataset

    for cell in {cell.dataset: cell for cell in cells.grid()}.values():
        data = cell.agreement().data
        if data.path is None:
            continue  # not at hand
        grouped = open_dataset(cell.dataset, path=data.path, rows=3000).group is not None
        assert (data.heterogeneity is None) == grouped, cell.dataset

"""What the benchmark of masked sums counts: an owner's bytes, and a row for each case."""

from pathlib import Path

import pytest

benchmark = pytest.importorskip("benchmarks.sum")


def test_the_cost_of_a_sum_is_that_of_a_curator_but_for_colluding_and_lost_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for N in (4, 86):
        found = [benchmark.cost(N), benchmark.cost(N, 0), benchmark.cost(N, 2), benchmark.cost(N, 0, 0.01)]
        assert found == pytest.approx([N, 1.0, N / (N - 2), 0.99 ** (-2 * N)])
    monkeypatch.setattr("sys.argv", ["sum", "--figure", str(tmp_path / "sum.png")])
    benchmark.main()
    assert (tmp_path / "sum.png").read_bytes().startswith(b"\x89PNG")


def test_a_row_has_the_bytes_of_keys_signatures_and_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["sum", "--owners", "3", "--numbers", "11", "100"])
    benchmark.main()
    *_, few, many = capsys.readouterr().out.splitlines()
    sent, received = (cell.strip() for cell in few.split("|")[5:7])
    more = many.split("|")[5]
    signature = 72  # at most, as DER
    assert 32 + 11 * 8 + 3 * 60 < int(sent) <= 32 + 11 * 8 + 3 * signature
    assert 3 * (32 + 2 * 60) < int(received) <= 3 * (32 + 2 * signature)
    assert int(more.replace(",", "")) - int(sent) == pytest.approx(89 * 8, abs=3 * 12)

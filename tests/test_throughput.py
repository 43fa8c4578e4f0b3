"""The benchmark of the wire runs on the wire as it is, and its page says what its numbers say."""

import asyncio
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
page = pytest.importorskip("benchmarks.throughput_page")
throughput = pytest.importorskip("benchmarks.throughput")


def measured() -> "page.Measured":
    ratio = dict.fromkeys([*throughput.WAYS, *throughput.ALONE], 0.5) | {"signed": 0.25, "ledger": 0.125, "whole": 0.05}
    return page.Measured(1000, 2e-3, {"echo": 1000.0}, {"echo": 1.0, **ratio})


def test_the_page_has_a_row_for_each_way_and_says_what_they_differ_by(tmp_path: Path) -> None:
    words = {key: way.words for key, way in throughput.WAYS.items()} | throughput.ALONE
    text = page.table([measured()], words)
    assert all(f"| {said} | " in text for said in words.values())
    assert "| the time in which an answer leaves | 2 ms |" in text
    assert "an answer as `copriv` runs it 20 ms" in text
    assert "signatures are 2 ms" in text  # 1 ms a echo: 4 ms against 2
    assert "a safe ledger 4 ms" in text
    place = tmp_path / "page.md"
    place.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.write(text, place)
    page.write(text, place)
    assert place.read_text() == f"before\n{page.BEGIN}\n\n{text}\n\n{page.END}\nafter\n"


def test_the_table_has_a_place_on_the_page() -> None:
    said = page.PAGE.read_text(encoding="utf-8")
    assert said.count(page.BEGIN) == said.count(page.END) == 1
    assert said.index(page.BEGIN) < said.index(page.END)


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("way", ["unsigned", "whole ahead"])
def test_a_run_is_measured_to_its_end(tmp_path: Path, way: str) -> None:
    throughput.make_authority(tmp_path / "authority", "benchmark")
    for name, role in (("learner", "learner"), ("bank", "owner")):
        throughput.issue(tmp_path / "authority", tmp_path / name, name, role)
    assert asyncio.run(throughput.conducted(tmp_path, 20, 200, throughput.WAYS[way], 1e-3)) > 0
    assert throughput.signatures(tmp_path, 3) > 0
    assert throughput.conducting(tmp_path, 10, 20) > 0

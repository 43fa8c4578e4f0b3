"""The page of the privacy audit is what `python -m benchmarks.audit --page` writes, and what it says is in order."""

import re
from pathlib import Path

import pytest

pytest.importorskip("dp_accounting")
audit = pytest.importorskip("benchmarks.audit")


def without_numbers(text: str) -> str:
    return re.sub(r"\d[\d,.-]*", "#", text)


def test_the_page_is_of_the_command() -> None:
    found = [audit.Found(one, 1000, 0.5) for one in audit.AUDITS]
    found += [audit.Found(first, 1000, 9.0, name) for name, _, first in audit.TRIED]
    assert without_numbers(audit.page(found, 1.0)) == without_numbers(audit.PAGE.read_text(encoding="utf-8"))


def test_every_bound_on_the_page_is_below_its_claim_and_every_wrong_version_above() -> None:
    cells = [line.split(" | ") for line in audit.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    right = [(row[0], row[3], row[4], row[5].rstrip(" |")) for row in cells if len(row) == 6 and row[5][0].isdigit()]
    wrong = [(row[3], row[4]) for row in cells if len(row) == 6 and row[5] == "yes |"]
    assert (len(right), len(wrong)) == (len(audit.AUDITS), len(audit.TRIED))
    for name, draws, claim, least in right:
        assert float(least) <= float(claim.split(",")[0]), name
        assert int(draws.replace(",", "")) >= (40_000 if "objective" in name else 200_000), name
    assert all(float(least) > float(claim.split(",")[0]) for claim, least in wrong)
    near = {name: max(float(one[3]) / float(one[2].split(",")[0]) for one in right if one[0][2:] == name)
            for name in ("laplace", "laplace-composed", "gaussian", "statistics")}  # fmt: skip
    assert min(near.values()) > 0.8, near


def test_a_tiny_run_writes_the_page_and_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, out = tmp_path / "page.md", tmp_path / "out" / "rows.jsonl"
    unbounded = next(one for one in audit.TRIED if one[0] == "the bound not enforced")
    for name, value in (("AUDITS", audit.AUDITS[1:3]), ("TRIED", [unbounded]), ("PAGE", page), ("ROOT", tmp_path)):
        monkeypatch.setattr(audit, name, value)
    words = ["--draws", "200", "--models", "20", "--broken", "1000", "--out", str(out), "--page"]
    assert audit.main(words) == 0
    said, rows = page.read_text(encoding="utf-8"), out.read_text(encoding="utf-8")
    assert "| the bound not enforced | laplace | 1,000 | 1.5 |" in said
    assert said.count("| laplace | ") == 3
    assert audit.main(words) == 0
    assert out.read_text(encoding="utf-8") == rows
    monkeypatch.setattr(audit, "seen", lambda name, make, first, draws: audit.audited(first, draws, name))
    assert audit.main([*words[:5], "1002", *words[6:]]) == 1, "a wrong version that is not caught"

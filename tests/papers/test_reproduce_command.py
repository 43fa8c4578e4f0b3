"""`copriv reproduce` as a user types it, and the page that it writes."""

import json
from pathlib import Path

import pytest

from copriv.cli import run
from copriv_papers import FIGURES
from copriv_papers.pages import sentence, write_gallery


def test_the_list_names_twenty_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "--list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in document["figures"]] == [figure.identity for figure in FIGURES]
    assert [one["id"] for one in document["beyond"]] == ["frontier", "delta", "graph", "liars", "talk"]
    assert run(["reproduce", "--list"]) == 0
    assert "async-fig11" in capsys.readouterr().out


def test_one_figure_with_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["reproduce", "async-fig3", "--quick", "--out", str(tmp_path / "out"), "--backend", "threading"]
    assert run([*arguments, "--json", "--gallery", str(tmp_path / "docs")]) == 0
    captured = capsys.readouterr()
    (document,) = json.loads(captured.out)["figures"]
    assert document["verdict"] == "reproduced"
    page = (tmp_path / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert document["claim"] in page
    assert "`copriv reproduce async-fig3 --quick`" in page
    assert (tmp_path / "docs" / "gallery" / "async-fig3.png").is_file()
    assert run(arguments) == 0
    assert "finished before" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["reproduce"], "--list"),
        (["reproduce", "fig4"], "not a figure"),
        (["reproduce", "async-fig3", "--data", "loans=x.csv"], "NAME=PATH"),
        (["reproduce", "async-fig3", "--backend", "slurm"], "slurm"),
    ],
)
def test_calls_that_mean_nothing(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert says in capsys.readouterr().err


def test_data_that_is_not_there_is_named_and_the_rest_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "cards.csv"
    arguments = ["sync-fig7", "async-fig3", "--data", f"creditcard={missing}", "--out", str(tmp_path), "--quick"]
    assert run(["reproduce", *arguments, "--backend", "threading"]) == 3
    captured = capsys.readouterr()
    assert str(missing) in captured.err
    assert (tmp_path / "async-fig3.json").is_file()
    assert not (tmp_path / "sync-fig7.json").exists()


def test_the_page_shows_every_finished_figure(tmp_path: Path) -> None:
    for figure in FIGURES[:2]:
        document = {
            "id": figure.identity, "source": figure.source, "title": figure.title, "claim": figure.claim,
            "verdict": "not reproduced", "why": "because.", "quick": False, "seconds": 3.0, "runs": [100], "seeds": [0],
            "data": [{"description": "Loans: ten.", "source": "real"}], "held_out": {"sound": {"least": 0.1, "most": 2}},
            "comparison": [{"what": "slope", "paper": "−2", "ours": -1.5, "holds": False}],
            "precision_recall_area": {"least": 0.1, "most": 0.6}, "differences": ["20 runs", "θ starts at 0"],
            "other_tables": [
                {"verdict": "reproduced", "comparison": [{"what": "slope", "paper": "−2", "ours": -1.9, "holds": True}]}
            ],
        }  # fmt: skip
        (tmp_path / f"{figure.identity}.json").write_text(json.dumps(document))
        (tmp_path / f"{figure.identity}.png").write_bytes(b"picture")
    page = write_gallery(tmp_path, tmp_path / "docs").read_text(encoding="utf-8")
    assert page.count("- **Verdict**: not reproduced. Because.\n- **On everybody's loans**: reproduced\n") == 2
    assert "| slope | −2 | -1.5 | no | -1.9 | yes |" in page
    assert "- **Not the paper's**: 20 runs; θ starts at 0." in page
    assert "precision–recall" in page
    assert sorted(p.name for p in (tmp_path / "docs" / "gallery").iterdir()) == [
        "sync-fig2.png",
        "sync-fig3.png",
        "verdicts.json",
    ]


def test_the_claims_of_a_bare_clone_say_what_fetches_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch = "copriv data fetch creditcard"
    missing = {"sync-fig7": fetch, "sync-fig9": fetch}
    monkeypatch.setattr("copriv_papers.command.check", lambda *_, **__: {"claims": [], "missing": missing})
    assert run(["reproduce", "claims", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count(fetch) == 1
    missing["async-fig7"] = "copriv data fetch hospital"  # two tables are got by one line
    assert run(["reproduce", "claims", "--out", str(tmp_path)]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "data fetch" in line]
    assert len(said) == 1
    assert said[0].endswith(f"then give the same command again: {fetch} && copriv data fetch hospital")


def test_psi_begins_a_sentence_as_psi() -> None:
    assert sentence("ψ falls.") == "ψ falls."  # Ψ is another letter
    assert sentence("because.") == "Because."


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("copriv_papers.command.reproduce", pressed)
    assert run(["reproduce", "async-fig3", "--force", "--out", str(tmp_path / "figures")]) == 130
    said = " ".join(capsys.readouterr().err.split())
    assert f"are kept in {tmp_path / 'figures'}; the same command goes on from there, without --force" in said

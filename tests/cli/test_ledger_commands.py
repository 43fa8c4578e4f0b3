"""`copriv ledger create|adopt|verify`: a ledger is made by being asked for, and only once."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from copriv.cli import run
from copriv.network.keys import issue, make_authority
from copriv.privacy.ledger.file import LedgerFile
from copriv.privacy.ledger.read import verify


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_authority(tmp_path / "authority", "test")
    for folder in ("keys", "renewed"):
        issue(tmp_path / "authority", tmp_path / folder, "bank", "owner")
    return tmp_path / "keys"


def copriv(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = run([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def charged(path: Path, keys: Path) -> str:
    with LedgerFile.open(path, "bank", Fraction(1), witness=keys) as file:
        file.run("f", "r", Fraction(1), 4).charge("q", np.zeros(3), Fraction(1, 4))
    return verify(path).head


def test_a_ledger_is_made_once_and_missed_when_it_is_gone(
    keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "loans.ledger"
    code, said = copriv(capsys, "ledger", "create", path, "--keys", keys, "--json")
    assert (code, json.loads(said)["owner"], json.loads(said)["schema"]) == (0, "bank", "copriv.ledger-created/1")
    code, said = copriv(capsys, "ledger", "create", path, "--keys", keys)
    assert (code, "is there already" in said) == (4, True)
    charged(path, keys)
    path.unlink()
    code, said = copriv(capsys, "ledger", "create", path, "--keys", keys)
    assert (code, "bank has a ledger already" in said, "0.25 spent" in said) == (4, True, True)
    carry = said.split("--carry ")[1].split(")")[0]
    code, said = copriv(capsys, "ledger", "create", path, "--keys", keys, "--carry", carry)
    assert (code, "begins with 0.25 spent" in said) == (0, True)
    code, said = copriv(capsys, "ledger", "create", tmp_path / "lund.ledger", "--keys", keys, "--another", "Lund")
    assert code == 0
    code, said = copriv(capsys, "ledger", "show", tmp_path / "lund.ledger", "--json")
    assert json.loads(said)["remark"] == "Lund"


def test_verify_holds_a_ledger_against_its_witness(
    keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "loans.ledger"
    _, said = copriv(capsys, "ledger", "create", path, "--keys", keys)
    assert said.splitlines()[-1] == f"Head {verify(path).head}"
    old = path.read_bytes()
    head = charged(path, keys)
    code, said = copriv(capsys, "ledger", "verify", path, "--keys", keys)
    assert (code, said.strip().endswith(f". Head {head}")) == (0, True)
    assert copriv(capsys, "ledger", "show", path)[1].strip().endswith(f"; 0.75 left. Head {head}")
    assert json.loads(copriv(capsys, "ledger", "show", path, "--json")[1])["left"] == 0.75
    path.write_bytes(old)
    assert copriv(capsys, "ledger", "verify", path)[0] == 0, "the file alone is whole"
    for option, value in (("--keys", keys), ("--head", head)):
        code, said = copriv(capsys, "ledger", "verify", path, option, value)
        assert (code, "older copy" in said) == (4, True)


def test_renewed_keys_adopt_a_ledger_by_its_head(
    keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, renewed = tmp_path / "loans.ledger", tmp_path / "renewed"
    copriv(capsys, "ledger", "create", path, "--keys", keys)
    head = charged(path, keys)
    code, said = copriv(capsys, "ledger", "verify", path, "--keys", renewed)
    assert (code, "there is no witness of it" in said) == (4, True)
    assert copriv(capsys, "ledger", "adopt", path, "--keys", renewed, "--head", "abc")[0] == 2
    assert copriv(capsys, "ledger", "adopt", path, "--keys", renewed, "--head", "0" * 64)[0] == 4
    assert copriv(capsys, "ledger", "adopt", path, "--keys", renewed, "--head", head)[0] == 0
    assert copriv(capsys, "ledger", "verify", path, "--keys", renewed)[0] == 0


def test_a_witness_can_be_kept_where_the_keys_cannot_be_written_to(
    keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, elsewhere = tmp_path / "loans.ledger", tmp_path / "elsewhere"
    there = ("--keys", keys, "--witness", elsewhere)
    code, said = copriv(capsys, "ledger", "create", path, *there)
    assert code == 0
    files = [each.read_bytes() for each in sorted(keys.iterdir())]
    old = path.read_bytes()
    charged(path, keys)
    assert files == [each.read_bytes() for each in sorted(keys.iterdir())], "nothing more is written beside the keys"
    assert copriv(capsys, "ledger", "verify", path, "--witness", elsewhere)[0] == 0
    assert copriv(capsys, "ledger", "verify", path, *there)[0] == 0
    assert copriv(capsys, "ledger", "verify", path, "--keys", keys)[0] == 0, "the keys know where it is"
    path.write_bytes(old)
    code, said = copriv(capsys, "ledger", "verify", path, *there)
    assert (code, "older copy" in said) == (4, True)


def test_another_folder_for_the_witness_is_no_way_to_a_second_ledger(
    keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, second, elsewhere = tmp_path / "loans.ledger", tmp_path / "second.ledger", tmp_path / "elsewhere"
    copriv(capsys, "ledger", "create", path, "--keys", keys)
    head = charged(path, keys)
    code, said = copriv(capsys, "ledger", "create", second, "--keys", keys, "--witness", elsewhere)
    assert (code, "bank has a ledger already" in said) == (4, True)
    code, said = copriv(capsys, "ledger", "adopt", path, "--keys", keys, "--witness", elsewhere, "--head", head)
    assert (code, "moving its file" in said) == (4, True)
    assert not second.exists()
    elsewhere.mkdir()
    (witness,) = keys.glob("ledger-*.witness")
    witness.rename(elsewhere / witness.name)
    code, said = copriv(capsys, "ledger", "verify", path, "--keys", keys)
    assert (code, "there is no witness of it" in said) == (4, True)
    assert copriv(capsys, "ledger", "adopt", path, "--keys", keys, "--witness", elsewhere, "--head", head)[0] == 0
    assert copriv(capsys, "ledger", "verify", path, "--keys", keys)[0] == 0


def test_a_name_that_a_learner_chose_moves_no_cursor(
    keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "loans.ledger"
    copriv(capsys, "ledger", "create", path, "--keys", keys)
    with LedgerFile.open(path, "bank", Fraction(1), witness=keys) as file:
        file.run("f", "r", Fraction(1), 4).charge("\x1b[2K\x1b[1A\r0 spent", np.zeros(3), Fraction(1, 4))
    code, said = copriv(capsys, "ledger", "show", path)
    assert (code, "\x1b" in said, "\r" in said) == (0, False, False)
    assert "\\x1b[2K" in said


def test_a_name_that_a_coordinator_certified_moves_no_cursor(
    keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issue(keys.with_name("authority"), tmp_path / "odd", "bank\x1b[2K", "owner")
    code, said = copriv(capsys, "ledger", "create", tmp_path / "loans.ledger", "--keys", tmp_path / "odd")
    assert (code, "\x1b" in said) == (0, False)

"""Where a ledger lies and what is beside it: how it begins, what is lost with a copy, a move or a second name of it."""

import errno
import multiprocessing
import os
import shutil
import signal
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.errors import BudgetRefused, CoprivError
from copriv.privacy.ledger import LedgerDamaged, LedgerFailed
from copriv.privacy.ledger.book import Book
from copriv.privacy.ledger.create import adopt, create_ledger
from copriv.privacy.ledger.disk import InUse
from copriv.privacy.ledger.file import LedgerFile
from copriv.privacy.ledger.read import read_lines, verify
from ledger_files import seen

ONE, EIGHTH = Fraction(1), Fraction(1, 8)
THETA = np.zeros(10)

# Real processes that start in milliseconds: forked from a server that has imported the ledger and nothing else.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["copriv.privacy.ledger.file"])


def spending(path: Path, keys: Path, run: str, answers: int, how: str, pipe: Any) -> None:
    """In a process of its own: an eighth for each answer."""
    try:
        file = LedgerFile.open(path, "bank", ONE, witness=keys)
        ledger = file.run("f" * 64, run, ONE, 8)
        for k in range(answers):
            ledger.charge(f"{run}{k}", THETA + k, EIGHTH)
            ledger.record(f"{run}{k}", THETA)
        pipe.send(f"spent {file.totals.spent}")
        if how == "wait":
            pipe.recv()
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        file.close()
    except CoprivError as error:
        pipe.send(str(error))


def started(*arguments: object) -> tuple[Any, Any]:
    """The process, and a pipe to it."""
    here, there = _FORKS.Pipe()
    process = _FORKS.Process(target=spending, args=(*arguments, there))
    process.start()
    return process, here


def spend(path: Path, keys: Path, run: str = "r", answers: int = 8, how: str = "") -> str:
    """What another process said that spent, once it has ended."""
    process, pipe = started(path, keys, run, answers, how)
    heard: str = pipe.recv() if pipe.poll(60) else "nothing"
    process.join(20)
    return heard


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Path]:
    """A new ledger of "bank", and its keys' folder."""
    path, keys = tmp_path / "data" / "bank.ledger", tmp_path / "keys"
    path.parent.mkdir()
    create_ledger(path, "bank", keys)
    return path, keys


# One file, complete after every charge ------------------------------------------------------------------------------


def test_the_one_file_is_all_of_it_after_every_charge_and_a_kill(place: tuple[Path, Path], tmp_path: Path) -> None:
    """With version 0.1.0 nothing of this reached the file before answer 147: a copy of it gave the whole budget back."""
    path, keys = place
    assert spend(path, keys, answers=8, how="kill") == "spent 1"
    assert [each.name for each in path.parent.iterdir()] == ["bank.ledger"], "nothing beside it"
    elsewhere = tmp_path / "container"
    elsewhere.mkdir()
    moved = Path(shutil.copy(path, elsewhere / "only-this.ledger"))
    assert verify(moved).spent == 1
    assert "0.0 is left of the lifetime budget" in spend(moved, keys, "another run")
    path.rename(tmp_path / "renamed.ledger")
    assert "0.0 is left of the lifetime budget" in spend(tmp_path / "renamed.ledger", keys, "a third")


def test_each_charge_is_in_the_file_and_at_its_witness_before_it_returns(place: tuple[Path, Path]) -> None:
    path, keys = place
    with LedgerFile.open(path, "bank", ONE, witness=keys) as file:
        ledger = file.run("f", "r", ONE, 8)
        for k in range(8):
            ledger.charge(f"q{k}", THETA, EIGHTH)
            assert verify(path).spent == seen(keys).spent[0] == (k + 1) * EIGHTH
            assert (seen(keys).lines, seen(keys).head) == (file.totals.lines, file.totals.head)
            ledger.record(f"q{k}", THETA)


def test_only_the_owners_account_can_read_it(place: tuple[Path, Path]) -> None:
    path, keys = place
    files = [path, *keys.glob("*.witness"), keys / "ledgers.jsonl"]
    assert [stat.S_IMODE(each.stat().st_mode) for each in files] == [0o600] * 3
    for each in files:
        each.chmod(0o644)
    spend(path, keys, answers=1)
    create_ledger(path.with_name("lund"), "bank", keys, another="Lund")
    assert [stat.S_IMODE(each.stat().st_mode) for each in files] == [0o600] * 3


# Made only when asked for, and not where there was one ---------------------------------------------------------------


def test_a_ledger_is_made_over_nobodys_file(tmp_path: Path) -> None:
    """A new one was written to its name + .new first, which was another one's name."""
    other, keys = tmp_path / "bank.ledger.new", tmp_path / "keys"
    create_ledger(other, "bank", keys)
    assert spend(other, keys, answers=3) == "spent 3/8"
    before = other.read_bytes()
    create_ledger(tmp_path / "bank.ledger", "bank", keys, another="the branch in Lund")
    assert other.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bank.ledger", "bank.ledger.new", "keys"]


def test_a_ledger_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(LedgerDamaged, match="there is no ledger; if there never was one, make one"):
        LedgerFile.open(tmp_path / "bank.ledger", "bank", ONE)
    assert list(tmp_path.iterdir()) == []


def test_a_deleted_ledger_is_missed(place: tuple[Path, Path]) -> None:
    path, keys = place
    spend(path, keys, answers=8)
    path.unlink()
    assert "there is no ledger; the one that was last used is" in spend(path, keys, "again")
    for new in (path, path.with_name("another.ledger")):
        with pytest.raises(LedgerDamaged, match=r"bank has a ledger already: .*1 spent"):
            create_ledger(new, "bank", keys)
    create_ledger(path.with_name("lund.ledger"), "bank", keys, another="the branch in Lund")
    assert verify(path.with_name("lund.ledger")).remark == "the branch in Lund"
    with pytest.raises(LedgerDamaged, match=r"other bank has a ledger already: .*1 spent"):
        create_ledger(path.with_name("b.ledger"), "other bank", keys)


def test_the_same_keys_under_another_name_have_the_same_lifetime(place: tuple[Path, Path]) -> None:
    """The key was certified anew under another name, and each name had a lifetime budget of its own."""
    path, keys = place
    spend(path, keys, answers=5)
    identity, head, new = verify(path).identity, verify(path).head, path.with_name("new.ledger")
    with pytest.raises(LedgerDamaged, match=r"bank-one has a ledger already: .*0\.625 spent.*--carry"):
        create_ledger(new, "bank-one", keys)
    with pytest.raises(BudgetRefused, match=f"under the new name .*--carry {identity[:16]}"):
        LedgerFile.open(path, "bank-one", ONE, witness=keys)
    renewed = keys.with_name("renewed")
    with pytest.raises(BudgetRefused, match=f"under another name, .*--carry {identity[:16]}"):
        adopt(path, "bank-one", head, renewed)
    create_ledger(path.with_name("elsewhere.ledger"), "bank-one", keys, carry=identity, keys=renewed)
    assert verify(path.with_name("elsewhere.ledger"), witness=renewed).spent == 5 * EIGHTH
    create_ledger(new, "bank-one", keys=keys, carry=identity)
    with LedgerFile.open(new, "bank-one", ONE, witness=keys) as file:
        assert file.totals.spent == 5 * EIGHTH
    assert "is not the ledger that these keys have used" in spend(path, keys, "r", 0)


def test_what_a_lost_ledger_had_spent_is_carried_over(place: tuple[Path, Path]) -> None:
    path, keys = place
    spend(path, keys, answers=5)
    old = path.read_bytes()
    lost = seen(keys).ledger
    path.unlink()
    with pytest.raises(LedgerFailed, match="no witness of a ledger 0000"):
        create_ledger(path, "bank", keys, carry="0000")
    create_ledger(path, "bank", keys, carry=lost[:8])
    totals = verify(path, witness=keys)
    assert (totals.spent, totals.before) == (5 * EIGHTH, 5 * EIGHTH)
    assert "0.375 is left of the lifetime budget of 1.0" in spend(path, keys, "next")
    found = path.with_name("found-again.ledger")
    found.write_bytes(old)
    assert "is not the ledger that these keys have used" in spend(found, keys, "r", 3)


def test_what_lies_there_says_that_there_was_one(tmp_path: Path) -> None:
    (tmp_path / "bank.ledger").touch()
    with pytest.raises(LedgerDamaged, match="is there already"):
        create_ledger(tmp_path / "bank.ledger", "bank", tmp_path / "keys")


def test_an_empty_file_in_its_place_is_refused(place: tuple[Path, Path]) -> None:
    path, keys = place
    path.write_bytes(b"")
    assert "is empty, and a ledger never is" in spend(path, keys)
    with pytest.raises(LedgerDamaged, match="is empty"):
        verify(path)


def test_another_ledger_and_one_without_a_witness_are_refused(place: tuple[Path, Path], tmp_path: Path) -> None:
    path, keys = place
    other = tmp_path / "other.ledger"
    create_ledger(other, "bank", tmp_path / "other keys")
    assert "is not the ledger that these keys have used, which is" in spend(other, keys)
    assert "there is no witness of it" in spend(path, tmp_path / "no keys")
    with pytest.raises(LedgerDamaged, match="is not the ledger that these keys"):
        verify(other, witness=keys)


def test_a_ledger_that_was_lost_is_used_where_it_is_found_if_none_could_be_made_instead(
    place: tuple[Path, Path],
) -> None:
    """A slip in the path, and all that was spent was forgotten: the next one began at 0, and the true one was refused."""
    path, keys = place
    spend(path, keys, answers=5)
    lost, old = seen(keys).ledger, path.read_bytes()
    path.unlink()
    with pytest.raises(LedgerFailed, match="no ledger can be made there"):
        create_ledger(path.with_name("missing") / "bank.ledger", "bank", keys, carry=lost)
    with pytest.raises(LedgerDamaged, match=r"bank has a ledger already: .*0\.625 spent"):
        create_ledger(path, "bank", keys)
    path.write_bytes(old)
    assert spend(path, keys, "r", 0) == "spent 5/8"


def test_a_ledger_is_not_carried_over_while_an_owner_answers_from_it(place: tuple[Path, Path]) -> None:
    path, keys = place
    holder, pipe = started(path, keys, "x", 4, "wait")
    assert pipe.recv() == "spent 1/2"
    with pytest.raises(InUse, match=f"in use by process {holder.pid}"):
        create_ledger(path.with_name("new.ledger"), "bank", keys, carry=seen(keys).ledger)
    pipe.send("go on")
    holder.join(20)
    assert not path.with_name("new.ledger").exists()


def making(path: Path, keys: Path, pipe: Any) -> None:
    pipe.recv()
    try:
        create_ledger(path, "bank", keys)
        pipe.send("made")
    except CoprivError as error:
        pipe.send(str(error))


@pytest.mark.parametrize("names", [("a", "a"), ("a", "b")])
def test_of_two_processes_that_make_a_ledger_at_once_one_does(tmp_path: Path, names: tuple[str, str]) -> None:
    """Both did, in 21 of 30 pairs."""
    for pair in range(4):
        folder, pipes = tmp_path / f"{pair}", list[Any]()
        folder.mkdir()
        for name in names:
            here, there = _FORKS.Pipe()
            _FORKS.Process(target=making, args=(folder / name, folder / "keys", there)).start()
            pipes.append(here)
        for pipe in pipes:
            pipe.send("go")
        said = sorted(pipe.recv() for pipe in pipes)
        assert said.count("made") == 1, said
        (refused,) = (each for each in said if each != "made")
        assert "in use by" in refused or "has a ledger already" in refused or "is there already" in refused


def test_three_folders_for_witnesses_make_no_three_ledgers(tmp_path: Path) -> None:
    """Each had a lifetime budget of its own: epsilon was 3 of 1."""
    path, keys = tmp_path / "bank.ledger", tmp_path / "keys"
    create_ledger(path, "bank", tmp_path / "w1", keys=keys)
    for other in ("w2", "w3", "keys"):
        with pytest.raises(LedgerDamaged, match="bank has a ledger already"):
            create_ledger(tmp_path / f"{other}.ledger", "bank", tmp_path / other, keys=keys)
        with pytest.raises(LedgerDamaged, match=r"have its witness in .*w1, not in"):
            LedgerFile.open(path, "bank", ONE, witness=tmp_path / other, keys=keys)
    LedgerFile.open(path, "bank", ONE, witness=tmp_path / "w1", keys=keys).close()
    shutil.rmtree(tmp_path / "w1")  # as a disk that was not mounted
    with pytest.raises(LedgerDamaged, match="its witness is not in"):
        create_ledger(tmp_path / "again.ledger", "bank", tmp_path / "w1", keys=keys)
    with pytest.raises(LedgerDamaged, match="bring it back"):
        LedgerFile.open(path, "bank", ONE, keys=keys)


def test_a_key_that_is_a_symbolic_link_has_the_ledgers_of_where_it_is(place: tuple[Path, Path]) -> None:
    """Each folder with a link to the key had a list, and a lifetime budget, of its own."""
    path, keys = place
    (keys / "key.pem").write_text("key")
    spend(path, keys, answers=5)
    folder, linked, again = (keys.with_name(name) for name in ("folder", "linked", "again"))
    folder.symlink_to(keys)
    for one, target in ((linked, keys), (again, linked)):
        one.mkdir()
        (one / "key.pem").symlink_to(target / "key.pem")
    for place_of_key in (folder, linked, again):
        for witness in (None, place_of_key, keys.with_name("w")):
            with pytest.raises(LedgerDamaged, match=r"bank has a ledger already: .*0\.625 spent"):
                create_ledger(path.with_name("new"), "bank", witness, keys=place_of_key)
        LedgerFile.open(path, "bank", ONE, witness=place_of_key, keys=place_of_key).close()
        assert verify(path, witness=place_of_key).spent == 5 * EIGHTH
        with pytest.raises(LedgerDamaged, match="these keys have a ledger already"):
            adopt(path, "bank", verify(path).head, keys.with_name("w"), place_of_key)
    assert [each.name for each in linked.iterdir()] == ["key.pem"]


def test_a_list_that_stays_behind_where_the_key_becomes_a_link_is_not_forgotten(place: tuple[Path, Path]) -> None:
    path, keys = place
    spend(path, keys, answers=5)
    safe = keys.with_name("safe")
    safe.mkdir()
    (safe / "key.pem").write_text("key")
    (keys / "key.pem").symlink_to(safe / "key.pem")
    for work in (
        lambda: create_ledger(path.with_name("new"), "bank", keys=keys),
        lambda: LedgerFile.open(path, "bank", ONE, keys=keys),
    ):
        with pytest.raises(LedgerDamaged, match=r"lists ledgers of a key that is in .*safe.*Move this file there"):
            work()
    for each in [*keys.glob("*.witness"), keys / "ledgers.jsonl"]:
        each.rename(safe / each.name)
    assert spend(path, keys, "r", 0) == "spent 5/8"


def test_a_witness_that_was_never_used_is_one_where_no_keys_are_given(tmp_path: Path) -> None:
    """`create_ledger(witness=w)` has the list of w, which does not know what was made with keys and w."""
    path, keys, folder = tmp_path / "a", tmp_path / "keys", tmp_path / "w"
    create_ledger(path, "bank", folder, keys=keys)
    with pytest.raises(LedgerDamaged, match=r"bank has a ledger already: .*1 line, 0 spent"):
        create_ledger(tmp_path / "b", "bank", folder)
    create_ledger(tmp_path / "b", "bank", folder, another="Lund")
    assert LedgerFile.open(tmp_path / "b", "bank", ONE, witness=folder).totals.spent == 0


def test_a_witness_that_the_book_does_not_have_is_no_way_to_a_second_ledger(place: tuple[Path, Path]) -> None:
    """The book was deleted, or the keys were renewed and the witnesses' folder was not."""
    path, keys = place
    spend(path, keys, answers=5)
    (keys / "ledgers.jsonl").unlink()
    for other in (keys, keys.with_name("renewed")):
        with pytest.raises(LedgerDamaged, match=r"bank has a ledger already: .*0\.625 spent"):
            create_ledger(path.with_name("new"), "bank", keys, keys=other)
    create_ledger(path.with_name("new"), "bank", keys, carry=verify(path).identity)
    assert verify(path.with_name("new"), witness=keys).spent == 5 * EIGHTH
    assert "is not the ledger that these keys have used" in spend(path, keys, "r", 0)


def test_keys_that_cannot_be_written_to_make_no_ledger_and_use_the_one_they_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, keys, elsewhere = tmp_path / "bank.ledger", tmp_path / "keys", tmp_path / "elsewhere"
    opens = os.open

    def read_only(name: Any, flags: int, *more: Any) -> int:
        if Path(name).parent == keys and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, "Read-only file system")
        return opens(name, flags, *more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", read_only)
        with pytest.raises(LedgerFailed, match="Make the ledger once where the folder of the keys can be written to"):
            create_ledger(path, "bank", elsewhere, keys=keys)
    create_ledger(path, "bank", elsewhere, keys=keys)
    monkeypatch.setattr(os, "open", read_only)
    with LedgerFile.open(path, "bank", ONE, keys=keys) as file:
        file.run("f", "r", ONE, 8).charge("q", THETA, EIGHTH)
    assert verify(path, witness=keys).spent == verify(path, witness=elsewhere).spent == EIGHTH


def test_a_ledger_that_was_replaced_stays_so_when_the_other_gets_a_new_witness(place: tuple[Path, Path]) -> None:
    """Found by test_ledger_histories.py: the second line of a ledger in the book did not say what it replaces."""
    path, keys = place
    spend(path, keys, answers=3)
    new = path.with_name("new.ledger")
    create_ledger(new, "bank", keys, carry=verify(path).identity)
    (keys / f"ledger-{verify(new).identity[:16]}.witness").unlink()
    adopt(new, "bank", verify(new).head, keys)
    assert "0.625 is left of the lifetime budget" in spend(new, keys, "next", 0)
    assert "is not the ledger that these keys have used" in spend(path, keys, "r", 0)


def test_a_book_that_was_changed_is_not_read(place: tuple[Path, Path]) -> None:
    path, keys = place
    book = keys / "ledgers.jsonl"
    whole = book.read_bytes()
    for changed, line in ((b"?" + whole + whole, 1), (whole + b'{"ledger": "0', 2), (whole + bytes(40), 2)):
        book.write_bytes(changed)
        assert f"line {line} cannot be read" in spend(path, keys, "r", 0)
    book.write_bytes(whole)
    assert spend(path, keys, "r", 0) == "spent 0"


def test_a_book_with_two_names_gets_no_line_that_only_one_of_them_has(place: tuple[Path, Path]) -> None:
    path, keys = place
    os.link(keys / "ledgers.jsonl", keys / "second")
    with pytest.raises(LedgerFailed, match="has 2 names"):
        create_ledger(path.with_name("lund"), "bank", keys, another="Lund")
    assert spend(path, keys, "r", 0) == "spent 0"


def test_a_book_that_is_a_link_stays_one(place: tuple[Path, Path]) -> None:
    path, keys = place
    shared = keys.with_name("shared.jsonl")
    (keys / "ledgers.jsonl").rename(shared)
    (keys / "ledgers.jsonl").symlink_to(shared)
    create_ledger(path.with_name("lund"), "bank", keys, another="Lund")
    assert (keys / "ledgers.jsonl").is_symlink()
    assert len(shared.read_bytes().splitlines()) == 2


@pytest.mark.parametrize("linked", ["the list", "the list of a linked key"])
def test_a_book_that_leads_to_a_disk_that_is_away_makes_no_ledger(place: tuple[Path, Path], linked: str) -> None:
    path, keys = place
    disk, witness = keys.with_name("disk"), keys.with_name("witness")
    disk.mkdir()
    witness.mkdir()
    (keys / "ledgers.jsonl").rename(disk / "ledgers.jsonl")
    if linked == "the list of a linked key":
        (disk / "key.pem").write_bytes(b"a key")
        (keys / "key.pem").symlink_to(disk / "key.pem")
        (disk / "ledgers.jsonl").rename(keys.with_name("away.jsonl"))
        (disk / "ledgers.jsonl").symlink_to(keys.with_name("away.jsonl"))
        keys.with_name("away.jsonl").unlink()
    else:
        (keys / "ledgers.jsonl").symlink_to(disk / "ledgers.jsonl")
        disk.rename(keys.with_name("unplugged"))
        disk.mkdir()
    with pytest.raises(LedgerFailed, match="is not there, so nobody can tell what was spent"):
        create_ledger(path.with_name("lund"), "bank", witness, keys=keys)


LATER = b'", "since": "2027"}'


@pytest.mark.parametrize("line", ["first", "last"])
@pytest.mark.parametrize(
    "change",
    [
        lambda line: b"[" + line[1:],
        lambda line: line.replace(b'"}', LATER),
        lambda line: line.replace(b'"}', LATER)[:-1],
        lambda line: line.replace(b'"ledger": "', b'"ledger": 7, "was": "'),
        lambda line: line.replace(b'"witness": ""', b'"witness": null'),
        lambda line: line[:-2] + b"\n",
        lambda line: bytes(len(line) - 1) + b"\n",
        lambda line: b"\n",
    ],
)
def test_a_line_of_the_book_that_is_not_understood_makes_no_ledger_and_loses_none(
    place: tuple[Path, Path], line: str, change: Any
) -> None:
    """The last one was taken for what a crash tore, and written over: the lifetime budget began anew."""
    path, keys = place
    spend(path, keys, answers=8)
    create_ledger(path.with_name("lund"), "bank", keys, another="Lund")
    book = keys / "ledgers.jsonl"
    first, last = book.read_bytes().splitlines(keepends=True)
    damaged = change(first) + last if line == "first" else first + change(last)
    book.write_bytes(damaged)
    number = {"first": 1, "last": 2}[line]
    for work in (
        lambda: create_ledger(path.with_name("new"), "bank", keys.with_name("w2"), keys=keys, another="more"),
        lambda: adopt(path, "bank", verify(path).head, keys),
        lambda: LedgerFile.open(path, "bank", ONE, keys=keys),
        lambda: verify(path, witness=keys),
    ):
        with pytest.raises(
            LedgerDamaged, match=rf"ledgers\.jsonl: line {number} cannot be read.*backup.*adopt --head"
        ) as why:
            work()
        assert why.value.exit_code == 4
    assert book.read_bytes() == damaged


def test_a_last_line_of_the_book_without_its_newline_counts(place: tuple[Path, Path]) -> None:
    """An editor leaves it out, or the writer was killed before it: the ledger that was replaced counted again."""
    path, keys = place
    spend(path, keys, answers=5)
    book, new = keys / "ledgers.jsonl", path.with_name("new")
    create_ledger(new, "bank", keys, carry=verify(path).identity)
    book.write_bytes(book.read_bytes()[:-1])
    assert "is not the ledger that these keys have used" in spend(path, keys, "r", 0)
    with pytest.raises(LedgerDamaged, match=r"bank has a ledger already: .*0\.625 spent"):
        create_ledger(path.with_name("other"), "bank", keys.with_name("w2"), keys=keys)
    create_ledger(path.with_name("lund"), "bank", keys, another="Lund")
    assert len(book.read_bytes().splitlines()) == 3
    assert book.read_bytes().endswith(b"\n")
    assert "0.375 is left of the lifetime budget" in spend(new, keys, "r", 0)


@pytest.mark.parametrize("kept", range(3))
def test_a_last_line_of_the_book_that_lost_its_end_makes_no_second_ledger(tmp_path: Path, kept: int) -> None:
    """It was taken for a line whose writer was killed, and the lifetime budget began anew."""
    path, keys = tmp_path / "a", tmp_path / "keys"
    create_ledger(path, "bank", keys)
    book = keys / "ledgers.jsonl"
    whole = book.read_bytes()
    assert len(Book(keys).booked()) == 1
    for end in range(1 + kept, len(whole) - 1, 3):
        for damaged in (whole[:end], whole[:end] + bytes(len(whole) - end)):
            book.write_bytes(damaged)
            with pytest.raises(LedgerDamaged, match="line 1 cannot be read: it is damaged, cut off"):
                create_ledger(tmp_path / "b", "bank", tmp_path / "elsewhere", keys=keys)
            assert book.read_bytes() == damaged


# One process, one name ----------------------------------------------------------------------------------------------


def test_two_processes_on_one_file_by_two_names_spend_one_lifetime(place: tuple[Path, Path]) -> None:
    """A hard link; a file that is mounted into a container alone looks the same. Each spent the whole budget."""
    path, keys = place
    second = path.with_name("second.ledger")
    holder, pipe = started(path, keys, "x", 4, "wait")
    assert pipe.recv() == "spent 1/2"
    os.link(path, second)
    for name in (path, second):
        with pytest.raises(InUse, match=f"process {holder.pid}"):
            LedgerFile.open(name, "bank", ONE, witness=keys)
    pipe.send("go on")
    holder.join(20)
    for name in (path, second):
        assert "has 2 names" in spend(name, keys, "y", 4)
    second.unlink()
    assert spend(path, keys, "x", 0) == "spent 1/2"


def test_a_copy_cannot_be_spent_while_the_ledger_is_in_use(place: tuple[Path, Path]) -> None:
    """Two files have two locks; each spent the whole lifetime, and the witness was written over in turns."""
    path, keys = place
    holder, pipe = started(path, keys, "x", 4, "wait")
    assert pipe.recv() == "spent 1/2"
    copy = Path(shutil.copy(path, path.with_name("copy.ledger")))
    with pytest.raises(InUse, match=f"witness of this ledger, or of a copy of it, is in use by process {holder.pid}"):
        LedgerFile.open(copy, "bank", ONE, witness=keys)
    pipe.send("go on")
    holder.join(20)
    assert spend(path, keys, "x", 0) == "spent 1/2"


def test_a_disk_without_locks_is_told_in_words(place: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A network share may have none: that is not somebody else who has the file."""
    path, keys = place

    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("copriv.privacy.ledger.disk.fcntl.flock", none)
    with pytest.raises(CoprivError, match=r"cannot be locked \(No locks available\).*disk of this machine") as caught:
        LedgerFile.open(path, "bank", ONE, witness=keys)
    assert not isinstance(caught.value, InUse)


def test_a_witness_that_is_replaced_under_a_running_owner_stops_it(place: tuple[Path, Path]) -> None:
    """What is written to the old one would be remembered by nobody."""
    path, keys = place
    (witness,) = keys.glob("*.witness")
    with LedgerFile.open(path, "bank", ONE, witness=keys) as file:
        ledger = file.run("f", "r", ONE, 8)
        ledger.charge("q0", THETA, EIGHTH)
        shutil.copy(witness, keys / "kept")
        (keys / "kept").rename(witness)
        with pytest.raises(LedgerFailed, match="was replaced while in use"):
            ledger.charge("q1", THETA, EIGHTH)
    assert verify(path).spent == 2 * EIGHTH, "the second charge stands, and nothing was answered for it"


def test_a_second_name_stops_a_running_owner(place: tuple[Path, Path]) -> None:
    path, keys = place
    with LedgerFile.open(path, "bank", ONE, witness=keys) as file:
        ledger = file.run("f", "r", ONE, 8)
        ledger.charge("q0", THETA, EIGHTH)
        os.link(path, path.with_name("second"))
        with pytest.raises(LedgerDamaged, match="2 names"):
            ledger.charge("q1", THETA, EIGHTH)
    assert verify(path).spent == EIGHTH


@pytest.mark.filterwarnings("ignore:This process")
def test_a_process_that_is_forked_cannot_spend(place: tuple[Path, Path]) -> None:
    path, keys = place
    with LedgerFile.open(path, "bank", ONE, witness=keys) as file:
        ledger = file.run("f", "r", ONE, 8)
        child = os.fork()
        if child == 0:
            try:
                ledger.charge("q", THETA, EIGHTH)
                os._exit(0)
            except LedgerFailed:
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        ledger.charge("q", THETA, EIGHTH)
    assert verify(path).spent == EIGHTH


@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_process_that_lets_go_does_not_say_that_the_ledger_is_closed(place: tuple[Path, Path]) -> None:
    """A witness that says "closed" makes what was paid ahead good again after a failure of the power."""
    path, keys = place
    with LedgerFile.open(path, "bank", ONE, ahead=3, witness=keys) as file:
        ledger = file.run("f", "r", ONE, 8)
        ledger.charge("q0", THETA, EIGHTH)
        ledger.record("q0", THETA)
        child = os.fork()
        if child == 0:
            file.close()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not seen(keys).closed


# Older copies --------------------------------------------------------------------------------------------------------


def test_every_older_copy_is_noticed_by_the_owner_alone(place: tuple[Path, Path]) -> None:
    path, keys = place
    copies = [path.read_bytes()]
    with LedgerFile.open(path, "bank", ONE, witness=keys) as file:
        ledger = file.run("f", "r", ONE, 8)
        for k in range(4):
            copies.append(path.read_bytes())
            ledger.charge(f"q{k}", THETA, EIGHTH)
            copies.append(path.read_bytes())
            ledger.record(f"q{k}", THETA)
    newest = path.read_bytes()
    for copy in copies:
        path.write_bytes(copy)
        with pytest.raises(LedgerDamaged, match="older copy"):
            LedgerFile.open(path, "bank", ONE, witness=keys)
    path.write_bytes(newest)
    with LedgerFile.open(path, "bank", ONE, witness=keys) as file:
        assert file.totals.spent == 4 * EIGHTH


def test_after_a_kill_no_copy_from_before_a_charge_is_taken(place: tuple[Path, Path]) -> None:
    """A kill leaves lines that the witness did not see, none of them a charge that returned."""
    path, keys = place
    spend(path, keys, answers=3, how="kill")
    lines = path.read_bytes().splitlines(keepends=True)
    charges = [number for number, line in enumerate(read_lines(path)) if line.kind == "charge"]
    for kept in range(1, len(lines) + 1):
        path.write_bytes(b"".join(lines[:kept]))
        if kept <= charges[-1]:
            assert "older copy" in spend(path, keys, "r", 0)
        else:
            assert spend(path, keys, "r", 0) == "spent 3/8"
            break  # the witness has seen the file in this state now


def test_a_line_that_a_crash_tore_was_never_paid_with(place: tuple[Path, Path]) -> None:
    """At whatever byte a write broke off, and whatever the disk made of the rest: what was acknowledged is there."""
    path, keys = place
    spend(path, keys, answers=2, how="kill")
    whole, (witness,) = path.read_bytes(), keys.glob("*.witness")
    saved = witness.read_bytes()
    seen_bytes = len(b"".join(whole.splitlines(keepends=True)[: seen(keys).lines]))
    with LedgerFile.open(path, "bank", ONE, witness=keys) as file:
        file.run("f" * 64, "r", ONE, 8).charge("next", THETA, EIGHTH)
        file._sound = False  # as if it were killed here
    torn = path.read_bytes()
    for cut in range(seen_bytes, len(torn), 37):
        for rest in (b"", b"\x00" * 300, b"\x00" * 20 + b"\n"):
            path.write_bytes(torn[:cut] + rest)
            witness.write_bytes(saved)
            with LedgerFile.open(path, "bank", ONE, witness=keys) as file:
                assert file.totals.spent in (2 * EIGHTH, 3 * EIGHTH)
                file._sound = False
            assert verify(path, witness=keys).spent >= 2 * EIGHTH
    path.write_bytes(torn[: seen_bytes - 1])
    witness.write_bytes(saved)
    with pytest.raises(LedgerDamaged, match=r"cannot be read|older copy"):
        LedgerFile.open(path, "bank", ONE, witness=keys)


@pytest.mark.parametrize("half", [0, 1])
def test_a_witness_of_which_one_half_is_torn_still_tells(place: tuple[Path, Path], half: int) -> None:
    path, keys = place
    spend(path, keys, answers=2, how="kill")
    (witness,) = keys.glob("*.witness")
    raw = bytearray(witness.read_bytes())
    raw[half * 4096 + 10 : half * 4096 + 30] = b"#" * 20
    witness.write_bytes(raw)
    assert spend(path, keys, "r", 0) == "spent 1/4"
    witness.write_bytes(b"#" * 8192)
    assert "is damaged, and no ledger can be held against it" in spend(path, keys, "r", 0)


def test_a_witness_that_cannot_be_written_stops_the_answer(
    place: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, keys = place
    with LedgerFile.open(path, "bank", ONE, witness=keys) as file:
        ledger = file.run("f" * 64, "r", ONE, 8)

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("copriv.privacy.ledger.witness.flush", full)
            with pytest.raises(LedgerFailed, match="its witness cannot be written"):
                ledger.charge("q", THETA, EIGHTH)
        with pytest.raises(LedgerFailed, match="closed after a failure"):
            ledger.charge("q2", THETA, EIGHTH)
    assert spend(path, keys, "r", 0) == "spent 1/8"


def test_new_keys_take_a_ledger_only_by_its_head(place: tuple[Path, Path], tmp_path: Path) -> None:
    path, keys = place
    spend(path, keys, answers=2)
    head, new = verify(path).head, tmp_path / "new keys"
    with pytest.raises(LedgerDamaged, match="its head is"):
        adopt(path, "bank", "0" * 64, new)
    with pytest.raises(BudgetRefused, match="ledger of 'bank'"):
        adopt(path, "thief", head, new)
    with pytest.raises(LedgerDamaged, match="have a ledger already"):
        adopt(path, "bank", head, keys)
    adopt(path, "bank", head, new)
    assert spend(path, new, "r", 0) == "spent 1/4"


def test_new_names_of_runs_do_not_make_a_ledger_longer(place: tuple[Path, Path]) -> None:
    path, keys = place
    with LedgerFile.open(path, "bank", ONE, witness=keys) as file:
        before = path.stat().st_size
        for k in range(100):
            file.run("f", f"run {k}", ONE, 8)
        assert path.stat().st_size == before
        file.run("f", "run 7", ONE, 8).charge("q", THETA, EIGHTH)
        assert file.totals.lines == 4


@pytest.mark.parametrize("lost", ["the list", "the keys"])
def test_what_a_successor_spent_is_not_forgotten_by_adopting_what_it_carried_on(tmp_path: Path, lost: str) -> None:
    """Its witness lies there and saw it in use, though no list says any longer which ledger replaced which."""
    keys = tmp_path / "keys"
    create_ledger(tmp_path / "first", "bank", keys=keys)
    spend(tmp_path / "first", keys, "run-1")
    create_ledger(tmp_path / "second", "bank", keys=keys, carry=verify(tmp_path / "first").identity[:16])
    spend(tmp_path / "second", keys, "run-2")
    new = keys
    if lost == "the list":
        (keys / "ledgers.jsonl").unlink()
    else:
        new = tmp_path / "renewed"
    with pytest.raises(LedgerDamaged, match="witnesses of other ledgers"):
        adopt(tmp_path / "first", "bank", verify(tmp_path / "first").head, keys, new)
    newest = verify(tmp_path / "second")
    assert adopt(tmp_path / "second", "bank", newest.head, keys, new).identity == newest.identity

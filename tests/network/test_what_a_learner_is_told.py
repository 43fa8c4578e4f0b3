"""Whatever goes wrong at an owner, the learner hears a fixed sentence: no path, no number of the ledger, no cell."""

import asyncio
import importlib
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import copriv
from copriv.errors import CoprivError, Unreachable
from copriv.losses import Squared
from copriv.network.agent import _REFUSALS, OwnerAgent, Patience
from copriv.network.keys import Keys
from copriv.network.messages import Finished, Hello, Refusal, decode, encode, signed_query
from copriv.network.transport import Link
from copriv.owner import Owner
from copriv.privacy.laplace import LaplaceAnswer
from copriv.privacy.ledger import MemoryLedger
from copriv.privacy.ledger.file import LedgerFile
from copriv.privacy.release_time import ReleaseTime
from copriv.protocol import Answer, Query
from ledger_files import opened
from memory_network import MemoryNetwork
from network_parties import MemoryLedgers, agreement, keys, records, welcome

AGREED = agreement()
SECRET = "/srv/bank-1/loans.ledger: spent 0.731 of 1.906, 1.175 left; row 17, income: is 'Jansen', not a number"
FIXED = {sentence for *_, sentence in _REFUSALS} | {"its records do not keep to the agreement"}
PARTS = [b"/srv", b"loans", b"ledger:", b"731", b"906", b"175", b"17", b"Jansen", b"income"]


def errors() -> list[type[CoprivError]]:
    """Every kind of error that copriv raises on purpose, wherever it is defined."""
    source = Path(copriv.__file__).parent
    for file in source.glob("**/*.py"):
        if re.search(r"^class \w+\(.*(Error|Refused|Input|Unreachable|Failed|Lost)\)", file.read_text("utf-8"), re.M):
            importlib.import_module(".".join(("copriv", *file.relative_to(source).with_suffix("").parts)))
    found, kinds = [CoprivError], set[type[CoprivError]]()
    while found:
        kinds.add(kind := found.pop())
        found += kind.__subclasses__()
    return sorted((kind for kind in kinds if kind.__module__.startswith("copriv.")), key=lambda kind: kind.__name__)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Keys]:
    return keys(tmp_path_factory.mktemp("keys"), ["bank-1"])


def told(held: dict[str, Keys], ledgers: Any, queries: int = 2, head: str = "") -> tuple[bytes, list[str]]:
    """All bytes that go to a learner that asks `queries` queries, but for hello and answers; and the owner's log and end."""
    said, heard = list[str](), list[bytes]()

    async def learner(link: Link) -> None:
        with suppress(Unreachable):
            await asking(link)

    async def asking(link: Link) -> None:
        hello = decode(await link.receive())
        assert isinstance(hello, Hello)
        if heard:  # it comes again, after an error that was like a broken connection
            await link.send(encode(Refusal("", "connection", "enough")))
            return
        await link.send(encode(replace(welcome(held["learner"], hello), chain_head=head)))
        for number in range(queries):
            query = Query(f"q{number}", AGREED.fingerprint, "bank-1", np.zeros(3))
            await link.send(encode(signed_query(held["learner"], "run", query)))
            heard.append(await link.receive())
        await link.send(encode(Finished("over")))
        await link.receive()

    async def session() -> None:
        network = MemoryNetwork()
        async with network.listening(learner):
            try:
                agent = OwnerAgent(
                    AGREED, "bank-1", records(0), Squared(), ledgers, network.dialer("bank-1"),
                    keys=held["bank-1"], patience=Patience(1e-3, 1e-3, 0.1), log=said.append, times=ReleaseTime(1e-6),
                )  # fmt: skip
                await asyncio.wait_for(agent.serve(), 5)
            except CoprivError as error:
                said.append(str(error))

    asyncio.run(session())
    assert {one.reason for one in map(decode, heard) if isinstance(one, Refusal)} <= FIXED
    # What an answer says is noise, and the head of a ledger is as good as random: any digits may stand in it.
    return b"".join(frame for frame in heard if not isinstance(decode(frame), Answer)), said


POINTS: dict[str, tuple[type, str]] = {
    "a run begins": (MemoryLedgers, "run"),
    "a head is looked for": (MemoryLedgers, "holds"),
    "a ledger is opened for a run": (Owner, "charging"),
    "a query is looked up": (MemoryLedger, "released"),
    "a charge": (MemoryLedger, "charge"),
    "noise": (LaplaceAnswer, "release"),
    "the answer is written down": (MemoryLedger, "record"),
    "anywhere in an answer": (Owner, "answer"),
    "a session": (OwnerAgent, "_check_certificate"),
}


@pytest.mark.parametrize("point", POINTS)
def test_no_error_of_any_kind_at_any_point_tells_the_learner_more_than_a_fixed_sentence(
    held: dict[str, Keys], monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    kinds = errors()
    assert len(kinds) >= 18
    for kind in kinds:

        def raises(*_: Any, kind: type[CoprivError] = kind, **__: Any) -> Any:
            raise kind(SECRET)

        with monkeypatch.context() as patch:
            patch.setattr(*POINTS[point], raises)
            frames, log = told(held, MemoryLedgers("bank-1"), head="0" * 64)
        assert frames
        for part in PARTS:
            assert part not in frames, (kind.__name__, part, frames)
        assert any(SECRET in line for line in log), (kind.__name__, log)


def own_ledger(folder: Path, lifetime: Fraction = Fraction(1)) -> LedgerFile:
    return opened(folder / "Jansen.ledger", "bank-1", lifetime)


def replaced(file: LedgerFile) -> None:
    shutil.copy(file.path, file.path.with_name("copy"))
    file.path.with_name("copy").replace(file.path)


def without_its_line(file: LedgerFile) -> None:
    with file.path.open("ab") as more:
        more.write(b"another line")


@pytest.mark.parametrize(
    ("lifetime", "queries", "happens", "why", "code"),
    [
        (Fraction(1), 6, None, "spent 1.000 of 1.000", "budget"),
        (Fraction(1, 2), 1, None, "0.5 is left of the lifetime budget of 0.5", "budget"),
        (Fraction(1), 1, replaced, "Jansen.ledger", "ledger"),
        (Fraction(1), 1, without_its_line, "Jansen.ledger", "ledger"),
    ],
    ids=["all answers given", "lifetime budget spent", "another file in its place", "a line that is none of its own"],
)
def test_what_a_real_ledger_says_stays_with_its_owner(
    tmp_path: Path,
    held: dict[str, Keys],
    lifetime: Fraction,
    queries: int,
    happens: Callable[[LedgerFile], None] | None,
    why: str,
    code: str,
) -> None:
    with own_ledger(tmp_path, lifetime) as file:
        if happens is not None:
            happens(file)
        frames, log = told(held, file, queries)
    assert code.encode() in frames
    for part in (b"Jansen", str(tmp_path).encode(), b"spent", b"0.5", b"1.0", b"left"):
        assert part not in frames
    assert any(why in line for line in log), log


def test_a_reason_is_logged_once_for_each_kind(tmp_path: Path, held: dict[str, Keys]) -> None:
    with own_ledger(tmp_path) as file:
        _, log = told(held, file, queries=30)
    assert len([line for line in log if "refused" in line]) == 1

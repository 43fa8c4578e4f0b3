"""Random histories of a lying learner against live owners, over memory and gRPC with TLS; bank-4's keys are on its side.

It asks at different points and in old attempts, shows owners different sets of keys, old keys and sets of one, changes sets and
signatures, and where an owner may be missing, names different survivors. HISTORIES says how many are played.
"""

import os
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.network.masked_sum import MaskedAnswers, _key_content, _set_content, _survivors_content
from copriv.network.messages import MaskOpened, PublicKeys, Refusal, SetSigned, Survivors
from copriv.network.sum_messages import attempt_of
from copriv.privacy.mask_shares import MaskShares, sum_of
from copriv.privacy.masks import EphemeralKey
from copriv.privacy.shared_noise import SharedNoise, as_words
from copriv.protocol import Answer
from ledger_files import opened
from network.test_sum_runs import NAMES, Held, Liar, agreed_by, keys

HISTORIES = int(os.environ.get("HISTORIES", "25"))
HONEST, LIAR = NAMES[:3], NAMES[3]
NOTHING = np.zeros(3, dtype=np.uint64)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Held:
    return keys(tmp_path_factory.mktemp("keys"), NAMES)


class Lies:
    """What a learner has said to three honest owners and heard of them, and what they drew."""

    def __init__(self, liar: Liar, agreed: Agreement, drawn: dict[int, list[Any]], seed: int) -> None:
        self.liar, self.agreed, self.drawn, self.rng = liar, agreed, drawn, np.random.default_rng(seed)
        self.least = len(NAMES) - agreed.dropouts
        self.said: dict[tuple[str, str, str], set[Any]] = defaultdict(set)
        """What an owner signed or gave, by what it is, its name and the attempt's identity."""
        self.old: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.sums = self.asked = 0

    def lies(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def any_of(self, among: Any) -> Any:
        return among[int(self.rng.integers(len(among)))]

    def signed_by_liar(self, content: bytes) -> str:
        return self.liar.held[LIAR].sign(content)

    def valid(self, texts: dict[str, str], content: bytes) -> bool:
        parties = self.liar.held
        return len(texts) >= self.least and all(parties[n].party.signed(t, content) for n, t in texts.items())

    async def asks(self, name: str, message: Any, what: str, say: Any = None) -> Any:
        """Its reply, or None where it refuses; an owner says at most one thing of a kind in an attempt."""
        self.asked += 1
        reply = await self.liar.asks(name, message)
        if isinstance(reply, Refusal):
            assert reply.code == "query"
            return None
        kind = "answer" if isinstance(reply, Answer) else what
        said = reply.gradient.tobytes() if isinstance(reply, Answer) else say if say is not None else reply
        self.said[kind, name, message.identity].add(said)
        assert len(self.said[kind, name, message.identity]) == 1, "two of them in one attempt"
        return reply

    async def history(self, number: int) -> None:
        lies, main = self.lies, np.array([0.0, 0.1, number / HISTORIES])
        query = self.liar.query(LIAR, main, number)
        attempt, identity = attempt_of(query, self.liar.run), query.identity
        own = [EphemeralKey(), EphemeralKey()]

        def of_liar(key: EphemeralKey) -> tuple[str, str]:
            return key.public.hex(), self.signed_by_liar(_key_content(attempt, LIAR, key.public))

        fresh: dict[str, tuple[str, str]] = {LIAR: of_liar(own[0])}
        for name in HONEST:
            if lies(0.1):
                point, at = self.any_of([(main + 0.5, number), (main, max(number - 1, 1)), (main * 0, 1)])
                await self.asks(name, self.liar.query(name, point, at), f"key {self.asked}")
            reply = await self.asks(name, self.liar.query(name, main, number), "key")
            if isinstance(reply, PublicKeys):
                fresh[name] = reply.keys[0], reply.signatures[0]
        sets, signed = dict[str, dict[str, bytes]](), dict[str, str]()
        missing = self.any_of(NAMES) if self.agreed.dropouts and lies(0.3) else ""
        for name in map(str, self.rng.permutation([n for n in HONEST if n in fresh])):
            for share in (0.1, 0.8)[: 1 + lies(0.1)]:
                shown = {n: fresh[n] for n in NAMES if n in fresh and n != missing}
                if lies(share):
                    other = self.any_of([n for n in NAMES if n != name])
                    wrong = [of_liar(own[1]), self.any_of(self.old[other] or [("00" * 32, "00")]), ("", "")]
                    shown = self.any_of(
                        [{name: fresh[name]}, shown | {other: self.any_of(wrong)}, shown | {LIAR: wrong[0]}]
                    )
                texts = [shown.get(n, ("", "")) for n in NAMES]
                message = PublicKeys(identity, tuple(key for key, _ in texts), tuple(text for _, text in texts))
                reply = await self.asks(name, message, "set", tuple(key for key, _ in texts))
                if reply is not None:
                    sets[name] = {n: bytes.fromhex(shown[n][0]) for n in NAMES if shown.get(n, ("", ""))[0]}
                    signed[name] = reply.signatures[0]
                    assert len(sets[name]) >= self.least
        for name, one in fresh.items():
            self.old[name].append(one)
        given = dict[str, Any]()
        for name, mine in sets.items():
            content = _set_content(attempt, mine)
            texts = {n: text for n, text in signed.items() if n in mine} | {LIAR: self.signed_by_liar(content)}
            if LIAR not in mine:
                del texts[LIAR]
            if lies(0.1):
                texts |= {self.any_of(list(texts)): self.signed_by_liar(content)}
            if lies(0.1):
                del texts[self.any_of(list(texts))]
            message = SetSigned(identity, tuple(texts.get(n, "") for n in NAMES))
            reply = await self.asks(name, message, "answer")
            if reply is not None:
                assert self.valid(texts, content), "not enough have signed its keys"
                given[name] = as_words(reply.gradient)
        self.alike = [n for n in given if sets[n] == sets[next(iter(given))]]
        if not self.agreed.dropouts:
            if len(self.alike) == len(HONEST):
                mine = sets[HONEST[0]]
                key = next(key for key in own if key.public == mine[LIAR])
                total = sum(given.values()) + key.masked(NOTHING, LIAR, attempt, mine)
                assert np.array_equal(total, sum(self.drawn[NAMES.index(n)][-1] for n in HONEST))
                self.sums += 1
            return
        await self.survivors(attempt, identity, sets, given, own)

    async def survivors(self, attempt: Any, identity: str, sets: Any, given: dict[str, Any], own: Any) -> None:
        lies, signed, chosen = self.lies, dict[str, str](), dict[str, tuple[str, ...]]()
        for name in given:
            there = tuple(n for n in sets[name] if n in given or n == LIAR)
            for share in (0.1, 0.8)[: 1 + lies(0.2)]:
                shown = there
                if lies(share):
                    shown = tuple(n for n in sets[name] if not lies(0.25))
                if (reply := await self.asks(name, Survivors(identity, shown, ()), "survivors", shown)) is not None:
                    chosen[name], signed[name] = shown, reply.signatures[0]
        parts: dict[tuple[str, ...], dict[str, Any]] = defaultdict(dict)
        for name, those in chosen.items():
            content = _survivors_content(attempt, sets[name], those)
            texts = signed | ({LIAR: self.signed_by_liar(content)} if LIAR in sets[name] else {})
            if lies(0.1):
                del texts[self.any_of(list(texts))]
            if lies(0.3):  # what others signed of other survivors is left out
                texts = {n: text for n, text in texts.items() if n == LIAR or chosen[n] == those}
            message = Survivors(identity, those, tuple(texts.get(n, "") for n in NAMES))
            reply = await self.asks(name, message, "opened", those)
            if isinstance(reply, MaskOpened):
                assert self.valid(texts, content), "not enough have signed its survivors"
                parts[those][name] = as_words(reply.words)
        assert len(parts) <= 1, "two sums of one attempt"
        for those, words in parts.items():
            mine = sets[next(iter(words))]
            vectors = {n: given[n].reshape(2, 3) for n in those if n != LIAR and n in given}
            if LIAR in mine:
                key = next(key for key in own if key.public == mine[LIAR])
                shares = MaskShares(key, LIAR, attempt, mine, self.least)
                rows = shares.masked(NOTHING)
                if LIAR in those:
                    vectors[LIAR] = np.vstack([rows, np.zeros((2 - len(rows), 3), np.uint64)])
                words[LIAR] = shares.opened(those)
            if len(words) >= self.least and vectors.keys() == {*those}:
                total = sum_of(vectors, words, list(mine), self.least)
                noisy = [self.drawn[NAMES.index(n)][-1] for n in those if n != LIAR]
                assert np.array_equal(total, np.sum(np.array(noisy, dtype=object), axis=0) % (2**64 - 59))
                self.sums += 1


def signs_any_set(side: Any) -> None:
    """It forgets the set of keys that it signed before."""
    sign = side.sign

    def forgetful(self: Any, attempt: Any, keys: Any) -> Any:
        if self._open is not None:
            self._open.keys = None
        return sign(self, attempt, keys)

    side.sign = forgetful


def trusts_signatures(side: Any) -> None:
    side._check_signed = lambda *_: None


def opens_any_survivors(side: Any) -> None:
    """It forgets the survivors that it signed before."""
    survivors = side.survivors

    def forgetful(self: Any, attempt: Any, names: Any) -> Any:
        if self._open is not None:
            self._open.survivors = ()
        return survivors(self, attempt, names)

    side.survivors = forgetful


@pytest.mark.parametrize(
    ("defect", "dropouts"),
    [(signs_any_set, 0), (trusts_signatures, 0), (trusts_signatures, 1), (opens_any_survivors, 1)],
)
def test_wrong_owners_are_found(
    defect: Any, dropouts: int, held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method in ("sign", "_check_signed", "survivors"):
        monkeypatch.setattr(MaskedAnswers, method, getattr(MaskedAnswers, method))  # put back afterwards
    defect(MaskedAnswers)
    with pytest.raises(AssertionError, match=r"two of them in one attempt|not enough have signed"):
        test_a_lying_learner_gets_the_right_sum_or_nothing("memory", dropouts, held, tmp_path, monkeypatch)


@pytest.mark.parametrize("dropouts", [0, 1])
@pytest.mark.parametrize("kind", ["memory", "grpc"])
def test_a_lying_learner_gets_the_right_sum_or_nothing(
    kind: str, dropouts: int, held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"dropouts": dropouts} if dropouts else {}
    agreed = agreed_by(held, attempts=3 * HISTORIES, horizon=3 * HISTORIES + 9, **more)
    drawn: dict[int, list[Any]] = defaultdict(list)
    share = SharedNoise.share

    def seen(self: SharedNoise, owner: int, answer: Any) -> Any:
        drawn[owner].append(share(self, owner, answer))
        return drawn[owner][-1]

    monkeypatch.setattr(SharedNoise, "share", seen)
    liar = Liar(agreed, held, tmp_path, kind)
    lies = Lies(liar, agreed, drawn, seed=dropouts)

    async def scenario(liar: Liar) -> None:
        await liar.introduce()
        for number in range(1, HISTORIES + 1):
            await lies.history(number)

    liar.patience = 100.0 + HISTORIES
    liar.lie(scenario)
    assert lies.sums > HISTORIES / 10, "most of what it says is true"
    for i, name in enumerate(HONEST):
        answered = sum(kind == "answer" and who == name for kind, who, _ in lies.said)
        with opened(tmp_path / f"{name}.ledger", name, Fraction(1)) as file:
            charged = file.totals.spent * agreed.answers
        assert charged == answered == len(drawn[i]), "each answer has noise and a charge of its own"

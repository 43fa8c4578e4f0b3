"""What a masked sum costs each owner in one attempt: seconds of processor time, and bytes.

    python -m benchmarks.sum [--owners 3 30 100 1000] [--numbers 11 100 1000]

`masks` is a key and the masks shared with all others; `with signatures` is all that an owner does but drawing noise and waiting
for its disk: it makes three signatures and checks two of each owner. Medians of attempts. Bytes are keys, signatures and
words, without the frames that carry them.

Where Flower is installed, its SecAgg+ is measured in the same run, in an owner's first three stages with every other owner as a
neighbour and two thirds as threshold. It also shares secrets for owners that drop out, which a sum of everybody or nothing
does not need, and signs nothing. Its shares take minutes at 1,000 owners, so that it is left out there.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np

from copriv.network.keys import Keys, issue, make_authority
from copriv.network.masked_sum import MaskedAnswers, SignedKey, SignedSet, _key_content, _set_content
from copriv.privacy.ledger import MemoryLedger
from copriv.privacy.masks import Attempt, EphemeralKey, point_digest
from copriv.protocol import Answer, Query
from copriv.types import Array

THETA = np.zeros(3)
ATTEMPT = Attempt("agreement", "run", 1, 1, 1, point_digest(THETA))
MINE = "owner-0"
T = TypeVar("T")


def consortium(folder: Path, owners: int) -> dict[str, Keys]:
    """Keys of so many owners, certified by one authority."""
    make_authority(folder / "authority", "benchmark")
    for i in range(owners):
        issue(folder / "authority", folder / f"owner-{i}", f"owner-{i}", "owner")
    return {f"owner-{i}": Keys.load(folder / f"owner-{i}") for i in range(owners)}


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds of processor time, and the result."""
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


def masks(public: dict[str, bytes], numbers: int) -> float:
    """Seconds for a key and the masks of a vector."""
    words = np.zeros(numbers, dtype=np.uint64)

    def work() -> None:
        key = EphemeralKey()
        key.masked(words, MINE, ATTEMPT, public | {MINE: key.public})

    return timed(work)[0]


class Zeros:
    """An owner whose vector is 0, with a ledger in memory."""

    def __init__(self, numbers: int) -> None:
        self.ledger, self._zeros = MemoryLedger(MINE, Fraction(1), 1), np.zeros(2 * numbers)

    def answer(self, query: Query, hide: Callable[[Array], Array]) -> Answer:
        """Charge, mask, record."""
        self.ledger.charge(query.identity, query.theta, Fraction(1))
        hidden = hide(self._zeros)
        self.ledger.record(query.identity, hidden)
        return Answer(query.identity, query.fingerprint, MINE, hidden, 1)


def whole(keys: dict[str, Keys], number: int, numbers: int) -> tuple[float, int, int]:
    """Seconds of an owner from its key to its masked vector, and the bytes that it sends and gets."""
    attempt, parties = replace(ATTEMPT, attempt=number), {name: one.party for name, one in keys.items()}
    owner = MaskedAnswers("agreement", "run", keys[MINE], parties, Zeros(numbers))
    first, key = timed(lambda: owner.key(attempt, THETA))
    assert isinstance(key, SignedKey)
    public = {name: EphemeralKey().public for name in keys} | {MINE: key.key}
    shown = [SignedKey(name, one, keys[name].sign(_key_content(attempt, name, one))) for name, one in public.items()]
    second, signed = timed(lambda: owner.sign(attempt, shown))
    content = _set_content(attempt, public)
    signatures = [SignedSet(name, one.sign(content)) for name, one in keys.items()]
    third, masked = timed(lambda: owner.masked(attempt, signatures))
    sent = len(key.key) + 8 * numbers + _length([key, signed, signed])  # masked words are signed, too
    assert len(masked.gradient) == 2 * numbers
    return first + second + third, sent, sum(map(len, public.values())) + _length(shown) + _length(signatures)


def _length(messages: Sequence[SignedKey | SignedSet]) -> int:
    """Bytes of the signatures."""
    return sum(len(one.signature) // 2 for one in messages)


def flower(owners: int, numbers: int) -> float | None:
    """Seconds of one owner of Flower's SecAgg+ from its keys to its masked vector; None where Flower is not installed."""
    try:
        theirs = import_module(
            "flwr.client.mod.secure_aggregation.secaggplus_mod"
        )  # its package has a function of that name
        from flwr.common import ndarrays_to_parameters
        from flwr.common.secure_aggregation.secaggplus_constants import Key
    except ImportError:
        return None
    state = theirs.SecAggPlusState(nid=0)
    settings = {
        Key.SAMPLE_NUMBER: owners, Key.SHARE_NUMBER: owners, Key.THRESHOLD: 2 * owners // 3 + 1, Key.CLIPPING_RANGE: 8.0,
        Key.TARGET_RANGE: 1 << 22, Key.MOD_RANGE: 1 << 32, Key.MAX_WEIGHT: 1000.0,
    }  # fmt: skip
    first, _ = timed(lambda: theirs._setup(state, settings))
    others = {i: (theirs.generate_key_pairs(), theirs.generate_key_pairs()) for i in range(1, owners)}
    public = {"0": [state.pk1, state.pk2]} | {
        str(i): [theirs.public_key_to_bytes(public) for _, public in pairs] for i, pairs in others.items()
    }
    second, _ = timed(lambda: theirs._share_keys(state, public))
    mine, shares = theirs.bytes_to_public_key(state.pk2), (state.rd_seed_share_dict[0], state.sk1_share_dict[0])
    sent = [
        theirs.encrypt(theirs.generate_shared_key(key, mine), theirs.share_keys_plaintext_concat(i, 0, *shares))
        for i, (_, (key, _)) in others.items()
    ]
    vector = ndarrays_to_parameters([np.zeros(numbers)])
    given = {Key.CIPHERTEXT_LIST: sent, Key.SOURCE_LIST: list(others)}
    third, _ = timed(lambda: theirs._collect_masked_vectors(state, given, 1000, vector))
    return first + second + third


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--owners", type=int, nargs="+", default=[3, 30, 100, 1000])
    parser.add_argument("--numbers", type=int, nargs="+", default=[11, 100, 1000])
    given = parser.parse_args()
    print("| owners | numbers | masks, ms | with signatures, ms | sent, bytes | received, bytes | Flower, ms |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for owners in given.owners:
        with TemporaryDirectory() as folder:
            keys = consortium(Path(folder), owners)
        public = {name: EphemeralKey().public for name in keys}
        times = 3 if owners > 300 else 9
        for numbers in given.numbers:
            alone = 1e3 * median(masks(public, numbers) for _ in range(times))
            found = [whole(keys, number, numbers) for number in range(times)]
            seconds, sent, received = (median(one[i] for one in found) for i in range(3))
            beside = [flower(owners, numbers) for _ in range(3)] if owners <= 300 else [None]
            other = "" if beside[0] is None else f"{1e3 * median(one for one in beside if one):.3g}"
            print(
                f"| {owners:,} | {numbers:,} | {alone:.3g} | {1e3 * seconds:.3g} | {sent:,.0f} | {received:,.0f} | {other} |"
            )


if __name__ == "__main__":
    main()

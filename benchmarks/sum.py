"""What a masked sum costs each owner in one attempt: seconds of processor time, and bytes.

    python -m benchmarks.sum [--owners 3 30 100 1000] [--numbers 11 100 1000] [--dropouts 0]

`masks` is a key and the masks shared with all others; `with signatures` is all that an owner does but drawing noise and waiting
for its disk: it makes three signatures and checks two of each owner. Medians of attempts. Bytes are keys, signatures and
words, without the frames that carry them. With `--dropouts` d, cut to a tenth of the owners, `masks` is a mask that is shared
out, and `opening` the owner's part of the mask of a sum that d owners are missing from; the first attempt of a run, which
computes weights that all others use again, stands beside. Set OMP_NUM_THREADS=1: threads count as processor time.

Where Flower is installed, its SecAgg+ is measured in the same run, in an owner's first three stages with every other owner as a
neighbour and two thirds as threshold. It also shares secrets for owners that drop out, which a sum of everybody or nothing
does not need, and signs nothing. Its shares take minutes at 1,000 owners, so that it is left out there.

    python -m benchmarks.sum --figure docs/pictures/sum.png

draws instead what the noise of a sum costs the model, against the number of owners (`cost`).
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
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator
from scipy.stats import binom

from copriv.agreement import Agreement
from copriv.mechanisms.gradients import GradientNoise
from copriv.network.keys import Keys, issue, make_authority
from copriv.network.masked_sum import (
    MaskedAnswers,
    OpenedMask,
    SignedKey,
    SignedSet,
    SignedSurvivors,
    _key_content,
    _set_content,
    _survivors_content,
)
from copriv.pictures import style
from copriv.privacy.ledger import MemoryLedger
from copriv.privacy.mask_shares import MaskShares, _weights
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


def shared(public: dict[str, bytes], numbers: int, dropouts: int) -> tuple[float, float]:
    """Seconds for a key and a mask that is shared out, and for opening the sum of the masks of all owners but those missing."""
    key, words = EphemeralKey(), np.zeros(numbers, dtype=np.uint64)
    keys = public | {MINE: key.public}
    mask, parts = timed(lambda: MaskShares(key, MINE, ATTEMPT, keys, len(keys) - dropouts))
    masked, _ = timed(lambda: parts.masked(words))
    return mask + masked, timed(lambda: parts.opened([*keys][: len(keys) - dropouts]))[0]


def whole(keys: dict[str, Keys], number: int, numbers: int, dropouts: int = 0) -> tuple[float, int, int]:
    """Seconds of an owner from its key to its last message, and the bytes that it sends and gets."""
    attempt, parties = replace(ATTEMPT, attempt=number), {name: one.party for name, one in keys.items()}
    owner = MaskedAnswers("agreement", "run", keys[MINE], parties, Zeros(numbers), dropouts)
    first, key = timed(lambda: owner.key(attempt, THETA))
    assert isinstance(key, SignedKey)
    public = {name: EphemeralKey().public for name in keys} | {MINE: key.key}
    shown = [SignedKey(name, one, keys[name].sign(_key_content(attempt, name, one))) for name, one in public.items()]
    second, signed = timed(lambda: owner.sign(attempt, shown))
    content = _set_content(attempt, public)
    signatures = [SignedSet(name, one.sign(content)) for name, one in keys.items()]
    third, masked = timed(lambda: owner.masked(attempt, signatures))
    sent = len(key.key) + 4 * len(masked.gradient) + _length([key, signed, signed])  # masked words are signed, too
    received = sum(map(len, public.values())) + _length(shown) + _length(signatures)
    assert len(masked.gradient) == 2 * numbers * (1 + dropouts)
    fourth = fifth = 0.0
    if dropouts:
        names = [*keys][: len(keys) - dropouts]
        fourth, mine = timed(lambda: owner.survivors(attempt, names))
        content = _survivors_content(attempt, public, names)
        agreed = [SignedSurvivors(name, keys[name].sign(content)) for name in names]
        fifth, part = timed(lambda: owner.opened(attempt, agreed))
        sent += 8 * len(part.words) + _length([mine, part])
        received += _length(agreed)
    return first + second + third + fourth + fifth, sent, received


def _length(messages: Sequence[SignedKey | SignedSet | SignedSurvivors | OpenedMask]) -> int:
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


def cost(owners: int, colluding: int | None = None, away: float = 0.0, dropouts: int = 0) -> float:
    """Variance of the noise in the average of equal owners' answers, over that of a curator who holds all records.

    A model's cost is in proportion to it. colluding: t; None where each answer is seen. away: the probability that an owner
    is lost when the others have answered, each by itself (one that is missing before costs nothing but time). A sum of
    everybody or nothing then needs 1/(1 − away)^N attempts, each an answer of the m for which noise is calibrated, and the
    variance is in proportion to m². dropouts: d, so that only more than d lost ones cost an attempt.
    """
    seen = {} if colluding is None else {"aggregation": "sum", "colluding": colluding, "dropouts": dropouts}
    agreed = Agreement.of(
        {
            "agreement": {"rule": "S2", "horizon": 2, "step": 1.0} | seen,
            "model": {"loss": "squared", "regularization": 0.1, "theta_max": 1.0, "gradient_bound": 1.0},
            "data": {"components": 3, "feature_bound": 0.0},
            "owner": [{"name": "owner", "records": 1000, "epsilon": 1.0, "count": owners}],
        }
    )
    mechanism = agreed.mechanism
    assert isinstance(mechanism, GradientNoise)
    groups = [] if colluding is None else [tuple(range(owners))]
    curator = 8.0 / (1000.0 * owners) ** 2
    return mechanism.variance(agreed, 1, groups) / curator / float(binom.cdf(dropouts, owners, away)) ** 2


def least_cost(owners: int, colluding: int, away: float) -> float:
    """The same with the best number of owners that may be missing."""
    return min(cost(owners, colluding, away, d) for d in range(min(40, (owners - colluding + 1) // 2)))


@style.drawn
def drawn() -> Figure:
    """The cost against the number of owners: single answers, sums for t = 0, 1 and N/10, and with owners that drop out."""
    number = np.unique(np.geomspace(4, 1000, 60).round().astype(int))
    lines: tuple[tuple[str, str, str, Callable[[int], float]], ...] = (
        ("each answer seen", style.INK, "-", lambda N: cost(N)),
        ("sum, t = N/10", style.ALONE[3], "-", lambda N: cost(N, N // 10)),
        ("sum, t = 1", style.TOGETHER, "-", lambda N: cost(N, 1)),
        ("sum, t = 0: as a curator", style.ALONE[1], "-", lambda N: cost(N, 0)),
        ("sum, t = 1; each owner lost in one of 100 rounds", style.ALONE[0], "--", lambda N: cost(N, 1, 0.01)),
        ("… in one of 1,000", style.ALONE[4], "--", lambda N: cost(N, 1, 0.001)),
        ("… in one of 100, with the best d", style.ALONE[0], ":", lambda N: least_cost(N, 1, 0.01)),
    )
    figure = style.sheet(9.2, 5.2)
    axes = style.panel(figure, 0.85, 0.75, 5.3, 3.55, xscale="log", yscale="log")
    labels = []
    for name, colour, dashes, at in lines:
        values = np.array([at(int(N)) for N in number])
        axes.plot(number, values, dashes, color=colour, linewidth=2.0)
        labels.append(style.Label(min(float(values[-1]), 3000.0), name, colour))
    axes.set_ylim(0.7, 3000.0)
    style.ticks(axes.xaxis, FixedLocator([4, 10, 30, 100, 300, 1000]), lambda value: f"{value:,.0f}")
    style.ticks(axes.yaxis, FixedLocator([1, 10, 100, 1000]), lambda value: f"{value:,.0f}")
    axes.set_xlabel("owners, N")
    axes.set_ylabel("cost, in that of a curator")
    style.beside(axes, labels)
    lead = "Equal owners; a sum has the answers of all owners but d, where d = 0 unless it is said"
    style.head(figure, "What the learner sees decides what privacy costs", lead)
    return figure


def with_dropouts(owners: Sequence[int], numbers: Sequence[int], dropouts: int) -> None:
    """Measure and print sums that owners are missing from."""
    columns = (
        "owners",
        "d",
        "numbers",
        "masks, ms",
        "opening, ms",
        "the first, ms",
        "with signatures, ms",
        "sent",
        "received",
    )
    print("| " + " | ".join(columns) + " |")
    print("|" + " --- |" * 9)
    for N in owners:
        with TemporaryDirectory() as folder:
            keys = consortium(Path(folder), N)
        public, d, times = (
            {name: EphemeralKey().public for name in keys},
            min(dropouts, max(N // 10, 1)),
            3 if N > 300 else 5,
        )
        for length in numbers:
            _weights.cache_clear()
            first = sum(shared(public, length, d))
            apart = [shared(public, length, d) for _ in range(times)]
            found = [whole(keys, number, length, d) for number in range(times)]
            cells = [1e3 * median(one[0] for one in apart), 1e3 * median(one[1] for one in apart), 1e3 * first]
            cells.append(1e3 * median(one[0] for one in found))
            sent, received = (median(one[i] for one in found) for i in (1, 2))
            told = " | ".join(f"{cell:.3g}" for cell in cells)
            print(f"| {N:,} | {d} | {length:,} | {told} | {sent:,.0f} | {received:,.0f} |")


def main() -> None:
    """Measure and print, or draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--owners", type=int, nargs="+", default=[3, 30, 100, 1000])
    parser.add_argument("--numbers", type=int, nargs="+", default=[11, 100, 1000])
    parser.add_argument(
        "--dropouts", type=int, default=0, help="d, cut to a tenth of the owners, or 1; 0: nobody is missing"
    )
    parser.add_argument(
        "--figure", type=Path, metavar="FILE", help="draw the cost against N there, and measure nothing"
    )
    given = parser.parse_args()
    if given.figure is not None:
        given.figure.write_bytes(style.png(drawn(), "python -m benchmarks.sum --figure docs/pictures/sum.png"))
        return
    if given.dropouts:
        with_dropouts(given.owners, given.numbers, given.dropouts)
        return
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

"""How often what owners were told came true in a cell, and how often anything said from sizes alone could have.

Where nothing is known but how many records an owner has, two owners of one size are told the same, whichever of them is
unlike the others. So a share of hits has a ceiling: that of the best rule by size that is chosen in hindsight, when all
answers are known (`Told.at_best`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

EVENTS = 5
"""Held-out rows of the rarer class below which their standard error is none: without a fraud among them, who forecasts the
fewest is surely better."""
TIMES = 3.0
"""`alone` is right within so many times."""


@dataclass(frozen=True)
class Told:
    """Hits among what was judged, and the most that one threshold of size (or one factor) a cell could have hit."""

    right: int
    judged: int
    at_best: int

    @classmethod
    def together(cls, some: "Sequence[Told]") -> "Told":
        """Of several cells."""
        return cls(*(sum(getattr(one, name) for one in some) for name in ("right", "judged", "at_best")))

    @property
    def words(self) -> str:
        """As a share, or that there was nothing to judge."""
        return f"{self.right / self.judged:.0%} of {self.judged}" if self.judged else "none"

    @property
    def words_at_best(self) -> str:
        """The ceiling."""
        return f"{self.at_best / self.judged:.0%}" if self.judged else ""


def alone(row: dict[str, Any]) -> Told:
    """Whether ψ of own models on everybody's records was forecast within `TIMES`."""
    return _within([(o["alone"], o["alone_measured"]) for o in row["owners"]])


def alone_by_a_factor(rows: Sequence[dict[str, Any]]) -> float:
    """The share of owners in all cells that `alone` would be right for, were it multiplied by the one best factor; NaN of none.

    What remains is how much owners of different tables differ where nothing says how unlike they are.
    """
    off = np.array(
        [np.log(max(o["alone"], 1e-12) / max(o["alone_measured"], 1e-12)) for r in rows for o in r["owners"]]
    )
    if not len(off):
        return float("nan")
    near, ends = np.log(TIMES), np.concatenate([off - np.log(TIMES), off + np.log(TIMES)])
    return float(max(np.mean(np.abs(off - by) <= near + 1e-9) for by in (0.0, *ends)))


def alone_in_band(row: dict[str, Any]) -> Told:
    """Whether ψ of own models on everybody's records was in the forecast's 90 %."""
    held = [o["alone_low"] <= o["alone_measured"] <= o["alone_high"] for o in row["owners"] if "alone_low" in o]
    return Told(sum(held), len(held), len(held))


def alone_on_own(row: dict[str, Any]) -> Told:
    """The same of ψ on the owner's own records, where these stand for a population."""
    pairs = [(o["own_alone"], o.get("own_alone_measured")) for o in row["owners"]]
    return _within([(said, seen) for said, seen in pairs if seen is not None])


def _within(pairs: Sequence[tuple[float, float]]) -> Told:
    if not pairs:
        return Told(0, 0, 0)
    off = np.log([max(said, 1e-12) / max(seen, 1e-12) for said, seen in pairs])
    near, ends = np.log(TIMES), np.concatenate([off - np.log(TIMES), off + np.log(TIMES)])
    hits = [int(np.sum(np.abs(off - by) <= near + 1e-9)) for by in (0.0, *ends)]
    return Told(hits[0], len(off), max(hits))


def own(row: dict[str, Any], least: float, errors: float = 0.0) -> Told:
    """The verdict for the owner's own records, where its loss on held-out ones changes by more than `least`.

    errors: and by so many standard errors of that change, with `EVENTS` of either class where there are classes. Held-out rows
    of a small owner, or of one with few events, do not tell which of two models is better.
    """
    gains = [1.0 - o["own_common_loss"] / o["own_alone_loss"] for o in row["owners"]]
    if errors:
        gains = [gain if _sure(o, gain, errors) else 0.0 for gain, o in zip(gains, row["owners"], strict=True)]
    return _verdicts(row, [o["says_own"] for o in row["owners"]], gains, least)


def _sure(o: dict[str, Any], gain: float, errors: float) -> bool:
    seen = o.get("own_events")
    return abs(gain) > errors * o.get("own_gain_error", 0.0) and (seen is None or seen >= EVENTS)


def own_expected(rows: Sequence[dict[str, Any]], least: float, errors: float) -> float:
    """How often `own` should be right by the verdicts' own probabilities, of the same owners that have one; NaN of none."""
    sure = [
        max(o["says_own_probability"], 1.0 - o["says_own_probability"])
        for row in rows
        for o in row["owners"]
        if "says_own_probability" in o
        and abs(gain := 1.0 - o["own_common_loss"] / o["own_alone_loss"]) > least
        and (not errors or _sure(o, gain, errors))
    ]
    return float(np.mean(sure)) if sure else float("nan")


def everybody(row: dict[str, Any], least: float) -> Told:
    """Whether the common model serves everybody's records better than the owner's own one would: by the two medians."""
    said = [o["alone"] > row["median"] for o in row["owners"]]
    return _verdicts(row, said, _gains(row, [o["alone_measured"] for o in row["owners"]]), least)


def joining(row: dict[str, Any], least: float) -> Told:
    """`joining_pays`: whether it does so better than the owner's own one and the public one, neither of which needs others."""
    said = [o["says_all"] for o in row["owners"]]
    return _verdicts(
        row, said, _gains(row, [min(o["alone_measured"], row["public_measured"]) for o in row["owners"]]), least
    )


def _gains(row: dict[str, Any], without: Sequence[float]) -> list[float]:
    return [1.0 - (1.0 + o["together_measured"]) / (1.0 + ψ) for o, ψ in zip(row["owners"], without, strict=True)]


def _verdicts(row: dict[str, Any], said_of: Sequence[bool], gains: Sequence[float], least: float) -> Told:
    every = zip(row["owners"], said_of, gains, strict=True)
    judged = [(o["records"], said, gain > 0) for o, said, gain in every if abs(gain) > least]
    if not judged:
        return Told(0, 0, 0)
    size, said, pays = (np.array(each) for each in zip(*judged, strict=True))
    at_best = max(int(np.sum((size < most) == pays)) for most in (*np.unique(size), np.inf))
    return Told(int(np.sum(said == pays)), len(judged), at_best)

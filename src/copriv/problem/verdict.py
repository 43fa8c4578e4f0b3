"""Whether joining pays for an owner: yes, no or open, with its probability, on its own records or on everybody's.

On an owner's own records, joining gives it the better of the common model and that model personalized at home; without
joining it has the best of its own model, the public one, and that one personalized at home (docs/decisions/0017). On
everybody's records the common model stands against the first two. The gain is the relative change of the prediction error f
that joining brings,

    gain = (ψ without − ψ with) / (1 + ψ without),

and joining pays where it is at least `worthwhile`. The probability is the share of worlds and runs in which it is; a
verdict is "yes" from YES, "no" up to NO, and "open" between them. Where nobody has stated or measured how much owners
differ, the verdict is also given as if they were alike and as if they differed as in real tables, and it is "open" where
these two are not the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from copriv.formatting.cards import Shown
from copriv.formatting.numbers import mapping
from copriv.model.records import Records
from copriv.types import Array

Answer = Literal["yes", "no", "open"]
Goal = Literal["own", "common"]
Model = Literal["common", "personalized"]
TooFew = Literal["rows", "targets"]
"""Why public rows cannot decide a verdict: fewer rows than parameters, or only one value of the target."""
YES, NO = 0.8, 0.2
"""A verdict is "yes" from the first probability, "no" up to the second, and else open."""


@dataclass(frozen=True)
class Outcome(Shown):
    """One answer, its probability, and the gain with its 90 % range."""

    answer: Answer
    probability: float
    """Probability that joining pays by at least what is worthwhile."""
    gain: float
    """Median relative fall of the prediction error; negative: the error rises."""
    gain_low: float
    gain_high: float


@dataclass(frozen=True)
class OwnerVerdict(Outcome):
    """Whether joining pays for one owner.

    >>> outlook.owners[0].on_own.answer in ("yes", "no", "open")
    True
    """

    by: Model
    """The model that joining gives: the common one as it comes, or personalized at home."""
    if_alike: Outcome | None
    """The outcome were owners alike; None where their heterogeneity is known."""
    if_unlike: Outcome | None
    """The outcome where owners differ as in the more different half of real tables; None where heterogeneity is known."""

    def to_dict(self) -> dict[str, Any]:
        """The verdict as in the JSON contract."""
        return {**vars(self), "if_alike": mapping(self.if_alike), "if_unlike": mapping(self.if_unlike)}


@dataclass(frozen=True)
class Verdict(Shown):
    """For whom joining pays on the records that the goal names, and which owners the others do better without."""

    goal: Goal
    owners: Mapping[str, OwnerVerdict]
    """By name."""
    cost_others: tuple[str, ...] = ()
    """Owners without whom the others would do noticeably better, on everybody's records."""
    only_as_recommended: bool = False
    """Whether the verdict holds for the recommended terms only: the agreed ones cost more than the public rows alone."""
    too_few: TooFew | None = None
    """Why public rows cannot decide; None where they can."""

    def names(self, answer: Answer) -> list[str]:
        """Names of the owners with this answer."""
        return [name for name, owner in self.owners.items() if owner.answer == answer]

    @property
    def answer(self) -> Answer:
        """ "yes" where joining pays for at least one owner, "no" where it pays for none, else "open"."""
        return max((owner.answer for owner in self.owners.values()), key=("no", "open", "yes").index, default="no")

    @property
    def probability(self) -> float:
        """The largest probability of any owner that joining pays."""
        return max(owner.probability for owner in self.owners.values())


@dataclass(frozen=True, eq=False)
class Asked:
    """The question of a verdict: whose records, the least worthwhile gain, and the worlds of equal and of different owners."""

    goal: Goal
    worthwhile: float
    alike: Bool[np.ndarray, " worlds"] | None
    """The quarter of worlds whose owners differ least, where heterogeneity is not known; else None."""
    unlike: Bool[np.ndarray, " worlds"] | None
    """The half whose owners differ most."""
    undetermined: bool = False
    """Whether public rows are too few (`too_few`), so that all worlds rest on one guess of the model: the answer is open, and
    its probability halfway to ½. Said with 90 % or more, verdicts were right for 66 % of 32 owners of such real tables."""

    @classmethod
    def of(
        cls, goal: Goal, worthwhile: float, levels: Float[Array, " worlds"] | None = None, undetermined: bool = False
    ) -> "Asked":
        """levels: the heterogeneity of each world, where nobody has stated or measured it; else None."""
        if levels is None:
            return cls(goal, worthwhile, None, None, undetermined)
        least, middle = np.quantile(levels, (0.25, 0.5))
        return cls(goal, worthwhile, levels <= least, levels > middle, undetermined)


def too_few(public: Records, n_parameters: int) -> TooFew | None:
    """Why public rows cannot decide a verdict: fewer rows than parameters, or only one value of the target; else None.

    n_parameters: number of the model's parameters, including an intercept that `public` may lack.
    """
    if public.units < n_parameters:
        return "rows"
    return "targets" if np.ptp(public.target) == 0 else None


def verdict_of(
    without: Float[Array, "worlds *runs"], choices: Mapping[Model, Float[Array, "worlds *runs"]], asked: Asked
) -> OwnerVerdict:
    """The verdict of one owner from ψ in all runs of all worlds, without joining and with each model that joining gives."""
    gains = {name: (without - ψ) / (1.0 + without) for name, ψ in choices.items()}
    by = max(gains, key=lambda name: (float(np.mean(gains[name] >= asked.worthwhile)), float(np.median(gains[name]))))
    gain = gains[by]
    whole = _outcome(gain, asked.worthwhile)
    if asked.undetermined:
        whole = replace(whole, answer="open", probability=0.25 + 0.5 * whole.probability)
    if asked.alike is None or asked.unlike is None:
        return OwnerVerdict(**vars(whole), by=by, if_alike=None, if_unlike=None)
    alike, unlike = (_outcome(gain[worlds], asked.worthwhile) for worlds in (asked.alike, asked.unlike))
    if alike.answer != unlike.answer:
        whole = replace(whole, answer="open")
    return OwnerVerdict(**vars(whole), by=by, if_alike=alike, if_unlike=unlike)


def just_worthwhile(without: float | Array, worthwhile: float) -> Array:
    """The largest ψ of a model with which joining pays, where ψ without joining is this; below 0 where none does."""
    return np.asarray(without - worthwhile * (1.0 + without))


def _outcome(gain: Float[Array, "worlds *runs"], worthwhile: float) -> Outcome:
    probability = float(np.mean(gain >= worthwhile))
    answer: Answer = "open"
    if probability >= YES:
        answer = "yes"
    elif probability <= NO:
        answer = "no"
    low, middle, high = (float(q) for q in np.quantile(gain, (0.05, 0.5, 0.95)))
    return Outcome(answer, probability, middle, low, high)

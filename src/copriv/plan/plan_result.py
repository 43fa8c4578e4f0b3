"""The result of a plan: its choice, the runner-up, what each promise costs, and the least cost for owners of any noise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.formatting.cards import Columns, Framed, Item, Shown, columns_of, in_words
from copriv.formatting.numbers import counted
from copriv.rules import named
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class NoiseCurve(Shown):
    """The least E ψ over settings as a function of the noise ν, by which owners are valued.

    >>> import numpy as np
    >>> from copriv.plan import NoiseCurve
    >>> curve = NoiseCurve.of(np.array([0.0, 1.0]), np.array([4.0, 0.5]))
    >>> curve.at(0.1), curve.at(10.0)
    (np.float64(0.4), np.float64(6.0))
    """

    fixed: Float[Array, " settings"]
    slope: Float[Array, " settings"]

    @classmethod
    def of(cls, fixed: Float[Array, " settings"], slope: Float[Array, " settings"]) -> "NoiseCurve":
        """Keep the settings that are best for some ν ≥ 0: the lower envelope of the lines fixed + slope·ν.

        They are the corners of the lower left hull of the points (slope, fixed).
        """
        # A line is above another one everywhere if its slope and its value at 0 are larger.
        order = np.lexsort((fixed, slope))
        lowest = np.minimum.accumulate(fixed[order])
        front = order[np.concatenate([[True], fixed[order][1:] < lowest[:-1]])]
        hull: list[tuple[float, float, int]] = []
        for s, f, i in zip(slope[front].tolist(), fixed[front].tolist(), front.tolist(), strict=True):
            # The last corner is none if it is not below the line from the one before it to this point.
            while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (s - hull[-2][0]) >= (f - hull[-2][1]) * (
                hull[-1][0] - hull[-2][0]
            ):
                hull.pop()
            hull.append((s, f, i))
        index = [i for _, _, i in hull]
        return cls(fixed[index], slope[index])

    def at(self, noise: float | Array) -> Any:
        """E ψ at ν (a number or an array of them)."""
        ν = np.asarray(noise, dtype=np.float64)
        lines = np.multiply.outer(self.slope, ν)  # a row for each setting: minima of long rows are fast
        lines += self.fixed.reshape(-1, *np.ones(ν.ndim, dtype=int))
        return lines.min(axis=0)

    def through(self, noise: float, value: float, start: float) -> "NoiseCurve":
        """The curve adjusted to be `value` at ν, and `start`, ψ of the model that runs begin with, for infinite noise.

        First the noise is multiplied by at most 4 (half the budget), which does not change the cost without noise. The
        remaining factor multiplies the cost: fully for the settings that are best at ν or with less noise, and interpolated
        (in the logarithm of the cost without noise) to `start` for flatter ones. The curve never exceeds `start`, unless
        `value` does: then the factor multiplies the whole curve.
        """
        if not (value > 0 and noise > 0 and np.isfinite(value)):
            return self
        with np.errstate(divide="ignore", invalid="ignore"):
            reaches = float(
                np.nanmax((value - self.fixed) / self.slope)
            )  # the ν at which the lowest line is at `value`
        fixed, slope = self.fixed, self.slope * min(max(reaches / noise, 0.25), 4.0)
        here = int(np.argmin(fixed + slope * noise))
        times = np.full(len(fixed), value / float(fixed[here] + slope[here] * noise))
        flattest = int(np.argmin(slope))
        if value >= start:
            return NoiseCurve(fixed * times, slope * times)
        flatter = slope < slope[here]
        if flatter.any() and (raised := start / (times[here] * fixed[flattest])) > 1.0:
            f = np.maximum(fixed, 1e-300)
            place = np.clip(np.log(f / f[here]) / np.log(f[flattest] / f[here]), 0.0, 1.0)
            times = np.where(flatter, times * raised**place, times)
        return NoiseCurve(np.append(start, fixed * times), np.append(0.0, slope * times))

    def derivative(self, noise: float) -> float:
        """dψ/dν at ν."""
        return float(self.slope[np.argmin(self.fixed + self.slope * noise)])


Advice = Literal["join", "close", "public", "alone"]


@dataclass(frozen=True, eq=False)
class Choice(Shown):
    """A setting and its cost on the public rows. `agreement` has numbers in place of "auto".

    >>> choice = outlook.plan.choice
    >>> choice.pure, choice.agreement.owner_names
    (True, ('north', 'south', 'west'))
    """

    _teller: ClassVar[str] = "copriv.display.forecast:choice_card"

    agreement: Agreement
    start: str
    """"zero", "agreed" or "public"."""
    preconditioner: float
    """γ; 0 is none."""
    relative_fitness: float
    """E ψ."""
    fitness: float
    """E f, by which choices are compared: before insurance."""

    @property
    def pure(self) -> bool:
        """Whether δ is 0 for every owner."""
        return all(owner.delta == 0 for owner in self.agreement.owner_tables)

    @property
    def promises(self) -> dict[str, bool]:
        """Whether it has pure ε, one answer of each owner, and no rounds of all owners."""
        terms = self.agreement
        return {"pure": self.pure, "one_answer": terms.answers == 1, "asynchronous": not terms.synchronous}

    @property
    def kind(self) -> tuple[Any, ...]:
        """Key of the kind of choice; choices of one kind differ in numbers only."""
        return (*kind_of(self.agreement), self.start)

    def describe(self) -> str:
        """One line in words."""
        terms, model = self.agreement.agreement, self.agreement.model
        start = {"zero": "from zero", "agreed": "from the agreed start", "public": "from the public model"}[self.start]
        mechanism, B = self.agreement.mechanism, self.agreement.data.feature_bound
        if mechanism.one_answer:
            said = [mechanism.phrase, f"{counted(self.agreement.answers, 'answer')} of each owner"]
        else:
            rule = ", ".join(filter(None, (terms.rule, named(terms.rule).variant(terms))))
            said = [f"{rule}{' in rounds' * (terms.window > 1)}"]
            if isinstance(terms.group_size, int):
                said.append(f"groups of {terms.group_size}")
            said += [f"{counted(self.agreement.answers, 'answer')} of each owner", mechanism.phrase]
        norm = {1: "", 2: " in L2"}[mechanism.order(self.agreement)]
        said += [f"step {self.agreement.step:.4g}", f"gradients bounded at {model.gradient_bound:.3g}{norm}"]
        if B not in ("auto", 0.0):
            said.append(f"features bounded at {B:.3g}")
        said.append(start)
        if self.preconditioner:
            said.append("publicly preconditioned")
        if not self.pure:
            said.append("(ε, δ)")
        return ", ".join(filter(None, said))


@dataclass(frozen=True, eq=False)
class Plan(Shown, Framed):
    """The choice, the next best by another rule or number of answers, and how flat the optimum is.

    >>> outlook.plan.considered > len(outlook.plan.measured)
    True
    >>> outlook.plan.to_frame(backend="polars").height == len(outlook.plan.measured)
    True
    """

    _teller: ClassVar[str] = "copriv.display.forecast:plan_card"

    choice: Choice
    measured: tuple[Choice, ...]
    """All that were run on the public rows, the best first."""
    flatness: dict[str, tuple[float, float]]
    """For "step", "gradient_bound" and "answers": ψ at half and at twice the chosen value, over ψ at it."""
    priced: tuple[Float[Array, " settings"], Float[Array, " settings"]]
    """ψ without noise of every setting that was priced, and its slope in ν."""
    seconds: float
    with_sum: Choice | None = None
    """The best that was run where the learner sees only the sum of answers; None where it does, or there is no such sum."""
    caution: Any = None
    """A `plan.minimax_regret.Caution` where owners may differ."""
    public_only: float = np.nan
    """ψ of the public rows' own model."""
    alone: float = np.nan
    """ψ of the best owner's own model, without noise."""
    advice: Advice = "join"
    """ "join"; "close" for a close call; "public" or "alone" where the public model, or an owner's own model, is better and
    nobody should start."""
    advised_on: Literal["own", "common"] = "common"
    """Whose records the advice is about: each owner's own, in a forecast with that goal, or everybody's."""

    def advised(
        self,
        public_only: float,
        alone: float,
        pays: bool | None = None,
        close: bool = False,
        public_on_own: bool | None = None,
    ) -> "Plan":
        """The plan with its advice, which is to join only where that beats the public model and the best owner's own.

        pays: verdict of a forecast for any owner; None to compare the expected costs. close: whether a verdict is open.
        public_on_own: where the verdict is about own records, whether the public model is at least as good there as every
        owner's own.
        """
        on: Literal["own", "common"] = "own"
        if public_on_own is None:
            public_on_own, on = public_only <= alone, "common"
        if pays is None:
            # A plan that stays at the public start is no better than it, whatever rounding says.
            pays = self.choice.relative_fitness < (1.0 - 1e-9) * min(public_only, alone)
        advice: Advice = "alone"
        if pays:
            advice = "join"
        elif close:
            advice = "close"
        elif public_on_own:
            advice = "public"
        return replace(self, public_only=public_only, alone=alone, advice=advice, advised_on=on)

    advice_in_words = in_words(
        "copriv.display.verdict:advice",
        "A sentence on why nobody should start with this plan, or why that is open; None where joining pays.",
    )

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        return {"measured": self._runs}

    def _runs(self) -> Columns:
        terms = columns_of([choice.agreement for choice in self.measured], ("answers", "step", "gradient_bound"))
        return {
            "words": [choice.describe() for choice in self.measured],
            "rule": [choice.agreement.rule_in_words for choice in self.measured],
            **terms,
            **columns_of(self.measured, ("start", "relative_fitness")),
        }

    @property
    def runner_up(self) -> Choice | None:
        """The best that was run of another kind than the choice."""
        return next((one for one in self.measured if one.kind != self.choice.kind), None)

    @property
    def considered(self) -> int:
        """Number of settings that were priced."""
        return len(self.priced[0])

    @cached_property
    def curve(self) -> NoiseCurve:
        """The noise curve, by which owners are valued; computed on first use, from more than a million settings."""
        fixed, slope = self.priced
        finite = np.isfinite(fixed) & np.isfinite(slope)
        return NoiseCurve.of(fixed[finite], slope[finite])

    @property
    def agreement(self) -> Agreement:
        """The planned agreement."""
        return self.choice.agreement

    def trades(self) -> dict[str, tuple[Choice, Choice]]:
        """For each promise the best choice that keeps it and the best that does not, where both were run.

        Keys: "pure" (ε against (ε, δ)), "one_answer" (against many), "asynchronous" (against rounds of all owners).
        """
        return best_by_promise(self.measured, lambda one: one, lambda one: one.fitness)


def best_by_promise(
    items: Sequence[Item], choice: Callable[[Item], Choice], cost: Callable[[Item], float]
) -> dict[str, tuple[Item, Item]]:
    """For each promise the cheapest item whose choice keeps it and the cheapest one whose does not, if both exist."""
    found = {}
    for promise in ("pure", "one_answer", "asynchronous"):
        sides = [[one for one in items if choice(one).promises[promise] is holds] for holds in (True, False)]
        if all(sides):
            found[promise] = (min(sides[0], key=cost), min(sides[1], key=cost))
    return found


def kind_of(agreement: Agreement) -> tuple[Any, ...]:
    """Key of the kind of terms; terms of one kind differ in numbers only."""
    terms = agreement.agreement
    return terms.mechanism, terms.rule, terms.iterate, terms.window, agreement.answers

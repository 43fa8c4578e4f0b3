"""The result of a plan: its choice, the runner-up, and what each promise costs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.formatting.cards import Shown, above
from copriv.formatting.frames_and_plots import Columns, Framed
from copriv.formatting.numbers import counted
from copriv.plan.noise_curve import NoiseCurve
from copriv.rules import named
from copriv.types import Array

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
    """E f, outliers included, by which choices are compared."""
    outliers: float = 0.0
    """E ψ that records add which are too rare for the public rows (`copriv.populations.rare_records`)."""

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
    runner_up: Choice | None
    measured: tuple[Choice, ...]
    """All that were run on the public rows, the best first."""
    flatness: dict[str, tuple[float, float]]
    """For "step", "gradient_bound" and "answers": ψ at half and at twice the chosen value, over ψ at it."""
    priced: tuple[Float[Array, " settings"], Float[Array, " settings"]]
    """ψ without noise of every setting that was priced, and its slope in ν."""
    seconds: float
    caution: Any = None
    """A `plan.minimax_regret.Caution` where owners may differ."""
    public_only: float = np.nan
    """ψ of the public rows' own model."""
    alone: float = np.nan
    """ψ of the best owner's own model, without noise."""
    advice: Advice = "join"
    """ "join"; "close" for a close call; "public" or "alone" where the public model, or an owner's own model, is better and
    nobody should start."""

    def advised(self, public_only: float, alone: float, pays: bool | None = None, close: bool = False) -> "Plan":
        """The plan with its advice, which is to join only where that beats the public model and the best owner's own.

        pays: verdict of a forecast for any owner; None to compare the expected costs. close: whether a verdict is open.
        """
        if pays is None:
            # A plan that stays at the public start is no better than it, whatever rounding says.
            pays = self.choice.relative_fitness < (1.0 - 1e-9) * min(public_only, alone)
        advice: Advice = "alone"
        if pays:
            advice = "join"
        elif close:
            advice = "close"
        elif public_only <= alone:
            advice = "public"
        return replace(self, public_only=public_only, alone=alone, advice=advice)

    @property
    def advice_in_words(self) -> str | None:
        """A sentence on why nobody should start with this plan, or why that is open; None where joining pays."""
        said: str | None = above("copriv.display.verdict:advice")(self)
        return said

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        return {"measured": self._runs}

    def _runs(self) -> Columns:
        terms = [choice.agreement for choice in self.measured]
        return {
            "words": [choice.describe() for choice in self.measured],
            "rule": [one.rule_in_words for one in terms],
            "answers": [one.answers for one in terms],
            "step": [float(one.step) for one in terms],
            "gradient_bound": [float(one.gradient_bound) for one in terms],
            "start": [choice.start for choice in self.measured],
            "relative_fitness": [float(choice.relative_fitness) for choice in self.measured],
        }

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
        sides = best_by_promise(self.measured, [choice.fitness for choice in self.measured])
        return {promise: (self.measured[i], self.measured[j]) for promise, (i, j) in sides.items()}


def best_by_promise(choices: Sequence[Choice], costs: Sequence[float]) -> dict[str, tuple[int, int]]:
    """For each promise the indices of the cheapest choice that keeps it and of the cheapest that does not, if both exist."""
    found = {}
    for promise in ("pure", "one_answer", "asynchronous"):
        kept = [i for i, choice in enumerate(choices) if choice.promises[promise]]
        given_up = [i for i, choice in enumerate(choices) if not choice.promises[promise]]
        if kept and given_up:
            found[promise] = (min(kept, key=costs.__getitem__), min(given_up, key=costs.__getitem__))
    return found


def kind_of(agreement: Agreement) -> tuple[Any, ...]:
    """Key of the kind of terms; terms of one kind differ in numbers only."""
    terms = agreement.agreement
    return terms.mechanism, terms.rule, terms.iterate, terms.window, agreement.answers

"""What was chosen, what came next, and what each promise costs: the plan's result."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.plan.noise_curve import NoiseCurve
from copriv.rules import named
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class Choice:
    """A setting, and what it reached on the public rows. `agreement` has a number wherever "auto" was."""

    agreement: Agreement
    start: str
    """"zero", "agreed" or "public"."""
    preconditioner: float
    """γ; 0 is none."""
    relative_fitness: float
    """E ψ."""
    fitness: float
    """E f, at this choice's own B: what choices are compared by."""

    @property
    def pure(self) -> bool:
        """Whether δ is 0 for every owner."""
        return all(owner.delta == 0 for owner in self.agreement.owner_tables)

    def describe(self) -> str:
        """One line in words."""
        terms, model = self.agreement.agreement, self.agreement.model
        start = {"zero": "from zero", "agreed": "from the agreed start", "public": "from the public model"}[self.start]
        rule = ", ".join(filter(None, (terms.rule, named(terms.rule).variant(terms))))
        rule += " in rounds" if terms.window > 1 else ""
        mechanism, noise = self.agreement.mechanism, ""
        if mechanism.one_answer:
            rule = mechanism.phrase
        elif mechanism.phrase:
            noise = f", {mechanism.phrase}"
        m = self.agreement.answers
        norm = " in L2" if mechanism.order(self.agreement) == 2 else ""
        bound = "" if self.agreement.data.feature_bound in ("auto", 0.0) else (
            f", features bounded at {self.agreement.data.feature_bound:.3g}"
        )  # fmt: skip
        return (
            f"{rule}, {m} answer{'s' if m > 1 else ''} of each owner{noise}, step {self.agreement.step:.4g}, "
            f"gradients bounded at {model.gradient_bound:.3g}{norm}{bound}, {start}"
            + (", publicly preconditioned" if self.preconditioner else "")
            + ("" if self.pure else ", (ε, δ)")
        )


@dataclass(frozen=True, eq=False)
class Plan:
    """The choice, the next best by another rule or number of answers, and how flat the optimum is."""

    choice: Choice
    runner_up: Choice | None
    measured: tuple[Choice, ...]
    """All that were run on the public rows, the best first."""
    flatness: dict[str, tuple[float, float]]
    """For "step", "gradient_bound" and "answers": ψ at half and at twice the chosen value, over ψ at it."""
    priced: tuple[Float[Array, " settings"], Float[Array, " settings"]]
    """ψ without noise of every setting that was priced, and how fast it grows with ν."""
    seconds: float
    caution: Any = None
    """A `plan.caution.Caution` where owners may differ: what was weighed for that, and what it costs."""

    @property
    def considered(self) -> int:
        """Settings priced."""
        return len(self.priced[0])

    @cached_property
    def curve(self) -> NoiseCurve:
        """What owners are valued by. It sorts all settings, a million and more."""
        fixed, slope = self.priced
        finite = np.isfinite(fixed) & np.isfinite(slope)
        return NoiseCurve.of(fixed[finite], slope[finite])

    @property
    def agreement(self) -> Agreement:
        """What all parties would sign."""
        return self.choice.agreement

    def trades(self) -> dict[str, tuple[Choice, Choice]]:
        """The best that keeps each promise and the best that does not, where both were run: what keeping it costs.

        Keys: "pure" (ε against (ε, δ)), "one_answer" (against many), "asynchronous" (against rounds of all owners).
        """
        kept: dict[str, Callable[[Choice], bool]] = {
            "pure": lambda choice: choice.pure,
            "one_answer": lambda choice: choice.agreement.answers == 1,
            "asynchronous": lambda choice: not choice.agreement.synchronous,
        }
        found = {}
        for name, keeps in kept.items():
            with_it = [choice for choice in self.measured if keeps(choice)]
            without = [choice for choice in self.measured if not keeps(choice)]
            if with_it and without:
                found[name] = (with_it[0], without[0])
        return found


def kind_of(choice: Choice) -> tuple[Any, ...]:
    terms = choice.agreement.agreement
    return terms.mechanism, terms.rule, terms.iterate, terms.window, choice.agreement.answers, choice.start

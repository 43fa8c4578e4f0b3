"""What a rule is: all that anybody needs to know of how the learner moves, behind one seam.

A rule that says no more than `name` and `update` can be agreed, simulated, forecast (simulated) and served. One that
says `ways` can be planned; one that says its `recursion` is forecast exactly; one that says `bounds` is held against
its theorems.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float

from copriv.rules.bounds import Bound, Setting
from copriv.rules.descent import Descent, UpdateRule
from copriv.rules.recursion import InRounds, Recursion
from copriv.terms import AgreedTerms, Terms
from copriv.types import Array


@dataclass(frozen=True)
class Way:
    """One way in which a plan may use a rule: what is priced is m answers of each owner, at an agreed step of 1.

    Either `rounds` gives the recursion of m rounds of all owners, or `turns` the rule itself for participants of given
    weights, which is then run once on the table's curvatures, without clipping or box.

    >>> from copriv.rules import named
    >>> tuple(way.name for way in named("S2").ways)
    ('S2', 'S2 last')
    """

    name: str
    rule: str
    together: bool
    """Whether everybody answers in each step."""
    rounds: Callable[[int], InRounds] | None = None
    turns: Callable[[Float[Array, " participants"]], UpdateRule] | None = None
    one_by_one: bool = False
    """Rounds in which owners answer one at a time, and the model moves once all have: N times the agreed step."""
    terms: tuple[tuple[str, Any], ...] = ()
    """Keys of [agreement] that say so, where they are not as by default."""


class Rule(ABC):
    """How the learner moves. `agreed` is always the terms in which this rule is named.

    >>> from copriv.rules import ALL
    >>> {rule.name: rule.together for rule in ALL}
    {'S1': True, 'S2': True, 'A1': False, 'A2': False}
    """

    name: str
    """Its value of `agreement.rule`."""
    together: bool = False
    """Whether everybody answers in each step (synchronous), or one participant at a time."""
    several_at_once: bool = False
    """Whether several participants may be at work at once: an answer may be of a θ that the learner has left."""
    step: str = "step"
    """The papers' symbol for `agreement.step`."""
    ways: tuple[Way, ...] = ()
    """Ways in which a plan may use it; empty where it cannot be planned."""
    why_not_planned: str = ""

    @property
    def counted_in(self) -> str:
        """The unit of k, in a heading."""
        return "rounds" if self.together else "queries"

    @property
    def axis(self) -> str:
        """The label of an axis of k."""
        return "k: rounds" if self.together else "k: queries answered"

    @abstractmethod
    def update(
        self,
        agreed: AgreedTerms,
        descent: Descent,
        weights: Float[Array, " participants"],
        shares: Float[Array, " participants"] | None = None,
    ) -> UpdateRule:
        """The rule itself, for participants of these weights.

        shares: how often each talks, where that is not evenly; for rules that make up for it.
        Raises InvalidInput for terms that it cannot be run with.
        """

    def variant(self, terms: Terms) -> str:
        """Which of its variants is agreed, in words; empty for the usual one."""
        return ""

    def way(self, terms: Terms) -> Way | None:
        """The way that is agreed; None where it cannot be planned."""
        return self.ways[0] if self.ways else None

    def recursion(self, agreed: AgreedTerms) -> Recursion | None:
        """Its linear recursion, which exact forecasts follow; None: forecasts are simulated."""
        return None

    def bounds(self, setting: Setting) -> tuple[Bound, ...]:
        """The theorems' bounds for this rule."""
        return ()

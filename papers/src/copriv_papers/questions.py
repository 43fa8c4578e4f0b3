"""What the papers remark or leave open, in their order, and what is made of it here: built, in part, or not."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["built", "built in part", "not built"]


@dataclass(frozen=True)
class Question:
    """A remark or an open question."""

    place: str
    """The paper's letter, and where: "S, §V"."""
    asks: str
    """In the paper's words, shortened."""
    status: Status
    here: str
    """What there is of it, or in its place."""
    page: str
    """The page that tells of it, below docs/, with an anchor unless all of it does."""


_GRAPH = "`graph`: each owner has a model and mixes those of neighbours; simulated, forecast, and run over a network by relay."
_MARKET = (
    "`copriv market`: by what owners state, who joins, at which ε, and who pays whom, under five mechanisms; "
    "two bear lies."
)
_LIARS = (
    "`robust`: owners that lie are borne by S1 and S2, and missing noise is found out; not by A1, A2 or one answer."
)

QUESTIONS: tuple[Question, ...] = (
    Question("S, §I", "Better bounds for other private algorithms; those proved need not be best.", "built in part",
             "Exact costs in place of bounds, and other rules and mechanisms; no lower bound for every algorithm.",
             "explanation/mechanisms.md#what-to-choose"),
    Question("S, §I", "Finding records that owners have in common, without telling of the others.", "not built",
             "How many owners may hold one record is agreed, and noise is made for it.",
             "reference/agreement-file.md#overlap"),
    Question("S, Remark 1", "Regression, support vector machines and neural networks are all of form (1).", "built in part",
             "Squared, logistic, hinge and Huber losses of linear models; no networks.", "reference/agreement-file.md#loss"),
    Question("S, §V", "Owners can be learners themselves, each with a model of its own and no noise on its own part.", "built",
             "`copriv own-learners`, `copriv owner learn`: from one private answer of each.",
             "reference/command-line.md#copriv-own-learners-agreement"),
    Question("S, §V", "Multiple learners over an arbitrary connected communication network.", "built", _GRAPH,
             "explanation/owners-on-a-graph.md"),
    Question("S, §V", "A data market: learners compensate owners for larger budgets.", "built", _MARKET,
             "explanation/data-market.md"),
    Question("S, §V", "Asynchronous updates by a subset of the owners.", "built", "Rules A1 and A2.",
             "explanation/rules.md#two-asynchronous-rules"),
    Question("S, §V", "More general adversaries than curious-but-honest ones.", "built in part", _LIARS,
             "explanation/lying-owners.md"),
    Question("A, §I", "Incentives for a learner that is not trusted to follow the algorithm.", "built in part",
             "No incentives; by a run's signed record `copriv verify` finds a learner that did not follow the rule.",
             "explanation/security.md#what-a-run-proves"),
    Question("A, §I", "(ε, δ) and its trade-off.", "built", "Three mechanisms with δ, and a figure of T, ε and both noises.",
             "explanation/mechanisms.md#approximate-privacy"),
    Question("A, Remark 1", "Noise and generalisation error, with data that are not i.i.d.", "built",
             "ψ on new records is forecast, and each figure has it on held-out records.",
             "explanation/cost-of-privacy.md#on-new-records"),
    Question("A, §III", "Broadcast by the learner, or requests by owners.", "built",
             "`schedule` of the agreement, simulated, forecast exactly, and kept over the network.",
             "explanation/rules.md#who-is-next-broadcast-and-request"),
    Question("A, Remark 2", "Fixed sets of owners that answer together are one larger fictitious owner.", "built",
             "`group` and `group_size`, with an exact forecast.", "decisions/0012-groups-of-a-size.md"),
    Question("A, §VI", "Generalisation error, with data that are not i.i.d. or unbalanced.", "built",
             "Forecast for owners that differ, and measured on real tables.", "reference/unlike-owners.md"),
    Question("A, §VI", "Multiple learners on arbitrary connected graphs.", "built", _GRAPH,
             "explanation/owners-on-a-graph.md"),
    Question("A, §VI", "Behaviour in a data market, and compensation for larger budgets.", "built", _MARKET,
             "explanation/data-market.md"),
    Question("A, §VI", "More sophisticated adversaries.", "built in part", _LIARS, "explanation/lying-owners.md"),
)  # fmt: skip

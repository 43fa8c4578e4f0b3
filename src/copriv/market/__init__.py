"""A data market: owners state what privacy costs them and accuracy is worth; who joins, at which ε, and who pays whom.

    offer = market(agreement)                  # each [[owner]] has a table `market`
    offer["shapley"].payment                   # money to each owner; negative: from it
    offer.proposed("shapley")                  # the agreement of those who answer

Five mechanisms are offered side by side, since balance, participation, efficiency and truth exclude each other
(docs/explanation/data-market.md). Everything is in forecast, from public information and what owners state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.forecast import forecast
from copriv.forecast.assessment import RUNS
from copriv.forecast.coalition_value import Consortium
from copriv.formatting.cards import Columns, Framed, Shown, Written
from copriv.market.allocation import Statements
from copriv.market.costs import PrivacyCosts
from copriv.market.mechanisms import Outcome, Trade, common, equal, even_epsilon, exchange, posted, shapley
from copriv.types import Array

__all__ = ["MECHANISMS", "Market", "Outcome", "Statements", "check", "lots", "market", "unstated"]

MECHANISMS: dict[str, tuple[str, str]] = {
    "shapley": ("the efficient allocation, shared by Shapley values", "truth"),
    "equal": ("the efficient allocation, shared equally", "truth"),
    "common": ("one epsilon at which every owner may join, and nobody pays", "efficiency, and truth"),
    "posted": ("lots at prices that a third group posts", "efficiency"),
    "exchange": ("lots for lots at one epsilon agreed before, and nobody pays", "efficiency"),
}
"""Description of each mechanism, and which of balance, participation, efficiency and truth it lacks."""


@dataclass(frozen=True, eq=False)
class Market(Shown, Framed, Written):
    """Who joins, at which ε, and who pays whom, under five mechanisms side by side.

    >>> wanted = agreement.replace(owner={"market": {"privacy_cost": {"threshold": 1.0, "above": 9.0}, "worth": 0.0}})
    >>> offer = copriv.market(wanted, public, runs=10)
    >>> all(abs(one.payment.sum()) < 1e-6 for one in offer.outcomes)
    True
    """

    _teller: ClassVar[str] = "copriv.display.market:card"

    agreement: Agreement
    statements: Statements
    lot: float
    """L: records of a lot (mechanism "posted")."""
    lots: Float[Array, " owners"]
    """L_i: records of each owner's lot (mechanism "exchange")."""
    lot_epsilon: float
    """ε of a lot there."""
    outcomes: tuple[Outcome, ...]
    """Outcome of each mechanism, in the order of MECHANISMS."""
    trades: tuple[Trade, ...]
    """Trades of the mechanism "posted"."""

    @classmethod
    def of(
        cls, terms: Agreement, members: Consortium, of_lots: Consortium, public_only: float, seed: int = 0
    ) -> "Market":
        """The market of an agreement whose owners, and those of `lots(agreement)`, are forecast.

        public_only: ψ of the public model in the forecast of the lots.
        """
        costs = [owner.market.privacy_cost for owner in terms.owner if owner.market]
        worth = [owner.market.worth for owner in terms.owner if owner.market]
        members = members.one_by_one()
        stated = Statements.of(members, PrivacyCosts.of(costs, members.epsilon.tolist()), worth)
        first = shapley(stated, seed)
        # What is dealt in lots weighs with nothing that others state: the closed forms of owners of one lot each.
        alike, n, N = of_lots.one_by_one(), members.records, len(members.records)
        priced = replace(members, information=alike.information, curve=alike.curve, spread=alike.spread, without=None)
        lot, v = float(alike.records[0]), n / n.sum()
        public = public_only + alike.information * (1.0 / (N * lot) - 1.0 / n.sum())
        public += alike.spread * (float(v @ v) - 1.0 / N)
        priced = replace(priced, without=np.minimum(priced.alone(), max(public, 0.0)))
        alone = Statements.of(priced, stated.costs, worth)
        sold, trades = posted(alone, lot)
        lots = np.array([table.lot or lot for table in terms.owner], dtype=np.float64)
        ε = terms.agreement.lot_epsilon or even_epsilon(alone, lots)

        def beside(found: Outcome) -> Outcome:
            """The outcome with the model that each owner has as it was forecast, and not on the scale of lots."""
            less = np.where(found.uses, alone.members.without_joining - found.fitness, 0.0)
            return replace(found, fitness=np.maximum(members.without_joining - less, 0.0))

        dealt = beside(sold), beside(exchange(alone, lots, ε))
        found = first, equal(stated, first), common(stated), *dealt
        return cls(terms, stated, lot, lots, ε, found, trades)

    def __getitem__(self, mechanism: str) -> Outcome:
        """The outcome of a mechanism, by its name."""
        return self.outcomes[list(MECHANISMS).index(mechanism)]

    def efficiency(self, outcome: Outcome) -> float:
        """The surplus as a share of that of the efficient allocation; 1 where there is nothing to be had."""
        best = self.outcomes[0].surplus
        return outcome.surplus / best if best > 0 else 1.0

    def proposed(self, mechanism: str = "shapley") -> Agreement | None:
        """The agreement of the owners who answer, at the proposed ε and without what they stated.

        None for "posted", whose three trades are three runs, and where nobody answers. In an exchange the records are lots.
        """
        ε = self[mechanism].epsilon
        if mechanism == "posted" or not (ε > 0).any():
            return None
        owners = [
            {
                **owner.model_dump(exclude_none=True),
                "epsilon": float(spent),
                "records": int(lot) if mechanism == "exchange" else owner.records,
                "overlap": min(owner.overlap, int((ε > 0).sum())),
            }
            for owner, spent, lot in zip(self.agreement.owner, ε, self.lots, strict=True)
            if spent > 0
        ]
        return unstated(self.agreement.replace(owner=owners))

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        return {"owners": self._owners}

    def _owners(self) -> Columns:
        rows = [{"mechanism": name, **row} for name in MECHANISMS for row in self._rows(self[name])]
        return {key: [row[key] for row in rows] for key in rows[0]}

    def _rows(self, outcome: Outcome) -> list[dict[str, Any]]:
        keys = ("epsilon", "fitness", "gain", "privacy_cost", "payment", "error", "net")
        columns = {"answers": outcome.epsilon > 0, "uses_model": outcome.uses} | {k: getattr(outcome, k) for k in keys}
        names = self.agreement.owner_names
        return [
            {"name": names[i]} | {key: column[i].item() for key, column in columns.items()} for i in range(len(names))
        ]

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract `copriv.market/1`; money in the unit of the statements."""
        names, m = self.agreement.owner_names, self.statements.members
        made = []
        for name, (what, given_up) in MECHANISMS.items():
            outcome = self[name]
            made.append(
                {
                    "name": name, "what": what, "gives_up": given_up, "surplus": outcome.surplus,
                    "efficiency": self.efficiency(outcome), "owners": self._rows(outcome),
                    "payments": [{"from": names[i], "to": names[j], "amount": a} for i, j, a in outcome.transfers()],
                }
            )  # fmt: skip
        stated = [
            {"name": name, "records": int(m.records[i]), "most_epsilon": float(m.epsilon[i]),
             "worth": float(self.statements.worth[i]), "without": float(m.without_joining[i]), "lot": float(self.lots[i])}
            for i, name in enumerate(names)
        ]  # fmt: skip
        trades = [
            {"epsilon": t.epsilon, "price": t.price, "fee": t.fee, "sellers": [names[i] for i in t.sellers],
             "buyers": [names[i] for i in t.buyers]}
            for t in self.trades
        ]  # fmt: skip
        return {
            "schema": "copriv.market/1", "lot": self.lot, "lot_epsilon": self.lot_epsilon, "owners": stated,
            "mechanisms": made, "trades": trades,
        }  # fmt: skip


def market(
    agreement: Agreement | str | Path | Mapping[str, Any], public: Any = None, *, runs: int = RUNS, seed: int = 0
) -> Market:
    """Weigh what owners state, `owner.market`, by a forecast from public information only, under five mechanisms.

    agreement, public, runs, seed: as in `forecast`. Each owner's `epsilon` is the most that it spends.
    Raises AgreementError where an owner states nothing, or answers are not averaged by one learner that sees each of them,
    and as `forecast` does.

    >>> wanted = agreement.replace(owner={"market": {"privacy_cost": {"linear": 10.0}, "worth": 10_000.0}})
    >>> offer = copriv.market(wanted, public, runs=10)
    >>> offer["shapley"].net.min() >= 0 and offer.efficiency(offer["posted"]) <= 1
    True
    """
    terms = Agreement.given(agreement)
    check(terms)
    outlook, of_lots = (forecast(one, public, runs=runs, seed=seed) for one in (terms, lots(terms)))
    return Market.of(outlook.problem.terms, outlook.consortium, of_lots.consortium, of_lots.public_only, seed)


def unstated(terms: Agreement) -> Agreement:
    """The agreement without what its owners state, which decides nothing in a forecast."""
    return terms.replace(agreement={"lot": None, "lot_epsilon": None}, owner={"market": None, "lot": None})


def lots(terms: Agreement) -> Agreement:
    """Agreement of as many owners with one lot each and ε = 1: its forecast prices lots whatever n and ε are stated."""
    lot = terms.agreement.lot or int(terms.records.min())
    return unstated(terms).replace(owner={"records": lot, "epsilon": 1.0, "weight": None})


def check(terms: Agreement) -> None:
    """Raise AgreementError unless the agreement has a market that can be weighed."""
    silent = [table.name for table in terms.owner_tables if table.market is None]
    if silent:
        raise AgreementError(
            f"owner.market: {silent[0]} states neither what privacy costs it nor what accuracy is worth; give every owner "
            "market = { privacy_cost = { linear = 100.0 }, worth = 5000.0 }, in its own numbers"
        )
    most = 40  # Shapley values of more would take minutes
    if not 2 <= terms.n_owners <= most:
        raise AgreementError(f"owner: {terms.n_owners:,} owners; a market is of 2 to {most}")
    terms.check_one_phase()
    kind = next((key for key in ("graph", "robust") if getattr(terms.agreement, key) is not None), None)
    if terms.summed or kind:
        raise AgreementError(
            f"agreement.{kind or 'aggregation'}: a market weighs answers that one learner sees and averages; leave the key out"
        )
    smallest = int(np.min(terms.records))
    if (terms.agreement.lot or 0) > smallest:
        raise AgreementError(
            f"agreement.lot: an owner has {smallest:,} records; a lot is of no more than every owner has"
        )
    larger = next((table for table in terms.owner_tables if (table.lot or 0) > table.records), None)
    if larger is not None:
        raise AgreementError(
            f"owner.lot: {larger.name} is known to have {larger.records:,} records, and its lot is {larger.lot:,}; give at "
            f"most {larger.records}, or leave lot out"
        )

"""A data market in tables: the five mechanisms side by side, then each owner's part in one of them."""

from copriv.formatting.cards import Card, Table
from copriv.formatting.numbers import counted, listed, percent, plain_number, yes_or_no
from copriv.formatting.sanitize import printable
from copriv.market import MECHANISMS, Market

CAUTION = (
    "What owners state is read by all parties, and no differential privacy protects it. A cost of privacy, or its change, may "
    "tell something about records: that they are few, rare or embarrassing."
)


def card(offer: Market) -> Card:
    """Card of a market: its mechanisms, and who joins under the efficient one."""
    return Card(
        f"Market: {counted(offer.statements.number, 'owner')}", (mechanisms(offer), *_one(offer, "shapley"), CAUTION)
    )


def told(offer: Market, mechanism: str | None = None) -> tuple[str | Table, ...]:
    """The mechanisms, one of them owner by owner (the efficient one with Shapley shares unless named), and the cautions."""
    name = mechanism or "shapley"
    return (
        _answer(offer), mechanisms(offer), *_one(offer, name),
        "In forecast, from public rows and what is stated; money in the unit of the statements. Above the best: how much worse "
        "the model that the owner uses is than the best possible one, on everybody's records. Owners that differ may gain "
        "less on their own: copriv forecast of the proposed agreement (--out DIR) says what each of them would.",
        CAUTION,
    )  # fmt: skip


def _names(offer: Market) -> list[str]:
    return [printable(name, 60) for name in offer.agreement.owner_names]


def _answer(offer: Market) -> str:
    best, names = offer.outcomes[0], _names(offer)
    answering = [names[i] for i in range(len(names)) if best.epsilon[i] > 0]
    if not answering:
        return "By what is stated, no trade saves anybody anything: privacy costs more than accuracy is worth."
    honest = max(offer.efficiency(offer[name]) for name in ("posted", "exchange"))
    return (
        f"By what is stated, {listed(answering)} should answer, and all together are better off by "
        f"{plain_number(best.surplus)}. Where lying must not pay, {percent(honest)} of that is left."
    )


def mechanisms(offer: Market) -> Table:
    """One row a mechanism: who answers, who uses a model, what is saved, and what is given up."""

    def cells(name: str) -> tuple[str, ...]:
        outcome, (what, given_up) = offer[name], MECHANISMS[name]
        answers, uses = int((outcome.epsilon > 0).sum()), int(outcome.uses.sum())
        return (
            f"{name}: {what}",
            f"{answers}",
            f"{uses}",
            plain_number(outcome.surplus),
            percent(offer.efficiency(outcome)) if offer.outcomes[0].surplus > 0 else "",
            given_up,
        )

    return Table.of(
        ("mechanism", "answer", "use it", "saved", "of the best", "gives up"), list(MECHANISMS), cells, "mechanisms"
    )


def _one(offer: Market, mechanism: str) -> tuple[str | Table, ...]:
    outcome, names = offer[mechanism], _names(offer)

    def cells(i: int) -> tuple[str, ...]:
        ε, error = outcome.epsilon[i], float(outcome.error[i])
        return (
            names[i], plain_number(ε) if ε > 0 else "does not answer", yes_or_no(outcome.uses[i]), percent(outcome.fitness[i]),
            plain_number(outcome.gain[i]), plain_number(outcome.privacy_cost[i]),
            plain_number(outcome.payment[i]) + f" ± {plain_number(error)}" * (error > 0), plain_number(outcome.net[i]),
        )  # fmt: skip

    head = ("owner", "epsilon", "uses the model", "above the best", "worth", "privacy costs", "paid", "better off by")
    made: list[str | Table] = [f"Under {mechanism}:", Table.of(head, range(len(names)), cells, "owners")]
    paid = [f"{names[i]} pays {names[j]} {plain_number(amount)}" for i, j, amount in outcome.transfers()]
    if paid:
        made.append(
            "; ".join(paid[:8]) + (f"; and {len(paid) - 8} more payments (--json)" if len(paid) > 8 else "") + "."
        )
    return tuple(made)

"""How a run went, from its agreement and its lines alone: the record in a model's file, and how `verify` makes it anew."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from copriv.agreement import Agreement
from copriv.data.dictionary import PublicDictionary
from copriv.network.model import Model
from copriv.network.run import Run
from copriv.network.run_state import Conductor


def record_of(run: Run, head: str, public: Any = None, forecast: Any = None) -> dict[str, Any]:
    """The record of a model that is made after the line with this hash.

    public: what the learner's public rows say of the model. forecast: what was expected of the run. Both do not follow
    from the run: whoever reads them has them on the learner's word.
    """
    agreement, mechanism = run.agreement, run.agreement.mechanism
    seconds, owners = round(run.ended - run.began, 3), list[dict[str, Any]]()
    for terms in agreement.owner:
        party = run.parties[terms.name]
        ε, δ = mechanism.spent_after(agreement, terms, party.answered)
        owners.append(
            {
                "name": terms.name,
                "records": terms.records,
                "epsilon": terms.epsilon,
                "delta": terms.delta,
                "answers": party.answered,
                "most_answers": agreement.answers,
                "lost": party.lost,
                "spent": float(ε),
                "spent_delta": float(δ),
                "noise_scale": mechanism.scale(agreement, terms),
            }
        )
    come = counted(agreement, [owner["answers"] for owner in owners], run.stepped)
    return {
        "run": run.name,
        "head": head,
        "rule": agreement.agreement.rule,
        "mechanism": agreement.agreement.mechanism,
        "talk": run.talk,
        "status": run.status,
        "outcome": run.outcome,
        "queries": run.stepped,
        "agreed_queries": agreement.queries,
        "seconds": seconds,
        "finished_at": datetime.fromtimestamp(run.ended, UTC).isoformat(timespec="seconds"),
        "owners": owners,
        "realised": {**come, "seconds": seconds, "public": public},
        "forecast": forecast,
    }


def signed_model(
    conductor: Conductor, dictionary: PublicDictionary | None, public: Any = None, forecast: Any = None
) -> Model:
    """The model of a run as it stands, signed by the learner in the run's file; see `record_of`."""
    record = record_of(conductor.run, conductor.store.head, public, forecast)
    model = Model(conductor.agreement, conductor.model, dictionary, record)
    conductor.sign_model(model.digest)
    return model


def counted(agreement: Agreement, answers: Sequence[int], queries: int) -> dict[str, Any]:
    """What so many answers of each owner, and so many queries, come to, by owner."""
    spent = [
        agreement.mechanism.spent_after(agreement, owner, m) for owner, m in zip(agreement.owner, answers, strict=True)
    ]
    names = agreement.owner_names
    return {
        "queries": queries,
        "answers": dict(zip(names, answers, strict=True)),
        "epsilon": {name: float(ε) for name, (ε, _) in zip(names, spent, strict=True)},
        "delta": {name: float(δ) for name, (_, δ) in zip(names, spent, strict=True)},
        "noise_scale": {owner.name: agreement.mechanism.scale(agreement, owner) for owner in agreement.owner},
    }

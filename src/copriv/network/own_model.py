"""An owner's own model from a run's file, with its exact records in place of its own private answer.

Where every owner answers once, any party that has the run's file can learn from the answers as often as it likes
(post-processing), so that the party that collected them has no advantage. The file is verified first, as by
`copriv verify`. The result depends on this owner's records without noise, and must not be released.
"""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from copriv.errors import AgreementError, InvalidInput
from copriv.losses import by_name
from copriv.mechanisms import OneAnswer
from copriv.mechanisms.one_answer import Common, feature_bound_of
from copriv.model.fitness import Regularizer
from copriv.model.objective import FeasibleSet
from copriv.network.model import Model
from copriv.network.run import Trajectory
from copriv.network.setup import owner_records
from copriv.network.store import RunStore
from copriv.network.verify import verify_run
from copriv.types import Array


def own_model(
    run: str | Path,
    model: str | Path,
    name: str,
    table: object,
    authority: bytes | None = None,
    unfinished: bool = False,
) -> Model:
    """The model of owner `name`, from the other owners' answers in a run's file and its own table.

    run: the file of `copriv learner --store`. model: the common model's file, for the public dictionary.
    authority: the consortium's certificate (PEM) from the owner's own keys; the one in the file when None.
    unfinished: accept a run that did not finish (`Model.load`).
    Guarantee: none for this owner's records towards whoever sees the result; the other owners keep theirs. It costs no
    budget because nothing is released. Raises AgreementError where owners answer more than once, InvalidInput for a run
    that does not verify or did not finish, DataError for a table that is not as agreed.
    """
    RunStore.read(run).close()  # reports a missing run before a missing model
    common = Model.load(model, unfinished)
    agreed, mechanism = common.agreement, common.agreement.mechanism
    if not isinstance(mechanism, OneAnswer):
        raise AgreementError(
            f'agreement.mechanism: "{mechanism.name}" answers many times, at points that depend on every answer, so no own '
            "part can be exchanged afterwards; owners that learn for themselves agree on one answer (copriv own-learners)"
        )
    verdict = verify_run(
        run, None if "phases" in common.record else agreed, authority, model
    )  # the pilot has other terms
    if not verdict.ok:
        raise InvalidInput(f"{run}: does not verify, so nothing is learned from it: {verdict.problems[0]}")
    records, _ = owner_records(agreed, name, table, common.dictionary)
    owner, p = agreed.terms_of(name), len(common.theta)
    shared = Common(
        by_name(agreed.model.loss, agreed.model.threshold), p, feature_bound_of(agreed), agreed.preconditioner,
        Regularizer(agreed.model.regularization), FeasibleSet(agreed.model.theta_max),
    )  # fmt: skip
    with closing(RunStore.read(run)) as store:
        begun = max(event.number for event in store.events("begun"))
        steps = (event for event in store.events("stepped") if event.number > begun)
        used = {owner for event in steps for owner in event.data["owners"]}
        answers: dict[str, Array] = {}
        for event in store.events("answer"):
            if event.number > begun and event.data["owner"] in used:
                answers.setdefault(event.data["owner"], event.numbers)  # the first answer moved the model
    answers[name] = mechanism.exact(agreed, owner, records, shared)
    trajectory = Trajectory(agreed, p, "choose")
    for i, one in enumerate(agreed.owner_names):
        if one in answers:
            trajectory.step(i, {one: answers[one]})
    note = {
        "owner": name,
        "answers_of": [one for one in agreed.owner_names if one in answers and one != name],
        "private": False,
        "note": "Made by an owner from its own records and the others' private answers, for itself. No budget was spent "
        "because nothing is released: this file must not leave.",
    }
    return replace(common, theta=trajectory.model, record={**common.record, "learned_at_home": note})

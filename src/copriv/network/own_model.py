"""What an owner learns for itself from a run's file: its exact records in the place of its own private answer.

Every owner answered once, for everybody. Any party that is given the run's file can learn from those answers without end
(post-processing), so nobody needs to be *the* learner: whoever collected the answers has nothing that the others have not.
The file is checked first as `copriv verify` does it. What comes out holds this owner's records without noise; it is the
owner's own and must stay with it.
"""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

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


def own_model(
    run: str | Path,
    model: str | Path,
    name: str,
    table: object,
    authority: bytes | None = None,
    unfinished: bool = False,
) -> Model:
    """The model of owner `name`, from everybody else's answers in a run's file and its own table.

    run: the file of `copriv learner --store`. model: the common model's file, for the public dictionary.
    authority: the consortium's certificate (PEM) from the owner's own keys; without it, the one that the file names.
    unfinished: learn from a run that did not finish as well (`Model.load`).
    Guarantee: none towards who sees the result; the answers of others keep theirs. It costs no budget because nothing is
    released. Raises AgreementError where owners answer more than once, InvalidInput for a run that does not verify or did
    not finish, DataError for a table that is not as agreed.
    """
    common = Model.load(model, unfinished)
    agreed, mechanism = common.agreement, common.agreement.mechanism
    if not isinstance(mechanism, OneAnswer):
        raise AgreementError(
            f'agreement.mechanism: "{mechanism.name}" answers many times, at points that depend on every answer, so no own '
            "part can be exchanged afterwards; owners that learn for themselves agree on one answer (copriv own-learners)"
        )
    verdict = verify_run(run, agreed, authority, model)
    if not verdict.ok:
        raise InvalidInput(f"{run}: does not verify, so nothing is learned from it: {verdict.problems[0]}")
    records, _ = owner_records(agreed, name, table, common.dictionary)
    terms, p = agreed.agreement, len(common.theta)
    owner = agreed.terms_of(name)
    matrix = None if terms.preconditioner is None else np.array(terms.preconditioner)
    shared = Common(
        by_name(agreed.model.loss, agreed.model.threshold), p, feature_bound_of(agreed), matrix,
        Regularizer(agreed.model.regularization), FeasibleSet(agreed.model.theta_max),
    )  # fmt: skip
    with closing(RunStore.read(run)) as store:
        used = {owner for event in store.events("stepped") for owner in event.data["owners"]}
        # The last in the dictionary counts, and the first answer is the one that moved the model.
        answers = [event for event in store.events("answer") if event.data["owner"] in used]
        given = {event.data["owner"]: event.numbers for event in reversed(answers)}
    given[name] = mechanism.exact(agreed, owner, records, shared)
    trajectory = Trajectory(agreed, p, "choose")
    for i, one in enumerate(agreed.owner_names):
        if one in given:
            trajectory.step(i, {one: given[one]})
    note = {
        "owner": name,
        "answers_of": [one for one in agreed.owner_names if one in given and one != name],
        "private": False,
        "note": "Made by an owner from its own records and the others' private answers, for itself. No budget was spent "
        "because nothing is released: this file must not leave.",
    }
    return replace(common, theta=trajectory.model, record={**common.record, "learned_at_home": note})

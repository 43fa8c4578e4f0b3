"""Where a run stood when its store was last committed: the same rule, the same answers, the same order."""

import numpy as np

from copriv.network.store import Event, RunStore, StoreFailed
from copriv.network.trajectory import Trajectory
from copriv.network.turns import Asked, Turn, Turns
from copriv.protocol import Query
from copriv.types import Array


def replay(store: RunStore, turns: Turns, trajectory: Trajectory) -> dict[str, Asked]:
    """Bring turns and trajectory from their start to where the store is; every query that was made, by its identity.

    Raises StoreFailed for a store that does not replay to itself.
    """
    asked = _asked(store, turns)
    newest: dict[int, dict[str, Query]] = {}
    for one in asked.values():
        newest.setdefault(one.turn, {})[one.query.owner] = one.query
    given = _given(store, turns, asked)
    points = store.turns()
    for event in store.events("refused", "contradicted", "failed", "certified"):
        _remember(event, turns)
    for event in store.events("asked", "stepped", "abandoned"):
        number = int(event.data["turn"])
        participant, θ = points[number]
        if event.kind == "asked":
            if trajectory.query(participant).tobytes() != θ.tobytes():
                raise StoreFailed(
                    f"run: turn {number} does not follow from the turns before it; the file is damaged, or was begun by "
                    "another version of copriv"
                )
            turns.open[participant], turns.opened = Turn(number, participant, np.array(θ), opened=turns.now), number
            continue
        turn = turns.open.pop(participant)
        if event.kind == "stepped":
            trajectory.step(turn.participant, {name: given[number][name] for name in event.data["owners"]})
            turns.step(turn.participant)
    for turn in turns.open.values():
        turn.answers = given.get(turn.number, {})
        turn.waiting = {o: q for o, q in newest[turn.number].items() if o not in turn.answers}
    return asked


def _asked(store: RunStore, turns: Turns) -> dict[str, Asked]:
    asked = {}
    for number, sequence, query in store.queries():
        asked[query.identity] = Asked(number, query)
        party = turns.parties[query.owner]
        party.asked = max(party.asked, sequence)
    return asked


def _given(store: RunStore, turns: Turns, asked: dict[str, Asked]) -> dict[int, dict[str, Array]]:
    """The answers to each turn. The first one was used; one under another name, to the same turn, came too late."""
    given: dict[int, dict[str, Array]] = {}
    for answer in store.answers():
        one, party = asked[answer.identity], turns.parties[answer.owner]
        one.answer = answer.gradient.tobytes()
        party.answered, party.chain_head = max(party.answered, answer.answered), answer.chain_head
        party.counts.add(answer.answered)
        given.setdefault(one.turn, {}).setdefault(answer.owner, answer.gradient)
    return given


def _remember(event: Event, turns: Turns) -> None:
    party = turns.parties[event.data["owner"]]
    if event.kind == "certified":
        party.certificate = event.data["certificate"]
        return
    party.refusals += event.kind == "refused"
    party.lost += event.data.get("code") == "lost"
    if event.kind != "refused":
        party.barred, party.out = True, "what it sent before"

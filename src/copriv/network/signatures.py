"""Who said what: what the learner and the owners put their names to, so that somebody who was not there can check it.

The learner signs each query, with the run's name and what its record of the run stood at (`store`). An owner signs each
answer together with the query that it answers, so that no answer can be moved to another query, point, run or history.
At the end it signs how many answers it gave, together with what the learner's record then stood at. Both sign the very
bytes that are sent, but for the signature.
"""

import hashlib
from dataclasses import replace

from copriv.network.keys import Keys
from copriv.network.messages import Closing, encode
from copriv.protocol import Answer, Query


def query_content(run: str, query: Query) -> bytes:
    """What the learner signs of a query."""
    return b"copriv query\0" + run.encode() + b"\0" + encode(replace(query, signature=""))


def answer_content(run: str, query: Query, answer: Answer) -> bytes:
    """What an owner signs of an answer."""
    asked = hashlib.sha256(query_content(run, query)).digest()
    return b"copriv answer\0" + asked + encode(replace(answer, signature=""))


def closing_content(run: str, owner: str, fingerprint: str, closing: Closing) -> bytes:
    """What an owner signs of its count at the end of a run."""
    whose = "\0".join(("copriv closing", run, owner, fingerprint, ""))
    return whose.encode() + encode(replace(closing, signature=""))


def signed_query(keys: Keys | None, run: str, query: Query) -> Query:
    """The query with the learner's signature; without keys, as it is."""
    return query if keys is None else replace(query, signature=keys.sign(query_content(run, query)))


def signed_answer(keys: Keys | None, run: str, query: Query, answer: Answer) -> Answer:
    """The answer with the owner's signature; without keys, as it is."""
    return answer if keys is None else replace(answer, signature=keys.sign(answer_content(run, query, answer)))
